//! A database a test, on SQLite and on PostgreSQL.
//!
//! [`on_every_database!`](crate::on_every_database) runs tests on both. PostgreSQL is the server of `AGENTSVILLE_TEST_POSTGRES` (the address of a
//! database whose user may create others), else one that the first test starts for all. A test's database is copied from a
//! template that was migrated once, and dropped when the test ends, however it ends.

#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "what a test stands on fails by panicking, which fails the test"
)]

use std::{
    fs,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    os::unix::fs::MetadataExt as _,
    panic::{AssertUnwindSafe, resume_unwind},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
};

use futures::FutureExt as _;
use kernel::Secret;
use store::Store;
use tempfile::TempDir;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::shared_server::{Server, lock, run, setting};

/// Runs each test on SQLite and on PostgreSQL, each time on a migrated database of its own:
/// `on_every_database! { async fn a_row_is_kept(store: Store) { … } }`.
///
/// The tests are called `sqlite::a_row_is_kept` and `postgres::a_row_is_kept`, so a module holds one such block. The argument
/// may be a `store::Store`, a `store::Config` (to open the same database again) or a pair of both.
#[macro_export]
macro_rules! on_every_database {
    ($($(#[$meta:meta])* async fn $name:ident($($argument:tt)+) $body:block)+) => {
        $crate::on_databases! { Migrated; $($(#[$meta])* async fn $name($($argument)+) $body)+ }
    };
}

/// Like [`on_every_database!`](crate::on_every_database), without a schema.
#[macro_export]
macro_rules! on_every_empty_database {
    ($($(#[$meta:meta])* async fn $name:ident($($argument:tt)+) $body:block)+) => {
        $crate::on_databases! { Empty; $($(#[$meta])* async fn $name($($argument)+) $body)+ }
    };
}

/// What both macros become.
#[doc(hidden)]
#[macro_export]
macro_rules! on_databases {
    ($schema:ident; $($(#[$meta:meta])* async fn $name:ident($($argument:tt)+) $body:block)+) => {
        $($(#[$meta])* async fn $name($($argument)+) $body)+

        mod sqlite {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $name() {
                    $crate::database::on_sqlite($crate::database::Schema::$schema, super::$name).await;
                }
            )+
        }

        mod postgres {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $name() {
                    $crate::database::on_postgres($crate::database::Schema::$schema, super::$name).await;
                }
            )+
        }
    };
}

/// What a test's database starts with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Schema {
    /// Every migration has run.
    Migrated,
    /// Nothing has.
    Empty,
}

/// An open database of a test.
#[derive(Debug)]
pub struct TestDatabase {
    store: Store,
    config: store::Config,
    tracker: TaskTracker,
    ended: CancellationToken,
    place: Place,
}

#[derive(Debug)]
enum Place {
    Directory(TempDir),
    Server { admin: String, name: String },
}

impl From<&TestDatabase> for Store {
    fn from(database: &TestDatabase) -> Self {
        database.store.clone()
    }
}

impl From<&TestDatabase> for store::Config {
    fn from(database: &TestDatabase) -> Self {
        database.config.clone()
    }
}

impl From<&TestDatabase> for (Store, store::Config) {
    fn from(database: &TestDatabase) -> Self {
        (database.into(), database.into())
    }
}

impl TestDatabase {
    /// A SQLite database in a temporary directory.
    pub async fn sqlite(schema: Schema) -> Self {
        let directory = TempDir::new().expect("a temporary directory");
        let config = store::Config::sqlite(directory.path().join("data"));
        let database = Self::open(config, Place::Directory(directory)).await;
        if schema == Schema::Migrated {
            migrate(&database.store).await;
        }
        database
    }

    /// A database on the PostgreSQL server.
    pub async fn postgres(schema: Schema) -> Self {
        let admin = admin_url();
        let name = database_name();
        match schema {
            Schema::Empty => {
                sql(&admin, &format!("CREATE DATABASE {name}")).expect("a database is created");
            }
            Schema::Migrated => {
                let template = template_name();
                let copy = format!("CREATE DATABASE {name} TEMPLATE {template}");
                if sql(&admin, &copy).is_err() {
                    make_template(&admin, &template).await;
                    sql(&admin, &copy).expect("the template is copied");
                }
            }
        }
        let config = postgres_config(&admin, &name);
        Self::open(config, Place::Server { admin, name }).await
    }

    async fn open(config: store::Config, place: Place) -> Self {
        let tracker = TaskTracker::new();
        let ended = CancellationToken::new();
        let store = Store::connect(&config, &tracker, ended.clone())
            .await
            .expect("the test's database opens");
        Self {
            store,
            config,
            tracker,
            ended,
            place,
        }
    }

    /// The open store.
    pub fn store(&self) -> Store {
        self.store.clone()
    }

    /// How to open the same database again. SQLite's directory is held by [`TestDatabase::store`].
    pub fn config(&self) -> store::Config {
        self.config.clone()
    }

    /// Closes the database and drops it.
    pub async fn finish(self) {
        self.ended.cancel();
        self.tracker.close();
        self.tracker.wait().await;
        match self.place {
            Place::Directory(directory) => directory.close().expect("the directory is removed"),
            Place::Server { admin, name } => {
                sql(&admin, &format!("DROP DATABASE {name} WITH (FORCE)"))
                    .expect("the database is dropped");
            }
        }
    }
}

/// Runs one test on SQLite.
pub async fn on_sqlite<A, F, B>(schema: Schema, body: F)
where
    A: for<'d> From<&'d TestDatabase>,
    F: FnOnce(A) -> B,
    B: Future<Output = ()>,
{
    test(TestDatabase::sqlite(schema).await, body).await;
}

/// Runs one test on PostgreSQL.
pub async fn on_postgres<A, F, B>(schema: Schema, body: F)
where
    A: for<'d> From<&'d TestDatabase>,
    F: FnOnce(A) -> B,
    B: Future<Output = ()>,
{
    test(TestDatabase::postgres(schema).await, body).await;
}

async fn test<A, F, B>(database: TestDatabase, body: F)
where
    A: for<'d> From<&'d TestDatabase>,
    F: FnOnce(A) -> B,
    B: Future<Output = ()>,
{
    let argument = A::from(&database);
    let outcome = AssertUnwindSafe(body(argument)).catch_unwind().await;
    database.finish().await;
    if let Err(panic) = outcome {
        resume_unwind(panic);
    }
}

async fn migrate(store: &Store) {
    store::migrate::<migrations::Migrator>(store, migrations::SCHEMA)
        .await
        .expect("the migrations run");
}

/// Made once for a test binary as it was built, because migrations may have changed with it; an earlier build's goes.
async fn make_template(admin: &str, template: &str) {
    let _lock = tokio::task::spawn_blocking(|| lock("template"))
        .await
        .expect("the lock is taken");
    let (family, _) = template.rsplit_once('_').expect("a template has a family");
    let known = format!("SELECT datname FROM pg_database WHERE datname LIKE '{family}%'");
    let known = sql(admin, &known).expect("databases are listed");
    if known.lines().any(|name| name == template) {
        return;
    }
    for outdated in known.lines() {
        // Another process may still copy it.
        drop(sql(
            admin,
            &format!("DROP DATABASE {outdated} WITH (FORCE)"),
        ));
    }
    let building = format!("{template}_new");
    sql(admin, &format!("CREATE DATABASE {building}")).expect("the template is created");
    let config = postgres_config(admin, &building);
    let database = TestDatabase::open(
        config,
        Place::Server {
            admin: admin.to_owned(),
            name: building.clone(),
        },
    )
    .await;
    migrate(&database.store).await;
    database.ended.cancel();
    database.tracker.close();
    database.tracker.wait().await;
    sql(
        admin,
        &format!("ALTER DATABASE {building} RENAME TO {template}"),
    )
    .expect("the template is finished");
}

fn template_name() -> String {
    let binary = std::env::current_exe().expect("the test binary has a path");
    let built = fs::metadata(&binary).expect("the test binary can be read");
    let hash = |value: &dyn Fn(&mut DefaultHasher)| {
        let mut hasher = DefaultHasher::new();
        value(&mut hasher);
        hasher.finish()
    };
    format!(
        "template_{:016x}_{:016x}",
        hash(&|hasher| binary.hash(hasher)),
        hash(&|hasher| (built.mtime(), built.mtime_nsec(), built.size()).hash(hasher)),
    )
}

fn database_name() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let at = kernel::Clock::now(&kernel::SystemClock).as_micros();
    format!("test_{}_{at}_{count}", std::process::id())
}

fn postgres_config(admin: &str, database: &str) -> store::Config {
    let server = admin.split('?').next().unwrap_or(admin);
    let (server, _) = server
        .rsplit_once('/')
        .expect("AGENTSVILLE_TEST_POSTGRES ends in /DATABASE");
    let mut config = store::Config::postgres(Secret::new(format!("{server}/{database}")));
    // Many tests run at the same time against one server.
    config.connections = 6;
    config
}

fn sql(admin: &str, statement: &str) -> Result<String, String> {
    let arguments = [
        "-X",
        "-A",
        "-t",
        "-q",
        "-v",
        "ON_ERROR_STOP=1",
        "-d",
        admin,
        "-c",
        statement,
    ];
    run("psql", &arguments, "postgresql-client")
}

/// A database whose user may create others.
fn admin_url() -> String {
    if let Some(url) = setting("AGENTSVILLE_TEST_POSTGRES") {
        return url;
    }
    let server = Server {
        name: "postgres",
        command: &|dir, port| initialise(dir, port),
        answers: &|port| sql(&url(port), "SELECT 1").is_ok(),
    };
    url(server.port())
}

fn url(port: u16) -> String {
    format!("postgres://postgres@127.0.0.1:{port}/postgres")
}

/// Makes a cluster that forgets on a crash and is quick, and says how it is run.
fn initialise(dir: &Path, port: u16) -> Vec<String> {
    let programs = programs();
    let data = dir.join("data").display().to_string();
    // `initdb` and `postgres` refuse to run as root.
    let mut prefix: Vec<String> = Vec::new();
    if fs::metadata("/proc/self").expect("procfs is mounted").uid() == 0 {
        run(
            "chown",
            &["postgres", &dir.display().to_string()],
            "postgresql",
        )
        .expect("there is a user postgres; apt-get install postgresql");
        prefix.extend(
            [
                "setpriv",
                "--reuid=postgres",
                "--regid=postgres",
                "--init-groups",
            ]
            .map(str::to_owned),
        );
    }
    let program = |name: &str| programs.join(name).display().to_string();
    let mut initdb = prefix.clone();
    initdb.push(program("initdb"));
    initdb.extend(
        [
            "-D",
            &data,
            "--auth=trust",
            "--username=postgres",
            "--encoding=UTF8",
            "--no-sync",
        ]
        .map(str::to_owned),
    );
    let arguments: Vec<&str> = initdb[1..].iter().map(String::as_str).collect();
    run(&initdb[0], &arguments, "postgresql").expect("initdb makes a cluster");
    prefix.push(program("postgres"));
    prefix.extend(["-D", &data, "-p", &port.to_string()].map(str::to_owned));
    for option in [
        "listen_addresses=127.0.0.1",
        &format!("unix_socket_directories={}", dir.display()),
        "fsync=off",
        "synchronous_commit=off",
        "full_page_writes=off",
        "max_connections=300",
    ] {
        prefix.extend(["-c".to_owned(), option.to_owned()]);
    }
    prefix
}

/// The newest installation's programs: Debian keeps them apart by version.
fn programs() -> PathBuf {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten();
    let newest = versions
        .flatten()
        .filter_map(|entry| {
            Some((
                entry.file_name().to_str()?.parse::<u32>().ok()?,
                entry.path(),
            ))
        })
        .filter(|(_, path)| path.join("bin/initdb").exists())
        .max();
    newest
        .unwrap_or_else(|| panic!("PostgreSQL is not installed; apt-get install postgresql"))
        .1
        .join("bin")
}

//! SQLite's data directory belongs to one user and one process.

use std::{fs, os::unix::fs::PermissionsExt as _};

use kernel::{ErrorCode, Secret};
use store::{Config, Engine, Error, Store};
use tempfile::TempDir;
use testkit::port::HeldPort;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

async fn open(config: &Config) -> Result<Store, Error> {
    Store::connect(config, &TaskTracker::new(), CancellationToken::new()).await
}

#[tokio::test]
async fn sqlite_files_are_for_their_user_alone() {
    let directory = TempDir::new().expect("a directory");
    let data = directory.path().join("deep/data");
    fs::create_dir_all(&data).expect("an open directory");
    fs::set_permissions(&data, fs::Permissions::from_mode(0o777)).expect("its mode");
    fs::write(data.join("agentsville.db"), "").expect("an open file");
    let store = open(&Config::sqlite(&data)).await.expect("it opens");
    assert_eq!(store.engine(), Engine::Sqlite);
    crate::table::create(&store).await;
    let mode = |path: &std::path::Path| {
        fs::metadata(path).expect("it exists").permissions().mode() & 0o777
    };
    assert_eq!(mode(&data), 0o700);
    let mut files = 0;
    for entry in fs::read_dir(&data).expect("it is listed") {
        let path = entry.expect("an entry").path();
        assert_eq!(mode(&path), 0o600, "{}", path.display());
        files += 1;
    }
    assert!(files >= 3, "database, its log, the lock: {files}");
}

#[tokio::test]
async fn sqlite_a_second_process_is_told_who_holds_the_directory() {
    let directory = TempDir::new().expect("a directory");
    let config = Config::sqlite(directory.path());
    let first = open(&config).await.expect("it opens");
    let error = open(&config).await.expect_err("it is in use");
    assert_eq!(error.code(), ErrorCode::FailedPrecondition);
    assert_eq!(
        error.to_string(),
        format!(
            "the data directory {} is in use by another AgentsVille process (process {}); stop that one, or set another AGENTSVILLE__DATA_DIR",
            directory.path().display(),
            std::process::id()
        )
    );
    drop(first);
}

#[tokio::test]
async fn sqlite_a_path_that_is_a_file_is_named() {
    let directory = TempDir::new().expect("a directory");
    let file = directory.path().join("file");
    fs::write(&file, "").expect("a file");
    let error = open(&Config::sqlite(&file))
        .await
        .expect_err("no directory");
    assert!(
        error.to_string().starts_with(&format!(
            "the data directory {} cannot be used",
            file.display()
        )),
        "{error}"
    );
}

#[tokio::test]
async fn an_address_of_another_kind_is_refused_and_not_shown() {
    for address in [
        "mysql://root:hunter2@localhost/x",
        "hunter2",
        "sqlite://hunter2.db",
        "postgres:hunter2",
    ] {
        let error = open(&Config::postgres(Secret::new(address)))
            .await
            .expect_err("no driver");
        assert!(matches!(error, Error::Address), "{error:?}");
        assert!(!format!("{error} {error:?}").contains("hunter2"));
    }
}

#[tokio::test]
async fn postgres_that_does_not_answer_is_an_error_that_hides_the_password() {
    let nobody = HeldPort::new();
    let url = format!("postgres://keeper:hunter2@{}/village", nobody.on_loopback());
    let error = open(&Config::postgres(Secret::new(url)))
        .await
        .expect_err("nobody listens");
    assert!(matches!(error, Error::Open { .. }), "{error:?}");
    assert!(!format!("{error} {error:?}").contains("hunter2"));
}

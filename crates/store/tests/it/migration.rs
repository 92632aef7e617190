//! Schema and code are kept together.

use sea_orm::ConnectionTrait as _;
use sea_orm_migration::prelude::*;
use store::{Config, Error, SchemaProblem, SchemaVersion, Store, check_schema, migrate};
use testkit::on_every_empty_database;

/// Every migration of a release: the first makes a table, the second adds a column, the third is wrong.
struct Releases<const COUNT: usize>;

#[async_trait::async_trait]
impl<const COUNT: usize> MigratorTrait for Releases<COUNT> {
    fn migrations() -> Vec<Box<dyn MigrationTrait>> {
        let all = [
            ("m1", "CREATE TABLE things (id integer PRIMARY KEY)"),
            ("m2", "ALTER TABLE things ADD COLUMN name text"),
            (
                "m3",
                "CREATE TABLE others (id integer); CREATE TABLE things (id integer)",
            ),
        ];
        all.into_iter()
            .take(COUNT)
            .map(|(name, sql)| Box::new(Sql { name, sql }) as Box<dyn MigrationTrait>)
            .collect()
    }
}

struct Sql {
    name: &'static str,
    sql: &'static str,
}

impl MigrationName for Sql {
    fn name(&self) -> &str {
        self.name
    }
}

#[async_trait::async_trait]
#[expect(elided_lifetimes_in_paths, reason = "the trait leaves it out")]
impl MigrationTrait for Sql {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for statement in self.sql.split(';') {
            manager
                .get_connection()
                .execute_unprepared(statement)
                .await?;
        }
        Ok(())
    }
}

const FIRST: SchemaVersion = SchemaVersion {
    version: 1,
    min_compatible: 1,
};
const SECOND: SchemaVersion = SchemaVersion {
    version: 2,
    min_compatible: 1,
};
const THIRD: SchemaVersion = SchemaVersion {
    version: 3,
    min_compatible: 3,
};

fn problem(result: Result<(), Error>) -> SchemaProblem {
    match result {
        Err(Error::Schema(problem)) => problem,
        other => panic!("a schema problem was expected: {other:?}"),
    }
}

on_every_empty_database! {
    async fn a_service_that_finds_no_schema_says_what_to_run(store: Store) {
        let missing = problem(check_schema(&store, FIRST).await);
        assert_eq!(missing, SchemaProblem::Missing);
        assert_eq!(
            missing.to_string(),
            "the database has no schema yet; run `agentsville migrate` with the same DATABASE_URL"
        );
    }

    async fn migrating_twice_is_migrating_once(store: Store) {
        migrate::<Releases<1>>(&store, FIRST).await.expect("the first time");
        migrate::<Releases<1>>(&store, FIRST).await.expect("the second time");
        check_schema(&store, FIRST).await.expect("it fits");
    }

    async fn several_that_migrate_at_once_all_succeed(store: Store) {
        let all = (0..6).map(|_| migrate::<Releases<2>>(&store, SECOND));
        for result in futures::future::join_all(all).await {
            result.expect("each is content");
        }
        check_schema(&store, SECOND).await.expect("it fits");
    }

    async fn an_older_schema_is_refused_until_it_is_migrated(store: Store) {
        migrate::<Releases<1>>(&store, FIRST).await.expect("the old release");
        assert_eq!(problem(check_schema(&store, SECOND).await), SchemaProblem::TooOld { found: 1, needed: 2 });
        migrate::<Releases<2>>(&store, SECOND).await.expect("the new release");
        check_schema(&store, SECOND).await.expect("it fits");
    }

    async fn the_previous_release_runs_on_an_expanded_schema_and_leaves_it(store: Store) {
        migrate::<Releases<2>>(&store, SECOND).await.expect("the new release");
        check_schema(&store, FIRST).await.expect("it is compatible");
        migrate::<Releases<1>>(&store, FIRST).await.expect("there is nothing to do");
        check_schema(&store, SECOND).await.expect("it is still the new schema");
    }

    async fn a_release_that_is_too_old_is_refused_in_words(store: Store) {
        let contracted = SchemaVersion { version: 3, min_compatible: 2 };
        migrate::<Releases<2>>(&store, contracted).await.expect("the new release");
        let too_new = SchemaProblem::TooNew { found: 3, min_compatible: 2, ours: 1 };
        assert_eq!(problem(check_schema(&store, FIRST).await), too_new);
        assert_eq!(problem(migrate::<Releases<1>>(&store, FIRST).await), too_new);
        assert_eq!(
            too_new.to_string(),
            "the database has schema 3, which runs with releases of schema 2 and later, and this one is of 1; start a newer release"
        );
    }

    async fn a_migration_that_fails_changes_nothing(store: Store) {
        migrate::<Releases<2>>(&store, SECOND).await.expect("the old release");
        migrate::<Releases<3>>(&store, THIRD).await.expect_err("the third is wrong");
        check_schema(&store, SECOND).await.expect("it is the old schema");
        store.reader().execute_unprepared("SELECT name FROM things").await.expect("the old table");
        store.reader().execute_unprepared("SELECT id FROM others").await.expect_err("the half of the third");
    }

    async fn the_real_migrations_run_and_can_be_checked(both: (Store, Config)) {
        let (store, _) = both;
        migrate::<migrations::Migrator>(&store, migrations::SCHEMA).await.expect("they run");
        check_schema(&store, migrations::SCHEMA).await.expect("it fits");
    }
}

mod from_several_processes {
    //! PostgreSQL alone: SQLite's directory has one process.

    use futures::future::join_all;
    use testkit::database::{Schema, TestDatabase};
    use tokio_util::{sync::CancellationToken, task::TaskTracker};

    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn postgres_migrations_take_their_turns() {
        let database = TestDatabase::postgres(Schema::Empty).await;
        let config = database.config();
        let migrations = (0..4).map(|_| async {
            let tracker = TaskTracker::new();
            let ended = CancellationToken::new();
            let store = Store::connect(&config, &tracker, ended.clone()).await?;
            let migrated = migrate::<Releases<2>>(&store, SECOND).await;
            ended.cancel();
            tracker.close();
            tracker.wait().await;
            migrated
        });
        let results = join_all(migrations).await;
        database.finish().await;
        for result in results {
            result.expect("each is content");
        }
    }
}

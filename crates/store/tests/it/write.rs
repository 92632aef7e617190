//! What a job may rely on.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use kernel::ErrorCode;
use sea_orm::{
    ColumnTrait as _, ConnectionTrait as _, EntityTrait as _, ExprTrait as _, QueryFilter as _,
    sea_query::Expr,
};
use store::{Engine, Error, Store};
use testkit::{
    database::{Schema, on_postgres},
    on_every_database,
};

use crate::table::{self, item};

on_every_database! {
    async fn what_was_answered_is_there(store: Store) {
        table::create(&store).await;
        table::insert(&store, 1).await.expect("it is written");
        assert_eq!(table::ids(&store).await, [1]);
    }

    async fn a_job_that_fails_changes_nothing(store: Store) {
        table::create(&store).await;
        let failed: Result<(), Error> = store
            .write(|tx| Box::pin(async move {
                item::Entity::insert(table::row(1)).exec(tx).await?;
                Err(Error::Conflict)
            }))
            .await;
        assert!(matches!(failed, Err(Error::Conflict)), "{failed:?}");
        assert_eq!(table::ids(&store).await, [0_i32; 0]);
    }

    async fn a_job_that_panics_changes_nothing_and_the_next_one_runs(store: Store) {
        table::create(&store).await;
        let failed: Result<(), Error> = store
            .write(|tx| Box::pin(async move {
                item::Entity::insert(table::row(1)).exec(tx).await?;
                panic!("a fault in the job");
            }))
            .await;
        assert!(matches!(failed, Err(Error::Panicked)), "{failed:?}");
        table::insert(&store, 2).await.expect("the writer lives");
        assert_eq!(table::ids(&store).await, [2]);
    }

    async fn a_job_that_goes_on_after_a_failed_statement_is_never_told_that_it_was_kept(store: Store) {
        table::create(&store).await;
        table::insert(&store, 1).await.expect("it is written");
        let careless: Result<(), Error> = store
            .write(|tx| Box::pin(async move {
                item::Entity::insert(table::row(2)).exec(tx).await?;
                drop(item::Entity::insert(table::row(1)).exec(tx).await);
                Ok(())
            }))
            .await;
        assert!(matches!(careless, Err(Error::Unique { .. })), "{careless:?}");
        assert_eq!(table::ids(&store).await, [1]);
        table::insert(&store, 3).await.expect("the next job has nothing of it");
        assert_eq!(table::ids(&store).await, [1, 3]);
    }

    async fn a_job_that_panics_in_a_destructor_changes_nothing_and_the_next_one_runs(store: Store) {
        struct Faulty;
        impl Drop for Faulty {
            fn drop(&mut self) {
                panic!("a fault in the destructor");
            }
        }
        table::create(&store).await;
        let job = store.write::<(), Error, _>(|tx| Box::pin(async move {
            let _faulty = Faulty;
            item::Entity::insert(table::row(1)).exec(tx).await?;
            std::future::pending().await
        }));
        let failed = job.await;
        assert!(matches!(failed, Err(Error::Panicked)), "{failed:?}");
        table::insert(&store, 2).await.expect("the writer lives");
        assert_eq!(table::ids(&store).await, [2]);
    }

    async fn a_taken_key_is_named_alike(store: Store) {
        table::create(&store).await;
        table::insert(&store, 1).await.expect("it is written");
        let taken: Result<(), Error> = store
            .write(|tx| Box::pin(async move {
                let mut same = table::row(2);
                same.name = table::row(1).name;
                item::Entity::insert(same).exec(tx).await?;
                Ok(())
            }))
            .await;
        let error = taken.expect_err("the name is taken");
        assert!(error.is_taken("items_name_at"), "{error:?}");
        assert_eq!(error.code(), ErrorCode::AlreadyExists);
    }

    async fn a_missing_row_that_is_referred_to_is_told(store: Store) {
        table::create(&store).await;
        let missing: Result<(), Error> = store
            .write(|tx| Box::pin(async move {
                tx.execute_unprepared("INSERT INTO notes (id, item_id) VALUES (1, 7)").await?;
                Ok(())
            }))
            .await;
        assert!(matches!(missing, Err(Error::ForeignKey)), "{missing:?}");
    }

    async fn an_error_never_shows_what_was_stored(store: Store) {
        table::create(&store).await;
        table::insert(&store, 1).await.expect("it is written");
        let failed: Result<(), Error> = store
            .write(|tx| Box::pin(async move {
                tx.execute_unprepared("INSERT INTO items (id, name, at) VALUES (5, 'item 1', NULL)").await?;
                Ok(())
            }))
            .await;
        let error = failed.expect_err("a time is needed");
        for shown in [format!("{error}"), format!("{error:?}")] {
            assert!(!shown.contains("item 1"), "{shown}");
        }
    }

    async fn racing_counters_lose_no_increment(store: Store) {
        table::create(&store).await;
        table::insert(&store, 1).await.expect("it is written");
        let increments = (0..64).map(|_| store.write(|tx| Box::pin(async move {
            item::Entity::update_many()
                .col_expr(item::Column::At, Expr::col(item::Column::At).add(1))
                .filter(item::Column::Id.eq(1))
                .exec(tx)
                .await?;
            Ok::<_, Error>(())
        })));
        for result in futures::future::join_all(increments).await {
            result.expect("every increment is written");
        }
        let row = item::Entity::find_by_id(1).one(store.reader()).await.expect("a read").expect("the row");
        assert_eq!(row.at.timestamp().as_micros(), 64);
    }

    async fn compare_and_swap_has_one_winner(store: Store) {
        table::create(&store).await;
        table::insert(&store, 1).await.expect("it is written");
        let swaps = (1..=32_i64).map(|mine| store.write(move |tx| Box::pin(async move {
            let swapped = item::Entity::update_many()
                .col_expr(item::Column::At, Expr::value(mine))
                .filter(item::Column::Id.eq(1))
                .filter(item::Column::At.eq(0_i64))
                .exec(tx)
                .await?;
            Ok::<_, Error>(swapped.rows_affected)
        })));
        let winners: u64 = futures::future::join_all(swaps)
            .await
            .into_iter()
            .map(|rows| rows.expect("a swap answers"))
            .sum();
        assert_eq!(winners, 1);
    }

    async fn a_snapshot_does_not_move(store: Store) {
        use sea_orm::PaginatorTrait as _;
        table::create(&store).await;
        table::insert(&store, 1).await.expect("it is written");
        let snapshot = store.snapshot().await.expect("a snapshot");
        assert_eq!(item::Entity::find().count(&snapshot).await.expect("a count"), 1);
        table::insert(&store, 2).await.expect("it is written");
        assert_eq!(item::Entity::find().count(&snapshot).await.expect("a count"), 1);
        drop(snapshot);
        assert_eq!(table::ids(&store).await, [1, 2]);
    }

    async fn a_snapshot_cannot_write(store: Store) {
        table::create(&store).await;
        let snapshot = store.snapshot().await.expect("a snapshot");
        item::Entity::insert(table::row(1)).exec(&snapshot).await.expect_err("it only reads");
    }

    async fn jobs_that_lock_each_other_out_all_get_done(store: Store) {
        table::create(&store).await;
        table::insert(&store, 1).await.expect("it is written");
        table::insert(&store, 2).await.expect("it is written");
        let tries = Arc::new(AtomicU32::new(0));
        // Each takes the two rows in the other order: PostgreSQL ends one of them as a deadlock.
        let jobs = [[1, 2], [2, 1]].map(|order| {
            let tries = Arc::clone(&tries);
            store.write(move |tx| Box::pin(async move {
                tries.fetch_add(1, Ordering::SeqCst);
                for id in order {
                    item::Entity::update_many()
                        .col_expr(item::Column::At, Expr::col(item::Column::At).add(1))
                        .filter(item::Column::Id.eq(id))
                        .exec(tx)
                        .await?;
                    if tries.load(Ordering::SeqCst) <= 2 {
                        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
                    }
                }
                Ok::<_, Error>(())
            }))
        });
        for result in futures::future::join_all(jobs).await {
            result.expect("both are written");
        }
        let rows = item::Entity::find().all(store.reader()).await.expect("a read");
        assert!(rows.iter().all(|row| row.at.timestamp().as_micros() == 2), "{rows:?}");
        if store.engine() == Engine::Sqlite {
            assert_eq!(tries.load(Ordering::SeqCst), 2);
        }
    }
}

#[tokio::test]
async fn postgres_a_job_is_given_up_in_time_although_its_statement_runs_on() {
    on_postgres(Schema::Migrated, async |store: Store| {
        let started = std::time::Instant::now();
        let slow: Result<(), Error> = store
            .write(|tx| {
                Box::pin(async move {
                    tx.execute_unprepared("SELECT pg_sleep(60)").await?;
                    Ok(())
                })
            })
            .await;
        assert!(matches!(slow, Err(Error::TooSlow(_))), "{slow:?}");
        let elapsed = started.elapsed();
        assert!(elapsed < 2 * store::JOB_TIME, "{elapsed:?}");
    })
    .await;
}

#[test]
fn what_a_driver_says_of_a_database_that_is_away_is_logged_and_not_told() {
    let io = std::io::Error::other("db.internal refused");
    let driver = sea_orm::sqlx::Error::Io(io);
    let error = Error::from(sea_orm::DbErr::Conn(sea_orm::RuntimeErr::SqlxError(
        driver.into(),
    )));
    assert_eq!(error.code(), ErrorCode::Unavailable);
    assert_eq!(
        error.to_string(),
        "the database cannot be reached; try again in a moment"
    );
    let cause = std::error::Error::source(&error).expect("a cause for the log");
    assert!(cause.to_string().contains("db.internal"), "{cause}");
}

//! SQLite's one writer groups jobs into commits. `#[tokio::test]` runs on one thread: what is joined is queued before the writer
//! looks, and so is one group.

use std::sync::Arc;

use futures::FutureExt as _;
use sea_orm::{ConnectionTrait as _, EntityTrait as _};
use store::{Config, Error, Store};
use tempfile::TempDir;
use tokio::sync::Notify;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::table::{self, item};

struct Village {
    store: Store,
    tracker: TaskTracker,
    ended: CancellationToken,
    config: Config,
    _directory: TempDir,
}

async fn village() -> Village {
    let directory = TempDir::new().expect("a directory");
    let config = Config::sqlite(directory.path());
    let tracker = TaskTracker::new();
    let ended = CancellationToken::new();
    let store = Store::connect(&config, &tracker, ended.clone())
        .await
        .expect("the store opens");
    table::create(&store).await;
    Village {
        store,
        tracker,
        ended,
        config,
        _directory: directory,
    }
}

/// Occupies the writer until it is told to go on; what is queued meanwhile becomes one group.
fn occupy(store: &Store, go_on: &Arc<Notify>) -> impl Future<Output = Result<(), Error>> + use<> {
    let go_on = Arc::clone(go_on);
    let store = store.clone();
    async move {
        store
            .write(move |_tx| {
                Box::pin(async move {
                    go_on.notified().await;
                    Ok(())
                })
            })
            .await
    }
}

async fn raw(store: Store, statement: &'static str) -> Result<(), Error> {
    store
        .write(move |tx| {
            Box::pin(async move {
                tx.execute_unprepared(statement).await?;
                Ok(())
            })
        })
        .await
}

#[tokio::test]
async fn sqlite_a_failing_job_takes_no_other_of_its_group_with_it() {
    let village = village().await;
    let store = village.store.clone();
    let results = tokio::join!(
        table::insert(&store, 1),
        raw(
            store.clone(),
            "INSERT INTO items (id, name, at) VALUES (1, 'again', 0)"
        ),
        store.write::<(), Error, _>(|tx| {
            Box::pin(async move {
                item::Entity::insert(table::row(9)).exec(tx).await?;
                panic!("a fault in the job");
            })
        }),
        table::insert(&store, 2),
    );
    let results: [Result<(), Error>; 4] = results.into();
    let told: Vec<bool> = results.iter().map(Result::is_ok).collect();
    assert_eq!(told, [true, false, false, true], "{results:?}");
    assert_eq!(table::ids(&store).await, [1, 2]);
}

#[tokio::test]
async fn sqlite_no_job_is_told_done_when_its_group_is_lost_and_the_writer_goes_on() {
    let village = village().await;
    let store = village.store.clone();
    table::insert(&store, 7).await.expect("it is written");
    // SQLite rolls the whole transaction back under the others.
    let results = tokio::join!(
        table::insert(&store, 1),
        raw(
            store.clone(),
            "INSERT OR ROLLBACK INTO items (id, name, at) VALUES (7, 'again', 0)"
        ),
        table::insert(&store, 2),
    );
    let results: [Result<(), Error>; 3] = results.into();
    let told: Vec<bool> = results.iter().map(Result::is_ok).collect();
    assert_eq!(told, [false, false, false], "{results:?}");
    assert_eq!(table::ids(&store).await, [7]);
    table::insert(&store, 3).await.expect("the writer goes on");
    assert_eq!(table::ids(&store).await, [3, 7]);
}

#[tokio::test]
async fn sqlite_a_job_cannot_end_the_transaction_that_it_shares() {
    let village = village().await;
    let store = village.store.clone();
    for control in ["ROLLBACK", " commit;", "END TRANSACTION", "BEGIN"] {
        let results = tokio::join!(
            table::insert(&store, 1),
            raw(store.clone(), control),
            table::insert(&store, 2),
        );
        let results: [Result<(), Error>; 3] = results.into();
        let told: Vec<bool> = results.iter().map(Result::is_ok).collect();
        assert_eq!(told, [true, false, true], "{results:?}");
        assert_eq!(table::ids(&store).await, [1, 2]);
        raw(store.clone(), "DELETE FROM items")
            .await
            .expect("they are deleted");
    }
}

#[tokio::test]
async fn sqlite_nothing_is_answered_before_its_commit() {
    let village = village().await;
    let store = village.store.clone();
    let go_on = Arc::new(Notify::new());
    let occupied = occupy(&store, &go_on);
    let written = async {
        // Queued in front of the job that holds the group open.
        table::insert(&store, 1).await
    };
    let mut both = Box::pin(async { tokio::join!(written, occupied) });
    assert!((&mut both).now_or_never().is_none());
    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    assert!((&mut both).now_or_never().is_none());
    assert_eq!(table::ids(&store).await, [0_i32; 0]);
    go_on.notify_one();
    let (written, occupied) = both.await;
    written.expect("it is written");
    occupied.expect("it ends");
    assert_eq!(table::ids(&store).await, [1]);
}

#[tokio::test]
async fn sqlite_the_end_drains_what_was_handed_over_and_frees_the_directory() {
    let village = village().await;
    let store = village.store.clone();
    let go_on = Arc::new(Notify::new());
    let end = async {
        tokio::task::yield_now().await;
        village.ended.cancel();
        go_on.notify_one();
        Ok(())
    };
    let results: [Result<(), Error>; 4] = tokio::join!(
        occupy(&store, &go_on),
        table::insert(&store, 1),
        table::insert(&store, 2),
        end,
    )
    .into();
    assert!(results.iter().all(Result::is_ok), "{results:?}");
    village.tracker.close();
    village.tracker.wait().await;
    assert!(matches!(table::insert(&store, 3).await, Err(Error::Closed)));

    let tracker = TaskTracker::new();
    let again = Store::connect(&village.config, &tracker, CancellationToken::new())
        .await
        .expect("the directory is free");
    assert_eq!(table::ids(&again).await, [1, 2]);
}

#[tokio::test]
async fn sqlite_a_reader_that_is_never_dropped_does_not_hold_up_the_end() {
    let village = village().await;
    let forgotten = village.store.snapshot().await.expect("a snapshot");
    village.ended.cancel();
    village.tracker.close();
    tokio::time::timeout(std::time::Duration::from_secs(30), village.tracker.wait())
        .await
        .expect("the end comes");
    let again = Store::connect(
        &village.config,
        &TaskTracker::new(),
        CancellationToken::new(),
    )
    .await;
    again.expect("the directory is free");
    drop(forgotten);
}

#[tokio::test]
async fn sqlite_a_read_connection_cannot_write() {
    let village = village().await;
    let store = village.store.clone();
    let refused = item::Entity::insert(table::row(1))
        .exec(store.reader())
        .await;
    refused.expect_err("only the writer writes");
}

#[tokio::test]
async fn sqlite_a_job_that_never_ends_is_undone() {
    let village = village().await;
    let store = village.store.clone();
    let inserted = Arc::new(Notify::new());
    let told = Arc::clone(&inserted);
    let slow = store.write(move |tx| {
        Box::pin(async move {
            item::Entity::insert(table::row(1)).exec(tx).await?;
            told.notify_one();
            std::future::pending::<()>().await;
            Ok::<_, Error>(())
        })
    });
    let wait = async {
        inserted.notified().await;
        tokio::time::pause();
        tokio::time::advance(store::JOB_TIME).await;
        tokio::time::resume();
    };
    let (slow, ()) = tokio::join!(slow, wait);
    assert!(matches!(slow, Err(Error::TooSlow(_))), "{slow:?}");
    table::insert(&store, 2).await.expect("the writer goes on");
    assert_eq!(table::ids(&store).await, [2]);
}

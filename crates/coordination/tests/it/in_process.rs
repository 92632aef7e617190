//! What the log in process forgets, and when.

use std::time::Duration;

use coordination::{KEPT_AFTER_CLOSE, KEPT_IDLE};
use futures::FutureExt as _;

use crate::village::{Process, take, turn};

/// Longer than the pause between two sweeps.
const SWEPT: Duration = Duration::from_mins(1);

#[tokio::test(start_paused = true)]
async fn a_closed_stream_is_kept_for_those_who_resume_late_and_then_forgotten() {
    let process = Process::in_process();
    let turn = turn();
    process.append(turn, 1..=2).await;
    process.close(turn, 2).await;
    tokio::time::sleep(KEPT_AFTER_CLOSE / 2).await;
    assert_eq!(process.read_all(turn, 0).await, [Ok(1), Ok(2)]);
    tokio::time::sleep(KEPT_AFTER_CLOSE / 2 + SWEPT).await;
    assert!(process.read_all(turn, 0).now_or_never().is_none());
}

#[tokio::test(start_paused = true)]
async fn an_abandoned_stream_is_forgotten_and_its_readers_are_told() {
    let process = Process::in_process();
    let turn = turn();
    process.append(turn, 1..=1).await;
    let mut reader = process.read(turn, 0).await;
    assert_eq!(take(&mut reader, 1).await, [Ok(1)]);
    tokio::time::sleep(KEPT_IDLE + SWEPT).await;
    assert_eq!(
        take(&mut reader, 9).await,
        [Err(coordination::ReadError::Unavailable)]
    );
}

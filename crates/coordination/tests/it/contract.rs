//! What holds in process and through Redis alike.

use bytes::Bytes;
use coordination::{EVENT_BYTES, Error, ReadError, SIGNAL_BYTES, STREAM_BYTES, Signal};
use futures::{FutureExt as _, StreamExt as _};

use crate::village::{Process, take, turn};

macro_rules! on_both {
    ($(async fn $name:ident($process:ident: Process) $body:block)+) => {
        $(async fn $name($process: Process) $body)+

        mod in_process {
            $(
                #[tokio::test]
                async fn $name() {
                    super::$name(super::Process::in_process()).await;
                }
            )+
        }

        mod redis {
            $(
                #[tokio::test]
                async fn $name() {
                    let namespace = testkit::redis::namespace();
                    super::$name(super::Process::redis(&testkit::redis::url(), &namespace)).await;
                }
            )+
        }
    };
}

on_both! {
    async fn a_late_reader_gets_what_is_kept_and_then_the_end(process: Process) {
        let turn = turn();
        process.append(turn, 1..=200).await;
        process.close(turn, 200).await;
        let all: Vec<_> = (1..=200).map(Ok).collect();
        assert_eq!(process.read_all(turn, 0).await, all);
        assert_eq!(process.read_all(turn, 150).await, all[150..]);
        assert_eq!(process.read_all(turn, 200).await, []);
    }

    async fn a_reader_follows_live_until_the_close(process: Process) {
        let turn = turn();
        // It waits for a stream that has not begun.
        let mut reader = process.read(turn, 0).await;
        assert!(reader.next().now_or_never().is_none());
        process.append(turn, 1..=3).await;
        assert_eq!(take(&mut reader, 3).await, [Ok(1), Ok(2), Ok(3)]);
        assert!(reader.next().now_or_never().is_none());
        process.append(turn, 4..=4).await;
        process.close(turn, 4).await;
        assert_eq!(take(&mut reader, 9).await, [Ok(4)]);
    }

    async fn watchers_read_for_themselves(process: Process) {
        let turn = turn();
        process.append(turn, 1..=2).await;
        let mut first = process.read(turn, 0).await;
        let mut second = process.read(turn, 1).await;
        let third = process.read(turn, 0).await;
        assert_eq!(take(&mut first, 2).await, [Ok(1), Ok(2)]);
        drop(third);
        process.append(turn, 3..=3).await;
        process.close(turn, 3).await;
        assert_eq!(take(&mut first, 9).await, [Ok(3)]);
        assert_eq!(take(&mut second, 9).await, [Ok(2), Ok(3)]);
    }

    async fn streams_do_not_mix(process: Process) {
        let (one, other) = (turn(), turn());
        process.append(one, 1..=1).await;
        process.append(other, 1..=2).await;
        process.close(one, 1).await;
        process.close(other, 2).await;
        assert_eq!(process.read_all(one, 0).await, [Ok(1)]);
        assert_eq!(process.read_all(other, 0).await, [Ok(1), Ok(2)]);
    }

    async fn numbers_left_out_are_told_as_a_gap(process: Process) {
        let turn = turn();
        process.append(turn, 1..=2).await;
        // Another owner takes over, and cannot know how far the first one came.
        process.append(turn, 1_000..=1_001).await;
        process.close(turn, 1_001).await;
        assert_eq!(
            process.read_all(turn, 0).await,
            [Ok(1), Ok(2), Err(ReadError::Gap { after: 2, next: 1_000 })]
        );
        assert_eq!(process.read_all(turn, 999).await, [Ok(1_000), Ok(1_001)]);
    }

    async fn events_that_were_cut_off_are_told_as_a_gap(process: Process) {
        let turn = turn();
        let large = Bytes::from(vec![b'x'; 1_024 * 1_024]);
        let kept = STREAM_BYTES as u64 / large.len() as u64;
        for number in 1..=kept + 3 {
            process.coordination.log.append(turn, number, large.clone()).await.expect("it is appended");
        }
        process.close(turn, kept + 3).await;
        let read: Vec<_> = process.read(turn, 1).await.collect().await;
        assert_eq!(read, [Err(ReadError::Gap { after: 1, next: 4 })]);
        let read: Vec<_> = process.read(turn, 3).await.collect().await;
        assert_eq!(read.len() as u64, kept);
        assert!(read.iter().all(Result::is_ok));
    }

    async fn a_close_beyond_what_arrived_is_told_as_a_gap(process: Process) {
        let turn = turn();
        process.append(turn, 1..=2).await;
        process.close(turn, 5).await;
        assert_eq!(
            process.read_all(turn, 0).await,
            [Ok(1), Ok(2), Err(ReadError::Gap { after: 2, next: 6 })]
        );
        assert_eq!(process.read_all(turn, 5).await, []);
    }

    async fn a_close_before_what_its_dead_owner_appended_ends_the_readers_all_the_same(process: Process) {
        let turn = turn();
        process.append(turn, 1..=5).await;
        let mut reader = process.read(turn, 0).await;
        assert_eq!(take(&mut reader, 5).await, [1, 2, 3, 4, 5].map(Ok));
        process.close(turn, 3).await;
        let end = tokio::time::timeout(std::time::Duration::from_secs(30), reader.next()).await;
        assert_eq!(end, Ok(None));
        assert_eq!(process.read_all(turn, 4).await, [Ok(5)]);
        process.close(turn, 3).await;
        process.close(turn, 5).await;
    }

    async fn a_reader_that_comes_after_the_end_is_told(process: Process) {
        process.end().await;
        let told = tokio::time::timeout(std::time::Duration::from_secs(30), process.read_all(turn(), 0)).await;
        assert_eq!(told, Ok(vec![Err(ReadError::Unavailable)]));
    }

    async fn a_stream_without_events_ends_at_its_close(process: Process) {
        let turn = turn();
        let reader = process.read(turn, 0).await;
        process.close(turn, 0).await;
        assert_eq!(reader.collect::<Vec<_>>().await, []);
    }

    async fn closing_twice_is_closing_once(process: Process) {
        let turn = turn();
        process.append(turn, 1..=1).await;
        process.close(turn, 1).await;
        process.close(turn, 1).await;
        assert_eq!(process.read_all(turn, 0).await, [Ok(1)]);
    }

    async fn an_owner_that_comes_too_late_is_refused(process: Process) {
        let turn = turn();
        process.append(turn, 1..=5).await;
        for late in [5, 3] {
            assert_eq!(
                process.coordination.log.append(turn, late, Bytes::new()).await,
                Err(Error::OutOfOrder { number: late })
            );
        }
        process.append(turn, 6..=6).await;
    }

    async fn an_event_that_is_too_large_is_refused(process: Process) {
        let turn = turn();
        let refused = process.coordination.log.append(turn, 1, Bytes::from(vec![0; EVENT_BYTES + 1])).await;
        assert_eq!(
            refused,
            Err(Error::TooLarge { what: "event", bytes: EVENT_BYTES + 1, max: EVENT_BYTES })
        );
        process.coordination.log.append(turn, 1, Bytes::from(vec![0; EVENT_BYTES])).await.expect("it fits");
    }

    async fn readers_are_told_when_the_process_ends(process: Process) {
        let turn = turn();
        process.append(turn, 1..=1).await;
        let mut reader = process.read(turn, 0).await;
        assert_eq!(take(&mut reader, 1).await, [Ok(1)]);
        process.end().await;
        assert_eq!(take(&mut reader, 9).await, [Err(ReadError::Unavailable)]);
    }

    async fn a_signal_reaches_every_subscriber_of_its_topic(process: Process) {
        let signals = &process.coordination.signals;
        let mut first = signals.subscribe("server_changed").await;
        let mut second = signals.subscribe("server_changed").await;
        let mut other = signals.subscribe("abort").await;
        signals.publish("server_changed", Bytes::from_static(b"\0 7")).await.expect("it is published");
        signals.publish("abort", Bytes::from_static(b"turn")).await.expect("it is published");
        for subscriber in [&mut first, &mut second] {
            assert_eq!(subscriber.next().await, Some(Signal::Message(Bytes::from_static(b"\0 7"))));
        }
        assert_eq!(other.next().await, Some(Signal::Message(Bytes::from_static(b"turn"))));
    }

    async fn nobody_has_to_listen(process: Process) {
        process.coordination.signals.publish("server_changed", Bytes::new()).await.expect("it is published");
    }

    async fn a_slow_subscriber_is_told_that_it_missed_some(process: Process) {
        let signals = &process.coordination.signals;
        let mut slow = signals.subscribe("server_changed").await;
        let mut quick = signals.subscribe("done").await;
        for _ in 0..600 {
            signals.publish("server_changed", Bytes::new()).await.expect("it is published");
        }
        signals.publish("done", Bytes::new()).await.expect("it is published");
        quick.next().await;
        assert_eq!(slow.next().await, Some(Signal::Missed));
        assert_eq!(slow.next().await, Some(Signal::Message(Bytes::new())));
    }

    async fn a_signal_that_is_too_large_is_refused(process: Process) {
        let refused = process.coordination.signals.publish("topic", Bytes::from(vec![0; SIGNAL_BYTES + 1])).await;
        assert_eq!(
            refused,
            Err(Error::TooLarge { what: "signal", bytes: SIGNAL_BYTES + 1, max: SIGNAL_BYTES })
        );
    }
}

use std::time::Duration;

use kernel::SystemClock;

use super::*;

fn owner() -> Owner {
    (NpcId::mint(&SystemClock), PlayerId::mint(&SystemClock))
}

fn admission() -> Admission {
    Admission::new(&Config {
        at_once: 3,
        at_once_per_host: 1,
        at_once_per_npc: 2,
        queue: 8,
        ..Config::default()
    })
}

fn soon() -> Instant {
    Instant::now() + Duration::from_millis(1)
}

fn later() -> Instant {
    Instant::now() + Duration::from_mins(1)
}

#[tokio::test]
async fn one_npc_takes_no_more_than_its_share_and_another_still_gets_in() {
    let (admission, greedy) = (admission(), owner());
    let _first = admission.enter(greedy, soon()).await.expect("a place");
    let second = admission.enter(greedy, soon()).await.expect("a place");
    let waits = admission.enter(greedy, later());
    tokio::pin!(waits);
    assert!(futures_poll(&mut waits).await.is_none());
    // Its part of the queue is one.
    assert_eq!(
        admission.enter(greedy, later()).await.err(),
        Some(NoPlace::QueueIsFull)
    );
    let _other = admission.enter(owner(), soon()).await.expect("a place");
    drop(second);
    waits.await.expect("its turn");
}

#[tokio::test]
async fn who_waits_too_long_is_told_so_and_leaves_the_queue() {
    let (admission, one) = (admission(), owner());
    let _held = [
        admission.enter(one, soon()).await.expect("a place"),
        admission.enter(one, soon()).await.expect("a place"),
    ];
    for _ in 0..20 {
        assert_eq!(
            admission.enter(one, soon()).await.err(),
            Some(NoPlace::TooLate)
        );
    }
}

#[tokio::test]
async fn a_host_gets_as_many_as_it_may_and_a_bounded_queue() {
    let admission = admission();
    let held = admission
        .enter_host("a.example", soon())
        .await
        .expect("a place");
    let mut waiting: Vec<_> = (0..WAITING_PER_PLACE)
        .map(|_| Box::pin(admission.enter_host("a.example", later())))
        .collect();
    for one in &mut waiting {
        assert!(futures_poll(one).await.is_none());
    }
    assert_eq!(
        admission.enter_host("a.example", later()).await.err(),
        Some(NoPlace::QueueIsFull)
    );
    admission
        .enter_host("b.example", soon())
        .await
        .expect("a place");
    drop(held);
    waiting.remove(0).await.expect("its turn");
}

#[tokio::test]
async fn keys_that_nobody_uses_are_forgotten() {
    let admission = admission();
    for number in 0..5_000 {
        let host = format!("{number}.example");
        admission.enter_host(&host, soon()).await.expect("a place");
    }
    let kept = admission.hosts.0.lock().expect("a lock").len();
    assert!(kept <= KEYS, "{kept}");
}

/// One look at a future.
async fn futures_poll<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    std::future::poll_fn(|context| {
        std::task::Poll::Ready(match std::pin::Pin::new(&mut *future).poll(context) {
            std::task::Poll::Ready(output) => Some(output),
            std::task::Poll::Pending => None,
        })
    })
    .await
}

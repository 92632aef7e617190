use kernel::SystemClock;

use super::*;

fn cancelled() -> ProviderError {
    ProviderError {
        kind: ErrorKind::Cancelled,
        status: None,
        sentence: "Provider p was not asked further: the step was stopped".to_owned(),
        provider: "p".to_owned(),
    }
}

#[test]
fn a_provider_that_hears_of_the_stop_before_the_turn_does_not_fail_it() {
    let turn = TurnId::mint(&SystemClock);
    for broken in [Broken::Opening, Broken::Stream] {
        assert_eq!(
            broken_end(turn, Some(Stop::Aborted), broken(cancelled())),
            End::Stopped(Stop::Aborted)
        );
    }
}

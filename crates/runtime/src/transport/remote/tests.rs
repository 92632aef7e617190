use testkit::port::HeldPort;
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};
use tower::util::BoxCloneSyncService;

use super::*;
use crate::{Host, Lifecycle, host::Keys};

/// A way to a name that was last looked up so long ago, when it had an address at which nobody listens any more: the held one.
async fn moved(looked_up: Duration) -> (Lifecycle, HeldPort, Balanced) {
    let lifecycle = Lifecycle::new();
    let local = SocketAddr::from(([127, 0, 0, 1], 0));
    let address = Host::new(lifecycle.clone(), Keys::MadeAtStart)
        .listen(local)
        .await
        .unwrap();
    let balanced = Balanced::to_name(&format!("http://{address}"), None).unwrap();
    let nobody = HeldPort::new();
    let gone = nobody.on_loopback();
    {
        let mut state = balanced.0.lock();
        state.slots = vec![Slot {
            address: gone,
            channel: balanced.0.targets[0].channel(gone).unwrap(),
        }];
        state.resolved = Instant::now().checked_sub(looked_up);
    }
    (lifecycle, nobody, balanced)
}

async fn call(balanced: &Balanced) -> Result<(), Status> {
    let transport = super::super::Transport(BoxCloneSyncService::new(balanced.clone()));
    HealthClient::new(transport)
        .check(HealthCheckRequest::default())
        .await
        .map(|_answer| ())
}

#[tokio::test]
async fn a_name_is_looked_up_again_after_a_while() {
    let (_lifecycle, _nobody, balanced) = moved(RESOLVED_FOR).await;
    call(&balanced).await.unwrap();
}

#[tokio::test]
async fn a_name_is_looked_up_again_at_once_when_none_of_its_addresses_answers() {
    let (_lifecycle, _nobody, balanced) = moved(Duration::ZERO).await;
    call(&balanced).await.unwrap_err();
    call(&balanced).await.unwrap();
}

#[tokio::test]
async fn connections_are_kept_when_a_name_keeps_its_addresses() {
    let (_lifecycle, _nobody, balanced) = moved(RESOLVED_FOR).await;
    call(&balanced).await.unwrap();
    let count = balanced.0.lock().slots.len();
    assert_eq!(count, CONNECTIONS);
    balanced.0.lock().resolved = None;
    call(&balanced).await.unwrap();
    assert_eq!(balanced.0.lock().slots.len(), CONNECTIONS);
}

#[tokio::test]
async fn calls_take_turns_between_the_connections_and_pass_over_what_failed() {
    let balanced = Balanced::to_name("http://127.0.0.1:1", None).unwrap();
    let addresses = [1, 2, 3].map(|last| SocketAddr::from(([127, 0, 0, last], 1)));
    balanced.0.lock().slots = [addresses, addresses]
        .concat()
        .into_iter()
        .map(|address| Slot {
            address,
            channel: balanced.0.targets[0].channel(address).unwrap(),
        })
        .collect();
    let first = || balanced.0.candidates()[0].address;
    let turns = [first(), first(), first(), first()];
    assert_eq!(
        turns,
        [addresses[0], addresses[1], addresses[2], addresses[0]]
    );
    balanced.0.pass_over(addresses[1]);
    let order: Vec<SocketAddr> = balanced
        .0
        .candidates()
        .into_iter()
        .map(|slot| slot.address)
        .collect();
    assert_eq!(order.len(), 3, "each address once: {order:?}");
    assert_eq!(order[2], addresses[1]);
}

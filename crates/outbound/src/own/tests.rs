use std::sync::Mutex;

use testkit::clock::ManualClock;

use super::*;

fn socket(text: &str) -> SocketAddr {
    text.parse().expect("a socket address")
}

fn address(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// Interfaces that a test changes; None cannot be read.
type Interfaces = Arc<Mutex<Option<Vec<Interface>>>>;

fn networks(texts: &[&str]) -> Vec<Interface> {
    texts
        .iter()
        .map(|text| Interface {
            network: text.parse().expect("a network"),
            is_loopback: false,
        })
        .collect()
}

fn machine(texts: &[&str]) -> (Interfaces, Arc<ManualClock>, OwnAddresses) {
    let interfaces: Interfaces = Arc::new(Mutex::new(Some(networks(texts))));
    let clock = Arc::new(ManualClock::default());
    let read = Arc::clone(&interfaces);
    let own = OwnAddresses::read_by(
        Box::new(move || {
            read.lock()
                .unwrap_or_else(PoisonError::into_inner)
                .clone()
                .ok_or_else(|| io::Error::other("no interfaces"))
        }),
        Arc::clone(&clock) as Arc<dyn Clock>,
    )
    .expect("interfaces");
    (interfaces, clock, own)
}

fn become_known(interfaces: &Interfaces, networks: Option<Vec<Interface>>) {
    *interfaces.lock().unwrap_or_else(PoisonError::into_inner) = networks;
}

#[test]
fn this_machines_own_addresses_are_known() {
    let own = OwnAddresses::of_this_machine(Arc::new(kernel::SystemClock)).expect("interfaces");
    assert_eq!(own.belonging(address("127.0.0.1")), Some(Belonging::Itself));
    assert_eq!(own.belonging(address("93.184.216.34")), None);
}

#[test]
fn an_address_that_the_machine_gets_later_is_known_within_half_a_minute() {
    let (interfaces, clock, own) = machine(&["198.51.100.7/24"]);
    let late = address("93.184.216.34");
    become_known(&interfaces, Some(networks(&["93.184.216.34/32"])));
    clock.advance(MAX_AGE);
    assert_eq!(own.belonging(late), None);
    clock.advance(Duration::from_micros(1));
    assert_eq!(own.belonging(late), Some(Belonging::Itself));
    assert_eq!(own.belonging(address("198.51.100.7")), None);
}

#[test]
fn a_clock_that_is_set_back_keeps_no_old_list_alive() {
    let (interfaces, clock, own) = machine(&["198.51.100.7/24"]);
    become_known(&interfaces, Some(networks(&["93.184.216.34/32"])));
    clock.set(Timestamp::from_micros(0));
    assert_eq!(
        own.belonging(address("93.184.216.34")),
        Some(Belonging::Itself)
    );
}

#[test]
fn interfaces_that_cannot_be_read_any_more_stay_refused() {
    let (interfaces, clock, own) = machine(&["93.184.216.34/32"]);
    become_known(&interfaces, None);
    clock.advance(MAX_AGE * 3);
    assert_eq!(
        own.belonging(address("93.184.216.34")),
        Some(Belonging::Itself)
    );
}

#[test]
fn what_is_on_the_machines_networks_is_on_link_and_its_own_address_is_itself() {
    let (_interfaces, _clock, own) =
        machine(&["93.184.216.34/24", "2606:4700::5/64", "5.5.5.5/32"]);
    let on_link = |network: &str| Some(Belonging::OnLink(network.parse().expect("a network")));
    for (text, expected) in [
        ("93.184.216.34", Some(Belonging::Itself)),
        ("93.184.216.1", on_link("93.184.216.0/24")),
        ("93.184.217.1", None),
        ("2606:4700::5", Some(Belonging::Itself)),
        ("2606:4700::6", on_link("2606:4700::/64")),
        ("2606:4700:0:1::6", None),
        ("5.5.5.5", Some(Belonging::Itself)),
        ("5.5.5.6", None),
    ] {
        assert_eq!(own.belonging(address(text)), expected, "{text}");
    }
}

#[test]
fn a_listener_on_all_addresses_is_reached_by_every_local_one() {
    let (_interfaces, _clock, own) =
        machine(&["127.0.0.1/8", "93.184.216.34/24", "2606:4700::5/64"]);
    for (address, listener, expected) in [
        ("127.0.0.1:80", "127.0.0.1:80", true),
        ("127.0.0.1:81", "127.0.0.1:80", false),
        ("127.0.0.9:80", "0.0.0.0:80", true),
        ("127.0.0.9:80", "127.0.0.1:80", false),
        ("127.0.0.1:80", "[::]:80", true),
        ("[::1]:80", "[::]:80", true),
        ("[::ffff:127.0.0.1]:80", "127.0.0.1:80", true),
        ("127.0.0.1:80", "[::ffff:127.0.0.1]:80", true),
        ("0.0.0.0:80", "127.0.0.1:80", true),
        ("[::]:80", "[::1]:80", true),
        ("93.184.216.34:80", "0.0.0.0:80", true),
        ("93.184.216.34:80", "[::]:80", true),
        ("[2606:4700::5]:80", "[::]:80", true),
        ("93.184.216.34:80", "93.184.216.34:80", true),
        ("93.184.216.35:80", "0.0.0.0:80", false),
        ("93.184.216.34:80", "127.0.0.1:80", false),
    ] {
        assert_eq!(
            reaches(socket(address), socket(listener), Some(&own)),
            expected,
            "{address} {listener}"
        );
    }
    assert!(!reaches(
        socket("93.184.216.34:80"),
        socket("0.0.0.0:80"),
        None
    ));
}

//! What a machine's own addresses are, on a machine that the test makes.

use std::{
    net::{IpAddr, TcpListener, TcpStream},
    sync::Arc,
    time::Duration,
};

use kernel::Clock;
use outbound::{Config, Consumer, Guard, Rule};
use testkit::{clock::ManualClock, netns::Namespace};

use crate::support::target;

/// Past the age at which the list of addresses is read again.
const LATER: Duration = Duration::from_secs(31);

struct Machine {
    namespace: Namespace,
    clock: Arc<ManualClock>,
    guard: Guard,
}

impl Machine {
    fn with(config: &Config) -> Self {
        let namespace = Namespace::new();
        let clock = Arc::new(ManualClock::default());
        let guard = namespace.run(|| {
            Guard::with_clock(config, Arc::clone(&clock) as Arc<dyn Clock>).expect("a guard")
        });
        Self {
            namespace,
            clock,
            guard,
        }
    }

    /// The rule that refuses an address, on any port.
    fn refuses(&self, address: &str) -> Option<Rule> {
        let target = target("https://a.example:8443/");
        let address: IpAddr = address.parse().expect("an address");
        self.namespace
            .run(|| {
                let standing = self.guard.judge_name(&target, Consumer::Fetch)?;
                self.guard
                    .judge_address(&target, address, standing, Consumer::Fetch)
            })
            .err()
            .map(|refusal| refusal.rule)
    }
}

#[test]
fn an_address_that_the_machine_gets_is_refused_from_the_next_look_on_and_its_network_with_it() {
    let machine = Machine::with(&Config::default());
    for public in ["93.184.216.34", "93.184.216.35", "2606:4700::34"] {
        assert_eq!(machine.refuses(public), None, "{public}");
    }
    machine
        .namespace
        .ip("link add wire0 type veth peer name wire1\n\
         address add 93.184.216.34/24 dev wire0\n\
         address add 2606:4700::34/64 dev wire0 nodad");
    machine.clock.advance(LATER);
    for (address, expected) in [
        ("93.184.216.34", Some(Rule::OwnAddress)),
        ("93.184.216.35", Some(Rule::OwnNetwork)),
        ("93.184.217.1", None),
        ("::ffff:93.184.216.34", Some(Rule::OwnAddress)),
        ("64:ff9b::93.184.216.35", Some(Rule::OwnNetwork)),
        ("2606:4700::34", Some(Rule::OwnAddress)),
        ("2606:4700::35", Some(Rule::OwnNetwork)),
        ("2606:4700:0:1::35", None),
    ] {
        assert_eq!(machine.refuses(address), expected, "{address}");
    }
    machine
        .namespace
        .ip("address del 93.184.216.34/24 dev wire0");
    machine.clock.advance(LATER);
    assert_eq!(machine.refuses("93.184.216.34"), None);
}

#[test]
fn a_listener_on_all_addresses_is_refused_at_an_address_that_came_after_it_bound() {
    let open = serde_json::from_str(r#"{"allow":[{"to":"a.example","for":["fetch"]}]}"#);
    let machine = Machine::with(&open.expect("settings"));
    machine
        .guard
        .protect_listener("[::]:8443".parse().expect("a socket address"));
    assert_eq!(machine.refuses("93.184.216.34"), None);
    machine.namespace.ip("address add 93.184.216.34/32 dev lo");
    machine.clock.advance(LATER);
    for address in ["93.184.216.34", "::ffff:93.184.216.34", "::1", "127.0.0.1"] {
        assert_eq!(
            machine.refuses(address),
            Some(Rule::OwnListener),
            "{address}"
        );
    }
}

#[test]
fn a_listener_is_refused_at_every_address_of_a_network_on_the_loopback_interface() {
    let open = serde_json::from_str(r#"{"allow":[{"to":"93.184.216.0/24","for":["fetch"]}]}"#);
    let machine = Machine::with(&open.expect("settings"));
    // A name tells nothing of an interface: this one was called lo.
    machine.namespace.ip("address add 93.184.216.34/24 dev lo\n\
         link set lo down\n\
         link set lo name anycast\n\
         link set anycast up");
    machine.clock.advance(LATER);
    let listener = machine
        .namespace
        .run(|| TcpListener::bind("0.0.0.0:8443").expect("a listener"));
    let other: IpAddr = "93.184.216.77".parse().expect("an address");
    machine
        .namespace
        .run(|| TcpStream::connect((other, 8443)).expect("the kernel takes it for the machine's"));
    machine
        .guard
        .protect_listener(listener.local_addr().expect("an address"));
    assert_eq!(
        machine.refuses("93.184.216.77"),
        Some(Rule::OwnListener),
        "although it is exempt"
    );
}

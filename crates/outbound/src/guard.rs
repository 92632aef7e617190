//! The decision: policy, exemptions, and what is the Village's own.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::{Arc, PoisonError, RwLock},
};

use ipnet::IpNet;
use kernel::{Clock, SystemClock};

use crate::{
    BlockedAddress, Config, Consumer, Exemption, Mode, Policy, Refusal, Rule, SetUpError, Target,
    Verdict, name,
    own::{Belonging, OwnAddresses, reaches},
};

/// The ports that traffic of Sandboxes may go to, unless the settings name others: the web's.
const WEB_PORTS: [u16; 2] = [80, 443];

/// Judges targets by name, and the addresses that they have. It resolves nothing and connects to nothing.
#[derive(Debug)]
pub struct Guard {
    policy: Policy,
    exemptions: Vec<Exemption>,
    mode: Mode,
    own_networks: Vec<IpNet>,
    own_addresses: Option<OwnAddresses>,
    own_listeners: RwLock<Vec<SocketAddr>>,
    egress_ports: RwLock<Vec<u16>>,
}

/// How a target stands after its name was judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Its addresses are judged.
    Ordinary,
    /// An exemption opens the name, and with it all its addresses but metadata and the Village's own listeners.
    Exempt,
}

impl Guard {
    /// A guard for this machine. Exemptions, and report mode, are logged.
    pub fn new(config: &Config) -> Result<Self, SetUpError> {
        Self::with_clock(config, Arc::new(SystemClock))
    }

    /// A guard that looks at this machine's addresses again by this clock.
    pub fn with_clock(config: &Config, clock: Arc<dyn Clock>) -> Result<Self, SetUpError> {
        let own = OwnAddresses::of_this_machine(clock).map_err(SetUpError::OwnAddresses)?;
        let guard = Self {
            own_addresses: Some(own),
            ..Self::offline(config)
        };
        for exemption in &guard.exemptions {
            tracing::info!(%exemption, "the guard has an exemption");
        }
        if guard.mode == Mode::Report {
            tracing::warn!(
                "outbound.mode is \"report\": refusals are logged and not enforced, except for loopback, link-local, metadata and own networks"
            );
        }
        Ok(guard)
    }

    /// A guard that knows nothing of the machine it runs on.
    pub fn offline(config: &Config) -> Self {
        Self {
            policy: Policy::new(config.nat64_prefixes.clone()),
            exemptions: config.allow.clone(),
            mode: config.mode,
            own_networks: config.own_networks.clone(),
            own_addresses: None,
            own_listeners: RwLock::new(Vec::new()),
            egress_ports: RwLock::new(WEB_PORTS.to_vec()),
        }
    }

    /// Whether refusals hold; `/readyz` warns when they do not.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Refuses connections to one of the Village's own listeners, whatever is exempt. Call it with the bound address.
    pub fn protect_listener(&self, listener: SocketAddr) {
        self.own_listeners
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .push(listener);
    }

    /// Lets traffic of Sandboxes go to these ports, instead of 80 and 443. An exemption opens its own port besides.
    pub fn set_egress_ports(&self, ports: &[u16]) {
        *self
            .egress_ports
            .write()
            .unwrap_or_else(PoisonError::into_inner) = ports.to_vec();
    }

    /// Judges a target by its name. What it says of an address is only that its addresses are judged next.
    pub fn judge_name(&self, target: &Target, consumer: Consumer) -> Result<Standing, Refusal> {
        let Some(name) = target.name() else {
            return Ok(Standing::Ordinary);
        };
        let refused = name::judge(name);
        if refused == Some(Rule::MetadataName) {
            return Err(name_refusal(name, Rule::MetadataName));
        }
        if self
            .exemptions
            .iter()
            .any(|exemption| exemption.opens_name(name, target.port(), consumer))
        {
            return Ok(Standing::Exempt);
        }
        match refused {
            None => self.judge_port_of_name(target, consumer),
            Some(rule) => {
                let refusal = name_refusal(name, rule);
                // What the name stands for is judged next, so that localhost stays refused by its addresses.
                if self.lets_pass(rule) && !name::is_kept_out_of_dns(name) {
                    report(&refusal, consumer);
                    self.judge_port_of_name(target, consumer)
                } else {
                    Err(refusal)
                }
            }
        }
    }

    /// Judges a target as far as it goes without a look-up: its name, or its address if that is what it names. For URLs that are
    /// saved now and connected to later, when they are judged again.
    pub fn judge_without_look_up(
        &self,
        target: &Target,
        consumer: Consumer,
    ) -> Result<(), Refusal> {
        let standing = self.judge_name(target, consumer)?;
        match target.address() {
            Some(address) => self.judge_address(target, address, standing, consumer),
            None => Ok(()),
        }
    }

    /// Judges one address of a target.
    pub fn judge_address(
        &self,
        target: &Target,
        address: IpAddr,
        standing: Standing,
        consumer: Consumer,
    ) -> Result<(), Refusal> {
        let refuse =
            |blocked: &BlockedAddress| Refusal::of_address(target.host().to_string(), blocked);
        if self.is_own_listener(address, target.port()) {
            return Err(Refusal::new(
                Rule::OwnListener,
                target.host().to_string(),
                format!(
                    "{address} port {} is where the Village itself listens, and no exemption opens that",
                    target.port()
                ),
            )
            .with_address(address));
        }
        let by_policy = match self.policy.judge(address) {
            Verdict::Public => None,
            Verdict::Blocked(blocked) => Some(blocked),
        };
        if let Some(blocked) = &by_policy
            && self.policy.is_metadata(address)
        {
            return Err(refuse(blocked));
        }
        let own = self.judge_own(address);
        if standing == Standing::Exempt || self.is_exempt(address, target.port(), consumer) {
            return Ok(());
        }
        let Some(blocked) = by_policy.or(own) else {
            return self.judge_port(target, consumer);
        };
        if self.mode == Mode::Report && own.is_none() && self.policy.may_be_reported(&blocked) {
            report(&refuse(&blocked), consumer);
            return self.judge_port(target, consumer);
        }
        Err(refuse(&blocked))
    }

    /// Refuses a port that no address of the name can open, before anybody is asked for them.
    fn judge_port_of_name(&self, target: &Target, consumer: Consumer) -> Result<Standing, Refusal> {
        let may_open = self
            .exemptions
            .iter()
            .any(|exemption| exemption.opens_some_address(target.port(), consumer));
        if !may_open {
            self.judge_port(target, consumer)?;
        }
        Ok(Standing::Ordinary)
    }

    /// Judges the port of a target that no exemption opens.
    fn judge_port(&self, target: &Target, consumer: Consumer) -> Result<(), Refusal> {
        let is_open = match consumer {
            Consumer::Mcp | Consumer::Fetch => true,
            Consumer::Egress => self
                .egress_ports
                .read()
                .unwrap_or_else(PoisonError::into_inner)
                .contains(&target.port()),
        };
        if is_open {
            return Ok(());
        }
        Err(Refusal::new(
            Rule::Port,
            target.host().to_string(),
            format!(
                "traffic of Sandboxes does not go to port {} (egress.ports)",
                target.port()
            ),
        ))
    }

    fn lets_pass(&self, rule: Rule) -> bool {
        self.mode == Mode::Report && rule.may_be_reported()
    }

    fn is_exempt(&self, address: IpAddr, port: u16, consumer: Consumer) -> bool {
        self.policy.is_covered(address, |open| {
            self.exemptions
                .iter()
                .any(|exemption| exemption.opens_address(open, port, consumer))
        })
    }

    fn is_own_listener(&self, address: IpAddr, port: u16) -> bool {
        let listeners = self
            .own_listeners
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        self.policy.readings(address).any(|reading| {
            let destination = SocketAddr::new(reading, port);
            listeners
                .iter()
                .any(|&listener| reaches(destination, listener, self.own_addresses.as_ref()))
        })
    }

    fn judge_own(&self, address: IpAddr) -> Option<BlockedAddress> {
        self.policy.readings(address).find_map(|reading| {
            let (rule, network, registry) = self.owner(reading)?;
            Some(BlockedAddress {
                address,
                rule,
                network,
                registry,
                embedded: match reading {
                    IpAddr::V4(v4) if reading != address => Some(v4),
                    IpAddr::V4(_) | IpAddr::V6(_) => None,
                },
            })
        })
    }

    fn owner(&self, address: IpAddr) -> Option<(Rule, IpNet, &'static str)> {
        let own = self.own_addresses.as_ref();
        match own.and_then(|own| own.belonging(address)) {
            Some(Belonging::Itself) => Some((
                Rule::OwnAddress,
                IpNet::from(address),
                "an address of this machine",
            )),
            Some(Belonging::OnLink(network)) => Some((
                Rule::OwnNetwork,
                network,
                "a network that this machine is on",
            )),
            None => self
                .own_networks
                .iter()
                .find(|network| network.contains(&address))
                .map(|&network| {
                    (
                        Rule::OwnNetwork,
                        network,
                        "one of the Village's own networks, outbound.own_networks",
                    )
                }),
        }
    }
}

/// The addresses that a target has without a look-up: a literal's, and an exempt `localhost`'s.
pub(crate) fn known_addresses(target: &Target, standing: Standing) -> Option<Vec<IpAddr>> {
    if let Some(address) = target.address() {
        return Some(vec![address]);
    }
    let is_localhost = target.name().is_some_and(name::is_localhost);
    (is_localhost && standing == Standing::Exempt).then(|| {
        vec![
            IpAddr::V4(Ipv4Addr::LOCALHOST),
            IpAddr::V6(Ipv6Addr::LOCALHOST),
        ]
    })
}

fn name_refusal(name: &str, rule: Rule) -> Refusal {
    let detail = if rule == Rule::MetadataName {
        "it is the name of a cloud's metadata service, and no exemption opens that"
    } else if rule == Rule::SingleLabel {
        "it has no dot, and such a name only means something inside a network"
    } else {
        "a name that ends so only means something on a machine or inside a network"
    };
    Refusal::new(rule, name.to_owned(), detail)
}

fn report(refusal: &Refusal, consumer: Consumer) {
    tracing::warn!(
        host = refusal.host,
        address = refusal.address.map(tracing::field::display),
        rule = refusal.rule.as_str(),
        %consumer,
        "the guard would have refused this (outbound.mode is \"report\")"
    );
}

#[cfg(test)]
mod tests;

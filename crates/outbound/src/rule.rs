//! The rules of the guard, each with a short stable name.

use std::fmt;

/// Why a destination is refused. The set is closed; the names are stable, because logs, the CLI and people's scripts carry them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rule {
    /// 0.0.0.0/8 and `::`: "this network". A connection to 0.0.0.0 reaches the machine itself.
    ThisNetwork,
    /// 127.0.0.0/8 and `::1`.
    Loopback,
    /// RFC 1918.
    Private,
    /// 100.64.0.0/10, shared by carriers (RFC 6598).
    Shared,
    /// 169.254.0.0/16 and `fe80::/10`.
    LinkLocal,
    /// An address where a cloud serves credentials or controls its machines.
    Metadata,
    /// 192.0.0.0/24 and `2001::/23`.
    ProtocolAssignments,
    /// Addresses for books and examples.
    Documentation,
    /// Addresses for measuring equipment.
    Benchmarking,
    /// The retired 6to4 relays, 192.88.99.0/24.
    SixToFourRelay,
    /// Multicast.
    Multicast,
    /// Reserved space.
    Reserved,
    /// `fc00::/7`.
    UniqueLocal,
    /// `fec0::/10`, retired and still routed in places.
    SiteLocal,
    /// `100::/64` and the dummy prefix.
    Discard,
    /// `5f00::/16`.
    SegmentRouting,
    /// `::/96`, an IPv4 address in a retired form.
    Ipv4Compatible,
    /// `64:ff9b:1::/48`, for translators of a private network.
    LocalTranslation,
    /// `2002::/16`.
    SixToFour,
    /// `2001::/32`.
    Teredo,
    /// Outside `2000::/3`, where no public host is.
    NotGlobalUnicast,
    /// An address of this machine.
    OwnAddress,
    /// A network that this machine is on, or one that the Operator calls the Village's own.
    OwnNetwork,
    /// One of the Village's own listeners.
    OwnListener,
    /// A name without a dot, which a search list could complete.
    SingleLabel,
    /// A name with an empty label.
    EmptyLabel,
    /// A name or label longer than DNS has.
    NameTooLong,
    /// A name that only has meaning inside some network.
    LocalName,
    /// A name of a metadata service.
    MetadataName,
    /// Not a URL.
    Malformed,
    /// A URL that is too long.
    UrlTooLong,
    /// A scheme that may not be used here.
    Scheme,
    /// A URL with a user name or a password.
    Userinfo,
    /// A port of another protocol (Fetch Standard, "bad port"), or one that traffic of Sandboxes does not go to.
    Port,
}

impl Rule {
    /// The stable name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ThisNetwork => "this-network",
            Self::Loopback => "loopback",
            Self::Private => "private",
            Self::Shared => "shared",
            Self::LinkLocal => "link-local",
            Self::Metadata => "metadata",
            Self::ProtocolAssignments => "protocol-assignments",
            Self::Documentation => "documentation",
            Self::Benchmarking => "benchmarking",
            Self::SixToFourRelay => "6to4-relay",
            Self::Multicast => "multicast",
            Self::Reserved => "reserved",
            Self::UniqueLocal => "unique-local",
            Self::SiteLocal => "site-local",
            Self::Discard => "discard",
            Self::SegmentRouting => "segment-routing",
            Self::Ipv4Compatible => "ipv4-compatible",
            Self::LocalTranslation => "local-translation",
            Self::SixToFour => "6to4",
            Self::Teredo => "teredo",
            Self::NotGlobalUnicast => "not-global-unicast",
            Self::OwnAddress => "own-address",
            Self::OwnNetwork => "own-network",
            Self::OwnListener => "own-listener",
            Self::SingleLabel => "single-label",
            Self::EmptyLabel => "empty-label",
            Self::NameTooLong => "name-too-long",
            Self::LocalName => "local-name",
            Self::MetadataName => "metadata-name",
            Self::Malformed => "malformed",
            Self::UrlTooLong => "url-too-long",
            Self::Scheme => "scheme",
            Self::Userinfo => "userinfo",
            Self::Port => "port",
        }
    }

    /// Whether report mode may let it pass: addresses and names may, except the machine itself, its own networks, link-local
    /// and metadata; what is wrong with the URL as such never.
    pub(crate) const fn may_be_reported(self) -> bool {
        match self {
            Self::Private
            | Self::Shared
            | Self::ProtocolAssignments
            | Self::Documentation
            | Self::Benchmarking
            | Self::SixToFourRelay
            | Self::Multicast
            | Self::Reserved
            | Self::UniqueLocal
            | Self::SiteLocal
            | Self::Discard
            | Self::SegmentRouting
            | Self::Ipv4Compatible
            | Self::LocalTranslation
            | Self::SixToFour
            | Self::Teredo
            | Self::NotGlobalUnicast
            | Self::SingleLabel
            | Self::LocalName => true,
            Self::ThisNetwork
            | Self::Loopback
            | Self::LinkLocal
            | Self::Metadata
            | Self::OwnAddress
            | Self::OwnNetwork
            | Self::OwnListener
            | Self::EmptyLabel
            | Self::NameTooLong
            | Self::MetadataName
            | Self::Malformed
            | Self::UrlTooLong
            | Self::Scheme
            | Self::Userinfo
            | Self::Port => false,
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

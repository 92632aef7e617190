//! Names that are refused without asking anybody.

use crate::Rule;

/// The longest name, without the dot of the root (RFC 1035 section 2.3.4).
const NAME_OCTETS: usize = 253;
/// The longest label (RFC 1035 section 2.3.4).
const LABEL_OCTETS: usize = 63;

/// Names whose hosts only have meaning inside some network: RFC 6761, 6762, 7686, 8375, the `.internal` that ICANN reserved in
/// 2024, and what routers, clusters and directories use in practice. A public resolver never answers for them.
const LOCAL_SUFFIXES: [&str; 12] = [
    "localhost",
    "localdomain",
    "local",
    "internal",
    "intranet",
    "lan",
    "home",
    "corp",
    "private",
    "svc",
    "arpa",
    "onion",
];

const METADATA_NAMES: [&str; 9] = [
    "metadata",
    "metadata.google.internal",
    "metadata.goog",
    "metadata.aws.internal",
    "metadata.azure.internal",
    "metadata.tencentyun.com",
    "instance-data",
    "instance-data.ec2.internal",
    "rancher-metadata",
];

/// Whether the name cannot be one in DNS. `name` has lost the dot of the root.
pub(crate) fn fault(name: &str) -> Option<Rule> {
    if name.split('.').any(str::is_empty) {
        Some(Rule::EmptyLabel)
    } else if name.len() > NAME_OCTETS || name.split('.').any(|label| label.len() > LABEL_OCTETS) {
        Some(Rule::NameTooLong)
    } else {
        None
    }
}

/// Whether the name is, or lies under, one of a metadata service.
pub(crate) fn is_metadata(name: &str) -> bool {
    METADATA_NAMES
        .into_iter()
        .any(|metadata| is_or_lies_under(name, metadata))
}

/// Whether a name in DNS is one that only has meaning inside some network.
pub(crate) fn judge(name: &str) -> Option<Rule> {
    if is_metadata(name) {
        Some(Rule::MetadataName)
    } else if LOCAL_SUFFIXES
        .into_iter()
        .any(|suffix| is_or_lies_under(name, suffix))
    {
        Some(Rule::LocalName)
    } else if name.contains('.') {
        None
    } else {
        Some(Rule::SingleLabel)
    }
}

/// Whether the name means the machine itself and needs no look-up (RFC 6761 section 6.3).
pub(crate) fn is_localhost(name: &str) -> bool {
    is_or_lies_under(name, "localhost")
}

/// Whether the name must not be asked for in DNS, and so is never only reported: RFC 6761 section 6.3, RFC 7686 section 2.
pub(crate) fn is_kept_out_of_dns(name: &str) -> bool {
    is_localhost(name) || is_or_lies_under(name, "onion")
}

fn is_or_lies_under(name: &str, parent: &str) -> bool {
    name.strip_suffix(parent)
        .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suffix_counts_at_label_borders_only() {
        assert_eq!(judge("mylocal.com"), None);
        assert_eq!(judge("notlocalhost.example"), None);
        assert_eq!(judge("foo.internal.example.com"), None);
        assert_eq!(judge("foo.internal"), Some(Rule::LocalName));
        assert_eq!(judge("local"), Some(Rule::LocalName));
        assert_eq!(judge("redis"), Some(Rule::SingleLabel));
        assert_eq!(judge("x.metadata.goog"), Some(Rule::MetadataName));
        assert_eq!(judge("metadata"), Some(Rule::MetadataName));
        assert_eq!(judge("metadata.example.com"), None);
    }

    #[test]
    fn a_name_that_dns_cannot_have_is_at_fault() {
        assert_eq!(fault(""), Some(Rule::EmptyLabel));
        assert_eq!(fault("127.0.0.1."), Some(Rule::EmptyLabel));
        assert_eq!(fault(".a.com"), Some(Rule::EmptyLabel));
        assert_eq!(fault(&format!("{}.com", "a".repeat(63))), None);
        assert_eq!(
            fault(&format!("{}.com", "a".repeat(64))),
            Some(Rule::NameTooLong)
        );
        let longest = [63, 63, 63, 61].map(|n| "a".repeat(n)).join(".");
        assert_eq!(longest.len(), 253);
        assert_eq!(fault(&longest), None);
        assert_eq!(fault(&format!("{longest}a")), Some(Rule::NameTooLong));
    }
}

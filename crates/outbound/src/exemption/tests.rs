use proptest::prelude::*;

use super::*;

#[test]
fn every_form_of_an_entry_is_read() {
    for (text, shown) in [
        ("localhost", "localhost"),
        ("Intra.Example.:8443", "intra.example:8443"),
        ("münchen.de", "xn--mnchen-3ya.de"),
        ("10.1.2.3/8", "10.0.0.0/8"),
        ("10.1.2.3", "10.1.2.3/32"),
        ("10.1.2.3:443", "10.1.2.3/32:443"),
        ("10.0.0.0/8:443", "10.0.0.0/8:443"),
        ("fd00::/8", "fd00::/8"),
        ("::1", "::1/128"),
        ("[::1]", "::1/128"),
        ("[::1]:443", "[::1/128]:443"),
        ("[fd00::/8]:443", "[fd00::/8]:443"),
        ("[::ffff:10.0.0.1]:443", "10.0.0.1/32:443"),
        ("::ffff:10.0.0.0/104", "10.0.0.0/8"),
    ] {
        let opening: Opening = text.parse().expect(text);
        assert_eq!(opening.to_string(), shown, "{text}");
    }
}

#[test]
fn an_entry_that_could_open_more_than_it_says_is_refused() {
    for text in [
        "",
        "*",
        "*.example.com",
        "https://intra.example",
        "a@b",
        "intra.example:",
        "intra.example:0",
        "intra.example:+80",
        "intra.example:99999",
        "a..b",
        "0x7f.1",
        "127.1",
        "2130706433",
        "10.0.0.0/33",
        "[10.0.0.0/8]:443",
        "[::1",
        "[::1]443",
        "[intra.example]:443",
        "fd00::/8:443",
        "[::1]:0",
        "[::1]:",
        "[::1]:443:443",
        "intra.example:443:443",
        "intra.example/x",
        " intra.example",
        "user@intra.example",
        "intra.example:6667",
        "10.0.0.0/8:22",
        "[fd00::/8]:25",
    ] {
        assert!(text.parse::<Opening>().is_err(), "{text}");
    }
}

#[test]
fn a_bare_entry_opens_for_mcp_only_and_a_table_names_its_consumers() {
    let bare: Exemption = serde_json::from_str(r#""intra.example:443""#).expect("an entry");
    assert_eq!(bare.consumers, [Consumer::Mcp]);
    let scoped: Exemption =
        serde_json::from_str(r#"{"to":"intra.example","for":["fetch","egress"]}"#)
            .expect("an entry");
    assert_eq!(scoped.consumers, [Consumer::Fetch, Consumer::Egress]);
    assert!(!bare.opens_name("intra.example", 443, Consumer::Fetch));
    assert!(bare.opens_name("intra.example", 443, Consumer::Mcp));
    assert!(!bare.opens_name("intra.example", 8443, Consumer::Mcp));
    assert!(!bare.opens_name("sub.intra.example", 443, Consumer::Mcp));
    for wrong in [
        r#"{"to":"intra.example"}"#,
        r#"{"to":"intra.example","for":["all"]}"#,
        r#"{"to":"intra.example","for":[]}"#,
        r#"{"to":"intra.example","for":["mcp"],"port":1}"#,
        r#""*.example""#,
    ] {
        assert!(serde_json::from_str::<Exemption>(wrong).is_err(), "{wrong}");
    }
}

proptest! {
    #[test]
    fn whatever_an_entry_looks_like_it_is_read_or_refused_and_means_the_same_when_it_is_shown(
        text in r"[\[]?[0-9a-fA-F.:*@ \-]{0,24}[\]]?(/[0-9]{1,3})?[\]]?(:[0-9]{0,6})?|\PC{0,40}"
    ) {
        if let Ok(opening) = text.parse::<Opening>() {
            prop_assert_eq!(opening.to_string().parse(), Ok(opening));
        }
    }
}

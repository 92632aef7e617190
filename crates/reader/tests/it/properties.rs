//! Whatever the bytes are, there is a reading.

use std::path::Path;

use proptest::prelude::*;
use reader::{Form, Reading};

use crate::support::{read, source};

const TYPES: [&str; 8] = [
    "",
    "text/html",
    "text/html; charset=shift_jis",
    "application/xhtml+xml",
    "text/plain; charset=utf-16le",
    "application/json",
    "application/pdf",
    "image/png",
];

fn read_now(bytes: Vec<u8>, content_type: &str) -> Reading {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(read(source(bytes, content_type)))
        .unwrap()
}

/// What holds of every reading.
fn check(reading: &Reading) {
    let is_odd = |c: char| {
        (c.is_control() && c != '\n' && c != '\t')
            || matches!(c, '\u{200B}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}' | '\u{E0000}'..='\u{E007F}')
    };
    assert!(!reading.text.is_empty());
    assert!(!reading.text.contains(is_odd), "{:?}", reading.text);
    if let Some(title) = &reading.title {
        assert!(
            !title.contains(is_odd) && !title.contains('\n'),
            "{title:?}"
        );
        assert!(title.chars().count() <= 301);
    }
    assert_ne!(reading.form, Form::Fallback, "{}", reading.text);
}

/// Pieces that markup is made of, in any order.
fn markup() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("<".to_owned()),
        Just(">".to_owned()),
        "</?(p|b|i|a|table|tr|td|th|ul|ol|li|pre|code|blockquote|h1|h2|div|span|svg|math|select|option|template|form|button|br|img|dl|dt|dd|sup|q|ruby|rt|title|base|frameset|body|html|head|caption|details|summary)( (href|src|alt|class|style|colspan|rowspan|start|value|hidden)=[a-z:/.#0-9]{0,6})?>",
        "[a-z |`*_#>\\[\\]()-]{1,8}",
        "\\PC{1,4}",
        Just("<!-- ".to_owned()),
        Just(" -->".to_owned()),
        Just("&#x202e;".to_owned()),
        Just("&#xE0041;".to_owned()),
        Just("&#0;".to_owned()),
        Just("\u{200B}\r\n".to_owned()),
        Just("<![CDATA[".to_owned()),
    ];
    proptest::collection::vec(piece, 0..80).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_have_a_reading(bytes in proptest::collection::vec(any::<u8>(), 0..2_000), of in 0..TYPES.len()) {
        check(&read_now(bytes, TYPES[of]));
    }

    #[test]
    fn any_markup_has_a_reading(page in markup()) {
        check(&read_now(page.into_bytes(), "text/html; charset=utf-8"));
    }

    #[test]
    fn any_mutation_of_a_page_has_a_reading(of in any::<prop::sample::Index>(), cuts in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20)) {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pages");
        let mut pages: Vec<_> = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
        pages.sort();
        let mut bytes = std::fs::read(of.get(&pages)).unwrap();
        for (at, byte) in cuts {
            if !bytes.is_empty() {
                let at = at.index(bytes.len());
                if byte % 3 == 0 { bytes.remove(at); } else { bytes[at] = byte; }
            }
        }
        check(&read_now(bytes, ""));
    }
}

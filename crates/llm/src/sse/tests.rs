use proptest::prelude::*;

use super::*;

/// What a framer makes of the chunks.
fn frames<'c>(chunks: impl IntoIterator<Item = &'c [u8]>) -> Vec<String> {
    let mut framer = Framer::default();
    let mut out = Vec::new();
    for chunk in chunks {
        framer.push(chunk);
        while let Some(frame) = framer.next().unwrap() {
            out.push(frame.into_owned());
        }
    }
    out.extend(framer.end().unwrap().map(Cow::into_owned));
    out
}

fn whole(bytes: &[u8]) -> Vec<String> {
    frames([bytes])
}

#[test]
fn lines_end_in_lf_crlf_or_cr() {
    for end in ["\n", "\r\n", "\r"] {
        let stream = format!("data: a{end}{end}event: x{end}data:b{end}data: c{end}{end}");
        assert_eq!(whole(stream.as_bytes()), ["a", "b\nc"], "{end:?}");
    }
}

#[test]
fn a_crlf_split_across_chunks_is_one_line_end() {
    assert_eq!(
        frames([&b"data: a\r"[..], b"\n\r", b"\ndata: b\r", b"", b"\n"]),
        ["a", "b"]
    );
}

#[test]
fn a_frame_is_handed_out_as_soon_as_its_blank_line_ends_in_cr() {
    let mut framer = Framer::default();
    framer.push(b"data: a\r\r");
    assert_eq!(framer.next().unwrap().as_deref(), Some("a"));
}

#[test]
fn a_byte_order_mark_at_the_start_is_skipped_and_elsewhere_kept() {
    assert_eq!(
        whole(b"\xEF\xBB\xBFdata: a\n\ndata: \xEF\xBB\xBFb\n\n"),
        ["a", "\u{FEFF}b"]
    );
    assert_eq!(
        frames([&b"\xEF"[..], b"\xBB", b"\xBF", b"data: a\n\n"]),
        ["a"]
    );
    assert_eq!(whole(b"\xEF\xBB"), Vec::<String>::new());
}

#[test]
fn comments_and_keepalives_wrapped_in_data_are_dropped() {
    assert_eq!(
        whole(b": OPENROUTER PROCESSING\n\ndata: : keepalive\n\ndata::\n\ndata: a\n: x\n\n"),
        ["a"]
    );
}

#[test]
fn other_fields_and_empty_events_give_nothing() {
    assert_eq!(
        whole(b"id: 7\nretry: 10\nevent: ping\n\ndata\n\ndata:\n\ndatabase: no\n\ndata: a\n\n"),
        ["a"]
    );
}

#[test]
fn the_last_event_counts_without_its_blank_line() {
    assert_eq!(whole(b"data: a\n\ndata: b\n"), ["a", "b"]);
    assert_eq!(whole(b"data: a\n\ndata: b"), ["a", "b"]);
}

#[test]
fn a_broken_byte_costs_one_character() {
    assert_eq!(whole(b"data: a\xFFb\n\ndata: c\n\n"), ["a\u{FFFD}b", "c"]);
}

#[test]
fn an_endless_line_is_refused() {
    let mut framer = Framer::default();
    framer.push(b"data: ");
    let chunk = vec![b'x'; 1_024 * 1_024];
    let refused = (0..9).find_map(|_| {
        framer.push(&chunk);
        framer.next().map(|_| ()).err()
    });
    assert_eq!(refused, Some(FrameTooLong));
}

#[test]
fn an_endless_event_of_short_lines_is_refused() {
    let mut framer = Framer::default();
    let line = [b"data: ".as_slice(), &vec![b'x'; 64 * 1_024], b"\n"].concat();
    let refused = (0..130).find_map(|_| {
        framer.push(&line);
        framer.next().map(|_| ()).err()
    });
    assert_eq!(refused, Some(FrameTooLong));
}

/// Bytes that are mostly what a server sends: fields, line ends, half characters.
fn stream() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        4 => prop::sample::select(vec![
            "data: ", "data:", "data", ":", "event: x", "\n", "\r", "\r\n", "\n\n", "\r\r", "{\"a\":1}", "🦀é", "\u{FEFF}", " ",
        ]).prop_map(|text| text.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..4),
    ];
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn chunking_never_shows(bytes in stream(), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12)) {
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        let chunks = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]);
        prop_assert_eq!(frames(chunks), whole(&bytes));
        prop_assert_eq!(frames(bytes.chunks(1)), whole(&bytes));
    }
}

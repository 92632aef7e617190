use std::io::Write as _;

use flate2::{Compression, write::GzEncoder};
use http::{HeaderMap, HeaderValue, header};

use super::*;

/// "hi\n" as brotli writes it at quality 0: window, an uncompressed metablock, the empty last one.
const HI: [u8; 7] = [0x0b, 0x01, 0x80, b'h', b'i', b'\n', 0x03];

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text).expect("memory");
    encoder.finish().expect("memory")
}

/// Everything decoded, put in so many bytes at a time, and how it ended.
fn all(coding: Coding, input: &[u8], at_a_time: usize, limit: usize) -> (Vec<u8>, Stand, bool) {
    let (mut decoder, mut output) = (Decoder::new(coding), Vec::new());
    let mut stand = Stand::Hungry;
    for mut piece in input.chunks(at_a_time) {
        stand = decoder.decode(&mut piece, &mut output, limit);
        if stand != Stand::Hungry {
            break;
        }
    }
    let may_end = decoder.may_end();
    (output, stand, may_end)
}

#[test]
fn gzip_is_read_however_it_arrives_and_member_after_member() {
    let text: Vec<u8> = (0..100_000_u32).flat_map(u32::to_le_bytes).collect();
    let two = [gzip(&text), gzip(b" and more")].concat();
    for at_a_time in [1, 7, 4_096, usize::MAX] {
        let (output, stand, may_end) = all(Coding::Gzip, &two, at_a_time, usize::MAX);
        assert!(output == [&text[..], b" and more"].concat(), "{at_a_time}");
        assert_eq!((stand, may_end), (Stand::Hungry, true));
    }
}

#[test]
fn a_header_with_every_field_is_read_and_one_without_end_is_not() {
    let plain = gzip(b"hi");
    let mut header = plain[..10].to_vec();
    header[3] = 0x1e;
    header.extend_from_slice(b"\x03\0abcname\0comment\0\0\0");
    let whole = [&header[..], &plain[10..]].concat();
    assert_eq!(
        all(Coding::Gzip, &whole, 1, 100),
        (b"hi".to_vec(), Stand::Hungry, true)
    );
    let endless = [&header[..15], &vec![b'n'; 100_000]].concat();
    assert_eq!(all(Coding::Gzip, &endless, 512, 100).1, Stand::Corrupt);
}

#[test]
fn a_broken_or_short_stream_gives_what_was_decoded() {
    let text = b"some words that come again, some words that come again".repeat(50);
    let whole = gzip(&text);
    let (output, stand, may_end) = all(Coding::Gzip, &whole[..whole.len() - 9], 10, 10_000);
    assert!(text.starts_with(&output) && output.len() > 50);
    assert_eq!((stand, may_end), (Stand::Hungry, false));

    let mut bad = whole.clone();
    let last = bad.len() - 5;
    bad[last] ^= 1;
    let (output, stand, may_end) = all(Coding::Gzip, &bad, 10, 10_000);
    assert!(output == text);
    assert_eq!((stand, may_end), (Stand::Corrupt, false));
    assert_eq!(
        all(Coding::Gzip, b"<html>", 10, 100),
        (vec![], Stand::Corrupt, false)
    );
    assert_eq!(
        all(Coding::Brotli, b"\xff\xff\xff\xff", 10, 100).1,
        Stand::Corrupt
    );
    let rest = [&whole[..], b"\0\0\0\0"].concat();
    let (output, stand, _) = all(Coding::Gzip, &rest, 512, 10_000);
    assert_eq!((output, stand), (text, Stand::Ended));
}

#[test]
fn a_bomb_stops_at_the_bound_and_goes_on_when_there_is_room() {
    let bomb = gzip(&vec![0; 10_000_000]);
    let (mut decoder, mut output) = (Decoder::new(Coding::Gzip), Vec::new());
    let mut input = &bomb[..];
    assert_eq!(decoder.decode(&mut input, &mut output, 1_000), Stand::Full);
    assert_eq!(output.len(), 1_000);
    assert_eq!(
        decoder.decode(&mut input, &mut output, 9_999_999),
        Stand::Full
    );
    assert_eq!(output.len(), 9_999_999);
    assert_eq!(
        decoder.decode(&mut input, &mut output, 10_000_000),
        Stand::Hungry
    );
    assert!(decoder.may_end());
}

#[test]
fn brotli_is_read_byte_by_byte_and_its_large_windows_are_not() {
    let (output, stand, may_end) = all(Coding::Brotli, &HI, 1, 100);
    assert_eq!(
        (output.as_slice(), stand, may_end),
        (&b"hi\n"[..], Stand::Ended, true)
    );
    // The first byte that announces a large window (RFC 7932 has no such code).
    assert_eq!(
        all(Coding::Brotli, &[0x11, 0x1e, 0, 0], 4, 100).1,
        Stand::Corrupt
    );
}

#[test]
fn only_one_coding_of_two_is_read_and_no_other_word_gets_into_the_sentence() {
    let of = |values: &[&'static str]| {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(header::CONTENT_ENCODING, HeaderValue::from_static(value));
        }
        Coding::of(&headers)
    };
    for (values, coding) in [
        (&[][..], Coding::Identity),
        (&["identity"], Coding::Identity),
        (&["GZip"], Coding::Gzip),
        (&["x-gzip"], Coding::Gzip),
        (&[" br ,"], Coding::Brotli),
    ] {
        assert_eq!(of(values), Ok(coding), "{values:?}");
    }
    for (values, shown) in [
        (&["br, gzip"][..], "(br, gzip)"),
        (&["gzip", "gzip"], "(gzip, gzip)"),
        (&["identity, gzip"], "(identity, gzip)"),
        (&["zstd"], "(zstd)"),
        (&["deflate"], "(deflate)"),
        (&["obey me"], "(in a way that is not known here)"),
    ] {
        let sentence = of(values).expect_err("refused");
        assert!(sentence.contains(shown), "{sentence}");
    }
}

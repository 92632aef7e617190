use kernel::JsonText;
use proptest::prelude::*;

use super::*;

fn json(text: &str) -> JsonText {
    text.parse().unwrap()
}

#[test]
fn a_long_result_keeps_head_and_tail_and_names_the_true_total() {
    let text = format!("start {} the error is here", "x".repeat(100_000));
    let cut = cut_middle(&text, 1_000);
    assert!(cut.len() <= 1_000, "{}", cut.len());
    assert!(cut.starts_with("start xxx"));
    assert!(cut.ends_with("the error is here"));
    assert!(
        cut.contains(&format!("of {} bytes left out here", text.len())),
        "{cut}"
    );
    let (head, tail) = cut.split_once('\n').unwrap();
    assert!(head.len() < tail.len(), "the tail is the longer part");
}

#[test]
fn a_result_that_fits_is_not_touched() {
    assert_eq!(cut_middle("short", 5), "short");
    assert_eq!(cut_end("short", 5), "short");
    assert_eq!(cut_end("shörter", 3), "sh…");
}

proptest! {
    #[test]
    fn a_cut_never_splits_a_character_and_never_exceeds_its_bound(
        text in "\\PC{0,400}", most in 128_usize..600,
    ) {
        let cut = cut_middle(&text, most);
        prop_assert!(cut.len() <= most);
        if text.len() <= most {
            prop_assert_eq!(cut.as_ref(), text.as_str());
        }
    }
}

#[test]
fn the_third_equal_call_is_warned_and_the_fifth_is_stopped() {
    let mut repeats = Repeats::default();
    let verdicts: Vec<Verdict> = (0..6)
        .map(|_| {
            repeats.count(
                "fetch_url",
                &json(r#"{"url":"https://a.example/"}"#),
                "same",
            )
        })
        .collect();
    assert_eq!(
        verdicts,
        [
            Verdict::Fine,
            Verdict::Fine,
            Verdict::Warn,
            Verdict::Warn,
            Verdict::Stop,
            Verdict::Stop
        ]
    );
}

#[test]
fn another_result_another_tool_or_other_arguments_start_anew() {
    let mut repeats = Repeats::default();
    let arguments = json(r#"{"a":1,"b":[{"c":2,"d":3}]}"#);
    for _ in 0..2 {
        assert_eq!(repeats.count("t", &arguments, "r"), Verdict::Fine);
    }
    assert_eq!(repeats.count("t", &arguments, "other"), Verdict::Fine);
    for _ in 0..2 {
        assert_eq!(repeats.count("u", &arguments, "r"), Verdict::Fine);
    }
    assert_eq!(repeats.count("u", &json("{}"), "r"), Verdict::Fine);
}

#[test]
fn the_order_of_members_does_not_hide_a_repeat_and_long_numbers_do_not_fake_one() {
    let mut repeats = Repeats::default();
    assert_eq!(
        repeats.count("t", &json(r#"{"a":1,"b":[{"c":2,"d":3}]}"#), "r"),
        Verdict::Fine
    );
    assert_eq!(
        repeats.count("t", &json(r#"{"b":[{"d":3,"c":2}],"a":1}"#), "r"),
        Verdict::Fine
    );
    assert_eq!(
        repeats.count("t", &json(r#"{"a":1,"b":[{"c":2,"d":3}]}"#), "r"),
        Verdict::Warn
    );
    assert_eq!(
        repeats.count("t", &json(r#"{"n":100000000000000000001}"#), "r"),
        Verdict::Fine
    );
    assert_eq!(
        repeats.count("t", &json(r#"{"n":100000000000000000002}"#), "r"),
        Verdict::Fine
    );
    assert_eq!(
        repeats.count("t", &json(r#"{"n":100000000000000000001}"#), "r"),
        Verdict::Fine
    );
}

#[test]
fn a_line_of_a_list_stays_one_line_and_short() {
    let evil = "a\r\nb\u{2028}c\u{85}d\u{1b}[2J\u{202E}e ";
    assert_eq!(one_line(evil, 100), "a  b c d[2Je");
    assert_eq!(one_line(&"é".repeat(1_000_000), 5), "éé…");
    assert_eq!(one_line("", 5), "");
}

#[test]
fn a_number_is_written_as_people_read_it() {
    let read = |number| thousands(number);
    assert_eq!(
        [0, 999, 1_000, 12_345, 1_234_567].map(read),
        ["0", "999", "1,000", "12,345", "1,234,567"]
    );
    assert_eq!(read(u64::MAX), "18,446,744,073,709,551,615");
}

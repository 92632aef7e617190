#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "any other event fails the test"
)]

use proptest::prelude::*;

use super::*;
use crate::StepEvent;

/// One fragment: index, id, name, arguments.
type Piece<'p> = (Option<u64>, Option<&'p str>, Option<&'p str>, &'p str);

/// Name and arguments of each finished call, and what its deltas add up to.
fn assemble(pieces: &[Piece<'_>]) -> Vec<(String, CallArguments, Option<String>)> {
    assemble_until(pieces, Ending::Whole)
}

fn assemble_until(
    pieces: &[Piece<'_>],
    ending: Ending,
) -> Vec<(String, CallArguments, Option<String>)> {
    let mut assembler = Assembler::new(SecondObject::AnotherCall);
    let mut out = Outbox::default();
    for &(index, id, name, arguments) in pieces {
        let fragment = Fragment {
            index,
            id,
            name,
            arguments,
        };
        assembler.take(fragment, &mut out).unwrap();
    }
    assembler.finish(ending, &mut out);
    let mut names = Vec::new();
    let mut finished = Vec::new();
    while let Some(event) = out.take() {
        match event {
            StepEvent::CallStarted { index, name } => {
                assert_eq!(index, names.len(), "indices are dense");
                names.push(name);
            }
            StepEvent::CallFinished {
                index,
                arguments,
                wire_id,
                ..
            } => {
                assert_eq!(index, finished.len(), "in order, once each");
                finished.push((names[index].clone(), arguments, wire_id));
            }
            StepEvent::CallArgumentsDelta { index, .. } => assert!(index < names.len()),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(names.len(), finished.len());
    finished
}

fn complete(
    name: &str,
    arguments: &str,
    id: Option<&str>,
) -> (String, CallArguments, Option<String>) {
    (
        name.to_owned(),
        CallArguments::Complete(arguments.parse().unwrap()),
        id.map(str::to_owned),
    )
}

#[test]
fn an_index_of_four_billion_is_one_call_and_no_memory() {
    let far = Some(u64::from(u32::MAX));
    assert_eq!(
        assemble(&[
            (far, Some("a"), Some("t"), r#"{"n""#),
            (far, None, None, ":1}")
        ]),
        [complete("t", r#"{"n":1}"#, Some("a"))]
    );
}

#[test]
fn interleaved_fragments_go_by_their_index() {
    assert_eq!(
        assemble(&[
            (Some(0), Some("a"), Some("t"), ""),
            (Some(1), Some("b"), Some("u"), ""),
            (Some(0), None, None, r#"{"n":"#),
            (Some(1), None, None, r#"{"m":"#),
            (Some(0), None, None, "1}"),
            (Some(1), None, None, "2}"),
        ]),
        [
            complete("t", r#"{"n":1}"#, Some("a")),
            complete("u", r#"{"m":2}"#, Some("b"))
        ]
    );
}

#[test]
fn an_id_says_more_than_an_index() {
    assert_eq!(
        assemble(&[
            (Some(0), Some("a"), Some("t"), r#"{"n":"#),
            (Some(0), Some("b"), Some("t"), r#"{"n":"#),
            (Some(0), Some("a"), None, "1}"),
            (Some(0), Some("b"), None, "2}"),
        ]),
        [
            complete("t", r#"{"n":1}"#, Some("a")),
            complete("t", r#"{"n":2}"#, Some("b"))
        ]
    );
}

#[test]
fn one_id_at_two_indices_is_two_calls() {
    assert_eq!(
        assemble(&[
            (Some(0), Some("call_0"), Some("t"), r#"{"n":1}"#),
            (Some(1), Some("call_0"), Some("t"), r#"{"n":1}"#),
        ]),
        [
            complete("t", r#"{"n":1}"#, Some("call_0")),
            complete("t", r#"{"n":1}"#, Some("call_0"))
        ]
    );
}

#[test]
fn one_id_for_every_call_without_index_still_makes_two_calls() {
    assert_eq!(
        assemble(&[
            (None, Some("call_0"), Some("t"), r#"{"n":1}"#),
            (None, Some("call_0"), Some("t"), r#"{"n":2}"#),
        ]),
        [
            complete("t", r#"{"n":1}"#, Some("call_0")),
            complete("t", r#"{"n":2}"#, Some("call_0"))
        ]
    );
}

#[test]
fn a_new_id_for_every_chunk_does_not_tear_a_call_apart() {
    assert_eq!(
        assemble(&[
            (Some(0), Some("x1"), Some("t"), r#"{"n""#),
            (Some(0), Some("x2"), None, ":"),
            (Some(0), Some("x3"), None, "1}"),
        ]),
        [complete("t", r#"{"n":1}"#, Some("x1"))]
    );
}

#[test]
fn a_whole_call_that_is_sent_again_is_one_call() {
    assert_eq!(
        assemble(&[
            (Some(0), Some("a"), Some("t"), r#"{"n":1}"#),
            (Some(0), Some("a"), None, r#"{"n":1}"#),
        ]),
        [complete("t", r#"{"n":1}"#, Some("a"))]
    );
}

#[test]
fn a_name_that_comes_late_is_waited_for() {
    assert_eq!(
        assemble(&[
            (Some(0), Some("a"), None, r#"{"n""#),
            (Some(0), None, Some("t"), ":1}"),
        ]),
        [complete("t", r#"{"n":1}"#, Some("a"))]
    );
}

#[test]
fn an_index_that_comes_late_finds_its_call() {
    assert_eq!(
        assemble(&[
            (None, Some("a"), Some("t"), ""),
            (Some(0), None, None, r#"{"n":1}"#)
        ]),
        [complete("t", r#"{"n":1}"#, Some("a"))]
    );
}

#[test]
fn a_call_without_a_name_is_malformed_and_not_lost() {
    let calls = assemble(&[(Some(0), Some("a"), None, "{}")]);
    assert_eq!(
        calls,
        [(
            String::new(),
            CallArguments::Malformed {
                raw: "{}".to_owned(),
                problem: "the call names no Tool".to_owned()
            },
            Some("a".to_owned())
        )]
    );
}

#[test]
fn a_fragment_that_could_belong_to_two_calls_spoils_both() {
    let calls = assemble(&[
        (None, None, Some("t"), r#"{"n":"#),
        (None, None, Some("u"), r#"{"m":"#),
        (None, None, None, "1}"),
    ]);
    assert_eq!(calls.len(), 2);
    assert!(
        calls
            .iter()
            .all(|(_, arguments, _)| matches!(arguments, CallArguments::Malformed { .. }))
    );
}

#[test]
fn a_fragment_without_any_call_is_no_call() {
    assert_eq!(assemble(&[(None, None, None, r#"{"n":1}"#)]), []);
}

#[test]
fn nothing_of_a_cut_step_is_complete() {
    let calls = assemble_until(
        &[
            (Some(0), Some("a"), Some("t"), r#"{"n":1}"#),
            (Some(1), Some("b"), Some("t"), r#"{"n":"#),
            (Some(2), Some("c"), Some("t"), ""),
        ],
        Ending::Cut,
    );
    assert!(
        calls
            .iter()
            .all(|(_, arguments, _)| matches!(arguments, CallArguments::Cut { .. }))
    );
    assert_eq!(calls.len(), 3);
}

#[test]
fn arguments_that_are_no_object_say_what_they_are() {
    let problem = |arguments: &str| match assemble(&[(Some(0), None, Some("t"), arguments)])
        .remove(0)
        .1
    {
        CallArguments::Malformed { problem, .. } => problem,
        other => panic!("{other:?}"),
    };
    assert_eq!(problem("[1]"), "the arguments are not a JSON object");
    assert_eq!(
        problem("{'n':1}"),
        "the arguments are not JSON: a key was expected at byte 1"
    );
    assert!(problem("{} and more").contains("something after the value"));
}

#[test]
fn arguments_past_the_bound_are_malformed_and_their_excerpt_is_bounded() {
    let long = format!(r#"{{"n":"{}"}}"#, "é".repeat(TOOL_ARGUMENT_BYTES));
    match assemble(&[(Some(0), None, Some("t"), &long)]).remove(0).1 {
        CallArguments::Malformed { raw, problem } => {
            assert!(raw.len() <= CallArguments::RAW_BYTES);
            assert!(problem.contains("262144"), "{problem}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn calls_without_end_are_refused() {
    let mut assembler = Assembler::new(SecondObject::AnotherCall);
    let mut out = Outbox::default();
    let refused = (0..10_000).find_map(|index| {
        let fragment = Fragment {
            index: Some(index),
            name: Some("t"),
            ..Fragment::default()
        };
        assembler.take(fragment, &mut out).err()
    });
    assert_eq!(refused.unwrap().kind, ErrorKind::ContentTooLarge);
    let mut assembler = Assembler::new(SecondObject::AnotherCall);
    let many = "{}".repeat(10_000);
    let fragment = Fragment {
        index: Some(0),
        name: Some("t"),
        arguments: &many,
        ..Fragment::default()
    };
    assert!(assembler.take(fragment, &mut out).is_err());
}

/// How an endpoint labels fragments.
#[derive(Debug, Clone, Copy)]
enum Labels {
    /// As OpenAI does: index always, id and name at the start.
    Standard,
    /// Index and id always.
    Full,
    /// Id always, no index.
    IdOnly,
    /// Index 0 for every call, id and name at the start.
    AllZero,
    /// Index 0 for every call, the name at the start, no ids.
    AllZeroNoIds,
    /// Name at the start, and nothing else.
    NameOnly,
}

fn arguments() -> impl Strategy<Value = String> {
    prop::collection::btree_map("[a-z\"\\\\{}é🦀 ]{0,6}", any::<i64>(), 0..4)
        .prop_map(|map| serde_json::to_string(&map).unwrap())
}

fn labels() -> impl Strategy<Value = Labels> {
    prop::sample::select(vec![
        Labels::Standard,
        Labels::Full,
        Labels::IdOnly,
        Labels::AllZero,
        Labels::AllZeroNoIds,
        Labels::NameOnly,
    ])
}

proptest! {
    #[test]
    fn fragmentation_never_shows(
        labels in labels(),
        calls in prop::collection::vec((prop::sample::select(vec!["t", "u"]), arguments()), 1..5),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..16),
    ) {
        let ids: Vec<String> = (0..calls.len()).map(|call| format!("id{call}")).collect();
        let mut pieces: Vec<Piece<'_>> = Vec::new();
        for (call, (name, arguments)) in calls.iter().enumerate() {
            let mut cuts: Vec<usize> = cuts
                .iter()
                .map(|cut| floor_char_boundary(arguments, cut.index(arguments.len() + 1)))
                .collect();
            cuts.extend([0, arguments.len()]);
            cuts.sort_unstable();
            for (place, pair) in cuts.windows(2).enumerate() {
                let first = place == 0;
                let (index, id, named) = match labels {
                    Labels::Standard => (Some(call as u64), first, first),
                    Labels::Full => (Some(call as u64), true, first),
                    Labels::IdOnly => (None, true, first),
                    Labels::AllZero => (Some(0), first, first),
                    Labels::AllZeroNoIds => (Some(0), false, first),
                    Labels::NameOnly => (None, false, first),
                };
                pieces.push((
                    index,
                    id.then_some(ids[call].as_str()),
                    named.then_some(*name),
                    &arguments[pair[0]..pair[1]],
                ));
            }
        }
        let has_ids = !matches!(labels, Labels::AllZeroNoIds | Labels::NameOnly);
        let expected: Vec<_> = calls
            .iter()
            .zip(&ids)
            .map(|((name, arguments), id)| complete(name, arguments, has_ids.then_some(id.as_str())))
            .collect();
        prop_assert_eq!(assemble(&pieces), expected);
    }

    #[test]
    fn no_fragments_make_it_panic_or_lose_its_indices(
        pieces in prop::collection::vec(
            (
                prop::option::of(0_u64..3),
                prop::option::of(prop::sample::select(vec!["a", "b", "c"])),
                prop::option::of(prop::sample::select(vec!["t", "u"])),
                prop::sample::select(vec!["", "{", "}", "{}", "\"", "\\", "1", "é", "[", " ", "null", "{\"a\":1}", ":"]),
            ),
            0..24,
        ),
    ) {
        assemble(&pieces);
        let cut = assemble_until(&pieces, Ending::Cut)
            .iter()
            .all(|(_, arguments, _)| matches!(arguments, CallArguments::Cut { .. }));
        prop_assert!(cut);
    }
}

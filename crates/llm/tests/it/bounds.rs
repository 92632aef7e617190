//! A Provider cannot make us hold more than the bounds, nor spend much on a step.

use llm::ErrorKind;
use testkit::provider::{Step, Wire::ChatCompletions};

use crate::support::{Pair, ask, go_on, outcome};

#[tokio::test]
async fn text_without_end_is_refused() {
    let pair = Pair::new(ChatCompletions).await;
    let long = "x".repeat(1_024 * 1_024);
    let step = (0..9).fold(Step::new(), |step, _| step.text(&long));
    let step = pair.run(step).await;
    assert_eq!(
        step.failure(),
        (
            ErrorKind::ContentTooLarge,
            "Provider test sent an answer of more than 8388608 bytes, which is the bound for one step; ask for less at once"
        )
    );
    assert!(step.text.len() <= 8 * 1_024 * 1_024);
}

#[tokio::test]
async fn arguments_without_end_are_refused() {
    let pair = Pair::new(ChatCompletions).await;
    let long = "x".repeat(1_024 * 1_024);
    let call = |arguments: &str| {
        format!(
            r#"data: {{"choices":[{{"delta":{{"tool_calls":[{{"index":0,"function":{{"name":"t","arguments":"{arguments}"}}}}]}}}}]}}"#
        ) + "\n\n"
    };
    let begun = Step::stream(call(r#"{\"a\":\""#));
    let step = (0..9).fold(begun, |step, _| step.bytes(call(&long)));
    let step = pair.run(step).await;
    assert_eq!(step.failure().0, ErrorKind::ContentTooLarge);
}

#[tokio::test]
async fn an_event_without_end_is_refused() {
    let pair = Pair::new(ChatCompletions).await;
    let long = vec![b'x'; 1_024 * 1_024];
    let step = (0..9).fold(Step::stream("data: "), |step, _| step.bytes(long.clone()));
    let step = pair.run(step).await;
    assert_eq!(
        step.failure(),
        (
            ErrorKind::ContentTooLarge,
            "Provider test sent an event of more than 8388608 bytes, which is the bound"
        )
    );
}

#[tokio::test]
async fn nesting_without_end_harms_nobody() {
    let pair = Pair::new(ChatCompletions).await;
    let deep = |key: &str| {
        let (open, close) = (format!("{{\"{key}\":").repeat(200_000), "}".repeat(200_000));
        format!("{open}1{close}")
    };
    for chunk in [
        format!(r#"{{"usage":{}}}"#, deep("usage")),
        format!(r#"{{"x_groq":{}}}"#, deep("usage")),
        format!(
            r#"{{"choices":[{{"delta":{{"content":{}}}}}]}}"#,
            deep("text")
        ),
        format!(
            r#"{{"choices":[{{"delta":{{"reasoning_details":[{}]}}}}]}}"#,
            deep("text")
        ),
        format!(
            r#"{{"choices":[{{"delta":{{"tool_calls":[{{"function":{{"name":"t","arguments":{}}}}}]}}}}]}}"#,
            deep("a")
        ),
        format!(
            r#"{{"unknown":{}}}"#,
            "[".repeat(200_000) + &"]".repeat(200_000)
        ),
    ] {
        let end = r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#;
        let step = pair
            .run(Step::stream(format!("data: {chunk}\n\ndata: {end}\n\n")))
            .await;
        assert!(step.finish.is_some(), "{:?}", step.error);
        assert!(
            step.calls
                .iter()
                .all(|call| matches!(call.arguments, llm::CallArguments::Malformed { .. }))
        );
    }
    let error = pair
        .run(Step::stream(format!(
            "data: {{\"error\":{}}}\n\n",
            deep("error")
        )))
        .await;
    assert!(error.error.is_some());
}

#[tokio::test]
async fn an_error_body_without_end_is_read_in_part() {
    let pair = Pair::new(ChatCompletions).await;
    let mut body = r#"{"error":{"message":"no"},"more":""#.to_owned();
    body.push_str(&"x".repeat(10 * 1_024 * 1_024));
    let step = pair.run(Step::refusal(400, body)).await;
    assert_eq!(
        step.failure(),
        (ErrorKind::BadRequest, "Provider test answered 400")
    );
}

#[tokio::test]
async fn a_rehearsed_turn_of_many_steps_and_calls_goes_through_on_one_connection() {
    let pair = Pair::new(ChatCompletions).await;
    let mut request = ask("hi");
    request.model = "scripted-11x3-reasoning".to_owned();
    for step in 0..11 {
        let done = outcome(&*pair.provider, &request).await;
        assert_eq!(done.calls.len(), 3, "step {step}");
        go_on(&mut request, &done);
    }
    let answer = outcome(&*pair.provider, &request).await;
    assert_eq!(answer.calls, []);
    assert!(answer.text.ends_with("word18 word19 "));
    assert_eq!(pair.scripted.connections(), 1);
}

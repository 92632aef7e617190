//! Answers that the model's name describes.
//!
//! `scripted-<steps>x<calls>`: so many steps that each make so many calls of the first Tool offered, then an answer of twenty
//! words. Which step it is follows from the history (answers with calls since the last thing that the user said), so the server
//! keeps no state. Words after that, each with a dash: `delay<ms>` pauses before every chunk, `words<n>` sets the length of the
//! answer, `reasoning` thinks before each step.

use std::time::Duration;

use serde_json::{Value, json};

use super::{Request, Step};

/// A model's name, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Plan {
    steps: usize,
    calls: usize,
    delay: Duration,
    words: usize,
    reasons: bool,
}

impl Plan {
    fn of(model: &str) -> Option<Self> {
        let mut words = model.strip_prefix("scripted-")?.split('-');
        let (steps, calls) = words.next()?.split_once('x')?;
        let mut plan = Self {
            steps: steps.parse().ok()?,
            calls: calls.parse().ok()?,
            delay: Duration::ZERO,
            words: 20,
            reasons: false,
        };
        for word in words {
            if let Some(millis) = word.strip_prefix("delay") {
                plan.delay = Duration::from_millis(millis.parse().ok()?);
            } else if let Some(count) = word.strip_prefix("words") {
                plan.words = count.parse().ok()?;
            } else if word == "reasoning" {
                plan.reasons = true;
            } else {
                return None;
            }
        }
        Some(plan)
    }
}

/// The answer to a request; `None` if the model's name is none of these.
pub fn step(request: &Request) -> Option<Step> {
    let plan = Plan::of(request.model())?;
    let tools = request.tools();
    let done = steps_done(&request.body);
    let may_call =
        request.body["tool_choice"] != "none" && request.body["tool_choice"]["type"] != "none";
    let paced = |step: Step| {
        if plan.delay.is_zero() {
            step
        } else {
            step.pause(plan.delay)
        }
    };
    let mut step = Step::new();
    if plan.reasons {
        step = paced(step).reasoning(&format!("thinking about step {}. ", done + 1));
    }
    match tools.first() {
        Some(tool) if may_call && done < plan.steps => {
            step = paced(step).text(&format!("step {}. ", done + 1));
            for call in 0..plan.calls {
                step = paced(step).call(tool, &json!({"n": done * 100 + call}));
            }
        }
        Some(_) | None => {
            for word in 0..plan.words {
                step = paced(step).text(&format!("word{word} "));
            }
        }
    }
    Some(paced(step))
}

/// Answers with calls since the user last said something, on either wire.
fn steps_done(body: &Value) -> usize {
    let messages = body["messages"].as_array().map_or(&[][..], Vec::as_slice);
    let said_something = |message: &Value| {
        message["role"] == "user"
            && (message["content"].is_string()
                || any(&message["content"], |block| block["type"] == "text"))
    };
    let calls = |message: &Value| {
        any(&message["tool_calls"], |_| true)
            || any(&message["content"], |block| block["type"] == "tool_use")
    };
    messages
        .iter()
        .rev()
        .take_while(|message| !said_something(message))
        .filter(|message| calls(message))
        .count()
}

fn any(array: &Value, judge: impl Fn(&Value) -> bool) -> bool {
    array
        .as_array()
        .is_some_and(|items| items.iter().any(judge))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_models_name_is_a_plan() {
        assert_eq!(
            Plan::of("scripted-11x2-delay10-words3-reasoning"),
            Some(Plan {
                steps: 11,
                calls: 2,
                delay: Duration::from_millis(10),
                words: 3,
                reasons: true,
            })
        );
        for other in ["gpt-5", "scripted-", "scripted-1", "scripted-1x1-what"] {
            assert_eq!(Plan::of(other), None, "{other}");
        }
    }

    #[test]
    fn steps_count_since_the_user_last_spoke() {
        let chat = json!({"messages": [
            {"role": "user", "content": "a"},
            {"role": "assistant", "tool_calls": [{}]},
            {"role": "tool", "content": ""},
            {"role": "user", "content": "b"},
            {"role": "assistant", "tool_calls": [{}]},
            {"role": "tool", "content": ""},
        ]});
        assert_eq!(steps_done(&chat), 1);
        let anthropic = json!({"messages": [
            {"role": "user", "content": [{"type": "text"}]},
            {"role": "assistant", "content": [{"type": "tool_use"}]},
            {"role": "user", "content": [{"type": "tool_result"}]},
            {"role": "assistant", "content": [{"type": "tool_use"}]},
            {"role": "user", "content": [{"type": "tool_result"}]},
        ]});
        assert_eq!(steps_done(&anthropic), 2);
    }
}

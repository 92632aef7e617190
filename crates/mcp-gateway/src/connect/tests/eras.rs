//! Servers that are spoken to on one transport for both eras, as stdio is: over channels, so that nothing but what is said matters.

use std::sync::Arc;

use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use serde_json::json;
use testkit::mcp::{Act, Conversation, Eras, Fault, Script};
use tokio::sync::mpsc;

use super::super::{
    handler::{Handling, me},
    handshake::{Refused, either},
    *,
};

/// How long a server may be silent before it is spoken to in the old way, too.
const PATIENCE: Duration = Duration::from_secs(2);

struct Spoken {
    conversation: Arc<Conversation>,
    outbox: mpsc::UnboundedSender<RxJsonRpcMessage<RoleClient>>,
    inbox: mpsc::UnboundedReceiver<RxJsonRpcMessage<RoleClient>>,
    tasks: TaskTracker,
}

impl Spoken {
    fn new(script: &Arc<Script>) -> Self {
        let (outbox, inbox) = mpsc::unbounded_channel();
        Self {
            conversation: Arc::new(script.conversation()),
            outbox,
            inbox,
            tasks: TaskTracker::new(),
        }
    }
}

impl Transport<RoleClient> for Spoken {
    type Error = Failure;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Failure>> + Send + 'static {
        let message = serde_json::to_value(&message).expect("JSON");
        let acts = self.conversation.receive(&message);
        let outbox = self.outbox.clone();
        self.tasks.spawn(async move {
            for act in acts {
                match act {
                    Act::Say(message) => {
                        let message = serde_json::from_value(message).expect("a message");
                        outbox.send(message).unwrap_or_default();
                    }
                    Act::Pause(time) => tokio::time::sleep(time).await,
                    Act::Hang => std::future::pending().await,
                    Act::SayText(_) | Act::Await(_) | Act::BreakOff => return,
                }
            }
        });
        std::future::ready(Ok(()))
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        self.inbox.recv().await
    }

    async fn close(&mut self) -> Result<(), Failure> {
        Ok(())
    }
}

async fn begin(script: &Arc<Script>) -> Result<Era, Refused> {
    let mut transport = Spoken::new(script);
    let (_info, era) = either(&mut transport, &me(Handling::Decline), PATIENCE).await?;
    Ok(era)
}

#[tokio::test(start_paused = true)]
async fn each_era_is_found_on_one_transport() {
    for (eras, era) in [
        (Eras::Modern, Era::Modern),
        (Eras::Both, Era::Modern),
        (Eras::Legacy, Era::Legacy),
    ] {
        let script = Script::new(eras);
        assert_eq!(begin(&script).await.expect("it begins"), era, "{eras:?}");
        let confirmed = script.count("notifications/initialized");
        assert_eq!(confirmed, usize::from(era == Era::Legacy));
    }
}

#[tokio::test(start_paused = true)]
async fn silence_in_the_modern_era_costs_two_seconds() {
    let script = Script::with(Eras::Legacy, [Fault::NeverAnswers("server/discover")]);
    let begun = tokio::time::Instant::now();
    assert_eq!(begin(&script).await.expect("it begins"), Era::Legacy);
    assert_eq!(begun.elapsed(), PATIENCE);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_starts_slowly_is_spoken_to_in_its_newest_era() {
    let slow = |method| Fault::AnswersAfter(method, Duration::from_mins(1));
    let script = Script::with(Eras::Modern, [slow("server/discover")]);
    assert_eq!(begin(&script).await.expect("it begins"), Era::Modern);
    // Both answers come when it has started, that to the first question first.
    let script = Script::with(Eras::Both, [slow("server/discover"), slow("initialize")]);
    assert_eq!(begin(&script).await.expect("it begins"), Era::Modern);
    let script = Script::with(Eras::Legacy, [slow("server/discover"), slow("initialize")]);
    assert_eq!(begin(&script).await.expect("it begins"), Era::Legacy);
}

#[tokio::test(start_paused = true)]
async fn what_comes_before_the_handshake_is_skipped() {
    let script = Script::with(Eras::Legacy, [Fault::NotifiesBeforeInitialize]);
    assert_eq!(begin(&script).await.expect("it begins"), Era::Legacy);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_refuses_both_eras_is_told_of_with_its_own_words() {
    let says_no = |method, message: &str| Fault::ErrorIs {
        method,
        code: -32_000,
        message: message.to_owned(),
    };
    let faults = [
        says_no("server/discover", "first"),
        says_no("initialize", "no licence"),
    ];
    let refused = begin(&Script::with(Eras::Both, faults)).await;
    let failure = refused
        .expect_err("it is refused")
        .into_failure(&crate::failure::Redactor::default());
    assert!(failure.sentence.contains("no licence"), "{failure:?}");
}

#[tokio::test(start_paused = true)]
async fn versions_of_the_other_era_lead_there_and_unknown_ones_nowhere() {
    let supports = |versions: serde_json::Value| Fault::AnswersWith {
        method: "server/discover",
        result: json!({"supportedVersions": versions}),
    };
    let script = Script::with(Eras::Legacy, [supports(json!(["2025-11-25"]))]);
    assert_eq!(begin(&script).await.expect("it begins"), Era::Legacy);
    let script = Script::with(Eras::Legacy, [supports(json!(["2031-01-01"]))]);
    let refused = begin(&script).await.expect_err("it is refused");
    assert!(matches!(refused, Refused::Versions(_)), "{refused:?}");
    assert_eq!(script.count("initialize"), 0);
}

//! `chat`: one question, and the turn that answers it.

use std::{io, sync::Arc, time::Duration};

use kernel::{Clock, ConversationId, ErrorCode, JsonText, MessageId};
use serde::Serialize;
use tokio::signal::unix::{SignalKind, signal};

use crate::{
    app::App,
    cli::ChatArgs,
    client::{Chunk, Chunks, Client, Ending, Started},
    failure::Failure,
    output::{Format, Output},
    render::{Screen, Transcript, shell_word},
};

/// How often progress moves.
const TICK: Duration = Duration::from_millis(100);

/// What `DefaultChatTransport` of the npm package `ai` sends, and `npc`.
#[derive(Debug, Serialize)]
struct Body<'a> {
    id: &'a str,
    messages: [UserMessage<'a>; 1],
    trigger: &'static str,
    npc: &'a str,
}

#[derive(Debug, Serialize)]
struct UserMessage<'a> {
    id: String,
    role: &'static str,
    parts: [TextPart<'a>; 1],
}

#[derive(Debug, Serialize)]
struct TextPart<'a> {
    r#type: &'static str,
    text: &'a str,
}

/// What to ask whom.
#[derive(Debug)]
pub(crate) struct Question<'a> {
    /// The NPC's name or id.
    pub(crate) npc: &'a str,
    /// What to say.
    pub(crate) text: &'a str,
    /// The Conversation to go on with; a new one if none.
    pub(crate) conversation: Option<&'a str>,
}

/// How an answer went.
#[derive(Debug)]
pub(crate) struct Answered {
    /// How the turn ended.
    pub(crate) ending: Ending,
    /// What the stream said of itself.
    pub(crate) started: Started,
    /// Why it failed.
    sentence: Option<String>,
}

pub(crate) async fn run(app: &App, arguments: &ChatArgs) -> Result<(), Failure> {
    let village = app.village()?;
    let question = Question {
        npc: &arguments.npc,
        text: &arguments.text,
        conversation: arguments.conversation.as_deref(),
    };
    let answered = ask(&village, &app.output, &app.clock, &question).await?;
    if app.output.format() == Format::Text
        && let Some(conversation) = &answered.started.conversation_id
    {
        app.output.line(&format!(
            "go on with  {} chat {} '…' --conversation {}",
            app.invocation(),
            shell_word(&arguments.npc),
            shell_word(conversation),
        ))?;
    }
    verdict(&app.output, answered)
}

/// Only a turn that failed, or whose end was not seen, makes the command fail.
pub(crate) fn verdict(output: &Output, answered: Answered) -> Result<(), Failure> {
    let sentence = match answered.ending {
        Ending::Finished | Ending::Stopped => return Ok(()),
        Ending::Failed => answered
            .sentence
            .unwrap_or_else(|| "the turn failed".to_owned()),
        Ending::BrokenOff => {
            "the stream ended before the turn did; the turn may go on in the Village".to_owned()
        }
    };
    match output.format() {
        Format::Text => Err(Failure::Said),
        Format::Json => Err(Failure::of(ErrorCode::Unavailable, sentence)),
    }
}

/// Asks, and shows the answer as it comes in. An interrupt stops the turn; a second one leaves at once.
pub(crate) async fn ask(
    village: &Client,
    output: &Output,
    clock: &Arc<dyn Clock>,
    question: &Question<'_>,
) -> Result<Answered, Failure> {
    let new_conversation = ConversationId::mint(&**clock).to_string();
    let body = Body {
        id: question.conversation.unwrap_or(&new_conversation),
        messages: [UserMessage {
            id: MessageId::mint(&**clock).to_string(),
            role: "user",
            parts: [TextPart {
                r#type: "text",
                text: question.text,
            }],
        }],
        trigger: "submit-message",
        npc: question.npc,
    };
    let chunks = village.stream(&["chat"], &body).await?;
    let mut view = match output.format() {
        Format::Json => View::Json {
            output,
            ending: None,
        },
        Format::Text => {
            let style = output.style();
            let width = style.is_terminal().then(terminal_width).flatten();
            let screen = Screen::new(io::stdout(), style, width);
            let mut transcript = Transcript::new(screen, question.npc, clock.now());
            transcript.question(question.text)?;
            View::Text(Box::new(transcript))
        }
    };
    follow(village, output, chunks, &mut view, &**clock).await
}

enum View<'o> {
    Json {
        output: &'o Output,
        ending: Option<Ending>,
    },
    Text(Box<Transcript<io::Stdout>>),
}

impl View<'_> {
    fn chunk(&mut self, json: &JsonText, chunk: Chunk, clock: &dyn Clock) -> io::Result<()> {
        match self {
            Self::Text(transcript) => transcript.chunk(chunk, clock.now()),
            Self::Json { output, ending } => {
                *ending = ending.or_else(|| chunk.ending());
                output.json(json)
            }
        }
    }

    fn tick(&mut self, clock: &dyn Clock) -> io::Result<()> {
        match self {
            Self::Text(transcript) => transcript.tick(clock.now()),
            Self::Json { .. } => Ok(()),
        }
    }

    fn end(&mut self, clock: &dyn Clock) -> io::Result<Ending> {
        match self {
            Self::Text(transcript) => transcript.end(clock.now()),
            Self::Json { ending, .. } => Ok(ending.unwrap_or(Ending::BrokenOff)),
        }
    }
}

/// Whether somebody wants the turn to stop, and whether the Village was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stop {
    NotAsked,
    Asked,
    Told,
}

async fn follow(
    village: &Client,
    output: &Output,
    mut chunks: Chunks,
    view: &mut View<'_>,
    clock: &dyn Clock,
) -> Result<Answered, Failure> {
    let mut started = Started::default();
    let mut sentence = None;
    // One receiver for the whole turn: an interrupt that comes while a chunk is shown must not be lost.
    let mut interrupts = signal(SignalKind::interrupt()).map_err(|error| {
        Failure::of(
            ErrorCode::Internal,
            format!("cannot listen for interrupts: {error}"),
        )
    })?;
    let mut ticks = tokio::time::interval(TICK);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    let mut stop = Stop::NotAsked;
    loop {
        if let (Stop::Asked, Some(turn)) = (stop, &started.turn_id) {
            stop = Stop::Told;
            tokio::select! {
                told = tell(village, turn) => told?,
                _ = interrupts.recv() => return Err(leave(output, &started)),
            }
        }
        let next = tokio::select! {
            next = chunks.next() => next?,
            _ = ticks.tick() => {
                view.tick(clock)?;
                continue;
            }
            _ = interrupts.recv() => {
                if stop != Stop::NotAsked {
                    return Err(leave(output, &started));
                }
                stop = Stop::Asked;
                continue;
            }
        };
        let Some(json) = next else {
            break;
        };
        let chunk = Chunk::parse(&json)
            .map_err(|error| Failure::of(ErrorCode::Internal, error.to_string()))?;
        if let Chunk::Start(start) = &chunk {
            started = start.clone();
        }
        if let Chunk::Error(why) = &chunk {
            sentence = Some(why.clone());
        }
        view.chunk(&json, chunk, clock)?;
    }
    Ok(Answered {
        ending: view.end(clock)?,
        started,
        sentence,
    })
}

/// Tells the Village to stop the turn. That it ended in the meantime is no failure.
async fn tell(village: &Client, turn: &str) -> Result<(), Failure> {
    let body = serde_json::json!({});
    match village.post(&["turns", turn, "abort"], &body).await {
        Ok(_) => Ok(()),
        Err(Failure::Failed(problem))
            if matches!(
                problem.code,
                ErrorCode::NotFound | ErrorCode::FailedPrecondition
            ) =>
        {
            Ok(())
        }
        Err(failure) => Err(failure),
    }
}

/// Says what may still run, for a person who does not wait for it to stop.
fn leave(output: &Output, started: &Started) -> Failure {
    let Some(turn) = &started.turn_id else {
        return Failure::Interrupted;
    };
    let sentence = format!(
        "left before the turn had stopped; `agentsville turn abort {}` stops it",
        shell_word(turn)
    );
    match output.remark(&sentence) {
        Ok(()) => Failure::Interrupted,
        Err(unwritable) => unwritable.into(),
    }
}

fn terminal_width() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    Some(usize::from(size.ws_col)).filter(|&columns| columns > 0)
}

//! Parts as rows.

use kernel::{CallId, JsonText, MessageId, Timestamp, limits::PART_BYTES};
use sea_orm::{
    ActiveValue::Set, ColumnTrait as _, ConnectionTrait, DbBackend, EntityTrait, QueryFilter as _,
    QueryOrder as _, QueryTrait as _, Statement, sea_query::OnConflict,
};
use uuid::Uuid;

use super::entity::part::{ActiveModel, Column, Entity, Model};
use crate::{
    Error,
    parts::{Call, Content, NoticeCode, Outcome, Part, Progress, Prose, ProviderMeta},
};

/// Rows of one statement: SQLite binds at most 32,766 values, and a row has 17.
const ROWS: usize = 256;

/// What a Part's `kind` column begins with when it is a notice.
const NOTICE: &str = "notice.";

/// Statements that write Parts; those that are stored already are replaced. Each Part changes one row.
pub(super) fn save(
    backend: DbBackend,
    message: MessageId,
    parts: &[Part],
) -> impl Iterator<Item = Statement> {
    parts.chunks(ROWS).map(move |parts| {
        Entity::insert_many(parts.iter().map(|part| row_of(message, part)))
            .on_conflict(
                OnConflict::columns([Column::MessageId, Column::Position])
                    .update_columns([
                        Column::State,
                        Column::Text,
                        Column::WireCallId,
                        Column::Input,
                        Column::Output,
                        Column::Error,
                        Column::Outcome,
                        Column::ProviderMeta,
                        Column::EndedAt,
                        Column::LastEvent,
                    ])
                    .to_owned(),
            )
            .build(backend)
    })
}

/// The Parts of these Messages, in order, each with its Message's id.
pub(super) async fn load(
    db: &impl ConnectionTrait,
    messages: impl IntoIterator<Item = Uuid>,
) -> Result<Vec<(Uuid, Part)>, Error> {
    Entity::find()
        .filter(Column::MessageId.is_in(messages))
        .order_by_asc(Column::MessageId)
        .order_by_asc(Column::Position)
        .all(db)
        .await?
        .into_iter()
        .map(|row| Ok((row.message_id, read(row)?)))
        .collect()
}

fn row_of(message: MessageId, part: &Part) -> ActiveModel {
    let mut row = ActiveModel {
        message_id: Set(message.as_uuid()),
        position: Set(to_i32(part.position)),
        step: Set(to_i32(part.step)),
        kind: Set(String::new()),
        state: Set("done".to_owned()),
        text: Set(String::new()),
        call_id: Set(None),
        wire_call_id: Set(None),
        tool_name: Set(None),
        input: Set(None),
        output: Set(None),
        error: Set(None),
        outcome: Set(None),
        provider_meta: Set(None),
        started_at: Set(part.started_at.as_micros()),
        ended_at: Set(part.ended_at.map(Timestamp::as_micros)),
        last_event: Set(i64::try_from(part.last_event).unwrap_or(i64::MAX)),
    };
    match &part.content {
        Content::Text(prose) => prose_into(&mut row, "text", prose),
        Content::Reasoning(prose) => prose_into(&mut row, "reasoning", prose),
        Content::Call(call) => call_into(&mut row, call),
        Content::Notice { code, sentence } => {
            row.kind = Set(format!("{NOTICE}{}", code.as_str()));
            row.text = Set(sentence.clone());
        }
    }
    row
}

fn prose_into(row: &mut ActiveModel, kind: &str, prose: &Prose) {
    row.kind = Set(kind.to_owned());
    row.state = Set(if prose.streaming { "streaming" } else { "done" }.to_owned());
    row.text = Set(prose.text.clone());
    row.provider_meta = Set(meta_text(prose.meta.as_ref()));
}

fn call_into(row: &mut ActiveModel, call: &Call) {
    row.kind = Set("tool".to_owned());
    row.call_id = Set(Some(call.id.as_uuid()));
    row.wire_call_id = Set(call.wire_id.clone());
    row.tool_name = Set(Some(call.tool.clone()));
    row.input = Set(Some(call.input.clone()));
    row.provider_meta = Set(meta_text(call.meta.as_ref()));
    row.state = Set(match call.progress {
        Progress::InputStreaming => "streaming",
        Progress::Running => "running",
        Progress::Ended(_) => "done",
        Progress::Refused(_) => "refused",
    }
    .to_owned());
    if let Some(outcome) = call.progress.outcome() {
        row.outcome = Set(Some(outcome.as_str().to_owned()));
        row.output = Set(outcome.output().map(|output| output.as_str().to_owned()));
        row.error = Set(outcome.sentence().map(str::to_owned));
    }
}

/// What a Provider wants back is kept whole or not at all: half a signature is none.
fn meta_text(meta: Option<&ProviderMeta>) -> Option<String> {
    meta.map(|meta| JsonText::of(meta).as_str().to_owned())
        .filter(|text| text.len() <= PART_BYTES)
}

fn read(row: Model) -> Result<Part, Error> {
    let unreadable = |what| Error::Stored { what };
    let meta = row
        .provider_meta
        .as_deref()
        .map(serde_json::from_str::<ProviderMeta>)
        .transpose()
        .map_err(|_invalid| unreadable("provider_meta of a Part"))?;
    let prose = |text: String| Prose {
        text,
        streaming: row.state == "streaming",
        meta: meta.clone(),
    };
    let content = match row.kind.as_str() {
        "text" => Content::Text(prose(row.text)),
        "reasoning" => Content::Reasoning(prose(row.text)),
        "tool" => {
            let outcome = outcome_of(row.outcome.as_deref(), row.output.as_deref(), row.error)?;
            let progress = match (row.state.as_str(), outcome) {
                ("streaming", None) => Progress::InputStreaming,
                ("running", None) => Progress::Running,
                ("done", Some(outcome)) => Progress::Ended(outcome),
                ("refused", Some(outcome)) => Progress::Refused(outcome),
                _ => return Err(unreadable("state of a Tool call")),
            };
            Content::Call(Box::new(Call {
                id: CallId::from_uuid(row.call_id.ok_or_else(|| unreadable("id of a Tool call"))?),
                wire_id: row.wire_call_id,
                tool: row.tool_name.unwrap_or_default(),
                input: row.input.unwrap_or_default(),
                meta,
                progress,
                media: Vec::new(),
            }))
        }
        kind => Content::Notice {
            code: kind
                .strip_prefix(NOTICE)
                .and_then(NoticeCode::of)
                .ok_or_else(|| unreadable("kind of a Part"))?,
            sentence: row.text,
        },
    };
    Ok(Part {
        position: u32::try_from(row.position).unwrap_or(0),
        step: u32::try_from(row.step).unwrap_or(0),
        content,
        started_at: Timestamp::from_micros(row.started_at),
        ended_at: row.ended_at.map(Timestamp::from_micros),
        last_event: u64::try_from(row.last_event).unwrap_or(0),
    })
}

fn outcome_of(
    word: Option<&str>,
    output: Option<&str>,
    error: Option<String>,
) -> Result<Option<Outcome>, Error> {
    let sentence = error.unwrap_or_default();
    Ok(Some(match word {
        None => return Ok(None),
        Some("ok") => Outcome::Ok(JsonText::parse(output.unwrap_or("null")).map_err(
            |_invalid| Error::Stored {
                what: "output of a Tool call",
            },
        )?),
        Some("error") => Outcome::Error(sentence),
        Some("denied") => Outcome::Denied(sentence),
        Some("interrupted") => Outcome::Interrupted(sentence),
        Some(_) => {
            return Err(Error::Stored {
                what: "outcome of a Tool call",
            });
        }
    }))
}

fn to_i32(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

//! `grant add|remove|list`.

use kernel::{BuiltinTool, ErrorCode, Family, GrantWhat, InvalidGrantWhat, nearest};
use serde::{Deserialize, Serialize};

use super::{print_list, short_time};
use crate::{
    app::App,
    cli::{GrantArgs, GrantCommand},
    client::read,
    failure::{Failure, Problem},
    output::Format,
};

#[derive(Debug, Serialize)]
struct Body<'a> {
    what: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<&'a [String]>,
}

/// A Grant, as the Village tells of it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Grant {
    id: String,
    what: String,
    #[serde(default)]
    tools: Option<Vec<String>>,
    created_at: String,
    /// What there is to say of it when it is made.
    #[serde(default)]
    sentence: Option<String>,
}

impl Grant {
    /// `mcp:Docs (search, read)`.
    pub(super) fn in_words(&self) -> String {
        match self.tools.as_deref() {
            None | Some([]) => self.what.clone(),
            Some(tools) => format!("{} ({})", self.what, tools.join(", ")),
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Removed {
    #[serde(default)]
    aborted_turns: Vec<String>,
}

pub(crate) async fn run(app: &App, command: &GrantCommand) -> Result<(), Failure> {
    match command {
        GrantCommand::Add { grant, tools } => add(app, grant, tools.as_deref()).await,
        GrantCommand::Remove { grant, abort_turns } => {
            let query: &[(&str, &str)] = if *abort_turns {
                &[("abortTurns", "true")]
            } else {
                &[]
            };
            remove(app, grant, query).await
        }
        GrantCommand::List(arguments) => list(app, &arguments.npc).await,
    }
}

/// Reads WHAT here, so that a slip is answered at once and names the nearest. The Village reads it again.
fn what(text: &str) -> Result<GrantWhat, Failure> {
    text.parse().map_err(|error: InvalidGrantWhat| {
        let mut sentence = error.to_string();
        if let InvalidGrantWhat::Shape(_) = error
            && let Some(meant) = meant(text)
        {
            sentence = format!("{sentence}; did you mean {meant}?");
        }
        let problem = Problem::new(ErrorCode::InvalidArgument, sentence).with_field("what");
        match error {
            InvalidGrantWhat::Shape(_) => Failure::Usage(problem),
            InvalidGrantWhat::Kind { .. }
            | InvalidGrantWhat::Tool { .. }
            | InvalidGrantWhat::Family { .. } => Failure::Failed(problem),
        }
    })
}

/// What somebody meant who left out the kind: the built-in Tool or family that is called most like it.
fn meant(text: &str) -> Option<String> {
    let tools = BuiltinTool::ALL.map(|tool| (tool.as_str(), GrantWhat::Tool(tool)));
    let families = Family::ALL.map(|family| (family.as_str(), GrantWhat::Family(family)));
    let all: Vec<(&str, GrantWhat)> = tools.into_iter().chain(families).collect();
    let name = nearest(text, all.iter().map(|(name, _)| *name))?;
    all.iter()
        .find(|(known, _)| *known == name)
        .map(|(_, what)| what.to_string())
}

async fn add(app: &App, grant: &GrantArgs, tools: Option<&[String]>) -> Result<(), Failure> {
    let what = what(&grant.what)?;
    let body = Body {
        what: what.to_string(),
        tools,
    };
    let made = app
        .village()?
        .post(&["npcs", &grant.npc, "grants"], &body)
        .await?;
    match app.output.format() {
        Format::Json => app.output.json(&made)?,
        Format::Text => {
            let made: Grant = read(&made)?;
            app.output.line(&format!(
                "{} has {} from its next turn on",
                grant.npc,
                made.in_words()
            ))?;
            if let Some(sentence) = made.sentence {
                app.output.remark(&sentence)?;
            }
        }
    }
    Ok(())
}

async fn remove(app: &App, grant: &GrantArgs, options: &[(&str, &str)]) -> Result<(), Failure> {
    let what = what(&grant.what)?.to_string();
    let mut query = vec![("what", what.as_str())];
    query.extend(options);
    let gone = app
        .village()?
        .delete(&["npcs", &grant.npc, "grants"], &query)
        .await?;
    match app.output.format() {
        Format::Json => app.output.json(&gone)?,
        Format::Text => {
            let removed: Removed = read(&gone)?;
            let stopped = match removed.aborted_turns.as_slice() {
                [] => String::new(),
                turns => format!("; stopped {}", turns.join(", ")),
            };
            app.output.line(&format!(
                "{} does not have {what} from its next turn on{stopped}",
                grant.npc
            ))?;
        }
    }
    Ok(())
}

async fn list(app: &App, npc: &str) -> Result<(), Failure> {
    let list = app.village()?.list(&["npcs", npc, "grants"]).await?;
    print_list(
        app,
        &list,
        &["GRANT", "SINCE", "ID"],
        &format!("{npc} has no Grants, and so no Tools."),
        |grant: Grant| vec![grant.in_words(), short_time(&grant.created_at), grant.id],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_names_the_nearest_and_a_shapeless_what_is_wrong_usage() {
        let slip = what("tool:curent_time").unwrap_err();
        assert_eq!(slip.exit_code(), 1);
        assert!(
            slip.problem()
                .unwrap()
                .detail
                .contains("did you mean current_time?")
        );
        let shapeless = what("curent_time").unwrap_err();
        assert_eq!(shapeless.exit_code(), 2);
        let sentence = &shapeless.problem().unwrap().detail;
        assert!(
            sentence.ends_with("did you mean tool:current_time?"),
            "{sentence}"
        );
        assert_eq!(what("tol:current_time").unwrap_err().exit_code(), 1);
    }
}

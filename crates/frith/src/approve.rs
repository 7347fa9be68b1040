//! `frith approve`: the operator's word on calls that a rule holds.

use std::time::{SystemTime, UNIX_EPOCH};

use a2e_runtime::DataDir;
use a2e_runtime::operator::{Decide, HeldCall, HeldCalls, Nothing, Show, ask};
use anyhow::Result;
use clap::Subcommand;
use serde_json::{Value, json};

use crate::Outcome;
use crate::agent::{block_on, print};
use crate::data::DataArguments;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Action,

    #[command(flatten)]
    data: DataArguments,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List the calls that wait, oldest first
    List,
    /// Show all of a call
    Show {
        /// The call's id, from the list
        id: String,
    },
    /// Let a call be done: exactly this one, once
    Yes {
        /// The call's id, from the list
        id: String,
    },
    /// Refuse a call
    No {
        /// The call's id, from the list
        id: String,
    },
}

pub(crate) fn run(arguments: &Arguments, as_json: bool) -> Result<Outcome> {
    let dir = arguments.data.dir()?;
    block_on(async {
        match &arguments.action {
            Action::List => list(&dir, as_json).await,
            Action::Show { id } => {
                let call: HeldCall = ask(&dir, "approve.show", &Show { id: id.clone() }).await?;
                show(&call, as_json)
            }
            Action::Yes { id } => decide(&dir, id, true, as_json).await,
            Action::No { id } => decide(&dir, id, false, as_json).await,
        }
    })
}

async fn list(dir: &DataDir, as_json: bool) -> Result<Outcome> {
    let held: HeldCalls = ask(dir, "approve.list", &Nothing {}).await?;
    if as_json {
        print(&json!(held.calls))?;
        return Ok(Outcome::Good);
    }
    if held.calls.is_empty() {
        print(&"no call waits")?;
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis();
    let now = i64::try_from(now)?;
    for call in &held.calls {
        let left = call.until.saturating_sub(now) / 1000;
        let agent = plain(&call.agent);
        let what: String = plain(&summary(&call.shown)).chars().take(100).collect();
        print(&format!(
            "{}  {agent:12}  {left:>4} s left  {what}",
            call.id
        ))?;
    }
    Ok(Outcome::Good)
}

fn show(call: &HeldCall, as_json: bool) -> Result<Outcome> {
    if as_json {
        print(&json!(call))?;
        return Ok(Outcome::Good);
    }
    let shown: Value = serde_json::from_str(&call.shown).unwrap_or_default();
    print(&format!("id     {}", call.id))?;
    print(&format!("agent  {}", plain(&call.agent)))?;
    print(&format!("state  {}", call.verdict))?;
    print(&format!(
        "rule   {}",
        plain(shown["rule"].as_str().unwrap_or_default())
    ))?;
    print(&plain(&serde_json::to_string_pretty(&shown["request"])?))?;
    Ok(Outcome::Good)
}

async fn decide(dir: &DataDir, id: &str, grant: bool, as_json: bool) -> Result<Outcome> {
    let request = Decide {
        id: id.to_owned(),
        grant,
    };
    let call: HeldCall = ask(dir, "approve.decide", &request).await?;
    match as_json {
        true => print(&json!(call))?,
        false => {
            let what: String = plain(&summary(&call.shown)).chars().take(100).collect();
            print(&format!("{} {}: {what}", call.verdict, call.id))?;
        }
    }
    Ok(Outcome::Good)
}

/// A call in one line: what is called, with what.
fn summary(shown: &str) -> String {
    let shown: Value = serde_json::from_str(shown).unwrap_or_default();
    let request = &shown["request"];
    let kind = request["type"].as_str().unwrap_or_default();
    match (request["tool_name"].as_str(), &request["arguments"]) {
        (Some(tool), arguments) => format!("{tool} {arguments}"),
        (None, _) => format!("{kind} {request}"),
    }
}

/// A text of an agent's, without what a terminal would act on.
fn plain(text: &str) -> String {
    text.chars()
        .map(|letter| match letter {
            '\n' => '\n',
            letter if letter.is_control() => '\u{fffd}',
            letter => letter,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_in_one_line() {
        let shown = r#"{"rule":"ask","request":{"type":"tool/call/req","tool_name":"write","arguments":{"path":"a"}}}"#;
        assert_eq!(summary(shown), r#"write {"path":"a"}"#);
        assert_eq!(
            summary("{\"request\":{\"type\":\"x\"}}"),
            "x {\"type\":\"x\"}"
        );
    }

    #[test]
    fn terminals_are_not_commanded() {
        assert_eq!(
            plain("a\u{1b}[2Jb\u{9b}c\r"),
            "a\u{fffd}[2Jb\u{fffd}c\u{fffd}"
        );
    }
}

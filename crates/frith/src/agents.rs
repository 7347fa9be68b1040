//! `frith agents`: the agents that agents of a node have.

use std::sync::Arc;

use a2e_caps::agents::{AgentInfo, Forest};
use a2e_runtime::DataDir;
use a2e_runtime::operator::{Nothing, Operations, ask};
use anyhow::Result;
use clap::Subcommand;
use serde::{Deserialize, Serialize};

use crate::Outcome;
use crate::agent::{block_on, print, print_json};
use crate::data::DataArguments;
use crate::screen::{self, one_line, plain, quoted};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Action,

    #[command(flatten)]
    data: DataArguments,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List the sub-agents of all sessions
    List,
    /// Show all of one
    Show {
        /// Its id, from the list
        id: String,
    },
    /// Cancel one, with all the sub-agents that it has
    Cancel {
        /// Its id, from the list
        id: String,
    },
}

/// Names a sub-agent.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Named {
    id: String,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Listed {
    agents: Vec<AgentInfo>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Cancelled {
    /// How many were at work.
    cancelled: usize,
}

const LIST: &str = "agents.list";
const SHOW: &str = "agents.show";
const CANCEL: &str = "agents.cancel";

/// Adds what the operator may ask about sub-agents.
pub(crate) fn serve(operations: Operations, forest: &Arc<Forest>) -> Operations {
    let (listing, showing, cancelling) =
        (Arc::clone(forest), Arc::clone(forest), Arc::clone(forest));
    operations
        .add(LIST, move |_: Nothing| {
            let agents = listing.list();
            async move { Ok(Listed { agents }) }
        })
        .add(SHOW, move |Named { id }| {
            let found = showing.find(&id).ok_or_else(|| unknown(&id));
            async move { found }
        })
        .add(CANCEL, move |Named { id }| {
            let cancelled = cancelling.cancel(&id).ok_or_else(|| unknown(&id));
            async move { cancelled.map(|cancelled| Cancelled { cancelled }) }
        })
}

fn unknown(id: &str) -> String {
    let id: String = id.chars().take(64).collect();
    format!("there is no sub-agent `{id}`; `frith agents list` shows those there are")
}

pub(crate) fn run(arguments: &Arguments, as_json: bool) -> Result<Outcome> {
    let dir = arguments.data.dir()?;
    block_on(async {
        match &arguments.action {
            Action::List => list(&dir, as_json).await?,
            Action::Show { id } => {
                let agent: AgentInfo = ask(&dir, SHOW, &Named { id: id.clone() }).await?;
                show(&agent, as_json)?;
            }
            Action::Cancel { id } => {
                let done: Cancelled = ask(&dir, CANCEL, &Named { id: id.clone() }).await?;
                match (as_json, done.cancelled) {
                    (true, _) => print_json(&done)?,
                    (false, 0) => tell!(
                        "frith: nothing was cancelled: it has ended already; `frith agents show {}` tells how",
                        quoted(id)
                    ),
                    (false, count) => print(&format!("cancelled {count}"))?,
                }
                if done.cancelled == 0 {
                    return Ok(Outcome::Bad);
                }
            }
        }
        Ok(Outcome::Good)
    })
}

async fn list(dir: &DataDir, as_json: bool) -> Result<()> {
    let listed: Listed = ask(dir, LIST, &Nothing {}).await?;
    if as_json {
        return print_json(&listed.agents);
    }
    if listed.agents.is_empty() {
        print(&"no agent has sub-agents at the moment")?;
    }
    for it in &listed.agents {
        let indent = "  ".repeat(it.depth.saturating_sub(1));
        print(
            &format!(
                "{indent}{}  {:10}  {:12}  {}  {}",
                plain(&it.id),
                plain(&it.status),
                plain(&it.agent),
                one_line(&it.name),
                one_line(&it.task),
            )
            .trim_end(),
        )?;
    }
    Ok(())
}

fn show(agent: &AgentInfo, as_json: bool) -> Result<()> {
    if as_json {
        return print_json(agent);
    }
    let text = serde_json::to_string_pretty(agent)?;
    print(&screen::json(&text))
}

//! `frith learn`: what an agent has learned, and what models are trained with.

mod export;

use std::path::PathBuf;

use a2e_runtime::Client;
use a2e_wire::messages::learn::{
    ComponentPerformanceRecord, LearnAdaptRequest, LearnRefinementHistoryRequest,
    LearnRefinementRollbackRequest, LearnStatsRequest, RefinementHistoryEntry,
};
use anyhow::{Result, bail};
use clap::{Subcommand, ValueEnum};

use crate::Outcome;
use crate::agent::{block_on, print};
use crate::connect;
use crate::plan::print_all;
use crate::screen::plain;

#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Action,

    #[command(flatten)]
    host: connect::Arguments,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Show how components have done: models, prompts, tools, skills
    Stats {
        /// One component; all without it
        #[arg(default_value = "", hide_default_value = true)]
        component: String,
    },
    /// Have the host learn from what it has
    Adapt {
        /// How: ppo, ucb1, epsilon_greedy, softmax or custom
        #[arg(long, default_value = "ppo")]
        strategy: String,
    },
    /// Show the refinements of the past, the newest first
    History,
    /// Take a refinement back
    Rollback {
        /// Its id, from the history
        refinement: String,
    },
    /// Write what models are trained with, one JSON object a line
    Export {
        /// What: pairs of a better and a worse answer, or samples with a reward
        #[arg(long)]
        format: Format,

        /// Into this file, which must be new; to standard output without it
        #[arg(long, short)]
        output: Option<PathBuf>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// `prompt`, `chosen`, `rejected`: for direct preference optimization
    Dpo,
    /// `prompt`, `response`, `reward` of feedback; `state`, `action`, `reward` of experiences
    Reward,
}

pub(crate) fn run(arguments: &Arguments, as_json: bool) -> Result<Outcome> {
    block_on(async {
        let connection = arguments.host.connect_elsewhere(&["learning"]).await?;
        let done = act(&arguments.action, &connection.client, as_json).await;
        connection.close().await;
        done.map(|()| Outcome::Good)
    })
}

async fn act(action: &Action, client: &Client, as_json: bool) -> Result<()> {
    match action {
        Action::Stats { component } => {
            let request = LearnStatsRequest {
                component_name: component.clone().into(),
            };
            let components = client.request(request).await?.components;
            if components.is_empty() && !as_json {
                return print(&"nothing is known yet; feedback and experiences are learned from");
            }
            show_components(&components, as_json)
        }
        Action::Adapt { strategy } => {
            let request = LearnAdaptRequest {
                strategy: strategy.clone().into(),
                ..LearnAdaptRequest::new()
            };
            let adapted = client.request(request).await?;
            if !as_json {
                print(&plain(&adapted.message))?;
            }
            show_components(&adapted.updated, as_json)
        }
        Action::History => {
            let history = client.request(LearnRefinementHistoryRequest {}).await?;
            match as_json {
                true => print_all(&history.entries),
                false if history.entries.is_empty() => {
                    print(&"nothing was refined yet; `frith learn adapt` finds weights")
                }
                false => history.entries.iter().try_for_each(show_entry),
            }
        }
        Action::Rollback { refinement } => {
            let request = LearnRefinementRollbackRequest {
                refinement_id: refinement.clone().into(),
            };
            let done = client.request(request).await?;
            match done.rolled_back {
                true => print(&format!("`{refinement}` is taken back")),
                false => bail!("{}", done.error),
            }
        }
        Action::Export { format, output } => export::run(client, *format, output.as_deref()).await,
    }
}

fn show_components(components: &[ComponentPerformanceRecord<'_>], as_json: bool) -> Result<()> {
    if as_json {
        return print_all(components);
    }
    if components.is_empty() {
        return Ok(());
    }
    print(&format!(
        "{:24} {:>8} {:>7} {:>7} {:>7} {:>9} {:>9}",
        "component", "calls", "score", "recent", "weight", "mean ms", "p95 ms"
    ))?;
    for it in components {
        let optional = |number: Option<a2e_wire::Real>| match number {
            Some(number) => format!("{:.3}", number.get()),
            None => "–".to_owned(),
        };
        print(&format!(
            "{:24} {:>8} {:>7.3} {:>7} {:>7} {:>9.1} {:>9.1}",
            plain(&it.component_name),
            it.calls_total,
            it.avg_score.get(),
            optional(it.decayed_score),
            optional(it.weight),
            it.avg_duration_ms.get(),
            it.p95_duration_ms.get(),
        ))?;
    }
    Ok(())
}

fn show_entry(entry: &RefinementHistoryEntry<'_>) -> Result<()> {
    let (id, status) = (plain(&entry.refinement_id), plain(&entry.status));
    let edits = match (entry.applied_edits, entry.failed_edits) {
        (0, 0) => String::new(),
        (applied, 0) => format!("{applied} edits"),
        (applied, failed) => format!("{applied} edits, {failed} failed"),
    };
    let note = match (entry.rollback_available, entry.error.as_deref()) {
        (true, _) => "can be taken back".to_owned(),
        (false, Some(error)) => plain(error),
        (false, None) => String::new(),
    };
    print(&format!("{id:14} {status:12} {edits:22} {note}").trim_end())
}

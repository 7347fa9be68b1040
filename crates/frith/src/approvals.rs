//! `frith approvals`, `approve` and `deny`: the operator's decisions about calls that need approval.

use std::time::{SystemTime, UNIX_EPOCH};

use a2e_runtime::DataDir;
use a2e_runtime::operator::{Decide, HeldCall, HeldCalls, Nothing, Show, ask};
use anyhow::Result;
use clap::Subcommand;
use serde_json::json;

use crate::Outcome;
use crate::agent::{block_on, print, print_json};
use crate::data::DataArguments;
use crate::inbox;
use crate::screen::{self, plain};

/// `frith approvals`: alone, it lists.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Option<Action>,

    /// Show calls as they come, and decide about them: `j` and `k` select one, `a` approves, `d` denies and
    /// asks for the reason, `q` ends. Where there is no terminal, or with --json, a line for each
    #[arg(long)]
    watch: bool,

    #[command(flatten)]
    data: DataArguments,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Show all of a call
    Show {
        /// The call's id, from `frith approvals`
        id: String,
    },
}

/// `frith approve`.
#[derive(Debug, clap::Args)]
pub(crate) struct Approve {
    /// The call's id, from `frith approvals`
    id: String,

    #[command(flatten)]
    data: DataArguments,
}

/// `frith deny`.
#[derive(Debug, clap::Args)]
pub(crate) struct Deny {
    /// The call's id, from `frith approvals`
    id: String,

    /// Why, for the agent
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true
    )]
    reason: String,

    #[command(flatten)]
    data: DataArguments,
}

pub(crate) fn run(arguments: &Arguments, as_json: bool) -> Result<Outcome> {
    let dir = arguments.data.dir()?;
    block_on(async {
        match &arguments.action {
            None if arguments.watch => inbox::watch(&dir, as_json).await,
            None => list(&dir, as_json).await,
            Some(Action::Show { id }) => {
                let call: HeldCall = ask(&dir, "approvals.show", &Show { id: id.clone() }).await?;
                show(&call, as_json)
            }
        }
    })
}

pub(crate) fn approve(arguments: &Approve, as_json: bool) -> Result<Outcome> {
    let dir = arguments.data.dir()?;
    block_on(decide(&dir, &arguments.id, None, as_json))
}

pub(crate) fn deny(arguments: &Deny, as_json: bool) -> Result<Outcome> {
    let dir = arguments.data.dir()?;
    block_on(decide(
        &dir,
        &arguments.id,
        Some(&arguments.reason),
        as_json,
    ))
}

async fn list(dir: &DataDir, as_json: bool) -> Result<Outcome> {
    let held: HeldCalls = ask(dir, "approvals.list", &Nothing {}).await?;
    if as_json {
        print_json(&json!(held.calls))?;
        return Ok(Outcome::Good);
    }
    if held.calls.is_empty() {
        print(&"no call waits")?;
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis();
    let now = i64::try_from(now)?;
    for call in &held.calls {
        let left = call.until.saturating_sub(now) / 1000;
        let agent = screen::cut(&plain(&call.agent), AGENT);
        let what = plain(&call.summary);
        let line = format!("{}  {agent:AGENT$}  {left:>4} s left  {what}", call.id);
        print(&screen::cut(&line, screen::WIDTH))?;
    }
    Ok(Outcome::Good)
}

/// Columns of an agent's name in the list.
const AGENT: usize = 16;

fn show(call: &HeldCall, as_json: bool) -> Result<Outcome> {
    if as_json {
        print_json(&json!(call))?;
        return Ok(Outcome::Good);
    }
    print(&format!("id     {}", call.id))?;
    print(&format!("state  {}", call.verdict))?;
    if !call.reason.is_empty() {
        print(&format!("reason {}", plain(&call.reason)))?;
    }
    let mut lines = inbox::details(call).into_iter();
    lines.try_for_each(|line| print(&line))?;
    Ok(Outcome::Good)
}

/// Decides about a call; a reason denies it.
async fn decide(
    dir: &DataDir,
    id: &str,
    denied: Option<&String>,
    as_json: bool,
) -> Result<Outcome> {
    let request = Decide {
        id: id.to_owned(),
        grant: denied.is_none(),
        reason: denied.cloned().unwrap_or_default(),
    };
    let call: HeldCall = ask(dir, "approvals.decide", &request).await?;
    match as_json {
        true => print_json(&json!(call))?,
        false => {
            let done = match denied {
                None => "approved",
                Some(_) => "denied",
            };
            let line = format!("{done} {} of {}", call.id, plain(&call.agent));
            print(&screen::cut(&line, screen::WIDTH))?;
            if !call.awaited {
                print(&"no request waits for it now; the decision is for the next such call")?;
            }
        }
    }
    Ok(Outcome::Good)
}

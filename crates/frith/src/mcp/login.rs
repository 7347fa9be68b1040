//! Logins to MCP servers, which the node makes for its operator.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use a2e_caps::mcp::client::Fleet;
use a2e_runtime::DataDir;
use a2e_runtime::operator::{News, Operations, ask, ask_telling};
use anyhow::Result;
use canonical::Value;
use serde::{Deserialize, Serialize};

use crate::Outcome;
use crate::agent::{print, print_json};
use crate::screen::plain;

/// Names a server.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Named {
    server: String,
}

/// What is to be opened with a browser.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Open {
    open: String,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct LoggedIn {
    /// How many tools the server has.
    tools: usize,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct LoggedOut {
    /// Whether there was a login.
    forgotten: bool,
}

const LOGIN: &str = "mcp.login";
const LOGOUT: &str = "mcp.logout";

/// Longer than the node waits for somebody to log in.
const PATIENCE: Duration = Duration::from_secs(20 * 60);

/// Adds what the operator may ask about logins.
pub(crate) fn serve(operations: Operations, fleet: Arc<OnceLock<Arc<Fleet>>>) -> Operations {
    let forgetting = Arc::clone(&fleet);
    operations
        .add_telling(LOGIN, move |Named { server }, news: News| {
            let fleet = known(&fleet);
            async move {
                let show = |open| async move { news.tell(&Open { open }).await };
                let tools = fleet?.login(&server, show).await?;
                Ok(LoggedIn { tools })
            }
        })
        // Nobody comes back to a login that was interrupted.
        .ending_with_operator(LOGIN)
        .add(LOGOUT, move |Named { server }| {
            let fleet = known(&forgetting);
            async move {
                let forgotten = fleet?.logout(&server).await?;
                Ok(LoggedOut { forgotten })
            }
        })
}

pub(crate) fn known(fleet: &OnceLock<Arc<Fleet>>) -> Result<Arc<Fleet>, String> {
    let none =
        || "this node has no plugin of the type `mcp`; its configuration can name one".into();
    fleet.get().cloned().ok_or_else(none)
}

pub(super) async fn login(dir: &DataDir, server: &str, as_json: bool) -> Result<Outcome> {
    let told = |news: Value<'static>| {
        if let Ok(Open { open }) = news.deserialize_into() {
            // Beside the answer, which is what a program reads.
            tell!(
                "open this with a browser on this machine:\n\n  {}\n",
                plain(open)
            );
        }
    };
    let named = Named {
        server: server.to_owned(),
    };
    let done: LoggedIn = ask_telling(dir, LOGIN, &named, PATIENCE, told).await?;
    match as_json {
        true => print_json(&done)?,
        false => print(&format!("logged in to {server}: {} tools", done.tools))?,
    }
    Ok(Outcome::Good)
}

pub(super) async fn logout(dir: &DataDir, server: &str, as_json: bool) -> Result<Outcome> {
    let named = Named {
        server: server.to_owned(),
    };
    let done: LoggedOut = ask(dir, LOGOUT, &named).await?;
    match (as_json, done.forgotten) {
        (true, _) => print_json(&done)?,
        (false, true) => print(&format!("logged out of {server}"))?,
        (false, false) => print(&format!("there was no login to {server}"))?,
    }
    Ok(Outcome::Good)
}

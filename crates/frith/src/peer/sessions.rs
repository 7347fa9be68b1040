//! `frith peer sessions`: who is spoken with.

use a2a_wire::UnixSeconds;
use a2e_runtime::DataDir;
use a2e_runtime::operator::{Nothing, ask};
use anyhow::Result;

use super::asked::{SESSIONS, Sessions};
use crate::Outcome;
use crate::agent::{print, print_json};
use crate::id::until;
use crate::keystore::now;

pub(super) async fn run(dir: &DataDir, as_json: bool) -> Result<Outcome> {
    let sessions: Sessions = ask(dir, SESSIONS, &Nothing {}).await?;
    if as_json {
        print_json(&sessions)?;
        return Ok(Outcome::Good);
    }
    if sessions.outgoing.is_empty() && sessions.incoming.is_empty() {
        print(&"no session with another agent")?;
    }
    for session in &sessions.outgoing {
        let sealed = if session.encrypted { ", encrypted" } else { "" };
        let ends = until(UnixSeconds(session.expires_at), now());
        print(&format!("-> {}", session.did))?;
        print(&format!(
            "   {}, {} over {}{sealed}, ends {ends}",
            session.trust_level, session.binding, session.transport
        ))?;
    }
    for session in &sessions.incoming {
        let ends = until(UnixSeconds(session.expires_at), now());
        print(&format!("<- {}", session.did))?;
        print(&format!(
            "   {}, {} running, ends {ends}",
            session.trust_level, session.in_flight
        ))?;
    }
    Ok(Outcome::Good)
}

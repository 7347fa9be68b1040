//! `frith peer sessions`: who is spoken with.

use a2a_wire::UnixSeconds;
use a2e_runtime::DataDir;
use a2e_runtime::operator::{Nothing, ask};
use anyhow::Result;
use serde_json::{Value, json};

use super::asked::{SESSIONS, Sessions};
use crate::Outcome;
use crate::agent::{print, print_json};
use crate::book;
use crate::id::until;
use crate::keystore::now;

pub(super) async fn run(dir: &DataDir, as_json: bool) -> Result<Outcome> {
    let sessions: Sessions = ask(dir, SESSIONS, &Nothing {}).await?;
    let listing = book::list(dir).await?;
    let name = |did: &str| {
        let mut peers = listing.stored.peers().iter();
        let found = peers.find(|(_, peer)| peer.did.to_string() == did);
        found.map(|(name, _)| name.as_str())
    };
    if as_json {
        let named = |did: &str, session: Value| {
            let mut session = session;
            session["name"] = json!(name(did));
            session
        };
        let outgoing = sessions.outgoing.iter();
        let outgoing = outgoing.map(|it| named(&it.did, json!(it)));
        let incoming = sessions.incoming.iter();
        let incoming = incoming.map(|it| named(&it.did, json!(it)));
        print_json(&json!({
            "outgoing": outgoing.collect::<Vec<_>>(),
            "incoming": incoming.collect::<Vec<_>>(),
        }))?;
        return Ok(Outcome::Good);
    }
    let shown = |did: &str| match name(did) {
        Some(name) => format!("{name} ({did})"),
        None => did.to_owned(),
    };
    if sessions.outgoing.is_empty() && sessions.incoming.is_empty() {
        print(&"no session with another agent")?;
    }
    for session in &sessions.outgoing {
        let sealed = if session.encrypted { ", encrypted" } else { "" };
        let ends = until(UnixSeconds(session.expires_at), now());
        print(&format!("-> {}", shown(&session.did)))?;
        print(&format!(
            "   {}, {} over {}{sealed}, ends {ends}",
            session.trust_level, session.binding, session.transport
        ))?;
    }
    for session in &sessions.incoming {
        let ends = until(UnixSeconds(session.expires_at), now());
        print(&format!("<- {}", shown(&session.did)))?;
        print(&format!(
            "   {}, {} running, ends {ends}",
            session.trust_level, session.in_flight
        ))?;
    }
    Ok(Outcome::Good)
}

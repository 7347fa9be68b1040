//! `frith peer`: other agents by name, and what they are asked.

mod advice;
pub(crate) mod asked;
mod call;
mod probe;
mod sessions;

use std::path::PathBuf;

use a2a_identity::{Did, WebUrl};
use a2a_net::book::{Peer, Pin, parse_did};
use a2a_wire::UnixSeconds;
use a2e_runtime::DataDir;
use a2e_runtime::operator::{AskError, ask};
use anyhow::{Context, Result, bail};
use clap::Subcommand;
use serde_json::json;

use self::asked::{LOOK, Look, Seen};
use crate::Outcome;
use crate::agent::{block_on, print, print_json};
use crate::book::{self, AddPeer, RemovePeer};
use crate::data::DataArguments;
use crate::id::until;
use crate::keystore::now;
use crate::manifest::load::{Refused, Subject, load};
use crate::resolve;
use crate::screen::{plain, shown};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Action,

    #[command(flatten)]
    data: DataArguments,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Remember an agent: where it is, who must answer there, and which manifest it must show
    Add(Add),
    /// List the agents that are remembered
    List,
    /// Show what an agent offers, by the manifest that is fetched from it and verified
    Show {
        /// A name of `frith peer list`, a DID, or a URL
        agent: String,
    },
    /// Forget an agent, and the manifest that was pinned for it
    Remove {
        /// Its name
        name: String,
    },
    /// Shake hands with an agent and show every message; nothing is kept or trusted
    Probe {
        /// A name of `frith peer list`, a DID, or a URL
        agent: String,
        /// Fail unless messages are encrypted inside TLS
        #[arg(long)]
        encrypt: bool,
    },
    /// Have an agent do something, and show its verified answer
    Call(call::Arguments),
    /// List the sessions with other agents
    Sessions,
}

#[derive(Debug, clap::Args)]
struct Add {
    /// What to call it here
    name: String,

    /// Its handshake endpoint; `https://host` alone means the usual path there
    url: String,

    /// Its signed manifest, which is verified and pinned
    #[arg(long, value_name = "FILE")]
    manifest: Option<PathBuf>,

    #[command(flatten)]
    subject: Subject,
}

/// The path of a handshake endpoint, if nobody says another.
const USUAL_PATH: &str = "/a2a/handshake";

pub(crate) fn run(arguments: &Arguments, as_json: bool) -> Result<Outcome> {
    let changes = matches!(arguments.action, Action::Add(_) | Action::Remove { .. });
    let dir = match changes {
        true => arguments.data.existing()?,
        false => arguments.data.dir()?,
    };
    block_on(async {
        match &arguments.action {
            Action::Add(options) => add(&dir, options, as_json).await,
            Action::List => list(&dir, as_json).await,
            Action::Show { agent } => show(&dir, agent, as_json).await,
            Action::Probe { agent, encrypt } => probe::run(&dir, agent, *encrypt, as_json).await,
            Action::Call(call) => call::run(&dir, call, as_json).await,
            Action::Sessions => sessions::run(&dir, as_json).await,
            Action::Remove { name } => {
                let name = name.clone();
                let done = format!("removed {name}");
                book::change(&dir, RemovePeer { name }).await?;
                match as_json {
                    true => print_json(&json!({}))?,
                    false => print(&done)?,
                }
                Ok(Outcome::Good)
            }
        }
    })
}

async fn add(dir: &DataDir, options: &Add, as_json: bool) -> Result<Outcome> {
    if !options.url.contains("://") {
        let message = format!(
            "`{0}` is no URL; did you mean https://{0}?",
            plain(&options.url)
        );
        return Ok(Outcome::WrongArguments(message));
    }
    let url = endpoint(&options.url);
    let (did, pin) = match (&options.manifest, &options.subject.did) {
        (Some(file), _) => {
            let verified = match load(file, &options.subject, None)? {
                Ok(verified) => verified,
                Err(Refused::Arguments(message)) => return Ok(Outcome::WrongArguments(message)),
                Err(Refused::Manifest(error)) => {
                    bail!("{}: {} ({error})", shown(file), error.code())
                }
            };
            let endpoints = verified.manifest().endpoints.iter();
            let listed: Vec<String> = endpoints.map(|it| it.url.to_string()).collect();
            if !listed.contains(&url) {
                return Ok(Outcome::WrongArguments(not_listed(&listed, &url)));
            }
            let pin = Pin {
                manifest: Some(verified.hash()),
                signed_at: Some(verified.timestamp().0),
                peer: Some(options.name.clone()),
                ..Pin::default()
            };
            (verified.did().clone(), Some(pin))
        }
        (None, Some(did)) => match parse_did(did) {
            Ok(did) => (did, None),
            Err(error) => return Ok(Outcome::WrongArguments(format!("--did: {error}"))),
        },
        (None, None) => match ask::<Seen>(dir, LOOK, &Look { at: url.clone() }).await {
            Ok(seen) => looked_up(&options.name, &url, seen)?,
            Err(AskError::NoNode { .. }) => {
                let message = "an address alone is nobody's, and no node is running that could ask there: start \
                               one (`frith up`), say whose it is with --did DID, or give its signed manifest \
                               with --manifest FILE";
                return Ok(Outcome::WrongArguments(message.to_owned()));
            }
            Err(error) => return Err(error.into()),
        },
    };
    let pinned = pin.as_ref().and_then(|pin| pin.manifest);
    let shown = json!({"name": options.name, "url": url, "did": did.to_string(),
        "manifest_hash": pinned.map(|hash| hash.to_string())});
    let line = format!("added {}: {did} at {url}", options.name);
    let wish = AddPeer {
        name: options.name.clone(),
        peer: Peer { url, did },
        pin,
    };
    book::change(dir, wish).await?;
    if as_json {
        print(&shown)?;
        return Ok(Outcome::Good);
    }
    print(&line)?;
    match pinned {
        Some(hash) => print(&format!(
            "  pinned {hash}: it must show this manifest, or be removed and added again"
        ))?,
        None => print(&"  no manifest is pinned (--manifest FILE does that)")?,
    }
    Ok(Outcome::Good)
}

async fn show(dir: &DataDir, agent: &str, as_json: bool) -> Result<Outcome> {
    let listing = book::list(dir).await?;
    let peers = listing.stored.peers();
    // A did:key does not say where it is.
    let known = peers
        .iter()
        .find(|(name, peer)| *name == agent || peer.did.to_string() == agent);
    let at = match known {
        Some((_, peer)) => peer.url.clone(),
        None if agent.contains("://") => endpoint(agent),
        None if agent.starts_with("did:") => agent.to_owned(),
        None => bail!(
            "there is no peer `{agent}`; `frith peer list` shows them, `frith peer add` adds one"
        ),
    };
    let seen: Seen = ask(dir, LOOK, &Look { at }).await?;
    resolve::found(&seen, as_json)
}

/// Who is at an address, by the manifest that was fetched there and verified, which is pinned.
fn looked_up(name: &str, url: &str, seen: Seen) -> Result<(Did, Option<Pin>)> {
    let did = parse_did(&seen.did)?;
    let manifest = seen.manifest.context("it has no manifest")?;
    if !manifest.endpoints.iter().any(|listed| listed == url) {
        bail!("{}", not_listed(&manifest.endpoints, url));
    }
    let pin = Pin {
        manifest: Some(manifest.hash.parse()?),
        signed_at: Some(manifest.signed_at),
        peer: Some(name.to_owned()),
        ..Pin::default()
    };
    Ok((did, Some(pin)))
}

/// The handshake endpoint that was meant.
pub(crate) fn endpoint(url: &str) -> String {
    match WebUrl::parse(url).as_ref().map(WebUrl::path) {
        Ok("" | "/") => format!("{}{USUAL_PATH}", url.trim_end_matches('/')),
        Ok(_) | Err(_) => url.to_owned(),
    }
}

/// What to say if a manifest does not list an address: its agent would not be believed there.
fn not_listed(listed: &[String], url: &str) -> String {
    let listed = listed.join(", ");
    format!("the manifest does not list {url}; it lists {listed}")
}

async fn list(dir: &DataDir, as_json: bool) -> Result<Outcome> {
    let listing = book::list(dir).await?;
    let pages = listing.pages();
    let peers = listing.stored.peers();
    let pin_of = |peer: &Peer| listing.stored.pins().get(&peer.did.to_string());
    if as_json {
        let rows = peers.iter().map(|(name, peer)| {
            let pin = pin_of(peer);
            let hash = pages.pins(&peer.did).manifest;
            json!({"name": name, "url": peer.url, "did": peer.did.to_string(),
                "manifest_hash": hash.map(|hash| hash.to_string()),
                "signed_at": pin.and_then(|pin| pin.signed_at),
                "blocked": pages.is_blocked(&peer.did)})
        });
        print_json(&json!(rows.collect::<Vec<_>>()))?;
        return Ok(Outcome::Good);
    }
    if peers.is_empty() {
        print(&"no agent is remembered; `frith peer add NAME URL --did DID` does that")?;
    }
    for (name, peer) in peers {
        print(&format!("{name}  {}", peer.did))?;
        print(&format!("  at      {}", peer.url))?;
        if let Some(hash) = pages.pins(&peer.did).manifest {
            let signed = pin_of(peer).and_then(|pin| pin.signed_at);
            let signed = signed.map(|at| format!(", signed {}", until(UnixSeconds(at), now())));
            print(&format!("  pinned  {hash}{}", signed.unwrap_or_default()))?;
        }
        if pages.is_blocked(&peer.did) {
            print(&"  blocked: it is not spoken to")?;
        }
    }
    Ok(Outcome::Good)
}

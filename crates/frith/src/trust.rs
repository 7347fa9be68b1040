//! `frith trust`: whose word counts, what agents must show, and who is not spoken to.

use std::collections::BTreeMap;

use a2a_identity::TrustLevel;
use a2a_net::book::{Block, Book, Pin, TrustAnchor, parse_did};
use a2e_runtime::DataDir;
use anyhow::{Result, bail};
use canonical::{Digest, base64url};
use clap::Subcommand;
use serde::Serialize;
use serde_json::{Value, json};

use crate::Outcome;
use crate::agent::{block_on, print, print_json};
use crate::book::{
    self, AddAnchor, AddBlock, AddPin, Change, EndedSessions, Listing, RemoveAnchor, RemoveBlock,
    RemovePin,
};
use crate::data::DataArguments;
use crate::keystore::now;
use crate::screen::{count, plain};

/// Changes are kept in the data directory; they hold at once for a node that runs. What the configuration says under `trust`
/// stands beside them and is right where both speak.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Action,

    #[command(flatten)]
    data: DataArguments,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List everything: anchors, pins, blocked agents
    List,
    /// Those whose endorsements count: list, add, remove
    Anchors {
        #[command(subcommand)]
        action: Option<Anchors>,
    },
    /// What an agent must show, exactly: list, add, remove
    Pins {
        #[command(subcommand)]
        action: Option<Pins>,
    },
    /// Speak to an agent no more
    Block {
        /// Its name in `frith peer list`, or its DID
        agent: String,

        /// Why, for the list
        #[arg(long, default_value = "", hide_default_value = true)]
        reason: String,
    },
    /// Speak to an agent again
    Unblock {
        /// Its name in `frith peer list`, or its DID
        agent: String,
    },
}

#[derive(Debug, Subcommand)]
enum Anchors {
    /// List them
    List,
    /// Let someone's endorsements count
    Add {
        /// What to call it here
        name: String,

        /// Its DID
        did: String,

        /// The one key to believe, in base64url; without it, the keys of its manifest
        #[arg(long)]
        key: Option<String>,

        /// Endorsements below this do not count: self, delegated or verified
        #[arg(long, default_value = "self", value_name = "LEVEL")]
        min_level: String,
    },
    /// Let someone's endorsements count no more
    Remove {
        /// Its name
        name: String,
    },
}

#[derive(Debug, Subcommand)]
enum Pins {
    /// List them
    List,
    /// Say what an agent must show, in place of what was said before
    Add {
        /// Its DID
        did: String,

        /// The hash of its manifest; `frith manifest verify` shows it
        #[arg(long, value_name = "HASH")]
        manifest: Option<Digest>,

        /// The hash of a key that may sign its manifest
        #[arg(long = "key", value_name = "HASH")]
        keys: Vec<Digest>,
    },
    /// Take it back
    Remove {
        /// Its DID
        did: String,
    },
}

/// Which lists are shown.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shown {
    All,
    Anchors,
    Pins,
}

/// A part of what is said, and the section of the configuration that may say the same.
#[derive(Clone, Copy)]
struct Part {
    section: &'static str,
    has: fn(&Book, &str) -> bool,
    /// Whether something is taken back, which the configuration goes on saying.
    is_removal: bool,
}

const ANCHOR: Part = Part {
    section: "trust.anchors",
    has: |book, name| book.anchors().contains_key(name),
    is_removal: false,
};

const PIN: Part = Part {
    section: "trust.pins",
    has: |book, did| book.pins().contains_key(did),
    is_removal: false,
};

const BLOCK: Part = Part {
    section: "trust.blocked",
    has: |book, did| book.blocked().contains_key(did),
    is_removal: false,
};

impl Part {
    const fn removed(self) -> Self {
        Self {
            is_removal: true,
            ..self
        }
    }
}

impl Action {
    /// Whether it changes nothing.
    const fn is_list(&self) -> bool {
        match self {
            Self::List => true,
            Self::Anchors { action } => matches!(action, None | Some(Anchors::List)),
            Self::Pins { action } => matches!(action, None | Some(Pins::List)),
            Self::Block { .. } | Self::Unblock { .. } => false,
        }
    }
}

pub(crate) fn run(arguments: &Arguments, as_json: bool) -> Result<Outcome> {
    let dir = match arguments.action.is_list() {
        true => arguments.data.dir()?,
        false => arguments.data.existing()?,
    };
    block_on(async {
        match &arguments.action {
            Action::List => list(&dir, Shown::All, as_json).await,
            Action::Anchors { action } => anchors(&dir, action.as_ref(), as_json).await,
            Action::Pins { action } => pins(&dir, action.as_ref(), as_json).await,
            Action::Block { agent, reason } => {
                let block = Block {
                    reason: reason.clone(),
                    since: u64::try_from(now().0).ok(),
                };
                let did = match did_of(&dir, agent).await? {
                    Ok(did) => did,
                    Err(outcome) => return Ok(outcome),
                };
                let done = format!("blocked {did}");
                let wish = AddBlock {
                    did: did.clone(),
                    block,
                };
                change(&dir, (BLOCK, &did), wish, &done, as_json).await
            }
            Action::Unblock { agent } => {
                let did = match did_of(&dir, agent).await? {
                    Ok(did) => did,
                    Err(outcome) => return Ok(outcome),
                };
                let done = format!("unblocked {did}");
                let wish = RemoveBlock { did: did.clone() };
                change(&dir, (BLOCK.removed(), &did), wish, &done, as_json).await
            }
        }
    })
}

async fn anchors(dir: &DataDir, action: Option<&Anchors>, as_json: bool) -> Result<Outcome> {
    match action {
        None | Some(Anchors::List) => list(dir, Shown::Anchors, as_json).await,
        Some(Anchors::Add {
            name,
            did,
            key,
            min_level,
        }) => {
            let who = match parse_did(did) {
                Ok(who) => who,
                Err(error) => return Ok(Outcome::WrongArguments(error.to_string())),
            };
            let Some(min_trust_level) = TrustLevel::named(min_level) else {
                let message = "--min-level must be self, delegated or verified";
                return Ok(Outcome::WrongArguments(message.to_owned()));
            };
            let public_key = match key.as_deref().map(book::public_key).transpose() {
                Ok(key) => key,
                Err(error) => return Ok(Outcome::WrongArguments(format!("--key: {error}"))),
            };
            let anchor = TrustAnchor {
                did: who,
                public_key,
                min_trust_level,
            };
            let done = format!("added trust anchor {name}");
            let wish = AddAnchor {
                name: name.clone(),
                anchor,
            };
            confirm(dir, (ANCHOR, name), wish, &done, as_json).await
        }
        Some(Anchors::Remove { name }) => {
            let done = format!("removed trust anchor {name}");
            let wish = RemoveAnchor { name: name.clone() };
            confirm(dir, (ANCHOR.removed(), name), wish, &done, as_json).await
        }
    }
}

async fn pins(dir: &DataDir, action: Option<&Pins>, as_json: bool) -> Result<Outcome> {
    match action {
        None | Some(Pins::List) => list(dir, Shown::Pins, as_json).await,
        Some(Pins::Add {
            did,
            manifest,
            keys,
        }) => {
            if manifest.is_none() && keys.is_empty() {
                let message = "say what it must show: --manifest HASH, --key HASH, or both";
                return Ok(Outcome::WrongArguments(message.to_owned()));
            }
            let pin = Pin {
                manifest: *manifest,
                keys: keys.clone(),
                ..Pin::default()
            };
            let done = format!("pinned {did}");
            let wish = AddPin {
                did: did.clone(),
                pin,
            };
            change(dir, (PIN, did), wish, &done, as_json).await
        }
        Some(Pins::Remove { did }) => {
            let done = format!("unpinned {did}");
            let wish = RemovePin { did: did.clone() };
            change(dir, (PIN.removed(), did), wish, &done, as_json).await
        }
    }
}

/// The agent that is meant: a name stands for one that is remembered.
async fn did_of(dir: &DataDir, agent: &str) -> Result<Result<String, Outcome>> {
    if agent.starts_with("did:") {
        return Ok(Ok(agent.to_owned()));
    }
    let listing = book::list(dir).await?;
    let did = listing.pages().peer(agent).map(|peer| peer.did.to_string());
    Ok(did.ok_or_else(|| {
        Outcome::WrongArguments(format!(
            "there is no peer `{agent}`; `frith peer list` shows them, and a DID does as well"
        ))
    }))
}

/// Makes a change that names a DID.
async fn change(
    dir: &DataDir,
    (part, did): (Part, &str),
    wish: impl Change,
    done: &str,
    as_json: bool,
) -> Result<Outcome> {
    match parse_did(did) {
        Ok(did) => confirm(dir, (part, &did.to_string()), wish, done, as_json).await,
        Err(error) => Ok(Outcome::WrongArguments(error.to_string())),
    }
}

/// Makes a change, and shows what was done and what has ended by it.
async fn confirm(
    dir: &DataDir,
    (part, name): (Part, &str),
    wish: impl Change,
    done: &str,
    as_json: bool,
) -> Result<Outcome> {
    let section = part.section;
    let is_configured = (part.has)(&book::list(dir).await?.configured, name);
    let changed = book::change(dir, wish).await;
    if is_configured && part.is_removal {
        // What a command said, if one did, is taken back; that is not enough.
        bail!(
            "`{section}` of the configuration has {name}, so it holds as before: take it out there, and run \
             `frith config apply`"
        );
    }
    let ended = changed?;
    if is_configured {
        tell!(
            "`{section}` of the configuration has {} too, and is right where both speak",
            plain(name)
        );
    }
    if as_json {
        print_json(&json!({ "ended": ended }))?;
        return Ok(Outcome::Good);
    }
    print(&plain(done))?;
    let Some(EndedSessions {
        sessions,
        peer_sessions,
    }) = ended
    else {
        print(&"no node is running here; it holds when one starts")?;
        return Ok(Outcome::Good);
    };
    if sessions > 0 {
        let sessions = count(u64::try_from(sessions)?, "session", "sessions");
        print(&format!("ended {sessions}"))?;
    }
    if peer_sessions > 0 {
        let sessions = count(u64::try_from(peer_sessions)?, "A2A session", "A2A sessions");
        print(&format!("refuses further requests in {sessions}"))?;
    }
    Ok(Outcome::Good)
}

async fn list(dir: &DataDir, what: Shown, as_json: bool) -> Result<Outcome> {
    let listing = book::list(dir).await?;
    match as_json {
        true => print_json(&as_value(&listing, what))?,
        false => {
            for line in as_text(&listing, what) {
                print(&plain(line))?;
            }
        }
    }
    Ok(Outcome::Good)
}

fn as_value(listing: &Listing, what: Shown) -> Value {
    let anchors = rows(listing, Book::anchors, "name");
    let pins = rows(listing, Book::pins, "did");
    match what {
        Shown::Anchors => anchors,
        Shown::Pins => pins,
        Shown::All => {
            let blocked = rows(listing, Book::blocked, "did");
            json!({"anchors": anchors, "pins": pins, "blocked": blocked})
        }
    }
}

/// The entries of one kind, each with its name and where it comes from.
fn rows<T: Serialize>(
    listing: &Listing,
    of: fn(&Book) -> &BTreeMap<String, T>,
    name: &str,
) -> Value {
    let mut rows = Vec::new();
    for (book, is_configured) in listing.books() {
        for (key, entry) in of(book) {
            let mut row = json!(entry);
            row[name] = json!(key);
            row["configured"] = json!(is_configured);
            rows.push(row);
        }
    }
    Value::Array(rows)
}

fn as_text(listing: &Listing, what: Shown) -> Vec<String> {
    let mut lines = Vec::new();
    for (book, is_configured) in listing.books() {
        let from = match is_configured {
            true => "  (configuration)",
            false => "",
        };
        if what != Shown::Pins {
            for (name, anchor) in book.anchors() {
                let key = anchor.public_key.as_ref().map(|key| {
                    let key = base64url::encode(&key.to_bytes());
                    format!("  key {key}")
                });
                let (did, level) = (&anchor.did, anchor.min_trust_level);
                let key = key.unwrap_or_default();
                lines.push(format!(
                    "anchor   {name}  {did}  from {level} on{key}{from}"
                ));
            }
        }
        if what != Shown::Anchors {
            for (did, pin) in book.pins() {
                let manifest = pin.manifest.map(|hash| format!("  manifest {hash}"));
                let keys = pin.keys.iter().map(|hash| format!("  key {hash}"));
                let shown: String = manifest.into_iter().chain(keys).collect();
                lines.push(format!("pin      {did}{shown}{from}"));
            }
        }
        if what == Shown::All {
            for (did, block) in book.blocked() {
                let line = format!("blocked  {did}  {}", block.reason);
                lines.push(format!("{}{from}", line.trim_end()));
            }
        }
    }
    if lines.is_empty() {
        lines.push("nothing was said; `frith trust --help` shows what can be".to_owned());
    }
    lines
}

//! What the operator says about other agents: where they are, whose word counts, what they must show, who is blocked.
//!
//! A [`Book`] is plain data with a form in JSON. [`Books`] is what a running node asks: the book of its configuration and the one that
//! commands write, together. Where both speak, the configuration is right; who is blocked in either is blocked.

mod form;
mod pages;

use std::collections::BTreeMap;

use a2a_identity::{Did, DidError, Peer as Speaks, TrustLevel, VerifyingKey, WebUrl};
use canonical::{Digest, Value};
use serde::{Deserialize, Serialize};

pub use pages::{Books, Pages};

/// Entries of each kind that a book takes.
pub const MAX_ENTRIES: usize = 10_000;
/// Characters of a name.
pub const MAX_NAME: usize = 64;
/// Characters of a reason.
pub const MAX_REASON: usize = 200;
/// Keys of a pin: as many as a manifest may have.
pub const MAX_KEYS: usize = 10;

/// What the operator says about other agents.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Book {
    /// By the operator's names for them.
    peers: BTreeMap<String, Peer>,
    /// By the operator's names for them.
    anchors: BTreeMap<String, TrustAnchor>,
    /// By DID in its canonical spelling, as are the blocked ones.
    pins: BTreeMap<String, Pin>,
    blocked: BTreeMap<String, Block>,
}

/// Where an agent is. A did:key has no address of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Peer {
    /// Its handshake endpoint.
    pub url: String,
    /// Who must answer there.
    #[serde(with = "form::text")]
    pub did: Did,
}

/// Someone whose endorsements count.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrustAnchor {
    /// Who.
    #[serde(with = "form::text")]
    pub did: Did,
    /// The one key to believe.
    #[serde(with = "form::key", default)]
    pub public_key: Option<VerifyingKey>,
    /// Endorsements below this do not count.
    #[serde(with = "form::level")]
    pub min_trust_level: TrustLevel,
}

/// What an agent must show, exactly. There is no override.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pin {
    /// The hash of its manifest.
    #[serde(default)]
    pub manifest: Option<Digest>,
    /// Hashes of the keys that may sign it; empty: any.
    #[serde(default)]
    pub keys: Vec<Digest>,
    /// When the manifest was signed, in seconds since 1970: its version.
    #[serde(default)]
    pub signed_at: Option<i64>,
    /// The peer that it was made for, and goes with.
    #[serde(default)]
    pub peer: Option<String>,
}

/// That an agent is not spoken to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Block {
    /// Why, in the operator's words.
    #[serde(default)]
    pub reason: String,
    /// Since when, in seconds since 1970.
    #[serde(default)]
    pub since: Option<u64>,
}

/// Why a book does not say that.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BookError {
    /// Not a name.
    #[error("`{0}` is no name: 1 to {MAX_NAME} letters, digits and any of . _ -")]
    BadName(String),
    /// Not a DID.
    #[error("`{did}` cannot be used: {why}")]
    BadDid {
        /// What should be one.
        did: String,
        /// What is wrong with it.
        why: DidError,
    },
    /// Not an address of an agent.
    #[error("`{url}` is no address of an agent, such as https://host/a2a/handshake: {why}")]
    BadUrl {
        /// The address.
        url: String,
        /// What is wrong with it.
        why: String,
    },
    /// Not a reason.
    #[error("a reason has at most {MAX_REASON} characters and no control characters")]
    BadReason,
    /// A pin that pins nothing, or too much.
    #[error("a pin has the hash of a manifest, or 1 to {MAX_KEYS} hashes of keys, or both")]
    BadPin,
    /// The name is taken.
    #[error("there is a {kind} `{name}` already; remove it first")]
    Taken {
        /// What there is.
        kind: &'static str,
        /// Its name.
        name: String,
    },
    /// Nothing has the name.
    #[error("there is no {kind} `{name}`; `{list}` shows what there is")]
    Unknown {
        /// What there is not.
        kind: &'static str,
        /// The name.
        name: String,
        /// The command that lists them.
        list: &'static str,
    },
    /// There are enough.
    #[error("there are {MAX_ENTRIES} already; remove some first")]
    Full,
    /// It is no book.
    #[error("it is not a list of peers and trust: {0}")]
    Malformed(String),
}

impl Book {
    /// Reads a book.
    ///
    /// # Errors
    /// If it is not one, or says what no command would have let it say.
    pub fn parse(bytes: &[u8]) -> Result<Self, BookError> {
        let wrong = |error: &dyn std::fmt::Display| BookError::Malformed(error.to_string());
        let mut limits = canonical::LIMITS;
        limits.values = 80 * MAX_ENTRIES;
        let tree = Value::parse_within(bytes, limits).map_err(|error| wrong(&error))?;
        let read: Self = tree.deserialize_into().map_err(|error| wrong(&error))?;
        // Said again one by one, everything is checked as it was when it was said first.
        let mut book = Self::default();
        for (name, peer) in read.peers {
            book.add_peer(&name, peer)?;
        }
        for (name, anchor) in read.anchors {
            book.add_anchor(&name, anchor)?;
        }
        for (did, pin) in read.pins {
            book.pin(&canonical_did(&did)?, pin)?;
        }
        for (did, block) in read.blocked {
            book.block(&canonical_did(&did)?, block)?;
        }
        Ok(book)
    }

    /// Adds an agent under a new name.
    ///
    /// # Errors
    /// If the name is taken or none, or the address cannot be one.
    pub fn add_peer(&mut self, name: &str, peer: Peer) -> Result<(), BookError> {
        check_name(name)?;
        check_url(&peer.url)?;
        add(&mut self.peers, "peer", name, peer)
    }

    /// Removes an agent, with the pin that was made for it. If it has another name, the pin stays with that.
    ///
    /// # Errors
    /// If there is none of that name.
    pub fn remove_peer(&mut self, name: &str) -> Result<Peer, BookError> {
        let removed = self.peers.remove(name);
        let peer = removed.ok_or_else(|| unknown("peer", name, "frith peer list"))?;
        let did = peer.did.to_string();
        let made_for_it = |pin: &Pin| pin.peer.as_deref() == Some(name);
        if let Some(pin) = self.pins.get_mut(&did)
            && made_for_it(pin)
        {
            let mut peers = self.peers.iter();
            let other = peers.find_map(|(other, it)| (it.did == peer.did).then_some(other));
            match other {
                Some(other) => pin.peer = Some(other.clone()),
                None => drop(self.pins.remove(&did)),
            }
        }
        Ok(peer)
    }

    /// Lets someone's endorsements count, under a new name.
    ///
    /// # Errors
    /// If the name is taken or none.
    pub fn add_anchor(&mut self, name: &str, anchor: TrustAnchor) -> Result<(), BookError> {
        check_name(name)?;
        add(&mut self.anchors, "trust anchor", name, anchor)
    }

    /// Lets someone's endorsements count no more.
    ///
    /// # Errors
    /// If there is none of that name.
    pub fn remove_anchor(&mut self, name: &str) -> Result<TrustAnchor, BookError> {
        let removed = self.anchors.remove(name);
        removed.ok_or_else(|| unknown("trust anchor", name, "frith trust anchors list"))
    }

    /// Says what an agent must show, in place of what was said before.
    ///
    /// # Errors
    /// If it pins nothing, or too much.
    pub fn pin(&mut self, did: &Did, pin: Pin) -> Result<(), BookError> {
        if pin.keys.len() > MAX_KEYS || (pin.manifest.is_none() && pin.keys.is_empty()) {
            return Err(BookError::BadPin);
        }
        put(&mut self.pins, did, pin)
    }

    /// Takes back what an agent must show.
    ///
    /// # Errors
    /// If nothing was said.
    pub fn unpin(&mut self, did: &Did) -> Result<(), BookError> {
        let name = did.to_string();
        let removed = self.pins.remove(&name).map(drop);
        removed.ok_or_else(|| unknown("pin of", &name, "frith trust pins list"))
    }

    /// Blocks an agent. One that is blocked stays so, with the new reason.
    ///
    /// # Errors
    /// If the reason cannot be shown in a list.
    pub fn block(&mut self, did: &Did, block: Block) -> Result<(), BookError> {
        let reason = &block.reason;
        if reason.chars().count() > MAX_REASON || reason.chars().any(char::is_control) {
            return Err(BookError::BadReason);
        }
        put(&mut self.blocked, did, block)
    }

    /// Speaks to an agent again.
    ///
    /// # Errors
    /// If it was not blocked.
    pub fn unblock(&mut self, did: &Did) -> Result<(), BookError> {
        let name = did.to_string();
        let removed = self.blocked.remove(&name).map(drop);
        removed.ok_or_else(|| unknown("blocked agent", &name, "frith trust list"))
    }

    /// The agents, by name.
    #[must_use]
    pub const fn peers(&self) -> &BTreeMap<String, Peer> {
        &self.peers
    }

    /// Those whose endorsements count, by name.
    #[must_use]
    pub const fn anchors(&self) -> &BTreeMap<String, TrustAnchor> {
        &self.anchors
    }

    /// What agents must show, by DID.
    #[must_use]
    pub const fn pins(&self) -> &BTreeMap<String, Pin> {
        &self.pins
    }

    /// Who is blocked, by DID.
    #[must_use]
    pub const fn blocked(&self) -> &BTreeMap<String, Block> {
        &self.blocked
    }
}

/// Reads a DID that an operator wrote; the base specification's spelling of a did:key will do.
///
/// # Errors
/// If it is none.
pub fn parse_did(text: &str) -> Result<Did, BookError> {
    Did::parse(text, Speaks::Baseline).map_err(|why| BookError::BadDid {
        did: text.chars().take(128).collect(),
        why,
    })
}

/// Reads a DID that a book has: in the one spelling by which it is looked up.
fn canonical_did(text: &str) -> Result<Did, BookError> {
    let did = parse_did(text)?;
    match did.to_string() == text {
        true => Ok(did),
        false => Err(BookError::Malformed(format!("{text} should be {did}"))),
    }
}

fn check_name(name: &str) -> Result<(), BookError> {
    let letters = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    match (1..=MAX_NAME).contains(&name.len()) && name.bytes().all(letters) {
        true => Ok(()),
        false => Err(BookError::BadName(name.chars().take(MAX_NAME).collect())),
    }
}

fn check_url(url: &str) -> Result<(), BookError> {
    let bad = |why: String| BookError::BadUrl {
        url: url.chars().take(256).collect(),
        why,
    };
    if url.len() > 2048 {
        return Err(bad("it is longer than 2048 characters".to_owned()));
    }
    let parsed = WebUrl::parse(url).map_err(|error| bad(error.to_string()))?;
    match parsed.path() {
        "" | "/" => Err(bad("it names no path".to_owned())),
        _ => Ok(()),
    }
}

fn unknown(kind: &'static str, name: &str, list: &'static str) -> BookError {
    BookError::Unknown {
        kind,
        name: name.to_owned(),
        list,
    }
}

fn add<T>(
    entries: &mut BTreeMap<String, T>,
    kind: &'static str,
    name: &str,
    entry: T,
) -> Result<(), BookError> {
    if entries.contains_key(name) {
        let name = name.to_owned();
        return Err(BookError::Taken { kind, name });
    }
    if entries.len() >= MAX_ENTRIES {
        return Err(BookError::Full);
    }
    entries.insert(name.to_owned(), entry);
    Ok(())
}

fn put<T>(entries: &mut BTreeMap<String, T>, did: &Did, entry: T) -> Result<(), BookError> {
    let did = did.to_string();
    if entries.len() >= MAX_ENTRIES && !entries.contains_key(&did) {
        return Err(BookError::Full);
    }
    entries.insert(did, entry);
    Ok(())
}

#[cfg(test)]
mod tests;

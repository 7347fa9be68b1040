//! Definitions of foreign tools, which must not change unseen.
//!
//! A foreign tool that was harmless when it was added can say something else tomorrow. Whoever brings
//! such tools (a mounted host, a component, a folder of scripts) shows them here before anybody sees
//! them: what a tool says is pinned by hash at first sight, which is when the operator has just added
//! its source; a changed one is in quarantine until the operator approves it. So is one that a source
//! with names of its own choice adds later, and one whose name could be taken for another's.

mod known;
mod names;
mod owned;

use std::sync::{Arc, Mutex as SyncMutex};
use std::time::{SystemTime, UNIX_EPOCH};

use a2e_session::Failure;
use a2e_wire::{ErrorCode, Namespace, Object};
use canonical::Digest;
use serde_json::json;
use store::{Error, Hash, PinKind, Pins, SessionId, Snapshots, Store, UnixMillis};
use tokio::sync::Mutex;

use known::Known;
use names::Names;

/// What foreign tools said when they were approved, and what they say now. Clones are the same.
#[derive(Debug, Clone)]
pub struct Definitions {
    pins: Arc<dyn Pins>,
    /// What the hashes stand for, so that an operator can see what has changed.
    texts: Arc<dyn Snapshots>,
    /// What is pinned, as far as somebody asked.
    known: Arc<Mutex<Known>>,
    /// The names of the node's own tools.
    own: Arc<SyncMutex<Names>>,
}

/// A tool as its source shows it.
#[derive(Debug, Clone, Copy)]
pub struct Shown<'a> {
    /// Where it comes from: `remote_plugin:NAME`, `component:NAME`.
    pub source: &'a str,
    /// Its name.
    pub name: &'a str,
    /// All that it says of itself, and the hash of what runs where that can change too, as JSON.
    pub text: &'a str,
}

/// How a tool compares with what was approved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It is what was approved, or new.
    Approved,
    /// It is something else.
    Changed {
        /// What was approved.
        approved: Digest,
    },
    /// It is new, and came later than the others of its source, or could be taken for another tool.
    New,
    /// It is new, and its source has [as many](MAX_PINNED) as it may, or [its agent](MAX_OWN_PINNED).
    TooMany,
}

impl Standing {
    /// What was approved instead, if anything was.
    #[must_use]
    pub const fn approved(self) -> Option<Digest> {
        match self {
            Self::Changed { approved } => Some(approved),
            Self::Approved | Self::New | Self::TooMany => None,
        }
    }
}

/// Who has added a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    Operator,
    Agent,
}

/// A tool that waits for the operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changed {
    /// Names it here: its source and its name.
    pub pin: String,
    /// What was approved.
    pub approved: Option<Digest>,
    /// What it says now.
    pub offered: Digest,
    /// If it is new, the tool that it could be taken for: its name, and where that comes from.
    pub looks_like: Option<String>,
}

/// How many tools of one source are pinned. What is pinned stays so, or a source could change a tool
/// by taking it away for a while.
pub const MAX_PINNED: usize = 10_000;

/// How many tools are pinned of all sources that one agent has added. A store has room for many agents,
/// and none takes that of others.
pub const MAX_OWN_PINNED: usize = 2_000;

/// Larger definitions are pinned, but what has changed in them cannot be shown.
pub const MAX_TEXT: usize = 256 * 1024;

impl Definitions {
    /// Keeps what was approved in a store.
    ///
    /// # Errors
    /// Never with the stores there are.
    pub fn new(store: &Store) -> Result<Self, Error> {
        Ok(Self {
            pins: store.pins(&PinKind::TOOL),
            texts: store.node().snapshots(&SessionId::new("definitions")?),
            known: Arc::default(),
            own: Arc::default(),
        })
    }

    /// Compares a tool that the operator has named with what was approved; a new one is.
    ///
    /// # Errors
    /// If the store fails; then the tool may not be called.
    pub async fn compare(&self, shown: Shown<'_>) -> Result<Standing, Error> {
        let known = &mut *self.known.lock().await;
        self.compare_one(known, shown, true, Owner::Operator).await
    }

    async fn compare_one(
        &self,
        all: &mut Known,
        shown: Shown<'_>,
        may_be_new: bool,
        owner: Owner,
    ) -> Result<Standing, Error> {
        let (pin, now) = (pin(shown.source, shown.name), now());
        let offered = Digest::of(shown.text.as_bytes());
        let hash = Hash(*offered.as_bytes());
        let known = self.pins.get(&pin).await?;
        let waiting = known.and_then(|known| known.offered);
        let Some(pinned) = known.and_then(|known| known.pinned) else {
            // What agents add was counted for its agent, and its names are nobody else's.
            let is_operators = owner == Owner::Operator;
            if is_operators && known.is_none() && !self.has_room(all, shown.source).await? {
                tracing::warn!(pin, "a tool is not served: its source has {MAX_PINNED}");
                return Ok(Standing::TooMany);
            }
            if may_be_new {
                self.pins.pin(now, &pin, hash).await?;
                self.keep_text(now, &pin, offered, shown.text).await;
                if let Some(names) = all.names.as_mut().filter(|_| is_operators) {
                    names.add(shown.source, shown.name);
                }
                return Ok(Standing::Approved);
            }
            if waiting != Some(hash) {
                tracing::warn!(pin, "a new tool waits to be approved; it is not served");
                self.wait(now, &pin, shown.text, waiting).await?;
            }
            return Ok(Standing::New);
        };
        if pinned == hash {
            if let Some(waiting) = waiting {
                // It is again what it was: nobody need look at the other.
                self.pins.pin(now, &pin, hash).await?;
                self.forget_text(&pin, waiting).await;
            }
            return Ok(Standing::Approved);
        }
        if waiting != Some(hash) {
            tracing::warn!(
                pin,
                "a tool has changed since it was approved; it is not served"
            );
            self.wait(now, &pin, shown.text, waiting).await?;
        }
        let approved = Digest::from(pinned.0);
        Ok(Standing::Changed { approved })
    }

    /// Has the operator asked about what a tool says now, in place of what waited before.
    async fn wait(
        &self,
        now: UnixMillis,
        pin: &str,
        text: &str,
        before: Option<Hash>,
    ) -> Result<(), Error> {
        let offered = Digest::of(text.as_bytes());
        let hash = Hash(*offered.as_bytes());
        self.pins.compare(now, pin, hash).await?;
        self.keep_text(now, pin, offered, text).await;
        if let Some(before) = before {
            self.forget_text(pin, before).await;
        }
        Ok(())
    }

    /// Whether this is what was approved.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn is_approved(&self, pin: &str, offered: Digest) -> Result<bool, Error> {
        let known = self.pins.get(pin).await?;
        let pinned = known.and_then(|known| known.pinned);
        Ok(pinned == Some(Hash(*offered.as_bytes())))
    }

    /// Approves what a tool says now, if that is what the operator has seen; says whether it was.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn approve(&self, pin: &str, seen: Digest) -> Result<bool, Error> {
        let seen = Hash(*seen.as_bytes());
        let known = self.pins.get(pin).await?;
        let Some(known) = known.filter(|known| known.offered == Some(seen)) else {
            return Ok(false);
        };
        self.pins.pin(now(), pin, seen).await?;
        if let Some(pinned) = known.pinned {
            self.forget_text(pin, pinned).await;
        }
        // Read again, with this one among them.
        self.known.lock().await.names = None;
        Ok(true)
    }

    /// What a source's tools said when they were approved, by name, as far as it was kept.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn approved(&self, source: &str) -> Result<Vec<(String, String)>, Error> {
        let prefix = pin(source, "");
        let mut approved = Vec::new();
        for (pin, state) in self.pins.list().await? {
            let (Some(name), Some(pinned)) = (pin.strip_prefix(&prefix), state.pinned) else {
                continue;
            };
            if let Some(text) = self.text(&pin, Digest::from(pinned.0)).await? {
                approved.push((name.to_owned(), text));
            }
        }
        Ok(approved)
    }

    /// The tools that wait to be approved, by name.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn changed(&self) -> Result<Vec<Changed>, Error> {
        let known = &mut *self.known.lock().await;
        let mut changed = Vec::new();
        for (pin, state) in self.pins.list().await? {
            let Some(offered) = state.offered else {
                continue;
            };
            let looks_like = match (state.pinned, pin.split_once('/')) {
                (None, Some((source, name))) => self.looks_like(known, source, name).await?,
                _ => None,
            };
            changed.push(Changed {
                pin,
                approved: state.pinned.map(|hash| Digest::from(hash.0)),
                offered: Digest::from(offered.0),
                looks_like,
            });
        }
        Ok(changed)
    }

    /// What a hash stands for, if that is known.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn text(&self, pin: &str, hash: Digest) -> Result<Option<String>, Error> {
        let text = self.texts.get(now(), &text_name(pin, hash)).await?;
        Ok(text.map(|text| String::from_utf8_lossy(&text).into_owned()))
    }

    /// Whether one tool more of a source may be pinned; then it counts.
    async fn has_room(&self, known: &mut Known, source: &str) -> Result<bool, Error> {
        let counts = &mut known.counts;
        let count = match counts.get(source) {
            Some(count) => *count,
            None => {
                let prefix = pin(source, "");
                let all = self.pins.list().await?;
                let own = all.iter().filter(|(name, _)| name.starts_with(&prefix));
                own.count()
            }
        };
        let has_room = count < MAX_PINNED;
        let count = count.saturating_add(usize::from(has_room));
        counts.insert(source.to_owned(), count);
        Ok(has_room)
    }

    /// The text is for people: a tool is as well pinned without it.
    async fn keep_text(&self, now: UnixMillis, pin: &str, hash: Digest, text: &str) {
        if text.len() > MAX_TEXT {
            return;
        }
        let name = text_name(pin, hash);
        let kept = self
            .texts
            .put(now, &name, text.as_bytes().to_vec(), UnixMillis::NEVER);
        if let Err(error) = kept.await {
            tracing::warn!(%error, pin, "what a tool says cannot be kept");
        }
    }

    async fn forget_text(&self, pin: &str, hash: Hash) {
        let forgotten = self.texts.remove(&text_name(pin, Digest::from(hash.0)));
        if let Err(error) = forgotten.await {
            tracing::warn!(%error, pin, "what a tool said cannot be forgotten");
        }
    }
}

/// What the names of sources begin with that agents have added: `@` and the agent, behind their kind.
pub const OWNED: &str = "mcp:@";

/// What a tool of a source is approved under.
#[must_use]
pub fn pin(source: &str, name: &str) -> String {
    format!("{source}/{name}")
}

/// What an agent is told that calls a tool which is in quarantine.
#[must_use]
pub fn quarantined(name: &str, pin: &str) -> Failure {
    let text = format!(
        "`{name}` is not what the operator has approved; `frith tools pending` shows the operator \
         what it is now, and how to approve that"
    );
    let detail = json!({"reason": "quarantined", "pin": pin});
    Failure {
        detail: Object::from_serialize(&detail).unwrap_or_default(),
        ..Failure::new(ErrorCode::ToolDenied, Namespace::Tool, text)
    }
}

fn text_name(pin: &str, hash: Digest) -> String {
    format!("{pin} {hash}")
}

fn now() -> UnixMillis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let millis = since.unwrap_or_default().as_millis();
    UnixMillis(i64::try_from(millis).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests;

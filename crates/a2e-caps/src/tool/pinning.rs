//! Definitions that must not change unseen.
//!
//! A foreign tool that was harmless when it was added can say something else tomorrow. Its
//! definition is pinned by hash when it is first seen, which is when the operator has just added its
//! source; a changed one is in quarantine until the operator approves it.

use std::fmt;
use std::sync::Arc;

use canonical::Digest;
use store::{Compared, Error, Hash, Pins, UnixMillis};

use super::{Source, Tool};

/// Compares definitions with what was approved.
#[derive(Debug, Clone)]
pub struct Pinning {
    pins: Arc<dyn Pins>,
}

/// What may be called, and what may not yet.
#[derive(Clone, Default)]
pub struct Admitted {
    /// Tools that are as they were approved.
    pub tools: Vec<Arc<dyn Tool>>,
    /// Tools that are not.
    pub quarantined: Vec<Quarantined>,
}

/// A tool whose definition has changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quarantined {
    /// Its name.
    pub name: String,
    /// What it is approved under; see [`Pinning::approve`].
    pub pin: String,
    /// What it says now.
    pub offered: Digest,
    /// What was approved.
    pub approved: Digest,
}

impl Pinning {
    /// Compares with these pins, which are those of `PinKind::TOOL`.
    #[must_use]
    pub const fn new(pins: Arc<dyn Pins>) -> Self {
        Self { pins }
    }

    /// Parts the tools of a source into those that are as approved, or new, and those that have
    /// changed.
    ///
    /// # Errors
    /// If the store fails; then nothing may be called.
    pub async fn admit(
        &self,
        now: UnixMillis,
        source: &Source,
        tools: Vec<Arc<dyn Tool>>,
    ) -> Result<Admitted, Error> {
        let mut admitted = Admitted::default();
        for tool in tools {
            let name = tool.definition().name().to_owned();
            let pin = format!("{source}/{name}");
            let offered = tool.definition().hash();
            let hash = Hash(*offered.as_bytes());
            match self.pins.compare(now, &pin, hash).await? {
                Compared::Same => admitted.tools.push(tool),
                Compared::Unknown => {
                    self.pins.pin(now, &pin, hash).await?;
                    admitted.tools.push(tool);
                }
                Compared::Changed { pinned } => admitted.quarantined.push(Quarantined {
                    name,
                    pin,
                    offered,
                    approved: Digest::from(pinned.0),
                }),
            }
        }
        Ok(admitted)
    }

    /// Approves what a tool says now, if that is what the operator has seen; says whether it was.
    /// Its source is then to be admitted again.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn approve(&self, now: UnixMillis, pin: &str, seen: Digest) -> Result<bool, Error> {
        let seen = Hash(*seen.as_bytes());
        let known = self.pins.get(pin).await?;
        let is_it = known.is_some_and(|known| known.offered == Some(seen));
        if is_it {
            self.pins.pin(now, pin, seen).await?;
        }
        Ok(is_it)
    }

    /// What waits to be approved: the pin and what is offered for it.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn waiting(&self) -> Result<Vec<(String, Digest)>, Error> {
        let all = self.pins.list().await?.into_iter();
        let waiting = all.filter_map(|(name, pin)| Some((name, Digest::from(pin.offered?.0))));
        Ok(waiting.collect())
    }
}

impl fmt::Debug for Admitted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self
            .tools
            .iter()
            .map(|tool| tool.definition().name())
            .collect();
        f.debug_struct("Admitted")
            .field("tools", &names)
            .field("quarantined", &self.quarantined)
            .finish()
    }
}

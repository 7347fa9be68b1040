//! Sources that name their tools themselves: what they showed at first sight, and what came later.

use std::collections::{HashMap, HashSet};
use std::sync::PoisonError;

use canonical::Digest;
use store::{Error, Hash};

use super::names::{self, Names};
use super::{Definitions, OWNED, Owner, Shown, Standing, now, pin};

/// What is known of all sources.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// How many tools each has; of an agent, by what the names of its sources begin with, all of them.
    pub(super) counts: HashMap<String, usize>,
    /// Those that have shown all they have.
    seen: HashSet<String>,
    /// Those of agents that were shown and not taken away since.
    pub(super) held: HashSet<String>,
    /// The names that were approved; read when the first is asked for.
    pub(super) names: Option<Names>,
}

impl Definitions {
    /// The node itself has tools of these names, which no foreign one is to be taken for.
    pub fn reserve<'n>(&self, source: &str, names: impl IntoIterator<Item = &'n str>) {
        let mut own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        for name in names {
            own.add(source, name);
        }
    }

    /// Whether a source has shown all its tools before.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn was_seen(&self, source: &str) -> Result<bool, Error> {
        let known = &mut *self.known.lock().await;
        self.was_seen_by(known, source).await
    }

    async fn was_seen_by(&self, known: &mut Known, source: &str) -> Result<bool, Error> {
        if known.seen.contains(source) {
            return Ok(true);
        }
        let was_seen = self.pins.get(&first_sight(source)).await?.is_some();
        if was_seen {
            known.seen.insert(source.to_owned());
        }
        Ok(was_seen)
    }

    /// Compares all tools of a source that gives them names of its own choice. At first sight, new
    /// ones are approved whose names nobody takes for others; later, none is.
    ///
    /// # Errors
    /// If the store fails; then none of them may be called.
    pub async fn compare_all(&self, all: &[Shown<'_>]) -> Result<Vec<Standing>, Error> {
        let Some(Shown { source, .. }) = all.first() else {
            return Ok(Vec::new());
        };
        if self.are_unchanged(all).await? {
            return Ok(vec![Standing::Approved; all.len()]);
        }
        // Held to the end: first sight comes once.
        let mut known = self.known.lock().await;
        let is_first = !self.was_seen_by(&mut known, source).await?;
        let mut standings = Vec::with_capacity(all.len());
        for shown in all {
            let may_be_new = match is_first {
                true => !self.is_doubtful(&mut known, *shown).await?,
                false => false,
            };
            standings.push(
                self.compare_one(&mut known, *shown, may_be_new, Owner::Operator)
                    .await?,
            );
        }
        if is_first {
            self.mark_seen(&mut known, source).await?;
        }
        Ok(standings)
    }

    /// Whether all are what was approved, which is most often so and needs nobody to wait.
    pub(super) async fn are_unchanged(&self, all: &[Shown<'_>]) -> Result<bool, Error> {
        for shown in all {
            let known = self.pins.get(&pin(shown.source, shown.name)).await?;
            let hash = Hash(*Digest::of(shown.text.as_bytes()).as_bytes());
            if !known.is_some_and(|it| it.pinned == Some(hash) && it.offered.is_none()) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// A source has shown all it has, even if that is nothing.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn see(&self, source: &str) -> Result<(), Error> {
        let known = &mut *self.known.lock().await;
        match self.was_seen_by(known, source).await? {
            true => Ok(()),
            false => self.mark_seen(known, source).await,
        }
    }

    async fn mark_seen(&self, known: &mut Known, source: &str) -> Result<(), Error> {
        let nothing = Hash([0; 32]);
        self.pins.pin(now(), &first_sight(source), nothing).await?;
        known.seen.insert(source.to_owned());
        Ok(())
    }

    /// Whether a name could be taken for another, or nobody can tell.
    async fn is_doubtful(&self, known: &mut Known, shown: Shown<'_>) -> Result<bool, Error> {
        let Shown { source, name, .. } = shown;
        Ok(!names::is_plain(name) || self.looks_like(known, source, name).await?.is_some())
    }

    /// The tool that one of this name could be taken for.
    pub(super) async fn looks_like(
        &self,
        known: &mut Known,
        source: &str,
        name: &str,
    ) -> Result<Option<String>, Error> {
        let shown = |known: &names::Known| format!("{} ({})", known.name, known.source);
        let own = {
            let own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
            own.like(source, name).map(shown)
        };
        if own.is_some() {
            return Ok(own);
        }
        if known.names.is_none() {
            let mut names = Names::default();
            for (pin, state) in self.pins.list().await? {
                // An agent's own tools are visible to that agent alone.
                if pin.starts_with(OWNED) {
                    continue;
                }
                if let (Some(_), Some((source, name))) = (state.pinned, pin.split_once('/')) {
                    names.add(source, name);
                }
            }
            known.names = Some(names);
        }
        let names = known.names.as_ref();
        Ok(names.and_then(|names| names.like(source, name)).map(shown))
    }
}

/// What is pinned when a source has shown all it has. No tool has such a name.
fn first_sight(source: &str) -> String {
    format!("{source} first sight")
}

//! Sources that agents add themselves: each agent has a share of what can be pinned.

use std::collections::HashSet;

use store::{Error, Pin};

use super::{Definitions, MAX_OWN_PINNED, Owner, Shown, Standing, pin};

impl Definitions {
    /// Compares all tools of a source that an agent has added; `owner` is what the names of all its
    /// sources begin with, up to a `/`. New ones are approved as far as there is room in its share: what
    /// of it is oldest goes first, but nothing of sources that this process was shown and that were not
    /// [released](Self::release), or one of them could change by having another make it forgotten.
    ///
    /// # Errors
    /// If the store fails; then none of them may be called.
    pub async fn compare_owned(
        &self,
        owner: &str,
        all: &[Shown<'_>],
    ) -> Result<Vec<Standing>, Error> {
        let Some(Shown { source, .. }) = all.first() else {
            return Ok(Vec::new());
        };
        self.known.lock().await.held.insert((*source).to_owned());
        if self.are_unchanged(all).await? {
            return Ok(vec![Standing::Approved; all.len()]);
        }
        self.make_room(owner, all).await?;
        let mut standings = Vec::with_capacity(all.len());
        for shown in all {
            // Others have their turn in between: an agent decides how many these are.
            let known = &mut *self.known.lock().await;
            let pin = pin(shown.source, shown.name);
            let is_new = self.pins.get(&pin).await?.is_none();
            let count = known.counts.entry(owner.to_owned()).or_default();
            if is_new && *count >= MAX_OWN_PINNED {
                tracing::warn!(
                    pin,
                    "a tool is not served: its agent has {MAX_OWN_PINNED} of its own; they make room \
                     when it unregisters a server"
                );
                standings.push(Standing::TooMany);
                continue;
            }
            *count = count.saturating_add(usize::from(is_new));
            let standing = self.compare_one(known, *shown, true, Owner::Agent);
            standings.push(standing.await?);
        }
        Ok(standings)
    }

    /// The agent has taken a source away: what was pinned of it stays as long as there is room.
    pub async fn release(&self, source: &str) {
        self.known.lock().await.held.remove(source);
    }

    /// Counts what an owner has, and forgets as much of it as these need, as far as it may be.
    async fn make_room(&self, owner: &str, all: &[Shown<'_>]) -> Result<(), Error> {
        let known = &mut *self.known.lock().await;
        let mut own = self.pins.list().await?;
        own.retain(|(name, _)| name.starts_with(owner));
        let names: HashSet<&str> = own.iter().map(|(name, _)| &**name).collect();
        let is_new = |shown: &&Shown<'_>| !names.contains(&*pin(shown.source, shown.name));
        let (mut count, new) = (own.len(), all.iter().filter(is_new).count());
        let missing = count.saturating_add(new).saturating_sub(MAX_OWN_PINNED);
        own.retain(|(name, _)| !known.held.contains(source(owner, name)));
        own.sort_by_key(|(_, state)| state.at);
        for (name, state) in own.iter().take(missing) {
            self.forget(name, *state).await?;
            known.names = None;
            count = count.saturating_sub(1);
        }
        known.counts.insert(owner.to_owned(), count);
        Ok(())
    }

    async fn forget(&self, pin: &str, state: Pin) -> Result<(), Error> {
        self.pins.remove(pin).await?;
        for hash in [state.pinned, state.offered].into_iter().flatten() {
            self.forget_text(pin, hash).await;
        }
        Ok(())
    }
}

/// The source of a pin of an owner's. The name of a tool may have a `/` in it, that of a source none.
fn source<'p>(owner: &str, pin: &'p str) -> &'p str {
    let rest = pin.get(owner.len()..).unwrap_or_default();
    let end = rest.find('/').unwrap_or(rest.len());
    pin.get(..owner.len().saturating_add(end)).unwrap_or(pin)
}

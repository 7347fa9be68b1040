//! What the node remembers of other agents beyond a restart: the newest manifest that it accepted of
//! each, when each last spoke the profile, and the numbers of repositories.
//!
//! Forgetting an agent lets an older manifest of it count again, and the keys that it gave up. So a
//! flood of free identities must not make the node forget others: see [`base::Table`] for which entry
//! gives way. Entries that were read from the store count for the agent alone, since where it came
//! from is not stored; one from which only few others come gives way last.

use std::collections::BTreeMap;
use std::time::Duration;

use a2a_identity::{Did, GithubIds, Seen};
use a2a_session::{Failure, Holder};
use a2a_wire::{Digest, ErrorCode, Reason, UnixSeconds};
use base::{Class, Limits, Table};
use parking_lot::Mutex;
use store::{Advanced, Hash, Pin, PinKind, Store, UnixMillis};

/// How much is remembered of agents, by default. The reserve is for agents that are known, or have been
/// remembered for long; it is all that these have.
pub const LIMITS: Limits = Limits {
    total: 50_000,
    per_holder: 1000,
    reserved: 25_000,
};

/// For how long an agent must be remembered already to count as known when it comes again.
const KNOWN_AFTER: Duration = Duration::from_secs(24 * 3600);
/// How old the stored time may be at which an agent last spoke the profile, so that not every
/// handshake writes.
const PROFILE_REWRITTEN: Duration = Duration::from_secs(24 * 3600);

const KINDS: [PinKind; 3] = [PinKind::MANIFEST, PinKind::PROFILE, PinKind::REPOSITORY];

/// What the node remembers of other agents.
#[derive(Debug)]
pub(crate) struct PeerHistory {
    agents: Mutex<Agents>,
    store: Store,
}

/// The agents. New ones have a table of their own, so that neither they nor those that have come for
/// long push the others out.
#[derive(Debug)]
struct Agents {
    new: Table<Holder, String, Entry>,
    /// Known agents, and others that have been remembered for long, which give way to the former.
    old: Table<Holder, String, Entry>,
}

/// Where an agent is remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    New,
    /// As one of this class.
    Old(Class),
}

/// What is remembered of one agent.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Entry {
    /// When it was first seen.
    since: UnixMillis,
    manifest: Option<Seen>,
    profile: Option<UnixMillis>,
    repository: Option<GithubIds>,
}

impl Entry {
    const fn new(since: UnixMillis) -> Self {
        Self {
            since,
            manifest: None,
            profile: None,
            repository: None,
        }
    }

    /// Reads what one pin of an agent says.
    fn add(&mut self, kind: &PinKind, pin: &Pin) {
        self.since = self.since.min(pin.since);
        let Some(Hash(bytes)) = pin.pinned else {
            return;
        };
        if *kind == PinKind::MANIFEST {
            self.manifest = Some(Seen {
                hash: Digest::from(bytes),
                timestamp: UnixSeconds(pin.version),
            });
        } else if *kind == PinKind::PROFILE {
            self.profile = Some(pin.at);
        } else {
            self.repository = Some(ids_of(bytes));
        }
    }

    /// Sets the manifest, unless a newer one was accepted at the same time.
    fn accept(&mut self, manifest: Seen) {
        let is_older = |known: Seen| known.timestamp > manifest.timestamp;
        if !self.manifest.is_some_and(is_older) {
            self.manifest = Some(manifest);
        }
    }

    /// Where an agent of a class is remembered that comes now.
    fn place(&self, now: UnixMillis, class: Class) -> Place {
        let is_old = self.since < now.minus(KNOWN_AFTER);
        match (class, is_old) {
            (Class::Stranger, false) => Place::New,
            (Class::Stranger, true) | (Class::Known, _) => Place::Old(class),
        }
    }
}

impl Agents {
    const fn new(limits: Limits) -> Self {
        let Limits {
            total,
            per_holder,
            reserved,
        } = limits;
        Self {
            new: Table::new(Limits {
                total: total.saturating_sub(reserved),
                per_holder,
                reserved: 0,
            }),
            old: Table::new(Limits {
                total: reserved,
                per_holder,
                reserved: reserved / 2,
            }),
        }
    }

    fn get(&self, name: &String) -> Option<&Entry> {
        self.old.get(name).or_else(|| self.new.get(name))
    }

    fn get_mut(&mut self, name: &String) -> Option<&mut Entry> {
        match self.old.get_mut(name) {
            Some(entry) => Some(entry),
            None => self.new.get_mut(name),
        }
    }

    fn remove(&mut self, name: &String) -> Option<Entry> {
        self.old.remove(name).or_else(|| self.new.remove(name))
    }

    /// Adds an agent. Returns the one that is forgotten for it: another, or this one if all others are
    /// those of known agents.
    fn insert(
        &mut self,
        holder: Holder,
        place: Place,
        name: &str,
        entry: Entry,
    ) -> Option<(String, Entry)> {
        let (table, class) = match place {
            Place::New => (&mut self.new, Class::Stranger),
            Place::Old(class) => (&mut self.old, class),
        };
        match table.insert(holder, class, name.to_owned(), entry) {
            Ok(gone) => gone,
            Err(_) => Some((name.to_owned(), entry)),
        }
    }
}

impl PeerHistory {
    /// Reads what is stored. `is_known` says whether the operator knows an agent.
    ///
    /// # Errors
    /// If the store fails.
    pub(crate) async fn open(
        store: &Store,
        limits: Limits,
        now: UnixMillis,
        is_known: impl Fn(&str) -> bool,
    ) -> Result<Self, store::Error> {
        let mut stored: BTreeMap<String, Entry> = BTreeMap::new();
        for kind in KINDS {
            for (name, pin) in store.pins(&kind).list().await? {
                let entry = stored.entry(name).or_insert_with(|| Entry::new(pin.since));
                entry.add(&kind, &pin);
            }
        }
        let mut by_age: Vec<_> = stored.into_iter().collect();
        by_age.sort_by_key(|(_, entry)| entry.since);
        let this = Self {
            agents: Mutex::new(Agents::new(limits)),
            store: store.clone(),
        };
        for (name, entry) in by_age {
            let class = match is_known(&name) {
                true => Class::Known,
                false => Class::Stranger,
            };
            let holder = Holder::Agent(Digest::of(name.as_bytes()));
            let place = entry.place(now, class);
            let gone = this.agents.lock().insert(holder, place, &name, entry);
            this.delete(gone).await?;
        }
        Ok(this)
    }

    /// The newest manifest that was accepted of an agent.
    pub(crate) fn manifest(&self, did: &Did) -> Option<Seen> {
        self.get(did)?.manifest
    }

    /// When an agent last spoke the profile.
    pub(crate) fn spoke_profile(&self, did: &Did) -> Option<UnixMillis> {
        self.get(did)?.profile
    }

    /// The numbers under which a repository and its owner were first seen.
    pub(crate) fn repository(&self, did: &Did) -> Option<GithubIds> {
        self.get(did)?.repository
    }

    /// Remembers that this manifest of an agent was accepted.
    ///
    /// # Errors
    /// If it is older than one that was accepted meanwhile, or nothing can be written.
    pub(crate) async fn accept_manifest(
        &self,
        now: UnixMillis,
        did: &Did,
        holder: Holder,
        manifest: Seen,
    ) -> Result<(), Failure> {
        if self.manifest(did) != Some(manifest) {
            self.advance(now, &did.to_string(), manifest).await?;
        }
        let change = |entry: &mut Entry| entry.accept(manifest);
        let updated = self.update(now, did, (holder, holder.class()), change);
        updated.await.map_err(|error| cannot_write(&error))
    }

    /// Remembers another manifest of an agent of which one was accepted before.
    ///
    /// # Errors
    /// As [`PeerHistory::accept_manifest`].
    pub(crate) async fn renew_manifest(
        &self,
        now: UnixMillis,
        did: &Did,
        manifest: Seen,
    ) -> Result<(), Failure> {
        let name = did.to_string();
        if self.manifest(did).is_none_or(|known| known == manifest) {
            return Ok(());
        }
        self.advance(now, &name, manifest).await?;
        if let Some(entry) = self.agents.lock().get_mut(&name) {
            entry.accept(manifest);
        }
        Ok(())
    }

    /// Remembers that an agent spoke the profile.
    ///
    /// # Errors
    /// If nothing can be written.
    pub(crate) async fn speaks_profile(
        &self,
        now: UnixMillis,
        did: &Did,
        holder: Holder,
        manifest: Digest,
    ) -> Result<(), Failure> {
        let is_fresh = |at: UnixMillis| at > now.minus(PROFILE_REWRITTEN);
        if self.spoke_profile(did).is_some_and(is_fresh) {
            return Ok(());
        }
        let hash = Hash(*manifest.as_bytes());
        let pins = self.store.pins(&PinKind::PROFILE);
        let written = pins.pin(now, &did.to_string(), hash).await;
        written.map_err(|error| cannot_write(&error))?;
        let change = |entry: &mut Entry| entry.profile = Some(now);
        let updated = self.update(now, did, (holder, holder.class()), change);
        updated.await.map_err(|error| cannot_write(&error))
    }

    /// Remembers the numbers of a repository that was first seen now.
    ///
    /// # Errors
    /// If nothing can be written.
    pub(crate) async fn remember_repository(
        &self,
        now: UnixMillis,
        did: &Did,
        (holder, class): (Holder, Class),
        ids: GithubIds,
    ) -> Result<(), store::Error> {
        let pins = self.store.pins(&PinKind::REPOSITORY);
        pins.pin(now, &did.to_string(), hash_of(ids)).await?;
        let change = |entry: &mut Entry| entry.repository = Some(ids);
        self.update(now, did, (holder, class), change).await
    }

    /// Forgets the numbers of a repository.
    ///
    /// # Errors
    /// If nothing can be written.
    pub(crate) async fn forget_repository(&self, did: &Did) -> Result<(), store::Error> {
        let name = did.to_string();
        self.store.pins(&PinKind::REPOSITORY).remove(&name).await?;
        if let Some(entry) = self.agents.lock().get_mut(&name) {
            entry.repository = None;
        }
        Ok(())
    }

    fn get(&self, did: &Did) -> Option<Entry> {
        self.agents.lock().get(&did.to_string()).copied()
    }

    /// Writes down that a manifest was accepted.
    async fn advance(&self, now: UnixMillis, name: &str, manifest: Seen) -> Result<(), Failure> {
        let pins = self.store.pins(&PinKind::MANIFEST);
        let hash = Hash(*manifest.hash.as_bytes());
        let advanced = pins.advance(now, name, hash, manifest.timestamp.0).await;
        match advanced.map_err(|error| cannot_write(&error))? {
            Advanced::Pinned | Advanced::Same => Ok(()),
            Advanced::Rollback { .. } => {
                let cause = "a newer manifest was accepted meanwhile";
                let failure = Failure::new(ErrorCode::InvalidManifest, cause);
                Err(failure.because(Reason::ManifestRollback))
            }
        }
    }

    /// Changes the entry of an agent that comes now, and forgets another for it if the table is full.
    async fn update(
        &self,
        now: UnixMillis,
        did: &Did,
        (holder, class): (Holder, Class),
        change: impl FnOnce(&mut Entry),
    ) -> Result<(), store::Error> {
        let name = did.to_string();
        let gone = {
            let mut agents = self.agents.lock();
            let mut entry = agents.remove(&name).unwrap_or_else(|| Entry::new(now));
            change(&mut entry);
            agents.insert(holder, entry.place(now, class), &name, entry)
        };
        self.delete(gone).await
    }

    /// Deletes what is stored of a forgotten agent.
    async fn delete(&self, gone: Option<(String, Entry)>) -> Result<(), store::Error> {
        if let Some((name, _)) = gone {
            for kind in KINDS {
                self.store.pins(&kind).remove(&name).await?;
            }
        }
        Ok(())
    }
}

fn cannot_write(error: &store::Error) -> Failure {
    Failure::unavailable(format!(
        "what is known of the agent cannot be kept: {error}"
    ))
}

/// Numbers as the 32 bytes that a pin has.
fn hash_of(ids: GithubIds) -> Hash {
    let mut bytes = [0; 32];
    let numbers = ids.repository.to_be_bytes().into_iter();
    let numbers = numbers.chain(ids.owner.to_be_bytes());
    bytes
        .iter_mut()
        .zip(numbers)
        .for_each(|(to, from)| *to = from);
    Hash(bytes)
}

fn ids_of(bytes: [u8; 32]) -> GithubIds {
    let number = |from: usize| {
        let part = bytes.iter().skip(from).take(8);
        part.fold(0_i64, |number, byte| (number << 8) | i64::from(*byte))
    };
    GithubIds {
        repository: number(0),
        owner: number(8),
    }
}

#[cfg(test)]
mod tests;

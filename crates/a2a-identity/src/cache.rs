//! What was learnt of DIDs, for as long as it holds (profile §4, cache).

use std::collections::BTreeMap;
use std::time::Duration;

use a2a_wire::UnixSeconds;

use crate::resolve::ResolveError;
use crate::{Did, VerifiedManifest};

/// Seconds that what was learnt of a did:web, and any manifest, may be kept.
const WEB_TTL: i64 = 3600;
/// The same for did:github.
const GITHUB_TTL: i64 = 6 * 3600;
/// The same for a manifest whose URL an operator gave.
const OPERATOR_TTL: i64 = 24 * 3600;
/// How long a failure is believed.
const NEGATIVE: Duration = Duration::from_secs(60);
/// How far apart two refreshes of one DID are at least.
const REFRESH: Duration = Duration::from_secs(60);

/// Values by DID: bounded, the least recently used go first. Times are those of a monotonic clock,
/// since the start of the program.
#[derive(Debug)]
pub struct Cache<T> {
    capacity: usize,
    entries: BTreeMap<String, Entry<T>>,
    /// The DIDs by when they were used last.
    order: BTreeMap<u64, String>,
    uses: u64,
}

#[derive(Debug)]
struct Entry<T> {
    known: Option<(T, Duration)>,
    failed: Option<(ResolveError, Duration)>,
    /// Someone is fetching.
    in_flight: bool,
    refreshed: Option<Duration>,
    used: u64,
}

/// What to do about a DID.
#[derive(Debug, Clone, PartialEq)]
pub enum Lookup<T> {
    /// Use this.
    Known(T),
    /// It failed a moment ago; do not try again yet.
    Failed(ResolveError),
    /// Someone else is fetching it: wait for that.
    Wait,
    /// Fetch it, and call [`Cache::finish`] whatever comes of it.
    Fetch,
}

impl<T: Clone> Cache<T> {
    /// The capacity of profile §4.
    pub const CAPACITY: usize = 10_000;

    /// An empty cache for at most this many DIDs.
    #[must_use]
    pub const fn new(capacity: usize) -> Self {
        Self {
            capacity,
            entries: BTreeMap::new(),
            order: BTreeMap::new(),
            uses: 0,
        }
    }

    /// What to do about a DID now. Of all that ask for an unknown one, one is told to fetch.
    pub fn look_up(&mut self, did: &Did, now: Duration) -> Lookup<T> {
        let entry = self.touch(did);
        match (&entry.known, &entry.failed) {
            (Some((value, until)), _) if now < *until => return Lookup::Known(value.clone()),
            (_, Some((error, until))) if now < *until => return Lookup::Failed(error.clone()),
            _ => {}
        }
        begin(entry)
    }

    /// What is known of a DID, if it still holds; nothing else changes.
    #[must_use]
    pub fn peek(&self, did: &Did, now: Duration) -> Option<&T> {
        let entry = self.entries.get(&did.to_string())?;
        let (value, until) = entry.known.as_ref()?;
        (now < *until).then_some(value)
    }

    /// What to do about a DID whose signature failed, or whose key is unknown: perhaps it changed.
    /// At most once a minute someone is told to fetch; [`Lookup::Known`] then means that nothing
    /// newer can be had.
    pub fn look_up_newer(&mut self, did: &Did, now: Duration) -> Lookup<T> {
        let entry = self.touch(did);
        let recent = |at: Duration| now < at.saturating_add(REFRESH);
        if entry.refreshed.is_some_and(recent) && !entry.in_flight {
            return self.look_up(did, now);
        }
        if !entry.in_flight {
            entry.refreshed = Some(now);
        }
        begin(entry)
    }

    /// Records what a fetch came to. A failed refresh leaves what is known until its time is up.
    pub fn finish(
        &mut self,
        did: &Did,
        now: Duration,
        outcome: Result<(T, Duration), ResolveError>,
    ) {
        let entry = self.touch(did);
        entry.in_flight = false;
        match outcome {
            Ok((value, ttl)) => {
                entry.known = Some((value, now.saturating_add(ttl)));
                entry.failed = None;
            }
            Err(error) => entry.failed = Some((error, now.saturating_add(NEGATIVE))),
        }
    }

    /// Forgets a DID, as an operator may ask.
    pub fn forget(&mut self, did: &Did) {
        if let Some(entry) = self.entries.remove(&did.to_string()) {
            self.order.remove(&entry.used);
        }
    }

    /// How many DIDs are in it.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether nothing is in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn touch(&mut self, did: &Did) -> &mut Entry<T> {
        let name = did.to_string();
        self.uses = self.uses.saturating_add(1);
        if let Some(entry) = self.entries.get(&name) {
            self.order.remove(&entry.used);
        } else if self.entries.len() >= self.capacity
            && let Some((_, oldest)) = self.order.pop_first()
        {
            self.entries.remove(&oldest);
        }
        self.order.insert(self.uses, name.clone());
        let uses = self.uses;
        let entry = self.entries.entry(name).or_insert_with(|| Entry {
            known: None,
            failed: None,
            in_flight: false,
            refreshed: None,
            used: uses,
        });
        entry.used = uses;
        entry
    }
}

const fn begin<T>(entry: &mut Entry<T>) -> Lookup<T> {
    if entry.in_flight {
        return Lookup::Wait;
    }
    entry.in_flight = true;
    Lookup::Fetch
}

/// How a manifest was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// By its DID, or a peer sent it.
    ByDid,
    /// At a URL that an operator gave.
    ByOperator,
}

/// How long a verified manifest may be kept: as the way it was found says, capped by its own end and
/// that of each key.
#[must_use]
pub fn time_to_live(manifest: &VerifiedManifest, found: Found, now: UnixSeconds) -> Duration {
    let method = match (found, manifest.did()) {
        (Found::ByOperator, _) => OPERATOR_TTL,
        (Found::ByDid, Did::Github(_)) => GITHUB_TTL,
        (Found::ByDid, Did::Web(_) | Did::Key(_)) => WEB_TTL,
    };
    let keys = manifest.keys().iter();
    let ends = keys
        .filter(|key| key.verifies_at(now))
        .filter_map(|key| key.expires_at)
        .chain(manifest.manifest().ends());
    let left = ends.map(|end| end.0.saturating_sub(now.0)).min();
    let seconds = left.map_or(method, |left| left.min(method));
    Duration::from_secs(u64::try_from(seconds).unwrap_or_default())
}

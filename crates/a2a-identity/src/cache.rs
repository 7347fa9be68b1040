//! What was learnt of DIDs, for as long as it holds (profile §4, cache).

use std::time::Duration;

use a2a_wire::UnixSeconds;
use base::{Class, Limits, Table};

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

/// Values by DID, counted for who had them fetched: bounded, with a share for each holder. Times are
/// those of a monotonic clock, since the start of the program.
#[derive(Debug)]
pub struct Cache<H: Ord + Clone, T> {
    entries: Table<H, String, Entry<T>>,
}

#[derive(Debug)]
struct Entry<T> {
    known: Option<(T, Duration)>,
    failed: Option<(ResolveError, Duration)>,
    refreshed: Option<Duration>,
}

/// What to do about a DID.
#[derive(Debug, Clone, PartialEq)]
pub enum Lookup<T> {
    /// Use this.
    Known(T),
    /// It failed a moment ago; do not try again yet.
    Failed(ResolveError),
    /// Fetch it, and call [`Cache::finish`] with what comes of it.
    Fetch,
}

impl<H: Ord + Clone, T: Clone> Cache<H, T> {
    /// An empty cache. Of a full one the least recently used of the heaviest holder goes.
    #[must_use]
    pub const fn new(limits: Limits) -> Self {
        Self {
            entries: Table::new(limits),
        }
    }

    /// What to do about a DID now.
    pub fn look_up(&mut self, did: &Did, now: Duration) -> Lookup<T> {
        let Some(entry) = self.touch(did) else {
            return Lookup::Fetch;
        };
        match (&entry.known, &entry.failed) {
            (Some((value, until)), _) if now < *until => Lookup::Known(value.clone()),
            (_, Some((error, until))) if now < *until => Lookup::Failed(error.clone()),
            _ => Lookup::Fetch,
        }
    }

    /// What to do about a DID whose signature failed, or whose key is unknown: perhaps it changed.
    /// [`Lookup::Known`] means that it was refreshed less than a minute ago.
    pub fn look_up_newer(&mut self, did: &Did, now: Duration) -> Lookup<T> {
        let refreshed = self.touch(did).and_then(|entry| entry.refreshed);
        match refreshed.is_some_and(|at| now < at.saturating_add(REFRESH)) {
            true => self.look_up(did, now),
            false => Lookup::Fetch,
        }
    }

    /// Records when a refresh began that is finished now. One that was given up does not count, or
    /// it would keep others from theirs.
    pub fn refreshed(&mut self, did: &Did, began: Duration) {
        if let Some(entry) = self.touch(did) {
            entry.refreshed = Some(began);
        }
    }

    /// Records what a fetch for a holder came to. A failed refresh leaves what is known until its
    /// time is up.
    pub fn finish(
        &mut self,
        (holder, class): (H, Class),
        did: &Did,
        now: Duration,
        outcome: Result<(T, Duration), ResolveError>,
    ) {
        let name = did.to_string();
        let mut entry = self.entries.remove(&name).unwrap_or(Entry {
            known: None,
            failed: None,
            refreshed: None,
        });
        match outcome {
            Ok((value, ttl)) => {
                entry.known = Some((value, now.saturating_add(ttl)));
                entry.failed = None;
            }
            Err(error) => entry.failed = Some((error, now.saturating_add(NEGATIVE))),
        }
        // A stranger's is not kept while all others are of known agents.
        let _ = self.entries.insert(holder, class, name, entry);
    }

    /// Forgets a DID, as an operator may ask.
    pub fn forget(&mut self, did: &Did) {
        self.entries.remove(&did.to_string());
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

    fn touch(&mut self, did: &Did) -> Option<&mut Entry<T>> {
        let name = did.to_string();
        self.entries.touch(&name);
        self.entries.get_mut(&name)
    }
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

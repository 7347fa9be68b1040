//! Resolutions under way: one for each DID, however many wait for it, counted for who began it.

use std::sync::{Arc, Weak};
use std::time::Duration;

use a2a_identity::{Did, Lookup, ResolveError, Want};
use a2a_session::{ClaimedIdentity, Facts, Freshness, Holder};
use a2a_wire::Digest;
use base::Table;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use super::place::Place;
use super::{Inner, State};
use crate::standing::lock;

/// A question about a DID, and for whom it is counted.
#[derive(Debug, Clone)]
pub(super) struct Query {
    pub(super) did: Did,
    pub(super) want: Want,
    /// Where the manifest is, if the DID does not lead there.
    pub(super) place: Option<Place>,
    pub(super) holder: Holder,
    /// Whether it gives way to no other: what an agent with sessions has published since.
    pub(super) is_kept: bool,
    /// What the agent has shown, if the answer must fit that.
    pub(super) shown: Option<ClaimedIdentity>,
}

/// Names a resolution: the DID, how much is wanted, and the claimed keys. A peer that claims other keys
/// must not cause the agent itself to be refused.
type Key = (String, Want, Option<Digest>);

type Outcome = Result<Facts, ResolveError>;

/// The resolutions under way. A new one takes the place of the oldest of its own holder, or of the
/// stranger that has the most.
pub(super) type InFlight = Table<Holder, Key, Entry>;

#[derive(Debug)]
pub(super) struct Entry {
    number: u64,
    running: Weak<Running>,
}

/// A resolution that someone waits for. When all who wait are gone, it ends.
pub(super) struct Running {
    inner: Arc<Inner>,
    key: Key,
    number: u64,
    outcome: watch::Receiver<Option<Outcome>>,
    task: AbortOnDropHandle<()>,
}

/// What is done about a query.
pub(super) enum Joined {
    /// Its answer is cached.
    Cached(Box<Facts>),
    /// Another began the same.
    Waits(Arc<Running>),
    /// It is the one that begins it.
    Begins(Arc<Running>),
}

impl Query {
    fn key(&self) -> Key {
        let shown = self.shown.as_ref().map(|shown| {
            let mut bytes = shown.manifest_hash.as_bytes().to_vec();
            for key in shown.keys.iter() {
                bytes.extend_from_slice(key.kid.as_str().as_bytes());
                bytes.extend_from_slice(key.key.digest().as_bytes());
            }
            Digest::of(&bytes)
        });
        (self.did.to_string(), self.want, shown)
    }
}

impl Running {
    /// Waits for the outcome; `None` if the resolution gave way to others.
    pub(super) async fn outcome(&self) -> Option<Outcome> {
        let mut outcome = self.outcome.clone();
        let outcome = outcome.wait_for(Option::is_some).await.ok()?;
        outcome.clone()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        lock(&self.inner.state).end(&self.key, self.number);
    }
}

impl Inner {
    /// What is cached, or the resolution that finds it out.
    pub(super) fn join(
        self: &Arc<Self>,
        query: &Query,
        freshness: Freshness,
    ) -> Result<Joined, ResolveError> {
        let mut evicted = Weak::new();
        let joined = {
            let mut state = lock(&self.state);
            self.join_in(&mut state, query, freshness, &mut evicted)
        };
        // Not under the lock, which the end of a resolution takes.
        if let Some(evicted) = evicted.upgrade() {
            evicted.task.abort();
        }
        joined
    }

    fn join_in(
        self: &Arc<Self>,
        state: &mut State,
        query: &Query,
        freshness: Freshness,
        evicted: &mut Weak<Running>,
    ) -> Result<Joined, ResolveError> {
        // What is under way is as new as can be.
        if freshness == Freshness::Newer
            && let Some(running) = state.running(query)
        {
            return Ok(Joined::Waits(running));
        }
        let now = self.clock.now().monotonic;
        match state.look_up(query, freshness, now) {
            Lookup::Known(facts) => return Ok(Joined::Cached(Box::new(facts))),
            Lookup::Failed(error) => return Err(error),
            Lookup::Fetch => {}
        }
        if let Some(running) = state.running(query) {
            return Ok(Joined::Waits(running));
        }
        state.last = state.last.saturating_add(1);
        let number = state.last;
        let (holder, key) = (query.holder, query.key());
        let entry = Entry {
            number,
            running: Weak::new(),
        };
        let inserted = state.in_flight.insert(holder, holder.class(), key, entry);
        let inserted = inserted.map_err(|_| ResolveError::Busy)?;
        *evicted = inserted.map(|(_, entry)| entry.running).unwrap_or_default();
        let running = self.begin(query, freshness, number);
        if let Some(entry) = state.in_flight.get_mut(&query.key()) {
            entry.running = Arc::downgrade(&running);
        }
        state.in_flight.set_in_use(&query.key(), query.is_kept);
        Ok(Joined::Begins(running))
    }

    fn begin(self: &Arc<Self>, query: &Query, freshness: Freshness, number: u64) -> Arc<Running> {
        let (tell, outcome) = watch::channel(None);
        let (inner, asked) = (Arc::clone(self), query.clone());
        let began = self.clock.now().monotonic;
        let task = tokio::spawn(async move {
            let resolved = timeout(inner.limits.time, inner.resolve(&asked)).await;
            let mut state = lock(&inner.state);
            let outcome = match resolved {
                // That says nothing of the DID, but of who asked.
                Ok(Err(error @ (ResolveError::NotShown | ResolveError::Busy))) => Err(error),
                Ok(resolved) => {
                    let refreshed = (freshness == Freshness::Newer).then_some(began);
                    let now = inner.clock.now().monotonic;
                    state.finish(&asked, now, refreshed, resolved)
                }
                // How long it waits is the doing of others, so that it is not kept.
                Err(_) => Err(ResolveError::Unavailable(asked.did.to_string())),
            };
            state.end(&asked.key(), number);
            tell.send_replace(Some(outcome));
        });
        Arc::new(Running {
            inner: Arc::clone(self),
            key: query.key(),
            number,
            outcome,
            task: AbortOnDropHandle::new(task),
        })
    }
}

impl State {
    fn running(&self, query: &Query) -> Option<Arc<Running>> {
        self.in_flight.get(&query.key())?.running.upgrade()
    }

    /// Caches what a resolution came to; returns what holds now: what a failed refresh found before
    /// holds until its time is up.
    fn finish(
        &mut self,
        query: &Query,
        now: Duration,
        refreshed: Option<Duration>,
        resolved: Result<(Facts, Duration), ResolveError>,
    ) -> Outcome {
        let cache = self.cache(query.want);
        let holder = (query.holder, query.holder.class());
        cache.finish(holder, &query.did, now, resolved.clone());
        if let Some(at) = refreshed {
            cache.refreshed(&query.did, at);
        }
        match cache.look_up(&query.did, now) {
            Lookup::Known(facts) => Ok(facts),
            Lookup::Failed(error) => Err(error),
            Lookup::Fetch => resolved.map(|(facts, _)| facts),
        }
    }

    fn end(&mut self, key: &Key, number: u64) {
        let entry = self.in_flight.get(key);
        if entry.is_some_and(|entry| entry.number == number) {
            self.in_flight.remove(key);
        }
    }
}

//! The episodes of a session.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use a2e_runtime::{Failure, Session};
use a2e_wire::messages::env::EnvPushEventType;
use a2e_wire::{EpisodeId, Object};
use tokio::time::Instant;

use super::episode::Episode;
use super::failures;
use super::pusher::Push;

/// Closed episodes whose steps are still known.
pub const MAX_CLOSED: usize = 256;

/// The episodes of a session. They end with it.
#[derive(Debug, Default)]
pub(super) struct Table {
    inner: Mutex<Inner>,
    /// How many there ever were.
    begun: AtomicU64,
    /// Bytes that are remembered of them all.
    pub(super) bytes: Arc<AtomicUsize>,
}

#[derive(Debug, Default)]
struct Inner {
    open: HashMap<String, Arc<Episode>>,
    /// Oldest first.
    closed: VecDeque<Arc<Episode>>,
    /// Whether somebody closes those that nobody uses.
    is_swept: bool,
}

impl Table {
    /// The number of the next episode.
    pub(super) fn next_number(&self) -> u64 {
        self.begun.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn find(&self, id: &EpisodeId<'_>) -> Option<Arc<Episode>> {
        self.lock().open.get(id.as_str()).map(Arc::clone)
    }

    /// The episodes of these ids, where there are any.
    pub(super) fn find_all(&self, ids: &[EpisodeId<'_>]) -> Vec<Option<Arc<Episode>>> {
        let inner = self.lock();
        let found = ids.iter().map(|id| inner.open.get(id.as_str()));
        found.map(Option::<&Arc<_>>::cloned).collect()
    }

    /// The one that was used last.
    pub(super) fn latest(&self) -> Option<Arc<Episode>> {
        let inner = self.lock();
        let open = inner.open.values();
        open.max_by_key(|it| (it.used(), it.number)).map(Arc::clone)
    }

    /// All there are, closed ones too, in the order they began.
    pub(super) fn all(&self) -> Vec<Arc<Episode>> {
        let inner = self.lock();
        let mut all: Vec<_> = inner.open.values().chain(&inner.closed).cloned().collect();
        all.sort_by_key(|it| it.number);
        all
    }

    /// Adds an episode of the session. If there are too many, of its environment or of all, the one that
    /// nobody has used for longest must go: it is given back, to be closed.
    pub(super) fn insert(
        &self,
        session: &Session,
        episode: &Arc<Episode>,
        max_episodes: usize,
    ) -> Result<Option<Arc<Episode>>, Failure> {
        let mut inner = self.lock();
        // It was opened while the session ended, and nothing would close it.
        if session.ended().is_cancelled() {
            return Err(failures::session_ended());
        }
        let name = episode.environment.name();
        let is_same = |it: &Arc<Episode>| it.environment.name() == name;
        let same = inner.open.values().filter(|it| is_same(it)).count();
        let of_same = episode.environment.max_episodes();
        let goes = if same >= of_same {
            Some(
                inner
                    .least_used(is_same)
                    .ok_or_else(|| failures::all_busy(of_same))?,
            )
        } else if inner.open.len() >= max_episodes {
            let found = inner.least_used(|_| true);
            Some(found.ok_or_else(|| failures::all_busy(max_episodes))?)
        } else {
            None
        };
        if let Some(goes) = &goes {
            inner.close(goes);
        }
        let id = episode.id.as_str().to_owned();
        inner.open.insert(id, Arc::clone(episode));
        Ok(goes)
    }

    /// Takes an episode from those that are open.
    pub(super) fn remove(&self, id: &EpisodeId<'_>) -> Option<Arc<Episode>> {
        let mut inner = self.lock();
        let found = inner.open.get(id.as_str()).map(Arc::clone)?;
        inner.close(&found);
        Some(found)
    }

    /// Forgets all of them.
    pub(super) fn clear(&self) {
        let inner = std::mem::take(&mut *self.lock());
        drop(inner);
    }

    /// Has episodes closed that nobody uses for so long, for as long as there are any.
    pub(super) fn sweep(self: &Arc<Self>, idle: Duration) {
        let is_swept = std::mem::replace(&mut self.lock().is_swept, true);
        if !is_swept {
            tokio::spawn(sweep(Arc::downgrade(self), idle));
        }
    }

    /// Takes out what nobody has used for so long, and says when to look again.
    fn take_idle(&self, idle: Duration) -> (Vec<Arc<Episode>>, Option<Instant>) {
        let now = Instant::now();
        let mut inner = self.lock();
        let is_idle = |it: &&Arc<Episode>| it.used() + idle <= now && !it.is_busy();
        let gone: Vec<_> = inner.open.values().filter(is_idle).cloned().collect();
        for episode in &gone {
            inner.close(episode);
        }
        // One in which a step is under way is looked at again after a while.
        let due = |it: &Arc<Episode>| match it.is_busy() {
            true => now + idle,
            false => it.used() + idle,
        };
        let next = inner.open.values().map(due).min();
        inner.is_swept = next.is_some();
        (gone, next)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// The one that nobody has used for longest, of those in which nothing happens.
    fn least_used(&self, of: impl Fn(&Arc<Episode>) -> bool) -> Option<Arc<Episode>> {
        let mut all: Vec<_> = self.open.values().filter(|it| of(it)).collect();
        all.sort_by_key(|it| (it.used(), it.number));
        all.into_iter().find(|it| !it.is_busy()).cloned()
    }

    fn close(&mut self, episode: &Arc<Episode>) {
        self.open.remove(episode.id.as_str());
        self.closed.push_back(Arc::clone(episode));
        if self.closed.len() > MAX_CLOSED {
            self.closed.pop_front();
        }
    }
}

/// Closes an episode that nobody asked to be closed, and says so.
pub(super) async fn close_unasked(episode: &Episode, why: &'static str) {
    episode.close().await;
    let push = Push {
        event: EnvPushEventType::Status,
        reason: why.into(),
        delta: Object::EMPTY,
        reward: None,
        terminal: true,
    };
    // Whoever is gone need not be told.
    let _ = episode.pusher.push(push).await;
}

async fn sweep(table: Weak<Table>, idle: Duration) {
    loop {
        let Some((gone, next)) = table.upgrade().map(|table| table.take_idle(idle)) else {
            return;
        };
        for episode in gone {
            close_unasked(&episode, "closed: nobody used it for too long").await;
        }
        match next {
            Some(next) => tokio::time::sleep_until(next).await,
            None => return,
        }
    }
}

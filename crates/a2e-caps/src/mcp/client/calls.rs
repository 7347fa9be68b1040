//! Calls that are under way at a server: who waits for them, and who hears of their progress.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use a2e_runtime::Session;
use rmcp::model::{CancelledNotificationParam, ProgressToken, RequestId};
use rmcp::{Peer, RoleClient};

use crate::tool::Progress;

/// The calls under way.
#[derive(Debug, Default)]
pub(super) struct Calls(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    last: u64,
    /// Oldest first.
    callers: Vec<(u64, Arc<Session>)>,
    progress: HashMap<ProgressToken, Progress>,
}

/// A call, until it is dropped.
#[derive(Debug)]
pub(super) struct Place<'a> {
    calls: &'a Calls,
    number: u64,
}

/// Somebody who hears of a call's progress, until it is dropped.
#[derive(Debug)]
pub(super) struct Listening<'a> {
    calls: &'a Calls,
    token: ProgressToken,
}

/// A request that is cancelled at the server when nobody waits for it any more.
#[derive(Debug)]
pub(super) struct Asked {
    peer: Peer<RoleClient>,
    id: Option<RequestId>,
}

impl Calls {
    /// A call of a session begins.
    pub(super) fn enter(&self, session: Option<&Arc<Session>>) -> Place<'_> {
        let mut inner = self.lock();
        inner.last = inner.last.saturating_add(1);
        let number = inner.last;
        inner
            .callers
            .extend(session.map(|session| (number, Arc::clone(session))));
        Place {
            calls: self,
            number,
        }
    }

    /// Whose calls are under way, the latest last.
    pub(super) fn callers(&self) -> Vec<Arc<Session>> {
        let inner = self.lock();
        let callers = inner.callers.iter();
        callers.map(|(_, session)| Arc::clone(session)).collect()
    }

    pub(super) fn are_none(&self) -> bool {
        self.lock().callers.is_empty()
    }

    /// Tells a call of what is heard of this token.
    pub(super) fn listen(&self, token: ProgressToken, progress: Progress) -> Listening<'_> {
        self.lock().progress.insert(token.clone(), progress);
        Listening { calls: self, token }
    }

    pub(super) fn progress(&self, token: &ProgressToken) -> Option<Progress> {
        self.lock().progress.get(token).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let number = self.number;
        self.calls
            .lock()
            .callers
            .retain(|(known, _)| *known != number);
    }
}

impl Drop for Listening<'_> {
    fn drop(&mut self) {
        self.calls.lock().progress.remove(&self.token);
    }
}

impl Asked {
    pub(super) const fn new(peer: Peer<RoleClient>, id: RequestId) -> Self {
        Self { peer, id: Some(id) }
    }

    /// It was answered.
    pub(super) fn answered(mut self) {
        self.id = None;
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        let (Some(id), Ok(runtime)) = (self.id.take(), tokio::runtime::Handle::try_current())
        else {
            return;
        };
        let peer = self.peer.clone();
        runtime.spawn(async move {
            let reason = Some("nobody waits for it any more".to_owned());
            let cancelled = CancelledNotificationParam::new(Some(id), reason);
            // A server that is gone works on nothing.
            let _ = peer.notify_cancelled(cancelled).await;
        });
    }
}

//! Events that a remote host sends after the response to their request: they reach the agent as events of
//! its own request, as those before the response do.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use a2e_wire::MessageId;

use crate::plugin::Context;

/// The last requests that were sent over a connection, by their ids at the host.
#[derive(Debug, Default)]
pub(super) struct LateEvents(Mutex<Requests>);

#[derive(Debug, Default)]
struct Requests {
    sent: VecDeque<(MessageId<'static>, Context)>,
    /// Nothing is remembered any more: a context keeps its session.
    is_over: bool,
}

/// Requests of a connection whose late events are passed on. Beyond that those that are over are forgotten,
/// the oldest first.
const MAX_REQUESTS: usize = 64;

impl LateEvents {
    /// Remembers a request that was sent.
    pub(super) fn remember(&self, id: &MessageId<'static>, context: &Context) {
        let mut requests = self.lock();
        if requests.is_over {
            return;
        }
        let is_over = |(_, context): &(_, Context)| context.over().is_cancelled();
        while requests.sent.len() >= MAX_REQUESTS
            && let Some(index) = requests.sent.iter().position(is_over)
            && let Some((_, oldest)) = requests.sent.remove(index)
        {
            tokio::spawn(async move { oldest.end_stream().await });
        }
        // Its end is told to those alone who have asked for it before.
        let _ = context.over();
        requests.sent.push_back((id.clone(), context.clone()));
    }

    /// Another plugin may serve the request with this id: the host has no more to do with it.
    pub(super) fn forget(&self, id: &MessageId<'_>) {
        self.lock().sent.retain(|(known, _)| known != id);
    }

    /// The request with this id at the host.
    pub(super) fn request(&self, id: &MessageId<'_>) -> Option<Context> {
        let requests = self.lock();
        let mut sent = requests.sent.iter();
        sent.find(|(known, _)| known == id)
            .map(|(_, context)| context.clone())
    }

    /// No event comes any more, or nobody is there to hear it.
    pub(super) async fn end(&self) {
        let sent = {
            let mut requests = self.lock();
            requests.is_over = true;
            std::mem::take(&mut requests.sent)
        };
        for (_, context) in sent {
            // Until then its stream may yet be kept.
            context.over().cancelled().await;
            // A session that has ended has no streams.
            let _ = context.end_stream().await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Requests> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

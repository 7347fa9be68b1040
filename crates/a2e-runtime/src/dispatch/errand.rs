//! Requests for a session by what goes on after the request that began it.

use std::sync::Arc;

use a2e_session::Failure;
use a2e_wire::{Body, MessageId};
use tokio::sync::mpsc;

use super::{MAX_DEPTH, Request, namespace, too_deep};
use crate::auth::Identity;
use crate::plugin::{Asker, Context, Takes};
use crate::session::Session;

/// What a plugin does for a session after it has answered: it asks in the name of that session, and
/// each request is decided about and put on record as the agent's own are. Whoever has one must end
/// what he does with it when the session ends ([`Plugin::clear`](crate::Plugin::clear)).
#[derive(Debug, Clone)]
pub struct Errand {
    session: Arc<Session>,
    depth: usize,
}

impl Context {
    /// Goes on asking for this session when the request is over.
    #[must_use]
    pub fn errand(&self) -> Errand {
        Errand {
            session: Arc::clone(self.session()),
            depth: self.depth().saturating_add(1),
        }
    }
}

impl Errand {
    /// The session it is for.
    #[must_use]
    pub const fn session(&self) -> &Arc<Session> {
        &self.session
    }

    /// In whose name it asks.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        self.session.identity()
    }

    /// Asks the host for something; `id` is what the request is called on record. Dropped, it is
    /// cancelled.
    ///
    /// # Errors
    /// What the agent would be told that had sent it, or if requests are too deep inside each other.
    pub async fn ask(
        &self,
        id: impl Into<MessageId<'static>>,
        body: impl Into<Body<'static>>,
        events: Option<mpsc::Sender<Body<'static>>>,
    ) -> Result<Body<'static>, Failure> {
        let body = body.into();
        if self.depth > MAX_DEPTH {
            return Err(too_deep(namespace(&body)));
        }
        let asker = Asker::Node {
            events,
            outer: None,
            depth: self.depth,
            takes: Takes::Usual,
        };
        let request = Request::new(&self.session, id.into(), body, asker)?;
        Box::pin(request.run(|| Ok(()))).await
    }
}

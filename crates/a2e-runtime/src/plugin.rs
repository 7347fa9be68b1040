//! What serves the requests of a host.

use std::pin::Pin;

use a2e_session::{Failure, Token};
use a2e_wire::{Body, Capability, Message, Tag};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::auth::Identity;
use crate::driver::Command;

/// A future that a trait object can return.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Something that serves requests.
pub trait Plugin: Send + Sync + 'static {
    /// Its name in the configuration.
    fn name(&self) -> &str;

    /// The capability it belongs to; none for types of its own.
    fn capability(&self) -> Option<Capability<'static>>;

    /// Plugins of higher priority are asked first.
    fn priority(&self) -> i64 {
        0
    }

    /// Whether no other plugin is asked for what it serves.
    fn exclusive(&self) -> bool {
        false
    }

    /// Which messages it serves.
    fn serves(&self) -> Serves;

    /// Serves a request. The future is dropped when the request is cancelled.
    fn handle(
        &self,
        request: Message<'static>,
        context: Context,
    ) -> BoxFuture<'_, Result<Outcome, Failure>>;
}

/// Which messages a plugin serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Serves {
    /// These of the catalogue.
    Tags(Vec<Tag>),
    /// Types beside the catalogue.
    Types(Vec<String>),
    /// Every type beside the catalogue that nobody else serves.
    CatchAll,
}

/// What a plugin made of a request.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// The response.
    Answer(Box<Body<'static>>),
    /// It is for the next plugin (another owns the tool of that name).
    Pass,
    /// It is done, and such a request gets no response.
    Done,
}

/// What a plugin knows of the request it serves, and how it tells of its progress.
#[derive(Debug, Clone)]
pub struct Context {
    /// Who asks.
    pub identity: Identity,
    /// Ends when the request is cancelled. The future of [`Plugin::handle`] is dropped then; this is
    /// for what it has started elsewhere.
    pub cancelled: CancellationToken,
    pub(crate) token: Token,
    pub(crate) commands: mpsc::Sender<Command>,
}

/// The request is over, or its session is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("nobody waits for this any more")]
pub struct SendError;

impl Outcome {
    /// A response.
    pub fn answer(body: impl Into<Body<'static>>) -> Self {
        Self::Answer(Box::new(body.into()))
    }
}

impl Context {
    /// Sends an event of the request. Waits while the peer is behind.
    ///
    /// # Errors
    /// If the request is over.
    pub async fn event(&self, body: impl Into<Body<'static>>) -> Result<(), SendError> {
        let (done, outcome) = oneshot::channel();
        let command = Command::Event {
            token: self.token,
            body: Box::new(body.into()),
            done,
        };
        self.commands.send(command).await.map_err(|_| SendError)?;
        outcome.await.map_err(|_| SendError)?
    }
}

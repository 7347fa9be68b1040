//! Parts of an answer, as fast as the peer reads them.

use std::sync::Arc;

use a2a_session::{ChunkError, Token};
use bytes::Bytes;
use canonical::Value;
use tokio::sync::mpsc;

use super::live::Live;
use crate::standing::lock;

/// Where the parts of an answer go. A part waits until there is room, so a slow reader slows the
/// handler down.
#[derive(Debug)]
pub struct Chunks(Option<Open>);

#[derive(Debug)]
struct Open {
    live: Arc<Live>,
    token: Token,
    to: mpsc::Sender<Bytes>,
    unread: Unread,
}

/// What becomes of parts that nobody reads any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unread {
    /// The work is over.
    Stop,
    /// The work has a name and goes on: whoever asks for it again gets its result.
    GoOn,
}

/// Why a part was not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ChunkRefused {
    /// The peer asked for an answer in one piece.
    #[error("the answer was not asked for in parts")]
    NotStreamed,
    /// It is too large.
    #[error("a part has at most {limit} bytes in canonical form")]
    TooLarge {
        /// The bytes it may have.
        limit: usize,
    },
    /// Nobody reads any more, or the request has ended.
    #[error("nobody waits for this answer any more")]
    Gone,
}

impl Chunks {
    pub(super) const fn none() -> Self {
        Self(None)
    }

    pub(super) const fn new(
        live: Arc<Live>,
        token: Token,
        to: mpsc::Sender<Bytes>,
        unread: Unread,
    ) -> Self {
        Self(Some(Open {
            live,
            token,
            to,
            unread,
        }))
    }

    /// Whether the peer asked for parts.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        self.0.is_some()
    }

    /// Sends a part, when there is room for it.
    ///
    /// # Errors
    /// If it cannot be sent.
    pub async fn send(&mut self, data: Value<'static>) -> Result<(), ChunkRefused> {
        let open = self.0.as_ref().ok_or(ChunkRefused::NotStreamed)?;
        // Room first: a part that is counted is a part that is sent.
        let room = match (open.to.reserve().await, open.unread) {
            (Ok(room), _) => room,
            (Err(_), Unread::GoOn) => {
                // Nothing slows such work down; others, and whoever cancels it, have their turn.
                tokio::task::yield_now().await;
                return Ok(());
            }
            (Err(_), Unread::Stop) => return Err(ChunkRefused::Gone),
        };
        let chunk = lock(&open.live.inside).session.chunk(open.token, data);
        match chunk {
            Ok(message) => {
                room.send(Bytes::from(message));
                Ok(())
            }
            Err(ChunkError::NotStreamed) => Err(ChunkRefused::NotStreamed),
            Err(ChunkError::TooLarge { limit }) => Err(ChunkRefused::TooLarge { limit }),
            Err(ChunkError::NotRunning(_) | ChunkError::Exhausted) => Err(ChunkRefused::Gone),
        }
    }
}

//! Who asks over an HTTP connection.

use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use base::Class;

use super::Connection;
use crate::connections::{ConnectionSlot, LinkSlot};
use crate::host::Admission;
use crate::newcomers::Newcomer;
use crate::slots::Holder;

/// A connection, which counts as a newcomer's until it serves a session whose agent is known.
#[derive(Debug, Clone, Default)]
pub(super) struct Visit(Arc<Counts>);

/// Where a connection is counted.
#[derive(Debug, Default)]
struct Counts {
    newcomer: Mutex<Option<Newcomer>>,
    slot: Weak<ConnectionSlot>,
}

/// Who asks over a connection.
pub(super) struct Visitor {
    pub(super) connection: Connection,
    /// Whether there was a place for it; nothing is answered otherwise.
    pub(super) is_admitted: bool,
    pub(super) visit: Visit,
    /// The session that begins over the connection when it has become a WebSocket.
    websocket: OnceLock<Admission>,
}

impl Visitor {
    /// Who has just come; without a newcomer, one for whom there is no place.
    pub(super) fn new(
        connection: Connection,
        newcomer: Option<Newcomer>,
        slot: Weak<ConnectionSlot>,
    ) -> Self {
        Self {
            connection,
            is_admitted: newcomer.is_some(),
            visit: Visit(Arc::new(Counts {
                newcomer: Mutex::new(newcomer),
                slot,
            })),
            websocket: OnceLock::new(),
        }
    }

    /// The connection becomes a WebSocket once this request is answered.
    pub(super) fn upgrade(&self, admission: Admission) {
        let _ = self.websocket.set(admission);
    }

    /// The session to begin, if the connection has become a WebSocket.
    pub(super) fn into_websocket(self) -> Option<(Admission, LinkSlot)> {
        let slot = self.visit.0.slot.upgrade();
        let admission = self.websocket.into_inner()?;
        Some((admission, LinkSlot::new(slot)))
    }
}

impl PartialEq for Visit {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Visit {
    /// It is an agent's, and a newcomer's no longer.
    pub(super) fn assign(&self, agent: &Holder, class: Class) {
        let newcomer = self.0.newcomer.lock();
        *newcomer.unwrap_or_else(PoisonError::into_inner) = None;
        if let Some(slot) = self.0.slot.upgrade() {
            slot.assign(agent, class);
        }
    }
}

//! Who asks over an HTTP connection.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::Connection;
use crate::connections::ConnectionSlot;
use crate::newcomers::Newcomer;

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
        }
    }
}

impl PartialEq for Visit {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Visit {
    /// It is an agent's, and a newcomer's no longer.
    pub(super) fn assign(&self, agent: &str) {
        let newcomer = self.0.newcomer.lock();
        *newcomer.unwrap_or_else(PoisonError::into_inner) = None;
        if let Some(slot) = self.0.slot.upgrade() {
            slot.assign(agent);
        }
    }

    /// The slot of the connection, if a listener has accepted it.
    pub(super) fn slot(&self) -> Weak<ConnectionSlot> {
        Weak::clone(&self.0.slot)
    }
}

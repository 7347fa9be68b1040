//! Who asks over an HTTP connection.

use std::sync::{Arc, Mutex, PoisonError};

use super::Connection;
use crate::newcomers::Newcomer;

/// A connection, which counts as a newcomer's until it serves a session whose agent is known.
#[derive(Debug, Clone, Default)]
pub(super) struct Visit(Arc<Mutex<Option<Newcomer>>>);

/// Who asks over a connection.
pub(super) struct Visitor {
    pub(super) connection: Connection,
    /// Whether there was a place for it; nothing is answered otherwise.
    pub(super) is_admitted: bool,
    pub(super) visit: Visit,
}

impl Visitor {
    /// Who has just come; without a newcomer, one for whom there is no place.
    pub(super) fn new(connection: Connection, newcomer: Option<Newcomer>) -> Self {
        Self {
            connection,
            is_admitted: newcomer.is_some(),
            visit: Visit(Arc::new(Mutex::new(newcomer))),
        }
    }
}

impl PartialEq for Visit {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Visit {
    /// It is a newcomer's no longer.
    pub(super) fn is_known(&self) {
        let mut newcomer = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *newcomer = None;
    }
}

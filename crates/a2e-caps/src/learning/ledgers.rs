//! The ledgers of all agents.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use a2e_runtime::{Failure, NEUTRAL, Weights};
use store::{AgentId, Store};

use super::failed;
use super::ledger::Ledger;

/// What each agent has learned. There is one of it for a store, whatever plugins come and go: it has
/// in memory what the store has.
#[derive(Debug)]
pub struct Ledgers {
    store: Store,
    open: Mutex<HashMap<String, Arc<Ledger>>>,
}

impl Ledgers {
    /// Those of a store.
    #[must_use]
    pub fn new(store: Store) -> Self {
        Self {
            store,
            open: Mutex::default(),
        }
    }

    /// The ledger of an agent, which is read when it is first asked for.
    pub(super) fn of(&self, agent: &str) -> Result<Arc<Ledger>, Failure> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(ledger) = open.get(agent) {
            return Ok(Arc::clone(ledger));
        }
        let id = AgentId::new(agent).map_err(failed)?;
        let kept = self.store.for_agent(&id).learning();
        let ledger = Arc::new(Ledger::open(kept).map_err(failed)?);
        open.insert(agent.to_owned(), Arc::clone(&ledger));
        Ok(ledger)
    }
}

impl Weights for Ledgers {
    fn weight(&self, agent: &str, component: &str) -> f64 {
        let ledger = self.of(agent).ok();
        let weight = ledger.and_then(|ledger| ledger.weight(component));
        weight.unwrap_or(NEUTRAL)
    }
}

//! The ledgers of all agents.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use a2e_runtime::{Failure, NEUTRAL, Weights};
use store::{AgentId, Error, Store};

use super::ledger::Ledger;
use super::{apart, failed};

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

    /// The ledger of an agent. When it is first asked for it is read, which may take a while: nobody
    /// else waits for that.
    pub(super) async fn of(self: &Arc<Self>, agent: &str) -> Result<Arc<Ledger>, Failure> {
        if let Some(ledger) = self.lock().get(agent) {
            return Ok(Arc::clone(ledger));
        }
        let (ledgers, agent) = (Arc::clone(self), agent.to_owned());
        apart(move || ledgers.read(&agent)).await.map_err(failed)
    }

    fn read(&self, agent: &str) -> Result<Arc<Ledger>, Error> {
        if let Some(ledger) = self.lock().get(agent) {
            return Ok(Arc::clone(ledger));
        }
        let kept = self.store.for_agent(&AgentId::new(agent)?).learning();
        let ledger = Arc::new(Ledger::open(kept)?);
        // Of two that have read it the first counts: nothing was written by the other.
        let mut open = self.lock();
        Ok(Arc::clone(open.entry(agent.to_owned()).or_insert(ledger)))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<Ledger>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Weights for Ledgers {
    fn weight(&self, agent: &str, component: &str) -> f64 {
        let ledger = self.read(agent).ok();
        let weight = ledger.and_then(|ledger| ledger.weight(component));
        weight.unwrap_or(NEUTRAL)
    }
}

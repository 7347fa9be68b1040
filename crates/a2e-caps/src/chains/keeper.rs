//! The chains that are kept, and which of them run in this process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use a2e_runtime::{Context, Host, Identity, custom_body};
use a2e_wire::Body;
use store::{AgentId, Chains, Error, Store};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::messages::{Resume, Resumed};

/// Where chains are kept. There is one for a store, whatever else is configured: it knows what runs,
/// so that nothing is run twice.
#[derive(Debug)]
pub struct Keeper {
    store: Store,
    running: Mutex<HashMap<i64, CancellationToken>>,
}

/// A chain that runs; it does so as long as this is there.
#[derive(Debug)]
pub(super) struct Entered {
    keeper: Arc<Keeper>,
    pub(super) number: i64,
}

/// Chains that are taken up again at a time.
const AT_A_TIME: usize = 4;

impl Keeper {
    /// For chains in a store.
    #[must_use]
    pub fn new(store: Store) -> Self {
        Self {
            store,
            running: Mutex::default(),
        }
    }

    /// What an earlier process has left open. Ask for it before this one serves anybody.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn left_open(&self) -> Result<Vec<(AgentId, i64)>, Error> {
        self.store.open_chains().await
    }

    /// Goes on with what was left open, in the name of the agents it belongs to.
    pub async fn resume(&self, host: &Host, left_open: Vec<(AgentId, i64)>) {
        let mut going = JoinSet::new();
        for (agent, number) in left_open {
            while going.len() >= AT_A_TIME {
                going.join_next().await;
            }
            going.spawn(go_on(host.clone(), agent, number));
        }
        while going.join_next().await.is_some() {}
    }

    /// The chains of whoever asks.
    pub(super) fn chains(&self, context: &Context) -> Result<Arc<dyn Chains>, Error> {
        let agent = AgentId::new(&context.identity().agent)?;
        Ok(self.store.for_agent(&agent).chains())
    }

    /// Notes that a chain runs; nothing if it does already.
    pub(super) fn enter(self: &Arc<Self>, number: i64, end: &CancellationToken) -> Option<Entered> {
        let mut running = self.running();
        if running.contains_key(&number) {
            return None;
        }
        running.insert(number, end.clone());
        Some(Entered {
            keeper: Arc::clone(self),
            number,
        })
    }

    pub(super) fn is_running(&self, number: i64) -> bool {
        self.running().contains_key(&number)
    }

    /// Has a chain end; says whether it runs.
    pub(super) fn cancel(&self, number: i64) -> bool {
        let running = self.running();
        let end = running.get(&number);
        end.inspect(|end| end.cancel()).is_some()
    }

    fn running(&self) -> MutexGuard<'_, HashMap<i64, CancellationToken>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.keeper.running().remove(&self.number);
    }
}

async fn go_on(host: Host, agent: AgentId, number: i64) {
    let asking = host.stand_in(Identity::named(agent.as_str()));
    let request = Resume {
        number,
        by_itself: true,
    };
    let Ok(body) = custom_body(&request) else {
        return;
    };
    tracing::info!(number, agent = agent.as_str(), "a chain goes on");
    let why = match asking.ask(format!("chain-{number}"), body, None).await {
        Ok(Body::Unknown(answer)) => match answer.raw.deserialize::<Resumed>() {
            Ok(Resumed { error, .. }) => error,
            Err(error) => error.to_string(),
        },
        Ok(_) => String::new(),
        Err(failure) => failure.message,
    };
    if !why.is_empty() {
        tracing::warn!(number, why, "a chain does not go on");
    }
}

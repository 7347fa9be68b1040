//! The chains that are kept, and which of them run in this process.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use a2e_runtime::{Context, Host, Identity, StandIn};
use a2e_wire::Body;
use a2e_wire::messages::chain::{ChainRequest, ChainResumeRequest};
use canonical::Digest;
use store::{AgentId, ChainState, Chains, Error, Moment, Store, Uptime};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::journal::Wanted;
use crate::fresh;
use crate::turns::Turns;

/// Where chains are kept. There is one for a store, whatever else is configured: it knows what runs,
/// so that nothing is run twice.
#[derive(Debug)]
pub struct Keeper {
    store: Store,
    started: Instant,
    running: Mutex<HashMap<i64, Running>>,
    /// By agent, the chains of earlier processes that somebody may still ask for.
    earlier: Mutex<HashMap<AgentId, Arc<[Earlier]>>>,
    /// Requests and outcomes of chains may have many megabytes.
    pub(super) reading: Turns,
}

/// A chain that runs.
#[derive(Debug)]
struct Running {
    /// Ends it.
    end: CancellationToken,
    /// Says that it has ended.
    over: CancellationToken,
}

/// A chain of an earlier process, and what was asked for.
#[derive(Debug)]
struct Earlier {
    number: i64,
    request: Digest,
}

/// A chain that an earlier process has left open.
struct LeftOpen {
    keeper: Arc<Keeper>,
    stand_in: StandIn,
    chains: Arc<dyn Chains>,
    /// Those of its agent.
    turns: Arc<Semaphore>,
    number: i64,
}

/// A chain that runs; it does so as long as this is there.
#[derive(Debug)]
pub(super) struct Entered {
    keeper: Arc<Keeper>,
    pub(super) number: i64,
}

/// Chains of an agent that are taken up again at a time. One may take as long as it likes, so agents do
/// not wait for each other's.
const AT_A_TIME: usize = 4;
/// What is kept of a chain that was cancelled while it did not run.
pub(super) const CANCELLED: &[u8] = br#"{"response":null,"failed":{}}"#;
/// Agents of which is known what an earlier process has left.
const MAX_AGENTS: usize = 10_000;

impl Keeper {
    /// For chains in a store.
    #[must_use]
    pub fn new(store: Store) -> Self {
        Self {
            store,
            started: Instant::now(),
            running: Mutex::default(),
            earlier: Mutex::default(),
            reading: Turns::default(),
        }
    }

    /// What an earlier process has left open. Ask for it before this one serves anybody.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn left_open(&self) -> Result<Vec<(AgentId, i64)>, Error> {
        self.store.open_chains().await
    }

    /// Goes on with what was left open, in the name of the agents it belongs to. Each chain has its
    /// agent's access from now on, also while it waits for its turn: it is cancelled when that is
    /// revoked.
    pub fn resume(
        self: &Arc<Self>,
        host: &Host,
        left_open: Vec<(AgentId, i64)>,
    ) -> impl Future<Output = ()> + Send + use<> {
        let mut turns: HashMap<AgentId, Arc<Semaphore>> = HashMap::new();
        let left_open = left_open.into_iter().map(|(agent, number)| LeftOpen {
            keeper: Arc::clone(self),
            stand_in: host.stand_in(Identity::named(agent.as_str())),
            chains: self.store.for_agent(&agent).chains(),
            turns: Arc::clone(
                turns
                    .entry(agent)
                    .or_insert_with(|| Arc::new(Semaphore::new(AT_A_TIME))),
            ),
            number,
        });
        let left_open: Vec<LeftOpen> = left_open.collect();
        async move {
            let mut going: JoinSet<()> = left_open.into_iter().map(LeftOpen::go_on).collect();
            while going.join_next().await.is_some() {}
        }
    }

    /// The time, on both clocks. The system's is for people, and for how long chains are kept that
    /// have ended.
    pub(super) fn now(&self) -> Moment {
        Moment {
            unix: fresh::now(),
            uptime: self.uptime(),
        }
    }

    /// The time that decides whether a request may be sent again.
    pub(super) fn uptime(&self) -> Uptime {
        self.started.elapsed().into()
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
        let running_now = Running {
            end: end.clone(),
            over: CancellationToken::new(),
        };
        running.insert(number, running_now);
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
        let found = running.get(&number);
        found.inspect(|found| found.end.cancel()).is_some()
    }

    /// Ends when a chain does that runs; nothing if it does not.
    pub(super) fn over(&self, number: i64) -> Option<CancellationToken> {
        self.running().get(&number).map(|found| found.over.clone())
    }

    /// The chain of an earlier process that a request asks for, if it is the same request: with the
    /// same id, and the same in all else.
    pub(super) async fn asked_before(
        &self,
        request: &ChainRequest<'static>,
        context: &Context,
    ) -> Result<Option<i64>, Error> {
        let Ok(agent) = AgentId::new(&context.identity().agent) else {
            return Ok(None);
        };
        let known = self.known().get(&agent).cloned();
        let earlier = match known {
            Some(known) => known,
            None => {
                let found: Arc<[Earlier]> = self.find_earlier(context).await?.into();
                self.know(agent, &found);
                found
            }
        };
        if earlier.is_empty() {
            return Ok(None);
        }
        let wanted = Digest::of(&Wanted::new(request, context).written());
        let found = earlier.iter().find(|it| it.request == wanted);
        Ok(found.map(|it| it.number))
    }

    /// The chains of an agent that an earlier process had open, or ended shortly before its own end.
    async fn find_earlier(&self, context: &Context) -> Result<Vec<Earlier>, Error> {
        let (chains, now) = (self.chains(context)?, self.uptime());
        let mut earlier = Vec::new();
        for number in chains.earlier(now).await? {
            // An agent may have very many; others have their turns between them.
            let _turn = self.reading.take(&context.identity().agent).await;
            if let Some(chain) = chains.recall(now, number).await? {
                let request = Digest::of(&chain.request);
                earlier.push(Earlier { number, request });
            }
        }
        Ok(earlier)
    }

    /// Looks no second time for what an agent has; who comes after very many is looked up again.
    fn know(&self, agent: AgentId, earlier: &Arc<[Earlier]>) {
        let mut known = self.known();
        if known.len() >= MAX_AGENTS {
            known.clear();
        }
        known.insert(agent, Arc::clone(earlier));
    }

    fn known(&self) -> MutexGuard<'_, HashMap<AgentId, Arc<[Earlier]>>> {
        self.earlier.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn running(&self) -> MutexGuard<'_, HashMap<i64, Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entered {
    pub(super) fn keeper(&self) -> &Keeper {
        &self.keeper
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        if let Some(ended) = self.keeper.running().remove(&self.number) {
            ended.over.cancel();
        }
    }
}

impl LeftOpen {
    /// Goes on with it when it is its turn.
    async fn go_on(self) {
        let revoked = self.stand_in.access().revoked();
        tokio::select! {
            biased;
            () = revoked.cancelled() => {}
            turn = self.turns.acquire() => {
                if turn.is_ok() {
                    self.resume().await;
                }
            }
        }
        if !revoked.is_cancelled() {
            return;
        }
        // The next process must not go on with it either.
        let (now, state) = (self.keeper.now(), ChainState::Cancelled);
        let ended = self.chains.end(now, self.number, state, CANCELLED.to_vec());
        match ended.await {
            Ok(()) | Err(Error::NotFound { .. }) => {}
            Err(error) => {
                let number = self.number;
                tracing::warn!(%error, number, "the chain of a revoked agent stays open");
            }
        }
    }

    async fn resume(&self) {
        let number = self.number;
        let request = ChainResumeRequest {
            number,
            by_itself: true,
        };
        let agent = self.stand_in.agent();
        tracing::info!(number, agent, "a chain goes on");
        let id = format!("chain-{number}");
        let why = match self.stand_in.ask(id, request, None).await {
            Ok(Body::ChainResumeResponse(response)) => response.error,
            Ok(_) => Cow::Borrowed(""),
            Err(failure) => failure.message.into(),
        };
        if !why.is_empty() {
            tracing::warn!(number, %why, "a chain does not go on");
        }
    }
}

#[cfg(test)]
mod tests {
    use store::{Limits, Memory};

    use super::*;

    #[test]
    fn what_is_known_of_agents_has_a_limit() {
        let keeper = Keeper::new(Store::new(Memory::new(Limits::default())));
        let none: Arc<[Earlier]> = Vec::new().into();
        for number in 1..=MAX_AGENTS + 1 {
            let agent = AgentId::new(&format!("agent-{number}")).unwrap();
            keeper.know(agent, &none);
            let expected = if number > MAX_AGENTS { 1 } else { number };
            assert_eq!(keeper.known().len(), expected);
        }
    }
}

//! Work that has much in memory while it is done: one piece at a time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

/// Orders such work. Each agent has at most one piece in the queue of the node, so that an agent with
/// many requests delays others by one piece.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    agents: Mutex<HashMap<Arc<str>, Arc<AsyncMutex<()>>>>,
    node: Arc<AsyncMutex<()>>,
}

/// The turn of one piece of work on the node, until it is dropped. It must not be held while something
/// waits for a peer.
#[derive(Debug)]
pub(crate) struct Turn {
    _node: OwnedMutexGuard<()>,
    _agent: OwnedMutexGuard<()>,
}

impl Turns {
    /// Waits for the turn of an agent on the node.
    pub(crate) async fn take(&self, agent: &str) -> Turn {
        let agent = self.take_own(agent).await;
        Turn {
            _node: Arc::clone(&self.node).lock_owned().await,
            _agent: agent,
        }
    }

    /// Waits for a turn among the work of an agent alone, which may wait for a peer.
    pub(crate) async fn take_own(&self, agent: &str) -> OwnedMutexGuard<()> {
        let queue = {
            let mut agents = self.agents.lock().unwrap_or_else(PoisonError::into_inner);
            agents.retain(|_, queue| Arc::strong_count(queue) > 1);
            Arc::clone(agents.entry(agent.into()).or_default())
        };
        queue.lock_owned().await
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::{Pin, pin};
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn poll<F: Future<Output = Turn>>(turn: Pin<&mut F>) -> Option<Turn> {
        match turn.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(turn) => Some(turn),
            Poll::Pending => None,
        }
    }

    #[test]
    fn an_agent_with_many_requests_delays_others_by_one() {
        let turns = Turns::default();
        let mut waiting: Vec<_> = (0..3).map(|_| Box::pin(turns.take("ada"))).collect();
        let mut other = pin!(turns.take("bob"));
        let first = poll(waiting[0].as_mut()).unwrap();
        assert!(poll(waiting[1].as_mut()).is_none() && poll(waiting[2].as_mut()).is_none());
        assert!(poll(other.as_mut()).is_none());
        drop(first);
        // The second of the first agent gets into the line only now.
        assert!(poll(waiting[1].as_mut()).is_none());
        let second = poll(other.as_mut()).unwrap();
        assert!(poll(waiting[2].as_mut()).is_none());
        drop(second);
        assert!(poll(waiting[1].as_mut()).is_some());
    }

    #[test]
    fn agents_without_requests_leave_no_entry() {
        let turns = Turns::default();
        for agent in ["ada", "bob", "eve"] {
            assert!(poll(pin!(turns.take(agent))).is_some());
        }
        assert_eq!(turns.agents.lock().unwrap().len(), 1);
    }
}

//! What one agent can have under way at a time, so that something is left for others.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::tool::ToolFailure;

/// What is counted for each agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Programs in the sandbox, whatever has started them.
    Commands,
    /// Calls of WebAssembly components.
    Components,
    /// HTTP requests.
    Fetches,
}

/// How much of something each agent may have under way.
#[derive(Debug)]
pub struct Shares {
    kind: Kind,
    most: usize,
    /// Those agents that have any.
    taken: Mutex<HashMap<Arc<str>, usize>>,
}

/// One of them, until it is dropped.
#[derive(Debug)]
pub(crate) struct Share {
    of: Arc<Shares>,
    agent: Arc<str>,
}

impl Kind {
    /// What it is called, and the key of `global_limits` that limits it.
    const fn texts(self) -> (&'static str, &'static str) {
        match self {
            Self::Commands => ("commands", "max_commands_per_agent"),
            Self::Components => ("calls of components", "max_components_per_agent"),
            Self::Fetches => ("requests", "max_fetches_per_agent"),
        }
    }
}

impl Shares {
    /// So many for each agent.
    #[must_use]
    pub fn new(kind: Kind, most: usize) -> Arc<Self> {
        Arc::new(Self {
            kind,
            most,
            taken: Mutex::default(),
        })
    }

    /// One more for this agent.
    ///
    /// # Errors
    /// If it has as many as it may: it can try again when one has ended.
    pub(crate) fn take(self: &Arc<Self>, agent: &Arc<str>) -> Result<Share, ToolFailure> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let count = taken.entry(Arc::clone(agent)).or_default();
        if *count >= self.most {
            let (what, key) = self.kind.texts();
            return Err(ToolFailure::busy(
                "agent_limit",
                format!(
                    "this agent has {} {what} under way, which is as many as it may; wait for one \
                     of them to end and try again, or have the operator raise `global_limits.{key}`",
                    self.most
                ),
            ));
        }
        *count = count.saturating_add(1);
        Ok(Share {
            of: Arc::clone(self),
            agent: Arc::clone(agent),
        })
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut taken = self.of.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = taken.get_mut(&self.agent) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                taken.remove(&self.agent);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use a2e_runtime::Failure;
    use a2e_wire::ErrorCode;

    use super::*;

    #[test]
    fn each_agent_has_so_many_and_no_more() {
        let kinds = [Kind::Commands, Kind::Components, Kind::Fetches];
        for (kind, key) in kinds.map(|kind| (kind, kind.texts().1)) {
            let shares = Shares::new(kind, 2);
            let (ada, bob): (Arc<str>, Arc<str>) = ("ada".into(), "bob".into());
            let first = shares.take(&ada).unwrap();
            let second = shares.take(&ada).unwrap();
            let refused = Failure::from(shares.take(&ada).unwrap_err());
            assert_eq!(refused.code, ErrorCode::RuntimeError);
            assert!(refused.retryable);
            let message = &refused.message;
            assert!(
                message.contains(&format!("global_limits.{key}")),
                "{message}"
            );
            // Others have theirs.
            let other = shares.take(&bob).unwrap();
            drop(first);
            let third = shares.take(&ada).unwrap();
            assert!(shares.take(&ada).is_err());
            drop((second, third, other));
            assert!(
                shares.taken.lock().unwrap().is_empty(),
                "agents are forgotten"
            );
        }
    }
}

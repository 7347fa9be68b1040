//! What one agent can have under way at a time, so that something is left for others.

use std::sync::{Arc, Mutex, PoisonError};

use base::{Class, Limits, Quota};

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
    /// Processes that run a query on an SQLite database.
    Queries,
}

/// How much of something each agent may have under way.
#[derive(Debug)]
pub struct Shares {
    kind: Kind,
    taken: Mutex<Quota<Arc<str>>>,
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
            Self::Queries => ("queries", "max_queries_per_agent"),
        }
    }
}

impl Shares {
    /// So many for each agent.
    #[must_use]
    pub fn new(kind: Kind, most: usize) -> Arc<Self> {
        // Each agent is one that the operator has let in; what all have together is bounded by how
        // many agents there are.
        let limits = Limits {
            total: usize::MAX,
            per_holder: most,
            reserved: 0,
        };
        Arc::new(Self {
            kind,
            taken: Mutex::new(Quota::new(limits)),
        })
    }

    /// One more for this agent.
    ///
    /// # Errors
    /// If it has as many as it may: it can try again when one has ended.
    pub(crate) fn take(self: &Arc<Self>, agent: &Arc<str>) -> Result<Share, ToolFailure> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let one = taken.take(Arc::clone(agent), Class::Known, 1);
        one.map_err(|_| {
            let (what, key) = self.kind.texts();
            ToolFailure::busy(
                "agent_limit",
                format!(
                    "this agent has {} {what} under way, which is as many as it may; wait for one \
                     of them to end and try again, or have the operator raise `global_limits.{key}`",
                    taken.limits().per_holder
                ),
            )
        })?;
        Ok(Share {
            of: Arc::clone(self),
            agent: Arc::clone(agent),
        })
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut taken = self.of.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.give_back(&self.agent, Class::Known, 1);
    }
}

#[cfg(test)]
mod tests {
    use a2e_runtime::Failure;
    use a2e_wire::ErrorCode;

    use super::*;

    #[test]
    fn each_agent_has_so_many_and_no_more() {
        let kinds = [
            Kind::Commands,
            Kind::Components,
            Kind::Fetches,
            Kind::Queries,
        ];
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
            assert_eq!(shares.taken.lock().unwrap().total(), 0);
        }
    }
}

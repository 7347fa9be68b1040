//! Requests under way, counted for each agent over all its sessions: every one holds a slot of the
//! audit log, and many a thread, of which all agents together have so many.

use a2e_session::Failure;
use a2e_wire::{ErrorCode, Namespace};
use base::{Budget, Charge, Class, Limits};

/// Half of the threads for blocking work, and a sixteenth of the slots of the audit log.
pub(crate) const MAX_REQUESTS_PER_AGENT: usize = 256;

/// Why a request was refused, in records and to agents.
pub(crate) const AGENT_LIMIT: &str = "agent_limit";

/// Counts requests. Cheap to clone; all clones count together.
#[derive(Debug, Clone)]
pub(crate) struct InFlight {
    requests: Budget<String>,
    most: usize,
}

impl InFlight {
    /// At most so many of each agent. All agents are ones that the operator has let in, or peers whose
    /// requests are limited before they get here.
    pub(crate) fn new(most: usize) -> Self {
        let limits = Limits {
            total: usize::MAX,
            per_holder: most,
            reserved: 0,
        };
        Self {
            requests: Budget::new(limits),
            most,
        }
    }

    /// Counts a request of an agent until the charge is dropped.
    ///
    /// # Errors
    /// If the agent has as many as it may.
    pub(crate) fn begin(
        &self,
        agent: &str,
        namespace: Namespace,
    ) -> Result<Charge<String>, Failure> {
        let slot = self.requests.charge(agent.to_owned(), Class::Known, 1);
        slot.map_err(|_| {
            let text = format!(
                "this agent has {} requests under way, which is as many as it may; wait for one of \
                 them to end and try again, or have the operator raise \
                 `global_limits.max_requests_per_agent`",
                self.most
            );
            let mut failure = Failure::new(ErrorCode::RuntimeError, namespace, text);
            failure.retryable = true;
            failure.because(AGENT_LIMIT)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_agent_has_so_many_requests_under_way() {
        let requests = InFlight::new(2);
        let begin = |agent: &str| requests.begin(agent, Namespace::Tool);
        let first = begin("ada").unwrap();
        let _second = begin("ada").unwrap();
        let refused = begin("ada").unwrap_err();
        assert!(refused.retryable);
        assert!(refused.message.contains("has 2 requests under way"));
        let _other = begin("bob").unwrap();
        drop(first);
        begin("ada").unwrap();
    }
}

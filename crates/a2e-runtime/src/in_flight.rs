//! Requests under way, counted for each agent over all its sessions: every one holds a slot of the
//! audit log, and many a thread, of which all agents together have so many.

use a2e_session::Failure;
use a2e_wire::{ErrorCode, Namespace};
use base::{Budget, Charge, Class, Limits};

use crate::slots::Holder;

/// Half of the threads for blocking work, and a sixteenth of the slots of the audit log.
pub(crate) const MAX_REQUESTS_PER_AGENT: usize = 256;

/// Why a request was refused, in records and to agents.
pub(crate) const AGENT_LIMIT: &str = "agent_limit";

/// Counts requests. Cheap to clone; all clones count together.
#[derive(Debug, Clone)]
pub(crate) struct InFlight {
    requests: Budget<Holder>,
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
        agent: &Holder,
        namespace: Namespace,
    ) -> Result<Charge<Holder>, Failure> {
        let slot = self.requests.charge(agent.clone(), Class::Known, 1);
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
    use policy::TrustLevel;

    use super::*;
    use crate::auth::{Identity, Source};

    #[test]
    fn each_agent_has_so_many_requests_under_way() {
        let requests = InFlight::new(2);
        let begin = |identity: &Identity| {
            let (holder, _) = Holder::of(identity, Source::Own, true);
            requests.begin(&holder, Namespace::Tool)
        };
        let ada = Identity::named("ada");
        let first = begin(&ada).unwrap();
        let _second = begin(&ada).unwrap();
        let refused = begin(&ada).unwrap_err();
        assert!(refused.retryable);
        assert!(refused.message.contains("has 2 requests under way"));
        let _other = begin(&Identity::named("bob")).unwrap();
        // A DID is another agent than a token of the same name.
        begin(&Identity::proven("ada", "did:key:z6Mk", TrustLevel::Own)).unwrap();
        drop(first);
        begin(&ada).unwrap();
    }
}

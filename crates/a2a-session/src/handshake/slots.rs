//! How many sessions each agent has, and all together.

use std::collections::BTreeMap;

use a2a_wire::{DidText, Digest, ErrorCode};

use crate::failure::Failure;

/// How many sessions there are.
#[derive(Debug, Clone, Default)]
pub(super) struct Sessions {
    pub(super) total: usize,
    by_agent: BTreeMap<Digest, u32>,
}

impl Sessions {
    pub(super) fn check(&self, agent: &Digest, most: u32) -> Result<(), Failure> {
        let count = self.by_agent.get(agent).copied().unwrap_or_default();
        if count < most {
            return Ok(());
        }
        let cause = "the agent has as many sessions as it may";
        let failure = Failure::new(ErrorCode::RateLimitExceeded, cause);
        Err(failure
            .with_text("scope", "concurrent_sessions")
            .with_number("limit", u64::from(most)))
    }

    pub(super) fn reserve(
        &mut self,
        agent: Digest,
        most: u32,
        total: usize,
    ) -> Result<(), Failure> {
        self.check(&agent, most)?;
        if self.total >= total {
            let cause = "there are as many sessions as there may be";
            return Err(Failure::new(ErrorCode::ServiceUnavailable, cause));
        }
        self.total = self.total.saturating_add(1);
        let count = self.by_agent.entry(agent).or_default();
        *count = count.saturating_add(1);
        Ok(())
    }

    pub(super) fn release(&mut self, agent: &Digest) {
        if let Some(count) = self.by_agent.get_mut(agent) {
            self.total = self.total.saturating_sub(1);
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.by_agent.remove(agent);
            }
        }
    }
}

/// What stands for an agent where it is counted.
pub(crate) fn agent_key(did: &DidText) -> Digest {
    Digest::of(did.as_str().as_bytes())
}

//! How many sessions each agent has, and all together.

use std::collections::BTreeMap;

use a2a_identity::TrustLevel;
use a2a_wire::{DidText, Digest, ErrorCode};

use crate::failure::Failure;

/// One place in so many is kept for agents that somebody vouches for: DIDs are free, and whoever makes
/// many must not keep the others out.
const KEPT: usize = 10;

/// How many sessions there are.
#[derive(Debug, Clone, Default)]
pub(super) struct Sessions {
    pub(super) total: usize,
    /// Those of agents that nobody vouches for.
    newcomers: usize,
    by_agent: BTreeMap<Digest, u32>,
}

/// How many sessions there may be.
#[derive(Debug, Clone, Copy)]
pub(super) struct Places {
    /// Of one agent.
    pub(super) of_agent: u32,
    pub(super) in_all: usize,
    /// Whether anybody can be vouched for.
    pub(super) has_anchors: bool,
}

impl Places {
    /// Of all agents that nobody vouches for. Without anchors that is everybody.
    const fn of_newcomers(self) -> usize {
        match self.has_anchors {
            true => self.in_all.saturating_sub(self.in_all / KEPT),
            false => self.in_all,
        }
    }
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
        trust: TrustLevel,
        places: Places,
    ) -> Result<(), Failure> {
        self.check(&agent, places.of_agent)?;
        let is_newcomer = trust == TrustLevel::Own;
        let is_full =
            self.total >= places.in_all || (is_newcomer && self.newcomers >= places.of_newcomers());
        if is_full {
            let cause = "there are as many sessions as there may be";
            return Err(Failure::new(ErrorCode::ServiceUnavailable, cause));
        }
        self.total = self.total.saturating_add(1);
        self.newcomers = self.newcomers.saturating_add(usize::from(is_newcomer));
        let count = self.by_agent.entry(agent).or_default();
        *count = count.saturating_add(1);
        Ok(())
    }

    pub(super) fn release(&mut self, agent: &Digest, trust: TrustLevel) {
        if let Some(count) = self.by_agent.get_mut(agent) {
            self.total = self.total.saturating_sub(1);
            let is_newcomer = trust == TrustLevel::Own;
            self.newcomers = self.newcomers.saturating_sub(usize::from(is_newcomer));
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Threat 101: of twenty places newcomers get eighteen, if there is anybody to keep the others for.
    #[test]
    fn newcomers_leave_places_for_those_whom_somebody_vouches_for() {
        let agent = |name: u64| Digest::of(&name.to_be_bytes());
        let mut places = Places {
            of_agent: 1,
            in_all: 20,
            has_anchors: true,
        };
        let mut sessions = Sessions::default();
        let take = |sessions: &mut Sessions, places, trust, names: std::ops::Range<u64>| {
            let taken = names.filter(|name| sessions.reserve(agent(*name), trust, places).is_ok());
            taken.count()
        };
        assert_eq!(take(&mut sessions, places, TrustLevel::Own, 0..30), 18);
        assert_eq!(
            take(&mut sessions, places, TrustLevel::Verified, 100..101),
            1
        );
        assert_eq!(
            take(&mut sessions, places, TrustLevel::Delegated, 101..103),
            1
        );
        sessions.release(&agent(0), TrustLevel::Own);
        assert_eq!(take(&mut sessions, places, TrustLevel::Own, 30..32), 1);
        sessions.release(&agent(100), TrustLevel::Verified);
        assert_eq!(take(&mut sessions, places, TrustLevel::Own, 32..33), 0);
        places.has_anchors = false;
        assert_eq!(take(&mut sessions, places, TrustLevel::Own, 33..35), 1);
    }
}

//! What the sessions of one agent share: how often it may ask, and what it had done already.

use std::time::Duration;

use a2a_identity::TrustLevel;
use a2a_wire::{Digest, ErrorCode};
use policy::{Buckets, Rate, Refused};

use super::works::{WorkLimits, Works};
use crate::Now;
use crate::failure::Failure;

/// How often agents ask, and what they had done. One for a node; all its operations are short.
#[derive(Debug)]
pub struct Agents {
    buckets: Buckets<BucketKey>,
    newcomers: Rate,
    pub(crate) works: Works,
}

/// Limits over all agents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AgentLimits {
    /// Token buckets that are kept at once.
    pub buckets: usize,
    /// How often all agents of trust level `self` may ask together: DIDs are free.
    pub newcomers: Rate,
    /// What is remembered of work.
    pub works: WorkLimits,
}

impl Default for AgentLimits {
    fn default() -> Self {
        Self {
            buckets: 200_000,
            newcomers: Rate::new(60_000, 60).unwrap_or(Rate::DEFAULT),
            works: WorkLimits::default(),
        }
    }
}

/// Names a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum BucketKey {
    /// All agents that nobody vouches for.
    Newcomers,
    Agent(Digest),
    Session(Digest),
}

/// Whose tokens a request takes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asker {
    pub(crate) agent: Digest,
    pub(crate) session: Digest,
    pub(crate) trust: TrustLevel,
    pub(crate) rate: Rate,
}

impl Agents {
    /// Nobody has asked for anything yet.
    #[must_use]
    pub fn new(limits: AgentLimits) -> Self {
        Self {
            buckets: Buckets::new(limits.buckets),
            newcomers: limits.newcomers,
            works: Works::new(limits.works),
        }
    }

    /// Takes a token from each bucket that a request concerns, or from none.
    pub(crate) fn take(&mut self, now: Now, asker: &Asker) -> Result<(), Failure> {
        let newcomers = (&BucketKey::Newcomers, self.newcomers);
        let agent = (&BucketKey::Agent(asker.agent), asker.rate);
        let session = (&BucketKey::Session(asker.session), asker.rate);
        let time = now.monotonic;
        let (taken, scopes) = match asker.trust {
            TrustLevel::Own => (
                self.buckets.take(time, [newcomers, session, agent]),
                ["agent", "session", "agent"].as_slice(),
            ),
            TrustLevel::Delegated | TrustLevel::Verified => (
                self.buckets.take(time, [session, agent]),
                ["session", "agent"].as_slice(),
            ),
        };
        taken.map_err(|refused| exceeded(now, refused, scopes))
    }

    /// Forgets what belonged to a session that has ended.
    pub(crate) fn session_ended(&mut self, agent: &Digest, session: &Digest) {
        self.buckets.forget(&BucketKey::Session(*session));
        self.works.session_ended(agent, session);
    }

    /// Forgets what is old.
    pub fn handle_timeout(&mut self, now: Now) {
        self.works.expire(now.monotonic);
    }

    /// Records what work came to, for whoever asks for it again. `None`: it came to nothing, and may
    /// be tried again.
    pub fn finish(
        &mut self,
        now: Now,
        work: super::works::WorkId,
        result: Option<&canonical::Value<'static>>,
    ) {
        self.works.finish(now.monotonic, work, result);
    }
}

fn exceeded(now: Now, refused: Refused, scopes: &[&'static str]) -> Failure {
    let millis = |wait: Duration| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX).max(1);
    match refused {
        Refused::NoRoom { retry_after } => {
            let failure = Failure::new(ErrorCode::ServiceUnavailable, refused.to_string());
            failure.with_number("retry_after_ms", millis(retry_after))
        }
        Refused::Exceeded(limited) => {
            let exceeded = limited.exceeded;
            let scope = scopes.get(limited.index).copied().unwrap_or("agent");
            Failure::new(ErrorCode::RateLimitExceeded, limited.to_string())
                .with_number("current_rate", u64::from(exceeded.current_rate))
                .with_number("limit", u64::from(exceeded.rate.limit()))
                .with_number("reset_at", exceeded.reset_at(now.since_epoch()))
                .with_number("retry_after_ms", exceeded.retry_after_ms())
                .with_text("scope", scope)
        }
    }
}

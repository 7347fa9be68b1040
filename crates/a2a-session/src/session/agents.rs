//! What the sessions of one agent share: how often it may ask, and what it had done already.

use std::time::Duration;

use a2a_wire::{Digest, ErrorCode};
use base::{Class, Limits, Table};
use policy::{Limited, Rate, TokenBucket};

use super::works::{WorkLimits, Works};
use crate::failure::Failure;
use crate::{Holder, Now};

/// How often agents ask, and what they had done. One for a node; all its operations are short.
#[derive(Debug)]
pub struct Agents {
    /// The bucket that all strangers share.
    strangers: TokenBucket,
    /// The bucket that the strangers of each source share which has asked lately.
    sources: Table<Holder, Holder, TokenBucket>,
    source_rate: Rate,
    /// The bucket of each agent that has asked lately.
    buckets: Table<Holder, Digest, TokenBucket>,
    next_sweep: Duration,
    pub(crate) works: Works,
}

/// Limits over all agents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AgentLimits {
    /// Token buckets that are kept at once.
    pub buckets: Limits,
    /// How often all strangers may ask together: DIDs are free. Those of one source have a quarter.
    pub newcomers: Rate,
    /// What is remembered of work.
    pub works: WorkLimits,
}

impl Default for AgentLimits {
    fn default() -> Self {
        Self {
            buckets: Limits {
                total: 65_536,
                per_holder: 1024,
                reserved: 16_384,
            },
            newcomers: Rate::new(60_000, 60).unwrap_or(Rate::DEFAULT),
            works: WorkLimits::default(),
        }
    }
}

/// How far apart two searches for idle buckets are: each looks at all of them.
const SWEEP: Duration = Duration::from_secs(60);

/// Of the tokens that all strangers share, those of one source have one in so many.
const SHARE: u32 = 4;

/// Whose tokens a request takes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asker {
    pub(crate) agent: Digest,
    pub(crate) holder: Holder,
    /// The server's own rate for the agent. A client that asks for less gets less in its session, and
    /// has no say in how long its bucket is kept.
    pub(crate) rate: Rate,
}

impl Agents {
    /// Nobody has asked for anything yet.
    #[must_use]
    pub fn new(limits: AgentLimits) -> Self {
        let share = limits.newcomers.limit().div_ceil(SHARE);
        let source_rate = Rate::new(share, limits.newcomers.period());
        Self {
            strangers: TokenBucket::new(limits.newcomers, Duration::ZERO),
            sources: Table::new(Limits {
                per_holder: 1,
                ..limits.buckets
            }),
            source_rate: source_rate.unwrap_or(limits.newcomers),
            buckets: Table::new(limits.buckets),
            next_sweep: Duration::ZERO,
            works: Works::new(limits.works),
        }
    }

    /// Agents whose buckets are kept.
    #[must_use]
    pub fn buckets(&self) -> usize {
        self.buckets.len()
    }

    /// Takes a token from each bucket that a request concerns, or from none.
    pub(crate) fn take(
        &mut self,
        now: Now,
        asker: &Asker,
        session: &mut TokenBucket,
    ) -> Result<(), Failure> {
        let time = now.monotonic;
        let class = asker.holder.class();
        let known = self.buckets.remove(&asker.agent);
        let mut agent = known.unwrap_or_else(|| TokenBucket::new(asker.rate, time));
        agent.set_rate(asker.rate, time);
        let taken = match class {
            Class::Stranger => {
                let known = self.sources.remove(&asker.holder);
                let mut source = known.unwrap_or_else(|| TokenBucket::new(self.source_rate, time));
                let all = [session, &mut agent, &mut source, &mut self.strangers];
                let taken = TokenBucket::take_all(time, all);
                let _ = (self.sources).insert(asker.holder, class, asker.holder, source);
                taken
            }
            Class::Known => TokenBucket::take_all(time, [session, &mut agent]),
        };
        // A full one is no different from the one that its agent gets when it comes back. A stranger
        // gains nothing by one that gives way: another name is free, and all of them share a bucket.
        if !agent.is_full(time) {
            let _ = self.buckets.insert(asker.holder, class, asker.agent, agent);
        }
        taken.map_err(|limited| exceeded(now, limited))
    }

    /// Forgets what belonged to a session that has ended.
    pub(crate) fn session_ended(&mut self, session: &Digest) {
        self.works.session_ended(session);
    }

    /// Forgets what is old.
    pub fn handle_timeout(&mut self, now: Now) {
        self.works.expire(now.monotonic);
        if now.monotonic >= self.next_sweep {
            self.next_sweep = now.after(SWEEP);
            self.forget_idle(now.monotonic);
        }
    }

    /// Forgets full buckets: they are no different from those that their agents get when they come back.
    fn forget_idle(&mut self, now: Duration) {
        forget_full(&mut self.buckets, now);
        forget_full(&mut self.sources, now);
    }

    /// Records the result of work for whoever asks for it again. `None`: it has none, and the store
    /// says whether it may be tried again.
    pub fn finish(
        &mut self,
        now: Now,
        work: super::works::WorkId,
        result: Option<&canonical::Value<'static>>,
    ) {
        self.works.finish(now.monotonic, work, result);
    }
}

fn forget_full<K: Ord + Clone>(buckets: &mut Table<Holder, K, TokenBucket>, now: Duration) {
    let full = buckets.iter().filter(|(_, bucket)| bucket.is_full(now));
    let idle: Vec<K> = full.map(|(key, _)| key.clone()).collect();
    for key in idle {
        buckets.remove(&key);
    }
}

fn exceeded(now: Now, limited: Limited) -> Failure {
    let exceeded = limited.exceeded;
    let scope = match limited.index {
        0 => "session",
        _ => "agent",
    };
    Failure::new(ErrorCode::RateLimitExceeded, limited.to_string())
        .with_number("current_rate", u64::from(exceeded.current_rate))
        .with_number("limit", u64::from(exceeded.rate.limit()))
        .with_number("reset_at", exceeded.reset_at(now.since_epoch()))
        .with_number("retry_after_ms", exceeded.retry_after_ms())
        .with_text("scope", scope)
}

//! Letting a verified request in (§10.3, steps 3a to 6a).

use std::time::Duration;

use a2a_wire::{Digest, ErrorCode, Intent, Reason, Request, RequestId};
use canonical::Value;
use policy::{EffectivePolicy, IntentName};

use super::hold::{blocked, refused};
use super::{Handled, Host, ServerSession, Start};
use crate::failure::{Binding, Failure, replayed};
use crate::replay::id_key;
use crate::session::agents::{Agents, Asker};
use crate::session::checks::Checked;
use crate::session::record::{Check, Record};
use crate::session::requests::{Running, Stream, Token};
use crate::session::works::{Order, Work};
use crate::{EndReason, Now};

impl ServerSession {
    /// Step 3a: records the id and the counter, both or neither. The loser of a race is refused.
    pub(super) fn remember(&mut self, now: Now, checked: &Checked) -> Result<(), Failure> {
        let id = id_key(&checked.request_id);
        if self.ids.contains(now.monotonic, &id) {
            let cause = "the request id was used before";
            return Err(replayed(Reason::RequestIdReused, cause));
        }
        match (self.terms.binding, checked.seq) {
            (Binding::Profile, seq) => {
                let fresh = self.window.take(seq.unwrap_or_default());
                let cause = "the counter was used before, or lies below the window";
                fresh.map_err(|_| replayed(Reason::SeqReused, cause))?;
                // The counter alone stops replays: of ids, the oldest may go.
                if self.ids.insert(now.monotonic, id).is_err() {
                    self.ids.forget_oldest();
                    let _ = self.ids.insert(now.monotonic, id);
                }
                Ok(())
            }
            // Here the id alone does, so none is ever forgotten.
            (Binding::Baseline, _) => {
                let kept = self.ids.insert(now.monotonic, id);
                kept.map_err(|_| {
                    self.over.get_or_insert(EndReason::Exhausted);
                    let cause = "the session has used up its request ids";
                    Failure::new(ErrorCode::SessionExpired, cause)
                })
            }
        }
    }

    /// Steps 4 to 6a. Returns what may start, and what was asked for.
    pub(super) fn start(
        &mut self,
        now: Now,
        (intent, request_id): (Option<Value<'static>>, &RequestId),
        record: &mut Record,
        size: usize,
        (agents, host): (&mut Agents, &dyn Host),
    ) -> Result<(Box<Start>, IntentName), Failure> {
        // What is wrong with it is said when its turn comes.
        let read = read_intent(intent.as_ref());
        if let Ok(intent) = &read {
            record.intend(intent);
        }
        self.check_rate(now, record, agents, host)?;
        let (tree, intent) = (intent.unwrap_or(Value::Null), read?);
        let (requested, handler) = self.check_intent(&intent, record, host)?;
        self.check_size(size, record)?;
        let handler = handler.ok_or_else(|| {
            let cause = format!("nobody serves `{requested}`");
            Failure::new(ErrorCode::UnsupportedCapability, cause)
        })?;
        let work = self.work(now, &intent, &tree, agents)?;
        let asked = intent.constraints.as_ref().and_then(|it| it.stream);
        let start = Start {
            token: Token::NONE,
            request_id: request_id.to_string(),
            deadline: self.deadline(now, &intent),
            intent,
            tree,
            handler,
            work,
            stream: asked == Some(true) && self.terms.features.stream,
            retention: self.retention(),
        };
        Ok((Box::new(start), requested))
    }

    pub(super) fn begin(
        &mut self,
        (mut start, requested): (Box<Start>, IntentName),
        (request_id, request_hash): (RequestId, Digest),
        mut record: Box<Record>,
    ) -> Handled {
        record.approved = true;
        start.token = self.requests.insert(Running {
            request_id,
            request_hash,
            deadline: start.deadline,
            stream: start.stream.then(|| Stream::new(&request_hash)),
            has_name: start.intent.intent_id.is_some(),
            requested,
            handler: start.handler.clone(),
            record,
        });
        Handled::Start(start)
    }

    /// Step 4: the operator's word, and a token from each bucket.
    fn check_rate(
        &mut self,
        now: Now,
        record: &mut Record,
        agents: &mut Agents,
        host: &dyn Host,
    ) -> Result<(), Failure> {
        if host.is_blocked(self.terms.peer.did()) {
            return Err(blocked());
        }
        record.checks.rate_limit = Check::Failed;
        if self.requests.len() >= self.limits.in_flight {
            let cause = "the session has as many requests under way as it may";
            let limit = u64::try_from(self.limits.in_flight).unwrap_or(u64::MAX);
            return Err(Failure::new(ErrorCode::RateLimitExceeded, cause)
                .with_number("limit", limit)
                .with_text("scope", "session"));
        }
        self.bucket.set_rate(self.rate(), now.monotonic);
        let asker = Asker {
            agent: self.agent,
            holder: self.terms.holder,
            rate: host.rate(self.terms.peer.did()),
        };
        agents.take(now, &asker, &mut self.bucket)?;
        record.checks.rate_limit = Check::Passed;
        Ok(())
    }

    /// Step 5: the name, and both lists.
    fn check_intent(
        &self,
        intent: &Intent,
        record: &mut Record,
        host: &dyn Host,
    ) -> Result<(IntentName, Option<IntentName>), Failure> {
        let domain = intent.domain.as_ref().map_or("", |domain| domain.as_str());
        let requested = IntentName::of(domain, intent.goal.as_str()).map_err(|error| {
            let failure = Failure::new(ErrorCode::InvalidIntent, error.to_string());
            let failure = failure.because(Reason::BadField);
            failure.with_text("field", format!("intent.{}", error.place))
        })?;
        let handler = host.resolve(&requested);
        record.checks.intent_allowed = Check::Failed;
        let mut policies = self.policies();
        policies
            .try_for_each(|policy| refused(policy.check_intent(&requested, handler.as_ref())))?;
        record.checks.intent_allowed = Check::Passed;
        Ok((requested, handler))
    }

    /// Step 6.
    fn check_size(&self, size: usize, record: &mut Record) -> Result<(), Failure> {
        let size = u64::try_from(size).unwrap_or(u64::MAX);
        let refuses = |policy: &&EffectivePolicy| !policy.admits_body(size);
        let Some(policy) = self.policies().find(refuses) else {
            record.checks.payload_size = Check::Passed;
            return Ok(());
        };
        record.checks.payload_size = Check::Failed;
        let cause = "the request is not smaller than max_payload_size";
        Err(Failure::new(ErrorCode::PayloadTooLarge, cause)
            .with_number("limit", policy.max_payload_size())
            .with_number("size", size))
    }

    /// The earliest of what the client asks for, what the server gives, and the end of the session.
    fn deadline(&self, now: Now, intent: &Intent) -> Duration {
        let asked = intent.constraints.as_ref().and_then(|it| it.timeout_ms);
        let asked = asked.map(|asked| Duration::from_millis(asked.0));
        let most = self.limits.deadline;
        let wait = asked.map_or(most, |asked| asked.min(most));
        now.after(wait).min(self.ends)
    }

    /// Step 6a: work that has a name is done once.
    fn work(
        &self,
        now: Now,
        intent: &Intent,
        tree: &Value<'static>,
        agents: &mut Agents,
    ) -> Result<Work, Failure> {
        let Some(intent_id) = intent.intent_id.clone() else {
            return Ok(Work::Do(None));
        };
        let order = Order {
            agent: self.agent,
            holder: self.terms.holder,
            session: self.session,
            intent_id,
            intent: tree.digest(),
            retention: self.retention(),
        };
        agents.works.ask(now.monotonic, order)
    }
}

/// Step 5: the form of the intent.
fn read_intent(intent: Option<&Value<'_>>) -> Result<Intent, Failure> {
    Ok(Request::read_intent_of(intent)?)
}

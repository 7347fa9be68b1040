//! The one decision point: whether a request may go to its plugin.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use a2e_session::{Failure, Now};
use a2e_wire::wire::ToStatic;
use a2e_wire::{Body, Capability, ErrorCode, Message, Namespace, Tag};
use canonical::{Digest, Value};
use policy::{
    Agent, Arguments, Buckets, Call, Effect, Exceeded, Refused, RepeatBreaker, Rules,
    UnreadableArguments,
};
use serde_json::json;

use crate::policies::CUSTOM;

/// What is counted of agents, whatever their rules are at the moment.
#[derive(Debug)]
pub(crate) struct Counters {
    buckets: Mutex<Buckets<String>>,
    breakers: Mutex<HashMap<String, RepeatBreaker>>,
}

/// A request, as it is decided about.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub(crate) agent: &'a str,
    pub(crate) message: &'a Message<'a>,
    /// The request as received.
    pub(crate) line: &'a [u8],
}

/// What is to happen to a request.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Ruling<'r> {
    pub(crate) verdict: Verdict,
    /// The rule that says so.
    pub(crate) rule: &'r str,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Verdict {
    Allow,
    /// The operator is asked, if the call can be told from all others.
    Hold(Digest),
    Deny(Failure),
    /// There were too many.
    Limited(Failure),
}

/// Agents that rates and repetitions are counted for.
const AGENTS: usize = 100_000;

/// What the rule is called that stops repetitions, and the one that limits rates.
const REPEAT: &str = "policy.repeat";
const RATE: &str = "policy.rate_limit";

impl Default for Counters {
    fn default() -> Self {
        Self {
            buckets: Mutex::new(Buckets::new(AGENTS)),
            breakers: Mutex::default(),
        }
    }
}

impl Counters {
    /// Decides about a request. It is counted, whatever comes of it.
    pub(crate) fn decide<'r>(&self, rules: &'r Rules, now: Now, asked: Asked<'_>) -> Ruling<'r> {
        let namespace = asked.namespace();
        if let Err(exceeded) = self.take(rules, now.monotonic, asked.agent) {
            let limited = rate_limited(namespace, exceeded, now);
            return Ruling {
                verdict: Verdict::Limited(limited),
                rule: RATE,
            };
        }
        let capability = asked.capability();
        let decision = rules.decide(&Call {
            agent: Agent {
                id: asked.agent,
                did: None,
                trust: None,
            },
            capability: capability.as_ref().map_or(CUSTOM, Capability::as_str),
            name: asked.name(),
            arguments: &asked,
        });
        let repeated = match decision.effect {
            Effect::Deny => None,
            Effect::Allow | Effect::Hold => self.repeated(rules, now.monotonic, asked),
        };
        let repeated = repeated.filter(|effect| *effect > decision.effect);
        let effect = repeated.unwrap_or(decision.effect);
        let rule = repeated.map_or(decision.rule, |_| REPEAT);
        let verdict = match effect {
            Effect::Allow => Verdict::Allow,
            Effect::Hold => match asked.hash() {
                Some(hash) => Verdict::Hold(hash),
                None => {
                    let reason = "what cannot be written in one way only cannot be approved";
                    Verdict::Deny(denied(namespace, rule, reason))
                }
            },
            Effect::Deny => {
                let reason = match repeated {
                    Some(_) => "the same call came too often".to_owned(),
                    None => decision.reason.to_string(),
                };
                Verdict::Deny(denied(namespace, rule, &reason))
            }
        };
        Ruling { verdict, rule }
    }

    /// The operator has approved of a call: it is no repetition any more.
    pub(crate) fn approved(&self, agent: &str, call: &Digest) {
        if let Some(breaker) = lock(&self.breakers).get_mut(agent) {
            breaker.forget(call.as_bytes());
        }
    }

    fn take(&self, rules: &Rules, now: Duration, agent: &str) -> Result<(), Option<Exceeded>> {
        let Some(rate) = rules.rate() else {
            return Ok(());
        };
        let taken = lock(&self.buckets).take(now, [(&agent.to_owned(), rate)]);
        taken.map_err(|refused| match refused {
            Refused::Exceeded(limited) => Some(limited.exceeded),
            Refused::NoRoom { .. } => None,
        })
    }

    fn repeated(&self, rules: &Rules, now: Duration, asked: Asked<'_>) -> Option<Effect> {
        let repeat = rules.repeat()?;
        let hash = asked.hash()?;
        let mut breakers = lock(&self.breakers);
        if breakers.len() >= AGENTS && !breakers.contains_key(asked.agent) {
            // Whoever is counted again begins at nothing; better than to refuse or to forget no one.
            breakers.clear();
        }
        let breaker = breakers
            .entry(asked.agent.to_owned())
            .or_insert_with(|| RepeatBreaker::new(repeat));
        breaker.set(repeat);
        breaker.observe(now, hash.as_bytes())
    }
}

impl<'a> Asked<'a> {
    pub(crate) fn namespace(self) -> Namespace {
        self.message
            .body
            .tag()
            .map_or(Namespace::Base, Tag::namespace)
    }

    /// None of the catalogue's for types beside it.
    pub(crate) fn capability(self) -> Option<Capability<'static>> {
        self.namespace().capability()
    }

    /// What is called: a tool, a skill, an environment, a program; else the type of the message.
    pub(crate) fn name(self) -> &'a str {
        #[expect(
            clippy::wildcard_enum_match_arm,
            reason = "nothing else calls something by its name"
        )]
        let name = match &self.message.body {
            Body::ToolCallRequest(call) => Some(&*call.tool_name),
            Body::SkillCallRequest(call) => Some(&*call.name),
            Body::ToolkitConfigureRequest(configure) => Some(&*configure.toolkit_name),
            Body::EnvResetRequest(reset) => Some(&*reset.env_name),
            Body::ProcSpawnRequest(spawn) => spawn.cmd.first().map(|program| &**program),
            _ => None,
        };
        name.filter(|name| !name.is_empty())
            .unwrap_or_else(|| self.message.type_name())
    }

    /// Exactly this call, however and however often it is sent; none if it cannot be told.
    pub(crate) fn hash(self) -> Option<Digest> {
        let content = content(self.line, &["id"])?;
        Some(Digest::of(&content))
    }
}

impl Arguments for Asked<'_> {
    /// The arguments of a tool or a skill; else the message itself.
    fn to_json(&self) -> Result<serde_json::Value, UnreadableArguments> {
        let mut message: serde_json::Value =
            serde_json::from_slice(self.line).map_err(|_| UnreadableArguments)?;
        let has_arguments = matches!(
            self.message.body,
            Body::ToolCallRequest(_) | Body::SkillCallRequest(_)
        );
        match has_arguments {
            true => Ok(message
                .get_mut("arguments")
                .map_or_else(|| serde_json::json!({}), serde_json::Value::take)),
            false => Ok(message),
        }
    }
}

/// The canonical form of what a request asks for, without what each sending changes and these.
pub(crate) fn content(line: &[u8], without: &[&str]) -> Option<Vec<u8>> {
    let Ok(Value::Object(mut request)) = Value::parse_within(line, LIMITS) else {
        return None;
    };
    for name in ["a2e", "version", "ts", "session_id"].iter().chain(without) {
        request.remove(name);
    }
    Some(Value::Object(request).to_canonical())
}

/// Numbers that do not fit a double have no canonical form.
const LIMITS: a2e_wire::Limits = a2e_wire::Limits {
    depth: 127,
    values: usize::MAX,
    ..canonical::LIMITS
};

/// A call that the rules refuse.
fn denied(namespace: Namespace, rule: &str, reason: &str) -> Failure {
    let text = format!("the rule `{rule}` refuses this: {reason}");
    let detail = json!({"rule": rule});
    refusal(namespace, text, &detail)
}

/// A held call that the operator refused, or said nothing about.
pub(crate) fn not_approved(namespace: Namespace, rule: &str, approval: Option<&str>) -> Failure {
    let text = format!("the rule `{rule}` asks for the operator's approval, and there was none");
    let detail = json!({"rule": rule, "reason": "not_approved", "approval_id": approval});
    refusal(namespace, text, &detail)
}

fn refusal(namespace: Namespace, text: String, detail: &serde_json::Value) -> Failure {
    let code = match namespace == Namespace::Tool {
        true => ErrorCode::ToolDenied,
        false => ErrorCode::Unauthorized,
    };
    let mut failure = Failure::new(code, namespace, text);
    failure.retryable = false;
    with_detail(failure, detail)
}

fn rate_limited(namespace: Namespace, exceeded: Option<Exceeded>, now: Now) -> Failure {
    let unix = Duration::try_from_secs_f64(now.unix.unix_seconds()).unwrap_or_default();
    let reset_at = exceeded.map_or_else(
        || unix.as_secs().saturating_add(1),
        |exceeded| exceeded.reset_at(unix),
    );
    let text = format!("too many requests; the next is taken at {reset_at} (Unix time)");
    let mut failure = Failure::new(ErrorCode::RuntimeError, namespace, text);
    failure.retryable = true;
    with_detail(
        failure,
        &json!({"reason": "rate_limited", "reset_at": reset_at}),
    )
}

/// A request that cannot be put on record.
pub(crate) fn unrecorded(namespace: Namespace) -> Failure {
    let text =
        "the host cannot put requests on record at the moment, so it does none; try again later";
    let mut failure = Failure::new(ErrorCode::RuntimeError, namespace, text);
    failure.retryable = true;
    failure.because("audit_unavailable")
}

fn with_detail(mut failure: Failure, detail: &serde_json::Value) -> Failure {
    if let Ok(detail) = a2e_wire::Object::parse(&detail.to_string()) {
        failure.detail = detail.to_static();
    }
    failure
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

//! The one decision point: whether a request may go to its plugin.

mod asked;
mod listing;
mod trial;

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use a2e_session::{Failure, Now};
use a2e_wire::wire::ToStatic;
use a2e_wire::{Capability, ErrorCode, Namespace};
use canonical::Digest;
use policy::{
    Agent, Arguments, Buckets, Call, Decision, Effect, Exceeded, Reason, Refused, RepeatBreaker,
    Rules,
};
use serde_json::json;

use crate::approvals::{ApprovalDecision, Word};
use crate::auth::Identity;
use crate::policies::CUSTOM;

pub(crate) use asked::{Asked, content};
pub use listing::{Listed, Permissions};
pub(crate) use listing::{is_listing, listings, retain_usable};
pub use trial::TrialError;

/// What is counted of agents, whatever their rules are at the moment.
#[derive(Debug)]
pub(crate) struct Counters {
    buckets: Mutex<Buckets<String>>,
    breakers: Mutex<HashMap<String, RepeatBreaker>>,
}

/// What is to happen to a request.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Ruling<'r> {
    pub(crate) verdict: Verdict,
    /// The rule that says so: its id, or else its place in the configuration. Not for agents.
    pub(crate) rule: &'r str,
    /// The rule as agents know it.
    name: &'r str,
    /// The digest of the rule; none if repetitions decided.
    pub(crate) hash: Option<Digest>,
}

/// The names of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RuleName {
    /// Its id, or else its place in the configuration.
    pub(crate) label: String,
    /// What agents are told.
    pub(crate) name: String,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Verdict {
    Allow,
    /// The operator is asked, once it is known what the call stands for.
    Hold(Repetition),
    Deny(Failure),
}

/// What a call has in common with its repetitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Repetition(Digest);

/// Agents that rates and repetitions are counted for.
const AGENTS: usize = 100_000;

/// What the rule is called that stops repetitions, and what agents are told.
const REPEAT: (&str, &str) = ("policy.repeat", "repeat");

impl Default for Counters {
    fn default() -> Self {
        Self {
            buckets: Mutex::new(Buckets::new(AGENTS)),
            breakers: Mutex::default(),
        }
    }
}

impl Ruling<'_> {
    pub(crate) fn rule_name(&self) -> RuleName {
        RuleName {
            label: self.rule.to_owned(),
            name: self.name.to_owned(),
        }
    }
}

impl Counters {
    /// Counts a request; one too many is refused.
    pub(crate) fn count(&self, rules: &Rules, now: Now, asked: Asked<'_>) -> Result<(), Failure> {
        let taken = self.take(rules, now.monotonic, asked.agent());
        taken.map_err(|exceeded| rate_limited(asked.namespace(), exceeded, now))
    }

    /// Decides about a request that was counted.
    pub(crate) fn decide<'r>(&self, rules: &'r Rules, now: Now, asked: Asked<'_>) -> Ruling<'r> {
        let namespace = asked.namespace();
        let decision = ask(rules, asked);
        let repeated = match decision.effect {
            Effect::Deny => None,
            Effect::Allow | Effect::RequireApproval => self.repeated(rules, now.monotonic, asked),
        };
        let repeated = repeated.filter(|effect| *effect > decision.effect);
        let effect = repeated.unwrap_or(decision.effect);
        let (rule, name) = repeated.map_or_else(|| (decision.rule, decision.name()), |_| REPEAT);
        let hash = repeated.is_none().then_some(decision.hash);
        let verdict = match effect {
            Effect::Allow => Verdict::Allow,
            Effect::RequireApproval => Verdict::Hold(Repetition(asked.repetition())),
            Effect::Deny => {
                let reason = match repeated {
                    Some(_) => Some("the same call came too often".to_owned()),
                    None => told(decision.reason, asked),
                };
                Verdict::Deny(denied(namespace, name, reason.as_deref()))
            }
        };
        Ruling {
            verdict,
            rule,
            name,
            hash,
        }
    }

    /// The operator has approved of a call: it is no repetition any more.
    pub(crate) fn approved(&self, agent: &str, Repetition(call): Repetition) {
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
        let hash = asked.repetition();
        let mut breakers = lock(&self.breakers);
        if breakers.len() >= AGENTS && !breakers.contains_key(asked.agent()) {
            // Whoever is counted again begins at nothing; better than to refuse or to forget no one.
            breakers.clear();
        }
        let breaker = breakers
            .entry(asked.agent().to_owned())
            .or_insert_with(|| RepeatBreaker::new(repeat));
        breaker.set(repeat);
        breaker.observe(now, hash.as_bytes())
    }
}

/// What the rules say of a request, of each that it stands for, and of all that is inside it: the
/// strictest counts.
fn ask<'r>(rules: &'r Rules, asked: Asked<'_>) -> Decision<'r> {
    let agent = agent(asked.identity);
    let lists = is_listing(&asked.message.body);
    let decide = |capability: &str, name: &str, arguments: &dyn Arguments| {
        let call = Call {
            agent,
            capability,
            name,
            arguments,
        };
        match lists {
            true => rules.decide_listing(&call),
            false => rules.decide(&call),
        }
    };
    let capability = asked.capability();
    let capability = rule_name(capability.as_ref());
    let each = asked.each();
    let decisions = each.map(|one| decide(capability, asked.name(), &one));
    // Of equal ones the first.
    let strictest = decisions.reduce(|strictest, other| match other.effect > strictest.effect {
        true => other,
        false => strictest,
    });
    let mut strictest = strictest.unwrap_or_else(|| decide(capability, asked.name(), &asked));
    for nested in asked.nested() {
        let decision = decide(nested.capability, &nested.name, &nested);
        // What comes as a request of its own is refused early if that is certain, and held when it comes.
        let is_certain = matches!(decision.reason, Reason::Rule(_) | Reason::Default);
        let counts = !asked.is_asked_again || (decision.effect == Effect::Deny && is_certain);
        if counts && decision.effect > strictest.effect {
            strictest = decision;
        }
    }
    strictest
}

/// An agent as rules know it.
fn agent(identity: &Identity) -> Agent<'_> {
    let proven = identity.proven.as_ref();
    Agent {
        id: &identity.agent,
        did: proven.map(|proven| proven.did.as_str()),
        trust: proven.map(|proven| proven.trust),
    }
}

/// A capability as rules name it; types beside the catalogue have none of its.
fn rule_name<'c>(capability: Option<&'c Capability<'_>>) -> &'c str {
    capability.map_or(CUSTOM, Capability::as_str)
}

/// Whether the rules still let a call be done that the operator has approved of.
pub(crate) fn still(rules: &Rules, asked: Asked<'_>) -> Result<(), Failure> {
    let decision = ask(rules, asked);
    match decision.effect {
        Effect::Allow | Effect::RequireApproval => Ok(()),
        Effect::Deny => {
            let reason = told(decision.reason, asked);
            let reason = reason.as_deref();
            Err(denied(asked.namespace(), decision.name(), reason))
        }
    }
}

/// Why a rule decides so, if there is more to say than that it does.
fn told(reason: Reason<'_>, asked: Asked<'_>) -> Option<String> {
    let why = match reason {
        Reason::Rule(None) => None,
        Reason::Rule(Some(_)) | Reason::Default | Reason::Condition(_) => Some(reason.to_string()),
    };
    let Some(member) = asked.left_out() else {
        return why;
    };
    let why = why.map(|why| format!("{why}; ")).unwrap_or_default();
    Some(format!(
        "{why}the request names no `{member}`, so it stands for all there are, and the rule for one of \
         them is this; name a `{member}`"
    ))
}

/// A call that the rules refuse.
fn denied(namespace: Namespace, rule: &str, reason: Option<&str>) -> Failure {
    let reason = reason.map(|reason| format!(": {reason}"));
    let reason = reason.unwrap_or_default();
    let text = format!("the rule `{rule}` refuses this{reason}; {CHANGED_BY}");
    let detail = json!({"rule": rule});
    refusal(namespace, text, &detail)
}

/// A held call that is too large for anybody to have seen all of it.
pub(crate) fn too_large(namespace: Namespace, rule: &str, most: usize) -> Failure {
    let text = format!(
        "the rule `{rule}` asks for the operator's approval, and a call of more than {most} bytes \
         cannot be shown to the operator"
    );
    let detail = json!({"rule": rule, "reason": "approval_unavailable"});
    refusal(namespace, text, &detail)
}

/// An ambiguous call: its text can be written in more than one way.
pub(crate) fn ambiguous(namespace: Namespace, rule: &str) -> Failure {
    let reason = "what cannot be written in one way only cannot be approved";
    denied(namespace, rule, Some(reason))
}

/// A call that the operator has approved of, and that is something else by now.
pub(crate) fn changed(namespace: Namespace) -> Failure {
    let text = "what the operator approved has changed since: the tool, the server or the skill behind \
                this name is another, or is configured otherwise; send the call again, and the operator \
                is asked about what it is now";
    refusal(
        namespace,
        text.to_owned(),
        &json!({"reason": "changed_since_approval"}),
    )
}

/// A request of an agent whose access was revoked.
pub(crate) fn revoked(namespace: Namespace) -> Failure {
    let text =
        "the access of this agent to the host was revoked; ask its operator for a new credential";
    Failure::new(ErrorCode::Unauthorized, namespace, text)
}

/// A held call that was not approved.
pub(crate) fn not_approved(namespace: Namespace, rule: &RuleName, word: &Word) -> Failure {
    let mut detail = json!({"rule": rule.name, "approval_id": word.id});
    let why = match &word.decision {
        ApprovalDecision::Denied(reason) => {
            detail["reason"] = json!("approval_denied");
            let said = match reason.as_str() {
                "" => String::new(),
                reason => {
                    detail["operator_reason"] = json!(reason);
                    format!(" ({reason})")
                }
            };
            format!("the operator denied it{said}, and that stands for a while")
        }
        ApprovalDecision::Approved | ApprovalDecision::Expired => {
            detail["reason"] = json!("approval_expired");
            "it was not given in time; the same call sent again asks for it again".to_owned()
        }
    };
    let rule = &rule.name;
    let text = format!("the rule `{rule}` asks for the operator's approval: {why}");
    refusal(namespace, text, &detail)
}

/// A held call at a host that nobody approves calls at.
pub(crate) fn no_operator(namespace: Namespace, rule: &RuleName) -> Failure {
    let rule = &rule.name;
    let text = format!(
        "the rule `{rule}` asks for the operator's approval: this host has no operator; a node has \
         one (`frith up`)"
    );
    let detail = json!({"rule": rule, "reason": "approval_unavailable"});
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

/// Who can change a rule.
const CHANGED_BY: &str = "only the operator of this node can change its rules";

fn with_detail(mut failure: Failure, detail: &serde_json::Value) -> Failure {
    if let Ok(detail) = a2e_wire::Object::parse(&detail.to_string()) {
        failure.detail = detail.to_static();
    }
    failure
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

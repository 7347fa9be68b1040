//! Calls that could be made.

use serde_json::{Map, Value};

use super::matcher::Match;
use super::{Decision, Effect, Rules};
use crate::condition::Condition;
use crate::{Agent, ConditionFailure};

/// A call of which only a part is known: what a list says of something that could be called.
#[derive(Debug, Clone, Copy)]
pub struct PartialCall<'a> {
    /// Who would make it.
    pub agent: Agent<'a>,
    /// The capability it uses.
    pub capability: &'a str,
    /// The name of what is called.
    pub name: PartialName<'a>,
    /// The arguments that are known; others may be anything.
    pub arguments: &'a Map<String, Value>,
}

/// What is known of the name of what could be called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartialName<'a> {
    /// All of it.
    Exact(&'a str),
    /// What it begins with.
    Prefix(&'a str),
}

/// A decision that rules may make about a call of which only a part is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Possible<'r> {
    /// The decision.
    pub decision: Decision<'r>,
    /// The condition of the rule, if it reads arguments that are not known. One that cannot be evaluated
    /// for them denies, which is not listed.
    pub when: Option<&'r str>,
}

impl Rules {
    /// Whether a call could be allowed or held, with arguments of the agent's choice. A condition that
    /// reads other arguments than the known ones may be met or not.
    #[must_use]
    pub fn may_allow(&self, call: &PartialCall<'_>) -> bool {
        let mut possible = self.walk(call);
        possible.any(|it| it.decision.effect != Effect::Deny)
    }

    /// All decisions that these rules may make about a call, in the order of the rules. A single one is
    /// what [`Rules::decide`] says of every call that is known so far.
    #[must_use]
    pub fn possible(&self, call: &PartialCall<'_>) -> Vec<Possible<'_>> {
        self.walk(call).collect()
    }

    fn walk(&self, call: &PartialCall<'_>) -> impl Iterator<Item = Possible<'_>> {
        let known = self.known(call.capability);
        let mut candidates = known.rules.iter();
        let mut is_over = false;
        std::iter::from_fn(move || {
            while !is_over {
                let Some(candidate) = candidates.next() else {
                    is_over = true;
                    let (decision, when) = (known.decision(), None);
                    return Some(Possible { decision, when });
                };
                let Some(rule) = self.rules.get(candidate.index) else {
                    continue;
                };
                let matched = rule.matcher.may_match(call);
                if matched == Match::Never {
                    continue;
                }
                let possible = rule
                    .condition
                    .as_ref()
                    .map(|it| it.possible(call.arguments));
                let (yes, no) = possible.map_or((true, false), |it| (it.yes, it.no));
                is_over = matched == Match::Always && !no;
                let when = rule.condition.as_ref().filter(|_| yes && no);
                let decision = match (yes, no) {
                    (true, _) => rule.decision(),
                    (false, true) => continue,
                    (false, false) => rule.denial(ConditionFailure::Evaluation),
                };
                let when = when.map(Condition::as_str);
                return Some(Possible { decision, when });
            }
            None
        })
    }
}

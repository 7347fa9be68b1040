//! Calls that could be made.

use serde_json::{Map, Value};

use super::matcher::Match;
use super::{Effect, Rules};
use crate::Agent;

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

impl Rules {
    /// Whether a call could be allowed or held, with arguments of the agent's choice. A condition that
    /// reads other arguments than the known ones may be met or not.
    #[must_use]
    pub fn may_allow(&self, call: &PartialCall<'_>) -> bool {
        let known = self.known(call.capability);
        for candidate in &known.rules {
            let Some(rule) = self.rules.get(candidate.index) else {
                continue;
            };
            let matched = rule.matcher.may_match(call);
            if matched == Match::Never {
                continue;
            }
            let condition = rule.condition.as_ref();
            let condition = condition.map(|it| it.possible(call.arguments));
            let (yes, no) = condition.map_or((true, false), |it| (it.yes, it.no));
            if yes && rule.effect != Effect::Deny {
                return true;
            }
            if matched == Match::Always && !no {
                return false;
            }
        }
        known.default != Effect::Deny
    }
}

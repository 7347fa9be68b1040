//! Rules: may this agent make this call?

mod compile;
mod config;
mod matcher;
mod partial;
mod tighten;

use std::fmt;

use canonical::Digest;
use serde::{Deserialize, Serialize};

use self::matcher::Matcher;
use crate::condition::{Condition, ConditionFailure};
use crate::{Call, Rate, Repeat};

pub use compile::Layer;
pub use config::{RepeatConfig, RuleConfig, RulesConfig};
pub use partial::{PartialCall, PartialName, Possible};
pub use tighten::{Calls, Loosening, tightens, tightens_listing};

/// What happens to a call. A stricter effect is greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// It goes on.
    Allow,
    /// It waits for an operator.
    RequireApproval,
    /// It is refused.
    Deny,
}

/// Rules that were checked and are ready to decide. [`Rules::compile`] makes them.
#[derive(Debug, Clone, PartialEq)]
pub struct Rules {
    rules: Vec<Rule>,
    /// What is known of each capability, by name.
    known: Vec<Known>,
    /// What holds for every other capability.
    other: Known,
    rate: Option<Rate>,
    repeat: Option<Repeat>,
}

#[derive(Debug, Clone, PartialEq)]
struct Rule {
    matcher: Matcher,
    condition: Option<Condition>,
    effect: Effect,
    /// Its id, or else its place.
    label: String,
    has_id: bool,
    reason: Option<String>,
    hash: Digest,
}

#[derive(Debug, Clone, PartialEq)]
struct Known {
    capability: String,
    /// The rules that can match it.
    rules: Vec<Candidate>,
    default: Effect,
    /// Where the default was set.
    label: String,
    hash: Digest,
}

/// A rule that may match, with what most of those that do not are told by at once.
#[derive(Debug, Clone, PartialEq)]
struct Candidate {
    start: NameStart,
    /// Which of the bits of a name's start must be the same.
    mask: u128,
    index: usize,
}

/// The first 16 bytes of a name; zero where it has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct NameStart(u128);

/// What is to happen to a call, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decision<'r> {
    /// What is to happen.
    pub effect: Effect,
    /// Who decided: the id of a rule or its place (`policy.rules[3]`), or the place of a default
    /// (`policy.defaults.tools`).
    pub rule: &'r str,
    /// The id of the rule, if a rule with one decided.
    pub id: Option<&'r str>,
    /// Why.
    pub reason: Reason<'r>,
    /// The digest of the rule, or of the default: equal as long as neither changes. See
    /// [`RuleConfig::hash`].
    pub hash: Digest,
}

/// Why a decision was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason<'r> {
    /// The rule matches; with what it says about itself.
    Rule(Option<&'r str>),
    /// No rule matches.
    Default,
    /// The condition of the rule says neither yes nor no, and that denies.
    Condition(ConditionFailure),
}

impl Rules {
    /// Decides about a call: the first rule that matches does, else the default of the capability.
    /// Without conditions it allocates nothing.
    #[must_use]
    pub fn decide(&self, call: &Call<'_>) -> Decision<'_> {
        let known = self.known(call.capability);
        let start = NameStart::of(call.name);
        let mut arguments = None;
        for candidate in known.rules.iter().filter(|it| it.may_match(start)) {
            let Some(rule) = self.rules.get(candidate.index) else {
                continue;
            };
            if !rule.matcher.matches(call) {
                continue;
            }
            let Some(condition) = &rule.condition else {
                return rule.decision();
            };
            let read = arguments.get_or_insert_with(|| call.arguments.to_json());
            let met = match read {
                Ok(arguments) => condition.holds(arguments),
                Err(_) => Err(ConditionFailure::Arguments),
            };
            match met {
                Ok(true) => return rule.decision(),
                Ok(false) => {}
                Err(failure) => return rule.denial(failure),
            }
        }
        known.decision()
    }

    /// Decides about a request that lists what there is to call. The rules decide as about any call, but
    /// a default does not: it is about calls, and a list has only those that its agent may make.
    #[must_use]
    pub fn decide_listing(&self, call: &Call<'_>) -> Decision<'_> {
        self.decide(call).of_listing()
    }

    /// How often an agent may call, if that is limited.
    #[must_use]
    pub const fn rate(&self) -> Option<Rate> {
        self.rate
    }

    /// When the same call comes too often, if that is limited.
    #[must_use]
    pub const fn repeat(&self) -> Option<Repeat> {
        self.repeat
    }

    /// How many rules there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.rules.len()
    }

    /// Whether there are only defaults.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    fn known(&self, capability: &str) -> &Known {
        let found = self.known.iter().find(|it| it.capability == capability);
        found.unwrap_or(&self.other)
    }
}

impl Known {
    /// The decision if no rule matches.
    fn decision(&self) -> Decision<'_> {
        Decision {
            effect: self.default,
            rule: &self.label,
            id: None,
            reason: Reason::Default,
            hash: self.hash,
        }
    }
}

impl Candidate {
    /// A rule whose names all begin with `shared`.
    fn new(index: usize, shared: &str) -> Self {
        let absent = 16_usize.saturating_sub(shared.len()).saturating_mul(8);
        let absent = u32::try_from(absent).unwrap_or(u32::MAX);
        Self {
            start: NameStart::of(shared),
            // The first bytes are the low bits; with none at all nothing is compared.
            mask: u128::MAX.checked_shr(absent).unwrap_or_default(),
            index,
        }
    }

    const fn may_match(&self, name: NameStart) -> bool {
        (self.start.0 ^ name.0) & self.mask == 0
    }
}

impl NameStart {
    fn of(name: &str) -> Self {
        let mut bytes = [0; 16];
        for (byte, found) in bytes.iter_mut().zip(name.bytes()) {
            *byte = found;
        }
        Self(u128::from_le_bytes(bytes))
    }
}

impl Rule {
    fn decision(&self) -> Decision<'_> {
        Decision {
            effect: self.effect,
            rule: &self.label,
            id: self.id(),
            reason: Reason::Rule(self.reason.as_deref()),
            hash: self.hash,
        }
    }

    fn id(&self) -> Option<&str> {
        self.has_id.then_some(&*self.label)
    }

    fn denial(&self, failure: ConditionFailure) -> Decision<'_> {
        Decision {
            effect: Effect::Deny,
            rule: &self.label,
            id: self.id(),
            reason: Reason::Condition(failure),
            hash: self.hash,
        }
    }
}

impl<'r> Decision<'r> {
    /// The decision about a request that lists what there is to call: a default does not stand against it.
    #[must_use]
    pub const fn of_listing(self) -> Self {
        match self.reason {
            Reason::Default => Self {
                effect: Effect::Allow,
                ..self
            },
            Reason::Rule(_) | Reason::Condition(_) => self,
        }
    }

    /// Who decided, for the agent: the id of the rule, or `default`, or `unnamed`. Places in the
    /// configuration are not told to agents.
    #[must_use]
    pub const fn name(&self) -> &'r str {
        match (self.id, self.reason) {
            (Some(id), _) => id,
            (None, Reason::Default) => "default",
            (None, Reason::Rule(_) | Reason::Condition(_)) => "unnamed",
        }
    }
}

impl Effect {
    /// The word that configurations have for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::RequireApproval => "require_approval",
            Self::Deny => "deny",
        }
    }
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for Decision<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} by `{}`: {}", self.effect, self.rule, self.reason)
    }
}

impl fmt::Display for Reason<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rule(Some(reason)) => f.write_str(reason),
            Self::Rule(None) => f.write_str("the rule matches"),
            Self::Default => f.write_str("no rule matches"),
            Self::Condition(failure) => failure.fmt(f),
        }
    }
}

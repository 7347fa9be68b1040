//! Whether new rules are at least as strict as old ones.

use std::borrow::Cow;
use std::collections::BTreeSet;

use super::matcher::Matcher;
use super::{Effect, Known, Rule, Rules};

/// Why new rules may allow what old ones do not.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Loosening {
    /// A rule or default lets calls through for which there was no such rule before.
    #[error("`{new}` may decide `{effect}` for {calls} that nothing before did as a whole")]
    Unfounded {
        /// The new rule, or the place of the default.
        new: String,
        /// What it does.
        effect: Effect,
        /// Which calls these are.
        calls: Calls,
    },
    /// A rule or default lets calls through that an old one would have caught first.
    #[error(
        "`{new}` may decide `{effect}` for {calls} that `{old}` of before caught first, and nothing \
         before `{new}` catches all of these now"
    )]
    Uncaught {
        /// The new rule, or the place of the default.
        new: String,
        /// What it does.
        effect: Effect,
        /// Which calls these are.
        calls: Calls,
        /// The old rule.
        old: String,
    },
    /// More calls in the same time, or without a limit.
    #[error("`rate_limit` and `rate_period` allow more than before")]
    Rate,
    /// The same call more often, or without a limit.
    #[error("`repeat` allows more than before")]
    Repeat,
}

/// Calls that are decided about by the same rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Calls {
    /// Those of a capability that one side knows.
    Of(String),
    /// Requests of a type that lists what there is.
    Listing(String),
    /// Those of capabilities that nobody knows.
    OfUnknown,
}

/// Whether new rules tighten old ones: whether every call is decided at least as strictly
/// (allow < hold < deny) as before, whatever its arguments. Without an error it is so; with one it
/// may be so all the same, for when in doubt this is a loosening.
///
/// The rule, exactly. Each capability that either side knows is looked at by itself, and so are all
/// the rest together: with the rules that may match its calls, and its default as a rule without
/// conditions after them. A rule *covers* another if it names nothing that the other does not, and
/// all patterns of the other fit into its own; and if it has no condition or the same one. Two rules
/// are *apart* if a trust level or the fixed ends of patterns keep any call from matching both. Then
/// each new rule that does not deny needs an old rule that covers it and is no stricter; and of the
/// old rules before the first such one, each that is stricter or has a condition (since a condition
/// that fails denies) must
///
/// - be apart from the new rule, or
/// - be covered by a new rule that comes before the new rule, or
/// - be no stricter and have the very condition of the new rule.
///
/// A rate may only be added, or lowered both at once and in the long run. The repeat breaker may
/// only be added, or made to act sooner, look back longer, or deny instead of hold.
///
/// # Errors
/// The first reason to think that something is looser.
pub fn tightens(old: &Rules, new: &Rules) -> Result<(), Loosening> {
    let mut seen = BTreeSet::new();
    for (calls, before, after) in all_calls(old, new) {
        // Most capabilities have the same rules as others have.
        if seen.insert((before.key(), after.key())) {
            compare(&parts(old, before), &parts(new, after), &calls)?;
        }
    }
    match (old.rate, new.rate) {
        (Some(old), Some(new)) if !new.is_within(old) => return Err(Loosening::Rate),
        (Some(_), None) => return Err(Loosening::Rate),
        (Some(_) | None, Some(_)) | (None, None) => {}
    }
    match (old.repeat, new.repeat) {
        (Some(old), Some(new)) if !new.is_within(old) => Err(Loosening::Repeat),
        (Some(_), None) => Err(Loosening::Repeat),
        (Some(_) | None, Some(_)) | (None, None) => Ok(()),
    }
}

/// The same for the requests of one type that list what there is: of those the rules decide as
/// [`Rules::decide_listing`] does.
///
/// # Errors
/// As [`tightens`].
pub fn tightens_listing(
    old: &Rules,
    new: &Rules,
    capability: &str,
    name: &str,
) -> Result<(), Loosening> {
    let parts = |rules| listing_parts(rules, capability, name);
    compare(&parts(old), &parts(new), &Calls::Listing(name.to_owned()))
}

impl std::fmt::Display for Calls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Of(name) => write!(f, "calls of `{name}`"),
            Self::Listing(name) => write!(f, "calls of `{name}`"),
            Self::OfUnknown => f.write_str("calls of unknown capabilities"),
        }
    }
}

impl Known {
    /// What makes a capability another one to compare.
    fn key(&self) -> (Vec<usize>, Effect) {
        let indexes = self.rules.iter().map(|candidate| candidate.index);
        (indexes.collect(), self.default)
    }
}

/// A rule, or a default as one.
struct Part<'a> {
    matcher: Cow<'a, Matcher>,
    condition: Option<&'a str>,
    effect: Effect,
    label: &'a str,
}

impl<'a> Part<'a> {
    fn of(rule: &'a Rule, matcher: Cow<'a, Matcher>) -> Self {
        Self {
            matcher,
            condition: rule.condition.as_ref().map(|condition| condition.as_str()),
            effect: rule.effect,
            label: &rule.label,
        }
    }

    fn default_of(known: &'a Known, effect: Effect) -> Self {
        Self {
            matcher: Cow::Owned(Matcher::default()),
            condition: None,
            effect,
            label: &known.label,
        }
    }
}

impl Part<'_> {
    fn covers(&self, other: &Self) -> bool {
        (self.condition.is_none() || self.condition == other.condition)
            && self.matcher.covers(&other.matcher)
    }

    /// Whether the old rule `self` can catch nothing that the new one lets through more easily.
    fn is_harmless_to(&self, new: &Self) -> bool {
        let mild = self.effect <= new.effect;
        mild && (self.condition.is_none() || self.condition == new.condition)
            || self.matcher.is_disjoint(&new.matcher)
    }
}

/// All calls, by what decides about them on either side.
fn all_calls<'a>(old: &'a Rules, new: &'a Rules) -> Vec<(Calls, &'a Known, &'a Known)> {
    let both = old.known.iter().chain(&new.known);
    let names: BTreeSet<&str> = both.map(|known| known.capability.as_str()).collect();
    let known = names
        .into_iter()
        .map(|name| (Calls::Of(name.to_owned()), old.known(name), new.known(name)));
    let unknown = (Calls::OfUnknown, &old.other, &new.other);
    known.chain([unknown]).collect()
}

/// The rules of one side for a capability, then its default.
fn parts<'a>(rules: &'a Rules, known: &'a Known) -> Vec<Part<'a>> {
    let own = known.rules.iter();
    let own = own.filter_map(|candidate| rules.rules.get(candidate.index));
    let own = own.map(|rule| Part::of(rule, Cow::Borrowed(&rule.matcher)));
    own.chain([Part::default_of(known, known.default)])
        .collect()
}

/// The rules of one side for requests of this type, then what holds without a rule.
fn listing_parts<'a>(rules: &'a Rules, capability: &str, name: &str) -> Vec<Part<'a>> {
    let known = rules.known(capability);
    let own = known.rules.iter();
    let own = own.filter_map(|candidate| rules.rules.get(candidate.index));
    let own = own.filter_map(|rule| {
        let matcher = rule.matcher.of_name(name)?;
        Some(Part::of(rule, Cow::Owned(matcher)))
    });
    own.chain([Part::default_of(known, Effect::Allow)])
        .collect()
}

fn compare(old: &[Part<'_>], new: &[Part<'_>], calls: &Calls) -> Result<(), Loosening> {
    // For each old rule, the index of the first new one that covers it.
    let caught: Vec<usize> = old
        .iter()
        .map(|old| {
            new.iter()
                .position(|new| new.covers(old))
                .unwrap_or(usize::MAX)
        })
        .collect();
    for (index, part) in new.iter().enumerate() {
        if part.effect == Effect::Deny {
            continue;
        }
        let covering = |old: &Part<'_>| old.effect <= part.effect && old.covers(part);
        let Some(end) = old.iter().position(covering) else {
            return Err(Loosening::Unfounded {
                new: part.label.to_owned(),
                effect: part.effect,
                calls: calls.clone(),
            });
        };
        let before = old.iter().zip(&caught).take(end);
        for (old, caught) in before {
            if *caught >= index && !old.is_harmless_to(part) {
                return Err(Loosening::Uncaught {
                    new: part.label.to_owned(),
                    effect: part.effect,
                    calls: calls.clone(),
                    old: old.label.to_owned(),
                });
            }
        }
    }
    Ok(())
}

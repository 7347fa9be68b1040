//! Which calls a rule is about, its condition aside.

use super::partial::{PartialCall, PartialName};
use crate::glob::Glob;
use crate::{Agent, Call, TrustLevel};

/// What a rule names; what it does not name is `None` and matches anything.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Matcher {
    pub(super) names: Option<Box<[Glob]>>,
    pub(super) agents: Option<Box<[Glob]>>,
    pub(super) dids: Option<Box<[Glob]>>,
    pub(super) trust: Option<TrustLevels>,
    pub(super) capabilities: Capabilities,
}

/// Whether a rule is about a call of which only a part is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Match {
    /// Whatever the rest is.
    Always,
    Perhaps,
    Never,
}

/// The capabilities that a rule names.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) enum Capabilities {
    #[default]
    Any,
    Of(Vec<String>),
}

/// A set of trust levels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TrustLevels(u8);

impl Matcher {
    /// Whether a call of a capability that this is about matches.
    pub(super) fn matches(&self, call: &Call<'_>) -> bool {
        fits(self.names.as_deref(), Some(call.name)) && self.is_about(&call.agent)
    }

    /// Whether a call of a capability that this is about, and of which only a part is known, matches.
    pub(super) fn may_match(&self, call: &PartialCall<'_>) -> Match {
        if !self.is_about(&call.agent) {
            return Match::Never;
        }
        let names = self.names.as_deref();
        match call.name {
            PartialName::Exact(name) if fits(names, Some(name)) => Match::Always,
            PartialName::Exact(_) => Match::Never,
            PartialName::Prefix(prefix) => {
                names.map_or(Match::Always, |names| may_begin(names, prefix))
            }
        }
    }

    /// The same for calls of one name alone, if it is about any of those.
    pub(super) fn of_name(&self, name: &str) -> Option<Self> {
        let is_about = fits(self.names.as_deref(), Some(name));
        is_about.then(|| Self {
            names: None,
            ..self.clone()
        })
    }

    fn is_about(&self, agent: &Agent<'_>) -> bool {
        self.trust
            .is_none_or(|levels| agent.trust.is_some_and(|it| levels.has(it)))
            && fits(self.agents.as_deref(), Some(agent.id))
            && fits(self.dids.as_deref(), agent.did)
    }

    /// Whether every call of a capability that both are about and that matches the other matches
    /// this. May be false although it is so.
    pub(super) fn covers(&self, other: &Self) -> bool {
        globs_cover(self.names.as_deref(), other.names.as_deref())
            && globs_cover(self.agents.as_deref(), other.agents.as_deref())
            && globs_cover(self.dids.as_deref(), other.dids.as_deref())
            && match (self.trust, other.trust) {
                (None, _) => true,
                (Some(own), Some(other)) => own.contains(other),
                (Some(_), None) => false,
            }
    }

    /// Whether no call of a capability that both are about matches both. May be false although it is
    /// so.
    pub(super) fn is_disjoint(&self, other: &Self) -> bool {
        globs_disjoint(self.names.as_deref(), other.names.as_deref())
            || globs_disjoint(self.agents.as_deref(), other.agents.as_deref())
            || globs_disjoint(self.dids.as_deref(), other.dids.as_deref())
            || matches!((self.trust, other.trust), (Some(a), Some(b)) if !a.overlaps(b))
    }
}

impl Capabilities {
    pub(super) fn includes(&self, capability: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Of(names) => names.iter().any(|name| name == capability),
        }
    }
}

impl TrustLevels {
    pub(super) fn new(levels: &[TrustLevel]) -> Self {
        Self(levels.iter().fold(0, |set, level| set | bit(*level)))
    }

    const fn has(self, level: TrustLevel) -> bool {
        self.0 & bit(level) != 0
    }

    const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    const fn overlaps(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

const fn bit(level: TrustLevel) -> u8 {
    match level {
        TrustLevel::Own => 1,
        TrustLevel::Delegated => 2,
        TrustLevel::Verified => 4,
    }
}

fn fits(globs: Option<&[Glob]>, text: Option<&str>) -> bool {
    match (globs, text) {
        (None, _) => true,
        (Some(globs), Some(text)) => globs.iter().any(|glob| glob.matches(text)),
        (Some(_), None) => false,
    }
}

/// Whether names that begin so fit one of these.
fn may_begin(globs: &[Glob], prefix: &str) -> Match {
    let Ok(all) = Glob::parse(&format!("{prefix}*")) else {
        return Match::Perhaps;
    };
    if globs.iter().any(|glob| glob.covers(&all)) {
        return Match::Always;
    }
    match globs.iter().all(|glob| glob.is_disjoint(&all)) {
        true => Match::Never,
        false => Match::Perhaps,
    }
}

fn globs_cover(own: Option<&[Glob]>, other: Option<&[Glob]>) -> bool {
    match (own, other) {
        (None, _) => true,
        (Some(own), Some(other)) => {
            let covered = |glob: &Glob| own.iter().any(|own| own.covers(glob));
            other.iter().all(covered)
        }
        (Some(_), None) => false,
    }
}

fn globs_disjoint(own: Option<&[Glob]>, other: Option<&[Glob]>) -> bool {
    match (own, other) {
        (Some(own), Some(other)) => {
            let apart = |glob: &Glob| own.iter().all(|own| own.is_disjoint(glob));
            other.iter().all(apart)
        }
        (None, _) | (_, None) => false,
    }
}

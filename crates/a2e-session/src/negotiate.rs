//! Which capabilities an agent gets (seed 001).

use std::cmp::Reverse;

use a2e_wire::messages::base::{AcceptedCapability, CapabilityMetadata};
use a2e_wire::{Body, Capability, Object};

/// What a host has to offer.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Offer {
    /// The capabilities with a plugin, each once: the plugin that is asked first.
    pub capabilities: Vec<OfferedCapability>,
    /// Types beside the catalogue that plugins serve, the most specific first.
    pub own_types: Vec<OwnTypes>,
    /// Whether agents must authenticate.
    pub authentication: bool,
}

/// A capability with a plugin behind it.
#[derive(Debug, Clone, PartialEq)]
pub struct OfferedCapability {
    /// The capability.
    pub capability: Capability<'static>,
    /// The plugin's name in the configuration.
    pub name: String,
    /// The plugin's priority.
    pub priority: i64,
    /// Whether it alone handles its messages.
    pub exclusive: bool,
}

/// Types beside the catalogue that a plugin serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnTypes {
    /// Which.
    pub pattern: TypePattern,
    /// The capability that an agent must have negotiated to use them; none if it needs none.
    pub capability: Option<Capability<'static>>,
}

/// The types that a name stands for: itself, or, if it ends with `*`, all that begin so.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TypePattern(String);

/// What a negotiation came to.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Negotiated {
    /// One entry for each capability asked for, in the order asked.
    pub(crate) answers: Vec<AcceptedCapability<'static>>,
    /// Those that may be used.
    pub(crate) accepted: Vec<Capability<'static>>,
    /// Whether capabilities were asked for and none of them is there.
    pub(crate) is_refused: bool,
}

impl TypePattern {
    /// The pattern that is written so.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// All types.
    #[must_use]
    pub fn all() -> Self {
        Self::new("*")
    }

    /// As it is written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it stands for this type.
    #[must_use]
    pub fn matches(&self, type_name: &str) -> bool {
        match self.0.strip_suffix('*') {
            Some(prefix) => type_name.starts_with(prefix),
            None => self.0 == type_name,
        }
    }

    /// A key that sorts patterns, the most specific first: names, then longer beginnings before shorter.
    #[must_use]
    pub fn specificity(&self) -> impl Ord + use<> {
        (self.0.ends_with('*'), Reverse(self.0.len()))
    }
}

impl Offer {
    /// Under what a type that is not in the catalogue is served, if it is.
    pub(crate) fn own_type(&self, type_name: &str) -> Option<&OwnTypes> {
        let mut own = self.own_types.iter();
        own.find(|own| own.pattern.matches(type_name))
    }

    /// The capability that a message belongs to; none if it belongs to the session itself, or to none that
    /// is known.
    pub(crate) fn capability(&self, body: &Body<'_>) -> Option<Capability<'static>> {
        if let Body::Unknown(unknown) = body {
            return self.own_type(&unknown.type_name)?.capability.clone();
        }
        body.tag()?.namespace().capability()
    }

    /// Answers a list of wanted names. Foreign names are passed over, aliases understood, repeated
    /// ones answered once. A capability in another case is asked for, but there is none of that name.
    pub(crate) fn negotiate<'n>(&self, wanted: impl IntoIterator<Item = &'n str>) -> Negotiated {
        let mut asked: Vec<Capability<'static>> = Vec::new();
        let mut is_misspelled = false;
        for name in wanted {
            match Capability::from_name(name) {
                Some(capability) if asked.contains(&capability) => {}
                Some(capability) => asked.push(capability),
                None => {
                    let lower = name.to_ascii_lowercase();
                    is_misspelled |= Capability::from_name(&lower).is_some();
                }
            }
        }
        let answers: Vec<_> = asked
            .iter()
            .map(|capability| self.answer(capability))
            .collect();
        let accepted: Vec<_> = answers
            .iter()
            .filter(|answer| answer.enabled)
            .map(|answer| answer.capability.clone())
            .collect();
        Negotiated {
            is_refused: accepted.is_empty() && (is_misspelled || !asked.is_empty()),
            answers,
            accepted,
        }
    }

    fn answer(&self, capability: &Capability<'static>) -> AcceptedCapability<'static> {
        let offered = self
            .capabilities
            .iter()
            .find(|offered| offered.capability == *capability);
        let metadata = match offered {
            Some(offered) => CapabilityMetadata {
                name: offered.name.clone().into(),
                kind: capability.to_string().into(),
                priority: offered.priority,
                exclusive: offered.exclusive,
                reason: None,
            },
            None => CapabilityMetadata {
                reason: Some("no plugin loaded".into()),
                ..CapabilityMetadata::new()
            },
        };
        AcceptedCapability {
            capability: capability.clone(),
            enabled: offered.is_some(),
            metadata: Object::from_record(&metadata).unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer() -> Offer {
        let offered = |capability: Capability<'static>| OfferedCapability {
            name: format!("my-{capability}"),
            capability,
            priority: 3,
            exclusive: false,
        };
        Offer {
            capabilities: [Capability::Tools, Capability::Memory, Capability::Env]
                .map(offered)
                .into(),
            ..Offer::default()
        }
    }

    #[test]
    fn patterns_of_types() {
        let mut patterns = ["*", "own/*", "own/thing/*", "own/thing/req"].map(TypePattern::new);
        patterns.sort_by_key(TypePattern::specificity);
        let first = |name: &str| {
            let mut patterns = patterns.iter();
            patterns
                .find(|it| it.matches(name))
                .map(TypePattern::as_str)
        };
        assert_eq!(first("own/thing/req"), Some("own/thing/req"));
        assert_eq!(first("own/thing/req2"), Some("own/thing/*"));
        assert_eq!(first("own/thing"), Some("own/*"));
        assert_eq!(first("own"), Some("*"));
    }

    /// Seed 001, "Example": a capability without a plugin is answered, and not enabled.
    /// Proves N-2 to N-7, N-28.
    #[test]
    fn the_seeds_example() {
        let negotiated = offer().negotiate(["tools", "memory", "env", "chains"]);
        let enabled: Vec<bool> = negotiated
            .answers
            .iter()
            .map(|answer| answer.enabled)
            .collect();
        assert_eq!(enabled, [true, true, true, false]);
        assert_eq!(
            negotiated.answers[0].metadata.raw().as_str(),
            r#"{"name":"my-tools","type":"tools","priority":3,"exclusive":false}"#
        );
        assert!(
            negotiated.answers[3]
                .metadata
                .raw()
                .as_str()
                .contains("no plugin loaded")
        );
    }

    /// Proves H-10.
    #[test]
    fn aliases_repetitions_and_foreign_names() {
        let negotiated = offer().negotiate(["tool", "tools", "streaming", "artifacts"]);
        assert_eq!(negotiated.accepted, [Capability::Tools]);
        assert_eq!(negotiated.answers.len(), 1);
        for foreign in [&["streaming"][..], &[]] {
            let negotiated = offer().negotiate(foreign.iter().copied());
            assert!(negotiated.answers.is_empty() && !negotiated.is_refused);
        }
    }

    #[test]
    fn no_caps_only_if_a_real_one_was_asked_for() {
        for wanted in [
            &["chains"][..],
            &["chains", "x"],
            &["TOOLS"],
            &["TOOLS", "x"],
        ] {
            assert!(
                offer().negotiate(wanted.iter().copied()).is_refused,
                "{wanted:?}"
            );
        }
        assert!(!offer().negotiate(["TOOLS", "tools"]).is_refused);
    }

    #[test]
    fn refusal_says_why_for_each_capability() {
        let refused = offer().negotiate(["chains", "planning"]);
        assert!(refused.is_refused);
        for answer in refused.answers {
            assert!(!answer.enabled);
            assert!(answer.metadata.raw().as_str().contains("no plugin loaded"));
        }
    }
}

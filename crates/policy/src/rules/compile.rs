//! From what is written to what decides.

use std::collections::BTreeMap;
use std::time::Duration;

use canonical::Digest;

use super::matcher::{Capabilities, Matcher, TrustLevels};
use super::{Candidate, Effect, Known, RepeatConfig, Rule, RuleConfig, Rules, RulesConfig};
use crate::condition::Condition;
use crate::glob::Glob;
use crate::{Error, Problem, Rate, Repeat, limits};

/// One section of a configuration, and where it stands.
#[derive(Debug, Clone, Copy)]
pub struct Layer<'a> {
    /// As in `policy` or `agents[2].policy`; decisions and errors begin with it.
    pub place: &'a str,
    /// What it says.
    pub config: &'a RulesConfig,
}

impl Rules {
    /// Makes rules of sections. The rules of the first come first; its defaults, its `repeat` and
    /// its rate go before those of the next, so an agent's own section stands before the common
    /// one.
    ///
    /// `capabilities` are all there are, each with what happens to its calls if no section says so.
    /// A rule that names another one is an error, for it would never match. Calls of other
    /// capabilities are denied, whatever rules there are, unless a section has a `default`.
    ///
    /// # Errors
    /// All that is wrong, each with its place.
    pub fn compile(
        layers: &[Layer<'_>],
        capabilities: &[(&str, Effect)],
    ) -> Result<Self, Vec<Error>> {
        let mut compiler = Compiler {
            capabilities,
            errors: Vec::new(),
            ids: BTreeMap::new(),
        };
        let mut rules = Vec::new();
        for layer in layers {
            compiler.check_defaults(layer);
            for (index, config) in layer.config.rules.iter().enumerate() {
                rules.push(compiler.rule(config, &format!("{}.rules[{index}]", layer.place)));
            }
        }
        let count = rules.len();
        if count > limits::RULES
            && let Some(last) = layers.last()
        {
            let place = format!("{}.rules", last.place);
            compiler.errors.push(Error::at(place, TOO_MANY_RULES));
        }
        let rate = first(layers, |layer| compiler.rate(layer));
        let repeat = first(layers, |layer| compiler.repeat(layer));
        if !compiler.errors.is_empty() {
            return Err(compiler.errors);
        }
        let rules: Vec<Rule> = rules.into_iter().flatten().collect();
        let known = capabilities
            .iter()
            .map(|(name, built_in)| known(layers, name, &rules, *built_in));
        Ok(Self {
            known: known.collect(),
            other: other(layers, &rules),
            rules,
            rate,
            repeat,
        })
    }
}

struct Compiler<'a> {
    capabilities: &'a [(&'a str, Effect)],
    errors: Vec<Error>,
    /// Where each id stands.
    ids: BTreeMap<String, String>,
}

impl Compiler<'_> {
    fn rule(&mut self, config: &RuleConfig, place: &str) -> Option<Rule> {
        let before = self.errors.len();
        let label = self.label(config, place);
        let matcher = Matcher {
            names: self.globs(config.name.as_deref(), place, "name"),
            agents: self.globs(config.agent.as_deref(), place, "agent"),
            dids: self.globs(config.did.as_deref(), place, "did"),
            trust: config.trust.as_deref().map(TrustLevels::new),
            capabilities: self.capabilities(config, place),
        };
        if config.trust.as_ref().is_some_and(Vec::is_empty) {
            self.errors.push(Error::at(format!("{place}.trust"), EMPTY));
        }
        let condition = config.when.as_deref().map(Condition::parse);
        let condition = match condition.transpose() {
            Ok(condition) => condition,
            Err(problem) => {
                self.errors
                    .push(Error::at(format!("{place}.when"), problem));
                None
            }
        };
        self.check_length(config.reason.as_deref(), limits::REASON, place, "reason");
        (self.errors.len() == before).then(|| Rule {
            matcher,
            condition,
            effect: config.action,
            label,
            has_id: config.id.is_some(),
            reason: config.reason.clone(),
            hash: config.hash(),
        })
    }

    fn label(&mut self, config: &RuleConfig, place: &str) -> String {
        let Some(id) = &config.id else {
            return place.to_owned();
        };
        self.check_length(Some(id), limits::RULE_ID, place, "id");
        let own = format!("{place}.id");
        let word = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
        if id.is_empty() || !id.bytes().all(word) {
            self.errors.push(Error::at(own, ID));
        } else if let Some(first) = self.ids.get(id) {
            let first = first.clone();
            self.errors
                .push(Error::at(own, Problem::Repeated { first }));
        } else {
            self.ids.insert(id.clone(), own);
        }
        id.clone()
    }

    fn capabilities(&mut self, config: &RuleConfig, place: &str) -> Capabilities {
        let Some(names) = &config.capability else {
            return Capabilities::Any;
        };
        let place = format!("{place}.capability");
        if names.is_empty() {
            self.errors.push(Error::at(&place, EMPTY));
        }
        for name in names {
            self.check_capability(name, &place);
        }
        Capabilities::Of(names.clone())
    }

    fn check_capability(&mut self, name: &str, place: &str) {
        if !self.capabilities.iter().any(|(known, _)| *known == name) {
            let (what, name) = ("capability", name.to_owned());
            self.errors
                .push(Error::at(place, Problem::Unknown { what, name }));
        }
    }

    fn check_defaults(&mut self, layer: &Layer<'_>) {
        for name in layer.config.defaults.keys() {
            self.check_capability(name, &format!("{}.defaults", layer.place));
        }
    }

    fn globs(&mut self, texts: Option<&[String]>, place: &str, key: &str) -> Option<Box<[Glob]>> {
        let texts = texts?;
        let place = format!("{place}.{key}");
        if texts.is_empty() {
            self.errors.push(Error::at(&place, EMPTY));
        }
        if texts.len() > limits::GLOBS {
            self.errors.push(Error::at(&place, TOO_MANY_GLOBS));
        }
        let mut globs = Vec::with_capacity(texts.len());
        for text in texts {
            match Glob::parse(text) {
                Ok(glob) => globs.push(glob),
                Err(error) => self.errors.push(error.within(&place)),
            }
        }
        Some(globs.into())
    }

    fn check_length(&mut self, text: Option<&str>, limit: usize, place: &str, key: &str) {
        if text.is_some_and(|text| text.len() > limit) {
            let problem = Problem::TooMany {
                limit,
                unit: "bytes",
            };
            self.errors
                .push(Error::at(format!("{place}.{key}"), problem));
        }
    }

    fn rate(&mut self, layer: &Layer<'_>) -> Option<Rate> {
        let place = |key: &str| format!("{}.{key}", layer.place);
        let (limit, period) = match (layer.config.rate_limit, layer.config.rate_period) {
            (Some(limit), Some(period)) => (limit, period),
            (None, None) => return None,
            (Some(_), None) => {
                let needs = "rate_period";
                self.errors
                    .push(Error::at(place("rate_limit"), Problem::Alone { needs }));
                return None;
            }
            (None, Some(_)) => {
                let needs = "rate_limit";
                self.errors
                    .push(Error::at(place("rate_period"), Problem::Alone { needs }));
                return None;
            }
        };
        for (key, value, most) in [
            ("rate_limit", limit, limits::RATE_LIMIT),
            ("rate_period", period, limits::RATE_PERIOD),
        ] {
            self.check_range(&place(key), value, 1, most);
        }
        Rate::new(limit, period)
    }

    fn repeat(&mut self, layer: &Layer<'_>) -> Option<Repeat> {
        let RepeatConfig {
            calls,
            window,
            action,
        } = layer.config.repeat?;
        let place = |key: &str| format!("{}.repeat.{key}", layer.place);
        self.check_range(&place("calls"), calls, 2, limits::REPEAT_CALLS);
        self.check_range(&place("window"), window, 1, limits::REPEAT_WINDOW);
        if action == Effect::Allow {
            self.errors.push(Error::at(place("action"), STOP));
        }
        Repeat::new(calls, Duration::from_secs(u64::from(window)), action)
    }

    fn check_range(&mut self, place: &str, value: u32, least: u32, most: u32) {
        if !(least..=most).contains(&value) {
            let (least, most) = (u64::from(least), u64::from(most));
            self.errors
                .push(Error::at(place, Problem::Range { least, most }));
        }
    }
}

/// What the first layer that says it says; the others are checked all the same.
fn first<T>(layers: &[Layer<'_>], mut read: impl FnMut(&Layer<'_>) -> Option<T>) -> Option<T> {
    layers.iter().fold(None, |found, layer| {
        let read = read(layer);
        found.or(read)
    })
}

fn known(layers: &[Layer<'_>], capability: &str, rules: &[Rule], built_in: Effect) -> Known {
    let stated = layers.iter().find_map(|layer| {
        let own = layer.config.defaults.get(capability);
        let own = own.map(|effect| (*effect, format!("{}.defaults.{capability}", layer.place)));
        own.or_else(|| layer_default(layer))
    });
    let (default, label) = stated.unwrap_or_else(|| (built_in, BUILT_IN.to_owned()));
    let fits = |rule: &Rule| rule.matcher.capabilities.includes(capability);
    Known {
        capability: capability.to_owned(),
        rules: candidates(rules, fits),
        hash: default_hash(&label, default),
        default,
        label,
    }
}

fn other(layers: &[Layer<'_>], rules: &[Rule]) -> Known {
    let stated = layers.iter().find_map(layer_default);
    // A rule that names no capability is about all there are; only who has a word for the rest, too,
    // lets it speak for them.
    let fits = |rule: &Rule| stated.is_some() && rule.matcher.capabilities == Capabilities::Any;
    let rules = candidates(rules, fits);
    let (default, label) = stated.unwrap_or_else(|| (Effect::Deny, BUILT_IN.to_owned()));
    Known {
        capability: String::new(),
        rules,
        hash: default_hash(&label, default),
        default,
        label,
    }
}

/// The digest of a default: where it was set, and to what.
fn default_hash(label: &str, effect: Effect) -> Digest {
    Digest::of(format!("{label}: {effect}").as_bytes())
}

fn layer_default(layer: &Layer<'_>) -> Option<(Effect, String)> {
    let effect = layer.config.default?;
    Some((effect, format!("{}.default", layer.place)))
}

fn candidates(rules: &[Rule], fits: impl Fn(&Rule) -> bool) -> Vec<Candidate> {
    let fitting = rules.iter().enumerate().filter(|(_, rule)| fits(rule));
    let candidate = |(index, rule): (usize, &Rule)| {
        let names = rule.matcher.names.as_deref();
        Candidate::new(index, names.map_or("", shared_start))
    };
    fitting.map(candidate).collect()
}

/// What every name that fits one of these begins with.
fn shared_start(globs: &[Glob]) -> &str {
    let mut starts = globs.iter().map(Glob::prefix);
    let first = starts.next().unwrap_or_default();
    starts.fold(first, |shared, start| {
        let same = shared
            .bytes()
            .zip(start.bytes())
            .take_while(|(a, b)| a == b);
        let mut end = same.count();
        while !shared.is_char_boundary(end) {
            end = end.saturating_sub(1);
        }
        shared.get(..end).unwrap_or_default()
    })
}

/// Who decides when no section says anything.
const BUILT_IN: &str = "built-in";

const EMPTY: Problem = Problem::Form("a list with something in it, or left out");
const ID: Problem = Problem::Form("letters, digits, `_`, `-` and `.`");
const STOP: Problem = Problem::Form("`require_approval` or `deny`");
const TOO_MANY_RULES: Problem = Problem::TooMany {
    limit: limits::RULES,
    unit: "rules",
};
const TOO_MANY_GLOBS: Problem = Problem::TooMany {
    limit: limits::GLOBS,
    unit: "patterns",
};

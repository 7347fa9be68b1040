//! What each agent may do: the rules of the configuration, ready to decide.

use std::collections::HashMap;
use std::sync::Arc;

use a2e_wire::Namespace;
use policy::{Effect, Layer, Loosening, Rules};

use crate::config::Policy;
use crate::decision::listings;

/// The capability that messages beside the catalogue count as.
pub(crate) const CUSTOM: &str = "custom";

/// The rules of a node.
#[derive(Debug, Clone, PartialEq)]
pub struct Policies {
    common: Arc<Rules>,
    /// Those of agents that have rules of their own, with the common ones behind them.
    agents: HashMap<String, Arc<Rules>>,
}

/// Why new rules may allow what old ones do not.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("for {}: {loosening}", agent.as_ref().map_or_else(|| "all agents".to_owned(), |agent| format!("the agent `{agent}`")))]
pub struct Looser {
    agent: Option<String>,
    loosening: Loosening,
}

impl Policies {
    /// Makes rules of what a configuration says. What it does not speak of is allowed: plugins keep
    /// what they do inside the workspace and the sandbox.
    ///
    /// # Errors
    /// All that is wrong, each with its place.
    pub fn compile(policy: &Policy) -> Result<Self, Vec<policy::Error>> {
        let capabilities = capabilities();
        let capabilities: Vec<(&str, Effect)> = capabilities
            .iter()
            .map(|name| (name.as_str(), Effect::Allow))
            .collect();
        let common = Layer {
            place: "policy",
            config: &policy.common,
        };
        let mut errors = Vec::new();
        let mut compile = |layers: &[Layer<'_>]| match Rules::compile(layers, &capabilities) {
            Ok(rules) => Some(Arc::new(rules)),
            Err(more) => {
                errors.extend(more);
                None
            }
        };
        let common_rules = compile(&[common]);
        let mut agents = HashMap::new();
        for (index, agent) in policy.agents.iter().enumerate() {
            let place = format!("agents[{index}].policy");
            let own = Layer {
                place: &place,
                config: &agent.policy,
            };
            // What is wrong with the common rules is said once.
            let layers: &[Layer<'_>] = match common_rules {
                Some(_) => &[own, common],
                None => &[own],
            };
            agents.extend(compile(layers).map(|rules| (agent.name.clone(), rules)));
        }
        match common_rules {
            Some(common) if errors.is_empty() => Ok(Self { common, agents }),
            _ => Err(errors),
        }
    }

    /// Whether these rules decide about every call of every agent at least as strictly as others.
    ///
    /// # Errors
    /// If they may not.
    pub fn tighten(&self, old: &Self) -> Result<(), Looser> {
        let agents = self.agents.keys().chain(old.agents.keys());
        let checks = agents.map(Some).chain([None]);
        for agent in checks {
            let (old, new) = match agent {
                Some(agent) => (old.of(agent), self.of(agent)),
                None => (&old.common, &self.common),
            };
            let looser = |loosening| Looser {
                agent: agent.cloned(),
                loosening,
            };
            policy::tightens(old, new).map_err(looser)?;
            for (capability, name) in listings() {
                policy::tightens_listing(old, new, &capability, name).map_err(looser)?;
            }
        }
        Ok(())
    }

    /// The rules for an agent.
    pub(crate) fn of(&self, agent: &str) -> &Arc<Rules> {
        self.agents.get(agent).unwrap_or(&self.common)
    }
}

impl Default for Policies {
    /// Everything is allowed.
    fn default() -> Self {
        Self::compile(&Policy::default()).unwrap_or_else(|_| unreachable_policy())
    }
}

#[expect(clippy::unreachable, reason = "no rules cannot be wrong")]
fn unreachable_policy() -> Policies {
    unreachable!("a policy without rules compiles")
}

fn capabilities() -> Vec<String> {
    let mut names: Vec<String> = Namespace::ALL
        .iter()
        .filter_map(|namespace| namespace.capability())
        .map(|capability| capability.to_string())
        .collect();
    names.sort();
    names.dedup();
    names.push(CUSTOM.to_owned());
    names
}

//! `frith policy`: tries rules on calls without doing anything, and explains decisions of the past.

mod explain;
mod recorded;
mod test;

use std::path::Path;

use a2e_runtime::config::Config;
use a2e_runtime::{Identity, Policies};
use anyhow::{Context, Result};
use clap::Subcommand;
use policy::{Effect, Possible, TrustLevel};
use serde::Serialize;

use crate::Outcome;
use crate::screen::{plain, shown};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Try rules without doing anything: on a call, or on the calls in the audit log
    ///
    /// Rates and repetitions are not counted. The audit log keeps no arguments, so a rule with a
    /// condition leaves the decision about a recorded call open.
    Test(Box<test::Arguments>),
    /// Show which rule decided about a recorded call, the approval, and the rule if it is unchanged
    Explain(explain::Arguments),
}

/// A decision that rules make, as it is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Shown {
    decision: Effect,
    rule: String,
    /// The condition that it depends on.
    #[serde(skip_serializing_if = "Option::is_none")]
    when: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// Tells rules apart that only look the same.
    #[serde(skip)]
    hash: Option<canonical::Digest>,
}

pub(crate) fn run(arguments: &Arguments, as_json: bool) -> Result<Outcome> {
    match &arguments.action {
        Action::Test(options) => test::run(options, as_json),
        Action::Explain(options) => explain::run(options, as_json),
    }
}

impl Shown {
    fn new(possible: &Possible<'_>) -> Self {
        let decision = possible.decision;
        Self {
            decision: decision.effect,
            rule: decision.rule.to_owned(),
            when: possible.when.map(ToOwned::to_owned),
            reason: Some(decision.reason.to_string()),
            hash: Some(decision.hash),
        }
    }

    /// A decision of which the audit log has only this.
    fn recorded(decision: Effect, rule: &str) -> Self {
        Self {
            decision,
            rule: rule.to_owned(),
            when: None,
            reason: None,
            hash: None,
        }
    }

    /// In words: ``deny by `no-keys` if contains(path, '.ssh')``.
    fn text(&self) -> String {
        let condition = self
            .when
            .as_ref()
            .map(|when| format!(" if {}", plain(when)));
        let condition = condition.unwrap_or_default();
        format!("{} by `{}`{condition}", self.decision, plain(&self.rule))
    }
}

/// All of them, in words.
fn texts(all: &[Shown]) -> String {
    let all: Vec<String> = all.iter().map(Shown::text).collect();
    all.join(", else ")
}

/// A configuration file as it is shown: one in this folder by its name.
fn file_name(file: &Path) -> String {
    let here = std::env::current_dir().ok();
    let name = here.and_then(|here| file.strip_prefix(here).ok());
    shown(name.unwrap_or(file))
}

fn compile(config: &Config) -> Result<Policies> {
    let compiled = Policies::compile(&config.policy);
    let compiled = compiled.map_err(|errors| {
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        anyhow::anyhow!(errors.join("; "))
    });
    compiled.context("`policy`")
}

/// Who an agent in the audit log may have been: the log has names only.
fn identities(config: &Config, agent: &str) -> Vec<Identity> {
    if agent.starts_with("did:") {
        let levels = [TrustLevel::Own, TrustLevel::Delegated, TrustLevel::Verified];
        return levels
            .map(|level| Identity::proven(agent, agent, level))
            .into();
    }
    let mut agents = config.policy.agents.iter();
    let did = agents
        .find(|it| it.name == agent)
        .and_then(|it| it.did.as_ref());
    let proven = did.map(|did| Identity::proven(agent, did, TrustLevel::Own));
    [Identity::named(agent)].into_iter().chain(proven).collect()
}

/// The decisions that rules may make about a recorded call, each once.
fn possible(
    policies: &Policies,
    config: &Config,
    agent: &str,
    (type_name, name): (&str, &str),
) -> Vec<Shown> {
    let mut all: Vec<Shown> = Vec::new();
    for identity in identities(config, agent) {
        for possible in policies.possible(&identity, type_name, name) {
            let shown = Shown::new(&possible);
            if !all.contains(&shown) {
                all.push(shown);
            }
        }
    }
    all
}

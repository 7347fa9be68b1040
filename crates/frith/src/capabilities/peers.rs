//! What other agents are for this node: tools; and what this node makes for them.

use std::path::Path;
use std::sync::Arc;

use a2a_net::book::parse_did;
use a2e_caps::chains::Limits;
use a2e_caps::tool::{Admitted, Source, Tool};
use a2e_caps::{chains, peers};
use a2e_runtime::Peers;
use a2e_runtime::config::{ChainTool, Chains, Config, IntentTarget, Peer, PluginKind};
use anyhow::{Context as _, Result, bail};
use sandbox::Profile;
use serde_json::json;

use super::chains::chain_limits;
use super::tools::configured;
use super::{Capabilities, Described};

impl Capabilities {
    /// The tools that other agents are, and the commands and chains that they may have run.
    pub(crate) fn of_peers(&self, config: &Config, ask: &Arc<dyn Peers>) -> Result<Described> {
        let mut all = Described::default();
        for intent in &config.intents {
            let tool = match &intent.target {
                IntentTarget::Command(tool) => self.command_tool(tool).map_err(Into::into),
                IntentTarget::Chain(tool) => self.chain_tool(tool, limits(config)),
                IntentTarget::Tool(_) | IntentTarget::Skill(_) | IntentTarget::Env(_) => continue,
            };
            let tool = tool.with_context(|| format!("`intents.{}`", intent.name))?;
            let shown = json!({"intent": intent.name.to_string()});
            let tools = configured(intent, shown).of(vec![tool]);
            all.add(Source::Intents, Admitted::all(tools));
        }
        for peer in &config.peers {
            let whose = || format!("`peers.{}`", peer.name);
            let did = parse_did(&peer.did).with_context(whose)?;
            // By the one spelling that it is known by.
            let known = Peer {
                did: did.to_string(),
                ..peer.clone()
            };
            let tools = peers::tools(&known, ask).with_context(whose)?;
            let shown = json!({"did": known.did});
            let tools = configured(&known, shown).of(tools);
            all.add(Source::Peers, Admitted::all(tools));
        }
        Ok(all)
    }

    fn chain_tool(&self, tool: &ChainTool, limits: Limits) -> Result<Arc<dyn Tool>> {
        if let Some(file) = &tool.file {
            check(&self.widest(), file)?;
        }
        Ok(chains::tool(tool, limits)?)
    }
}

/// How large chains may be for the plugin that runs them.
fn limits(config: &Config) -> Limits {
    let mut plugins = config.plugins.iter().filter(|plugin| plugin.enabled);
    let configured = plugins.find_map(|plugin| {
        let PluginKind::Chains(chains) = &plugin.kind else {
            return None;
        };
        Some(chains)
    });
    configured.map_or_else(|| chain_limits(&Chains::default()), chain_limits)
}

/// Agents could have other agents do what they like.
fn check(profile: &Profile, file: &Path) -> Result<()> {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let mut writable = profile.writable.iter();
    if let Some(open) = writable.find(|open| real(file).starts_with(real(open))) {
        bail!(
            "agents could rewrite what others have done here: {} (`chain`) lies in {}, which is \
             open to them; move one of them",
            file.display(),
            open.display()
        );
    }
    Ok(())
}

//! The host that a configuration describes.

use std::sync::Arc;

use a2e_caps::learning::Ledgers;
use a2e_caps::model::Models;
use a2e_caps::permissions::PermissionsPlugin;
use a2e_caps::tool::Pinning;
use a2e_runtime::config::{Config, Learning, Mounted, Place, Plugin, PluginKind};
use a2e_runtime::demo::Demo;
use a2e_runtime::{
    Address, Authenticator, Host, HostBuilder, Learner, Mount, Open, Peers, Policies, precedence,
};
use anyhow::{Context, Result};

use super::Shared;
use crate::capabilities::{self, Described, learning};

/// The host that a configuration describes. Other hosts are asked what they have; one that cannot be
/// reached is an error, so that nobody finds out later that half of the tools are missing.
///
/// What takes long is told. Nothing changes by this: the tools that it describes are taken
/// (`Capabilities::take`) when all else is known to be good.
pub(crate) async fn builder(
    config: &Config,
    shared: &Shared,
    tell: &(dyn Fn(String) + Send + Sync),
) -> Result<(HostBuilder, Described)> {
    let mut builder = bare(config, shared);
    let capabilities = &shared.capabilities;
    capabilities.check(config)?;
    let enabled = || config.plugins.iter().filter(|plugin| plugin.enabled);
    // First of all: no other host may have tools that are taken for these.
    let pinning = Pinning::new(shared.definitions.clone());
    let mut described = Described::default();
    for plugin in enabled() {
        if let PluginKind::Tools(own) = &plugin.kind {
            let all = capabilities.describe(plugin, own, &pinning, tell);
            described.extend(all.await?);
        }
    }
    let peers: Arc<dyn Peers> = Arc::clone(&shared.peers) as Arc<dyn Peers>;
    described.extend(capabilities.of_peers(config, &peers)?);
    let models = capabilities.models(&config.models)?;
    let has_tools = |plugin: &Plugin| matches!(plugin.kind, PluginKind::Tools(_));
    if config.plugins.is_empty() {
        let kept = (&shared.store, &shared.ledgers, &shared.chains);
        let more = (&models, pinning.clone(), &mut described);
        let mcp = config.mcp.as_ref();
        builder = capabilities.all(builder, &shared.vault, kept, more, mcp)?;
        // The tools to try a host with.
        builder = builder.plugin(Demo::default());
    }
    if config.plugins.is_empty() || enabled().any(has_tools) {
        capabilities.reserve(&described, &shared.definitions)?;
    }
    let parts = Parts {
        config,
        shared,
        models: &models,
        pinning: &pinning,
    };
    // In the order in which they are asked: of two hosts that have a tool of the same name, the first one
    // shows its tool first, and it is the one that is approved.
    let mut plugins: Vec<&Plugin> = enabled().collect();
    plugins.sort_by_key(|plugin| precedence(plugin.exclusive, plugin.priority));
    for plugin in plugins {
        builder = parts.add(builder, plugin, &mut described).await?;
    }
    builder.check_exclusive().context("`plugins`")?;
    Ok((builder, described))
}

/// What the plugins of a host have in common.
struct Parts<'a> {
    config: &'a Config,
    shared: &'a Shared,
    models: &'a Arc<Models>,
    pinning: &'a Pinning,
}

impl Parts<'_> {
    async fn add(
        &self,
        builder: HostBuilder,
        plugin: &Plugin,
        described: &mut Described,
    ) -> Result<HostBuilder> {
        let Self {
            config,
            shared,
            models,
            pinning,
        } = *self;
        let capabilities = &shared.capabilities;
        let placement = capabilities::placement(plugin);
        Ok(match &plugin.kind {
            PluginKind::Demo => {
                builder.plugin(Demo::named(&plugin.name, plugin.priority, plugin.exclusive))
            }
            PluginKind::Tools(_) => {
                let weights = weights(config, shared, |learning| learning.rank_tools);
                capabilities.tools(builder, plugin, weights)?
            }
            PluginKind::Toolkits => capabilities.toolkits(builder, plugin, &shared.vault),
            PluginKind::Learning(learning) => {
                let learning = learning::plugin(&shared.ledgers, *learning, placement);
                builder.plugin(learning)
            }
            PluginKind::Planning(planning) => {
                capabilities::planning(builder, &shared.store, *planning, placement)
            }
            PluginKind::Proc(proc) => capabilities.proc(builder, placement, proc),
            PluginKind::Mcp(mcp) => {
                let kept = (pinning.clone(), &shared.vault);
                capabilities.mcp(builder, plugin, (mcp, described), kept)?
            }
            PluginKind::Skills(skills) => {
                let weights = weights(config, shared, |learning| learning.rank_skills);
                capabilities.skills(builder, placement, skills, (models, pinning), weights)?
            }
            PluginKind::MultiAgent(agents) => {
                capabilities.agents(builder, placement, agents, models)?
            }
            PluginKind::Memory(memory) => {
                capabilities.memory(builder, plugin, memory, &shared.store)?
            }
            PluginKind::Chains(chains) => {
                capabilities::chains(builder, &shared.chains, *chains, placement)
            }
            PluginKind::Env(env) => {
                let learner = match env.learn {
                    true => Some(learner(config, shared, plugin)?),
                    false => None,
                };
                capabilities.env(builder, placement, env, learner)
            }
            PluginKind::Mounted(mounted) => {
                let mount = mount(plugin, mounted, shared)?;
                let text = format!("the plugin `{}` at {}", plugin.name, mount.address);
                let plugins = mount.plugins().await.context(text)?;
                plugins.into_iter().fold(builder, HostBuilder::plugin)
            }
        })
    }
}

/// A host with its limits and rules, and what stays when the configuration is read again.
fn bare(config: &Config, shared: &Shared) -> HostBuilder {
    let limits = &config.global_limits;
    let authenticator: Arc<dyn Authenticator> = match config.server.allow_unauthenticated {
        true => Arc::new(Open),
        false => Arc::clone(&shared.authenticator),
    };
    let mut builder = Host::builder()
        .plugin(PermissionsPlugin)
        .shared_authenticator(authenticator)
        .limits(limits.session)
        .max_line(limits.max_line)
        .max_sessions(limits.max_sessions)
        .max_sessions_per_agent(limits.max_sessions_per_agent)
        .max_buffered(limits.max_buffered, limits.max_buffered_per_agent)
        .max_newcomers(limits.max_newcomers)
        .max_requests_per_agent(limits.max_requests_per_agent)
        .drain(limits.drain);
    if let Some(stores) = &shared.sessions {
        builder = builder
            .snapshots(Arc::clone(&stores.snapshots), config.snapshot_mode)
            .idempotency(Arc::clone(&stores.idempotency));
    }
    if let Some(approvals) = &shared.approvals {
        builder = builder.approvals(approvals.clone());
    }
    if let Some(log) = &shared.audit {
        builder = builder.audit(log.clone());
    }
    if let Ok(policies) = Policies::compile(&config.policy) {
        builder = builder.policies(policies);
    }
    builder
}

/// What was learned, if something is ranked by it.
fn weights(
    config: &Config,
    shared: &Shared,
    is_ranked: fn(&Learning) -> bool,
) -> Option<Arc<Ledgers>> {
    let mut plugins = config.plugins.iter().filter(|plugin| plugin.enabled);
    plugins
        .any(|plugin| matches!(&plugin.kind, PluginKind::Learning(it) if is_ranked(it)))
        .then(|| Arc::clone(&shared.ledgers))
}

/// Who learns of what happens in environments.
fn learner(config: &Config, shared: &Shared, env: &Plugin) -> Result<Arc<dyn Learner>> {
    let enabled = config.plugins.iter().filter(|plugin| plugin.enabled);
    let mut found = enabled.filter_map(|plugin| {
        let PluginKind::Learning(it) = plugin.kind else {
            return None;
        };
        Some((it, capabilities::placement(plugin)))
    });
    let (config, placement) = found.next().with_context(|| {
        format!(
            "the plugin `{}` has `learn: true`, which needs a plugin of `type: learning`: add one, \
             or take `learn` away",
            env.name
        )
    })?;
    let learning = learning::plugin(&shared.ledgers, config, placement);
    Ok(Arc::new(learning))
}

fn mount(plugin: &Plugin, mounted: &Mounted, shared: &Shared) -> Result<Mount> {
    Ok(Mount {
        name: plugin.name.clone(),
        priority: plugin.priority,
        exclusive: plugin.exclusive,
        address: match &mounted.place {
            Place::Command(words) => Address::command(words.clone())?,
            Place::Url(url) => url.parse()?,
        },
        token: mounted.token.clone(),
        capabilities: mounted.capabilities.clone(),
        serves: mounted.serves.clone(),
        max_children: mounted.max_children,
        definitions: shared.definitions.clone(),
        configurations: shared.configurations.clone(),
    })
}

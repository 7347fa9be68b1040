//! Tools: those that are built in, and those that an operator describes.

use std::fmt::Debug;
use std::path::Path;
use std::sync::Arc;

use a2e_caps::commands::{Template, TemplateError};
use a2e_caps::http::Web;
use a2e_caps::learning::Ledgers;
use a2e_caps::tool::{Admitted, Pinning, Source, Tool, ToolConfiguration};
use a2e_caps::tools::{Settings, Tools};
use a2e_caps::{commands, endpoints, openapi, scripts};
use a2e_runtime::HostBuilder;
use a2e_runtime::config::{CommandTool, Config, OwnTools, Plugin, PluginKind};
use anyhow::{Context, Result, bail};
use sandbox::Profile;
use serde_json::{Value, json};

use super::{Capabilities, Described, placement};

impl Capabilities {
    /// The tools that the configuration describes, compared with what was approved.
    pub(crate) async fn describe(
        &self,
        plugin: &Plugin,
        own: &OwnTools,
        pinning: &Pinning,
        tell: &(dyn Fn(String) + Send + Sync),
    ) -> Result<Described> {
        let mut all = Described::default();
        let whose = || format!("the tools of the plugin `{}`", plugin.name);
        // The configuration may be another than the one at the start.
        let widest = self.widest();
        check_own(&widest, own)?;
        let web = Web::new(Arc::clone(&self.web), &own.private_hosts).with_context(whose)?;
        let described = self.described(own, &web).with_context(whose)?;
        all.add(Source::Config, Admitted::all(described));
        for api in &own.openapi {
            let openapi::Loaded { tools, text } = openapi::load(api, &web).with_context(whose)?;
            let document = json!({"document": api.document});
            let tools = configured(api, document).of(tools);
            let source = Source::Document(api.document.display().to_string());
            let admitted = pinning.admit_together(&source, &text, tools).await?;
            if !admitted.quarantined.is_empty() {
                tracing::warn!(
                    "the document {} has changed and its operations are not served; \
                     `frith tools pending` shows it",
                    api.document.display()
                );
            }
            all.add(source, admitted);
        }
        if let Some(folder) = &own.scripts {
            let scripts = scripts::tools(folder, &self.scripts, &self.workplace);
            let scripts = scripts.with_context(whose)?;
            let admitted = pinning.admit(&Source::Scripts, scripts).await?;
            for script in &admitted.quarantined {
                tracing::warn!(
                    "the script of `{}` has changed and is not served; `frith tools pending` \
                     shows it",
                    script.name(),
                );
            }
            all.add(Source::Scripts, admitted);
        }
        let (profiles, components) = ((&self.workplace.profile, &widest), &own.components);
        let loaded = self
            .components
            .load_all(components, profiles, pinning, tell);
        for (source, admitted) in loaded.await.with_context(whose)? {
            all.add(source, admitted);
        }
        Ok(all)
    }

    /// Adds the tools.
    pub(crate) fn tools(
        &self,
        builder: HostBuilder,
        plugin: &Plugin,
        weights: Option<Arc<Ledgers>>,
    ) -> Result<HostBuilder> {
        let tools = self.make_tools(Settings {
            placement: placement(plugin),
            ..Settings::default()
        })?;
        Ok(builder.plugin(match weights {
            Some(weights) => tools.ranked_by(weights),
            None => tools,
        }))
    }

    /// The tools that are described and not written.
    fn described(&self, own: &OwnTools, web: &Web) -> Result<Vec<Arc<dyn Tool>>> {
        let mut tools = Vec::new();
        for command in &own.commands {
            let tool = self.command_tool(command)?;
            let shown = json!({"command": command.command});
            tools.extend(configured(command, shown).of(vec![tool]));
        }
        for endpoint in &own.endpoints {
            let tool = endpoints::tool(endpoint, web)?;
            let shown = json!({"method": endpoint.method, "url": endpoint.url});
            tools.extend(configured(endpoint, shown).of(vec![tool]));
        }
        Ok(tools)
    }

    pub(super) fn command_tool(&self, tool: &CommandTool) -> Result<Arc<dyn Tool>, TemplateError> {
        let CommandTool {
            name,
            description,
            command,
            parameters,
            required,
            stdin,
            tags,
            read_only,
            timeout,
        } = tool.clone();
        let template = Template {
            name,
            description,
            command,
            parameters,
            required,
            stdin,
            tags,
            read_only,
            timeout,
        };
        commands::from_template(&template, &self.workplace)
    }

    pub(super) fn make_tools(&self, settings: Settings) -> Result<Tools> {
        Ok(Tools::new(Arc::clone(&self.catalogue), settings)?)
    }
}

/// What the operator has configured a tool with. Secrets are no part of it: the operator may change them
/// while a call waits.
pub(super) fn configured(settings: &impl Debug, shown: Value) -> ToolConfiguration {
    ToolConfiguration::new(&json!(format!("{settings:?}")), shown)
}

/// Agents must not be able to rewrite what describes their tools.
pub(super) fn check_own_tools(profile: &Profile, config: &Config) -> Result<()> {
    for plugin in config.plugins.iter().filter(|plugin| plugin.enabled) {
        if let PluginKind::Tools(own) = &plugin.kind {
            check_own(profile, own)?;
        }
    }
    Ok(())
}

fn check_own(profile: &Profile, own: &OwnTools) -> Result<()> {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let documents = own.openapi.iter().map(|api| ("openapi", &api.document));
    let scripts = own.scripts.iter().map(|folder| ("scripts", folder));
    for (key, path) in documents.chain(scripts) {
        let path = real(path);
        let mut writable = profile.writable.iter();
        let open = writable.find(|open| {
            let open = real(open);
            path.starts_with(&open) || open.starts_with(&path)
        });
        if let Some(open) = open {
            bail!(
                "agents could rewrite their own tools: {} (`{key}`) and {}, which is open to them, \
                 lie in each other; move one of them",
                path.display(),
                open.display()
            );
        }
    }
    Ok(())
}

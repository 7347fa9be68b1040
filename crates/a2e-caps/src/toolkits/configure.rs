//! Configurations: how they are taken, kept and found again.

use std::fmt;
use std::sync::Arc;

use a2e_runtime::{BoxFuture, nearest};
use a2e_wire::Raw;
use a2e_wire::messages::toolkit::{
    ToolkitConfigureRequest, ToolkitConfigureResponse, ToolkitStatus,
};
use serde_json::{Value, json};
use store::{AgentId, Secrets, Vault};

use super::bundled::bundled;
use super::shown::without_secrets;
use super::{Toolkit, Toolkits};
use crate::tool::{Clash, LoadError, Loaded, Loader, Source, Tool, ToolConfiguration, Violation};

/// The toolkits there are, and where their configurations are kept.
pub(super) struct Known {
    pub(super) toolkits: Vec<Arc<dyn Toolkit>>,
    pub(super) vault: Vault,
}

impl Toolkits {
    /// Configures a toolkit for an agent. Whatever goes wrong is told in the answer.
    pub(super) async fn configure(
        &self,
        request: ToolkitConfigureRequest<'static>,
        agent: &str,
    ) -> ToolkitConfigureResponse<'static> {
        let ToolkitConfigureRequest {
            toolkit_name,
            config,
            ..
        } = request;
        let toolkit = self.known.find(&toolkit_name);
        let outcome = match toolkit {
            Ok(toolkit) => self.replace(toolkit, config.into_raw(), agent).await,
            Err(problem) => Err(problem),
        };
        let (status, message) = match outcome {
            Ok(notice) => (ToolkitStatus::Ok, notice),
            Err(problem) => (ToolkitStatus::Error, Some(problem)),
        };
        let error = match status == ToolkitStatus::Error {
            true => message.clone().unwrap_or_default(),
            false => String::new(),
        };
        let listed = match self.known.find(&toolkit_name) {
            Ok(toolkit) => Some(self.listed(toolkit.info(), agent).await),
            Err(_) => None,
        };
        ToolkitConfigureResponse {
            toolkit_name,
            status,
            message: message.map(Into::into),
            error: Some(error.into()),
            toolkit: listed,
        }
    }

    /// Takes a configuration in place of the one there was; nothing changes if it does not do. Gives
    /// what the agent should know.
    async fn replace(
        &self,
        toolkit: &Arc<dyn Toolkit>,
        config: Raw<'static>,
        agent: &str,
    ) -> Result<Option<String>, String> {
        let name = &toolkit.info().name;
        let secrets = self.known.secrets(agent)?;
        let tools = tools(toolkit, &config).await?;
        let source = Source::Toolkit(name.clone());
        // What was configured before must not come after this; to load it may take a while.
        self.catalogue.is_set_for(agent, &source).await;
        let alone = self.configuring.lock().await;
        let kept = secrets.put(&place(name), config.as_str().as_bytes()).await;
        kept.map_err(|error| {
            tracing::warn!(agent, toolkit = name, %error, "a configuration cannot be kept");
            format!("the configuration of `{name}` cannot be kept: {error}")
        })?;
        let clashes = self.catalogue.set_for(agent, source, tools);
        drop(alone);
        Ok(hidden(&clashes))
    }
}

impl Known {
    /// The configuration in a request as the operator may see it, if there is such a toolkit.
    pub(super) fn shown(&self, request: &ToolkitConfigureRequest<'_>) -> Option<Value> {
        let toolkit = self.find(&request.toolkit_name).ok()?;
        let config: Value = request.config.raw().deserialize().ok()?;
        Some(without_secrets(toolkit.info().schema.value(), &config))
    }

    /// The toolkit of this name.
    fn find(&self, name: &str) -> Result<&Arc<dyn Toolkit>, String> {
        let names = || self.toolkits.iter().map(|it| it.info().name.as_str());
        if name.is_empty() {
            let all: Vec<&str> = names().collect();
            return Err(format!(
                "`toolkit_name` is empty: name one of {}, and give `config` what the toolkit's \
                 `schema` in the list asks for",
                all.join(", ")
            ));
        }
        let mut toolkits = self.toolkits.iter();
        let found = toolkits.find(|it| it.info().name == name);
        found.ok_or_else(|| {
            let shown: String = name.chars().take(64).collect();
            match nearest(&shown, names()) {
                Some(near) => format!("there is no toolkit `{shown}`; did you mean `{near}`?"),
                None => {
                    format!("there is no toolkit `{shown}`; toolkit/list names those there are")
                }
            }
        })
    }

    fn secrets(&self, agent: &str) -> Result<Secrets, String> {
        let agent = AgentId::new(agent);
        let agent =
            agent.map_err(|error| format!("nothing can be kept for this agent: {error}"))?;
        Ok(self.vault.for_agent(&agent))
    }

    /// The tools of a configuration that was kept, if there is one that still does.
    async fn kept(
        &self,
        toolkit: &Arc<dyn Toolkit>,
        secrets: &Secrets,
        agent: &str,
    ) -> Result<Option<Vec<Arc<dyn Tool>>>, store::Error> {
        let name = &toolkit.info().name;
        let Some(config) = secrets.get(&place(name)).await? else {
            return Ok(None);
        };
        let read = serde_json::from_slice::<Value>(&config).ok();
        let Some(config) = read.and_then(|value| Raw::from_serialize(&value).ok()) else {
            tracing::warn!(agent, toolkit = name, "a kept configuration is no JSON");
            return Ok(None);
        };
        match tools(toolkit, &config).await {
            Ok(tools) => Ok(Some(tools)),
            Err(problem) => {
                tracing::warn!(agent, toolkit = name, %problem, "a kept configuration does not do");
                Ok(None)
            }
        }
    }
}

impl Loader for Known {
    fn load<'a>(&'a self, agent: &'a str) -> BoxFuture<'a, Result<Vec<Loaded>, LoadError>> {
        Box::pin(async move {
            let secrets = self.secrets(agent).map_err(LoadError)?;
            let mut loaded = Vec::new();
            for toolkit in &self.toolkits {
                let kept = self.kept(toolkit, &secrets, agent).await;
                let kept = kept.map_err(|error| LoadError(error.to_string()))?;
                let source = Source::Toolkit(toolkit.info().name.clone());
                loaded.extend(kept.map(|tools| Loaded { source, tools }));
            }
            Ok(loaded)
        })
    }
}

impl fmt::Debug for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.toolkits.iter().map(|it| &it.info().name);
        f.debug_list().entries(names).finish()
    }
}

/// What the configuration of a toolkit is called among the secrets of an agent.
fn place(toolkit: &str) -> String {
    format!("toolkit/{toolkit}")
}

/// The tools of a toolkit with a configuration, if that does.
async fn tools(
    toolkit: &Arc<dyn Toolkit>,
    config: &Raw<'static>,
) -> Result<Vec<Arc<dyn Tool>>, String> {
    let info = toolkit.info();
    let config = info.schema.check(config);
    let config = config.map_err(|violations| {
        let told: Vec<String> = violations.iter().map(problem).collect();
        format!("the configuration of `{}`: {}", info.name, told.join("; "))
    })?;
    let shown = without_secrets(info.schema.value(), &config);
    let shown = json!({"toolkit": info.name, "config": shown});
    let configuration = ToolConfiguration::new(&config, shown);
    let made = Arc::clone(toolkit);
    let tools = tokio::task::spawn_blocking(move || made.tools(&config)).await;
    let tools = tools.map_err(|_| format!("the toolkit `{}` crashed", info.name))??;
    Ok(bundled(&info.name, tools, &configuration))
}

/// A violation, by the name of the key.
fn problem(violation: &Violation) -> String {
    let key = violation.path.trim_start_matches('/').replace('/', ".");
    match key.is_empty() {
        true => violation.text.clone(),
        false => format!("`{key}`: {}", violation.text),
    }
}

/// Which tools cannot be called, and why.
fn hidden(clashes: &[Clash]) -> Option<String> {
    let told = clashes.iter();
    let told = told.map(|clash| format!("`{}` (there is one from {})", clash.name, clash.kept));
    let told: Vec<String> = told.collect();
    let told = told.join(", ");
    (!told.is_empty()).then(|| format!("some of its tools have names that are taken: {told}"))
}

//! What a request stands for, beyond its words: the tool behind a name, the server behind an empty
//! `server_id`.
//!
//! What is decided, shown to the operator and run must be one thing. A request that leaves a selector out
//! is resolved before the rules see it, and one that is held is resolved before the operator is asked. When
//! it goes on, it must still stand for the same, and its plugin gets what was found, so that it looks up
//! nothing again.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use a2e_session::Failure;
use a2e_wire::messages::env::EnvRenderMode;
use a2e_wire::messages::memory::MemoryTier;
use a2e_wire::{Body, ErrorCode, Message, Namespace};
use canonical::Digest;
use serde_json::{Value, json};

/// What a plugin has found out of a request that it serves.
#[derive(Clone, Default)]
pub struct Resolution {
    selection: Option<Selection>,
    target: Option<Target>,
    object: Option<Arc<dyn Any + Send + Sync>>,
    /// The `config` of the request without its secrets.
    config: Option<Value>,
    /// The place of the plugin among those that serve such requests: it alone serves this one.
    pub(crate) plugin: Option<usize>,
}

/// A selector that was left out, and all that it stands for.
#[derive(Debug, Clone)]
pub(crate) struct Selection {
    pub(crate) member: &'static str,
    pub(crate) values: Vec<String>,
}

/// What runs behind a name.
#[derive(Debug, Clone)]
struct Target {
    /// Of all that it is: its definition, and what it is configured with.
    digest: Digest,
    /// As the operator sees it.
    shown: Value,
}

impl Resolution {
    /// A request whose selector (a member of the message) was left out stands for all of these. Rules
    /// decide about each of them, and the strictest decision counts.
    #[must_use]
    pub const fn of_all(member: &'static str, values: Vec<String>) -> Self {
        Self {
            selection: Some(Selection { member, values }),
            target: None,
            object: None,
            config: None,
            plugin: None,
        }
    }

    /// Adds what runs: the digest of all that it is, its configuration included, and what the operator is
    /// shown of it, in which no secret may stand.
    #[must_use]
    pub fn target(mut self, digest: Digest, shown: Value) -> Self {
        self.target = Some(Target { digest, shown });
        self
    }

    /// Adds what the plugin needs to serve the request: [`Context::resolved`](crate::Context::resolved)
    /// gives it back.
    #[must_use]
    pub fn object<T: Any + Send + Sync>(mut self, object: Arc<T>) -> Self {
        self.object = Some(object);
        self
    }

    /// Adds what the operator is shown of the `config` in the request, in which no secret may stand.
    /// Without it only names are shown.
    #[must_use]
    pub fn shown_config(mut self, config: Value) -> Self {
        self.config = Some(config);
        self
    }

    /// The same, found by the plugin at this place.
    pub(crate) fn by(mut self, plugin: usize) -> Self {
        self.plugin = Some(plugin);
        self
    }

    pub(crate) const fn selection(&self) -> Option<&Selection> {
        self.selection.as_ref()
    }

    pub(crate) const fn config(&self) -> Option<&Value> {
        self.config.as_ref()
    }

    pub(crate) fn get<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        Arc::clone(self.object.as_ref()?).downcast().ok()
    }

    /// What is part of the hash of a held call, beside its words, and shown with it; nothing if the words
    /// are all there is.
    pub(crate) fn shown(&self) -> Option<Value> {
        if self.selection.is_none() && self.target.is_none() {
            return None;
        }
        let mut shown = match &self.target {
            Some(Target { shown, .. }) if shown.is_object() => shown.clone(),
            Some(Target { shown, .. }) => json!({ "target": shown }),
            None => json!({}),
        };
        if let Some(Selection { member, values }) = &self.selection {
            shown[*member] = json!(values);
        }
        if let Some(Target { digest, .. }) = &self.target {
            shown["digest"] = json!(digest.to_string());
        }
        Some(shown)
    }
}

impl fmt::Debug for Resolution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resolution")
            .field("selection", &self.selection)
            .field("target", &self.target)
            .finish_non_exhaustive()
    }
}

/// Leaves only the names of what may be secret.
pub fn redact(value: &mut Value) {
    match value {
        Value::Object(members) => members.values_mut().for_each(redact),
        Value::Array(list) => list.iter_mut().for_each(redact),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            *value = Value::from("(hidden)");
        }
    }
}

/// The selector that a request leaves out although its plugin then takes something: the best, the last,
/// or all. Rules must not see it empty.
pub(crate) fn open_selector(body: &Body<'_>) -> Option<&'static str> {
    let server = |id: &a2e_wire::ServerId<'_>| id.is_empty().then_some("server_id");
    let component = |name: &str| name.is_empty().then_some("component_name");
    let plan = |id: &a2e_wire::PlanId<'_>| id.is_empty().then_some("plan_id");
    let tier = |tier: &MemoryTier<'_>| tier.as_str().is_empty().then_some("tier");
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "a test walks all requests and names those that are not here"
    )]
    match body {
        Body::McpResourceListRequest(request) => server(&request.server_id),
        Body::McpResourceReadRequest(request) => server(&request.server_id),
        Body::McpResourceSubscribeRequest(request) => server(&request.server_id),
        Body::McpPromptListRequest(request) => server(&request.server_id),
        Body::McpPromptGetRequest(request) => server(&request.server_id),
        Body::MemoryRetrieveRequest(request) => tier(&request.tier),
        Body::MemoryForgetRequest(request) => tier(&request.tier),
        Body::TaskListRequest(request) => plan(&request.plan_id),
        Body::PlanBoardRequest(request) => plan(&request.plan_id),
        Body::LearnStatsRequest(request) => component(&request.component_name),
        Body::LearnAdaptRequest(request) => component(&request.component_name),
        Body::LearnRefinementPlanRequest(request) => component(&request.component_name),
        Body::EnvPlanRequest(request) => request.episode_id.is_none().then_some("episode_id"),
        Body::EnvExpListRequest(request) => request.episode_id.is_empty().then_some("episode_id"),
        _ => None,
    }
}

/// What an open selector stands for at every host, whatever plugin serves it.
pub(crate) fn implied(body: &Body<'_>) -> Option<Resolution> {
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "others depend on the plugin"
    )]
    match body {
        Body::MemoryRetrieveRequest(_) | Body::MemoryForgetRequest(_) => {
            open_selector(body).map(|member| {
                let tiers = [
                    MemoryTier::Working,
                    MemoryTier::Episodic,
                    MemoryTier::Semantic,
                ];
                let tiers = tiers.iter().map(|tier| tier.as_str().to_owned());
                Resolution::of_all(member, tiers.collect())
            })
        }
        _ => None,
    }
}

/// Writes what a request means in the one way in which rules know it: what is left out is replaced by what
/// it stands for.
///
/// # Errors
/// If a word is none that the protocol has, whatever plugin would serve it.
pub(crate) fn normalize(message: &mut Message<'_>) -> Result<(), Failure> {
    let known = |tier: &MemoryTier<'_>| match tier {
        MemoryTier::Working | MemoryTier::Episodic | MemoryTier::Semantic => Ok(()),
        MemoryTier::Other(name) if name.is_empty() => Ok(()),
        MemoryTier::Other(name) => {
            let name: String = name.chars().take(64).collect();
            let text = format!(
                "there is no memory tier `{name}`; the tiers are `working`, `episodic` and `semantic`"
            );
            let code = ErrorCode::SchemaViolation;
            Err(Failure::new(code, Namespace::Memory, text))
        }
    };
    #[expect(clippy::wildcard_enum_match_arm, reason = "others say what they mean")]
    match &mut message.body {
        Body::MemoryInitRequest(request) if request.namespace.is_empty() => {
            request.namespace = "default".into();
        }
        Body::MemoryStoreRequest(request) => {
            for entry in &mut request.entries {
                known(&entry.tier)?;
                if entry.tier.as_str().is_empty() {
                    entry.tier = MemoryTier::Episodic;
                }
            }
        }
        Body::MemoryRetrieveRequest(request) => known(&request.tier)?,
        Body::MemoryForgetRequest(request) => known(&request.tier)?,
        Body::McpServerRegisterRequest(request) if request.config.server_id.is_empty() => {
            request.config.server_id = request.config.name.to_string().into();
        }
        Body::EnvRenderRequest(request) => {
            request.mode.get_or_insert(EnvRenderMode::Screenshot);
        }
        Body::EnvPlanRequest(request) => {
            request.episode_id.take_if(|id| id.is_empty());
        }
        _ => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests;

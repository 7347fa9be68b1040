//! Which plugin serves what.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use a2e_session::{Failure, Offer, OfferedCapability, failures};
use a2e_wire::messages::proc::ProcSpawnRequest;
use a2e_wire::messages::tool::ToolDefinition;
use a2e_wire::{Body, EpisodeId, ErrorCode, Message, Namespace, Tag};

use crate::decision::is_listing;
use crate::plugin::{Context, Outcome, Plugin, Serves};
use crate::resolution::{self, Resolution};
use crate::session::Session;

/// The plugins of a host, highest priority first.
#[derive(Clone, Default)]
pub(crate) struct Registry {
    plugins: Vec<Arc<dyn Plugin>>,
    /// Those to ask for each type, in order; by the number of its tag.
    by_tag: Vec<Vec<Arc<dyn Plugin>>>,
    by_type: HashMap<String, Vec<Arc<dyn Plugin>>>,
    catch_all: Vec<Arc<dyn Plugin>>,
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.plugins.iter().map(|plugin| plugin.name());
        f.debug_list().entries(names).finish()
    }
}

impl Registry {
    pub(crate) fn new(mut plugins: Vec<Arc<dyn Plugin>>) -> Self {
        // Stable: of equal priority the one configured first comes first.
        plugins.sort_by_key(|plugin| std::cmp::Reverse(plugin.priority()));
        let mut registry = Self {
            by_tag: vec![Vec::new(); Tag::ALL.len()],
            ..Self::default()
        };
        for plugin in &plugins {
            match plugin.serves() {
                Serves::Tags(tags) => {
                    for tag in tags {
                        let asked = registry.by_tag.get_mut(tag as usize);
                        asked.into_iter().for_each(|asked| add(asked, plugin));
                    }
                }
                Serves::Types(types) => {
                    for name in types {
                        add(registry.by_type.entry(name).or_default(), plugin);
                    }
                }
                Serves::CatchAll => add(&mut registry.catch_all, plugin),
            }
        }
        registry.plugins = plugins;
        registry
    }

    /// The plugins that may have served a request of this type.
    pub(crate) fn served_by(&self, tag: Option<Tag>) -> &[Arc<dyn Plugin>] {
        match tag {
            Some(tag) => self.tagged(tag),
            None => &self.plugins,
        }
    }

    /// Whether what a request does may outlive this process.
    pub(crate) fn outlives(&self, request: &Message<'_>) -> bool {
        if request.body.tag().is_some_and(only_reads) {
            return false;
        }
        let plugins = self.served_by(request.body.tag());
        plugins.iter().any(|plugin| plugin.outlives(request))
    }

    /// Whether those whose effect outlives this process recognise such a request after a restart.
    pub(crate) fn recognises_retries(&self, request: &Message<'_>) -> bool {
        let plugins = self.served_by(request.body.tag());
        let mut outlive = plugins.iter().filter(|plugin| plugin.outlives(request));
        outlive.all(|plugin| plugin.recognises_retries(request))
    }

    /// All plugins.
    pub(crate) fn plugins(&self) -> &[Arc<dyn Plugin>] {
        &self.plugins
    }

    /// What is offered in a handshake: each capability once, by its plugin of highest priority.
    pub(crate) fn offer(&self, authentication: bool) -> Offer {
        let mut offer = Offer {
            authentication,
            ..Offer::default()
        };
        for plugin in &self.plugins {
            match plugin.serves() {
                Serves::Tags(_) => {}
                Serves::Types(types) => offer.extra_types.extend(types),
                Serves::CatchAll => offer.catch_all = true,
            }
            let Some(capability) = plugin.capability() else {
                continue;
            };
            if offer
                .capabilities
                .iter()
                .all(|known| known.capability != capability)
            {
                offer.capabilities.push(OfferedCapability {
                    capability,
                    name: plugin.name().into(),
                    priority: plugin.priority(),
                    exclusive: plugin.exclusive(),
                });
            }
        }
        offer
    }

    /// Finds what a request stands for: the first plugin that knows says so, and serves it alone.
    pub(crate) async fn resolve(
        &self,
        request: &Message<'static>,
        session: &Arc<Session>,
    ) -> Result<Resolution, Failure> {
        if let Some(implied) = resolution::implied(&request.body) {
            return Ok(implied);
        }
        for (index, plugin) in self.serving(request).iter().enumerate() {
            if let Some(found) = plugin.resolve(request, session).await? {
                return Ok(found.by(index));
            }
        }
        Ok(Resolution::default())
    }

    /// Serves a request. A list has only what its agent may use.
    pub(crate) async fn dispatch(
        &self,
        request: Box<Message<'static>>,
        context: Context,
    ) -> Result<Outcome, Failure> {
        if !is_listing(&request.body) {
            return self.serve(request, context).await;
        }
        let session = Arc::clone(context.session());
        let mut outcome = self.serve(request, context).await?;
        if let Outcome::Answer(list) = &mut outcome {
            session.retain_usable(list);
        }
        Ok(outcome)
    }

    /// Serves a request: the plugin that has resolved it does; else they are asked in order until one
    /// does not pass. Lists are asked of all and become one.
    async fn serve(
        &self,
        request: Box<Message<'static>>,
        context: Context,
    ) -> Result<Outcome, Failure> {
        let serving = self.serving(&request);
        let serving = match context.resolution().plugin {
            Some(index) => serving.get(index).map_or(&[][..], std::slice::from_ref),
            None => serving,
        };
        let namespace = request.body.tag().map_or(Namespace::Base, Tag::namespace);
        let gets_no_answer = gets_no_answer(&request);
        let unserved = unserved(&request);
        let tags = wanted_tags(&request.body);
        let mut merged: Option<Box<Body<'static>>> = None;
        let mut asked = Some((request, context));
        for (index, plugin) in serving.iter().enumerate() {
            let is_last = index.saturating_add(1) == serving.len();
            let next = if is_last { asked.take() } else { asked.clone() };
            let Some((request, context)) = next else {
                break;
            };
            match plugin.handle(request, context).await? {
                Outcome::Pass => {}
                Outcome::Done if gets_no_answer => return Ok(Outcome::Done),
                Outcome::Done => return Err(no_answer(plugin.name(), namespace)),
                Outcome::Answer(body) if !is_list(&body) => return Ok(Outcome::Answer(body)),
                Outcome::Answer(body) => {
                    merged = Some(match merged {
                        Some(earlier) => Box::new(merge(*earlier, *body)),
                        None => body,
                    });
                }
            }
        }
        let mut merged = merged.ok_or(unserved)?;
        if let Body::ToolListResponse(list) = &mut *merged {
            list.tools.retain(|tool| has_tags(tool, &tags));
        }
        Ok(Outcome::Answer(merged))
    }

    /// Whether the calls inside a request come as requests of their own.
    pub(crate) fn asks_for_nodes(&self, request: &Message<'_>) -> bool {
        let serving = self.serving(request);
        !serving.is_empty() && serving.iter().all(|plugin| plugin.asks_for_nodes())
    }

    /// The programs that a request starts.
    pub(crate) fn executes(
        &self,
        request: &Message<'_>,
    ) -> impl Iterator<Item = ProcSpawnRequest<'static>> {
        let serving = self.serving(request).iter();
        serving.filter_map(|plugin| plugin.executes(request))
    }

    /// The plugins to ask for a request, in order.
    pub(crate) fn serving(&self, request: &Message<'_>) -> &[Arc<dyn Plugin>] {
        let named = match request.body.tag() {
            Some(tag) => return self.tagged(tag),
            None => self.by_type.get(request.type_name()),
        };
        named.unwrap_or(&self.catch_all)
    }

    fn tagged(&self, tag: Tag) -> &[Arc<dyn Plugin>] {
        self.by_tag.get(tag as usize).map_or(&[], Vec::as_slice)
    }
}

/// Whether a request of the catalogue only reads, whichever plugin serves it.
pub(crate) const fn only_reads(tag: Tag) -> bool {
    matches!(
        tag,
        Tag::ToolListRequest
            | Tag::ToolkitListRequest
            | Tag::SkillDiscoverRequest
            | Tag::MemoryRetrieveRequest
            | Tag::EnvObserveRequest
            | Tag::EnvSpaceRequest
            | Tag::EnvRenderRequest
            | Tag::EnvExpListRequest
            | Tag::ProcStatusRequest
            | Tag::LearnStatsRequest
            | Tag::LearnRefinementReviewRequest
            | Tag::LearnRefinementHistoryRequest
            | Tag::McpServerListRequest
            | Tag::McpResourceListRequest
            | Tag::McpResourceReadRequest
            | Tag::McpPromptListRequest
            | Tag::McpPromptGetRequest
            | Tag::McpRootListRequest
            | Tag::MultiAgentListRequest
            | Tag::SubagentListRequest
            | Tag::PlanListRequest
            | Tag::TaskListRequest
            | Tag::PlanBoardRequest
            | Tag::ChainListRequest
            | Tag::ChainShowRequest
            | Tag::EnvListRequest
            | Tag::LearnSamplesRequest
            | Tag::PolicyPermittedRequest
    )
}

/// Adds a plugin to those asked, unless an exclusive one is asked alone.
fn add(asked: &mut Vec<Arc<dyn Plugin>>, plugin: &Arc<dyn Plugin>) {
    if !asked.first().is_some_and(|first| first.exclusive()) {
        asked.push(Arc::clone(plugin));
    }
}

/// Why nobody served a request.
enum Unserved {
    Tool(String),
    Environment(String),
    Episode(String),
    Type(String, Namespace),
}

fn unserved(request: &Message<'_>) -> Unserved {
    let episode = |id: &EpisodeId<'_>| Unserved::Episode(id.as_str().to_owned());
    match (&request.body, request.body.tag()) {
        (Body::ToolCallRequest(call), _) => Unserved::Tool((*call.tool_name).to_owned()),
        (Body::EnvResetRequest(reset), _) => Unserved::Environment((*reset.env_name).to_owned()),
        (Body::EnvSpaceRequest(space), _) => Unserved::Environment((*space.env_name).to_owned()),
        (Body::EnvStepRequest(step), _) => episode(&step.episode_id),
        (Body::EnvObserveRequest(observe), _) => episode(&observe.episode_id),
        (Body::EnvCloseRequest(close), _) => episode(&close.episode_id),
        (Body::EnvRenderRequest(render), _) => episode(&render.episode_id),
        (Body::EnvExpListRequest(list), _) => episode(&list.episode_id),
        (Body::EnvPlanRequest(plan), _) => episode(&plan.episode_id.clone().unwrap_or_default()),
        (Body::EnvBatchStepRequest(batch), _) => {
            episode(&batch.episode_ids.first().cloned().unwrap_or_default())
        }
        (_, Some(tag)) => Unserved::Type(tag.as_str().to_owned(), tag.namespace()),
        (_, None) => Unserved::Type(request.type_name().to_owned(), Namespace::Base),
    }
}

impl From<Unserved> for Failure {
    fn from(unserved: Unserved) -> Self {
        match unserved {
            Unserved::Tool(name) => unknown_tool(&name),
            Unserved::Environment(name) => unknown_environment(&name),
            Unserved::Episode(id) => unknown_episode(&id),
            Unserved::Type(name, Namespace::Base) => failures::unknown_type(&name),
            Unserved::Type(name, namespace) => {
                let text = format!("no plugin serves `{name}`");
                Self::new(ErrorCode::InvalidMessage, namespace, text)
            }
        }
    }
}

/// Whether all plugins have a part in such an answer.
const fn is_list(body: &Body<'_>) -> bool {
    matches!(
        body,
        Body::ToolListResponse(_)
            | Body::ToolkitListResponse(_)
            | Body::SkillDiscoverResponse(_)
            | Body::EnvListResponse(_)
    )
}

/// The tags that a list of tools is filtered by, in lower case.
fn wanted_tags(request: &Body<'_>) -> Vec<String> {
    let Body::ToolListRequest(list) = request else {
        return Vec::new();
    };
    let tags = list.filter_tags.iter();
    tags.map(|tag| tag.to_lowercase()).collect()
}

/// Whether a tool has all of these tags: a plugin of any kind may have listed it regardless.
fn has_tags(tool: &ToolDefinition<'_>, wanted: &[String]) -> bool {
    let has = |wanted: &String| tool.tags.iter().any(|tag| tag.to_lowercase() == *wanted);
    wanted.iter().all(has)
}

/// Adds a plugin's list to those of the plugins before it.
fn merge(earlier: Body<'static>, body: Body<'static>) -> Body<'static> {
    match (earlier, body) {
        (Body::ToolListResponse(mut list), Body::ToolListResponse(more)) => {
            list.tools.extend(more.tools);
            list.into()
        }
        (Body::ToolkitListResponse(mut list), Body::ToolkitListResponse(more)) => {
            list.toolkits.extend(more.toolkits);
            list.into()
        }
        (Body::SkillDiscoverResponse(mut list), Body::SkillDiscoverResponse(more)) => {
            list.skills.extend(more.skills);
            list.into()
        }
        (Body::EnvListResponse(mut list), Body::EnvListResponse(more)) => {
            list.environments.extend(more.environments);
            list.into()
        }
        (_, body) => body,
    }
}

/// Whether the catalogue has no response to such a request.
fn gets_no_answer(request: &Message<'_>) -> bool {
    request
        .body
        .tag()
        .is_some_and(|tag| tag.response().is_none())
}

fn no_answer(plugin: &str, namespace: Namespace) -> Failure {
    let text = format!("the plugin `{plugin}` gave no answer to a request that needs one");
    Failure::new(ErrorCode::RuntimeError, namespace, text)
}

fn unknown_tool(name: &str) -> Failure {
    let name: String = name.chars().take(64).collect();
    let text = format!("there is no tool `{name}`; tool/list/req lists what there is");
    Failure::new(ErrorCode::UnknownTool, Namespace::Tool, text)
}

/// The `reason` of a host that has no such environment, so that others are asked.
pub(crate) const UNKNOWN_ENVIRONMENT: &str = "unknown_environment";
/// The same for an episode.
pub(crate) const UNKNOWN_EPISODE: &str = "unknown_episode";

fn unknown_environment(name: &str) -> Failure {
    let name: String = name.chars().take(64).collect();
    let text = format!("there is no environment `{name}`; `env/list/req` lists what there is");
    let failure = Failure::new(ErrorCode::RuntimeError, Namespace::Env, text);
    Failure {
        retryable: false,
        ..failure.because(UNKNOWN_ENVIRONMENT)
    }
}

fn unknown_episode(id: &str) -> Failure {
    let id: String = id.chars().take(64).collect();
    let text = format!(
        "there is no episode `{id}` in this session: it was never begun, or it was closed; \
         env/reset/req begins one"
    );
    let failure = Failure::new(ErrorCode::RuntimeError, Namespace::Env, text);
    Failure {
        retryable: false,
        ..failure.because(UNKNOWN_EPISODE)
    }
}

//! Which plugin serves what.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use a2e_session::{Failure, Offer, OfferedCapability, OwnTypes, TypePattern, failures};
use a2e_wire::messages::proc::ProcSpawnRequest;
use a2e_wire::messages::tool::ToolDefinition;
use a2e_wire::{Body, Capability, EpisodeId, ErrorCode, Message, Namespace, Tag};

use crate::decision::is_listing;
use crate::plugin::{Context, Outcome, Plugin, Serves};
use crate::resolution::{self, Resolution};
use crate::session::Session;

/// The plugins of a host, in their order of [precedence].
#[derive(Clone, Default)]
pub(crate) struct Registry {
    plugins: Vec<Arc<dyn Plugin>>,
    /// Those to ask for each type, in order; by the number of its tag.
    by_tag: Vec<Vec<Arc<dyn Plugin>>>,
    /// The same for types beside the catalogue, the most specific pattern first.
    own_types: Vec<(TypePattern, Vec<Arc<dyn Plugin>>)>,
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.plugins.iter().map(|plugin| plugin.name());
        f.debug_list().entries(names).finish()
    }
}

impl Registry {
    pub(crate) fn new(mut plugins: Vec<Arc<dyn Plugin>>) -> Self {
        plugins.sort_by_key(|plugin| precedence(plugin.exclusive(), plugin.priority()));
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
                Serves::Types(patterns) => {
                    for pattern in patterns {
                        registry.add_own(pattern, plugin);
                    }
                }
            }
        }
        registry
            .own_types
            .sort_by_key(|(pattern, _)| pattern.specificity());
        registry.plugins = plugins;
        registry
    }

    fn add_own(&mut self, pattern: TypePattern, plugin: &Arc<dyn Plugin>) {
        let mut known = self.own_types.iter_mut();
        match known.find(|(known, _)| *known == pattern) {
            Some((_, asked)) => add(asked, plugin),
            None => self.own_types.push((pattern, vec![Arc::clone(plugin)])),
        }
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

    /// What is offered in a handshake: each capability once, by the plugin that is asked first.
    pub(crate) fn offer(&self, authentication: bool) -> Offer {
        let mut offer = Offer {
            authentication,
            ..Offer::default()
        };
        for (pattern, asked) in &self.own_types {
            offer.own_types.push(OwnTypes {
                pattern: pattern.clone(),
                capability: asked.first().and_then(|plugin| plugin.capability()),
            });
        }
        for plugin in &self.plugins {
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
    ) -> Result<Box<Body<'static>>, Failure> {
        if !is_listing(&request.body) {
            return self.serve(request, context).await;
        }
        let session = Arc::clone(context.session());
        let mut list = self.serve(request, context).await?;
        session.retain_usable(&mut list);
        Ok(list)
    }

    /// Serves a request: the plugin that has resolved it does; else they are asked in order until one
    /// does not pass. Lists are asked of all and become one.
    async fn serve(
        &self,
        request: Box<Message<'static>>,
        context: Context,
    ) -> Result<Box<Body<'static>>, Failure> {
        let serving = self.serving(&request);
        let serving = match context.resolution().plugin {
            Some(index) => serving.get(index).map_or(&[][..], std::slice::from_ref),
            None => serving,
        };
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
                Outcome::Answer(body) if !is_list(&body) => return Ok(body),
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
        Ok(merged)
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
        match request.body.tag() {
            Some(tag) => self.tagged(tag),
            None => self.own_type(request.type_name()),
        }
    }

    /// The capability that a request belongs to: for a type beside the catalogue, that of the plugin which
    /// serves it.
    pub(crate) fn capability(&self, request: &Message<'_>) -> Option<Capability<'static>> {
        match request.body.tag() {
            Some(tag) => tag.namespace().capability(),
            None => self.own_capability(request.type_name()),
        }
    }

    pub(crate) fn own_capability(&self, type_name: &str) -> Option<Capability<'static>> {
        self.own_type(type_name).first()?.capability()
    }

    /// The plugins to ask for a type beside the catalogue.
    fn own_type(&self, type_name: &str) -> &[Arc<dyn Plugin>] {
        let mut own = self.own_types.iter();
        let found = own.find(|(pattern, _)| pattern.matches(type_name));
        found.map_or(&[], |(_, asked)| asked)
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

/// Sorts plugins, with a stable sort, into the order in which they are asked: an exclusive one first,
/// which then is asked alone, then by priority, then as they are configured.
#[must_use]
pub const fn precedence(exclusive: bool, priority: i64) -> impl Ord {
    Reverse((exclusive, priority))
}

/// Adds a plugin to those asked, unless an exclusive one is asked alone. What a configuration has under
/// one name counts as one.
fn add(asked: &mut Vec<Arc<dyn Plugin>>, plugin: &Arc<dyn Plugin>) {
    let is_alone = |first: &Arc<dyn Plugin>| first.exclusive() && first.name() != plugin.name();
    if !asked.first().is_some_and(is_alone) {
        asked.push(Arc::clone(plugin));
    }
}

/// Two exclusive plugins that serve the same type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the plugins `{first}` and `{second}` are both `exclusive` and both serve `{type_name}`; take \
     `exclusive` from one of them"
)]
pub struct ExclusiveConflict {
    first: String,
    second: String,
    type_name: String,
}

/// Checks that of the exclusive plugins no two serve the same type.
pub(crate) fn check_exclusive(plugins: &[Arc<dyn Plugin>]) -> Result<(), ExclusiveConflict> {
    let mut known: HashMap<String, &str> = HashMap::new();
    for plugin in plugins.iter().filter(|plugin| plugin.exclusive()) {
        let types: Vec<String> = match plugin.serves() {
            Serves::Tags(tags) => tags.iter().map(|tag| tag.as_str().to_owned()).collect(),
            Serves::Types(types) => types.iter().map(|it| it.as_str().to_owned()).collect(),
        };
        for type_name in types {
            match known.get(&type_name) {
                Some(first) if *first != plugin.name() => {
                    return Err(ExclusiveConflict {
                        first: (*first).to_owned(),
                        second: plugin.name().to_owned(),
                        type_name,
                    });
                }
                _ => known.insert(type_name, plugin.name()),
            };
        }
    }
    Ok(())
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
            add_new(&mut list.tools, more.tools, |tool| &tool.name);
            list.into()
        }
        (Body::ToolkitListResponse(mut list), Body::ToolkitListResponse(more)) => {
            add_new(&mut list.toolkits, more.toolkits, |toolkit| &toolkit.name);
            list.into()
        }
        (Body::SkillDiscoverResponse(mut list), Body::SkillDiscoverResponse(more)) => {
            add_new(&mut list.skills, more.skills, |skill| &skill.name);
            list.into()
        }
        (Body::EnvListResponse(mut list), Body::EnvListResponse(more)) => {
            add_new(&mut list.environments, more.environments, |it| &it.name);
            list.into()
        }
        (_, body) => body,
    }
}

/// Adds what a later plugin lists, but for names that an earlier one has listed: that one is asked.
fn add_new<T>(list: &mut Vec<T>, more: Vec<T>, name: impl Fn(&T) -> &str) {
    let known: HashSet<String> = list.iter().map(|it| name(it).to_owned()).collect();
    list.extend(more.into_iter().filter(|it| !known.contains(name(it))));
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

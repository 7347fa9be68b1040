//! Which plugin serves what.

use std::sync::Arc;

use a2e_session::{Failure, Offer, OfferedCapability, failures};
use a2e_wire::{Body, ErrorCode, Message, Namespace, Tag};

use crate::plugin::{Context, Outcome, Plugin, Serves};

/// The plugins of a host, highest priority first.
#[derive(Clone, Default)]
pub(crate) struct Registry {
    plugins: Vec<Arc<dyn Plugin>>,
}

impl Registry {
    pub(crate) fn new(mut plugins: Vec<Arc<dyn Plugin>>) -> Self {
        // Stable: of equal priority the one configured first comes first.
        plugins.sort_by_key(|plugin| std::cmp::Reverse(plugin.priority()));
        Self { plugins }
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

    /// Serves a request: the plugins are asked in order until one does not pass. Lists are asked of
    /// all and become one.
    pub(crate) async fn dispatch(
        &self,
        request: Message<'static>,
        context: Context,
    ) -> Result<Outcome, Failure> {
        let type_name = request.type_name().to_owned();
        let namespace = request.body.tag().map_or(Namespace::Base, Tag::namespace);
        let mut merged: Option<Body<'static>> = None;
        for plugin in self.serving(&request) {
            match plugin.handle(request.clone(), context.clone()).await? {
                Outcome::Pass => {}
                Outcome::Done if gets_no_answer(&request) => return Ok(Outcome::Done),
                Outcome::Done => return Err(no_answer(plugin.name(), namespace)),
                Outcome::Answer(body) => match merge(merged.take(), *body) {
                    Merged::Final(body) => return Ok(Outcome::answer(body)),
                    Merged::More(body) => merged = Some(body),
                },
            }
        }
        match (merged, request.body) {
            (Some(body), _) => Ok(Outcome::answer(body)),
            (None, Body::ToolCallRequest(call)) => Err(unknown_tool(&call.tool_name)),
            (None, _) if namespace == Namespace::Base => Err(failures::unknown_type(&type_name)),
            (None, _) => Err(Failure::new(
                ErrorCode::InvalidMessage,
                namespace,
                format!("no plugin serves `{type_name}`"),
            )),
        }
    }

    /// The plugins to ask for a request, in order; an exclusive first one alone.
    fn serving(&self, request: &Message<'_>) -> Vec<&Arc<dyn Plugin>> {
        let named: Vec<_> = self
            .plugins
            .iter()
            .filter(|plugin| match plugin.serves() {
                Serves::Tags(tags) => request.body.tag().is_some_and(|tag| tags.contains(&tag)),
                Serves::Types(types) => types.iter().any(|known| known == request.type_name()),
                Serves::CatchAll => false,
            })
            .collect();
        let catch_all = |plugin: &&Arc<dyn Plugin>| plugin.serves() == Serves::CatchAll;
        let serving = match named.is_empty() && request.body.tag().is_none() {
            true => self.plugins.iter().filter(catch_all).collect(),
            false => named,
        };
        let alone = serving.first().is_some_and(|plugin| plugin.exclusive());
        serving
            .into_iter()
            .take(if alone { 1 } else { usize::MAX })
            .collect()
    }
}

enum Merged {
    /// Other plugins may add to it.
    More(Body<'static>),
    /// It is the response.
    Final(Body<'static>),
}

/// Adds a plugin's answer to those of the plugins before it.
fn merge(earlier: Option<Body<'static>>, body: Body<'static>) -> Merged {
    match (earlier, body) {
        (Some(Body::ToolListResponse(mut list)), Body::ToolListResponse(more)) => {
            list.tools.extend(more.tools);
            Merged::More(list.into())
        }
        (Some(Body::ToolkitListResponse(mut list)), Body::ToolkitListResponse(more)) => {
            list.toolkits.extend(more.toolkits);
            Merged::More(list.into())
        }
        (Some(Body::SkillDiscoverResponse(mut list)), Body::SkillDiscoverResponse(more)) => {
            list.skills.extend(more.skills);
            Merged::More(list.into())
        }
        (
            None,
            body @ (Body::ToolListResponse(_)
            | Body::ToolkitListResponse(_)
            | Body::SkillDiscoverResponse(_)),
        ) => Merged::More(body),
        (_, body) => Merged::Final(body),
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

//! Lists of what there is, and what in them an agent may use.
//!
//! A request for a list is decided about by the rules, but no default stands against it: the list itself
//! has only what its agent may use. That is what some request about it could be allowed or held for,
//! with arguments of the agent's choice.

use std::borrow::Cow;

use a2e_wire::messages::env::EnvSummary;
use a2e_wire::messages::mcp::{McpPrompt, McpResource, McpServerInfo};
use a2e_wire::messages::planning::PlanSummary;
use a2e_wire::messages::skill::SkillDefinition;
use a2e_wire::messages::tool::ToolDefinition;
use a2e_wire::messages::toolkit::ToolkitDefinition;
use a2e_wire::{Body, Capability, Sender, Tag};
use policy::{Agent, Call, Effect, PartialCall, PartialName, Rules};
use serde_json::json;

use super::asked::names_its_target;
use super::{agent, rule_name};
use crate::auth::Identity;
use crate::registry::Registry;

/// The requests that list what there is.
pub(super) const LISTINGS: [Tag; 12] = [
    Tag::ToolListRequest,
    Tag::ToolkitListRequest,
    Tag::SkillDiscoverRequest,
    Tag::McpServerListRequest,
    Tag::McpResourceListRequest,
    Tag::McpPromptListRequest,
    Tag::SubagentListRequest,
    Tag::MultiAgentListRequest,
    Tag::PlanListRequest,
    Tag::EnvListRequest,
    Tag::ChainListRequest,
    Tag::PolicyPermittedRequest,
];

/// Requests whose arguments are all that conditions see of them.
pub(super) const CALLS: [Tag; 2] = [Tag::ToolCallRequest, Tag::SkillCallRequest];

/// What is done with a chain.
const CHAIN_USES: [&str; 4] = [
    Tag::ChainRequest.as_str(),
    Tag::ChainShowRequest.as_str(),
    Tag::ChainResumeRequest.as_str(),
    Tag::ChainCancelRequest.as_str(),
];

/// What is done with a plan.
const PLAN_USES: [&str; 5] = [
    Tag::TaskAddRequest.as_str(),
    Tag::TaskUpdateRequest.as_str(),
    Tag::TaskListRequest.as_str(),
    Tag::PlanBoardRequest.as_str(),
    Tag::PlanRemoveRequest.as_str(),
];

/// What is done with an MCP server, beside calls of its tools.
const SERVER_USES: [&str; 4] = [
    Tag::McpResourceReadRequest.as_str(),
    Tag::McpResourceSubscribeRequest.as_str(),
    Tag::McpPromptGetRequest.as_str(),
    Tag::McpServerUnregisterRequest.as_str(),
];

/// What is done with a resource.
const RESOURCE_USES: [&str; 2] = [
    Tag::McpResourceReadRequest.as_str(),
    Tag::McpResourceSubscribeRequest.as_str(),
];

/// What is done with a sub-agent.
const SUBAGENT_USES: [&str; 11] = [
    Tag::SubagentSpawnRequest.as_str(),
    Tag::SubagentDelegateRequest.as_str(),
    Tag::SubagentAwaitRequest.as_str(),
    Tag::SubagentMessageRequest.as_str(),
    Tag::SubagentCancelRequest.as_str(),
    Tag::SubagentTerminateRequest.as_str(),
    Tag::SubagentMergeRequest.as_str(),
    Tag::MultiAgentSpawnRequest.as_str(),
    Tag::MultiAgentDelegateRequest.as_str(),
    Tag::MultiAgentAwaitRequest.as_str(),
    Tag::MultiAgentTerminateRequest.as_str(),
];

/// Something that a list has.
pub trait Listed {
    /// Whether its agent may use it.
    fn is_usable(&self, permissions: &Permissions<'_>) -> bool;
}

/// What an agent may do, as far as that can be said before it is done.
#[derive(Debug, Clone, Copy)]
pub struct Permissions<'a> {
    rules: &'a Rules,
    agent: Agent<'a>,
    registry: &'a Registry,
}

/// Whether a request lists what there is.
pub(crate) fn is_listing(body: &Body<'_>) -> bool {
    body.tag().is_some_and(|tag| LISTINGS.contains(&tag))
}

/// The requests that list what there is, as rules know them: by capability and type.
pub(crate) fn listings() -> impl Iterator<Item = (String, &'static str)> {
    LISTINGS.iter().map(|tag| {
        let capability = tag.namespace().capability();
        (rule_name(capability.as_ref()).to_owned(), tag.as_str())
    })
}

/// Leaves in a list what its agent may use.
pub(crate) fn retain_usable(list: &mut Body<'static>, by: &Permissions<'_>) {
    let may_use_subagents = || by.may_send_any(&SUBAGENT_USES, &[]);
    #[expect(clippy::wildcard_enum_match_arm, reason = "nothing else is a list")]
    match list {
        Body::ToolListResponse(list) => list.tools.retain(|it| it.is_usable(by)),
        Body::ToolkitListResponse(list) => {
            for toolkit in &mut list.toolkits {
                let tools = &mut toolkit.tools;
                tools.retain(|name| by.may_call(PartialName::Exact(name)));
            }
            list.toolkits.retain(|it| it.is_usable(by));
        }
        Body::SkillDiscoverResponse(list) => list.skills.retain(|it| it.is_usable(by)),
        Body::McpServerListResponse(list) => list.servers.retain(|it| it.is_usable(by)),
        Body::McpResourceListResponse(list) => list.resources.retain(|it| it.is_usable(by)),
        Body::McpPromptListResponse(list) => list.prompts.retain(|it| it.is_usable(by)),
        Body::PlanListResponse(list) => list.plans.retain(|it| it.is_usable(by)),
        Body::SubagentListResponse(list) => list.subagents.retain(|_| may_use_subagents()),
        Body::MultiAgentListResponse(list) => list.subagents.retain(|_| may_use_subagents()),
        Body::EnvListResponse(list) => list.environments.retain(|it| it.is_usable(by)),
        Body::ChainListResponse(list) => {
            list.chains.retain(|_| by.may_send_any(&CHAIN_USES, &[]));
        }
        _ => {}
    }
}

impl<'a> Permissions<'a> {
    pub(crate) fn new(rules: &'a Rules, identity: &'a Identity, registry: &'a Registry) -> Self {
        Self {
            rules,
            agent: agent(identity),
            registry,
        }
    }

    /// The capability of a type of requests.
    fn capability(&self, type_name: &str) -> Option<Capability<'static>> {
        match Tag::parse(type_name, Sender::Agent) {
            Some(tag) => tag.namespace().capability(),
            None => self.registry.own_capability(type_name),
        }
    }

    /// Whether its agent may send a request of this type, perhaps with the operator's approval.
    #[must_use]
    pub fn may_send_type(&self, type_name: &str) -> bool {
        let tag = Tag::parse(type_name, Sender::Agent);
        let (type_name, is_listing) = match tag {
            Some(tag) => (tag.as_str(), LISTINGS.contains(&tag)),
            None => (type_name, false),
        };
        if is_listing {
            return self.may_list(type_name);
        }
        match tag.is_some_and(names_its_target) {
            true => self.may(type_name, PartialName::Prefix(""), &[]),
            false => self.may_send(type_name, &[]),
        }
    }

    fn may_list(&self, type_name: &str) -> bool {
        let capability = self.capability(type_name);
        let decision = self.rules.decide_listing(&Call {
            agent: self.agent,
            capability: rule_name(capability.as_ref()),
            name: type_name,
            arguments: &json!({ "type": type_name }),
        });
        decision.effect != Effect::Deny
    }

    /// Whether it may call a tool of such a name.
    fn may_call(&self, name: PartialName<'_>) -> bool {
        self.may(Tag::ToolCallRequest.as_str(), name, &[])
    }

    /// Whether it may send a request that rules know by its type, with these members.
    fn may_send(&self, type_name: &str, members: &[(&str, &str)]) -> bool {
        self.may(type_name, PartialName::Exact(type_name), members)
    }

    /// Whether it may send a request that rules know by this name. Its other members may be anything.
    fn may(&self, type_name: &str, name: PartialName<'_>, members: &[(&str, &str)]) -> bool {
        // Of calls of tools and skills, conditions see the arguments alone.
        let is_call = CALLS.iter().any(|tag| tag.as_str() == type_name);
        let kind = (!is_call).then_some(("type", type_name));
        let known = kind.iter().chain(members);
        let known = known.map(|(member, value)| ((*member).to_owned(), (*value).into()));
        let capability = self.capability(type_name);
        self.rules.may_allow(&PartialCall {
            agent: self.agent,
            capability: rule_name(capability.as_ref()),
            name,
            arguments: &known.collect(),
        })
    }

    fn may_send_any(&self, types: &[&str], members: &[(&str, &str)]) -> bool {
        types.iter().any(|name| self.may_send(name, members))
    }
}

impl Listed for ToolDefinition<'_> {
    fn is_usable(&self, permissions: &Permissions<'_>) -> bool {
        permissions.may_call(PartialName::Exact(&self.name))
    }
}

/// It can be configured, or it is and its tools can be called.
impl Listed for ToolkitDefinition<'_> {
    fn is_usable(&self, permissions: &Permissions<'_>) -> bool {
        let name = &*self.name;
        let configure = Tag::ToolkitConfigureRequest.as_str();
        let about = [("toolkit_name", name)];
        let may_call = |tool: &Cow<'_, str>| permissions.may_call(PartialName::Exact(tool));
        permissions.may(configure, PartialName::Exact(name), &about)
            || (self.configured && self.tools.iter().any(may_call))
    }
}

impl Listed for SkillDefinition<'_> {
    fn is_usable(&self, permissions: &Permissions<'_>) -> bool {
        let call = Tag::SkillCallRequest.as_str();
        permissions.may(call, PartialName::Exact(&self.name), &[])
    }
}

impl Listed for EnvSummary<'_> {
    fn is_usable(&self, permissions: &Permissions<'_>) -> bool {
        let (reset, name) = (Tag::EnvResetRequest.as_str(), &*self.name);
        permissions.may(reset, PartialName::Exact(name), &[("env_name", name)])
    }
}

impl Listed for McpServerInfo<'_> {
    fn is_usable(&self, permissions: &Permissions<'_>) -> bool {
        let id = self.server_id.as_str();
        permissions.may_call(PartialName::Prefix(&format!("{id}__")))
            || permissions.may_send_any(&SERVER_USES, &[("server_id", id)])
    }
}

impl Listed for McpResource<'_> {
    fn is_usable(&self, permissions: &Permissions<'_>) -> bool {
        let about = [("server_id", self.server_id.as_str()), ("uri", &self.uri)];
        permissions.may_send_any(&RESOURCE_USES, &about)
    }
}

impl Listed for McpPrompt<'_> {
    fn is_usable(&self, permissions: &Permissions<'_>) -> bool {
        let about = [("server_id", self.server_id.as_str()), ("name", &self.name)];
        permissions.may_send(Tag::McpPromptGetRequest.as_str(), &about)
    }
}

impl Listed for PlanSummary<'_> {
    fn is_usable(&self, permissions: &Permissions<'_>) -> bool {
        permissions.may_send_any(&PLAN_USES, &[("plan_id", self.plan_id.as_str())])
    }
}

/// The capability of a type of requests.
pub(super) fn capability(type_name: &str) -> Option<Capability<'static>> {
    let tag = Tag::parse(type_name, Sender::Agent);
    tag.and_then(|tag| tag.namespace().capability())
}

//! A request as rules see it: what its plugin gets, in whatever words it came.

use std::borrow::Cow;

use a2e_wire::messages::chain::{ChainNode, ChainNodeKind};
use a2e_wire::messages::proc::ProcSpawnRequest;
use a2e_wire::{Body, Capability, Charset, Message, Namespace, Object, Tag};
use canonical::{Digest, Value};
use policy::{Arguments, UnreadableArguments};

use crate::auth::Identity;
use crate::registry::Registry;
use crate::resolution::{self, Resolution};
use crate::session::Session;

/// A request, as it is decided about.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub(crate) identity: &'a Identity,
    pub(crate) message: &'a Message<'a>,
    /// The request as received. Only its size and its hash are of interest: a member may have
    /// another name there, or none and so its default.
    pub(crate) line: &'a [u8],
    /// Whether the calls inside it come as requests of their own.
    pub(crate) is_asked_again: bool,
    /// Who serves it.
    registry: &'a Registry,
    /// What it stands for beyond its words.
    resolution: &'a Resolution,
    /// Of all that its selector stands for, what this decision is about.
    selected: Option<&'a str>,
}

/// A call inside another.
#[derive(Debug, Clone)]
pub(super) struct Nested<'a> {
    pub(super) capability: &'static str,
    pub(super) name: Cow<'a, str>,
    call: NestedCall<'a>,
}

/// What a call inside another is.
#[derive(Debug, Clone)]
enum NestedCall<'a> {
    /// A node of a chain.
    Node(&'a ChainNode<'a>),
    /// A program that is started.
    Program(Box<ProcSpawnRequest<'static>>),
}

impl<'a> Asked<'a> {
    pub(crate) fn new(
        session: &'a Session,
        message: &'a Message<'a>,
        line: &'a [u8],
        resolution: &'a Resolution,
    ) -> Self {
        let registry = &session.at().settings.registry;
        Self {
            is_asked_again: registry.asks_for_nodes(message),
            ..Self::alone(session.identity(), message, line, registry, resolution)
        }
    }

    /// The same of an agent that has no session. The nodes of a chain come as requests of their own.
    pub(super) fn alone(
        identity: &'a Identity,
        message: &'a Message<'a>,
        line: &'a [u8],
        registry: &'a Registry,
        resolution: &'a Resolution,
    ) -> Self {
        Self {
            identity,
            message,
            line,
            is_asked_again: matches!(message.body, Body::ChainRequest(_)),
            registry,
            resolution,
            selected: None,
        }
    }

    /// Each of what it stands for; itself if it leaves no selector out, or nothing is there to select.
    pub(super) fn each(self) -> impl Iterator<Item = Self> {
        let selection = self.resolution.selection();
        let values = selection.map_or(&[][..], |selection| &selection.values);
        let itself = values.is_empty().then_some(self);
        let one = move |value: &'a String| Self {
            selected: Some(value),
            ..self
        };
        itself.into_iter().chain(values.iter().map(one))
    }

    /// The selector that it leaves out, so that it stands for more than it says.
    pub(super) fn left_out(self) -> Option<&'static str> {
        resolution::open_selector(&self.message.body)
    }

    pub(crate) fn agent(self) -> &'a str {
        &self.identity.agent
    }

    pub(crate) fn namespace(self) -> Namespace {
        self.message
            .body
            .tag()
            .map_or(Namespace::Base, Tag::namespace)
    }

    /// That of its plugin for types beside the catalogue, if it has one.
    pub(crate) fn capability(self) -> Option<Capability<'static>> {
        self.registry.capability(self.message)
    }

    /// The type of the message; of its spellings, the catalogue's.
    pub(crate) fn type_name(self) -> &'a str {
        match self.message.body.tag() {
            Some(tag) => tag.as_str(),
            None => self.message.type_name(),
        }
    }

    /// What is called: a tool, a skill, an environment, a program; else the type of the message.
    pub(crate) fn name(self) -> &'a str {
        #[expect(
            clippy::wildcard_enum_match_arm,
            reason = "nothing else calls something by its name"
        )]
        let name = match &self.message.body {
            Body::ToolCallRequest(call) => Some(&*call.tool_name),
            Body::SkillCallRequest(call) => Some(&*call.name),
            Body::ToolkitConfigureRequest(configure) => Some(&*configure.toolkit_name),
            Body::EnvResetRequest(reset) => Some(&*reset.env_name),
            Body::ProcSpawnRequest(spawn) => spawn.cmd.first().map(|program| &**program),
            _ => None,
        };
        name.filter(|name| !name.is_empty())
            .unwrap_or_else(|| self.type_name())
    }

    /// The arguments of a tool or a skill.
    fn arguments(self) -> Option<&'a Object<'a>> {
        #[expect(clippy::wildcard_enum_match_arm, reason = "nothing else has arguments")]
        match &self.message.body {
            Body::ToolCallRequest(call) => Some(&call.arguments),
            Body::SkillCallRequest(call) => Some(&call.arguments),
            _ => None,
        }
    }

    /// The request in the words of the catalogue, with every member that its plugin gets.
    pub(crate) fn text(self) -> Vec<u8> {
        let mut text = Vec::with_capacity(self.line.len());
        self.message.encode_to(&mut text, Charset::Utf8);
        text
    }

    /// The request as the operator is shown it, and as it is kept until then: of what may be secret, only
    /// the names are shown, unless a plugin has found out what is not.
    pub(crate) fn shown(self) -> Vec<u8> {
        let text = self.text();
        let secret = secrets(&self.message.body);
        if secret.is_empty() {
            return text;
        }
        let mut message: serde_json::Value = serde_json::from_slice(&text).unwrap_or_default();
        for place in secret {
            let shown = self.resolution.config().filter(|_| *place == CONFIG);
            match (message.pointer_mut(place), shown) {
                (Some(value), Some(shown)) => value.clone_from(shown),
                (Some(value), None) => resolution::redact(value),
                (None, _) => {}
            }
        }
        message.to_string().into_bytes()
    }

    /// What the operator is shown beside the request: what it stands for.
    pub(crate) fn shown_resolution(self) -> Option<serde_json::Value> {
        self.resolution.shown()
    }

    /// Exactly this call, and exactly what it stands for, however and however often it is sent; none if
    /// it cannot be told.
    pub(crate) fn hash(self) -> Option<Digest> {
        let mut content = content(&self.text(), &["id"])?;
        if let Some(shown) = self.resolution.shown() {
            content.push(0);
            content.extend_from_slice(shown.to_string().as_bytes());
        }
        Some(Digest::of(&content))
    }

    /// What repetitions have in common: what is called, with what.
    pub(super) fn repetition(self) -> Digest {
        let text = self.text();
        let each = ["id", "correlation_id", "timeout", "streaming"];
        if let Some(content) = content(&text, &each) {
            return Digest::of(&content);
        }
        // It has no canonical form; then its spelling must do.
        let spelled = match self.arguments() {
            Some(arguments) => arguments.raw().as_str().as_bytes(),
            None => &text,
        };
        Digest::of(&[self.name().as_bytes(), b"\0", spelled].concat())
    }

    /// The calls that are inside this one.
    pub(super) fn nested(self) -> impl Iterator<Item = Nested<'a>> {
        let nodes = if let Body::ChainRequest(chain) = &self.message.body {
            chain.nodes.as_slice()
        } else {
            &[]
        };
        let programs = self.registry.executes(self.message).map(|spawn| Nested {
            capability: "proc",
            name: spawn.cmd.first().cloned().unwrap_or_default(),
            call: NestedCall::Program(Box::new(spawn)),
        });
        let nodes = nodes.iter().filter_map(|node| {
            #[expect(clippy::wildcard_enum_match_arm, reason = "others call nothing")]
            let capability = match node.kind {
                ChainNodeKind::Tool => "tools",
                ChainNodeKind::Skill => "skill",
                ChainNodeKind::Proc => "proc",
                _ => return None,
            };
            Some(Nested {
                capability,
                name: Cow::Borrowed(&*node.name),
                call: NestedCall::Node(node),
            })
        });
        nodes.chain(programs)
    }
}

impl Arguments for Asked<'_> {
    /// The arguments of a tool or a skill; else the message itself, with what its selector stands for. A
    /// selector that was left out and that nothing resolves cannot be read: it may stand for anything.
    fn to_json(&self) -> Result<serde_json::Value, UnreadableArguments> {
        let read = match self.arguments() {
            Some(arguments) => serde_json::from_str(arguments.raw().as_str()),
            None => serde_json::from_slice(&self.text()),
        };
        let mut read: serde_json::Value = read.map_err(|_| UnreadableArguments)?;
        let selection = self.resolution.selection();
        match (self.left_out(), selection, self.selected) {
            (None, _, _) | (Some(_), Some(_), None) => {}
            (Some(member), Some(_), Some(value)) => {
                let members = read.as_object_mut().ok_or(UnreadableArguments)?;
                members.insert(member.to_owned(), value.into());
            }
            (Some(_), None, _) => return Err(UnreadableArguments),
        }
        Ok(read)
    }
}

impl Arguments for Nested<'_> {
    /// What a node is called with, if the chain says it; what it will be made of is not known yet.
    fn to_json(&self) -> Result<serde_json::Value, UnreadableArguments> {
        match &self.call {
            NestedCall::Node(node) if node.input_map == Object::EMPTY => {
                serde_json::from_str(node.input.raw().as_str()).map_err(|_| UnreadableArguments)
            }
            NestedCall::Node(_) => Err(UnreadableArguments),
            NestedCall::Program(spawn) => {
                let written = Object::from_record(&**spawn).map_err(|_| UnreadableArguments)?;
                serde_json::from_str(written.raw().as_str()).map_err(|_| UnreadableArguments)
            }
        }
    }
}

/// Whether rules know requests of this type by what they call, as [`Asked::name`] finds it.
pub(super) const fn names_its_target(tag: Tag) -> bool {
    matches!(
        tag,
        Tag::ToolCallRequest
            | Tag::SkillCallRequest
            | Tag::ToolkitConfigureRequest
            | Tag::EnvResetRequest
            | Tag::ProcSpawnRequest
    )
}

/// The place of the configuration of a toolkit.
const CONFIG: &str = "/config";

/// The places in a message whose values may be secret.
const fn secrets(body: &Body<'_>) -> &'static [&'static str] {
    #[expect(clippy::wildcard_enum_match_arm, reason = "others have none")]
    match body {
        Body::ToolkitConfigureRequest(_) => &[CONFIG],
        Body::McpServerRegisterRequest(_) => &["/config/env", "/config/headers"],
        Body::SkillCallRequest(_) => &["/llm_override/provider_credentials"],
        _ => &[],
    }
}

/// The canonical form of what a request asks for, without what each sending changes and these.
pub(crate) fn content(line: &[u8], without: &[&str]) -> Option<Vec<u8>> {
    let Ok(Value::Object(mut request)) = Value::parse_within(line, LIMITS) else {
        return None;
    };
    for name in ["a2e", "version", "ts", "session_id"].iter().chain(without) {
        request.remove(name);
    }
    Some(Value::Object(request).to_canonical())
}

/// Numbers that do not fit a double have no canonical form.
const LIMITS: a2e_wire::Limits = a2e_wire::Limits {
    depth: 127,
    values: usize::MAX,
    ..canonical::LIMITS
};

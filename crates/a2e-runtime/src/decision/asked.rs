//! A request as rules see it: what its plugin gets, in whatever words it came.

use a2e_wire::messages::chain::{ChainNode, ChainNodeKind};
use a2e_wire::{Body, Capability, Charset, Message, Namespace, Object, Tag};
use canonical::{Digest, Value};
use policy::{Arguments, UnreadableArguments};

use crate::auth::Identity;
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
}

/// A call inside another: a node of a chain.
#[derive(Debug, Clone, Copy)]
pub(super) struct Nested<'a> {
    pub(super) capability: &'static str,
    pub(super) name: &'a str,
    node: &'a ChainNode<'a>,
}

impl<'a> Asked<'a> {
    pub(crate) fn new(session: &'a Session, message: &'a Message<'a>, line: &'a [u8]) -> Self {
        Self {
            identity: session.identity(),
            message,
            line,
            is_asked_again: session.at().settings.registry.asks_for_nodes(message),
        }
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

    /// None of the catalogue's for types beside it.
    pub(crate) fn capability(self) -> Option<Capability<'static>> {
        self.namespace().capability()
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

    /// The request as the operator is shown it, and as it is kept until then: the configuration of a
    /// toolkit may have secrets in it, of which only the names are shown.
    pub(crate) fn shown(self) -> Vec<u8> {
        let text = self.text();
        if !matches!(self.message.body, Body::ToolkitConfigureRequest(_)) {
            return text;
        }
        let mut message: serde_json::Value = serde_json::from_slice(&text).unwrap_or_default();
        if let Some(config) = message.get_mut("config") {
            hide(config);
        }
        message.to_string().into_bytes()
    }

    /// Exactly this call, however and however often it is sent; none if it cannot be told.
    pub(crate) fn hash(self) -> Option<Digest> {
        let content = content(&self.text(), &["id"])?;
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
        nodes.iter().filter_map(|node| {
            #[expect(clippy::wildcard_enum_match_arm, reason = "others call nothing")]
            let capability = match node.kind {
                ChainNodeKind::Tool => "tools",
                ChainNodeKind::Skill => "skill",
                ChainNodeKind::Proc => "proc",
                _ => return None,
            };
            let name = &node.name;
            Some(Nested {
                capability,
                name,
                node,
            })
        })
    }
}

impl Arguments for Asked<'_> {
    /// The arguments of a tool or a skill; else the message itself.
    fn to_json(&self) -> Result<serde_json::Value, UnreadableArguments> {
        match self.arguments() {
            Some(arguments) => serde_json::from_str(arguments.raw().as_str()),
            None => serde_json::from_slice(&self.text()),
        }
        .map_err(|_| UnreadableArguments)
    }
}

impl Arguments for Nested<'_> {
    /// What a node is called with, if the chain says it; what it will be made of is not known yet.
    fn to_json(&self) -> Result<serde_json::Value, UnreadableArguments> {
        match self.node.input_map == Object::EMPTY {
            true => serde_json::from_str(self.node.input.raw().as_str())
                .map_err(|_| UnreadableArguments),
            false => Err(UnreadableArguments),
        }
    }
}

/// Leaves only names.
fn hide(value: &mut serde_json::Value) {
    use serde_json::Value;
    match value {
        Value::Object(members) => members.values_mut().for_each(hide),
        Value::Array(list) => list.iter_mut().for_each(hide),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            *value = Value::from("(hidden)");
        }
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

//! The section `peers`: other agents whose intents are tools of the node's own agents.

use std::time::Duration;

use policy::IntentName;
use serde_json::{Map, Value};

use super::a2a::did;
use super::intents::{has_tools, intent_name};
use super::own_tools::schemas;
use super::read::Field;
use super::sections::{DAY, set, set_some};
use super::{Config, ConfigError};

/// An agent whose intents are tools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// What its tools are called by.
    pub name: String,
    /// Who must answer.
    pub did: String,
    /// Where it is, if its DID does not lead there and no command has said it.
    pub url: Option<String>,
    /// Whether messages must be encrypted inside of TLS.
    pub encrypt: bool,
    /// What may be asked of it.
    pub intents: Vec<PeerIntent>,
}

/// Something that may be asked of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerIntent {
    /// The intent.
    pub intent: IntentName,
    /// The part of its name that is sent as its domain; by default all labels before the last.
    pub domain: Option<String>,
    /// The name of the tool.
    pub tool: String,
    /// What it is for.
    pub description: String,
    /// JSON Schemas of the arguments, by name.
    pub parameters: Map<String, Value>,
    /// The arguments that must be given.
    pub required: Vec<String>,
    /// Words that lead to it.
    pub tags: Vec<String>,
    /// Whether it changes nothing.
    pub read_only: bool,
    /// How long it may take.
    pub timeout: Duration,
}

/// Agents are given no longer than this, unless they say so.
const DEADLINE: Duration = Duration::from_secs(300);

pub(super) fn peers(field: &Field<'_>) -> Option<Vec<Peer>> {
    let entries = field.entries()?;
    Some(
        entries
            .filter_map(|(name, field)| peer(name, &field))
            .collect(),
    )
}

fn peer(name: &str, field: &Field<'_>) -> Option<Peer> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if name.len() > 64 || !name.bytes().all(allowed) {
        return field.wrong("must be under a name of 1 to 64 letters, digits and any of . _ -");
    }
    let mut section = field.section()?;
    let who = section.required("did", field.at());
    let mut peer = Peer {
        name: name.to_owned(),
        did: String::new(),
        url: None,
        encrypt: false,
        intents: Vec::new(),
    };
    set_some(&mut peer.url, section.field("url"), |it| it.word());
    set(&mut peer.encrypt, section.field("encrypt"), |it| {
        it.boolean()
    });
    set(&mut peer.intents, section.field("intents"), |it| {
        let entries = it.entries()?;
        Some(
            entries
                .filter_map(|(intent, it)| asked(name, intent, &it))
                .collect(),
        )
    });
    section.finish();
    peer.did = did(&who?)?;
    Some(peer)
}

fn asked(peer: &str, intent: &str, field: &Field<'_>) -> Option<PeerIntent> {
    let intent = intent_name(intent, field)?;
    let mut section = field.section()?;
    let description = section.required("description", field.at());
    let mut asked = PeerIntent {
        tool: format!("peer:{peer}:{intent}"),
        intent,
        domain: None,
        description: description.and_then(|it| it.word()).unwrap_or_default(),
        parameters: Map::new(),
        required: Vec::new(),
        tags: Vec::new(),
        read_only: false,
        timeout: DEADLINE,
    };
    let begins = |domain: &str| {
        let rest = asked.intent.as_str().strip_prefix(domain);
        domain.is_empty() || rest.is_some_and(|rest| rest.starts_with('.'))
    };
    set_some(&mut asked.domain, section.field("domain"), |it| {
        let domain = it.text()?;
        match begins(domain) {
            true => Some(domain.to_owned()),
            false => it.wrong("must be labels that the name of the intent begins with, or \"\""),
        }
    });
    set(&mut asked.tool, section.field("tool"), |it| it.word());
    set(&mut asked.parameters, section.field("parameters"), schemas);
    set(&mut asked.required, section.field("required"), |it| {
        it.words()
    });
    set(&mut asked.tags, section.field("tags"), |it| it.words());
    set(&mut asked.read_only, section.field("read_only"), |it| {
        it.boolean()
    });
    set(&mut asked.timeout, section.field("timeout_seconds"), |it| {
        it.seconds(1..=DAY)
    });
    section.finish();
    Some(asked)
}

/// What does not go together.
pub(super) fn problems(config: &Config, error: &mut ConfigError) {
    let Some(peer) = config.peers.first() else {
        return;
    };
    if !config.a2a.enabled {
        error.add(format!(
            "`peers.{}` cannot be asked for anything: `a2a` is switched off",
            peer.name
        ));
    }
    if !has_tools(config) {
        error.add(format!(
            "`peers.{}`: what peers do are tools, which need a plugin of the type `tools`",
            peer.name
        ));
    }
    let mut tools: Vec<&str> = config
        .peers
        .iter()
        .flat_map(|peer| &peer.intents)
        .map(|asked| asked.tool.as_str())
        .collect();
    tools.sort_unstable();
    if let Some([twice, _]) = tools.array_windows().find(|[a, b]| a == b) {
        error.add(format!("two tools of `peers` are called `{twice}`"));
    }
}

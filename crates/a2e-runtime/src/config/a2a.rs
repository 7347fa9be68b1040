//! The section `a2a`: how the node speaks with other agents.
//!
//! A DID is text here, of which no more is known than that it begins as one: whoever builds the node knows DIDs.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use canonical::{Object, Value};
use policy::{EffectivePolicy, Policy};

use super::read::Field;
use super::sections::{Reader, set, set_some};
use super::server::address;
use super::{ConfigError, Tls};
use crate::secret::Secret;

/// How the node speaks with other agents.
#[derive(Debug, Clone, PartialEq)]
pub struct A2a {
    /// Whether it does.
    pub enabled: bool,
    /// Where it listens.
    pub listen: SocketAddr,
    /// Names by which others may address it, beside its own addresses.
    pub names: Vec<String>,
    /// Its certificate; without one a development certificate, on loopback only.
    pub tls: Option<Tls>,
    /// Files with roots that certificates of others may come from, beside those of the system.
    pub roots: Vec<PathBuf>,
    /// The methods of DIDs that it takes.
    pub methods: Vec<DidMethod>,
    /// A token for GitHub's API, which says whose the repository of a did:github is.
    pub github_token: Option<Secret>,
    /// How agents are met that speak the base specification alone.
    pub baseline: Baseline,
    /// When messages are encrypted inside TLS.
    pub encryption: Encryption,
    /// What it asks of every agent.
    pub policy: EffectivePolicy,
    /// What is different for single agents.
    pub agents: Vec<A2aAgent>,
    /// What others may take of it.
    pub limits: A2aLimits,
}

/// What is different for one agent.
#[derive(Debug, Clone, PartialEq)]
pub struct A2aAgent {
    /// Which.
    pub did: String,
    /// How it is met if it speaks the base specification alone.
    pub baseline: Option<Baseline>,
    /// What is asked of it, instead of the common policy.
    pub policy: Option<EffectivePolicy>,
}

/// A method of DIDs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DidMethod {
    /// did:key
    Key,
    /// did:web
    Web,
    /// did:github
    Github,
}

/// How agents are met that speak the base specification alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Baseline {
    /// By the letter of that specification.
    Accept,
    /// If they sign the ids of a message too.
    Bound,
    /// Not at all.
    Refuse,
}

/// When messages are encrypted inside TLS. A policy with `require_encryption` asks for it in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encryption {
    /// Whenever both sides can.
    Offered,
    /// Only if a policy requires it.
    IfRequired,
}

/// What others may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct A2aLimits {
    /// Connections at once.
    pub connections: usize,
    /// Of these, from one source.
    pub connections_per_source: usize,
    /// Handshakes under way.
    pub half_open: usize,
    /// Of these, from one source.
    pub half_open_per_source: usize,
    /// New handshakes of one source in a second; twice as many at once.
    pub hellos_per_second: usize,
    /// Messages of one source in a second, of whatever kind; twice as many at once.
    pub messages_per_second: usize,
    /// Requests in a minute, and at once, of all agents together that nobody vouches for.
    pub newcomers_per_minute: usize,
    /// Sessions. A tenth is kept for known agents.
    pub sessions: usize,
    /// Of these, of the strangers of one source.
    pub sessions_per_source: usize,
    /// Requests of one session that run at once.
    pub in_flight: usize,
    /// How long a request may run.
    pub deadline: Duration,
    /// How long a session may wait for its first request.
    pub unclaimed: Duration,
}

impl Default for A2a {
    fn default() -> Self {
        Self {
            enabled: true,
            listen: SocketAddr::from(([127, 0, 0, 1], 8443)),
            names: Vec::new(),
            tls: None,
            roots: Vec::new(),
            methods: vec![DidMethod::Key, DidMethod::Web, DidMethod::Github],
            github_token: None,
            baseline: Baseline::Accept,
            encryption: Encryption::Offered,
            policy: EffectivePolicy::default(),
            agents: Vec::new(),
            limits: A2aLimits::default(),
        }
    }
}

impl Default for A2aLimits {
    fn default() -> Self {
        Self {
            connections: 1000,
            connections_per_source: 50,
            half_open: 4096,
            half_open_per_source: 64,
            hellos_per_second: 10,
            messages_per_second: 1000,
            newcomers_per_minute: 60_000,
            sessions: 10_000,
            sessions_per_source: 1000,
            in_flight: 256,
            deadline: Duration::from_secs(300),
            unclaimed: Duration::from_secs(60),
        }
    }
}

impl Reader<'_> {
    /// `a2a: false`, or a section.
    pub(super) fn a2a(&self, field: &Field<'_>) -> Option<A2a> {
        let mut a2a = A2a::default();
        if field.is_boolean() {
            a2a.enabled = field.boolean()?;
            return Some(a2a);
        }
        let mut section = field.section()?;
        set(&mut a2a.enabled, section.field("enabled"), |it| {
            it.boolean()
        });
        set(&mut a2a.listen, section.field("listen"), address);
        set(&mut a2a.names, section.field("names"), |it| it.words());
        if let Some(tls) = section.field("tls") {
            self.a2a_tls(&tls, &mut a2a);
        }
        set(&mut a2a.methods, section.field("methods"), methods);
        let token = section.field("github_token");
        set_some(&mut a2a.github_token, token, |it| self.github_token(it));
        set(&mut a2a.baseline, section.field("baseline"), baseline);
        set(&mut a2a.encryption, section.field("encryption"), |it| {
            it.choice(&[
                ("offered", Encryption::Offered),
                ("if_required", Encryption::IfRequired),
            ])
        });
        set(&mut a2a.policy, section.field("policy"), policy);
        set(&mut a2a.agents, section.field("agents"), |it| {
            Some(it.list()?.filter_map(|it| agent(&it)).collect())
        });
        set(&mut a2a.limits, section.field("limits"), limits);
        section.finish();
        Some(a2a)
    }

    /// A secret that can stand in a header.
    fn github_token(&self, field: &Field<'_>) -> Option<Secret> {
        let token = self.secret(field)?;
        match !token.reveal().is_empty() && token.reveal().bytes().all(|it| it.is_ascii_graphic()) {
            true => Some(token),
            false => field.wrong("is no token: it must be one word of ASCII"),
        }
    }

    /// A certificate with its key, or neither; roots with or without them.
    fn a2a_tls(&self, field: &Field<'_>, a2a: &mut A2a) -> Option<()> {
        let mut section = field.section()?;
        let certificate = section.field("certificate");
        let key = section.field("key");
        set(&mut a2a.roots, section.field("roots"), |it| {
            Some(it.list()?.filter_map(|it| self.path(&it)).collect())
        });
        section.finish();
        a2a.tls = match (certificate, key) {
            (None, None) => None,
            (Some(certificate), Some(key)) => Some(Tls {
                certificate: self.path(&certificate)?,
                key: self.path(&key)?,
            }),
            _ => return field.wrong("needs both `certificate` and `key`, or neither"),
        };
        Some(())
    }
}

fn methods(field: &Field<'_>) -> Option<Vec<DidMethod>> {
    let known = [
        ("key", DidMethod::Key),
        ("web", DidMethod::Web),
        ("github", DidMethod::Github),
    ];
    let methods: Option<Vec<DidMethod>> = field.list()?.map(|it| it.choice(&known)).collect();
    match methods?.as_slice() {
        [] => field.wrong("needs a method; `enabled: false` speaks with nobody"),
        methods => Some(methods.to_vec()),
    }
}

fn baseline(field: &Field<'_>) -> Option<Baseline> {
    field.choice(&[
        ("accept", Baseline::Accept),
        ("bound", Baseline::Bound),
        ("refuse", Baseline::Refuse),
    ])
}

/// What a node can keep to as `max_payload_size`: a signed request with a small intent fits into the
/// least, and two requests of the most fit into what one source may keep in memory.
pub const PAYLOAD_SIZES: RangeInclusive<u64> = 4096..=16 * 1024 * 1024;

/// A policy as it is sent to agents, with the same names.
fn policy(field: &Field<'_>) -> Option<EffectivePolicy> {
    const NAMES: [&str; 10] = [
        "rate_limit",
        "rate_period",
        "session_timeout",
        "max_payload_size",
        "allowed_intents",
        "blocked_intents",
        "data_retention",
        "require_encryption",
        "max_concurrent_sessions",
        "extensions",
    ];
    let mut section = field.section()?;
    let mut stated = Object::default();
    for name in NAMES {
        let Some(member) = section.given(name) else {
            continue;
        };
        stated.insert(name, Value::from_serialize(&member.json()?).ok()?);
    }
    section.finish();
    let read = Policy::read(&stated, ::policy::limits::PAYLOAD_CEILING);
    match read.and_then(Policy::complete) {
        Ok(policy) if PAYLOAD_SIZES.contains(&policy.max_payload_size()) => Some(policy),
        Ok(policy) => field.wrong(&format!(
            "asks for a `max_payload_size` of {}, which this node cannot keep to: choose {} (less is \
             too small for a signed request) to {} (more does not fit into the memory that one source \
             may use)",
            policy.max_payload_size(),
            PAYLOAD_SIZES.start(),
            PAYLOAD_SIZES.end(),
        )),
        Err(error) => field.wrong(&format!("is no policy: {error}")),
    }
}

fn agent(field: &Field<'_>) -> Option<A2aAgent> {
    let mut section = field.section()?;
    let did = section.required("did", field.at());
    let (mut meets, mut asks) = (None, None);
    set_some(&mut meets, section.field("baseline"), baseline);
    set_some(&mut asks, section.field("policy"), policy);
    section.finish();
    Some(A2aAgent {
        did: self::did(&did?)?,
        baseline: meets,
        policy: asks,
    })
}

fn limits(field: &Field<'_>) -> Option<A2aLimits> {
    let mut limits = A2aLimits::default();
    let mut section = field.section()?;
    let counts = [
        ("connections", 1..=1_000_000, &mut limits.connections),
        (
            "connections_per_source",
            1..=1_000_000,
            &mut limits.connections_per_source,
        ),
        ("half_open", 1..=1_000_000, &mut limits.half_open),
        (
            "half_open_per_source",
            1..=1_000_000,
            &mut limits.half_open_per_source,
        ),
        (
            "hellos_per_second",
            1..=100_000,
            &mut limits.hellos_per_second,
        ),
        (
            "messages_per_second",
            1..=1_000_000,
            &mut limits.messages_per_second,
        ),
        (
            "newcomers_per_minute",
            1..=10_000_000,
            &mut limits.newcomers_per_minute,
        ),
        ("sessions", 1..=1_000_000, &mut limits.sessions),
        (
            "sessions_per_source",
            1..=1_000_000,
            &mut limits.sessions_per_source,
        ),
        ("in_flight", 1..=100_000, &mut limits.in_flight),
    ];
    for (name, allowed, slot) in counts {
        set(slot, section.field(name), |it| it.count(allowed));
    }
    for (name, allowed, slot) in [
        ("deadline_seconds", 1..=86_400, &mut limits.deadline),
        ("unclaimed_seconds", 1..=3600, &mut limits.unclaimed),
    ] {
        set(slot, section.field(name), |it| it.seconds(allowed));
    }
    section.finish();
    Some(limits)
}

pub(super) fn did(field: &Field<'_>) -> Option<String> {
    let text = field.word()?;
    let methods = ["did:key:", "did:web:", "did:github:"];
    match methods.iter().any(|method| text.starts_with(method)) {
        true => Some(text),
        false => field.wrong(&format!("must begin with {}", methods.join(" or "))),
    }
}

/// What does not go together.
pub(super) fn problems(a2a: &A2a, taken: &[Option<SocketAddr>], error: &mut ConfigError) {
    if !a2a.enabled {
        return;
    }
    let listen = a2a.listen;
    if a2a.tls.is_none() && !listen.ip().to_canonical().is_loopback() {
        error.add(format!(
            "`a2a.listen` is {listen}, where others must be shown a certificate: set `a2a.tls.certificate` and \
             `a2a.tls.key`, or listen on a loopback address such as 127.0.0.1"
        ));
    }
    if listen.port() != 0 && taken.contains(&Some(listen)) {
        error.add("`a2a.listen` needs a port of its own".to_owned());
    }
    for (index, agent) in a2a.agents.iter().enumerate() {
        let mut earlier = a2a.agents.iter().take(index);
        if earlier.any(|other| other.did == agent.did) {
            error.add(format!("`a2a.agents` has `{}` twice", agent.did));
        }
    }
}

#[cfg(test)]
mod tests;

//! What the two machines are told, and every limit with its default (profile §16).

use std::sync::Arc;
use std::time::Duration;

use a2a_identity::{Anchor, Did, MAX_AGE, ManifestSummary, Pins, Seen, TrustLevel};
use a2a_wire::{UserAgent, Version, WrongForm, limits};
use base::Limits;
use policy::{Demands, EffectivePolicy, Rate};

/// How peers are served that speak the base specification alone (profile §14).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Baseline {
    /// By the letter of the base specification.
    #[default]
    Accept,
    /// Only if the ids are inside what they sign.
    Bound,
    /// Not at all.
    Refuse,
}

/// Whether to encrypt messages inside TLS (profile §9).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sealing {
    /// Whenever the peer can too.
    #[default]
    Offered,
    /// Only if the policy requires it: a server then answers an offer with none of its own, and a
    /// client makes none unless it demands encryption.
    IfRequired,
}

/// How one's own manifest reaches the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ShowManifest {
    /// It is sent along.
    #[default]
    Inline,
    /// By its hash: the peer resolves the DID or has it.
    ByHash,
}

/// How much a peer must show of itself.
#[derive(Debug, Clone, PartialEq)]
pub struct TrustRules {
    /// Whose word counts.
    pub anchors: Vec<Anchor>,
    /// What a peer must reach.
    pub min_trust_level: TrustLevel,
    /// Seconds after which the signature of a manifest is too old.
    pub max_manifest_age: i64,
    /// Whether a did:key must show a manifest too.
    pub require_manifest: RequireManifest,
}

/// Whether a did:key may do without a manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RequireManifest {
    /// Its key is enough.
    #[default]
    No,
    /// It must show one.
    Yes,
}

impl Default for TrustRules {
    fn default() -> Self {
        Self {
            anchors: Vec::new(),
            min_trust_level: TrustLevel::Own,
            max_manifest_age: MAX_AGE,
            require_manifest: RequireManifest::No,
        }
    }
}

/// What a server is told.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// The protocol versions it speaks, the best first.
    pub versions: Vec<Version>,
    /// The methods of DIDs it takes.
    pub methods: Vec<Method>,
    /// How much a client must show.
    pub trust: TrustRules,
    /// Whether it encrypts.
    pub sealing: Sealing,
    /// How its manifest reaches clients.
    pub show_manifest: ShowManifest,
    /// Its limits.
    pub limits: ServerLimits,
}

/// The methods of DIDs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// did:key
    Key,
    /// did:web
    Web,
    /// did:github
    Github,
}

impl Method {
    /// The method of a DID.
    #[must_use]
    pub const fn of(did: &Did) -> Self {
        match did {
            Did::Key(_) => Self::Key,
            Did::Web(_) => Self::Web,
            Did::Github(_) => Self::Github,
        }
    }
}

impl ServerConfig {
    /// The defaults.
    ///
    /// # Errors
    /// Never: the one version there is has the form of one.
    pub fn new() -> Result<Self, WrongForm> {
        Ok(Self {
            versions: vec!["1.0".parse()?],
            methods: vec![Method::Key, Method::Web, Method::Github],
            trust: TrustRules::default(),
            sealing: Sealing::default(),
            show_manifest: ShowManifest::ByHash,
            limits: ServerLimits::default(),
        })
    }
}

/// The limits of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerLimits {
    /// Handshakes under way, by source. The reserve is for those that claim to be agents which the
    /// operator knows; one source can use a sixteenth of its share of it.
    pub half_open: Limits,
    /// Bytes that handshakes under way keep, by source.
    pub half_open_bytes: Limits,
    /// How often one source may begin a handshake.
    pub hello_rate: Rate,
    /// Sources that are counted at once.
    pub sources: usize,
    /// Nonces of finished handshakes that are remembered.
    pub nonces: Limits,
    /// Sessions in all. A tenth is kept for known agents, which get in as long as a stranger has an idle one.
    pub sessions: usize,
    /// Sessions of the strangers of one source, and of one known baseline peer before their first request. An
    /// idle one gives way to a new one.
    pub sessions_per_source: usize,
}

impl Default for ServerLimits {
    fn default() -> Self {
        const MIB: usize = 1024 * 1024;
        Self {
            half_open: Limits {
                total: 4096,
                per_holder: 64,
                reserved: 1024,
            },
            half_open_bytes: Limits {
                total: 64 * MIB,
                per_holder: MIB,
                reserved: 16 * MIB,
            },
            // Ten a second, twenty at once.
            hello_rate: Rate::new(20, 2).unwrap_or(Rate::DEFAULT),
            sources: 65_536,
            // A source that begins as often as it may never fills its share.
            nonces: Limits {
                total: 262_144,
                per_holder: 8192,
                reserved: 65_536,
            },
            sessions: 10_000,
            sessions_per_source: 1000,
        }
    }
}

/// The limits of one session at a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionLimits {
    /// Requests that run at once.
    pub in_flight: usize,
    /// The longest that a request may run.
    pub deadline: Duration,
    /// How long a session may wait for its first valid request; of profile peers only.
    pub unclaimed: Duration,
    /// Request ids that are remembered.
    pub request_ids: usize,
    /// Bytes of one part of a streamed answer.
    pub chunk: usize,
}

impl Default for SessionLimits {
    fn default() -> Self {
        Self {
            in_flight: 256,
            deadline: Duration::from_secs(300),
            unclaimed: Duration::from_secs(60),
            request_ids: 100_000,
            chunk: limits::CHUNK,
        }
    }
}

/// What a client is told about one call partner.
#[derive(Debug, Clone)]
pub struct ClientConfig {
    /// Whom it expects.
    pub server: Did,
    /// The address it contacts, which the server's manifest must list.
    pub url: String,
    /// The protocol versions it speaks, the best first.
    pub versions: Vec<Version>,
    /// What it calls its program.
    pub user_agent: Option<UserAgent>,
    /// How much the server must show.
    pub trust: TrustRules,
    /// What it demands of the server's policy.
    pub demands: Demands,
    /// How it would like the policy tightened.
    pub policy_request: Option<policy::Policy>,
    /// Whether it encrypts.
    pub sealing: Sealing,
    /// How its manifest reaches the server.
    pub show_manifest: ShowManifest,
    /// Whether the server may speak the base specification alone.
    pub baseline: Baseline,
    /// The largest `max_payload_size` that makes sense to it.
    pub payload_ceiling: u64,
}

impl ClientConfig {
    /// The defaults, for a server and its address.
    ///
    /// # Errors
    /// Never: the one version there is has the form of one.
    pub fn new(server: Did, url: impl Into<String>) -> Result<Self, WrongForm> {
        Ok(Self {
            server,
            url: url.into(),
            versions: vec!["1.0".parse()?],
            user_agent: None,
            trust: TrustRules::default(),
            demands: Demands::default(),
            policy_request: None,
            sealing: Sealing::default(),
            show_manifest: ShowManifest::default(),
            baseline: Baseline::default(),
            payload_ceiling: policy::limits::PAYLOAD_CEILING,
        })
    }
}

/// What the operator and the past say about an agent. Look-ups in memory: nothing here may wait.
pub trait Directory {
    /// Whether the operator blocked it.
    fn is_blocked(&self, did: &Did) -> bool;
    /// The server's policy for it.
    fn policy_for(&self, did: &Did) -> EffectivePolicy;
    /// What the operator pinned for it.
    fn pins(&self, did: &Did) -> Pins;
    /// The manifest that was accepted last.
    fn last_seen(&self, did: &Did) -> Option<Seen>;
    /// How it is served if it speaks the base specification alone.
    fn baseline(&self, did: &Did) -> Baseline;
    /// Whether it spoke the profile within the last 30 days.
    fn spoke_profile(&self, did: &Did) -> bool;
    /// Whether this nonce came from that server in an earlier handshake (asked by clients).
    fn saw_nonce(&self, did: &Did, nonce: &str) -> bool;

    /// Whether the agent is known: the operator added or pinned it. What strangers cannot use is kept
    /// in reserve for such agents, and for those that a trust anchor vouches for.
    fn is_known(&self, _did: &Did) -> bool {
        false
    }

    /// The manifest that the agent showed when it proved itself last, if that is kept.
    fn known_manifest(&self, _did: &Did) -> Option<Arc<ManifestSummary>> {
        None
    }

    /// Keeps the manifest of an agent that has proven itself, so that its signature need not be verified
    /// when it comes again. There must be an end to how many are kept.
    fn keep_manifest(&self, _did: &Did, _manifest: Arc<ManifestSummary>) {}
}

/// Durations of a handshake (profile §8.4).
pub mod times {
    use std::time::Duration;

    /// The whole handshake, from its beginning.
    pub const HANDSHAKE: Duration = Duration::from_secs(30);
    /// Client: to connect and send HELLO.
    pub const SEND_HELLO: Duration = Duration::from_secs(5);
    /// Client: until CHALLENGE comes.
    pub const CHALLENGE: Duration = Duration::from_secs(10);
    /// Client: to send PROOF, resolution included.
    pub const SEND_PROOF: Duration = Duration::from_secs(10);
    /// Client: until POLICY comes.
    pub const POLICY: Duration = Duration::from_secs(10);
    /// Client: to send ACCEPT_POLICY.
    pub const SEND_ACCEPT: Duration = Duration::from_secs(5);
    /// Client: until SESSION comes.
    pub const SESSION: Duration = Duration::from_secs(10);
    /// Server: until PROOF comes.
    pub const PROOF: Duration = Duration::from_secs(20);
    /// Server: until ACCEPT_POLICY comes.
    pub const ACCEPT: Duration = Duration::from_secs(15);
    /// How long the nonce of a finished handshake is remembered: 2·SKEW + 30 s.
    pub const NONCE: Duration = Duration::from_secs(630);
    /// How long request ids are remembered: 2·SKEW.
    pub const REQUEST_ID: Duration = Duration::from_secs(600);
    /// How long the outcome of work is remembered, at least.
    pub const WORK: Duration = Duration::from_secs(600);
}

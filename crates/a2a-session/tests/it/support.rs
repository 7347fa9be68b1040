//! A server, clients, and everything between them, on virtual time.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use a2a_identity::{
    Did, DidKey, ManifestSummary, NoRandomness, Pins, Randomness, RootKeys, Seen, SigningKey,
    sign_manifest,
};
use a2a_session::*;
use a2a_wire::UnixSeconds;
use canonical::{Object, Value};
use policy::EffectivePolicy;
use serde_json::json;

pub(crate) const UNIX: i64 = 1_770_000_000;
pub(crate) const URL: &str = "https://server.example.com/a2a/handshake";
pub(crate) const CLIENT: u8 = 1;
pub(crate) const SERVER: u8 = 2;
pub(crate) const MALLORY: u8 = 66;

/// Bytes that never repeat and are no secret.
pub(crate) struct Counter(pub(crate) u64);

impl Randomness for Counter {
    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), NoRandomness> {
        for chunk in bytes.chunks_mut(32) {
            self.0 += 1;
            let digest = canonical::Digest::of(&self.0.to_be_bytes());
            chunk.copy_from_slice(&digest.as_bytes()[..chunk.len()]);
        }
        Ok(())
    }
}

/// What the operator and the past say.
#[derive(Default)]
pub(crate) struct Book {
    pub(crate) blocked: BTreeSet<String>,
    pub(crate) policy: EffectivePolicy,
    pub(crate) pins: BTreeMap<String, Pins>,
    pub(crate) last: BTreeMap<String, Seen>,
    pub(crate) baseline: Baseline,
    pub(crate) profile: BTreeSet<String>,
    pub(crate) nonces: BTreeSet<String>,
    pub(crate) manifests: Mutex<BTreeMap<String, Arc<ManifestSummary>>>,
    /// Agents that the operator knows.
    pub(crate) added: BTreeSet<String>,
}

impl Directory for Book {
    fn is_blocked(&self, did: &Did) -> bool {
        self.blocked.contains(&did.to_string())
    }
    fn policy_for(&self, _: &Did) -> EffectivePolicy {
        self.policy.clone()
    }
    fn pins(&self, did: &Did) -> Pins {
        self.pins.get(&did.to_string()).cloned().unwrap_or_default()
    }
    fn last_seen(&self, did: &Did) -> Option<Seen> {
        self.last.get(&did.to_string()).copied()
    }
    fn baseline(&self, _: &Did) -> Baseline {
        self.baseline
    }
    fn spoke_profile(&self, did: &Did) -> bool {
        self.profile.contains(&did.to_string())
    }
    fn saw_nonce(&self, _: &Did, nonce: &str) -> bool {
        self.nonces.contains(nonce)
    }
    fn is_known(&self, did: &Did) -> bool {
        self.added.contains(&did.to_string())
    }
    fn known_manifest(&self, did: &Did) -> Option<Arc<ManifestSummary>> {
        let manifests = self.manifests.lock().unwrap();
        manifests.get(&did.to_string()).cloned()
    }
    fn keep_manifest(&self, did: &Did, manifest: Arc<ManifestSummary>) {
        let mut manifests = self.manifests.lock().unwrap();
        manifests.insert(did.to_string(), manifest);
    }
}

pub(crate) fn key(seed: u8) -> SigningKey {
    SigningKey::from_seed(&[seed; 32])
}

pub(crate) fn did(seed: u8) -> Did {
    Did::Key(DidKey::new(key(seed).verifying_key()))
}

pub(crate) fn jwk(kid: &str, seed: u8) -> serde_json::Value {
    let bytes = key(seed).verifying_key().to_bytes();
    json!({"kid": kid, "kty": "EC", "alg": "EdDSA", "use": "sig",
        "key": canonical::base64url::encode(&bytes)})
}

pub(crate) fn tree(value: &serde_json::Value) -> Object<'static> {
    let text = value.to_string();
    let value = Value::parse(text.as_bytes()).unwrap().into_owned();
    let Value::Object(object) = value else {
        panic!("{value:?}");
    };
    object
}

pub(crate) fn json(bytes: &[u8]) -> serde_json::Value {
    serde_json::from_slice(bytes).unwrap()
}

pub(crate) fn text(value: &serde_json::Value) -> Vec<u8> {
    value.to_string().into_bytes()
}

pub(crate) fn draft(did: &str, keys: &[serde_json::Value], host: &str) -> serde_json::Value {
    json!({
        "manifest_version": "1.0", "agent_did": did, "agent_id": "test", "public_keys": keys,
        "endpoints": [{"type": "handshake", "url": format!("https://{host}/a2a/handshake"), "transport": "http"}],
    })
}

pub(crate) fn signed(draft: &serde_json::Value, kid: &str, seed: u8, at: i64) -> Object<'static> {
    let mut tree = tree(draft);
    sign_manifest(
        &mut tree,
        &kid.parse().unwrap(),
        &key(seed),
        UnixSeconds(at),
    )
    .unwrap();
    tree
}

/// The manifest of the did:key of a seed.
pub(crate) fn manifest(seed: u8) -> Object<'static> {
    let host = match seed {
        SERVER => "server.example.com".to_owned(),
        other => format!("agent{other}.example.com"),
    };
    let draft = draft(&did(seed).to_string(), &[jwk("k", seed)], &host);
    signed(&draft, "k", seed, UNIX - 100)
}

pub(crate) fn own(seed: u8) -> Arc<Own> {
    Arc::new(Own::new(manifest(seed), "k".parse().unwrap(), key(seed)).unwrap())
}

pub(crate) fn verified(
    manifest: &Object<'static>,
    did: &Did,
    root: &RootKeys,
    now: UnixSeconds,
) -> Box<a2a_identity::VerifiedManifest> {
    let bytes = Value::Object(manifest.clone()).to_canonical();
    let check = a2a_identity::ManifestCheck {
        did,
        root,
        now,
        peer: a2a_identity::Peer::Profile,
        max_age: a2a_identity::MAX_AGE,
        last: None,
        pins: &Pins::default(),
    };
    Box::new(a2a_identity::verify_manifest(&bytes, &check).unwrap())
}

/// What is known of the did:key of a seed.
pub(crate) fn facts(seed: u8) -> Facts {
    let root = RootKeys::DidKey(key(seed).verifying_key());
    Facts {
        endpoints: Vec::new(),
        manifest: Some(verified(
            &manifest(seed),
            &did(seed),
            &root,
            UnixSeconds(UNIX),
        )),
        root,
    }
}

pub(crate) fn source(last: u8) -> Source {
    IpAddr::V4(Ipv4Addr::new(192, 0, 2, last)).into()
}

pub(crate) const fn limits(total: usize, per_holder: usize, reserved: usize) -> base::Limits {
    base::Limits {
        total,
        per_holder,
        reserved,
    }
}

/// One server and its clients.
pub(crate) struct World {
    pub(crate) server: Server,
    pub(crate) book: Book,
    /// What clients go by.
    pub(crate) memory: Book,
    pub(crate) random: Counter,
    pub(crate) time: Duration,
    /// How far the clock on the wall is off.
    pub(crate) jump: i64,
    pub(crate) known: BTreeMap<String, Facts>,
    pub(crate) resolutions: usize,
    pub(crate) source: Source,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(|_| {})
    }

    pub(crate) fn with(change: impl FnOnce(&mut ServerConfig)) -> Self {
        let mut config = ServerConfig::new().unwrap();
        change(&mut config);
        let known = [CLIENT, SERVER, MALLORY].map(|seed| (did(seed).to_string(), facts(seed)));
        Self {
            server: Server::new(own(SERVER), config),
            book: Book::default(),
            memory: Book::default(),
            random: Counter(0),
            time: Duration::from_secs(1000),
            jump: 0,
            known: known.into(),
            resolutions: 0,
            source: source(1),
        }
    }

    pub(crate) fn now(&self) -> Now {
        let seconds = i64::try_from(self.time.as_secs()).unwrap();
        Now {
            monotonic: self.time,
            unix: UnixSeconds(UNIX - 1000 + seconds + self.jump),
        }
    }

    pub(crate) fn wait(&mut self, seconds: u64) {
        self.time += Duration::from_secs(seconds);
    }

    pub(crate) fn client_config(&self) -> ClientConfig {
        ClientConfig::new(did(SERVER), URL).unwrap()
    }

    pub(crate) fn begin(&mut self, seed: u8) -> (ExpectChallenge, Vec<u8>) {
        let config = self.client_config();
        self.begin_with(seed, config)
    }

    pub(crate) fn begin_with(
        &mut self,
        seed: u8,
        config: ClientConfig,
    ) -> (ExpectChallenge, Vec<u8>) {
        self.begin_as(own(seed), config)
    }

    pub(crate) fn begin_as(
        &mut self,
        own: Arc<Own>,
        config: ClientConfig,
    ) -> (ExpectChallenge, Vec<u8>) {
        let now = self.now();
        ExpectChallenge::begin(own, Arc::new(config), now, &mut self.random).unwrap()
    }

    /// Gives a message to the server, which may ask who someone is.
    pub(crate) fn serve(&mut self, message: &[u8]) -> Result<Reply, Box<Refused>> {
        let now = self.now();
        let mut reply =
            self.server
                .handle_message(now, self.source, message, &self.book, &mut self.random)?;
        while let Reply::Resolve(proving) = reply {
            let found = self.find(proving.need());
            reply = self.server.handle_found(now, proving, found, &self.book)?;
        }
        Ok(reply)
    }

    pub(crate) fn find(&mut self, need: &Need) -> Found {
        self.resolutions += 1;
        match need {
            Need::Peer { did, .. } => {
                let name = did.to_string();
                let known = self.known.get(&name).cloned();
                let missing = || a2a_identity::ResolveError::NotFound(name);
                Found::Peer(known.ok_or_else(missing))
            }
            Need::Issuers(_) => Found::Issuers(BTreeMap::new()),
        }
    }

    /// Gives CHALLENGE to a client, which may ask who the server is.
    pub(crate) fn challenged(
        &mut self,
        client: ExpectChallenge,
        message: &[u8],
    ) -> Result<(Box<ExpectPolicy>, Vec<u8>), Aborted> {
        let now = self.now();
        let mut step = client.handle_message(now, message, &self.memory)?;
        loop {
            match step {
                ServerStep::Proven { next, message } => return Ok((next, message)),
                ServerStep::Resolve(check) => {
                    let found = self.find(check.need().unwrap());
                    step = check.handle_found(now, found)?;
                }
            }
        }
    }

    /// A whole handshake.
    pub(crate) fn shake(&mut self, seed: u8) -> Shaken {
        let config = self.client_config();
        self.shake_with(seed, config)
    }

    pub(crate) fn shake_with(&mut self, seed: u8, config: ClientConfig) -> Shaken {
        self.shake_as(own(seed), config)
    }

    pub(crate) fn shake_as(&mut self, own: Arc<Own>, config: ClientConfig) -> Shaken {
        let (client, hello) = self.begin_as(own, config);
        let challenge = sent(self.serve(&hello));
        let (client, proof) = self.challenged(client, &challenge).unwrap();
        let policy = sent(self.serve(&proof));
        let (client, accept) = client.handle_message(self.now(), &policy).unwrap();
        let (server, session) = established(self.serve(&accept));
        let client = client.handle_message(self.now(), &session).unwrap();
        Shaken {
            client,
            server,
            messages: [hello, challenge, proof, policy, accept, session],
        }
    }

    /// G5: an honest agent gets through.
    pub(crate) fn is_well(&mut self) {
        let half_open = self.server.half_open();
        self.source = source(99);
        let shaken = self.shake(77);
        self.server.session_ended(&shaken.server.slot());
        assert_eq!(self.server.half_open(), half_open);
        self.source = source(1);
    }
}

/// Both ends of a finished handshake.
pub(crate) struct Shaken {
    pub(crate) client: Box<Established<policy::Policy>>,
    pub(crate) server: Box<Established<EffectivePolicy>>,
    pub(crate) messages: [Vec<u8>; 6],
}

pub(crate) fn sent(reply: Result<Reply, Box<Refused>>) -> Vec<u8> {
    match reply {
        Ok(Reply::Send(message)) => message,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn established(
    reply: Result<Reply, Box<Refused>>,
) -> (Box<Established<EffectivePolicy>>, Vec<u8>) {
    match reply {
        Ok(Reply::Established {
            session, message, ..
        }) => (session, message),
        other => panic!("{other:?}"),
    }
}

/// What a node offers.
#[derive(Default)]
pub(crate) struct Offers {
    pub(crate) blocked: bool,
    pub(crate) policy: EffectivePolicy,
    pub(crate) names: Vec<policy::IntentName>,
}

impl Host for Offers {
    fn is_blocked(&self, _: &Did) -> bool {
        self.blocked
    }
    fn rate(&self, _: &Did) -> policy::Rate {
        self.policy.rate()
    }
    fn resolve(&self, name: &policy::IntentName) -> Option<policy::IntentName> {
        name.resolve(&self.names).cloned()
    }
}

/// Both ends of a session.
pub(crate) struct Duo {
    pub(crate) world: World,
    pub(crate) client: ClientSession,
    pub(crate) server: ServerSession,
    pub(crate) agents: Agents,
    pub(crate) host: Offers,
}

impl Duo {
    /// A plain session.
    pub(crate) fn new() -> Self {
        Self::with(World::with(|config| config.sealing = Sealing::IfRequired))
    }

    /// An encrypted session.
    pub(crate) fn sealed() -> Self {
        Self::with(World::new())
    }

    pub(crate) fn with(mut world: World) -> Self {
        let shaken = world.shake(CLIENT);
        let now = world.now();
        let names = [
            "nlp.translate",
            "echo",
            "delete_database",
            "db.drop.v1",
            "db.drop.v2",
        ];
        Self {
            client: ClientSession::new(now, *shaken.client),
            server: ServerSession::new(now, *shaken.server, SessionLimits::default()),
            agents: Agents::new(AgentLimits::default()),
            host: Offers {
                blocked: false,
                policy: world.book.policy.clone(),
                names: names
                    .iter()
                    .map(|name| policy::IntentName::parse(name).unwrap())
                    .collect(),
            },
            world,
        }
    }

    /// Another session of the same client.
    pub(crate) fn another(&mut self) -> (ClientSession, ServerSession) {
        let shaken = self.world.shake(CLIENT);
        self.sessions(shaken)
    }

    /// A session of an agent that asks for this policy.
    pub(crate) fn session_of(
        &mut self,
        seed: u8,
        asked: Option<policy::Policy>,
    ) -> (ClientSession, ServerSession) {
        let mut config = self.world.client_config();
        config.policy_request = asked;
        let shaken = self.world.shake_with(seed, config);
        self.sessions(shaken)
    }

    /// Goes on with a session of another agent.
    pub(crate) fn become_agent(&mut self, seed: u8) {
        let session = self.session_of(seed, None);
        self.go_on(session);
    }

    /// Goes on with another session; returns the one before.
    pub(crate) fn go_on(
        &mut self,
        (client, server): (ClientSession, ServerSession),
    ) -> (ClientSession, ServerSession) {
        (
            std::mem::replace(&mut self.client, client),
            std::mem::replace(&mut self.server, server),
        )
    }

    fn sessions(&self, shaken: Shaken) -> (ClientSession, ServerSession) {
        let now = self.world.now();
        (
            ClientSession::new(now, *shaken.client),
            ServerSession::new(now, *shaken.server, SessionLimits::default()),
        )
    }

    pub(crate) fn ask(&mut self, intent: serde_json::Value) -> Outgoing {
        let now = self.world.now();
        let intent = Value::Object(tree(&intent));
        let random = &mut self.world.random;
        self.client.request(now, intent, random).unwrap()
    }

    pub(crate) fn serve(&mut self, message: &[u8]) -> Result<Handled, Box<Refusal>> {
        let now = self.world.now();
        let incoming = Incoming::read(now, message, 1 << 26, None)?;
        self.server
            .handle_message(now, &incoming, &mut self.agents, &self.host)
    }

    pub(crate) fn start(&mut self, message: &[u8]) -> Box<Start> {
        match self.serve(message) {
            Ok(Handled::Start(start)) => start,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn refused(&mut self, message: &[u8]) -> Box<Refusal> {
        match self.serve(message) {
            Err(refusal) => refusal,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn respond(&mut self, token: Token, result: serde_json::Value) -> Answer {
        let now = self.world.now();
        let result = Value::Object(tree(&result));
        self.server.respond(now, token, Ok(result)).unwrap()
    }

    pub(crate) fn hear(&mut self, message: &[u8]) -> Result<ClientEvent, Dropped> {
        self.client.handle_message(self.world.now(), message)
    }

    /// A question and its answer, both ways.
    pub(crate) fn is_well(&mut self) {
        let asked = self.ask(echo());
        let start = self.start(&asked.message);
        let answer = self.respond(start.token, json!({"said": "hello"}));
        let event = self.hear(&answer.message).unwrap();
        assert!(matches!(event, ClientEvent::Response { .. }), "{event:?}");
        assert!(answer.record.approved);
    }
}

pub(crate) fn echo() -> serde_json::Value {
    json!({"goal": "echo", "inputs": {"say": "hello"}})
}

//! What the fuzz targets run. Not part of the interface.
//!
//! The input is a list of operations: a byte that names one, and what it needs behind it. A message
//! is one that was said before, with a stretch of it replaced.
#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a fuzz target reports a finding by panicking; no other code calls this"
)]

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use a2a_identity::{
    Did, DidKey, NoRandomness, Pins, Randomness, RootKeys, Seen, SigningKey, sign_manifest,
};
use a2a_wire::{Digest, UnixSeconds};
use canonical::{Object, Value};
use policy::{EffectivePolicy, IntentName, Policy, Rate};

use crate::{
    AgentLimits, Agents, Baseline, ClientConfig, ClientEvent, ClientSession, Directory,
    Established, ExpectChallenge, ExpectPolicy, ExpectSession, Facts, Found, Handled, Host,
    Incoming, Need, Now, Own, Reply, Sealing, Server, ServerConfig, ServerSession, ServerStep,
    SessionLimits,
};

const CLIENT: u8 = 1;
const SERVER: u8 = 2;

/// Any bytes to a server, between the messages of an honest client: no panic, nothing left behind,
/// and who gets through is the client.
pub fn a2a_handshake_server(bytes: &[u8]) {
    let mut script = Script::new(bytes);
    let mut world = World::new(Sealing::IfRequired);
    let mut said = Vec::new();
    let mut client = None;
    while let Some(operation) = script.byte() {
        match operation % 4 {
            0 => {
                let (state, hello) = world.begin();
                said.push(hello);
                client = Some(Client::Challenge(state));
            }
            1 => drop(world.serve(script.rest())),
            2 => {
                let message = script.message(&said);
                if let Some((session, reply)) = world.serve(&message) {
                    assert!(session.is_none_or(|it| *it.peer().did() == did(CLIENT)));
                    client = client.and_then(|it| it.hear(&world, &reply, &mut said));
                }
            }
            _ => world.time = world.time.saturating_add(script.seconds()),
        }
    }
    world.time = world.time.saturating_add(Duration::from_secs(30));
    world.server.handle_timeout(world.now());
    assert_eq!(world.server.half_open(), 0);
}

/// Any bytes to a client, between the messages of an honest server: no panic, and whoever is
/// believed is the server.
pub fn a2a_handshake_client(bytes: &[u8]) {
    let mut script = Script::new(bytes);
    let mut world = World::new(Sealing::IfRequired);
    let (state, hello) = world.begin();
    let mut client = Some(Client::Challenge(state));
    let mut said = vec![hello];
    let mut replies = Vec::new();
    while let (Some(operation), Some(state)) = (script.byte(), client.take()) {
        if operation % 3 == 0 {
            client = state.hear(&world, script.rest(), &mut said);
            continue;
        }
        let last = said.last().cloned().unwrap_or_default();
        replies.extend(world.serve(&last).map(|(_, reply)| reply));
        let message = script.message(&replies);
        client = state.hear(&world, &message, &mut said);
        if let Some(Client::Done(session)) = &client {
            assert_eq!(*session.peer().did(), did(SERVER));
        }
    }
}

/// Any operations on a session, plain or encrypted: no panic, each request runs once at most, and
/// the client believes only what the server said.
pub fn a2a_session_ops(bytes: &[u8]) {
    let mut script = Script::new(bytes);
    let sealing = match script.byte().unwrap_or_default() % 2 {
        0 => Sealing::IfRequired,
        _ => Sealing::Offered,
    };
    let mut world = World::new(sealing);
    let Some((mut client, mut server)) = world.sessions() else {
        panic!("two honest agents do not come together");
    };
    let mut agents = Agents::new(AgentLimits::default());
    let (mut up, mut down, mut ran) = (Vec::new(), Vec::new(), Vec::new());
    while let Some(operation) = script.byte() {
        let now = world.now();
        match operation % 7 {
            0 | 1 => {
                let intent = intent(script.byte().unwrap_or_default());
                let asked = client.request(now, intent, &mut world.random);
                up.extend(asked.ok().map(|asked| asked.message));
            }
            2 => {
                let close = client.close(now, &mut world.random);
                up.extend(close.ok().map(|close| close.message));
            }
            3 | 4 => {
                let message = script.message(&up);
                let Ok(incoming) = Incoming::read(now, &message, 1 << 20, None) else {
                    continue;
                };
                match server.handle_message(now, &incoming, &mut agents, &Echo) {
                    Ok(Handled::Start(start)) => {
                        let id = incoming.request_id().map(|id| id.as_str().to_owned());
                        assert!(!ran.contains(&id), "a request runs twice");
                        ran.push(id);
                        if start.stream {
                            down.extend(server.chunk(start.token, Value::Bool(true)).ok());
                        }
                        let answer = server.respond(now, start.token, Ok(Value::Bool(true)));
                        down.extend(answer.ok().map(|answer| answer.message));
                    }
                    Ok(Handled::Answer { answer, .. }) => down.push(answer.message),
                    Err(refusal) => down.push(refusal.message),
                }
            }
            5 => {
                let message = script.message(&down);
                if let Ok(ClientEvent::Response { result, .. }) =
                    client.handle_message(now, &message)
                {
                    assert!(result != Value::Bool(false));
                }
            }
            _ => {
                world.time = world.time.saturating_add(script.seconds());
                let ended = server.handle_timeout(world.now());
                down.extend(ended.into_iter().map(|it| it.answer.message));
            }
        }
    }
}

/// Any change to an encrypted message: it does not open, unless it is the same.
pub fn a2a_decrypt(bytes: &[u8]) {
    let mut script = Script::new(bytes);
    let mut world = World::new(Sealing::Offered);
    let Some((mut client, mut server)) = world.sessions() else {
        panic!("two honest agents do not come together");
    };
    let now = world.now();
    let Ok(asked) = client.request(now, intent(0), &mut world.random) else {
        panic!("an honest client cannot ask");
    };
    let said = [asked.message];
    let changed = script.message(&said);
    let mut agents = Agents::new(AgentLimits::default());
    if let Ok(incoming) = Incoming::read(now, &changed, 1 << 20, None) {
        let handled = server.handle_message(now, &incoming, &mut agents, &Echo);
        let same = Value::parse(&changed).ok() == Value::parse(&said[0]).ok();
        assert!(handled.is_err() || same, "a changed message opens");
    }
}

/// The operations left.
struct Script<'b>(&'b [u8]);

impl<'b> Script<'b> {
    const fn new(bytes: &'b [u8]) -> Self {
        Self(bytes)
    }

    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn seconds(&mut self) -> Duration {
        Duration::from_secs(u64::from(self.byte().unwrap_or_default()))
    }

    /// A length byte and that many bytes.
    fn rest(&mut self) -> &'b [u8] {
        let length = usize::from(self.byte().unwrap_or_default());
        let (line, rest) = self.0.split_at(length.min(self.0.len()));
        self.0 = rest;
        line
    }

    /// One of the messages said, with a stretch of it replaced by other bytes.
    fn message(&mut self, said: &[Vec<u8>]) -> Vec<u8> {
        let index = usize::from(self.byte().unwrap_or_default());
        let index = index.checked_rem(said.len()).unwrap_or_default();
        let mut message = said.get(index).cloned().unwrap_or_default();
        let [high, low] = [(); 2].map(|()| self.byte().unwrap_or_default());
        let start = usize::from(u16::from_be_bytes([high, low])).min(message.len());
        let length = usize::from(self.byte().unwrap_or_default());
        let end = start.saturating_add(length).min(message.len());
        let other = self.rest();
        message.splice(start..end, other.iter().copied());
        message
    }
}

/// A server, what is known, and the time.
struct World {
    server: Server,
    config: Arc<ClientConfig>,
    random: Counter,
    time: Duration,
}

impl World {
    fn new(sealing: Sealing) -> Self {
        let mut config = ServerConfig::new().unwrap();
        config.sealing = sealing;
        let mut client = ClientConfig::new(did(SERVER), URL).unwrap();
        client.show_manifest = crate::ShowManifest::ByHash;
        Self {
            server: Server::new(own(SERVER), config),
            config: Arc::new(client),
            random: Counter(0),
            time: Duration::from_secs(1),
        }
    }

    fn now(&self) -> Now {
        let seconds = i64::try_from(self.time.as_secs()).unwrap_or_default();
        Now {
            monotonic: self.time,
            unix: UnixSeconds(UNIX).plus(seconds),
        }
    }

    fn begin(&mut self) -> (ExpectChallenge, Vec<u8>) {
        let now = self.now();
        let config = Arc::clone(&self.config);
        ExpectChallenge::begin(own(CLIENT), config, now, &mut self.random).unwrap()
    }

    /// What a server answers, and the session it made.
    fn serve(&mut self, message: &[u8]) -> Option<Served> {
        let source = IpAddr::V4(Ipv4Addr::LOCALHOST).into();
        let now = self.now();
        let reply = self
            .server
            .handle_message(now, source, message, &Nobody, &mut self.random);
        match reply.ok()? {
            Reply::Send(reply) => Some((None, reply)),
            Reply::Established {
                session, message, ..
            } => Some((Some(session), message)),
            Reply::Resolve(_) | Reply::GivenUp(_) => None,
        }
    }

    /// Two ends of a session.
    fn sessions(&mut self) -> Option<(ClientSession, ServerSession)> {
        let (client, hello) = self.begin();
        let mut said = vec![hello];
        let mut client = Client::Challenge(client);
        let mut server = None;
        while let Some(message) = said.pop() {
            let (session, reply) = self.serve(&message)?;
            server = session;
            client = client.hear(self, &reply, &mut said)?;
        }
        let now = self.now();
        let server = ServerSession::new(now, *server?, SessionLimits::default());
        match client {
            Client::Done(client) => Some((ClientSession::new(now, *client), server)),
            Client::Challenge(_) | Client::Policy(_) | Client::Session(_) => None,
        }
    }
}

/// What a server answers, and the session it made.
type Served = (Option<Box<Established<EffectivePolicy>>>, Vec<u8>);

/// A client in any state.
enum Client {
    Challenge(ExpectChallenge),
    Policy(Box<ExpectPolicy>),
    Session(Box<ExpectSession>),
    Done(Box<Established<Policy>>),
}

impl Client {
    /// Takes a message; what it cannot take ends it.
    fn hear(self, world: &World, message: &[u8], said: &mut Vec<Vec<u8>>) -> Option<Self> {
        let now = world.now();
        match self {
            Self::Challenge(client) => {
                let mut step = client.handle_message(now, message, &Nobody).ok()?;
                if let ServerStep::Resolve(check) = step {
                    let peer = matches!(check.need(), Some(Need::Peer { .. }));
                    assert!(peer, "nobody vouches for it");
                    let facts = Facts {
                        endpoints: Vec::new(),
                        root: RootKeys::DidKey(key(SERVER).verifying_key()),
                        manifest: None,
                    };
                    step = check.handle_found(now, Found::Peer(Ok(facts))).ok()?;
                }
                let ServerStep::Proven { next, message } = step else {
                    return None;
                };
                said.push(message);
                Some(Self::Policy(next))
            }
            Self::Policy(client) => {
                let (next, message) = client.handle_message(now, message).ok()?;
                said.push(message);
                Some(Self::Session(next))
            }
            Self::Session(client) => Some(Self::Done(client.handle_message(now, message).ok()?)),
            done @ Self::Done(_) => Some(done),
        }
    }
}

/// Nobody is blocked, pinned or known from before.
struct Nobody;

impl Directory for Nobody {
    fn is_blocked(&self, _: &Did) -> bool {
        false
    }
    fn policy_for(&self, _: &Did) -> EffectivePolicy {
        EffectivePolicy::default()
    }
    fn pins(&self, _: &Did) -> Pins {
        Pins::default()
    }
    fn last_seen(&self, _: &Did) -> Option<Seen> {
        None
    }
    fn baseline(&self, _: &Did) -> Baseline {
        Baseline::Accept
    }
    fn spoke_profile(&self, _: &Did) -> bool {
        false
    }
    fn saw_nonce(&self, _: &Did, _: &str) -> bool {
        false
    }
}

/// Serves whatever is asked.
struct Echo;

impl Host for Echo {
    fn is_blocked(&self, _: &Did) -> bool {
        false
    }
    fn rate(&self, _: &Did) -> Rate {
        Rate::DEFAULT
    }
    fn resolve(&self, name: &IntentName) -> Option<IntentName> {
        Some(name.clone())
    }
}

/// Bytes that never repeat.
struct Counter(u64);

impl Randomness for Counter {
    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), NoRandomness> {
        self.0 = self.0.wrapping_add(1);
        let digest = Digest::of(&self.0.to_be_bytes());
        for (byte, random) in bytes.iter_mut().zip(digest.as_bytes().iter().cycle()) {
            *byte = *random;
        }
        Ok(())
    }
}

fn key(seed: u8) -> SigningKey {
    SigningKey::from_seed(&[seed; 32])
}

fn did(seed: u8) -> Did {
    Did::Key(DidKey::new(key(seed).verifying_key()))
}

/// An owner with the smallest manifest there can be.
fn own(seed: u8) -> Arc<Own> {
    let text = |text: String| Value::String(text.into());
    let object = |members: Vec<(&'static str, Value<'static>)>| {
        let mut object = Object::default();
        for (name, value) in members {
            object.insert(name, value);
        }
        object
    };
    let bytes = canonical::base64url::encode(&key(seed).verifying_key().to_bytes());
    let jwk = object(vec![("kid", text("k".into())), ("key", text(bytes))]);
    let endpoint = object(vec![
        ("type", text("handshake".into())),
        ("url", text(URL.into())),
    ]);
    let mut manifest = object(vec![
        ("manifest_version", text("1.0".into())),
        ("agent_did", text(did(seed).to_string())),
        ("agent_id", text("a".into())),
        ("public_keys", Value::Array(vec![Value::Object(jwk)])),
        ("endpoints", Value::Array(vec![Value::Object(endpoint)])),
    ]);
    let kid: a2a_wire::Kid = "k".parse().unwrap();
    sign_manifest(&mut manifest, &kid, &key(seed), UnixSeconds(UNIX)).unwrap();
    Arc::new(Own::new(manifest, kid, key(seed)).unwrap())
}

/// Something to ask for, by its number.
fn intent(number: u8) -> Value<'static> {
    let id = format!("0e9f2a5c-1111-4222-8333-4444555566{:02x}", number & 3);
    let stream = number & 4 != 0;
    let text = format!(
        r#"{{"goal":"echo","intent_id":"{id}","constraints":{{"stream":{stream},"timeout_ms":5000}}}}"#
    );
    Value::parse(text.as_bytes()).map_or(Value::Null, Value::into_owned)
}

const URL: &str = "https://server.example.com/a2a/handshake";
const UNIX: i64 = 1_770_000_000;

//! The real machines, each transition worked out once.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use a2a_identity::{
    Did, DidKey, ManifestCheck, NoRandomness, Pins, RootKeys, Seen, SigningKey, VerifiedManifest,
    sign_manifest, verify_manifest,
};
use a2a_wire::{Digest, Kind, Received, Transcript, UnixSeconds};
use canonical::{Object, Value};
use policy::EffectivePolicy;
use serde_json::json;

use super::attacker;
use crate::handshake::client::ServerStep;
use crate::{
    Baseline, ClientConfig, Directory, ExpectChallenge, ExpectPolicy, ExpectSession, Facts, Found,
    Now, Own, Reply, Sealing, Server, ServerConfig, ShowManifest,
};

pub(super) const CLIENT: u8 = 1;
pub(super) const SERVER: u8 = 2;
pub(super) const ATTACKER: u8 = 66;
pub(super) const NOW: Now = Now {
    monotonic: Duration::from_secs(1),
    unix: UnixSeconds(1_770_000_000),
};

/// Whom a client calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Peer {
    Server,
    Attacker,
}

impl Peer {
    const fn seed(self) -> u8 {
        match self {
            Self::Server => SERVER,
            Self::Attacker => ATTACKER,
        }
    }
}

/// What one side believes when it is done.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Summary {
    pub(super) peer: u8,
    pub(super) transcript: Digest,
    /// Session, policy, commitment and transcript.
    pub(super) agreement: (String, Digest, Digest, Digest),
}

#[derive(Debug, Clone)]
enum Client {
    Challenge(ExpectChallenge),
    Policy(Box<ExpectPolicy>),
    Session(Box<ExpectSession>),
    Done(Summary),
}

/// The next state, and what is said.
type Step = (usize, Option<usize>);

/// All states and messages met so far, and what leads where.
pub(super) struct Machines {
    servers: Vec<Server>,
    server_ids: BTreeMap<Digest, usize>,
    clients: Vec<Client>,
    client_ids: BTreeMap<Digest, usize>,
    messages: Vec<Vec<u8>>,
    kinds: Vec<Kind>,
    message_ids: BTreeMap<Vec<u8>, usize>,
    served: BTreeMap<(usize, usize), Step>,
    heard: BTreeMap<(usize, usize), Option<Step>>,
    sessions: BTreeMap<usize, Summary>,
    after_accept: BTreeMap<usize, Transcript>,
    edited: BTreeMap<BTreeSet<usize>, Vec<usize>>,
    begun: u8,
    manifests: BTreeMap<u8, Box<VerifiedManifest>>,
}

impl Machines {
    pub(super) fn new() -> Self {
        let mut config = ServerConfig::new().unwrap();
        config.sealing = Sealing::IfRequired;
        let seeds = [CLIENT, SERVER, ATTACKER];
        let mut machines = Self {
            servers: Vec::new(),
            server_ids: BTreeMap::new(),
            clients: Vec::new(),
            client_ids: BTreeMap::new(),
            messages: Vec::new(),
            kinds: Vec::new(),
            message_ids: BTreeMap::new(),
            served: BTreeMap::new(),
            heard: BTreeMap::new(),
            sessions: BTreeMap::new(),
            after_accept: BTreeMap::new(),
            edited: BTreeMap::new(),
            begun: 0,
            manifests: seeds.map(|seed| (seed, verified(seed))).into(),
        };
        machines.add_server(Server::new(own(SERVER), config));
        machines
    }

    pub(super) const fn server(&self) -> usize {
        0
    }

    /// A client that calls someone, and its HELLO.
    pub(super) fn begin(&mut self, server: Peer) -> (usize, usize) {
        let mut config = ClientConfig::new(did(server.seed()), url(server.seed())).unwrap();
        config.sealing = Sealing::IfRequired;
        config.show_manifest = ShowManifest::ByHash;
        self.begun += 1;
        let mut random = seeded(&[self.begun]);
        let begun = ExpectChallenge::begin(own(CLIENT), config.into(), NOW, &mut random);
        let (client, hello) = begun.unwrap();
        (self.add_client(Client::Challenge(client)), self.add(hello))
    }

    /// What a server does with a message.
    pub(super) fn serve(&mut self, server: usize, message: usize) -> Step {
        if let Some(known) = self.served.get(&(server, message)) {
            return *known;
        }
        let mut machine = self.servers[server].clone();
        let bytes = self.messages[message].clone();
        let source = IpAddr::V4(Ipv4Addr::LOCALHOST).into();
        // The same message gives the same nonce, in whatever order messages come.
        let mut random = seeded(&bytes);
        let reply = machine.handle_message(NOW, source, &bytes, &Nobody, &mut random);
        // What is refused changes nothing but that a state may be gone.
        let unchanged = reply.is_err() && machine.half_open() == self.servers[server].half_open();
        let reply = match reply {
            Ok(Reply::Send(reply)) => Some(self.add(reply)),
            Ok(Reply::Established {
                session, message, ..
            }) => {
                let id = self.add(message);
                let summary = Summary {
                    peer: seed_of(session.peer().did()),
                    transcript: session.transcript(),
                    agreement: (
                        session.session_id().to_string(),
                        session.policy().hash(),
                        session.policy().commitment(),
                        session.transcript(),
                    ),
                };
                self.sessions.insert(id, summary);
                Some(id)
            }
            Ok(Reply::Resolve(_) | Reply::GivenUp(_)) | Err(_) => None,
        };
        let outcome = match unchanged {
            true => (server, None),
            false => (self.add_server(machine), reply),
        };
        self.served.insert((server, message), outcome);
        outcome
    }

    /// What a client does with a message; `None` if it gives up.
    pub(super) fn hear(&mut self, client: usize, message: usize) -> Option<Step> {
        if let Some(known) = self.heard.get(&(client, message)) {
            return *known;
        }
        let outcome = self.step(client, message);
        self.heard.insert((client, message), outcome);
        outcome
    }

    fn step(&mut self, client: usize, message: usize) -> Option<Step> {
        let bytes = self.messages[message].clone();
        match self.clients[client].clone() {
            Client::Challenge(state) => {
                let seed = seed_of(&state.attempt.config.server);
                let mut step = state.handle_message(NOW, &bytes, &Nobody).ok()?;
                if let ServerStep::Resolve(check) = step {
                    let facts = Facts {
                        endpoints: Vec::new(),
                        root: RootKeys::DidKey(key(seed).verifying_key()),
                        manifest: self.manifests.get(&seed).cloned(),
                    };
                    step = check.handle_found(NOW, Found::Peer(Ok(facts))).ok()?;
                }
                let ServerStep::Proven { next, message } = step else {
                    return None;
                };
                let reply = self.add(message);
                Some((self.add_client(Client::Policy(next)), Some(reply)))
            }
            Client::Policy(state) => {
                let (next, message) = state.handle_message(NOW, &bytes).ok()?;
                let reply = self.add(message);
                let transcript = next.attempt.transcript.clone();
                self.after_accept.insert(reply, transcript);
                Some((self.add_client(Client::Session(next)), Some(reply)))
            }
            Client::Session(state) => {
                let done = state.handle_message(NOW, &bytes).ok()?;
                let summary = Summary {
                    peer: seed_of(done.peer().did()),
                    transcript: done.transcript(),
                    agreement: (
                        done.session_id().to_string(),
                        done.policy().hash(),
                        done.policy().commitment(),
                        done.transcript(),
                    ),
                };
                Some((self.add_client(Client::Done(summary)), None))
            }
            Client::Done(_) => None,
        }
    }

    pub(super) fn summary(&self, client: usize) -> Option<&Summary> {
        match &self.clients[client] {
            Client::Done(summary) => Some(summary),
            Client::Challenge(_) | Client::Policy(_) | Client::Session(_) => None,
        }
    }

    pub(super) fn session(&self, message: usize) -> &Summary {
        &self.sessions[&message]
    }

    pub(super) fn transcript_after(&self, accepted: usize) -> &Transcript {
        &self.after_accept[&accepted]
    }

    pub(super) fn kind(&self, message: usize) -> Kind {
        self.kinds[message]
    }

    pub(super) fn bytes(&self, message: usize) -> &[u8] {
        &self.messages[message]
    }

    /// Everything the attacker can make by changing what it knows.
    pub(super) fn edits(&mut self, known: &BTreeSet<usize>) -> Vec<usize> {
        if let Some(edits) = self.edited.get(known) {
            return edits.clone();
        }
        let messages: Vec<&[u8]> = known.iter().map(|id| self.bytes(*id)).collect();
        let made = attacker::edits(&messages);
        let edits: Vec<usize> = made.into_iter().map(|bytes| self.add(bytes)).collect();
        self.edited.insert(known.clone(), edits.clone());
        edits
    }

    /// Everything the attacker can say in its own name.
    pub(super) fn own_messages(&mut self, known: &BTreeSet<usize>) -> Vec<usize> {
        let messages: Vec<&[u8]> = known.iter().map(|id| self.bytes(*id)).collect();
        let made = attacker::own_messages(&messages);
        made.into_iter().map(|bytes| self.add(bytes)).collect()
    }

    fn add(&mut self, bytes: Vec<u8>) -> usize {
        if let Some(id) = self.message_ids.get(&bytes) {
            return *id;
        }
        let received = Received::parse(&bytes, 1 << 20).unwrap();
        let kind = received.message().kind();
        self.kinds.push(kind);
        self.messages.push(bytes.clone());
        let id = self.messages.len() - 1;
        self.message_ids.insert(bytes, id);
        id
    }

    fn add_server(&mut self, server: Server) -> usize {
        let next = self.servers.len();
        let id = *self.server_ids.entry(server.fingerprint()).or_insert(next);
        if id == next {
            self.servers.push(server);
        }
        id
    }

    fn add_client(&mut self, client: Client) -> usize {
        let next = self.clients.len();
        let fingerprint = Digest::of(format!("{client:?}").as_bytes());
        let id = *self.client_ids.entry(fingerprint).or_insert(next);
        if id == next {
            self.clients.push(client);
        }
        id
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
        Baseline::Refuse
    }
    fn spoke_profile(&self, _: &Did) -> bool {
        false
    }
    fn saw_nonce(&self, _: &Did, _: &str) -> bool {
        false
    }
}

pub(super) fn key(seed: u8) -> SigningKey {
    SigningKey::from_seed(&[seed; 32])
}

pub(super) fn did(seed: u8) -> Did {
    Did::Key(DidKey::new(key(seed).verifying_key()))
}

fn seed_of(name: &Did) -> u8 {
    let seeds = [CLIENT, SERVER, ATTACKER];
    seeds.into_iter().find(|seed| did(*seed) == *name).unwrap()
}

fn url(seed: u8) -> String {
    format!("https://agent{seed}.example.com/a2a/handshake")
}

pub(super) fn jwk(seed: u8) -> serde_json::Value {
    let bytes = key(seed).verifying_key().to_bytes();
    let text = canonical::base64url::encode(&bytes);
    json!({"kid": "k", "kty": "EC", "alg": "EdDSA", "use": "sig", "key": text})
}

pub(super) fn tree(value: &serde_json::Value) -> Object<'static> {
    let text = value.to_string();
    let value = Value::parse(text.as_bytes()).unwrap().into_owned();
    value.as_object().unwrap().clone()
}

fn manifest(seed: u8) -> Object<'static> {
    let mut tree = tree(&json!({
        "manifest_version": "1.0", "agent_did": did(seed).to_string(), "agent_id": "a",
        "public_keys": [jwk(seed)],
        "endpoints": [{"type": "handshake", "url": url(seed), "transport": "http"}],
    }));
    sign_manifest(&mut tree, &"k".parse().unwrap(), &key(seed), NOW.unix).unwrap();
    tree
}

pub(super) fn manifest_hash(seed: u8) -> String {
    let hash = manifest(seed).digest_without(a2a_wire::NOT_HASHED);
    hash.to_string()
}

fn verified(seed: u8) -> Box<VerifiedManifest> {
    let check = ManifestCheck {
        did: &did(seed),
        root: &RootKeys::DidKey(key(seed).verifying_key()),
        now: NOW.unix,
        peer: a2a_identity::Peer::Profile,
        max_age: a2a_identity::MAX_AGE,
        last: None,
        pins: &Pins::default(),
    };
    let bytes = Value::Object(manifest(seed)).to_canonical();
    Box::new(verify_manifest(&bytes, &check).unwrap())
}

fn own(seed: u8) -> Arc<Own> {
    Arc::new(Own::new(manifest(seed), "k".parse().unwrap(), key(seed)).unwrap())
}

/// Bytes that depend on a seed alone.
fn seeded(seed: &[u8]) -> impl FnMut(&mut [u8]) -> Result<(), NoRandomness> + use<> {
    let mut state = Digest::of(seed);
    move |bytes: &mut [u8]| {
        for chunk in bytes.chunks_mut(32) {
            state = Digest::of(state.as_bytes());
            chunk.copy_from_slice(&state.as_bytes()[..chunk.len()]);
        }
        Ok(())
    }
}

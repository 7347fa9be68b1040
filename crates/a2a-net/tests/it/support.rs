//! Two nodes, what is between them, and a watch that tests can turn.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use a2a_identity::{Answer as Fetched, Did, DidKey, Document, SigningKey, sign_manifest};
use a2a_net::transport::Service;
use a2a_net::*;
use a2a_session::TrustRules;
use a2a_wire::UnixSeconds;
use audit::{Checkpoint, KeyCheck, Log, NotSigned, Refusal, Settings, Signer, SyncWhen};
use canonical::{Digest, Object, Value};
use policy::IntentName;
use serde_json::json;
use store::{Limits, Memory, Store};
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub(crate) use crate::link::*;

pub(crate) const UNIX: i64 = 1_770_000_000;
pub(crate) const CLIENT: u8 = 1;
pub(crate) const SERVER: u8 = 2;
pub(crate) const HOST: &str = "server.example.com";
pub(crate) const MANIFEST_URL: &str = "https://server.example.com/.well-known/agent-manifest.json";

pub(crate) fn key(seed: u8) -> SigningKey {
    SigningKey::from_seed(&[seed; 32])
}

pub(crate) fn did(seed: u8) -> Did {
    Did::Key(DidKey::new(key(seed).verifying_key()))
}

pub(crate) fn value(json: &serde_json::Value) -> Value<'static> {
    Value::parse(json.to_string().as_bytes())
        .unwrap()
        .into_owned()
}

pub(crate) fn json_of(value: &Value<'_>) -> serde_json::Value {
    serde_json::from_slice(&value.to_canonical()).unwrap()
}

pub(crate) fn jwk(kid: &str, seed: u8) -> serde_json::Value {
    let bytes = key(seed).verifying_key().to_bytes();
    json!({"kid": kid, "kty": "EC", "alg": "EdDSA", "use": "sig",
        "key": canonical::base64url::encode(&bytes)})
}

/// A signed manifest of the did:key of a seed.
pub(crate) fn manifest_with(
    seed: u8,
    at: i64,
    change: impl FnOnce(&mut serde_json::Value),
) -> Object<'static> {
    let host = match seed {
        SERVER => HOST.to_owned(),
        other => format!("agent{other}.example.com"),
    };
    let mut draft = json!({
        "manifest_version": "1.0", "agent_did": did(seed).to_string(), "agent_id": "test",
        "public_keys": [jwk("k", seed)],
        "endpoints": [{"type": "handshake", "url": format!("https://{host}/a2a/handshake"), "transport": "http"}],
    });
    change(&mut draft);
    let Value::Object(mut tree) = value(&draft) else {
        panic!("{draft}");
    };
    sign_manifest(
        &mut tree,
        &"k".parse().unwrap(),
        &key(seed),
        UnixSeconds(at),
    )
    .unwrap();
    tree
}

pub(crate) fn manifest(seed: u8) -> Object<'static> {
    manifest_with(seed, UNIX - 100, |_| {})
}

pub(crate) fn identity(seed: u8) -> Identity {
    Identity::new(manifest(seed), "k".parse().unwrap(), key(seed)).unwrap()
}

/// Time that goes with tokio's clock.
pub(crate) fn clock() -> Clock {
    let start = Instant::now();
    let base = Duration::from_secs(u64::try_from(UNIX).unwrap());
    Clock::with_wall(move || base + start.elapsed())
}

/// Bytes that never repeat within a process and are no secret.
pub(crate) fn entropy() -> Entropy {
    static LAST: AtomicU64 = AtomicU64::new(0);
    Entropy::new(|bytes| {
        for chunk in bytes.chunks_mut(32) {
            let number = LAST.fetch_add(1, Ordering::Relaxed);
            let digest = Digest::of(&number.to_be_bytes());
            chunk.copy_from_slice(&digest.as_bytes()[..chunk.len()]);
        }
        Ok(())
    })
}

/// What is published, and who asked for it.
#[derive(Clone, Default)]
pub(crate) struct Spy(Arc<Mutex<Published>>);

#[derive(Default)]
struct Published {
    answers: BTreeMap<String, Fetched>,
    asked: Vec<String>,
    slow: BTreeSet<String>,
}

/// What a slow host takes: as long as a fetch may.
const SLOW: Duration = Duration::from_secs(5);

impl Spy {
    pub(crate) fn publish(&self, url: &str, answer: Fetched) {
        self.0
            .lock()
            .unwrap()
            .answers
            .insert(url.to_owned(), answer);
    }

    /// Has a host take as long as a fetch may, with all names under it, and then not answer.
    pub(crate) fn slow_down(&self, host: &str) {
        self.0.lock().unwrap().slow.insert(host.to_owned());
    }

    fn is_slow(&self, url: &str) -> bool {
        let host = url.split('/').nth(2).unwrap_or_default();
        let published = self.0.lock().unwrap();
        published.slow.iter().any(|slow| host.ends_with(slow))
    }

    pub(crate) fn asked(&self) -> Vec<String> {
        self.0.lock().unwrap().asked.clone()
    }

    /// How often anybody asked.
    pub(crate) fn count(&self) -> usize {
        self.0.lock().unwrap().asked.len()
    }
}

impl Fetcher for Spy {
    fn fetch<'a>(&'a self, url: &'a str, _: Document) -> Fetching<'a> {
        Box::pin(async move {
            // As a network would, let others run first.
            tokio::task::yield_now().await;
            self.0.lock().unwrap().asked.push(url.to_owned());
            if self.is_slow(url) {
                tokio::time::sleep(SLOW).await;
                return Fetched::Unreachable;
            }
            let published = self.0.lock().unwrap();
            let answer = published.answers.get(url).cloned();
            answer.unwrap_or(Fetched::Status(404))
        })
    }
}

/// Every name has one public address.
pub(crate) struct Public;

impl Names for Public {
    fn addresses<'a>(&'a self, _: &'a str) -> Addresses<'a> {
        Box::pin(async { Ok(vec![IpAddr::V4(Ipv4Addr::new(93, 184, 216, 34))]) })
    }
}

/// Stands for the node's key.
struct Key;

impl Signer for Key {
    fn sign(&self, it: &Checkpoint) -> Result<String, NotSigned> {
        Ok(format!(
            "{}|{}|{}|{}",
            it.log_id, it.seq, it.head_hash, it.timestamp
        ))
    }
}

impl KeyCheck for Key {
    fn check(&self, _: &str) -> Result<Checkpoint, Refusal> {
        Err(Refusal::Invalid("not a checkpoint".into()))
    }
}

pub(crate) fn log(folder: &Path) -> Log {
    let settings = Settings {
        sync: SyncWhen::Never,
        ..Settings::default()
    };
    let parts = audit::Parts {
        signer: Box::new(Key),
        keys: Box::new(Key),
        random: Box::new(|bytes: &mut [u8]| {
            bytes.fill(7);
            Ok(())
        }),
        clock: Box::new(|| audit::UnixMillis(UNIX * 1000)),
        alarm: Box::new(|_| {}),
    };
    Log::open(folder, settings, parts).unwrap()
}

/// All records of a kind.
pub(crate) fn records(folder: &Path, event: &str) -> Vec<serde_json::Value> {
    let mut found = Vec::new();
    for segment in audit::segments(folder).unwrap() {
        let text = std::fs::read_to_string(&segment.path).unwrap();
        let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
        found.extend(lines.filter(|line: &serde_json::Value| line["event_type"] == event));
    }
    found
}

/// A node without transports.
pub(crate) struct Node {
    pub(crate) home: Arc<Home>,
    pub(crate) spy: Spy,
}

pub(crate) struct Made {
    pub(crate) identity: Identity,
    pub(crate) rules: Rules,
    pub(crate) trust: TrustRules,
    pub(crate) store: Store,
    pub(crate) log: Option<Log>,
    pub(crate) resolver: ResolverLimits,
    pub(crate) peer_history: base::Limits,
}

impl Made {
    pub(crate) fn of(seed: u8) -> Self {
        Self {
            identity: identity(seed),
            rules: Rules::default(),
            trust: TrustRules::default(),
            store: Store::new(Memory::new(Limits::default())),
            log: None,
            resolver: ResolverLimits::default(),
            peer_history: peer_history::LIMITS,
        }
    }

    pub(crate) async fn node(self) -> Node {
        let spy = Spy::default();
        let parts = Parts {
            identity: self.identity,
            rules: self.rules,
            trust: self.trust,
            store: self.store,
            log: self.log,
            resolver: self.resolver,
            peer_history: self.peer_history,
            clock: clock(),
            entropy: entropy(),
        };
        let home = Home::open(parts, spy.clone()).await.unwrap();
        Node { home, spy }
    }
}

/// A server, a client, and what is between them.
pub(crate) struct World<L: Link> {
    pub(crate) server: Server,
    pub(crate) server_home: Arc<Home>,
    pub(crate) client: Client<L::Couriers>,
    pub(crate) client_home: Arc<Home>,
    pub(crate) link: L,
    pub(crate) folder: tempfile::TempDir,
    logs: [Log; 2],
}

impl<L: Link> World<L> {
    pub(crate) async fn new() -> Self {
        Self::with(Rules::default(), |_| {}).await
    }

    pub(crate) async fn with(rules: Rules, change: impl FnOnce(&mut ServerSettings)) -> Self {
        let store = Store::new(Memory::new(Limits::default()));
        Self::on(rules, store, change).await
    }

    pub(crate) async fn on(
        rules: Rules,
        store: Store,
        change: impl FnOnce(&mut ServerSettings),
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let logs = ["server", "client"].map(|name| log(&folder.path().join(name)));
        let made = Made {
            rules,
            store,
            log: Some(logs[0].clone()),
            ..Made::of(SERVER)
        };
        let server_home = made.node().await.home;
        let mut settings = ServerSettings::new().unwrap();
        change(&mut settings);
        let server = Server::start(Arc::clone(&server_home), settings);
        let link = L::open(&server).await;
        let made = Made {
            log: Some(logs[1].clone()),
            ..Made::of(CLIENT)
        };
        let node = made.node().await;
        know(&node, &server);
        let settings = ClientSettings {
            carriers: link.carriers(),
            ..ClientSettings::default()
        };
        let client = Client::new(
            Arc::clone(&node.home),
            settings,
            link.couriers(),
            link.guard(),
        );
        Self {
            server,
            server_home,
            client,
            client_home: node.home,
            link,
            folder,
            logs,
        }
    }

    pub(crate) async fn call(&self, intent: serde_json::Value) -> Result<Answered, CallError> {
        let options = CallOptions::default();
        self.client
            .call(&did(SERVER), value(&intent), &options)
            .await
    }

    /// Puts on record what was only counted so far.
    pub(crate) fn close_logs(&self) {
        self.logs.iter().for_each(Log::close);
    }

    pub(crate) fn served(&self, event: &str) -> Vec<serde_json::Value> {
        let _ = self.logs[0].probe().wait();
        records(&self.folder.path().join("server"), event)
    }

    pub(crate) fn called(&self, event: &str) -> Vec<serde_json::Value> {
        let _ = self.logs[1].probe().wait();
        records(&self.folder.path().join("client"), event)
    }
}

/// Tells a node where the server's manifest is.
pub(crate) fn know(node: &Node, server: &Server) {
    let manifest = server.document("agent-manifest.json").unwrap();
    node.spy
        .publish(MANIFEST_URL, Fetched::Body(manifest.to_vec()));
    node.home.resolver().set_place(&did(SERVER), MANIFEST_URL);
}

/// Rules with a policy that states this.
pub(crate) fn limited(policy: &serde_json::Value) -> Rules {
    let tree = value(policy);
    let policy = policy::Policy::read(tree.as_object().unwrap(), policy::limits::PAYLOAD_CEILING);
    Rules {
        policy: policy.unwrap().complete().unwrap(),
        ..Rules::default()
    }
}

pub(crate) fn name(text: &str) -> IntentName {
    IntentName::parse(text).unwrap()
}

pub(crate) fn told(error: &CallError) -> &Told {
    let CallError::Refused(told) = error.last() else {
        panic!("{error}");
    };
    told
}

pub(crate) fn reason(error: &CallError) -> &'static str {
    told(error)
        .failure
        .reason
        .map_or("", |reason| reason.as_str())
}

/// How often a handler ran.
#[derive(Clone, Default)]
pub(crate) struct Runs(Arc<AtomicUsize>);

impl Runs {
    pub(crate) fn add(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

/// Work that goes on until it is let through.
pub(crate) struct Gate {
    begun: Arc<Semaphore>,
    is_open: CancellationToken,
}

impl Gate {
    pub(crate) fn register(server: &Server, intent: &str) -> Self {
        let gate = Self {
            begun: Arc::new(Semaphore::new(0)),
            is_open: CancellationToken::new(),
        };
        let (begun, is_open) = (Arc::clone(&gate.begun), gate.is_open.clone());
        server.register(name(intent), move |_: Call| {
            begun.add_permits(1);
            let is_open = is_open.clone();
            async move {
                is_open.cancelled().await;
                Ok(value(&json!({})))
            }
        });
        gate
    }

    /// Waits until so many more requests run.
    pub(crate) async fn running(&self, count: u32) {
        self.begun.acquire_many(count).await.unwrap().forget();
    }

    pub(crate) fn open(&self) {
        self.is_open.cancel();
    }
}

pub(crate) fn counting(server: &Server, intent: &str) -> Runs {
    let runs = Runs::default();
    let counted = runs.clone();
    server.register(name(intent), move |_: Call| {
        counted.add();
        let count = counted.count();
        async move { Ok(value(&json!({ "run": count }))) }
    });
    runs
}

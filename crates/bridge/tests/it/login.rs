//! Logins by DID: design §2, `auth_token` as a JWS of the agent's own key.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use a2a_identity::{Answer, Did, DidKey, Document, SigningKey, sign, sign_manifest};
use a2a_net::book::{Block, Book, Books};
use a2a_net::{Clock, Entropy, Fetcher, Fetching, Home, Parts, Rules};
use a2a_wire::{AuditPayload, Count, Digest, Kid, UnixSeconds};
use a2e_runtime::{Authenticator, BoxFuture, Identity, Login, Proven, Source};
use a2e_wire::messages::base::HandshakeReason;
use bridge::{DidLogin, MAX_AGE, Names, login_token};
use canonical::{Object, Value, base64url};
use policy::TrustLevel;
use serde_json::json;
use store::{Limits, Memory, Moment, Store, UnixMillis, Uptime};

const NOW: i64 = 1_770_000_000;

/// Knows one token.
struct Tokens;

impl Authenticator for Tokens {
    fn required(&self) -> bool {
        true
    }

    fn authenticate<'a>(
        &'a self,
        login: &'a Login,
        _: Source,
    ) -> BoxFuture<'a, Result<Identity, HandshakeReason<'static>>> {
        let known = login.auth_token == "plain";
        Box::pin(async move {
            match known {
                true => Ok(Identity::named("plain")),
                false => Err(HandshakeReason::AuthFailed),
            }
        })
    }
}

struct World {
    key: SigningKey,
    did: Did,
    host: Did,
    store: Store,
    books: Arc<Books>,
    wall: Arc<AtomicU64>,
}

impl World {
    fn new() -> Self {
        let key = SigningKey::from_seed(&[1; 32]);
        Self {
            did: Did::Key(DidKey::new(key.verifying_key())),
            key,
            host: of_seed(9),
            store: Store::new(Memory::new(Limits::default())),
            books: Arc::default(),
            wall: Arc::new(AtomicU64::new(u64::try_from(NOW).unwrap())),
        }
    }

    /// A host that knows Ada by her DID. Another process has the same store.
    fn host(&self) -> DidLogin<Tokens> {
        let names = Names::default();
        names.set([(self.did.clone(), "ada".to_owned())]);
        let (own, wall) = (self.host.to_text().unwrap(), Arc::clone(&self.wall));
        DidLogin::new(
            Tokens,
            own,
            names,
            Arc::clone(&self.books),
            self.store.clone(),
        )
        .with_clock(Clock::with_wall(move || {
            Duration::from_secs(wall.load(Ordering::Relaxed))
        }))
    }

    fn token(&self, nonce: u8) -> String {
        self.token_of(&self.did, &self.host, NOW, nonce)
    }

    fn token_of(&self, agent: &Did, host: &Did, at: i64, nonce: u8) -> String {
        let signer = (&kid(), &self.key);
        login_token(agent, host, UnixSeconds(at), &random(nonce), signer).unwrap()
    }
}

fn of_seed(seed: u8) -> Did {
    Did::Key(DidKey::new(
        SigningKey::from_seed(&[seed; 32]).verifying_key(),
    ))
}

/// Bytes that no two nonces share, and that are not all the same.
fn random(seed: u8) -> [u8; 32] {
    std::array::from_fn(|at| seed.wrapping_add(u8::try_from(at).unwrap()))
}

fn kid() -> Kid {
    "any".parse().unwrap()
}

async fn log_in(
    host: &DidLogin<Tokens>,
    token: &str,
) -> Result<Identity, HandshakeReason<'static>> {
    let login = Login {
        agent_id: "somebody".into(),
        auth_token: token.to_owned(),
        resume: None,
    };
    host.authenticate(&login, Source::Own).await
}

async fn is_refused(host: &DidLogin<Tokens>, token: &str) {
    let refused = log_in(host, token).await.unwrap_err();
    assert_eq!(refused, HandshakeReason::AuthFailed);
}

#[tokio::test]
async fn whoever_proves_the_did_of_an_agent_is_that_agent() {
    let world = World::new();
    let identity = log_in(&world.host(), &world.token(1)).await.unwrap();
    assert_eq!(identity.agent, "ada", "what it calls itself is a label");
    let proven = Proven {
        did: world.did.to_string(),
        trust: TrustLevel::Own,
    };
    assert_eq!(identity.proven, Some(proven));
}

#[tokio::test]
async fn tokens_are_somebody_elses_business() {
    let host = World::new().host();
    assert_eq!(log_in(&host, "plain").await, Ok(Identity::named("plain")));
    is_refused(&host, "plain.x").await;
    assert!(host.required());
}

/// Single use, after a restart too: the second host is another process with the same store.
#[tokio::test]
async fn a_credential_is_good_once() {
    let world = World::new();
    let (first, second) = (world.host(), world.host());
    let token = world.token(1);
    assert!(log_in(&first, &token).await.is_ok());
    is_refused(&first, &token).await;
    is_refused(&second, &token).await;
    assert!(log_in(&first, &world.token(2)).await.is_ok());
}

/// Its nonce is not forgotten while the clock is ahead, by however much.
#[tokio::test]
async fn a_credential_is_good_once_although_the_clock_is_set_back() {
    let world = World::new();
    let (host, token) = (world.host(), world.token(1));
    for ahead in [3600, 100 * 86_400] {
        let _ = log_in(&host, &token).await;
        world.wall.fetch_add(ahead, Ordering::Relaxed);
        let now = i64::try_from(world.wall.load(Ordering::Relaxed)).unwrap();
        let moment = Moment {
            unix: UnixMillis(now * 1000),
            uptime: Uptime::default(),
        };
        world.store.sweep(moment).wait().unwrap();
        let later = world.token_of(&world.did, &world.host, now, 2);
        log_in(&host, &later).await.ok();
        world.wall.fetch_sub(ahead, Ordering::Relaxed);
        is_refused(&host, &token).await;
        is_refused(&world.host(), &token).await;
    }
}

#[tokio::test]
async fn of_many_at_once_one_comes_in() {
    let world = World::new();
    let (host, token) = (Arc::new(world.host()), world.token(1));
    let tries = (0..16).map(|_| {
        let (host, token) = (Arc::clone(&host), token.clone());
        tokio::spawn(async move { log_in(&host, &token).await.is_ok() })
    });
    let mut came_in = 0;
    for one in tries.collect::<Vec<_>>() {
        came_in += usize::from(one.await.unwrap());
    }
    assert_eq!(came_in, 1);
}

#[tokio::test]
async fn a_credential_for_another_host_is_none() {
    let world = World::new();
    let token = world.token_of(&world.did, &of_seed(8), NOW, 1);
    is_refused(&world.host(), &token).await;
}

/// At the limit and one past it, in both directions.
#[tokio::test]
async fn a_credential_is_good_for_a_minute() {
    let world = World::new();
    let host = world.host();
    for (age, is_good) in [
        (MAX_AGE, true),
        (MAX_AGE + 1, false),
        (-MAX_AGE, true),
        (-MAX_AGE - 1, false),
    ] {
        let nonce = u8::try_from(age.rem_euclid(256)).unwrap();
        let token = world.token_of(&world.did, &world.host, NOW - age, nonce);
        assert_eq!(log_in(&host, &token).await.is_ok(), is_good, "{age}");
    }
    // What was good is refused later, whether it is remembered or not.
    let token = world.token(77);
    world.wall.fetch_add(61, Ordering::Relaxed);
    is_refused(&host, &token).await;
}

/// A signature that was made for another place is no login, and a login is none there.
#[tokio::test]
async fn a_signature_of_another_kind_is_no_credential() {
    let world = World::new();
    let checkpoint = AuditPayload {
        issuer: world.did.to_text().unwrap(),
        timestamp: UnixSeconds(NOW),
        log_id: "log-1".parse().unwrap(),
        seq: Count::new(3).unwrap(),
        head_hash: Digest::of(b"x"),
    };
    is_refused(&world.host(), &sign(&checkpoint, &kid(), &world.key)).await;
}

#[tokio::test]
async fn nobody_else_comes_in() {
    let world = World::new();
    let host = world.host();
    // A stranger who proves to be himself, and one who says to be Ada.
    let stranger = SigningKey::from_seed(&[2; 32]);
    for agent in [of_seed(2), world.did.clone()] {
        let signer = (&kid(), &stranger);
        let token = login_token(&agent, &world.host, UnixSeconds(NOW), &random(1), signer);
        is_refused(&host, &token.unwrap()).await;
    }
    // Every letter counts.
    let token = world.token(1);
    for at in [0, 40, token.len() / 2, token.len() - 2] {
        let mut changed = token.clone().into_bytes();
        changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
        is_refused(&host, &String::from_utf8(changed).unwrap()).await;
    }
    is_refused(&host, "..").await;
    is_refused(
        &host,
        &format!("{}.{}.x", "a".repeat(3000), "b".repeat(3000)),
    )
    .await;
    assert!(
        log_in(&host, &token).await.is_ok(),
        "and it was not used up"
    );
}

#[tokio::test]
async fn a_blocked_agent_does_not_come_in() {
    let world = World::new();
    let host = world.host();
    let mut book = Book::default();
    book.block(&world.did, Block::default()).unwrap();
    world.books.store(book);
    is_refused(&host, &world.token(1)).await;
    world.books.store(Book::default());
    assert!(log_in(&host, &world.token(1)).await.is_ok());
}

/// Who cannot be looked up is not refused for good.
#[tokio::test]
async fn a_did_that_nobody_can_look_up_is_an_error_of_the_host() {
    let world = World::new();
    let web: Did = "did:web:ada.example.com".parse().unwrap();
    let names = Names::default();
    names.set([(web.clone(), "ada".to_owned())]);
    let own = world.host.to_text().unwrap();
    let host = DidLogin::new(
        Tokens,
        own,
        names,
        Arc::clone(&world.books),
        world.store.clone(),
    )
    .with_clock(Clock::with_wall(|| Duration::from_secs(NOW.unsigned_abs())));
    let token = world.token_of(&web, &world.host, NOW, 1);
    let refused = log_in(&host, &token).await.unwrap_err();
    assert_eq!(refused, HandshakeReason::ServerError);
}

/// The host of did:web:ada.example.com: a document with two keys, and a manifest that says more of them.
struct Web {
    manifest: Object<'static>,
}

const WEB: &str = "did:web:ada.example.com";

/// What is said of the agent whose keys are of these seeds, signed by the first.
fn manifest(did: &Did, keys: serde_json::Value, seed: u8) -> Object<'static> {
    let draft = json!({
        "manifest_version": "1.0", "agent_did": did.to_string(), "agent_id": "ada", "public_keys": keys,
        "endpoints": [{"type": "handshake", "url": "https://ada.example.com/a2a/handshake"}],
    });
    let text = draft.to_string();
    let tree = Value::parse(text.as_bytes()).unwrap().into_owned();
    let mut tree = tree.as_object().unwrap().clone();
    let (kid, key) = (
        format!("k{seed}").parse().unwrap(),
        SigningKey::from_seed(&[seed; 32]),
    );
    sign_manifest(&mut tree, &kid, &key, UnixSeconds(NOW - 100)).unwrap();
    tree
}

fn jwk(seed: u8, status: &str) -> serde_json::Value {
    let bytes = SigningKey::from_seed(&[seed; 32])
        .verifying_key()
        .to_bytes();
    json!({"kid": format!("k{seed}"), "kty": "EC", "key": base64url::encode(&bytes), "status": status})
}

impl Fetcher for Web {
    fn fetch<'a>(&'a self, url: &'a str, _: Document) -> Fetching<'a> {
        let answer = match url.strip_prefix("https://ada.example.com/.well-known/") {
            Some("did.json") => {
                let keys = json!([jwk(1, "active"), jwk(2, "active")]);
                let document = json!({"agent_did": WEB, "public_keys": keys, "endpoints": []});
                Answer::Body(document.to_string().into_bytes())
            }
            Some("agent-manifest.json") => {
                Answer::Body(Value::Object(self.manifest.clone()).to_canonical())
            }
            _ => Answer::Status(404),
        };
        Box::pin(std::future::ready(answer))
    }
}

/// Profile §3: a revoked key verifies nothing, whatever the document of the DID still lists.
#[tokio::test]
async fn a_key_that_the_manifest_revokes_does_not_log_in() {
    let world = World::new();
    let web: Did = WEB.parse().unwrap();
    let names = Names::default();
    names.set([(web.clone(), "ada".to_owned())]);
    for (status, comes_in) in [("active", true), ("revoked", false), ("deprecated", true)] {
        let clock = Clock::with_wall(|| Duration::from_secs(NOW.unsigned_abs()));
        let own = manifest(&of_seed(9), json!([jwk(9, "active")]), 9);
        let key = SigningKey::from_seed(&[9; 32]);
        let parts = Parts {
            identity: a2a_net::Identity::new(own, "k9".parse().unwrap(), key).unwrap(),
            rules: Rules::default(),
            trust: Default::default(),
            store: world.store.clone(),
            log: None,
            resolver: a2a_net::ResolverLimits::default(),
            peer_history: a2a_net::peer_history::LIMITS,
            clock: clock.clone(),
            entropy: Entropy::system(),
        };
        let said = manifest(&web, json!([jwk(1, "active"), jwk(2, status)]), 1);
        let home = Home::open(parts, Web { manifest: said }).await.unwrap();
        let (own, books) = (world.host.to_text().unwrap(), Arc::clone(&world.books));
        let store = Store::new(Memory::new(Limits::default()));
        let host = DidLogin::new(Tokens, own, names.clone(), books, store).with_clock(clock);
        host.resolve_with(home.resolver().clone());
        for (seed, expected) in [(1, true), (2, comes_in)] {
            let key = SigningKey::from_seed(&[seed; 32]);
            let signer = (&format!("k{seed}").parse().unwrap(), &key);
            let token = login_token(&web, &world.host, UnixSeconds(NOW), &random(seed), signer);
            let outcome = log_in(&host, &token.unwrap()).await;
            assert_eq!(outcome.is_ok(), expected, "{seed} {status}: {outcome:?}");
        }
    }
}

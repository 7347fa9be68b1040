//! DIDs as A2E identities: `auth_token` as a short-lived signature of the agent's own key.

use std::sync::{Arc, OnceLock};

use a2a_identity::{Did, KeySet, Peer, RootKeys, Signed, SigningKey, Want, sign};
use a2a_net::book::Books;
use a2a_net::{Clock, Freshness, Resolver};
use a2a_wire::{DidText, Kid, LoginPayload, Nonce, UnixSeconds};
use a2e_runtime::{Authenticator, BoxFuture, Identity, Login, Source};
use a2e_wire::messages::base::HandshakeReason;
use policy::TrustLevel;
use store::{AgentId, Store, UnixMillis, Use};

use crate::names::Names;

/// Seconds that a credential may be old, and that the clocks of both sides may differ.
pub const MAX_AGE: i64 = 60;

/// Bytes of a credential: a few hundred are usual.
const MAX_TOKEN: usize = 4096;

/// Lets in whoever proves a DID that the operator gave to an agent; asks another authenticator about
/// all other credentials.
#[derive(Debug)]
pub struct DidLogin<A> {
    others: A,
    /// The node itself: a credential for another is none for this one.
    own: DidText,
    names: Names,
    books: Arc<Books>,
    store: Store,
    clock: Clock,
    /// Who knows the keys of DIDs that are no keys; none on a node without A2A.
    resolver: OnceLock<Resolver>,
}

/// Why a credential cannot be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the DID of the agent or of the host is too long to be signed")]
pub struct NotSigned;

/// A credential of an agent for a host: good once, and for a minute.
///
/// # Errors
/// If one of the names cannot be written.
pub fn login_token(
    agent: &Did,
    host: &Did,
    now: UnixSeconds,
    nonce: &[u8; 32],
    (kid, key): (&Kid, &SigningKey),
) -> Result<String, NotSigned> {
    let payload = LoginPayload {
        issuer: agent.to_text().ok_or(NotSigned)?,
        audience: host.to_text().ok_or(NotSigned)?,
        timestamp: now,
        nonce: Nonce::of(nonce),
    };
    Ok(sign(&payload, kid, key))
}

/// Why nobody is let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Refused {
    /// It is no credential for this host.
    Credential(&'static str),
    /// Nobody knows at the moment whether it is one.
    Unknown(&'static str),
}

impl<A: Authenticator> DidLogin<A> {
    /// Of a node with this DID. What was used is remembered in the store.
    #[must_use]
    pub fn new(others: A, own: DidText, names: Names, books: Arc<Books>, store: Store) -> Self {
        Self {
            others,
            own,
            names,
            books,
            store,
            clock: Clock::system(),
            resolver: OnceLock::new(),
        }
    }

    /// The same with another clock.
    #[must_use]
    pub fn with_clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Asks this resolver for the keys of did:web and did:github from now on.
    pub fn resolve_with(&self, resolver: Resolver) {
        // A node has one for all its life.
        let _ = self.resolver.set(resolver);
    }

    async fn check(&self, token: &str) -> Result<Identity, Refused> {
        let (form, now) = (
            Refused::Credential("it is malformed"),
            self.clock.now().unix,
        );
        let signed: Signed<LoginPayload> =
            Signed::parse_within(token, Peer::Profile, MAX_TOKEN).map_err(|_| form)?;
        // Who it may be; nothing of it is believed before the signature is.
        let claimed = signed.read_unverified().map_err(|_| form)?;
        let did = Did::parse(claimed.issuer.as_str(), Peer::Profile).map_err(|_| form)?;
        let text = did.to_string();
        // Nothing is fetched for whoever has no business here.
        let agent = self.names.agent(&text);
        let agent = agent.ok_or(Refused::Credential("no agent has this DID"))?;
        if self.books.pages().is_blocked(&did) {
            return Err(Refused::Credential("the agent is blocked"));
        }
        let keys = self.keys(&did, signed.kid()).await?;
        let verified = signed.verify(&keys, now);
        let payload = verified
            .map_err(|_| Refused::Credential("the signature is not the agent's"))?
            .into_payload();
        if payload.audience != self.own {
            return Err(Refused::Credential("it is for another host"));
        }
        let age = now.0.saturating_sub(payload.timestamp.0);
        if !(-MAX_AGE..=MAX_AGE).contains(&age) {
            return Err(Refused::Credential("it is too old, or the clocks differ"));
        }
        self.use_once(&text, &payload, now).await?;
        Ok(Identity::proven(agent, text, TrustLevel::Own))
    }

    /// The keys that sign for a DID.
    async fn keys(&self, did: &Did, kid: Option<&Kid>) -> Result<KeySet, Refused> {
        let (root, manifest) = match did {
            // The name is the key, whatever it is called.
            Did::Key(key) => (RootKeys::DidKey(key.key().clone()), None),
            Did::Web(_) | Did::Github(_) => {
                let resolver = self.resolver.get();
                let resolver = resolver.ok_or(Refused::Unknown("nobody looks up DIDs here"))?;
                let facts = resolver.facts(did, Want::Manifest, Freshness::Any).await;
                let facts = facts.map_err(|_| Refused::Unknown("the DID cannot be looked up"))?;
                (facts.root, facts.manifest)
            }
        };
        let keys = root.agent_keys(kid, manifest.as_deref());
        keys.ok_or(Refused::Credential("none of its keys is known"))
    }

    /// Of several that come with the same credential one is the first, after a restart too.
    async fn use_once(
        &self,
        did: &str,
        payload: &LoginPayload,
        now: UnixSeconds,
    ) -> Result<(), Refused> {
        let unkept = Refused::Unknown("it cannot be kept that it was used");
        // Beside what belongs to an agent of that name.
        let owner = AgentId::new(&format!("login:{did}")).map_err(|_| unkept)?;
        let millis = |seconds: i64| UnixMillis(seconds.saturating_mul(1000));
        let expires = payload
            .timestamp
            .0
            .saturating_add(MAX_AGE)
            .saturating_add(1);
        let ids = self.store.for_agent(&owner).replay_ids();
        let used = ids.use_once(millis(now.0), payload.nonce.as_str(), millis(expires));
        match used.await.map_err(|_| unkept)? {
            Use::First => Ok(()),
            Use::Again => Err(Refused::Credential("it was used before")),
        }
    }
}

impl<A: Authenticator> Authenticator for DidLogin<A> {
    fn required(&self) -> bool {
        self.others.required()
    }

    fn authenticate<'a>(
        &'a self,
        login: &'a Login,
        source: Source,
    ) -> BoxFuture<'a, Result<Identity, HandshakeReason<'static>>> {
        if !is_jws(&login.auth_token) {
            return self.others.authenticate(login, source);
        }
        Box::pin(async move {
            self.check(&login.auth_token).await.map_err(|refused| {
                let (why, reason) = match refused {
                    Refused::Credential(why) => (why, HandshakeReason::AuthFailed),
                    Refused::Unknown(why) => (why, HandshakeReason::ServerError),
                };
                tracing::info!(why, "a login by DID is refused");
                reason
            })
        })
    }

    fn recognise(&self, login: &Login) -> Option<Identity> {
        self.others.recognise(login)
    }
}

/// Tokens have no dots; a JWS has two.
fn is_jws(token: &str) -> bool {
    token.len() <= MAX_TOKEN && token.bytes().filter(|byte| *byte == b'.').count() == 2
}

//! Handshakes at the client, and finding out whom with.

use std::sync::Arc;

use a2a_identity::{Did, Want, WebUrl};
use a2a_session::{
    Aborted, ClientConfig, ClientSession, Directory as _, Established, ExpectChallenge,
    ExpectPolicy, Failure, Found, Freshness, Need, Own, ServerStep, ShowManifest,
};
use a2a_wire::{ErrorCode, Reason};
use audit::Event;
use bytes::Bytes;
use canonical::{Object, Value};
use policy::{Encryption, Policy};
use tokio::time::{Instant, timeout_at};

use super::error::{CallError, Told};
use super::pool::Held;
use super::route::Chosen;
use super::{Couriers, Encrypt, Inner, Route, SessionView};
use crate::resolve::Asker;
use crate::standing::lock;
use crate::transport::{Carrier, CarryError, Courier, Place, Reply};

/// A message of a handshake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// By whom.
    pub by: Speaker,
    /// What.
    pub message: Bytes,
}

/// The two sides of a handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Speaker {
    /// This node.
    Client,
    /// The other.
    Server,
}

/// A handshake, message by message, and what it came to.
#[derive(Debug, Clone, PartialEq)]
pub struct Introduction {
    /// How the server was reached.
    pub route: Route,
    /// The messages.
    pub said: Vec<Said>,
    /// What was agreed on.
    pub session: SessionView,
    /// The policy.
    pub policy: Policy,
}

/// One handshake on its way.
struct Shaking<'a, C: Couriers> {
    client: &'a Inner<C>,
    courier: &'a C::Courier,
    /// The transport's word on the last answer, which proves nothing.
    status: u16,
    retry_after: Option<u64>,
    said: Vec<Said>,
}

impl<C: Couriers> Inner<C> {
    /// Finds out where a server is, and shakes hands.
    pub(super) async fn shake(
        &self,
        did: &Did,
        encrypt: Encrypt,
    ) -> Result<Held<C::Courier>, CallError> {
        let mut said = Vec::new();
        self.shake_with(did, None, encrypt, &mut said)
            .await
            .map(|(held, _)| held)
    }

    pub(super) async fn introduce(
        &self,
        did: &Did,
        at: Option<&str>,
        encrypt: Encrypt,
    ) -> Result<Introduction, (Vec<Said>, CallError)> {
        let mut said = Vec::new();
        if let Err(error) = self.check_blocked(did) {
            return Err((said, error));
        }
        let (held, route) = match self.shake_with(did, at, encrypt, &mut said).await {
            Ok(shaken) => shaken,
            Err(error) => return Err((said, error)),
        };
        let policy = lock(&held.session).established().policy().policy().clone();
        self.close(&held).await;
        Ok(Introduction {
            route,
            said,
            session: held.view.clone(),
            policy,
        })
    }

    async fn shake_with(
        &self,
        did: &Did,
        at: Option<&str>,
        encrypt: Encrypt,
        said: &mut Vec<Said>,
    ) -> Result<(Held<C::Courier>, Route), CallError> {
        let mut route = self.route(did, at).await?;
        let mut courier = self.couriers.courier(&route)?;
        let began = Instant::now();
        let mut show = self.settings.show_manifest;
        let mut is_second = false;
        let established = loop {
            let own = self.home.own();
            let config = self.config(did, &route, encrypt, show)?;
            let mut shaking = Shaking {
                client: self,
                courier: &courier,
                status: 0,
                retry_after: None,
                said: Vec::new(),
            };
            let outcome = shaking.run(Arc::new(config)).await;
            said.append(&mut shaking.said);
            match outcome {
                Ok(established) => break established,
                // Once more, with the manifest that the server asks for.
                Err(CallError::Refused(told))
                    if told.failure.reason == Some(Reason::ManifestRequired)
                        && show == ShowManifest::ByHash =>
                {
                    show = ShowManifest::Inline;
                }
                // Both are meant by an `http` endpoint, and only connecting tells which it is.
                Err(CallError::Carry(CarryError::NotSpoken(_)))
                    if route.carrier == Carrier::Http2
                        && self.settings.carriers.contains(&Carrier::Http1) =>
                {
                    route.carrier = Carrier::Http1;
                    courier = self.couriers.courier(&route)?;
                }
                // Once more, if a manifest may have been replaced between the message that names it and
                // the look at where it is published.
                Err(error) if !is_second && self.is_outdated(&error, &own) => is_second = true,
                Err(error) => {
                    let failure = error.to_failure();
                    let recorder = &self.home.recorder;
                    recorder.not_established(did, &failure, Some(route.carrier));
                    return Err(error);
                }
            }
        };
        self.accept(&established, &route, began).await?;
        let now = self.home.clock.now();
        let session = ClientSession::new(now, *established);
        let held = Held::new(now, session, courier, &route);
        Ok((held, route))
    }

    /// Whether a handshake has failed over a manifest that its owner may have replaced meanwhile: the
    /// server's, or our own.
    fn is_outdated(&self, error: &CallError, own: &Arc<Own>) -> bool {
        let (failure, is_replaced) = if let CallError::Handshake(failure) = error {
            (failure, true)
        } else if let CallError::Refused(refusal) = error {
            (&refusal.failure, !Arc::ptr_eq(own, &self.home.own()))
        } else {
            return false;
        };
        is_replaced && failure.reason == Some(Reason::ManifestInvalid)
    }

    /// Remembers the server, and puts the handshake on record.
    async fn accept(
        &self,
        established: &Established<Policy>,
        route: &Route,
        began: Instant,
    ) -> Result<(), CallError> {
        let home = &self.home;
        let (peer, binding) = (established.peer(), established.binding());
        let holder = established.holder();
        let remembered = home.standing.remember(peer, holder, binding).await;
        remembered.map_err(CallError::NotKept)?;
        let took = (route.carrier, Some(began.elapsed()));
        let event = Event::HandshakeSent;
        let written = home.recorder.established(event, established, None, took);
        let written = written.map_err(CallError::Audit)?;
        written.settled().await.map_err(CallError::Audit)
    }

    /// The way to a server: of its verified manifest, or as the operator says.
    async fn route(&self, did: &Did, at: Option<&str>) -> Result<Route, CallError> {
        let carriers = &self.settings.carriers;
        let given = at.map(str::to_owned);
        let given = given.or_else(|| lock(&self.addresses).get(&did.to_string()).cloned());
        let chosen = match given {
            Some(url) => Chosen::of_url(&url, carriers),
            None => {
                let resolver = &self.home.resolver;
                let facts = resolver.facts(did, Want::Manifest, Freshness::Any).await;
                let facts = facts.map_err(|error| CallError::unresolved(did, error))?;
                let endpoints = match &facts.manifest {
                    Some(manifest) => &manifest.manifest().endpoints,
                    None => &facts.endpoints,
                };
                Chosen::of_endpoints(endpoints, carriers)
            }
        };
        let chosen = chosen.ok_or_else(|| CallError::NoAddress {
            did: did.to_string(),
        })?;
        let refused = |source| CallError::NotReachable {
            url: chosen.handshake.clone(),
            source,
        };
        let url = WebUrl::parse(&chosen.handshake);
        let url = url.map_err(|_| refused(crate::resolve::NotReachable::Forbidden))?;
        let address = self.guard.address(&url).await.map_err(refused)?;
        Ok(chosen.at(address))
    }

    fn config(
        &self,
        did: &Did,
        route: &Route,
        encrypt: Encrypt,
        show: ShowManifest,
    ) -> Result<ClientConfig, CallError> {
        let settings = &self.settings;
        let config = ClientConfig::new(did.clone(), route.handshake.clone());
        let wrong = |error: a2a_wire::WrongForm| {
            let failure = Failure::new(ErrorCode::InternalError, error.to_string());
            CallError::Handshake(failure)
        };
        let mut config = config.map_err(wrong)?;
        config.user_agent.clone_from(&settings.user_agent);
        config.trust = self.home.trust();
        config.demands = settings.demands.clone();
        config.policy_request.clone_from(&settings.policy_request);
        config.sealing = settings.sealing;
        config.show_manifest = show;
        config.baseline = self.home.standing.baseline(did);
        if encrypt == Encrypt::Required {
            config.demands.encryption = Encryption::Needed;
            config.policy_request = encrypted(config.policy_request.as_ref());
        }
        Ok(config)
    }
}

impl<C: Couriers> Shaking<'_, C> {
    async fn run(
        &mut self,
        config: Arc<ClientConfig>,
    ) -> Result<Box<Established<Policy>>, CallError> {
        let home = &self.client.home;
        let now = home.clock.now();
        let mut random = home.entropy.clone();
        let (server, url) = (config.server.clone(), config.url.clone());
        let (mut state, hello) = ExpectChallenge::begin(home.own(), config, now, &mut random)?;
        state.sent(now);
        let challenge = self.exchange(hello, state.deadline()).await?;
        let now = home.clock.now();
        let step = state.handle_message(now, &challenge, &*home.standing);
        let (mut state, proof) = self.find_out(step, &url).await?;
        home.standing
            .remember_nonce(&server, state.nonce_b().as_str());
        state.sent(home.clock.now());
        let policy = self.exchange(proof, state.deadline()).await?;
        let (mut state, accept) = match state.handle_message(home.clock.now(), &policy) {
            Ok(next) => next,
            Err(aborted) => return Err(self.aborted(aborted).await),
        };
        state.sent(home.clock.now());
        let session = self.exchange(accept, state.deadline()).await?;
        match state.handle_message(home.clock.now(), &session) {
            Ok(established) => Ok(established),
            Err(aborted) => Err(self.aborted(aborted).await),
        }
    }

    /// Finds out who the server is, before anything is signed for it.
    async fn find_out(
        &mut self,
        mut step: Result<ServerStep, Aborted>,
        url: &str,
    ) -> Result<(Box<ExpectPolicy>, Vec<u8>), CallError> {
        let home = &self.client.home;
        loop {
            let check = match step {
                Ok(ServerStep::Proven { next, message }) => return Ok((next, message)),
                Ok(ServerStep::Resolve(check)) => check,
                Err(aborted) => return Err(self.aborted(aborted).await),
            };
            let nobody = Need::Issuers(Vec::new());
            let need = check.need().unwrap_or(&nobody);
            let found = home.resolver.find(need, Asker::Node(Some(url)));
            let found = timeout_at(home.clock.at(check.deadline()), found).await;
            let found = found.unwrap_or_else(|_| Found::Issuers([].into()));
            step = check.handle_found(home.clock.now(), found);
        }
    }

    /// Sends a message and waits for the next one.
    async fn exchange(
        &mut self,
        message: Vec<u8>,
        deadline: std::time::Duration,
    ) -> Result<Bytes, CallError> {
        let message = Bytes::from(message);
        self.said.push(Said {
            by: Speaker::Client,
            message: message.clone(),
        });
        let deadline = self.client.home.clock.at(deadline);
        let sending = self.courier.send(Place::Handshake, None, message);
        let reply = match timeout_at(deadline, sending).await {
            Ok(reply) => reply?,
            Err(_) => return Err(CallError::Handshake(Aborted::timed_out().failure)),
        };
        let Reply::Message {
            message,
            status,
            retry_after,
        } = reply
        else {
            let failure = Failure::new(ErrorCode::HandshakeFailed, "the server did not answer");
            let failure = failure.because(Reason::UnexpectedMessage);
            return Err(CallError::Handshake(failure));
        };
        (self.status, self.retry_after) = (status, retry_after);
        if let Some(told) = Told::by_proxy(&message, status, retry_after) {
            return Err(CallError::Refused(told));
        }
        self.said.push(Said {
            by: Speaker::Server,
            message: message.clone(),
        });
        Ok(message)
    }

    /// The end of a handshake; the server is told, if it is to be.
    async fn aborted(&mut self, aborted: Aborted) -> CallError {
        let (status, retry_after) = (self.status, self.retry_after);
        if let Some(message) = aborted.message {
            let deadline = a2a_session::times::SEND_ACCEPT;
            let deadline = self
                .client
                .home
                .clock
                .now()
                .monotonic
                .saturating_add(deadline);
            // Best effort; what it says to that changes nothing.
            let _ = self.exchange(message, deadline).await;
        }
        match aborted.by_server {
            true => CallError::Refused(Told {
                failure: aborted.failure,
                signed: false,
                is_proxy: false,
                status,
                retry_after,
            }),
            false => CallError::Handshake(aborted.failure),
        }
    }
}

/// The same wish, and that messages are encrypted.
fn encrypted(wish: Option<&Policy>) -> Option<Policy> {
    let mut tree = wish.map_or_else(Object::default, Policy::to_tree);
    tree.insert("require_encryption", Value::Bool(true));
    Policy::read(&tree, policy::limits::PAYLOAD_CEILING).ok()
}

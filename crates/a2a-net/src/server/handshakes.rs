//! Handshakes at the server: messages in, and whoever must be asked in between.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use a2a_identity::ResolveError;
use a2a_session::{
    Arriving, Binding, Claim, EndReason, Established, Failure, Found, Holder, Need, Now, Proving,
    Refused, Reply, ServerSession, SessionSlot, Source,
};
use a2a_wire::Phase;
use audit::Event;
use bytes::Bytes;
use policy::EffectivePolicy;
use tokio::time::timeout_at;

use super::handler::PeerView;
use super::live::{Inside, Live};
use super::{Inner, retry_after};
use crate::metrics::add;
use crate::record::Way;
use crate::resolve::Asker;
use crate::standing::lock;
use crate::transport::{Answer, Arrived};

impl Inner {
    /// Takes a message of a handshake.
    pub(super) async fn handshake(self: &Arc<Self>, arrived: &Arrived) -> Answer {
        let way = Way {
            carrier: arrived.carrier,
            source: arrived.source.ip(),
        };
        if self.stopping.is_cancelled() {
            return self.unsigned(&Failure::unavailable("the node is stopping"));
        }
        let mut reply = self.begin(arrived);
        loop {
            match reply {
                Ok(Reply::Send(message)) => return Answer::Message(Bytes::from(message)),
                Ok(Reply::Resolve(proving)) => {
                    reply = self.find_out(proving, arrived.source.ip().into()).await;
                }
                Ok(Reply::Established {
                    session,
                    message,
                    evicted,
                }) => {
                    if let Some(live) = evicted.and_then(|id| self.sessions.get(id.as_str())) {
                        self.end(&live, EndReason::Evicted);
                    }
                    return self.established(session, message, way).await;
                }
                Ok(Reply::GivenUp(code)) => {
                    let failure = Failure::new(code, "the client gave the handshake up");
                    self.home.recorder.reject(Some(way.source), None, &failure);
                    return Answer::Nothing;
                }
                Err(refused) => return self.refused(&refused, way),
            }
        }
    }

    fn begin(&self, arrived: &Arrived) -> Result<Reply, Box<Refused>> {
        let now = self.home.clock.now();
        let source = Source::from(arrived.source.ip());
        let mut random = self.home.entropy.clone();
        let arriving = Arriving::read(&arrived.message, &mut random)?;
        let claim = {
            let mut handshakes = lock(&self.handshakes);
            let claim = handshakes.claim(now, source, &arriving);
            self.record_lapsed(&mut handshakes);
            claim?
        };
        self.work_on(now, claim)
    }

    /// Records the handshakes that ended without a message.
    pub(super) fn record_lapsed(&self, handshakes: &mut a2a_session::Server) {
        for lapsed in handshakes.take_lapsed() {
            self.home.recorder.lapsed(&lapsed);
        }
    }

    /// Finds out who a client is, within the time its handshake has.
    async fn find_out(&self, proving: Box<Proving>, source: Source) -> Result<Reply, Box<Refused>> {
        let deadline = self.home.clock.at(proving.deadline());
        let found = self
            .home
            .resolver
            .find(proving.need(), Asker::Peer(Holder::Source(source)));
        let found = match timeout_at(deadline, found).await {
            Ok(found) => found,
            Err(_) => nothing(proving.need()),
        };
        let now = self.home.clock.now();
        let claim = lock(&self.handshakes).resume(now, proving, found);
        self.work_on(now, claim)
    }

    /// Works on what a message has claimed. No lock is held while signatures are verified and made.
    fn work_on(&self, now: Now, claim: Claim<'_>) -> Result<Reply, Box<Refused>> {
        let mut random = self.home.entropy.clone();
        let worked = claim.work(now, &*self.home.standing, &mut random);
        let mut handshakes = lock(&self.handshakes);
        let settled = handshakes.settle(self.home.clock.now(), worked);
        self.record_lapsed(&mut handshakes);
        settled
    }

    fn refused(&self, refused: &Refused, way: Way) -> Answer {
        self.home.recorder.refused(refused, way);
        let failure = &refused.failure;
        Answer::Error {
            code: match refused.binding {
                Binding::Profile => failure.code.clone(),
                Binding::Baseline => failure.code.for_baseline(Phase::Handshake),
            },
            message: Bytes::copy_from_slice(&refused.message),
            retry_after: retry_after(failure, self.home.clock.now().unix),
        }
    }

    async fn established(
        self: &Arc<Self>,
        session: Box<Established<EffectivePolicy>>,
        message: Vec<u8>,
        way: Way,
    ) -> Answer {
        // Given back if the client disconnects here.
        let slot = session.slot();
        let mut reserved = Reserved {
            handshakes: &self.handshakes,
            slot: Some(slot.clone()),
        };
        let home = &self.home;
        let remembered = home
            .standing
            .remember(session.peer(), session.holder(), session.binding())
            .await;
        if let Err(failure) = remembered {
            home.recorder.refused_at_the_end(&session, &failure, way);
            return self.unsigned(&failure);
        }
        let event = Event::Handshake;
        let written = home
            .recorder
            .established(event, &session, Some(way), (way.carrier, None));
        let written = match written {
            Ok(written) => written.settled().await,
            Err(error) => Err(error),
        };
        if let Err(error) = written {
            return self.unsigned(&Failure::unavailable(error.to_string()));
        }
        self.keys_changed(session.peer().did_text().as_str(), session.peer().keys());
        let live = Live {
            slot,
            peer: PeerView {
                did: session.peer().did_text().to_string(),
                trust_level: session.peer().trust_level(),
                binding: session.binding(),
                encrypted: session.is_encrypted(),
            },
            inside: Mutex::new(Inside::new(ServerSession::new(
                home.clock.now(),
                *session,
                self.settings.session,
            ))),
        };
        let live = Arc::new(live);
        self.sessions.insert(Arc::clone(&live));
        add(&home.metrics.sessions_opened, 1);
        if let Some(slot) = reserved.slot.take() {
            lock(&self.handshakes).set_session_in_use(&slot, false);
        }
        lock(&self.refreshes).watch(&live.peer.did, home.clock.now().monotonic);
        self.hold_new(&live);
        Answer::Message(Bytes::from(message))
    }
}

/// The place that a session takes, given back unless it comes to be.
struct Reserved<'a> {
    handshakes: &'a Mutex<a2a_session::Server>,
    slot: Option<SessionSlot>,
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        if let Some(slot) = &self.slot {
            lock(self.handshakes).session_ended(slot);
        }
    }
}

/// What was found out in time: nothing.
fn nothing(need: &Need) -> Found {
    match need {
        Need::Peer { did, .. } => Found::Peer(Err(ResolveError::Unavailable(did.to_string()))),
        Need::Issuers(_) => Found::Issuers(BTreeMap::new()),
    }
}

//! Whether a message is the peer's, and for this session alone (§10.1, §10.3 steps 1a to 3).

use a2a_identity::{Did, JwsError, KeySet, Signed, Verified};
use a2a_wire::{
    ControlPayload, Count, DidText, Digest, ErrorCode, Kid, Payload, Reason, Received, RequestId,
    RequestPayload, SessionId, UnixSeconds, Unparsed, limits,
};
use canonical::{Object, Value};
use policy::EffectivePolicy;

use super::incoming::{Ask, Incoming};
use crate::config::Baseline;
use crate::failure::{Binding, Failure, bad_field, replayed, unverified};
use crate::handshake::payloads::is_did;
use crate::{Established, Now};

/// A message that the session's peer has signed, for this session, with a counter it says is fresh.
#[derive(Debug)]
pub(crate) struct Checked {
    pub(crate) asked: Asked,
    pub(crate) request_id: RequestId,
    pub(crate) request_hash: Digest,
    /// Only a baseline peer has none.
    pub(crate) seq: Option<u64>,
    pub(crate) kid: Kid,
}

/// What a message asks for, in the clear: all that is needed of it once its signature holds.
#[derive(Debug)]
pub(crate) enum Asked {
    /// Something to do; the intent as it came.
    Work(Option<Value<'static>>),
    /// To give up a request.
    Cancel(Option<Unparsed<RequestId>>),
    /// To end the session.
    Close,
}

impl Asked {
    fn of(ask: &Ask<'_>) -> Self {
        match ask {
            Ask::Request(request) => Self::Work(request.intent.clone()),
            Ask::Cancel(cancel) => Self::Cancel(cancel.target_request_id.clone()),
            Ask::Close(_) => Self::Close,
        }
    }
}

/// What a signature has proven of its message.
struct Proven {
    kid: Kid,
    seq: Option<u64>,
    message_hash: Digest,
}

/// What a signature says of its message.
struct Stated<'a> {
    issuer: Option<&'a DidText>,
    audience: Option<&'a DidText>,
    timestamp: Option<UnixSeconds>,
    session_id: Option<&'a SessionId>,
    request_id: Option<&'a RequestId>,
    seq: Option<Count>,
    message_hash: Option<Digest>,
}

impl Established<EffectivePolicy> {
    /// Decrypts a message and verifies its signature. It changes nothing and needs no lock.
    pub(crate) fn verify(
        &self,
        (now, keys): (Now, &KeySet),
        incoming: &Incoming<'_>,
        id_is_used: bool,
    ) -> Result<Checked, Failure> {
        let opened;
        let received = match (&self.channel, incoming.encrypted()) {
            (Some(channel), Some(_)) => {
                let plain = channel.open(incoming.received().tree());
                opened = plain.ok().and_then(|plain| {
                    let received = Received::from_tree(Value::Object(plain)).ok()?;
                    (received.message().kind() == incoming.kind()).then_some(received)
                });
                opened.as_ref().ok_or_else(cannot_open)?
            }
            _ => incoming.received(),
        };
        let request_id = incoming.request_id().map(|id| id.parse());
        let Some(Ok(request_id)) = request_id else {
            return Err(bad_field(
                "request_id",
                "request_id is no UUID of version 4",
            ));
        };
        if id_is_used {
            let cause = "the request id was used before";
            return Err(replayed(Reason::RequestIdReused, cause));
        }
        let ask = Ask::of(received.message()).ok_or_else(not_signed)?;
        let proven = self.verify_signature((now, keys), received, &ask, &request_id)?;
        if let (Some(encrypted), Some(_)) = (incoming.encrypted(), &self.channel)
            && proven.seq != Some(encrypted.n.get())
        {
            return Err(unverified(
                "the signed counter is not that of the encryption",
            ));
        }
        Ok(Checked {
            asked: Asked::of(&ask),
            request_hash: proven.message_hash,
            request_id,
            seq: proven.seq,
            kid: proven.kid,
        })
    }

    fn verify_signature(
        &self,
        (now, keys): (Now, &KeySet),
        received: &Received<'_>,
        ask: &Ask<'_>,
        request_id: &RequestId,
    ) -> Result<Proven, Failure> {
        match ask {
            Ask::Request(request) => {
                let jws = request.request_jws.as_ref().ok_or_else(not_signed)?;
                let limit = match self.binding {
                    Binding::Profile => limits::JWS_PAYLOAD,
                    // The size of the message is a check of its own, after this one.
                    Binding::Baseline => jws.as_str().len(),
                };
                let peer = self.binding.peer();
                let signed: Signed<RequestPayload> =
                    Signed::parse_within(jws.as_str(), peer, limit)?;
                let verified = self.verify_by_peer(signed, (now, keys))?;
                self.check_request(now, received, request_id, &verified)
            }
            Ask::Cancel(_) | Ask::Close(_) => {
                let jws = received.jws().and_then(|jws| jws.parse().ok());
                let jws: a2a_wire::JwsText = jws.ok_or_else(not_signed)?;
                let signed: Signed<ControlPayload> = Signed::parse(&jws, self.binding.peer())?;
                let verified = self.verify_by_peer(signed, (now, keys))?;
                let payload = verified.payload();
                let stated = Stated {
                    issuer: Some(&payload.issuer),
                    audience: Some(&payload.audience),
                    timestamp: Some(payload.timestamp),
                    session_id: Some(&payload.session_id),
                    request_id: Some(&payload.request_id),
                    seq: Some(payload.seq),
                    message_hash: Some(payload.message_hash),
                };
                let (message_hash, seq) = self.check_stated(now, received, request_id, &stated)?;
                Ok(Proven {
                    kid: verified.key().kid.clone(),
                    seq,
                    message_hash,
                })
            }
        }
    }

    /// Verifies a signature of the peer: without a `kid`, with the key that signed PROOF.
    fn verify_by_peer<T: Payload>(
        &self,
        signed: Signed<T>,
        (now, keys): (Now, &KeySet),
    ) -> Result<Verified<T>, JwsError> {
        match signed.kid() {
            Some(_) => signed.verify(keys, now.unix),
            None => signed.verify_with(self.proof.key(), now.unix),
        }
    }

    fn check_request(
        &self,
        now: Now,
        received: &Received<'_>,
        request_id: &RequestId,
        verified: &Verified<RequestPayload>,
    ) -> Result<Proven, Failure> {
        let payload = verified.payload();
        let stated = Stated {
            issuer: payload.issuer.as_ref(),
            audience: payload.audience.as_ref(),
            timestamp: payload.timestamp,
            session_id: payload.session_id.as_ref(),
            request_id: payload.request_id.as_ref(),
            seq: payload.seq,
            message_hash: payload.message_hash,
        };
        let (message_hash, seq) = self.check_stated(now, received, request_id, &stated)?;
        if self.binding == Binding::Baseline && payload.message_hash.is_none() {
            self.check_intent(received.tree(), &verified.tree())?;
        }
        Ok(Proven {
            kid: verified.key().kid.clone(),
            seq,
            message_hash,
        })
    }

    /// Compares all that binds a message; only a baseline peer may leave some of it out. Returns the
    /// message's hash and counter.
    fn check_stated(
        &self,
        now: Now,
        received: &Received<'_>,
        request_id: &RequestId,
        stated: &Stated<'_>,
    ) -> Result<(Digest, Option<u64>), Failure> {
        let lenient = self.binding == Binding::Baseline;
        let named = |text: Option<&DidText>, usual: &DidText, did: &Did| {
            text.map_or(lenient, |text| {
                text == usual || is_did(text, did, self.binding)
            })
        };
        let message_hash = received.hash();
        let fits = named(stated.issuer, self.peer.did_text(), self.peer.did())
            && named(stated.audience, self.own.did_text(), self.own.did())
            && stated
                .session_id
                .map_or(lenient, |id| *id == self.session_id)
            && stated.request_id.map_or(lenient, |id| id == request_id)
            && stated
                .message_hash
                .map_or(lenient, |hash| hash == message_hash);
        if !fits {
            return Err(unverified(
                "it was signed for another message, session or agent",
            ));
        }
        match stated.timestamp {
            Some(timestamp) if !timestamp.is_near(now.unix) => {
                let cause = "it was signed too long ago, or in the future";
                return Err(replayed(Reason::StaleTimestamp, cause));
            }
            None if !lenient => return Err(unverified("it does not say when it was signed")),
            Some(_) | None => {}
        }
        match stated.seq.map(Count::get) {
            None if !lenient => Err(unverified("it has no counter")),
            Some(0) => Err(unverified("its counter is 0")),
            seq => Ok((message_hash, seq)),
        }
    }

    /// A baseline peer signs the intent: alone, or with the ids beside or inside it.
    fn check_intent(&self, message: &Object<'_>, signed: &Object<'_>) -> Result<(), Failure> {
        let intent = message.get("intent").and_then(Value::as_object);
        let intent = intent.ok_or_else(|| unverified("there is no intent to be signed"))?;
        let ids = ["session_id", "request_id"];
        let has_ids = ids.iter().all(|name| signed.get(name).is_some());
        let whole = signed.digest_without(&[]) == intent.digest_without(&[]);
        // What stands in the intent too is part of it.
        let added: Vec<&str> = ids
            .into_iter()
            .filter(|name| intent.get(name).is_none())
            .collect();
        let without = signed.digest_without(&added) == intent.digest_without(&[]);
        if !whole && !without {
            return Err(unverified("another intent was signed than the one sent"));
        }
        match self.baseline == Baseline::Bound && !has_ids {
            true => Err(unverified("the ids are not inside what is signed")),
            false => Ok(()),
        }
    }
}

fn not_signed() -> Failure {
    unverified("it is not signed")
}

/// One answer for whatever is wrong with a ciphertext.
fn cannot_open() -> Failure {
    let cause = "the message cannot be opened";
    Failure::new(ErrorCode::InvalidMessage, cause).because(Reason::DecryptFailed)
}

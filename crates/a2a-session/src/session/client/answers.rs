//! Answers at the client: each must fit exactly one question.

use a2a_identity::{KeySet, Signed};
use a2a_wire::{
    Count, DidText, Digest, ErrorMessage, ErrorPayload, JwsText, Message, Received, RequestId,
    Response, ResponseChunk, ResponsePayload, SessionId, StreamEnd, UnixSeconds, limits,
};
use canonical::Value;

use super::baseline::is_answer;
use super::{ANSWER, ClientSession};
use crate::Now;
use crate::failure::{Binding, Failure, unverified};
use crate::handshake::payloads::is_did;

/// What the server says.
#[derive(Debug, Clone, PartialEq)]
pub enum ClientEvent {
    /// A request came to this.
    Response {
        /// Which.
        request_id: String,
        /// What came out.
        result: Value<'static>,
        /// `message_hash` of the answer, for the record.
        response_hash: Digest,
    },
    /// A request failed; the server has signed that.
    Failed {
        /// Which.
        request_id: String,
        /// How.
        failure: Failure,
        /// `message_hash` of the answer, for the record.
        response_hash: Digest,
    },
    /// Someone says that a request failed. It may end the attempt and be a reason to try again, and
    /// must change nothing else.
    Hint {
        /// Which.
        request_id: Option<String>,
        /// How.
        failure: Failure,
    },
    /// A part of an answer; provisional until the whole is signed.
    Chunk {
        /// Of which request.
        request_id: String,
        /// Which part.
        index: u64,
        /// The part.
        data: Value<'static>,
    },
}

/// Something that was not believed: put it on record, and do not try again without a new handshake.
#[derive(Debug, Clone, PartialEq)]
pub struct Dropped {
    /// The request it was said to answer, if one waits by that id.
    pub request_id: Option<String>,
    /// Why.
    pub failure: Failure,
}

/// What a signature says of its answer.
struct Stated<'a> {
    issuer: Option<&'a DidText>,
    audience: Option<&'a DidText>,
    timestamp: Option<UnixSeconds>,
    session_id: Option<&'a SessionId>,
    request_id: Option<&'a RequestId>,
    seq: Option<Count>,
    message_hash: Option<Digest>,
    request_hash: Option<Digest>,
}

impl ClientSession {
    /// Takes what came from the server.
    ///
    /// # Errors
    /// If it is not the answer to a question of ours; then nothing has changed.
    pub fn handle_message(&mut self, now: Now, bytes: &[u8]) -> Result<ClientEvent, Dropped> {
        let dropped = |failure| Dropped {
            request_id: None,
            failure,
        };
        let received = Received::parse(bytes, ANSWER);
        let received = received.map_err(|error| dropped(unverified(error.to_string())))?;
        if let Message::Error(error) = received.message()
            && error.error_jws.is_none()
            && error.enc.is_none()
        {
            return Ok(self.hint(error));
        }
        let request_id = self.question(&received).map_err(dropped)?;
        let dropped = |failure| Dropped {
            request_id: Some(request_id.clone()),
            failure,
        };
        let (plain, counter) = self.open(received).map_err(dropped)?;
        let event = match Told::of(plain.message()) {
            Some(Told::Response(response)) => {
                self.response(now, &plain, response, &request_id, counter)
            }
            Some(Told::Error(error)) => self.error(now, &plain, error, &request_id, counter),
            Some(Told::Chunk(chunk)) => self.chunk(chunk, &request_id, counter),
            None => Err(unverified("a server does not send this")),
        };
        let event = event.map_err(dropped)?;
        self.last_answer = now.monotonic;
        Ok(event)
    }

    /// Goes on with the keys that the server has by now: see [`Established::renewed_keys`].
    ///
    /// [`Established::renewed_keys`]: crate::Established::renewed_keys
    pub fn renew_keys(&mut self, keys: KeySet) {
        self.renewed = Some(keys);
    }

    fn keys(&self) -> &KeySet {
        self.renewed
            .as_ref()
            .unwrap_or_else(|| self.terms.peer.keys())
    }

    /// An error that nobody signed.
    fn hint(&mut self, error: &ErrorMessage) -> ClientEvent {
        let request_id = error.request_id.as_ref().map(|id| id.as_str().to_owned());
        let request_id = request_id.filter(|id| self.outstanding.remove(id).is_some());
        ClientEvent::Hint {
            request_id,
            failure: failure_of(error),
        }
    }

    /// The question that a message says it answers.
    fn question(&self, received: &Received<'_>) -> Result<String, Failure> {
        let ids = match Told::of(received.message()) {
            Some(Told::Response(it)) => Some((it.session_id.as_str(), it.request_id.as_str())),
            Some(Told::Chunk(it)) => Some((it.session_id.as_str(), it.request_id.as_str())),
            Some(Told::Error(it)) => match (&it.session_id, &it.request_id) {
                (Some(session_id), Some(id)) => Some((session_id.as_str(), id.as_str())),
                _ => None,
            },
            None => None,
        };
        let (session_id, request_id) = ids.ok_or_else(|| unverified("it answers no question"))?;
        if session_id != self.terms.session_id.as_str() {
            return Err(unverified("it belongs to another session"));
        }
        match self.outstanding.contains_key(request_id) {
            true => Ok(request_id.to_owned()),
            false => Err(unverified("nobody asked that")),
        }
    }

    /// Decrypts an answer; returns it with the counter of its encryption.
    fn open<'m>(&self, received: Received<'m>) -> Result<(Received<'m>, Option<u64>), Failure> {
        let enc = match Told::of(received.message()) {
            Some(Told::Response(it)) => it.enc.as_ref(),
            Some(Told::Error(it)) => it.enc.as_ref(),
            Some(Told::Chunk(it)) => it.enc.as_ref(),
            None => None,
        };
        let (channel, counter) = match (&self.terms.channel, enc) {
            (None, None) => return Ok((received, None)),
            (Some(channel), Some(enc)) => (channel, enc.n.get()),
            (Some(_), None) => return Err(unverified("it should be encrypted")),
            (None, Some(_)) => return Err(unverified("it should not be encrypted")),
        };
        self.check_counter(counter)?;
        let kind = received.message().kind();
        let plain = channel.open(received.tree());
        let plain = plain.map_err(|error| unverified(error.to_string()))?;
        let plain = Received::from_tree(Value::Object(plain));
        let plain = plain.map_err(|error| unverified(error.to_string()))?;
        match plain.message().kind() == kind {
            true => Ok((plain, Some(counter))),
            false => Err(unverified("it is another message inside")),
        }
    }

    fn response(
        &mut self,
        now: Now,
        received: &Received<'_>,
        response: &Response,
        request_id: &str,
        counter: Option<u64>,
    ) -> Result<ClientEvent, Failure> {
        let jws = response.response_jws.as_ref();
        let jws = jws.ok_or_else(|| unverified("the answer is not signed"))?;
        let signed: Signed<ResponsePayload> = Signed::parse(jws, self.terms.binding.peer())?;
        let verified = signed.verify(self.keys(), now.unix)?;
        let payload = verified.payload();
        let stated = Stated {
            issuer: payload.issuer.as_ref(),
            audience: payload.audience.as_ref(),
            timestamp: payload.timestamp,
            session_id: payload.session_id.as_ref(),
            request_id: payload.request_id.as_ref(),
            seq: payload.seq,
            message_hash: payload.message_hash,
            request_hash: payload.request_hash,
        };
        let response_hash = received.hash();
        let seq = self.check(now, response_hash, request_id, &stated, counter)?;
        let lenient = self.terms.binding == Binding::Baseline;
        let same = |status: &a2a_wire::Word| *status == response.status;
        let answers = payload.message_hash.is_some()
            || is_answer(received.tree(), &verified.tree(), "response_jws");
        if !payload.status.as_ref().map_or(lenient, same) || !answers {
            return Err(unverified("another answer was signed than the one sent"));
        }
        if response.status.as_str() != "success" {
            return Err(unverified("a response that is no success is none"));
        }
        self.check_stream(request_id, response.stream.as_ref())?;
        self.settle(request_id, seq)?;
        Ok(ClientEvent::Response {
            request_id: request_id.to_owned(),
            result: response.result.clone().unwrap_or(Value::Null),
            response_hash,
        })
    }

    fn error(
        &mut self,
        now: Now,
        received: &Received<'_>,
        error: &ErrorMessage,
        request_id: &str,
        counter: Option<u64>,
    ) -> Result<ClientEvent, Failure> {
        let jws: &JwsText =
            (error.error_jws.as_ref()).ok_or_else(|| unverified("the error is not signed"))?;
        let signed: Signed<ErrorPayload> = Signed::parse(jws, self.terms.binding.peer())?;
        let verified = signed.verify(self.keys(), now.unix)?;
        let payload = verified.payload();
        let stated = Stated {
            issuer: payload.issuer.as_ref(),
            audience: payload.audience.as_ref(),
            timestamp: payload.timestamp,
            session_id: payload.session_id.as_ref(),
            request_id: payload.request_id.as_ref(),
            seq: payload.seq,
            message_hash: payload.message_hash,
            request_hash: payload.request_hash,
        };
        let response_hash = received.hash();
        let seq = self.check(now, response_hash, request_id, &stated, counter)?;
        let code = payload.error_code.as_ref();
        if code.is_some_and(|code| *code != error.error_code) {
            return Err(unverified("another error was signed than the one sent"));
        }
        // A stream that fails may have been cut anywhere; what it says of its parts must be true.
        if error.stream.is_some() {
            self.check_stream(request_id, error.stream.as_ref())?;
        }
        self.settle(request_id, seq)?;
        Ok(ClientEvent::Failed {
            request_id: request_id.to_owned(),
            failure: failure_of(error),
            response_hash,
        })
    }

    fn chunk(
        &mut self,
        chunk: &ResponseChunk,
        request_id: &str,
        counter: Option<u64>,
    ) -> Result<ClientEvent, Failure> {
        let asked = self.outstanding.get_mut(request_id);
        let stream = asked.and_then(|asked| asked.stream.as_mut());
        let stream = stream.ok_or_else(|| unverified("no answer in parts was asked for"))?;
        let data = chunk.data.as_ref();
        let data = data.ok_or_else(|| unverified("a part has no data"))?;
        let size = data.to_canonical().len();
        let bytes = stream.bytes.saturating_add(size);
        if size > limits::CHUNK || bytes > ANSWER {
            return Err(unverified("a part, or all parts together, are too large"));
        }
        let next = stream.peek(data);
        if next.as_ref().map(|(index, chain)| (*index, Some(*chain)))
            != Some((chunk.index, chunk.chain))
        {
            return Err(unverified("a part is missing, doubled or altered"));
        }
        let _ = stream.add(data);
        stream.bytes = bytes;
        if let Some(counter) = counter {
            let _ = self.window.take(counter);
        }
        Ok(ClientEvent::Chunk {
            request_id: request_id.to_owned(),
            index: chunk.index.get(),
            data: data.clone(),
        })
    }

    /// Compares all that binds an answer to its question.
    fn check(
        &self,
        now: Now,
        message_hash: Digest,
        request_id: &str,
        stated: &Stated<'_>,
        counter: Option<u64>,
    ) -> Result<Option<u64>, Failure> {
        let terms = &self.terms;
        let lenient = terms.binding == Binding::Baseline;
        let asked = self.outstanding.get(request_id);
        let named = |text: Option<&DidText>, usual: &DidText, did: &a2a_identity::Did| {
            text.map_or(lenient, |text| {
                text == usual || is_did(text, did, terms.binding)
            })
        };
        let asked_for = |hash: Digest| asked.is_some_and(|asked| asked.request_hash == hash);
        let fits = named(stated.issuer, terms.peer.did_text(), terms.peer.did())
            && named(stated.audience, terms.own.did_text(), terms.own.did())
            && stated
                .session_id
                .map_or(lenient, |id| *id == terms.session_id)
            && stated
                .request_id
                .map_or(lenient, |id| id.as_str() == request_id)
            && stated
                .message_hash
                .map_or(lenient, |hash| hash == message_hash)
            && stated.request_hash.map_or(lenient, asked_for)
            && stated.timestamp.map_or(lenient, |at| at.is_near(now.unix));
        if !fits {
            return Err(unverified("it was signed as the answer to something else"));
        }
        let seq = match stated.seq.map(Count::get) {
            None if lenient => return Ok(None),
            None | Some(0) => return Err(unverified("it has no counter")),
            Some(seq) => seq,
        };
        if counter.is_some_and(|counter| counter != seq) {
            return Err(unverified("its counter is not that of the encryption"));
        }
        self.check_counter(seq)?;
        Ok(Some(seq))
    }

    fn check_counter(&self, counter: u64) -> Result<(), Failure> {
        let fresh = self.window.check(counter);
        fresh.map_err(|stale| unverified(stale.to_string()))
    }

    /// What the end of a stream says is what came.
    fn check_stream(&self, request_id: &str, end: Option<&StreamEnd>) -> Result<(), Failure> {
        let asked = self.outstanding.get(request_id);
        let stream = asked.and_then(|asked| asked.stream.as_ref());
        match (stream.and_then(|stream| stream.end()), end) {
            (None, None) => Ok(()),
            (Some(came), Some(said)) if came == *said => Ok(()),
            _ => Err(unverified("the parts are not those that were signed")),
        }
    }

    /// The question is answered.
    fn settle(&mut self, request_id: &str, seq: Option<u64>) -> Result<(), Failure> {
        if let Some(seq) = seq {
            let taken = self.window.take(seq);
            taken.map_err(|stale| unverified(stale.to_string()))?;
        }
        let asked = self.outstanding.remove(request_id);
        self.over |= asked.is_some_and(|asked| asked.closes);
        Ok(())
    }
}

/// What a server may send in a session.
enum Told<'m> {
    Response(&'m Response),
    Error(&'m ErrorMessage),
    Chunk(&'m ResponseChunk),
}

impl<'m> Told<'m> {
    const fn of(message: &'m Message) -> Option<Self> {
        match message {
            Message::Response(message) => Some(Self::Response(message)),
            Message::Error(message) => Some(Self::Error(message)),
            Message::ResponseChunk(message) => Some(Self::Chunk(message)),
            Message::Hello(_)
            | Message::Challenge(_)
            | Message::Proof(_)
            | Message::Policy(_)
            | Message::AcceptPolicy(_)
            | Message::Session(_)
            | Message::Request(_)
            | Message::Cancel(_)
            | Message::Close(_) => None,
        }
    }
}

/// What an error message says.
fn failure_of(error: &ErrorMessage) -> Failure {
    let details = error.details.as_ref();
    Failure::from_details(error.error_code.clone(), details, "the server refused")
}

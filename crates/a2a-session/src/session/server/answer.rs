//! Answers: signed, encrypted if the session is, each to exactly one request (§10.1, §10.6).

use a2a_wire::{
    Count, Digest, ErrorCode, ErrorPayload, Kind, Message, Phase, RequestId, Response,
    ResponseChunk, ResponsePayload, StreamEnd, Unparsed, Word,
};
use canonical::{Object, Value};

use super::{Answer, EndReason, Ended, Handled, Refusal, ServerSession};
use crate::Now;
use crate::failure::{Binding, Failure, bad_field};
use crate::session::checks::Checked;
use crate::session::record::Record;
use crate::session::requests::{Running, Token};

/// A request that is not running: it was answered, or it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the request has been answered, or has ended")]
pub struct NotRunning;

/// Why a part of an answer is not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ChunkError {
    /// Its request is not running.
    #[error(transparent)]
    NotRunning(#[from] NotRunning),
    /// The client did not ask for an answer in parts.
    #[error("the answer was not asked for in parts")]
    NotStreamed,
    /// It is too large.
    #[error("a part has at most {limit} bytes")]
    TooLarge {
        /// The bytes it may have.
        limit: usize,
    },
    /// There are no more counters.
    #[error("the session has no more counters")]
    Exhausted,
}

/// Which request an error answers.
type To = (Option<RequestId>, Option<Digest>);

impl ServerSession {
    /// Answers a request with what came of it: one signature.
    ///
    /// # Errors
    /// If it is not running: nothing is sent twice, and nothing late.
    pub fn respond(
        &mut self,
        now: Now,
        token: Token,
        result: Result<Value<'static>, Failure>,
    ) -> Result<Answer, NotRunning> {
        let running = self.requests.remove(token).ok_or(NotRunning)?;
        match result {
            Ok(result) => Ok(self.success(now, running, result)),
            Err(failure) => Ok(self.failure(now, running, &failure)),
        }
    }

    /// A part of an answer.
    ///
    /// # Errors
    /// If it cannot be sent.
    pub fn chunk(&mut self, token: Token, data: Value<'static>) -> Result<Vec<u8>, ChunkError> {
        let limit = self.limits.chunk;
        let running = self.requests.get_mut(token).ok_or(NotRunning)?;
        let stream = running.stream.as_mut().ok_or(ChunkError::NotStreamed)?;
        if data.to_canonical().len() > limit {
            return Err(ChunkError::TooLarge { limit });
        }
        // Only what is signed or encrypted is counted.
        let seq = match self.terms.is_encrypted() {
            true => self.sent.next().ok_or(ChunkError::Exhausted)?,
            false => Count::ZERO,
        };
        let (index, chain) = stream.add(&data).ok_or(ChunkError::Exhausted)?;
        let message = ResponseChunk {
            session_id: (&self.terms.session_id).into(),
            request_id: (&running.request_id).into(),
            index,
            data: Some(data),
            chain: Some(chain),
            enc: None,
        };
        let tree = Message::ResponseChunk(message).into_object();
        Ok(self.terms.seal(Kind::ResponseChunk, tree, seq))
    }

    /// What to do when the connection breaks that a request came on: one that has no name is over.
    pub fn disconnected(&mut self, now: Now, token: Token) -> Option<Ended> {
        match self.requests.get(token) {
            Some(running) if !running.has_name => self.end_request(now, token, cancelled()),
            Some(_) | None => None,
        }
    }

    pub(super) fn refuse_with(
        &mut self,
        now: Now,
        failure: Failure,
        mut record: Box<Record>,
        to: To,
    ) -> Box<Refusal> {
        record.refuse(&failure);
        let (message, hash) = self.error(now, &failure, to, None);
        record.response_hash = Some(hash);
        Box::new(Refusal {
            failure,
            message,
            record,
        })
    }

    /// A cancellation that was let in.
    pub(super) fn cancelled(
        &mut self,
        now: Now,
        checked: &Checked,
        record: Box<Record>,
        target: Option<&Unparsed<RequestId>>,
    ) -> Result<Handled, Box<Refusal>> {
        let Some(target) = target else {
            let to = (Some(checked.request_id.clone()), Some(checked.request_hash));
            let failure = bad_field("target_request_id", "it does not say what to cancel");
            return Err(self.refuse_with(now, failure, record, to));
        };
        let token = self.requests.find(target.as_str());
        let ended = token.and_then(|token| self.end_request(now, token, cancelled()));
        let answer = self.confirm(now, checked, record, ("cancelled", ended.is_some()));
        Ok(Handled::Answer {
            answer,
            ended: ended.into_iter().collect(),
        })
    }

    /// The end of the session, as the client wishes.
    pub(super) fn closed(&mut self, now: Now, checked: &Checked, record: Box<Record>) -> Handled {
        let ended = self.end_requests(now, EndReason::Closed);
        let answer = self.confirm(now, checked, record, ("closed", true));
        self.over.get_or_insert(EndReason::Closed);
        Handled::Answer { answer, ended }
    }

    pub(super) fn end_requests(&mut self, now: Now, reason: EndReason) -> Vec<Ended> {
        let mut ended = Vec::new();
        while let Some(token) = self.requests.first() {
            let failure = match reason {
                EndReason::Closed | EndReason::Ended => cancelled(),
                EndReason::Expired
                | EndReason::Unclaimed
                | EndReason::KeyRevoked
                | EndReason::Exhausted
                | EndReason::Evicted => {
                    let cause = "the session ended while the request was running";
                    Failure::new(ErrorCode::SessionExpired, cause)
                }
            };
            ended.extend(self.end_request(now, token, failure));
        }
        ended
    }

    pub(super) fn end_request(
        &mut self,
        now: Now,
        token: Token,
        failure: Failure,
    ) -> Option<Ended> {
        let running = self.requests.remove(token)?;
        let answer = self.failure(now, running, &failure);
        Some(Ended { token, answer })
    }

    /// A small answer to a control message.
    fn confirm(
        &mut self,
        now: Now,
        checked: &Checked,
        mut record: Box<Record>,
        (name, value): (&'static str, bool),
    ) -> Answer {
        record.approved = true;
        let mut result = Object::default();
        result.insert(name, Value::Bool(value));
        let to = (&checked.request_id, checked.request_hash);
        self.response(now, to, Value::Object(result), None, record)
    }

    fn success(&mut self, now: Now, running: Running, result: Value<'static>) -> Answer {
        let stream = running.stream.as_ref().and_then(|stream| stream.end());
        let to = (&running.request_id, running.request_hash);
        self.response(now, to, result, stream, running.record)
    }

    fn failure(&mut self, now: Now, running: Running, failure: &Failure) -> Answer {
        let stream = running.stream.as_ref().and_then(|stream| stream.end());
        let to = (Some(running.request_id), Some(running.request_hash));
        let mut record = running.record;
        record.refuse(failure);
        let (message, hash) = self.error(now, failure, to, stream);
        record.response_hash = Some(hash);
        Answer { message, record }
    }

    fn response(
        &mut self,
        now: Now,
        (request_id, request_hash): (&RequestId, Digest),
        result: Value<'static>,
        stream: Option<StreamEnd>,
        mut record: Box<Record>,
    ) -> Answer {
        let success: Option<Word> = "success".parse().ok();
        let (Some(seq), Some(success)) = (self.next(), success) else {
            let failure = exhausted();
            record.refuse(&failure);
            let id = request_id.into();
            let message = failure.to_unsigned(
                Binding::Profile,
                Some(&(&self.terms.session_id).into()),
                Some(&id),
            );
            return Answer { message, record };
        };
        let terms = &self.terms;
        let message = Response {
            session_id: (&terms.session_id).into(),
            request_id: request_id.into(),
            status: success.clone(),
            result: Some(result),
            stream,
            response_jws: None,
            enc: None,
        };
        let payload = |message_hash| ResponsePayload {
            issuer: Some(terms.own.did_text().clone()),
            audience: Some(terms.peer.did_text().clone()),
            timestamp: Some(now.unix),
            session_id: Some(terms.session_id.clone()),
            request_id: Some(request_id.clone()),
            seq: Some(seq),
            message_hash: Some(message_hash),
            request_hash: Some(request_hash),
            status: Some(success),
        };
        let tree = Message::Response(message).into_object();
        let (message, hash) = terms.finish(Kind::Response, tree, seq, payload);
        "success".clone_into(&mut record.response_status);
        record.response_hash = Some(hash);
        Answer { message, record }
    }

    fn error(
        &mut self,
        now: Now,
        failure: &Failure,
        (request_id, request_hash): To,
        stream: Option<StreamEnd>,
    ) -> (Vec<u8>, Digest) {
        let mut message = failure.to_message(self.terms.binding, Phase::Session);
        message.session_id = Some((&self.terms.session_id).into());
        message.request_id = request_id.as_ref().map(Into::into);
        message.stream = stream;
        let code = message.error_code.clone();
        let tree = Message::Error(message).into_object();
        let Some(seq) = self.next() else {
            let hash = a2a_wire::message_hash(Kind::Error, &tree);
            return (Value::Object(tree).to_canonical(), hash);
        };
        let terms = &self.terms;
        let payload = |message_hash| ErrorPayload {
            issuer: Some(terms.own.did_text().clone()),
            audience: Some(terms.peer.did_text().clone()),
            timestamp: Some(now.unix),
            session_id: Some(terms.session_id.clone()),
            request_id,
            seq: Some(seq),
            message_hash: Some(message_hash),
            request_hash,
            error_code: Some(code),
            nonce_a: None,
        };
        terms.finish(Kind::Error, tree, seq, payload)
    }

    /// The next counter; without one the session is over.
    fn next(&mut self) -> Option<Count> {
        let next = self.sent.next();
        if next.is_none() {
            self.over.get_or_insert(EndReason::Exhausted);
        }
        next
    }
}

pub(super) fn timed_out() -> Failure {
    Failure::new(ErrorCode::Timeout, "the request took longer than it may")
}

fn cancelled() -> Failure {
    Failure::new(ErrorCode::Cancelled, "the request was cancelled")
}

fn exhausted() -> Failure {
    Failure::new(
        ErrorCode::SessionExpired,
        "the session has no more counters",
    )
}

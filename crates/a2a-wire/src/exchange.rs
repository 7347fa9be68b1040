//! The messages of a session (base specification §6, profile §9, §10, §12).
//!
//! In an encrypted session most members stand inside `enc`; that is why they may all be missing
//! here. `a2a-identity::seal` opens a message and reads it again.

use canonical::{Object, Value};

use crate::read::{record, text};
use crate::{
    Count, Digest, ErrorCode, FieldError, IntentId, JwsText, Problem, Read, RequestId, RequestJws,
    SessionId, Text, Unparsed, Word, Write,
};

record! {
    /// A request to do something.
    Request {
        /// The session it belongs to.
        session_id: Unparsed<SessionId>,
        /// This attempt.
        request_id: Unparsed<RequestId>,
        /// What to do; see [`Request::read_intent`].
        intent: Option<Value<'static>>,
        /// The signature.
        request_jws: Option<RequestJws>,
        /// The members that are hidden.
        enc: Option<Encrypted>,
    }
}

record! {
    /// What a request came to.
    Response {
        /// The session it belongs to.
        session_id: Unparsed<SessionId>,
        /// The attempt it answers.
        request_id: Unparsed<RequestId>,
        /// `success`.
        status: Word,
        /// What came out.
        result: Option<Value<'static>>,
        /// The end of a stream.
        stream: Option<StreamEnd>,
        /// The signature.
        response_jws: Option<JwsText>,
        /// The members that are hidden.
        enc: Option<Encrypted>,
    }
}

record! {
    /// Something went wrong. Without a signature it is a hint.
    ErrorMessage {
        /// The session, if there is one.
        session_id: Option<Unparsed<SessionId>>,
        /// The attempt it answers, if any.
        request_id: Option<Unparsed<RequestId>>,
        /// What went wrong.
        error_code: ErrorCode,
        /// The same for people.
        error_message: Option<Text>,
        /// Figures, of the listed names.
        details: Option<Object<'static>>,
        /// The end of a stream.
        stream: Option<StreamEnd>,
        /// The signature.
        error_jws: Option<JwsText>,
        /// A client that gives up a handshake names it here by `nonce_b`.
        extensions: Option<Object<'static>>,
        /// The members that are hidden.
        enc: Option<Encrypted>,
    }
}

record! {
    /// Gives up a running request.
    Cancel {
        /// The session.
        session_id: Unparsed<SessionId>,
        /// This message.
        request_id: Unparsed<RequestId>,
        /// What to give up.
        target_request_id: Option<Unparsed<RequestId>>,
        /// The signature.
        control_jws: Option<JwsText>,
        /// The members that are hidden.
        enc: Option<Encrypted>,
    }
}

record! {
    /// Ends the session.
    Close {
        /// The session.
        session_id: Unparsed<SessionId>,
        /// This message.
        request_id: Unparsed<RequestId>,
        /// The signature.
        control_jws: Option<JwsText>,
        /// The members that are hidden.
        enc: Option<Encrypted>,
    }
}

record! {
    /// A part of an answer; provisional until the final signature verifies.
    ResponseChunk {
        /// The session.
        session_id: Unparsed<SessionId>,
        /// The attempt it answers.
        request_id: Unparsed<RequestId>,
        /// 0, 1, …
        index: Count,
        /// The part.
        data: Option<Value<'static>>,
        /// The hash chain up to this part.
        chain: Option<Digest>,
        /// The members that are hidden.
        enc: Option<Encrypted>,
    }
}

record! {
    /// How many parts there were, and their hash chain.
    StreamEnd {
        /// The number of parts.
        chunks: Count,
        /// The chain after the last.
        chain: Digest,
    }
}

record! {
    /// Hidden members.
    Encrypted {
        /// The sender's counter.
        n: Count,
        /// The sealed members in base64url.
        ct: Ciphertext,
    }
}

/// Sealed bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ciphertext(pub Vec<u8>);

impl Read for Ciphertext {
    fn read(value: &Value<'_>) -> Result<Self, FieldError> {
        let bytes = canonical::base64url::decode(text(value)?);
        bytes
            .map(Self)
            .map_err(|_| FieldError::form("unpadded base64url"))
    }
}

impl Write for Ciphertext {
    fn write(&self) -> Value<'static> {
        Value::String(canonical::base64url::encode(&self.0).into())
    }
}

record! {
    /// What to do. Names and patterns are a matter of the `policy` crate.
    Intent {
        /// The work this is an attempt at.
        intent_id: Option<IntentId>,
        /// What to reach.
        goal: Word,
        /// In which field; may be empty.
        domain: Option<Word>,
        /// With what.
        inputs: Option<Object<'static>>,
        /// Within which bounds.
        constraints: Option<Constraints>,
    }
}

impl Request {
    /// Reads the intent, when its turn in the order of checks comes.
    ///
    /// # Errors
    /// What is wrong with it, as seen from the message: `intent.goal`.
    pub fn read_intent(&self) -> Result<Intent, FieldError> {
        Self::read_intent_of(self.intent.as_ref())
    }

    /// The same, of the member `intent` alone.
    ///
    /// # Errors
    /// As [`Request::read_intent`].
    pub fn read_intent_of(intent: Option<&Value<'_>>) -> Result<Intent, FieldError> {
        let missing = FieldError::new(Problem::Missing);
        let intent = intent.ok_or(missing).and_then(Intent::read);
        intent.map_err(|error| error.within("intent"))
    }
}

record! {
    /// The bounds that the protocol knows; others are the handler's, and stay in the tree.
    Constraints {
        /// Give up after this many milliseconds.
        timeout_ms: Option<Milliseconds>,
        /// Whether to answer in parts.
        stream: Option<bool>,
    }
}

/// A time limit: 1 or more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Milliseconds(pub u64);

impl Read for Milliseconds {
    fn read(value: &Value<'_>) -> Result<Self, FieldError> {
        match Count::read(value)?.get() {
            0 => Err(FieldError::form("1 or more")),
            milliseconds => Ok(Self(milliseconds)),
        }
    }
}

impl Write for Milliseconds {
    fn write(&self) -> Value<'static> {
        Count::new(self.0).map_or(Value::Null, |count| count.write())
    }
}

impl Read for ErrorCode {
    fn read(value: &Value<'_>) -> Result<Self, FieldError> {
        Word::read(value).map(|code| Self::from(code.as_str()))
    }
}

impl Write for ErrorCode {
    fn write(&self) -> Value<'static> {
        Value::String(self.as_str().to_owned().into())
    }
}

//! What goes wrong: the code and reason a peer is told, and the precise cause for the record.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use a2a_identity::{JwsError, ManifestError, NoRandomness, ResolveError};
use a2a_wire::{
    ErrorCode, ErrorMessage, FieldError, Message, Phase, Reason, RequestId, SessionId, Unparsed,
    WireError, Write as _,
};
use canonical::{Number, Object, Value};

/// Why something is refused.
///
/// `code`, `reason` and [`Failure::details`] are what a peer may be told; `cause` is for the audit
/// record alone.
#[derive(Debug, Clone, PartialEq)]
pub struct Failure {
    /// The code.
    pub code: ErrorCode,
    /// The listed reason, if there is one for this.
    pub reason: Option<Reason>,
    /// The precise cause. It has no payload data and no secrets, and never leaves the node.
    pub cause: Cow<'static, str>,
    figures: Vec<(&'static str, Value<'static>)>,
    is_unknown_key: bool,
}

impl Failure {
    /// A failure of this code. The cause must have no payload data.
    pub fn new(code: ErrorCode, cause: impl Into<Cow<'static, str>>) -> Self {
        Self {
            code,
            reason: None,
            cause: cause.into(),
            figures: Vec::new(),
            is_unknown_key: false,
        }
    }

    /// What a handler failed with: the peer learns an incident number, the record the cause. The
    /// cause must have no payload data.
    #[must_use]
    pub fn internal(incident: &str, cause: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorCode::InternalError, cause).with_text("incident", incident)
    }

    /// Not now: the record cannot be written, or there is no room.
    #[must_use]
    pub fn unavailable(cause: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorCode::ServiceUnavailable, cause)
    }

    /// Too often; the next may come at this second.
    #[must_use]
    pub fn too_often(reset_at: Option<u64>, cause: impl Into<Cow<'static, str>>) -> Self {
        let failure = Self::new(ErrorCode::RateLimitExceeded, cause).with_text("scope", "agent");
        match reset_at {
            Some(at) => failure.with_number("reset_at", at),
            None => failure,
        }
    }

    /// More bytes than are read.
    #[must_use]
    pub fn too_large(limit: usize, size: Option<usize>) -> Self {
        let cause = "the message is larger than any that is read";
        let figure = |figure: usize| u64::try_from(figure).unwrap_or(u64::MAX);
        let failure = Self::new(ErrorCode::PayloadTooLarge, cause);
        let failure = failure.with_number("limit", figure(limit));
        match size {
            Some(size) => failure.with_number("size", figure(size)),
            None => failure,
        }
    }

    /// A handler cannot do what the intent asks for.
    #[must_use]
    pub fn invalid_intent(field: &str, cause: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorCode::InvalidIntent, cause)
            .because(Reason::BadField)
            .with_text("field", field)
    }

    /// An error as its message has it: a peer's, or one that was kept.
    #[must_use]
    pub fn from_details(
        code: ErrorCode,
        details: Option<&Object<'static>>,
        cause: &'static str,
    ) -> Self {
        const FIGURES: [&str; 10] = [
            "field",
            "limit",
            "size",
            "current_rate",
            "reset_at",
            "retry_after_ms",
            "scope",
            "server_time",
            "timeout_ms",
            "incident",
        ];
        let mut failure = Self::new(code, cause);
        let Some(details) = details else {
            return failure;
        };
        let word = details.get("reason").and_then(Value::as_str);
        let named = |reason: &&Reason| Some(reason.as_str()) == word;
        failure.reason = Reason::ALL.iter().find(named).copied();
        for name in FIGURES {
            if let Some(value) = details.get(name) {
                failure = failure.with(name, value.clone());
            }
        }
        failure
    }

    /// The same, to be tried again after this time.
    #[must_use]
    pub fn retry_after(self, wait: Duration) -> Self {
        let millis = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        self.with_number("retry_after_ms", millis)
    }

    /// Whether a signature names a key that its signer is not known to have: it may have a new one.
    #[must_use]
    pub const fn is_unknown_key(&self) -> bool {
        self.is_unknown_key
    }

    /// The same, for a listed reason.
    #[must_use]
    pub const fn because(mut self, reason: Reason) -> Self {
        self.reason = Some(reason);
        self
    }

    pub(crate) fn with(mut self, name: &'static str, value: Value<'static>) -> Self {
        self.figures.push((name, value));
        self
    }

    pub(crate) fn with_number(self, name: &'static str, value: u64) -> Self {
        let largest = Number::MAX_INTEGER;
        let value = i64::try_from(value).unwrap_or(largest).min(largest);
        match Number::integer(value) {
            Some(number) => self.with(name, Value::Number(number)),
            None => self,
        }
    }

    pub(crate) fn with_text(self, name: &'static str, value: impl Into<String>) -> Self {
        self.with(name, Value::String(value.into().into()))
    }

    /// `details`: the reason and the listed figures.
    #[must_use]
    pub fn details(&self) -> Option<Object<'static>> {
        let mut details = Object::default();
        if let Some(reason) = self.reason {
            details.insert("reason", Value::String(reason.as_str().into()));
        }
        for (name, value) in &self.figures {
            details.insert(*name, value.clone());
        }
        let is_empty = details.iter().len() == 0;
        (!is_empty).then_some(details)
    }

    /// A figure of `details`.
    #[must_use]
    pub fn figure(&self, name: &str) -> Option<&Value<'static>> {
        let found = self.figures.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| value)
    }

    /// The error message without a signature, as it goes to a peer of this kind.
    #[must_use]
    pub fn to_message(&self, binding: Binding, phase: Phase) -> ErrorMessage {
        let code = match binding {
            Binding::Profile => self.code.clone(),
            Binding::Baseline => self.code.for_baseline(phase),
        };
        ErrorMessage {
            session_id: None,
            request_id: None,
            error_message: code.text().parse().ok(),
            error_code: code,
            details: self.details(),
            stream: None,
            error_jws: None,
            extensions: None,
            enc: None,
        }
    }

    /// The bytes of an unsigned error in a session, as it goes to a peer of this kind.
    #[must_use]
    pub fn to_unsigned(
        &self,
        binding: Binding,
        session_id: Option<&Unparsed<SessionId>>,
        request_id: Option<&Unparsed<RequestId>>,
    ) -> Vec<u8> {
        let mut message = self.to_message(binding, Phase::Session);
        message.session_id = session_id.cloned();
        message.request_id = request_id.cloned();
        bytes(Message::Error(message))
    }
}

/// How strongly a peer binds what it signs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Binding {
    /// As the profile says.
    Profile,
    /// As the base specification alone says.
    Baseline,
}

impl Binding {
    /// The word of a record.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Profile => "profile",
            Self::Baseline => "baseline",
        }
    }

    pub(crate) const fn peer(self) -> a2a_identity::Peer {
        match self {
            Self::Profile => a2a_identity::Peer::Profile,
            Self::Baseline => a2a_identity::Peer::Baseline,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.cause)
    }
}

impl std::error::Error for Failure {}

impl From<WireError> for Failure {
    fn from(error: WireError) -> Self {
        let mut failure = Self::new(error.code(), error.to_string());
        failure.reason = error.reason();
        match &error {
            WireError::Field(field) if !field.path.is_empty() => {
                failure.with_text("field", field.path.clone())
            }
            WireError::TooLarge { size, limit } => failure
                .with_number("size", u64::try_from(*size).unwrap_or(u64::MAX))
                .with_number("limit", u64::try_from(*limit).unwrap_or(u64::MAX)),
            WireError::Field(_) | WireError::Json(_) | WireError::UnknownType(_) => failure,
        }
    }
}

impl From<FieldError> for Failure {
    fn from(error: FieldError) -> Self {
        WireError::from(error).into()
    }
}

impl From<JwsError> for Failure {
    fn from(error: JwsError) -> Self {
        let reason = match &error {
            JwsError::TooLong => Reason::BadField,
            JwsError::Form(_)
            | JwsError::Header(_)
            | JwsError::Typ(_)
            | JwsError::UnknownKey
            | JwsError::UnusableKey(_)
            | JwsError::BadSignature
            | JwsError::Payload(_) => Reason::VerificationFailed,
        };
        Self {
            is_unknown_key: error == JwsError::UnknownKey,
            ..Self::new(error.code(), error.to_string()).because(reason)
        }
    }
}

impl From<ManifestError> for Failure {
    fn from(error: ManifestError) -> Self {
        Self::new(error.code(), format!("manifest: {error}")).because(error.reason())
    }
}

impl From<ResolveError> for Failure {
    fn from(error: ResolveError) -> Self {
        if let ResolveError::Manifest(error) = error {
            return error.into();
        }
        let failure = Self::new(error.code(), error.to_string());
        match failure.code == ErrorCode::ServiceUnavailable {
            true => failure,
            false => failure.because(Reason::VerificationFailed),
        }
    }
}

impl From<NoRandomness> for Failure {
    fn from(error: NoRandomness) -> Self {
        Self::new(ErrorCode::ServiceUnavailable, error.to_string())
    }
}

/// The text of a message.
pub(crate) fn bytes(message: Message) -> Vec<u8> {
    Value::Object(message.to_object()).to_canonical()
}

/// A member that has the right type and the wrong form.
pub(crate) fn bad_field(name: &'static str, cause: impl Into<Cow<'static, str>>) -> Failure {
    Failure::new(ErrorCode::InvalidMessage, cause)
        .because(Reason::BadField)
        .with_text("field", name)
}

/// A peer that is not proven to be who it says; it is told no more than that.
pub(crate) fn unverified(cause: impl Into<Cow<'static, str>>) -> Failure {
    Failure::new(ErrorCode::UnverifiedAgent, cause).because(Reason::VerificationFailed)
}

pub(crate) fn failed(reason: Reason, cause: impl Into<Cow<'static, str>>) -> Failure {
    Failure::new(ErrorCode::HandshakeFailed, cause).because(reason)
}

/// A handshake that is over, or never was: both look alike.
pub(crate) fn timed_out() -> Failure {
    Failure::new(
        ErrorCode::HandshakeTimeout,
        "the handshake is unknown or took too long",
    )
}

pub(crate) fn skewed(server_time: a2a_wire::UnixSeconds) -> Failure {
    failed(Reason::TimestampSkew, "the clocks differ too much")
        .with("server_time", server_time.write())
}

pub(crate) fn replayed(reason: Reason, cause: &'static str) -> Failure {
    Failure::new(ErrorCode::ReplayDetected, cause).because(reason)
}

pub(crate) fn violation(reason: Reason, cause: impl Into<Cow<'static, str>>) -> Failure {
    Failure::new(ErrorCode::PolicyViolation, cause).because(reason)
}

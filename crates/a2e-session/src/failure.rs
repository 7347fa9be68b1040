//! Errors as they are answered: one table of refusals.

use a2e_wire::messages::base::Error;
use a2e_wire::{
    Body, Capability, Charset, DecodeError, Envelope, ErrorCode, Message, Namespace, Object, Retry,
    Sender, Tag, Timestamp,
};

/// Why a request was not answered with what it asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct Failure {
    /// The code.
    pub code: ErrorCode<'static>,
    /// What went wrong, for a person.
    pub message: String,
    /// What went wrong, for a program.
    pub detail: Object<'static>,
    /// Whether the same request may succeed later.
    pub retryable: bool,
    /// The capability that failed.
    pub capability: Option<Capability<'static>>,
}

fn object(json: &str) -> Object<'static> {
    Object::parse(json)
        .map(a2e_wire::wire::ToStatic::to_static)
        .unwrap_or_default()
}

impl Failure {
    /// A failure in a namespace, with the retry hint that the table of codes has for it.
    #[must_use]
    pub fn new(code: ErrorCode<'static>, namespace: Namespace, message: impl Into<String>) -> Self {
        Self {
            retryable: code.retry(namespace) == Retry::Yes,
            code,
            message: message.into(),
            detail: Object::EMPTY,
            capability: namespace.capability(),
        }
    }

    /// The same failure with a `reason` in its detail.
    #[must_use]
    pub fn because(mut self, reason: &'static str) -> Self {
        self.detail = object(&format!("{{\"reason\":\"{reason}\"}}"));
        self
    }

    /// The message that tells a peer.
    #[must_use]
    pub fn into_message(self) -> Error<'static> {
        Error {
            code: self.code,
            message: self.message.into(),
            detail: self.detail,
            retryable: self.retryable,
            capability_name: self
                .capability
                .map_or_else(String::new, |capability| capability.to_string())
                .into(),
        }
    }
}

impl Failure {
    /// The line that tells a peer who has asked nothing.
    #[must_use]
    pub fn into_line(self) -> Vec<u8> {
        let mut line = Vec::new();
        let envelope = Envelope::new("", Timestamp::default());
        Message::<'_, Body<'_>>::new(envelope, self.into_message())
            .encode_to(&mut line, Charset::Utf8);
        line
    }
}

impl From<Error<'static>> for Failure {
    fn from(error: Error<'static>) -> Self {
        Self {
            code: error.code,
            message: error.message.into_owned(),
            detail: error.detail,
            retryable: error.retryable,
            capability: Capability::from_name(&error.capability_name),
        }
    }
}

impl From<&DecodeError> for Failure {
    fn from(error: &DecodeError) -> Self {
        let tag = Tag::parse(&error.type_name, Sender::Agent);
        let namespace = tag.map_or(Namespace::Base, Tag::namespace);
        Self::new(error.code.clone(), namespace, error.to_string())
    }
}

/// The refusals of a session, one function each.
pub mod failures {
    use a2e_wire::{Capability, ErrorCode, Namespace, Tag};

    use super::{Failure, object};

    /// A request before the handshake, where agents must authenticate.
    #[must_use]
    pub fn unauthorized() -> Failure {
        let text = "shake hands first: send handshake/req with a valid auth_token";
        Failure::new(ErrorCode::Unauthorized, Namespace::Base, text)
    }

    /// A request before the handshake, where they need not.
    #[must_use]
    pub fn no_handshake(namespace: Namespace) -> Failure {
        let text = "shake hands first: send handshake/req with the capabilities you want";
        Failure::new(ErrorCode::CapabilityMissing, namespace, text)
    }

    /// A capability that was not accepted in the handshake.
    #[must_use]
    pub fn capability_missing(capability: Capability<'static>) -> Failure {
        let text = format!("the capability `{capability}` was not accepted in the handshake");
        Failure {
            capability: Some(capability),
            ..Failure::new(ErrorCode::CapabilityMissing, Namespace::Base, text)
        }
    }

    /// More requests wait than the session allows.
    #[must_use]
    pub fn queue_full(namespace: Namespace) -> Failure {
        let text = "too many requests wait in this session; try again when some are answered";
        let mut failure = Failure::new(ErrorCode::RuntimeError, namespace, text);
        failure.retryable = true;
        failure.because("queue_full")
    }

    /// A type that nobody serves.
    #[must_use]
    pub fn unknown_type(name: &str) -> Failure {
        let name: String = name.chars().take(64).collect();
        let text = format!("nobody here serves messages of type `{name}`");
        Failure::new(ErrorCode::InvalidMessage, Namespace::Base, text)
    }

    /// A type that only the other side may send.
    #[must_use]
    pub fn wrong_direction(tag: Tag) -> Failure {
        let text = format!("`{}` is not for this side to answer", tag.as_str());
        Failure::new(ErrorCode::InvalidMessage, tag.namespace(), text)
    }

    /// A request that took too long.
    #[must_use]
    pub fn timeout(namespace: Namespace) -> Failure {
        Failure::new(
            ErrorCode::Timeout,
            namespace,
            "the time limit of the request has passed",
        )
    }

    /// A request that its agent has withdrawn.
    #[must_use]
    pub fn withdrawn(namespace: Namespace) -> Failure {
        let text = "the request was withdrawn";
        Failure::new(ErrorCode::Timeout, namespace, text).because("withdrawn")
    }

    /// A request that waited or was held when another session began on its connection.
    #[must_use]
    pub fn superseded(namespace: Namespace) -> Failure {
        let text = "another handshake began a new session on this connection before the request was \
                    started; send it again in this one";
        Failure::new(ErrorCode::RuntimeError, namespace, text).because("withdrawn")
    }

    /// A request that the end of its session cut off.
    #[must_use]
    pub fn closing(namespace: Namespace) -> Failure {
        let text = "the session is closing";
        Failure::new(ErrorCode::Timeout, namespace, text).because("closing")
    }

    /// A request that was not executed, or had no lasting effect, when the host was restarted.
    #[must_use]
    pub fn restarted() -> Failure {
        let text = "the host was restarted before it responded; send the request again";
        let mut failure = Failure::new(ErrorCode::RuntimeError, Namespace::Base, text);
        failure.retryable = true;
        failure.because("host_restarted")
    }

    /// A request that was interrupted while it was executed, and may have had an effect: by its time
    /// limit, its cancellation, the end of its session or of the host's process, or a crash.
    #[must_use]
    pub fn interrupted() -> Failure {
        let text = "the request was interrupted before it responded: whether it was done is not known, and \
                    it is not executed again under this id; check what it was to do before you send it \
                    with a fresh one";
        let mut failure = Failure::new(ErrorCode::RuntimeError, Namespace::Base, text);
        failure.retryable = false;
        failure.because("host_restarted")
    }

    /// Messages that a peer has not seen, and that are no longer kept.
    #[must_use]
    pub fn missed(from: u64, to: u64) -> Failure {
        let text = format!(
            "messages {from} to {to} are gone; send requests that got no answer again, with their ids"
        );
        let mut failure = Failure::new(ErrorCode::RuntimeError, Namespace::Base, text);
        failure.detail = object(&format!(
            "{{\"reason\":\"missed\",\"missed\":[{from},{to}]}}"
        ));
        failure
    }

    /// An id that this agent has used for another request.
    #[must_use]
    pub fn id_reused(namespace: Namespace) -> Failure {
        let text = "another request of yours has this id; use a fresh one";
        Failure::new(ErrorCode::InvalidMessage, namespace, text).because("id_reused")
    }

    /// More connections of one source without a handshake than the host allows.
    #[must_use]
    pub fn too_many_newcomers() -> Failure {
        let text = "too many connections from where you are have not shaken hands; try again later";
        let mut failure = Failure::new(ErrorCode::RuntimeError, Namespace::Base, text);
        failure.retryable = true;
        failure.because("too_many_newcomers")
    }

    /// A session that ended because too many bytes waited in the sessions of its agent, or of all.
    #[must_use]
    pub fn memory_limit() -> Failure {
        let text = "this session has ended: more bytes waited to be read by you, or to be served, than \
                    the host has room for; read responses while you send requests, or have the operator \
                    raise `global_limits.max_buffered_per_agent` and `global_limits.max_buffered`";
        let mut failure = Failure::new(ErrorCode::RuntimeError, Namespace::Base, text);
        failure.retryable = true;
        failure.because("memory_limit")
    }

    /// More sessions than the host allows.
    #[must_use]
    pub fn too_many_sessions() -> Failure {
        let text = "the host has as many sessions as it allows (`global_limits.max_sessions`); try again \
                    later";
        let mut failure = Failure::new(ErrorCode::RuntimeError, Namespace::Base, text);
        failure.retryable = true;
        failure.because("too_many_sessions")
    }
}

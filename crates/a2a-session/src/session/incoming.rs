//! A message to the request address, of which no more is known than that it is one (§10.3, step 0).

use a2a_wire::{
    Cancel, Close, Encrypted, ErrorCode, Kind, Message, Reason, Received, Request, RequestId,
    SessionId, Unparsed,
};

use super::record::{Check, Record};
use crate::failure::{Binding, Failure, violation};
use crate::{Now, Refusal};

/// A request, a cancellation or the end of a session, as it came.
#[derive(Debug)]
pub struct Incoming<'a> {
    received: Received<'a>,
    size: usize,
}

impl<'a> Incoming<'a> {
    /// Reads a message of at most `limit` bytes. `header` is the `X-Session-ID` that came with it.
    ///
    /// # Errors
    /// What is refused, and the unsigned error to send.
    pub fn read(
        now: Now,
        bytes: &'a [u8],
        limit: usize,
        header: Option<&str>,
    ) -> Result<Self, Box<Refusal>> {
        let refuse = |failure: Failure| Refusal::unsigned(now, failure, None, None);
        let received = Received::parse(bytes, limit).map_err(|error| refuse(error.into()))?;
        let incoming = Self {
            received,
            size: bytes.len(),
        };
        let Some((session_id, request_id)) = incoming.ids() else {
            let cause = "a message of this type does not belong here";
            let failure = Failure::new(ErrorCode::InvalidMessage, cause);
            return Err(refuse(failure.because(Reason::UnknownType)));
        };
        if header.is_some_and(|header| header != session_id.as_str()) {
            let cause = "X-Session-ID is not the session of the message";
            let failure = Failure::new(ErrorCode::InvalidMessage, cause);
            let failure = failure.because(Reason::HeaderMismatch);
            return Err(Refusal::unsigned(now, failure, None, Some(request_id)));
        }
        Ok(incoming)
    }

    /// The session it says it belongs to.
    #[must_use]
    pub fn session_id(&self) -> &str {
        self.ids().map_or("", |(session_id, _)| session_id.as_str())
    }

    /// What to answer if there is no such session: the same as if it had ended.
    #[must_use]
    pub fn no_session(&self, now: Now) -> Box<Refusal> {
        let cause = "there is no such session, or it has ended";
        let failure = Failure::new(ErrorCode::SessionExpired, cause);
        let (session_id, request_id) = self.ids().unzip();
        let mut refusal = Refusal::unsigned(now, failure, session_id, request_id);
        refusal.record.checks.session_valid = Check::Failed;
        refusal
    }

    pub(crate) fn kind(&self) -> Kind {
        self.received.message().kind()
    }

    pub(crate) const fn received(&self) -> &Received<'a> {
        &self.received
    }

    pub(crate) const fn size(&self) -> usize {
        self.size
    }

    pub(crate) fn request_id(&self) -> Option<&Unparsed<RequestId>> {
        self.ids().map(|(_, request_id)| request_id)
    }

    pub(crate) fn encrypted(&self) -> Option<&Encrypted> {
        match Ask::of(self.received.message())? {
            Ask::Request(message) => message.enc.as_ref(),
            Ask::Cancel(message) => message.enc.as_ref(),
            Ask::Close(message) => message.enc.as_ref(),
        }
    }

    fn ids(&self) -> Option<(&Unparsed<SessionId>, &Unparsed<RequestId>)> {
        Some(match Ask::of(self.received.message())? {
            Ask::Request(message) => (&message.session_id, &message.request_id),
            Ask::Cancel(message) => (&message.session_id, &message.request_id),
            Ask::Close(message) => (&message.session_id, &message.request_id),
        })
    }
}

/// What a client may send in a session.
pub(crate) enum Ask<'m> {
    Request(&'m Request),
    Cancel(&'m Cancel),
    Close(&'m Close),
}

impl<'m> Ask<'m> {
    pub(crate) const fn of(message: &'m Message) -> Option<Self> {
        match message {
            Message::Request(message) => Some(Self::Request(message)),
            Message::Cancel(message) => Some(Self::Cancel(message)),
            Message::Close(message) => Some(Self::Close(message)),
            Message::Hello(_)
            | Message::Challenge(_)
            | Message::Proof(_)
            | Message::Policy(_)
            | Message::AcceptPolicy(_)
            | Message::Session(_)
            | Message::Response(_)
            | Message::Error(_)
            | Message::ResponseChunk(_) => None,
        }
    }
}

impl Refusal {
    pub(crate) fn unsigned(
        now: Now,
        failure: Failure,
        session_id: Option<&Unparsed<SessionId>>,
        request_id: Option<&Unparsed<RequestId>>,
    ) -> Box<Self> {
        let well_formed = request_id.and_then(|id| id.parse().ok());
        let well_formed = well_formed.map(|id: RequestId| id.to_string());
        let mut record = Record::unknown(now.monotonic, well_formed);
        record.refuse(&failure);
        Box::new(Self {
            message: failure.to_unsigned(Binding::Profile, session_id, request_id),
            failure,
            record: Box::new(record),
        })
    }
}

/// A message in the clear in a session that is encrypted.
pub(crate) fn not_encrypted() -> Failure {
    violation(
        Reason::EncryptionRequired,
        "the session is encrypted and the message is not",
    )
}

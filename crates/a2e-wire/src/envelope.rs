//! What every message has: version, id, time, and which request it belongs to.

use std::borrow::Cow;

use crate::record::field;
use crate::wire::{Decode, Encode, MemberSource, Writer};
use crate::{Invalid, MAX_ID, MessageId, Timestamp};

/// The protocol version that is sent.
pub const VERSION: &str = "1.0";

/// What every message has beside its own fields. The `type` is the body's.
#[derive(Debug, Clone, PartialEq)]
pub struct Envelope<'a> {
    /// Unique per message; empty if the sender gave none.
    pub id: MessageId<'a>,
    /// When it was sent; if the sender did not say, when it was received.
    pub ts: Timestamp,
    /// The protocol version it claims.
    pub version: Version<'a>,
    /// Of a response or an event: the request it belongs to.
    pub req_id: MessageId<'a>,
    /// Its number among the messages of its session, where sessions can be resumed (1, 2, …).
    pub eid: Option<u64>,
    /// The `type` as spelled by the sender, where that is not the catalogue's spelling.
    pub spelling: Option<Cow<'a, str>>,
}

/// A protocol version as a message states it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version<'a>(Cow<'a, str>);

impl<'a> Envelope<'a> {
    /// The names of its members on the wire.
    pub(crate) const NAMES: [&'static str; 7] =
        ["a2e", "version", "type", "id", "ts", "req_id", "eid"];

    /// The envelope of a message to be sent.
    #[must_use]
    pub fn new(id: impl Into<MessageId<'a>>, ts: Timestamp) -> Self {
        Self {
            id: id.into(),
            ts,
            version: Version::default(),
            req_id: MessageId::default(),
            eid: None,
            spelling: None,
        }
    }

    /// The same envelope, as a response to or an event of that request.
    #[must_use]
    pub fn in_reply_to(mut self, request: impl Into<MessageId<'a>>) -> Self {
        self.req_id = request.into();
        self
    }

    /// The same envelope, independent of the text it was read from.
    #[must_use]
    pub fn into_owned(self) -> Envelope<'static> {
        use crate::wire::ToStatic;
        Envelope {
            id: self.id.to_static(),
            ts: self.ts,
            version: Version(self.version.0.to_static()),
            req_id: self.req_id.to_static(),
            eid: self.eid,
            spelling: self.spelling.to_static(),
        }
    }

    /// Writes the members every message has; `req_id` only where the message carries one.
    pub(crate) fn write(&self, out: &mut Writer<'_>, type_name: &str, carries_req_id: bool) {
        out.literal(r#"{"a2e":"1.0","version":"1.0","type":"#);
        out.string(self.spelling.as_deref().unwrap_or(type_name));
        out.key("\"id\":");
        self.id.encode(out);
        out.key("\"ts\":");
        self.ts.encode(out);
        if carries_req_id {
            out.key("\"req_id\":");
            self.req_id.encode(out);
        }
        if let Some(eid) = self.eid {
            out.key("\"eid\":");
            out.unsigned(eid);
        }
    }
}

/// An envelope that is being read, member by member.
#[derive(Debug)]
pub(crate) struct EnvelopeReader<'a> {
    envelope: Envelope<'a>,
    type_name: Option<Cow<'a, str>>,
    seed_version: Option<Cow<'a, str>>,
    sdk_version: Option<Cow<'a, str>>,
    id_seen: bool,
    error: Option<Invalid>,
}

/// What an [`EnvelopeReader`] came to. What could be read stands here even beside an error, so that
/// the error can be answered.
#[derive(Debug)]
pub(crate) struct ReadEnvelope<'a> {
    pub(crate) envelope: Envelope<'a>,
    pub(crate) type_name: Option<Cow<'a, str>>,
    pub(crate) error: Option<Invalid>,
}

impl<'a> EnvelopeReader<'a> {
    /// `received` stands in for a missing `ts`.
    pub(crate) fn new(received: Timestamp) -> Self {
        Self {
            envelope: Envelope::new("", received),
            type_name: None,
            seed_version: None,
            sdk_version: None,
            id_seen: false,
            error: None,
        }
    }

    /// Takes a member if it is the envelope's; says whether it did.
    #[inline]
    pub(crate) fn take<M: MemberSource<'a>>(&mut self, name: &[u8], member: &mut M) -> bool {
        match name {
            b"type" => self.set("type", member, |this, text| this.type_name = Some(text)),
            b"id" => self.set("id", member, Self::set_id),
            b"ts" => self.set("ts", member, |this, ts| this.envelope.ts = ts),
            b"req_id" => self.set("req_id", member, |this, id| {
                this.envelope.req_id = this.checked(id, "req_id");
            }),
            b"a2e" => self.set("a2e", member, |this, text| this.seed_version = Some(text)),
            b"version" => self.set("version", member, |this, text| {
                this.sdk_version = Some(text)
            }),
            // Ours alone: to another peer the key may mean anything.
            b"eid" => match member.value().cursor.number() {
                Some(number) => self.envelope.eid = number.parse().ok(),
                None => member.skip(),
            },
            _ => return false,
        }
        true
    }

    pub(crate) const fn has_failed(&self) -> bool {
        self.error.is_some()
    }

    pub(crate) fn finish(mut self) -> ReadEnvelope<'a> {
        // If both are there and differ, the seed's key decides; neither means 1.0.
        if let Some(version) = self.seed_version.or(self.sdk_version) {
            self.envelope.version = Version(version);
        }
        ReadEnvelope {
            envelope: self.envelope,
            type_name: self.type_name,
            error: self.error,
        }
    }

    /// A message with several ids has none to answer to; the scan refuses it.
    fn set_id(&mut self, id: MessageId<'a>) {
        let id = self.checked(id, "id");
        self.envelope.id = match self.id_seen {
            true => MessageId::default(),
            false => id,
        };
        self.id_seen = true;
    }

    /// An id of bearable length; a longer one is an error, and none to answer to.
    fn checked(&mut self, id: MessageId<'a>, name: &str) -> MessageId<'a> {
        if id.as_str().len() <= MAX_ID {
            return id;
        }
        let invalid = Invalid::value("at most 1024 bytes", "longer").at_field(name);
        self.error.get_or_insert(invalid);
        MessageId::default()
    }

    #[inline]
    fn set<T: Decode<'a>, M: MemberSource<'a>>(
        &mut self,
        name: &str,
        member: &mut M,
        store: impl FnOnce(&mut Self, T),
    ) {
        match field(member, name) {
            Ok(value) => store(self, value),
            Err(error) => {
                self.error.get_or_insert(error);
            }
        }
    }
}

impl Version<'_> {
    /// Whether this implementation speaks it: every 1.x.
    #[must_use]
    pub fn is_supported(&self) -> bool {
        let major = self.0.split_once('.').map_or(&*self.0, |(major, _)| major);
        major == "1"
    }

    /// The version as stated.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for Version<'_> {
    fn default() -> Self {
        Self(Cow::Borrowed(VERSION))
    }
}

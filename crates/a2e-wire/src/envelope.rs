//! What every message has: version, id, time, and which request it belongs to.

use std::borrow::Cow;

use crate::record::field;
use crate::wire::{Encode, MemberSource, Writer};
use crate::{Invalid, MessageId, Timestamp};

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

    /// Reads the envelope's own members and the `type` among all of a message's.
    ///
    /// What could be read before an error stays in the result, so that the error can be answered.
    pub(crate) fn read<M: MemberSource<'a>>(
        members: &mut M,
    ) -> (Self, Option<Cow<'a, str>>, Result<(), Invalid>) {
        let mut envelope = Self::new("", members.ts());
        let mut type_name = None;
        let mut result = Ok(());
        let mut seed_version = None;
        let mut sdk_version = None;
        while let Some(name) = members.next_name() {
            let outcome = match &*name {
                "type" => field(members, "type").map(|text| type_name = Some(text)),
                "id" => field(members, "id").map(|id| envelope.id = id),
                "ts" => field(members, "ts").map(|ts| envelope.ts = ts),
                "req_id" => field(members, "req_id").map(|id| envelope.req_id = id),
                "a2e" => field(members, "a2e").map(|text| seed_version = Some(text)),
                "version" => field(members, "version").map(|text| sdk_version = Some(text)),
                // Ours alone: to another peer the key may mean anything.
                "eid" if let Some(eid) = members.value().cursor.number() => {
                    envelope.eid = eid.parse().ok();
                    Ok(())
                }
                _ => {
                    members.skip();
                    Ok(())
                }
            };
            if result.is_ok() && outcome.is_err() {
                result = outcome;
            }
        }
        // If both are there and differ, the seed's key decides; neither means 1.0.
        if let Some(version) = seed_version.or(sdk_version) {
            envelope.version = Version(version);
        }
        if type_name.is_none() {
            result = result.and_then(|()| Err(Invalid::missing().at_field("type")));
        }
        (envelope, type_name, result)
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
            i64::try_from(eid).unwrap_or(i64::MAX).encode(out);
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

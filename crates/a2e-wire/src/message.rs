//! Messages: an envelope and a body, and what can be said of their types.

use std::borrow::Cow;

use strict_json::{Charset, Cursor, Raw};

use crate::envelope::EnvelopeReader;
use crate::wire::{
    Decode, Describe, Encode, FromMembers, MemberSource, Reader, ToStatic, WriteMembers, Writer,
};
use crate::{Body, Envelope, Invalid, Tag, Timestamp};

/// Who may send a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Only the agent.
    AgentToHost,
    /// Only the host.
    HostToAgent,
    /// Either.
    Both,
}

/// One end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sender {
    /// The agent, which connects and asks.
    Agent,
    /// The host, which has the capabilities.
    Host,
}

/// What a message is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageKind {
    /// Asks for something.
    Request,
    /// Answers a request, once.
    Response,
    /// Tells of a request's progress, before its response.
    Event,
    /// Tells of something nobody asked for.
    Push,
    /// Ends the session; there is no answer.
    Notice,
}

/// A message: what every message has, and what this one says.
#[derive(Debug, Clone, PartialEq)]
pub struct Message<'a, B = Body<'a>> {
    /// What every message has.
    pub envelope: Envelope<'a>,
    /// What this one says.
    pub body: B,
}

/// A message of a type that the table does not have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unknown<'a> {
    /// Its `type`.
    pub type_name: Cow<'a, str>,
    /// Its members, a JSON object. Those of the envelope may be among them; the [`Message`]'s own envelope
    /// is what is sent.
    pub raw: Raw<'a>,
}

/// The body of one type of message.
pub trait Payload {
    /// Its type.
    const TAG: Tag;
}

/// A body that asks for something, and the body that answers it.
pub trait Request: Payload {
    /// What answers it.
    type Response: TryFrom<Body<'static>, Error = Box<Body<'static>>> + Payload;
}

/// Stands for a type of message, whatever its body borrows: its place in [`Tag`].
#[derive(Debug, Clone, Copy)]
pub struct Of<const TAG: usize>;

/// A type of message that has a body: every [`Of`] a [`Tag`].
pub trait Spoken {
    /// The body.
    type Body<'a>;
}

impl Unknown<'_> {
    /// Writes the message in an envelope. Members of its own that have a name of the envelope's are left
    /// out, so that no name is written twice.
    pub(crate) fn write(&self, envelope: &Envelope<'_>, out: &mut Writer<'_>) {
        envelope.write(out, &self.type_name, !envelope.req_id.is_empty());
        let mut cursor = Cursor::new(self.raw.checked());
        if let Some(mut open) = cursor.begin_object() {
            while let Some(name) = cursor.next_member(&mut open) {
                let value = cursor.raw();
                if !Envelope::NAMES.contains(&&*name) {
                    out.separate(b'{');
                    out.string(&name);
                    out.push(b':');
                    out.checked(value);
                }
            }
        }
        out.push(b'}');
    }
}

impl Tag {
    /// The type that a sender means by a spelling.
    ///
    /// The catalogue's spelling decides, unless the sender may not send that message while another
    /// one that it may send is also taken under the same spelling (`env/plan/resp` from an agent).
    #[must_use]
    pub fn parse(text: &str, sender: Sender) -> Option<Self> {
        let canonical = Self::canonical(text);
        if canonical.is_some_and(|tag| tag.may_be_sent_by(sender)) {
            return canonical;
        }
        let aliased = Self::aliased(text);
        match canonical {
            Some(_) => aliased
                .filter(|tag| tag.may_be_sent_by(sender))
                .or(canonical),
            None => aliased,
        }
    }

    /// Whether that end may send it.
    #[must_use]
    pub fn may_be_sent_by(self, sender: Sender) -> bool {
        match self.direction() {
            Direction::AgentToHost => sender == Sender::Agent,
            Direction::HostToAgent => sender == Sender::Host,
            Direction::Both => true,
        }
    }

    /// Whether it names the request it belongs to.
    #[must_use]
    pub const fn carries_req_id(self) -> bool {
        match self.kind() {
            MessageKind::Response | MessageKind::Event => true,
            MessageKind::Request | MessageKind::Push | MessageKind::Notice => false,
        }
    }

    /// How to spell the response to a request that was spelled `asked`: in the same way.
    #[must_use]
    pub fn response_spelling(self, asked: &str) -> Option<&'static str> {
        let response = self.response()?;
        let stem = asked.strip_suffix("/req").unwrap_or(asked);
        let alias = response
            .aliases()
            .iter()
            .find(|alias| alias.strip_suffix("/resp") == Some(stem));
        Some(alias.copied().unwrap_or_else(|| response.as_str()))
    }
}

/// Whether a message of unknown type looks like a request, which must be answered.
#[must_use]
pub fn looks_like_request(type_name: &str) -> bool {
    const NOT_REQUESTS: [&str; 6] = ["/resp", "/event", "/push", "_push", "_RESP", "_EVENT"];
    !matches!(type_name, "error" | "pong")
        && !NOT_REQUESTS.iter().any(|end| type_name.ends_with(end))
}

impl<'a, B> Message<'a, B> {
    /// A message to be sent.
    #[must_use]
    pub fn new(envelope: Envelope<'a>, body: impl Into<B>) -> Self {
        Self {
            envelope,
            body: body.into(),
        }
    }

    /// Appends the message as compact JSON, without a newline.
    pub fn encode_to(&self, out: &mut Vec<u8>, charset: Charset)
    where
        Self: Encode,
    {
        self.encode(&mut Writer::new(out, charset));
    }
}

impl Message<'_> {
    /// The `type` on the wire.
    #[must_use]
    pub fn type_name(&self) -> &str {
        match (&self.envelope.spelling, &self.body, self.body.tag()) {
            (_, Body::Unknown(unknown), _) => &unknown.type_name,
            (Some(spelling), ..) => spelling,
            (None, _, tag) => tag.map_or("", Tag::as_str),
        }
    }

    /// The same message, independent of the text it was read from.
    #[must_use]
    pub fn into_owned(self) -> Message<'static> {
        Message {
            envelope: self.envelope.into_owned(),
            body: self.body.to_static(),
        }
    }
}

/// Writes a whole message.
pub(crate) fn encode<B: Payload + WriteMembers>(
    envelope: &Envelope<'_>,
    body: &B,
    out: &mut Writer<'_>,
) {
    envelope.write(out, B::TAG.as_str(), B::TAG.carries_req_id());
    body.write_members(out);
    out.push(b'}');
}

// Some messages contain whole messages of another type: a tool's result lists its events.

impl<'de: 'a, 'a, B: Payload + FromMembers<'de>> Decode<'de> for Message<'a, B> {
    fn decode(reader: &mut Reader<'de>) -> Result<Self, Invalid> {
        reader.record::<Nested<'_, B>>().map(|nested| nested.0)
    }
}

/// A message inside another, where even the type may be missing.
struct Nested<'a, B>(Message<'a, B>);

/// The members of a nested message but those of its envelope, which are taken on the way: there may
/// be thousands of such messages, and each is read once.
struct Inner<'m, 'de, M> {
    members: &'m mut M,
    envelope: EnvelopeReader<'de>,
}

impl<'de: 'a, 'a, B: Payload + FromMembers<'de>> FromMembers<'de> for Nested<'a, B> {
    fn from_members<M: MemberSource<'de>>(members: &mut M) -> Result<Self, Invalid> {
        let envelope = EnvelopeReader::new(members.ts());
        let mut inner = Inner { members, envelope };
        let body = B::from_members(&mut inner);
        let read = inner.envelope.finish();
        if let Some(error) = read.error {
            return Err(error);
        }
        if read.type_name.is_some_and(|name| name != B::TAG.as_str()) {
            let expected = B::TAG.as_str();
            return Err(Invalid::value(expected, "another type").at_field("type"));
        }
        Ok(Self(Message {
            envelope: read.envelope,
            body: body?,
        }))
    }
}

impl<'de, M: MemberSource<'de>> MemberSource<'de> for Inner<'_, 'de, M> {
    fn next_name(&mut self) -> Option<Cow<'de, str>> {
        // What was not taken has not been passed either.
        while !self.envelope.has_failed() {
            let name = self.members.next_name()?;
            if !self.envelope.take(name.as_bytes(), self.members) {
                return Some(name);
            }
        }
        None
    }

    fn value(&mut self) -> &mut Reader<'de> {
        self.members.value()
    }

    fn plain_string(&mut self) -> Option<&'de str> {
        self.members.plain_string()
    }

    fn skip(&mut self) {
        self.members.skip();
    }

    fn ts(&self) -> Timestamp {
        self.members.ts()
    }
}

impl<B: Payload + WriteMembers> Encode for Message<'_, B> {
    fn encode(&self, out: &mut Writer<'_>) {
        encode(&self.envelope, &self.body, out);
    }
}

impl<B: Payload> Describe for Message<'_, B> {
    fn wire_type() -> String {
        B::TAG.as_str().into()
    }
}

impl<B: Payload + ToStatic> ToStatic for Message<'_, B> {
    type Static = Message<'static, B::Static>;

    fn to_static(self) -> Self::Static {
        Message {
            envelope: self.envelope.into_owned(),
            body: self.body.to_static(),
        }
    }
}

//! From a line to a message: checked whole, envelope first, body by type.

use std::borrow::Cow;

use strict_json::{Checked, Fault, Limits, Member, Raw, Remember, Scanner, utf8};

use crate::envelope::{EnvelopeReader, ReadEnvelope};
use crate::error::{Cause, shortened};
use crate::message::Unknown;
use crate::wire::{MemberSource, Reader, ToStatic};
use crate::{Body, DecodeError, Envelope, ErrorCode, Invalid, Message, Sender, Tag, Timestamp};

/// Reads messages. One decoder serves any number of lines without allocating for itself.
///
/// ```
/// use a2e_wire::{Body, Decoder, Sender, Timestamp};
///
/// let line = br#"{"a2e":"1.0","type":"tool/call/req","id":"7","ts":1.5,
///                 "tool_name":"echo","arguments":{"text":"hi"}}"#;
/// let mut decoder = Decoder::default();
/// let message = decoder.decode(line, Sender::Agent, Timestamp::default())?;
/// let Body::ToolCallRequest(call) = message.body else { panic!() };
/// assert_eq!(call.tool_name, "echo");
/// assert_eq!(call.arguments.raw().as_str(), r#"{"text":"hi"}"#);
/// assert_eq!(call.timeout, 30);
/// # Ok::<(), a2e_wire::DecodeError>(())
/// ```
#[derive(Debug, Default)]
pub struct Decoder {
    scanner: Scanner,
}

/// A line that is JSON we take and has a readable envelope; its body has not been read yet.
#[derive(Debug)]
pub struct Frame<'s, 'a> {
    scanner: &'s Scanner,
    /// The whole line.
    line: &'a str,
    /// The message within the line.
    value: Checked<'a>,
    envelope: Envelope<'a>,
    type_name: Cow<'a, str>,
    tag: Option<Tag>,
}

impl Decoder {
    /// A decoder with these limits on nesting and size.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            scanner: Scanner::new(limits),
        }
    }

    /// Checks a line and reads its envelope. `received` stands in for a missing `ts`.
    ///
    /// # Errors
    /// `parse_error` if it is not a JSON object, `schema_violation` if it has a duplicate member
    /// name at any depth, nests too deep, or its envelope is wrong, `version_mismatch` if it is of
    /// another protocol version.
    pub fn frame<'s, 'a>(
        &'s mut self,
        line: &'a [u8],
        sender: Sender,
        received: Timestamp,
    ) -> Result<Frame<'s, 'a>, DecodeError> {
        let line = utf8(line).map_err(unreadable)?;
        let mut reader = EnvelopeReader::new(received);
        let scan = self.scanner.scan_with(line, |member| {
            let mut value = One::new(member, received);
            let taken = match member.plain_name() {
                Some(name) => reader.take(name, &mut value),
                None => reader.take(member.name().as_bytes(), &mut value),
            };
            match taken {
                true => Remember::No,
                false => Remember::Yes,
            }
        });
        let read = reader.finish();
        let is_object = line.trim_ascii_start().starts_with('{');
        let value = match scan {
            Ok(value) => value,
            Err(fault) if fault.kind.breaks_grammar() => return Err(unreadable(fault)),
            Err(_) if !is_object => return Err(DecodeError::unreadable(Cause::NotAnObject)),
            Err(fault) => return Err(read.refuse(ErrorCode::SchemaViolation, Cause::Json(fault))),
        };
        if !is_object {
            return Err(DecodeError::unreadable(Cause::NotAnObject));
        }
        // A message of another version may well have other fields.
        if !read.envelope.version.is_supported() {
            let version = Cause::Version(shortened(read.envelope.version.as_str()));
            return Err(read.refuse(ErrorCode::VersionMismatch, version));
        }
        if let Some(invalid) = read.error.clone() {
            return Err(read.refuse(ErrorCode::SchemaViolation, Cause::Field(invalid)));
        }
        let Some(type_name) = read.type_name else {
            let missing = Invalid::missing().at_field("type");
            return Err(read.refuse(ErrorCode::SchemaViolation, Cause::Field(missing)));
        };
        Ok(Frame {
            scanner: &self.scanner,
            line,
            value,
            tag: Tag::parse(&type_name, sender),
            envelope: read.envelope,
            type_name,
        })
    }

    /// Checks a line and reads the whole message.
    ///
    /// # Errors
    /// As [`Decoder::frame`] and [`Frame::decode`].
    pub fn decode<'a>(
        &mut self,
        line: &'a [u8],
        sender: Sender,
        received: Timestamp,
    ) -> Result<Message<'a>, DecodeError> {
        self.frame(line, sender, received)?.decode()
    }
}

impl<'a> Frame<'_, 'a> {
    /// Reads the body.
    ///
    /// # Errors
    /// `schema_violation` if a field of its type is missing or wrong.
    pub fn decode(self) -> Result<Message<'a>, DecodeError> {
        let Some(tag) = self.tag else {
            return Ok(Message {
                envelope: self.envelope,
                body: Body::Unknown(Unknown {
                    type_name: self.type_name,
                    raw: self.value.into(),
                }),
            });
        };
        let mut members = top(self.scanner, self.line, self.envelope.ts);
        let body = Body::read(tag, &mut members).map_err(|invalid| self.refuse(invalid))?;
        let mut envelope = self.envelope;
        if self.type_name != tag.as_str() {
            envelope.spelling = Some(self.type_name);
        }
        Ok(Message { envelope, body })
    }

    /// What every message has.
    #[must_use]
    pub const fn envelope(&self) -> &Envelope<'a> {
        &self.envelope
    }

    /// The type; `None` if the catalogue has none of that spelling.
    #[must_use]
    pub const fn tag(&self) -> Option<Tag> {
        self.tag
    }

    /// The `type` as it is spelled.
    #[must_use]
    pub fn type_name(&self) -> &str {
        &self.type_name
    }

    fn refuse(&self, invalid: Invalid) -> DecodeError {
        DecodeError {
            code: ErrorCode::SchemaViolation,
            id: self.envelope.id.clone().to_static(),
            req_id: self.envelope.req_id.clone().to_static(),
            type_name: shortened(&self.type_name),
            cause: Cause::Field(invalid).into(),
        }
    }
}

fn unreadable(fault: Fault) -> DecodeError {
    DecodeError::unreadable(Cause::Json(fault))
}

impl ReadEnvelope<'_> {
    /// The refusal of a line whose envelope was read as far as this.
    fn refuse(&self, code: ErrorCode<'static>, cause: Cause) -> DecodeError {
        DecodeError {
            code,
            id: self.envelope.id.clone().to_static(),
            req_id: self.envelope.req_id.clone().to_static(),
            type_name: shortened(self.type_name.as_deref().unwrap_or_default()),
            cause: cause.into(),
        }
    }
}

/// One member of the message itself, while the scan is still under way.
struct One<'m, 'a> {
    member: &'m Member<'a>,
    value: Option<Reader<'a>>,
    ts: Timestamp,
}

impl<'m, 'a> One<'m, 'a> {
    const fn new(member: &'m Member<'a>, ts: Timestamp) -> Self {
        Self {
            member,
            value: None,
            ts,
        }
    }
}

impl<'a> MemberSource<'a> for One<'_, 'a> {
    fn next_name(&mut self) -> Option<Cow<'a, str>> {
        None
    }

    #[inline]
    fn value(&mut self) -> &mut Reader<'a> {
        let (member, ts) = (self.member, self.ts);
        self.value
            .get_or_insert_with(|| Reader::new(member.value(), ts))
    }

    #[inline]
    fn plain_string(&mut self) -> Option<&'a str> {
        self.member.plain_string()
    }

    fn skip(&mut self) {}

    fn ts(&self) -> Timestamp {
        self.ts
    }
}

/// The members of the message itself that are not the envelope's, as the scan remembers them.
struct Top<'a, I> {
    members: I,
    current: Option<Member<'a>>,
    value: Reader<'a>,
}

fn top<'s, 'a>(
    scanner: &'s Scanner,
    line: &'a str,
    ts: Timestamp,
) -> Top<'a, impl Iterator<Item = Member<'a>> + use<'s, 'a>> {
    const NULL: &Raw<'static> = &Raw::NULL;
    Top {
        members: scanner.members(line),
        current: None,
        value: Reader::new(NULL.checked(), ts),
    }
}

impl<'a, I: Iterator<Item = Member<'a>>> MemberSource<'a> for Top<'a, I> {
    #[inline]
    fn next_name(&mut self) -> Option<Cow<'a, str>> {
        self.current = self.members.next();
        self.current.map(|member| member.name())
    }

    #[inline]
    fn value(&mut self) -> &mut Reader<'a> {
        if let Some(member) = self.current {
            self.value = Reader::new(member.value(), self.value.ts);
        }
        &mut self.value
    }

    #[inline]
    fn plain_string(&mut self) -> Option<&'a str> {
        self.current?.plain_string()
    }

    #[inline]
    fn skip(&mut self) {}

    fn ts(&self) -> Timestamp {
        self.value.ts
    }
}

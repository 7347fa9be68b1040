//! From a line to a message: checked whole, envelope first, body by type.

use std::borrow::Cow;

use strict_json::{Checked, Limits, Member, Raw, Scanner, utf8};

use crate::error::Cause;
use crate::message::Unknown;
use crate::wire::{MemberSource, Reader};
use crate::{Body, DecodeError, Envelope, ErrorCode, Message, MessageId, Sender, Tag, Timestamp};

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
    /// Which members were the envelope's.
    taken: u64,
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
    /// name at any depth, nests too deep, or its envelope is wrong.
    pub fn frame<'s, 'a>(
        &'s mut self,
        line: &'a [u8],
        sender: Sender,
        received: Timestamp,
    ) -> Result<Frame<'s, 'a>, DecodeError> {
        let line = utf8(line).map_err(|fault| unreadable(Cause::Json(fault)))?;
        let scan = self.scanner.scan(line);
        let scanner = &self.scanner;
        let mut members = top(scanner, line, received, 0);
        let (envelope, type_name, result) = Envelope::read(&mut members);
        let taken = members.taken;
        let refuse = |code, cause: Cause| DecodeError {
            code,
            id: salvaged_id(scanner, line, &envelope),
            type_name: type_name.as_deref().unwrap_or_default().into(),
            cause: cause.into(),
        };
        let value = scan.map_err(|fault| match fault.kind.breaks_grammar() {
            true => unreadable(Cause::Json(fault)),
            false => refuse(ErrorCode::SchemaViolation, Cause::Json(fault)),
        })?;
        if !value.as_str().starts_with('{') {
            return Err(unreadable(Cause::NotAnObject));
        }
        result.map_err(|invalid| refuse(ErrorCode::SchemaViolation, Cause::Field(invalid)))?;
        let type_name = type_name.unwrap_or_default();
        Ok(Frame {
            scanner,
            line,
            value,
            taken,
            tag: Tag::parse(&type_name, sender),
            envelope,
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
    /// `version_mismatch` if the message is of another protocol version, `schema_violation` if a
    /// field of its type is missing or wrong.
    pub fn decode(self) -> Result<Message<'a>, DecodeError> {
        if !self.envelope.version.is_supported() {
            let version = self.envelope.version.as_str().to_owned();
            return Err(self.refuse(ErrorCode::VersionMismatch, Cause::Version(version)));
        }
        let Some(tag) = self.tag else {
            return Ok(Message {
                envelope: self.envelope,
                body: Body::Unknown(Unknown {
                    type_name: self.type_name,
                    raw: self.value.into(),
                }),
            });
        };
        let mut members = top(self.scanner, self.line, self.envelope.ts, self.taken);
        let body = Body::read(tag, &mut members)
            .map_err(|invalid| self.refuse(ErrorCode::SchemaViolation, Cause::Field(invalid)))?;
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

    fn refuse(&self, code: ErrorCode<'static>, cause: Cause) -> DecodeError {
        use crate::wire::ToStatic;
        DecodeError {
            code,
            id: self.envelope.id.clone().to_static(),
            type_name: self.type_name.clone().into_owned(),
            cause: cause.into(),
        }
    }
}

/// A line of which nothing can be told.
fn unreadable(cause: Cause) -> DecodeError {
    DecodeError {
        code: ErrorCode::ParseError,
        id: MessageId::default(),
        type_name: String::new(),
        cause: cause.into(),
    }
}

/// The id to answer to; none if the message has several.
fn salvaged_id(scanner: &Scanner, line: &str, envelope: &Envelope<'_>) -> MessageId<'static> {
    use crate::wire::ToStatic;
    let ids = scanner.members(line).filter(|member| member.name() == "id");
    if ids.count() > 1 {
        return MessageId::default();
    }
    envelope.id.clone().to_static()
}

/// The members of the message itself, as the scan has remembered them.
struct Top<'a, I> {
    members: I,
    /// How many have been named so far.
    count: u32,
    current: Option<Member<'a>>,
    value: Reader<'a>,
    /// One bit for each of the first 64 members: taken by an earlier reader, or by this one.
    taken: u64,
}

fn top<'s, 'a: 's>(
    scanner: &'s Scanner,
    line: &'a str,
    ts: Timestamp,
    taken: u64,
) -> Top<'a, impl Iterator<Item = Member<'a>> + 's> {
    const NULL: &Raw<'static> = &Raw::NULL;
    Top {
        members: scanner.members(line),
        count: 0,
        current: None,
        value: Reader::new(NULL.checked(), ts),
        taken,
    }
}

impl<'a, I> Top<'a, I> {
    /// The bit of the member last named; members past the 64th have none.
    fn bit(&self) -> u64 {
        1_u64
            .checked_shl(self.count.saturating_sub(1))
            .unwrap_or_default()
    }
}

impl<'a, I: Iterator<Item = Member<'a>>> MemberSource<'a> for Top<'a, I> {
    #[inline]
    fn next_name(&mut self) -> Option<Cow<'a, str>> {
        loop {
            let member = self.members.next()?;
            self.count = self.count.saturating_add(1);
            if self.taken & self.bit() == 0 {
                self.current = Some(member);
                return Some(member.name());
            }
        }
    }

    #[inline]
    fn value(&mut self) -> &mut Reader<'a> {
        self.taken |= self.bit();
        if let Some(member) = self.current {
            self.value = Reader::new(member.value(), self.value.ts);
        }
        &mut self.value
    }

    #[inline]
    fn plain_string(&mut self) -> Option<&'a str> {
        let text = self.current?.plain_string()?;
        self.taken |= self.bit();
        Some(text)
    }

    #[inline]
    fn skip(&mut self) {}

    fn ts(&self) -> Timestamp {
        self.value.ts
    }
}

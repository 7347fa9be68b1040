//! One record as one line of text, in exactly one spelling.
//!
//! ```text
//! {"body_hash":…,"event_type":…,"log_id":…,"prev_hash":…,"seq":…,"timestamp":…   the link members
//!  ,"hash":…
//!  ,"body_salt":…,"remote_ip":…,"remote_ip_salt":…                              beside the body
//!  ,<the members of the body>}
//! ```
//!
//! Link members and body are each in their canonical form (RFC 8785), so what is hashed stands in
//! the line as it is: nothing is written twice. After the hash an erased record has `purged_at` and
//! nothing else. A reader that wants any other order, white space or escape gets an error, so there
//! is no byte of a line that could change without being noticed.

mod scan;

use canonical::{Digest, Object, Value, base64url};

use self::scan::Scan;
use crate::body::push_integer;
use crate::random::Salt;
use crate::{FaultKind, UnixMillis};

/// Members that are not the body's.
pub(crate) const RESERVED: &[&str] = &[
    "log_id",
    "seq",
    "timestamp",
    "event_type",
    "prev_hash",
    "body_hash",
    "hash",
    "body_salt",
    "purged_at",
    "remote_ip",
    "remote_ip_salt",
];

/// Bytes of a line, without its end. What is written has far less.
pub const MAX_LINE: usize = 16 * 1024;
/// Bytes of a line that this crate writes, its end included.
pub(crate) const MAX_WRITTEN: usize = 4 * 1024;
/// `prev_hash` of the first record of a log.
pub(crate) const NO_HASH: [u8; 32] = [0; 32];

/// What chains a record to the one before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link<'a> {
    /// The log it belongs to.
    pub log_id: &'a str,
    /// Its number in that log: 1, 2, …
    pub seq: u64,
    /// When it was written.
    pub timestamp: UnixMillis,
    /// What kind of thing happened.
    pub event_type: &'a str,
    /// The hash of the record before it.
    pub prev_hash: Digest,
    /// The salted hash of its body.
    pub body_hash: Digest,
}

/// What stands beside the links.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Content<'a> {
    Body {
        salt: Salt,
        remote_ip: Option<RemoteIp<'a>>,
        /// The members of the body without the brace that opens it: `}`, or `"a":1}`.
        members: &'a [u8],
    },
    Erased {
        purged_at: &'a str,
    },
}

/// An address that can be erased alone.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RemoteIp<'a> {
    pub(crate) text: &'a str,
    pub(crate) salt: Salt,
}

impl RemoteIp<'_> {
    /// What the body says of it.
    pub(crate) fn hash(&self) -> Digest {
        // The longest address has 45 characters.
        let mut salted = [0; 64];
        let bytes = self.salt.0.iter().chain(self.text.as_bytes());
        let mut length = 0;
        for (slot, byte) in salted.iter_mut().zip(bytes) {
            *slot = *byte;
            length += 1;
        }
        Digest::of(salted.get(..length).unwrap_or_default())
    }
}

/// Appends a line with its end; returns the hash of the record.
pub(crate) fn push_line(out: &mut Vec<u8>, link: &Link<'_>, content: &Content<'_>) -> Digest {
    let start = out.len();
    push_link(out, link);
    let hash = Digest::of(out.get(start..).unwrap_or_default());
    // The link members stay as they were hashed; only the object goes on.
    out.pop();
    push_hash(out, b",\"hash\":\"", &hash);
    match content {
        Content::Body {
            salt,
            remote_ip,
            members,
        } => {
            push_salt(out, b",\"body_salt\":\"", salt);
            if let Some(RemoteIp { text, salt }) = remote_ip {
                push_quoted(out, b",\"remote_ip\":\"", text.as_bytes());
                push_salt(out, b",\"remote_ip_salt\":\"", salt);
            }
            if *members != b"}" {
                out.push(b',');
            }
            out.extend_from_slice(members);
        }
        Content::Erased { purged_at } => {
            push_quoted(out, b",\"purged_at\":\"", purged_at.as_bytes());
            out.push(b'}');
        }
    }
    out.push(b'\n');
    hash
}

fn push_link(out: &mut Vec<u8>, link: &Link<'_>) {
    push_hash(out, b"{\"body_hash\":\"", &link.body_hash);
    push_quoted(out, b",\"event_type\":\"", link.event_type.as_bytes());
    push_quoted(out, b",\"log_id\":\"", link.log_id.as_bytes());
    push_hash(out, b",\"prev_hash\":\"", &link.prev_hash);
    out.extend_from_slice(b",\"seq\":");
    push_integer(out, link.seq);
    out.extend_from_slice(b",\"timestamp\":\"");
    link.timestamp.push_to(out);
    out.extend_from_slice(b"\"}");
}

fn push_quoted(out: &mut Vec<u8>, name: &[u8], text: &[u8]) {
    out.extend_from_slice(name);
    out.extend_from_slice(text);
    out.push(b'"');
}

fn push_hash(out: &mut Vec<u8>, name: &[u8], hash: &Digest) {
    out.extend_from_slice(name);
    hash.push_to(out);
    out.push(b'"');
}

fn push_salt(out: &mut Vec<u8>, name: &[u8], salt: &Salt) {
    out.extend_from_slice(name);
    base64url::push(out, &salt.0);
    out.push(b'"');
}

/// A line taken apart. Its form is right; whether its hashes are is [`Line::check`]'s matter.
#[derive(Debug)]
pub(crate) struct Line<'a> {
    pub(crate) link: Link<'a>,
    /// The link members as they stand, without the closing brace.
    link_text: &'a [u8],
    pub(crate) hash: Digest,
    pub(crate) content: Content<'a>,
}

/// Space for [`Line::check`], used again and again.
#[derive(Debug, Default)]
pub(crate) struct Space {
    hashed: Vec<u8>,
    canonical: Vec<u8>,
}

impl<'a> Line<'a> {
    /// Takes a line apart, given without its end.
    pub(crate) fn split(line: &'a [u8]) -> Result<Self, FaultKind> {
        if line.len() > MAX_LINE {
            return Err(FaultKind::TooLong);
        }
        let mut scan = Scan { line, at: 0 };
        scan.pass("{\"body_hash\":\"")?;
        let body_hash = scan.hash()?;
        scan.pass(",\"event_type\":\"")?;
        let event_type = scan.word(|byte| byte.is_ascii_lowercase() || byte == b'_')?;
        scan.pass(",\"log_id\":\"")?;
        let log_id = scan.log_id()?;
        scan.pass(",\"prev_hash\":\"")?;
        let prev_hash = scan.hash()?;
        scan.pass(",\"seq\":")?;
        let seq = scan.integer()?;
        scan.pass(",\"timestamp\":\"")?;
        let (timestamp, _) = scan.time()?;
        let link_text = line.get(..scan.at).unwrap_or_default();
        scan.pass(",\"hash\":\"")?;
        let hash = scan.hash()?;
        let content = match scan.takes(",\"purged_at\":\"") {
            true => {
                let (_, purged_at) = scan.time()?;
                scan.pass("}")?;
                scan.end()?;
                Content::Erased { purged_at }
            }
            false => scan.body()?,
        };
        Ok(Self {
            link: Link {
                log_id,
                seq,
                timestamp,
                event_type,
                prev_hash,
                body_hash,
            },
            link_text,
            hash,
            content,
        })
    }

    /// Checks the hashes; returns the body, unless it was erased.
    pub(crate) fn check<'s>(&self, space: &'s mut Space) -> Result<Option<Object<'s>>, FaultKind> {
        let Space {
            hashed: space,
            canonical,
        } = space;
        space.clear();
        space.extend_from_slice(self.link_text);
        space.push(b'}');
        if Digest::of(space) != self.hash {
            return Err(FaultKind::Hash);
        }
        let Content::Body {
            salt,
            remote_ip,
            members,
        } = &self.content
        else {
            return Ok(None);
        };
        space.clear();
        space.extend_from_slice(&salt.0);
        space.push(b'{');
        space.extend_from_slice(members);
        if Digest::of(space) != self.link.body_hash {
            return Err(FaultKind::BodyHash);
        }
        let text = space.get(salt.0.len()..).unwrap_or_default();
        let Ok(Value::Object(body)) = Value::parse(text) else {
            return Err(FaultKind::Form("its body is not strict JSON"));
        };
        if body.iter().any(|(name, _)| RESERVED.contains(&name)) {
            return Err(FaultKind::Form(
                "its body has members that are not a body's",
            ));
        }
        let body = Value::Object(body);
        canonical.clear();
        body.push_canonical(canonical);
        if canonical != text {
            return Err(FaultKind::Form("its body is not in canonical form"));
        }
        let Value::Object(body) = body else {
            return Err(FaultKind::Form("its body is not an object"));
        };
        if let Some(remote_ip) = remote_ip {
            let said = body.get("remote_ip_hash").and_then(Value::as_str);
            if said.and_then(|said| said.parse().ok()) != Some(remote_ip.hash()) {
                return Err(FaultKind::RemoteIp);
            }
        }
        Ok(Some(body))
    }

    /// Appends the same record without its body.
    pub(crate) fn push_erased(&self, out: &mut Vec<u8>, purged_at: UnixMillis) {
        let mut text = Vec::with_capacity(24);
        purged_at.push_to(&mut text);
        out.extend_from_slice(self.link_text);
        push_hash(out, b",\"hash\":\"", &self.hash);
        push_quoted(out, b",\"purged_at\":\"", &text);
        out.extend_from_slice(b"}\n");
    }

    /// Appends the same record without the address beside it.
    pub(crate) fn push_without_ip(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.link_text);
        push_hash(out, b",\"hash\":\"", &self.hash);
        match &self.content {
            Content::Erased { purged_at } => {
                push_quoted(out, b",\"purged_at\":\"", purged_at.as_bytes());
                out.push(b'}');
            }
            Content::Body { salt, members, .. } => {
                push_salt(out, b",\"body_salt\":\"", salt);
                if *members != b"}" {
                    out.push(b',');
                }
                out.extend_from_slice(members);
            }
        }
        out.push(b'\n');
    }
}

/// Whether a text can be the id of a log: also a file's name.
pub(crate) fn is_log_id(text: &str) -> bool {
    (1..=64).contains(&text.len()) && text.bytes().all(is_log_id_byte)
}

const fn is_log_id_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')
}

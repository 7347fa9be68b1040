//! What a record says: the members of its body, by the names of the specification.

use std::net::IpAddr;

use canonical::Digest;

use crate::text::push_text;

/// Something that happened, to be put on record.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Record<'a> {
    /// What kind of thing.
    pub event: Event,
    /// What is to be said about it.
    pub body: Body<'a>,
}

/// What callers put on record. The log itself adds `start`, `stop`, `checkpoint`, `purge` of
/// records and `audit_gap`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A request, whatever became of it.
    Request,
    /// A request of this node to a peer, whatever became of it.
    RequestSent,
    /// The outcome of a handshake.
    Handshake,
    /// The outcome of a handshake that this node began.
    HandshakeSent,
    /// A session ended.
    SessionEnd,
    /// A peer's manifest was fetched anew.
    ManifestRefresh,
    /// A key of the node or of a peer changed.
    KeyChange,
    /// A policy changed.
    PolicyChange,
    /// Rejections without an authenticated peer, several in one.
    Rejections,
    /// The operator did something.
    Operator,
    /// Payload data was erased as the agreed retention says.
    PayloadPurge,
}

impl Event {
    /// The value of `event_type`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Request => "request_received",
            Self::RequestSent => "request_sent",
            Self::Handshake => "handshake",
            Self::HandshakeSent => "handshake_sent",
            Self::SessionEnd => "session_end",
            Self::ManifestRefresh => "manifest_refresh",
            Self::KeyChange => "key_change",
            Self::PolicyChange => "policy_change",
            Self::Rejections => "rejections",
            Self::Operator => "operator",
            Self::PayloadPurge => "purge",
        }
    }
}

/// Characters of a text in a record.
pub const MAX_TEXT: usize = 256;
/// Characters of a DID, which would name nobody if it were cut.
pub const MAX_DID: usize = 512;
/// Bytes of a body in canonical form. If its texts have more, they are cut shorter.
pub const MAX_BODY: usize = 3 * 1024;

/// How long texts may be, one attempt after the other. The last always fits: 19 texts of 8
/// characters, six bytes each, a DID, and 1.5 KiB of all that is no text.
const LIMITS: [usize; 3] = [MAX_TEXT, 64, 8];

/// How a member is written.
trait Member {
    fn push(&self, out: &mut Vec<u8>, context: &Context);
}

struct Context {
    limit: usize,
    remote_ip_hash: Option<Digest>,
}

/// Declares the body: in the order of RFC 8785, the member's name, what it is, its type. A member
/// that is not set is not written.
macro_rules! body {
    ($($(#[$doc:meta])* $field:ident $(as $name:literal)?: $type:ty,)*) => {
        /// The members of a body, of both protocols. Whoever makes one names what it has:
        /// `Body { name: Some("echo"), ..Body::default() }`.
        ///
        /// There is no place for payload data, keys or signatures, and never will be.
        #[derive(Debug, Clone, Copy, Default, PartialEq)]
        pub struct Body<'a> {
            $($(#[$doc])* pub $field: Option<$type>,)*
        }

        impl Body<'_> {
            /// The names of all members there can be, in their order.
            pub const NAMES: &'static [&'static str] = &[$(body!(@name $field $($name)?)),*];

            fn push_within(&self, out: &mut Vec<u8>, context: &Context) {
                out.push(b'{');
                let start = out.len();
                $(if let Some(member) = &self.$field {
                    if out.len() > start {
                        out.push(b',');
                    }
                    out.extend_from_slice(
                        concat!("\"", body!(@name $field $($name)?), "\":").as_bytes(),
                    );
                    member.push(out, context);
                })*
                out.push(b'}');
            }
        }
    };
    (@name $field:ident) => { stringify!($field) };
    (@name $field:ident $name:literal) => { $name };
}

body! {
    /// A2E: who asked, by the token's or DID's agent.
    agent: &'a str,
    /// A2E: the approval that let a held call pass.
    approval_id: &'a str,
    /// A2A: how strongly the request was bound to its session.
    binding: Binding,
    /// A2E: the capability that was asked for.
    capability: &'a str,
    /// A2E: the id that joins this request with others.
    correlation_id: &'a str,
    /// How many things this record stands for, if more than one.
    count: u64,
    /// A2A: whether messages of the session are encrypted.
    encrypted: bool,
    /// A2E: bytes of the request.
    input_bytes: u64,
    /// A2A: the intent's domain.
    intent_domain: &'a str,
    /// A2A: the intent's goal.
    intent_goal: &'a str,
    /// A2A: the intent's id.
    intent_id: &'a str,
    /// A2A: the key that signed.
    kid: &'a str,
    /// A2A: the peer's manifest.
    manifest_hash: Digest,
    /// A2E: the type of the message.
    message_type: &'a str,
    /// A2E: the tool, skill or other thing that was asked for.
    name: &'a str,
    /// A2E: bytes of the response.
    output_bytes: u64,
    /// What was checked, with which outcome.
    policy_checks: PolicyChecks,
    /// The agreed policy.
    policy_hash: Digest,
    /// How long it took.
    processing_time_ms: u64,
    /// The precise cause, where the peer is told less.
    reason: &'a str,
    /// A2A: who asked, as proven.
    remote_agent_did: DidText<'a>,
    /// Where it came from. The address itself stands beside the body, which has its salted hash,
    /// so that it can be erased alone.
    remote_ip as "remote_ip_hash": IpAddr,
    /// The request as received.
    request_hash: Digest,
    /// The request's id.
    request_id: &'a str,
    /// The response as sent.
    response_hash: Digest,
    /// `success`, or the error code of the response.
    response_status: &'a str,
    /// Whether it was let through.
    result: Verdict,
    /// The rule that decided.
    rule: &'a str,
    /// The digest of that rule as it was then.
    rule_hash: Digest,
    /// The session. That of A2E is a secret: give its hash ([`session_hash`]).
    session_id: &'a str,
    /// Over what it came.
    transport: &'a str,
    /// A2A: how much the peer is trusted.
    trust_level: &'a str,
}

/// What stands for a session's id where the id itself is a secret. It has enough randomness of its
/// own, so it needs no salt.
#[must_use]
pub fn session_hash(session_id: &str) -> Digest {
    Digest::of(session_id.as_bytes())
}

/// A DID, which has more room than other texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DidText<'a>(pub &'a str);

/// Declares enumerations by the words they are written as.
macro_rules! words {
    ($($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident $word:literal,)* })*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name {
            $($(#[$variant_doc])* $variant,)*
        }

        impl $name {
            /// The word in a record.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)*
                }
            }
        }

        impl Member for $name {
            fn push(&self, out: &mut Vec<u8>, _: &Context) {
                out.push(b'"');
                out.extend_from_slice(self.as_str().as_bytes());
                out.push(b'"');
            }
        }
    )*};
}

words! {
    /// Whether a request was let through.
    Verdict {
        /// It was executed.
        Approved "approved",
        /// It was not.
        Rejected "rejected",
    }

    /// How strongly a request was bound to its session.
    Binding {
        /// As the profile says.
        Profile "profile",
        /// As the base specification alone says.
        Baseline "baseline",
    }

    /// The outcome of one check.
    Check {
        /// It held.
        Passed "passed",
        /// It did not.
        Failed "failed",
        /// It was not made, since an earlier one failed or it does not apply.
        Skipped "skipped",
    }
}

/// Declares the checks, as [`body!`] declares members.
macro_rules! checks {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// What was checked. Those that do not belong to the protocol stay unset.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub struct PolicyChecks {
            $($(#[$doc])* pub $name: Option<Check>,)*
        }

        impl PolicyChecks {
            /// The names of all checks, in their order.
            pub const NAMES: &'static [&'static str] = &[$(stringify!($name)),*];
        }

        impl Member for PolicyChecks {
            fn push(&self, out: &mut Vec<u8>, context: &Context) {
                out.push(b'{');
                let start = out.len();
                $(if let Some(check) = &self.$name {
                    if out.len() > start {
                        out.push(b',');
                    }
                    out.extend_from_slice(concat!("\"", stringify!($name), "\":").as_bytes());
                    check.push(out, context);
                })*
                out.push(b'}');
            }
        }
    };
}

checks! {
    /// A2E: the operator's answer to a held call.
    approval,
    /// A2E: the session negotiated the capability.
    capability_accepted,
    /// A2A: the intent is on no block list and on the allow list, if there is one.
    intent_allowed,
    /// The request is not too large.
    payload_size,
    /// The token buckets had a token.
    rate_limit,
    /// A2E: the rules let it pass.
    rule_allowed,
    /// The session is there and has not ended.
    session_valid,
    /// A2A: the request is signed by the session's peer.
    signature_verified,
}

impl Body<'_> {
    /// Appends the canonical form. `remote_ip_hash` must be there if [`Body::remote_ip`] is.
    pub(crate) fn push_canonical(&self, out: &mut Vec<u8>, remote_ip_hash: Option<Digest>) {
        let start = out.len();
        for limit in LIMITS {
            out.truncate(start);
            let context = Context {
                limit,
                remote_ip_hash,
            };
            self.push_within(out, &context);
            if out.len() - start <= MAX_BODY {
                return;
            }
        }
    }
}

impl Member for &str {
    fn push(&self, out: &mut Vec<u8>, context: &Context) {
        push_text(out, self, context.limit);
    }
}

impl Member for DidText<'_> {
    fn push(&self, out: &mut Vec<u8>, context: &Context) {
        // What has to be escaped is no DID, and gets no more room than other texts.
        let is_plain = |byte: u8| byte.is_ascii_graphic() && byte != b'"' && byte != b'\\';
        let limit = match self.0.bytes().all(is_plain) {
            true => MAX_DID,
            false => context.limit,
        };
        push_text(out, self.0, limit);
    }
}

impl Member for u64 {
    fn push(&self, out: &mut Vec<u8>, _: &Context) {
        push_integer(out, *self);
    }
}

impl Member for bool {
    fn push(&self, out: &mut Vec<u8>, _: &Context) {
        out.extend_from_slice(if *self { b"true" } else { b"false" });
    }
}

impl Member for Digest {
    fn push(&self, out: &mut Vec<u8>, _: &Context) {
        out.push(b'"');
        self.push_to(out);
        out.push(b'"');
    }
}

impl Member for IpAddr {
    fn push(&self, out: &mut Vec<u8>, context: &Context) {
        match context.remote_ip_hash {
            Some(hash) => hash.push(out, context),
            None => out.extend_from_slice(b"null"),
        }
    }
}

/// Appends an integer that every JSON implementation reads alike; larger ones become the largest.
pub(crate) fn push_integer(out: &mut Vec<u8>, value: u64) {
    const MAX: u64 = (1 << 53) - 1;
    let mut rest = value.min(MAX);
    let mut digits = [0; 16];
    let mut start = digits.len();
    for slot in digits.iter_mut().rev() {
        *slot = b'0' + (rest % 10) as u8;
        start -= 1;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    out.extend_from_slice(digits.get(start..).unwrap_or_default());
}

#[cfg(test)]
mod tests;

//! Error codes (profile §12): one table of code, statuses, retry class, baseline code and text.

use std::fmt;

/// When a caller may try again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// The same would fail again.
    No,
    /// After `details.reset_at`.
    AfterReset,
    /// Once, if `details.supported_versions` has a common version.
    OnceWithCommonVersion,
    /// With a new handshake.
    NewHandshake,
    /// After one new handshake, with the same intent.
    OneNewHandshake,
    /// Yes.
    Yes,
    /// Only work with an `intent_id`, since it may have been done.
    WithIntentId,
    /// At most this often, and only work with an `intent_id`.
    WithIntentIdAtMost(u8),
    /// Only with new ids.
    WithNewIds,
}

/// Status codes of gRPC that errors are told as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum GrpcStatus {
    /// The call was given up by the caller.
    Cancelled = 1,
    /// The request is wrong in itself.
    InvalidArgument = 3,
    /// It took too long.
    DeadlineExceeded = 4,
    /// It exists already.
    AlreadyExists = 6,
    /// The caller may not do this.
    PermissionDenied = 7,
    /// The caller did this too often.
    ResourceExhausted = 8,
    /// The system is not in the state this needs.
    FailedPrecondition = 9,
    /// It was given up and may be tried at a higher level.
    Aborted = 10,
    /// Beyond what is allowed.
    OutOfRange = 11,
    /// It is not offered.
    Unimplemented = 12,
    /// Something here is broken.
    Internal = 13,
    /// Not available now.
    Unavailable = 14,
    /// The caller is not who it says.
    Unauthenticated = 16,
}

macro_rules! codes {
    ($($(#[$meta:meta])* $name:ident $wire:literal http $http:literal grpc $grpc:ident
        close $close:expr, retry $retry:expr, baseline $handshake:expr, $session:expr, $text:literal;)*) => {
        /// What went wrong. Codes of others are kept as they came.
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum ErrorCode {
            $($(#[$meta])* $name,)*
            /// A code this table does not have.
            Other(String),
        }

        impl ErrorCode {
            /// The codes of the table.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The code on the wire.
            #[must_use]
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$name => $wire,)*
                    Self::Other(code) => code,
                }
            }

            /// The HTTP status; `None` for a code of others.
            #[must_use]
            pub const fn http(&self) -> Option<u16> {
                match self {
                    $(Self::$name => Some($http),)*
                    Self::Other(_) => None,
                }
            }

            /// The gRPC status; `None` for a code of others.
            #[must_use]
            pub const fn grpc(&self) -> Option<GrpcStatus> {
                match self {
                    $(Self::$name => Some(GrpcStatus::$grpc),)*
                    Self::Other(_) => None,
                }
            }

            /// The WebSocket close code, where such an error ends the connection.
            #[must_use]
            pub const fn websocket_close(&self) -> Option<u16> {
                match self {
                    $(Self::$name => $close,)*
                    Self::Other(_) => None,
                }
            }

            /// Whether to try again; `None` for a code of others, which goes by its HTTP status.
            #[must_use]
            pub const fn retry(&self) -> Option<Retry> {
                match self {
                    $(Self::$name => Some($retry),)*
                    Self::Other(_) => None,
                }
            }

            /// The code to tell a baseline peer, who knows only those of the base specification.
            #[must_use]
            pub fn for_baseline(&self, phase: Phase) -> Self {
                match (self, phase) {
                    $((Self::$name, Phase::Handshake) => $handshake.unwrap_or(Self::$name),
                    (Self::$name, Phase::Session) => $session.unwrap_or(Self::$name),)*
                    (Self::Other(code), _) => Self::Other(code.clone()),
                }
            }

            /// The fixed text of `error_message`; empty for a code of others.
            #[must_use]
            pub const fn text(&self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                    Self::Other(_) => "",
                }
            }
        }

        impl From<&str> for ErrorCode {
            fn from(code: &str) -> Self {
                match code {
                    $($wire => Self::$name,)*
                    other => Self::Other(other.to_owned()),
                }
            }
        }
    };
}

/// Where in a conversation an error is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Before there is a session.
    Handshake,
    /// In a session.
    Session,
}

#[rustfmt::skip]
codes! {
    /// The peer is not proven to be who it says.
    UnverifiedAgent "UNVERIFIED_AGENT" http 401 grpc Unauthenticated close Some(4401),
        retry Retry::No, baseline None, None, "The agent could not be verified";
    /// A manifest is wrong, expired, or not the one expected.
    InvalidManifest "INVALID_MANIFEST" http 400 grpc InvalidArgument close Some(4402),
        retry Retry::No, baseline None, None, "The manifest is not valid";
    /// The agreed policy forbids it.
    PolicyViolation "POLICY_VIOLATION" http 403 grpc PermissionDenied close Some(4403),
        retry Retry::No, baseline None, None, "The policy does not allow this";
    /// Too many requests or sessions.
    RateLimitExceeded "RATE_LIMIT_EXCEEDED" http 429 grpc ResourceExhausted close Some(4429),
        retry Retry::AfterReset, baseline None, None, "Too many requests";
    /// Nobody here does such work.
    UnsupportedCapability "UNSUPPORTED_CAPABILITY" http 400 grpc Unimplemented close None,
        retry Retry::No, baseline None, None, "This agent has no such capability";
    /// An intent is not well formed.
    InvalidIntent "INVALID_INTENT" http 400 grpc InvalidArgument close None,
        retry Retry::No, baseline None, None, "The intent is not valid";
    /// No common protocol version.
    ProtocolVersionUnsupported "PROTOCOL_VERSION_UNSUPPORTED" http 400 grpc FailedPrecondition close Some(4406),
        retry Retry::OnceWithCommonVersion, baseline None, None, "No common protocol version";
    /// A handshake did not come to an end.
    HandshakeFailed "HANDSHAKE_FAILED" http 500 grpc Aborted close Some(4410),
        retry Retry::NewHandshake, baseline None, None, "The handshake failed";
    /// A handshake took too long, or is not known.
    HandshakeTimeout "HANDSHAKE_TIMEOUT" http 408 grpc DeadlineExceeded close Some(4408),
        retry Retry::NewHandshake, baseline None, None, "The handshake timed out";
    /// A session is over, or is not known.
    SessionExpired "SESSION_EXPIRED" http 401 grpc Unauthenticated close None,
        retry Retry::OneNewHandshake, baseline None, None, "The session has expired";
    /// Work took too long.
    Timeout "TIMEOUT" http 504 grpc DeadlineExceeded close None,
        retry Retry::WithIntentId, baseline None, None, "The request timed out";
    /// Not now.
    ServiceUnavailable "SERVICE_UNAVAILABLE" http 503 grpc Unavailable close Some(4503),
        retry Retry::Yes, baseline None, None, "The service is not available";
    /// Something here is broken.
    InternalError "INTERNAL_ERROR" http 500 grpc Internal close Some(4500),
        retry Retry::WithIntentIdAtMost(2), baseline None, None, "Internal error";
    /// A message is not well formed.
    InvalidMessage "INVALID_MESSAGE" http 400 grpc InvalidArgument close Some(4400),
        retry Retry::No, baseline Some(Self::HandshakeFailed), Some(Self::InvalidIntent), "The message is not valid";
    /// It was seen before.
    ReplayDetected "REPLAY_DETECTED" http 409 grpc AlreadyExists close None,
        retry Retry::WithNewIds, baseline Some(Self::HandshakeFailed), Some(Self::PolicyViolation), "This was seen before";
    /// More bytes than agreed.
    PayloadTooLarge "PAYLOAD_TOO_LARGE" http 413 grpc OutOfRange close Some(1009),
        retry Retry::No, baseline Some(Self::PolicyViolation), Some(Self::PolicyViolation), "The message is too large";
    /// The caller gave it up.
    Cancelled "CANCELLED" http 409 grpc Cancelled close None,
        retry Retry::No, baseline Some(Self::Timeout), Some(Self::Timeout), "The request was cancelled";
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

macro_rules! reasons {
    ($($name:ident $wire:literal of $($code:ident),+;)*) => {
        /// The listed values of `details.reason`.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        #[allow(missing_docs, reason = "each means what its word says")]
        pub enum Reason { $($name,)* }

        impl Reason {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The word on the wire.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $wire,)* }
            }

            /// The codes it is listed for.
            #[must_use]
            pub const fn codes(self) -> &'static [ErrorCode] {
                match self { $(Self::$name => &[$(ErrorCode::$code),+],)* }
            }
        }
    };
}

#[rustfmt::skip]
reasons! {
    Malformed "malformed" of InvalidMessage;
    DuplicateMember "duplicate_member" of InvalidMessage;
    UnknownType "unknown_type" of InvalidMessage;
    MissingField "missing_field" of InvalidMessage;
    BadField "bad_field" of InvalidMessage, InvalidIntent;
    HeaderMismatch "header_mismatch" of InvalidMessage;
    MediaType "media_type" of InvalidMessage;
    DecryptFailed "decrypt_failed" of InvalidMessage;
    TimestampSkew "timestamp_skew" of HandshakeFailed;
    NonceMismatch "nonce_mismatch" of HandshakeFailed;
    HashMismatch "hash_mismatch" of HandshakeFailed;
    TranscriptMismatch "transcript_mismatch" of HandshakeFailed;
    PolicyMismatch "policy_mismatch" of HandshakeFailed;
    PolicyInvalid "policy_invalid" of HandshakeFailed;
    UnexpectedMessage "unexpected_message" of HandshakeFailed;
    VerificationFailed "verification_failed" of UnverifiedAgent;
    DidUnsupported "did_unsupported" of UnverifiedAgent;
    TrustLevel "trust_level" of UnverifiedAgent;
    BaselineNotAllowed "baseline_not_allowed" of UnverifiedAgent;
    ManifestRequired "manifest_required" of InvalidManifest;
    ManifestInvalid "manifest_invalid" of InvalidManifest;
    ManifestExpired "manifest_expired" of InvalidManifest;
    ManifestRollback "manifest_rollback" of InvalidManifest;
    PinMismatch "pin_mismatch" of InvalidManifest;
    IntentBlocked "intent_blocked" of PolicyViolation;
    IntentNotAllowed "intent_not_allowed" of PolicyViolation;
    EncryptionRequired "encryption_required" of PolicyViolation;
    PolicyUnacceptable "policy_unacceptable" of PolicyViolation;
    AgentBlocked "agent_blocked" of PolicyViolation;
    NonceReused "nonce_reused" of ReplayDetected;
    RequestIdReused "request_id_reused" of ReplayDetected;
    SeqReused "seq_reused" of ReplayDetected;
    StaleTimestamp "stale_timestamp" of ReplayDetected;
    AlreadyExecuted "already_executed" of ReplayDetected;
    IntentIdConflict "intent_id_conflict" of InvalidIntent;
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

//! What is inside each JWS (profile §2): a type for each place.
//!
//! Members that the base specification does not have may be missing, since a baseline peer does
//! not send them; whoever speaks the profile must check that they are there.

use canonical::Object;

use crate::read::record;
use crate::{
    Count, DidText, Digest, ErrorCode, Nonce, Nullable, RequestId, SessionId, UnixSeconds, Word,
};

macro_rules! places {
    ($($(#[$meta:meta])* $name:ident $typ:literal in $member:literal,)*) => {
        /// The places where a JWS stands. A signature made for one is never taken at another.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Place { $($(#[$meta])* $name,)* }

        impl Place {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The `typ` of the header.
            #[must_use]
            pub const fn typ(self) -> &'static str {
                match self { $(Self::$name => $typ,)* }
            }

            /// The member that holds the JWS.
            #[must_use]
            pub const fn member(self) -> &'static str {
                match self { $(Self::$name => $member,)* }
            }
        }
    };
}

places! {
    /// A manifest's signature.
    Manifest "a2a-manifest+jws" in "manifest_signature",
    /// The server's signature in CHALLENGE.
    Challenge "a2a-challenge+jws" in "policy_signature",
    /// The client's in PROOF.
    Proof "a2a-proof+jws" in "proof_jws",
    /// The server's in POLICY.
    Policy "a2a-policy+jws" in "policy_signature",
    /// The client's in ACCEPT_POLICY.
    Accept "a2a-accept+jws" in "acceptance_jws",
    /// The server's in SESSION.
    Session "a2a-session+jws" in "session_jws",
    /// A request's.
    Request "a2a-request+jws" in "request_jws",
    /// A response's.
    Response "a2a-response+jws" in "response_jws",
    /// An error's.
    Error "a2a-error+jws" in "error_jws",
    /// A cancellation's or a session end's.
    Control "a2a-control+jws" in "control_jws",
    /// An entry's in a trust chain.
    Endorsement "a2a-endorsement+jws" in "signature",
    /// An audit checkpoint's.
    Audit "a2a-audit+jws" in "jws",
    /// The credential with which an agent comes to an A2E host.
    Login "a2e-auth+jws" in "auth_token",
}

/// A payload, and the place it belongs to.
pub trait Payload: crate::Read + crate::Write {
    /// Where it stands.
    const PLACE: Place;
    /// The members it has, where not all that were signed.
    const MEMBERS: Option<&'static [&'static str]> = None;
}

macro_rules! payloads {
    ($($(#[$meta:meta])* $name:ident at $place:ident {$($(#[$field_meta:meta])* $field:ident: $type:ty,)*})*) => {$(
        record! {
            $(#[$meta])*
            #[allow(missing_docs, reason = "members mean what profile §2 says of them")]
            $name { $($(#[$field_meta])* $field: $type,)* }
        }

        impl Payload for $name {
            const PLACE: Place = Place::$place;
            const MEMBERS: Option<&'static [&'static str]> = Some(&[$(stringify!($field)),*]);
        }
    )*};
}

payloads! {
    /// Signed by a root key of the agent.
    ManifestPayload at Manifest {
        issuer: DidText,
        timestamp: UnixSeconds,
        manifest: Option<Object<'static>>,
        manifest_hash: Digest,
    }

    /// Proves the server before the client signs anything.
    ChallengePayload at Challenge {
        issuer: Option<DidText>,
        audience: Option<DidText>,
        timestamp: Option<UnixSeconds>,
        policy_hash: Option<Digest>,
        nonce_a: Option<Nonce>,
        nonce_b: Option<Nonce>,
        server_manifest_hash: Option<Digest>,
        client_manifest_hash: Option<Digest>,
        transcript_hash: Option<Digest>,
    }

    /// Proves the client.
    ProofPayload at Proof {
        issuer: Option<DidText>,
        audience: Option<DidText>,
        timestamp: UnixSeconds,
        nonce_a: Nonce,
        nonce_b: Nonce,
        server_manifest_hash: Digest,
        client_manifest_hash: Digest,
        transcript_hash: Option<Digest>,
    }

    /// Binds the policy to this handshake.
    PolicyPayload at Policy {
        issuer: Option<DidText>,
        audience: Option<DidText>,
        timestamp: Option<UnixSeconds>,
        policy_hash: Option<Digest>,
        nonce_a: Option<Nonce>,
        nonce_b: Option<Nonce>,
        transcript_hash: Option<Digest>,
    }

    /// The client's agreement.
    AcceptPayload at Accept {
        issuer: Option<DidText>,
        audience: Option<DidText>,
        timestamp: UnixSeconds,
        policy_hash: Digest,
        session_commitment: Digest,
        transcript_hash: Option<Digest>,
    }

    /// The server's confirmation.
    SessionPayload at Session {
        issuer: Option<DidText>,
        audience: Option<DidText>,
        timestamp: Option<UnixSeconds>,
        session_id: Option<SessionId>,
        created_at: Option<UnixSeconds>,
        expires_at: Option<UnixSeconds>,
        policy_hash: Option<Digest>,
        session_commitment: Option<Digest>,
        transcript_hash: Option<Digest>,
    }

    /// Binds a request to its session, its attempt and every member of the message.
    RequestPayload at Request {
        issuer: Option<DidText>,
        audience: Option<DidText>,
        timestamp: Option<UnixSeconds>,
        session_id: Option<SessionId>,
        request_id: Option<RequestId>,
        seq: Option<Count>,
        message_hash: Option<Digest>,
    }

    /// Binds an answer to exactly one question.
    ResponsePayload at Response {
        issuer: Option<DidText>,
        audience: Option<DidText>,
        timestamp: Option<UnixSeconds>,
        session_id: Option<SessionId>,
        request_id: Option<RequestId>,
        seq: Option<Count>,
        message_hash: Option<Digest>,
        request_hash: Option<Digest>,
        status: Option<Word>,
    }

    /// Binds an error to a question, or to a handshake by its `nonce_a`.
    ErrorPayload at Error {
        issuer: Option<DidText>,
        audience: Option<DidText>,
        timestamp: Option<UnixSeconds>,
        session_id: Option<SessionId>,
        request_id: Option<RequestId>,
        seq: Option<Count>,
        message_hash: Option<Digest>,
        request_hash: Option<Digest>,
        error_code: Option<ErrorCode>,
        nonce_a: Option<Nonce>,
    }

    /// Binds a cancellation or the end of a session.
    ControlPayload at Control {
        issuer: DidText,
        audience: DidText,
        timestamp: UnixSeconds,
        session_id: SessionId,
        request_id: RequestId,
        seq: Count,
        message_hash: Digest,
    }

    /// Someone vouches for an agent and its keys.
    EndorsementPayload at Endorsement {
        issuer: DidText,
        issued_at: UnixSeconds,
        expires_at: Option<Nullable<UnixSeconds>>,
        trust_level: Word,
        subject: DidText,
        subject_keys: Option<Vec<Digest>>,
        capabilities: Option<Vec<Word>>,
    }

    /// The state of an audit log at one moment.
    AuditPayload at Audit {
        issuer: DidText,
        timestamp: UnixSeconds,
        log_id: Word,
        seq: Count,
        head_hash: Digest,
    }

    /// Says to one A2E host who comes, once.
    LoginPayload at Login {
        issuer: DidText,
        audience: DidText,
        timestamp: UnixSeconds,
        nonce: Nonce,
    }
}

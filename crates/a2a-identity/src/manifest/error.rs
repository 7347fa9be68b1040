//! What can be wrong with a manifest, and the code for it.

use a2a_wire::{ErrorCode, FieldError, Reason, WireError};

use crate::{JwsError, KeySetError};

/// Why a manifest is refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ManifestError {
    /// Too long, not strict JSON, or a member is missing or wrong.
    #[error("{0}")]
    Wire(#[from] WireError),
    /// A version that is not `1.0`.
    #[error("`manifest_version` must be \"1.0\"")]
    Version,
    /// A member has a value it may not have.
    #[error("`{path}` {problem}")]
    Member {
        /// Which.
        path: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// Its keys are refused.
    #[error("{0}")]
    Keys(#[from] KeySetError),
    /// It is someone else's.
    #[error("`agent_did` is not the DID sought")]
    OtherDid,
    /// It has ended.
    #[error("`expires_at` has passed")]
    Expired,
    /// Its signature has a wrong form or header, or does not verify.
    #[error("`manifest_signature`: {0}")]
    Signature(#[from] JwsError),
    /// It was signed for someone else.
    #[error("`manifest_signature`: its issuer is not `agent_did`")]
    Issuer,
    /// It was changed after it was signed.
    #[error("the content does not match {0}")]
    Hash(&'static str),
    /// It is not the one at the place that the DID names.
    #[error("it is not the manifest that is published where its DID says")]
    NotPublished,
    /// It was signed in the future.
    #[error("`manifest_signature`: its timestamp lies in the future")]
    Future,
    /// It was signed too long ago.
    #[error("`manifest_signature`: it is too old and must be signed again")]
    TooOld,
    /// A newer one was seen before.
    #[error("another manifest with the same or a newer timestamp was accepted before")]
    Rollback,
    /// It is not what the operator fixed.
    #[error("it is not the manifest or the key that is pinned for this DID")]
    Pin,
    /// A did:key must list its own key.
    #[error("`public_keys` does not have the key of the did:key as active")]
    NoDidKey,
}

impl ManifestError {
    /// The code to answer with.
    #[must_use]
    pub const fn code(&self) -> ErrorCode {
        match self {
            Self::Signature(error) if !error.is_form() => ErrorCode::UnverifiedAgent,
            Self::Wire(_)
            | Self::Version
            | Self::Member { .. }
            | Self::Keys(_)
            | Self::OtherDid
            | Self::Expired
            | Self::Signature(_)
            | Self::Issuer
            | Self::Hash(_)
            | Self::NotPublished
            | Self::Future
            | Self::TooOld
            | Self::Rollback
            | Self::Pin
            | Self::NoDidKey => ErrorCode::InvalidManifest,
        }
    }

    /// The `details.reason` to answer with.
    #[must_use]
    pub const fn reason(&self) -> Reason {
        match self {
            Self::Expired => Reason::ManifestExpired,
            Self::Rollback => Reason::ManifestRollback,
            Self::Pin => Reason::PinMismatch,
            Self::Signature(error) if !error.is_form() => Reason::VerificationFailed,
            Self::Wire(_)
            | Self::Version
            | Self::Member { .. }
            | Self::Keys(_)
            | Self::OtherDid
            | Self::Signature(_)
            | Self::Issuer
            | Self::Hash(_)
            | Self::NotPublished
            | Self::Future
            | Self::TooOld
            | Self::NoDidKey => Reason::ManifestInvalid,
        }
    }
}

impl From<FieldError> for ManifestError {
    fn from(error: FieldError) -> Self {
        Self::Wire(error.into())
    }
}

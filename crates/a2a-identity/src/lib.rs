//! Who a peer is: keys, signatures, DIDs, manifests, endorsements, and sealed messages.
//!
//! All cryptography of A2A is in this crate, and the only code that signs or verifies. What a peer
//! claims and what is proven have different types: a [`Signed`] becomes a [`Verified`], a
//! manifest's bytes a [`VerifiedManifest`], and nothing else makes one.
//!
//! It is deliberately without network, files, clock and randomness of its own: a DID is resolved by
//! a plan ([`Resolution`]) that others carry out, times and random bytes are arguments, and secrets
//! are handed out as PEM for others to store. It does not decide what a session may do.
//!
//! Reading order: `key`, `keyset`, [`jws`](Signed), [`did`](Did), `document`, `resolve`, `cache`,
//! `manifest`, `trust`; `identity` is the owner's side, `pem` keys at rest, [`seal`] encryption,
//! `address` and `url` where one may connect to.
//!
//! ```
//! use a2a_identity::{Did, DidKey, Peer, Signed, SigningKey, KeySet, Key, KeyStatus, sign};
//! use a2a_wire::{AuditPayload, UnixSeconds};
//!
//! let key = SigningKey::from_seed(&[1; 32]);
//! let did = Did::Key(DidKey::new(key.verifying_key()));
//! let now = UnixSeconds(1_770_000_000);
//! let payload = AuditPayload {
//!     issuer: did.to_text().unwrap(),
//!     timestamp: now,
//!     log_id: "log-1".parse()?,
//!     seq: a2a_wire::Count::new(3).unwrap(),
//!     head_hash: a2a_wire::Digest::of(b"..."),
//! };
//! let jws = sign(&payload, &"sig-1".parse()?, &key);
//!
//! let keys = KeySet::new(vec![Key {
//!     kid: "sig-1".parse()?,
//!     key: key.verifying_key(),
//!     status: KeyStatus::Active,
//!     expires_at: None,
//! }])?;
//! let signed: Signed<AuditPayload> = Signed::parse(&jws.parse()?, Peer::Profile)?;
//! assert_eq!(*signed.verify(&keys, now)?.payload(), payload);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![warn(clippy::indexing_slicing)]

mod address;
mod at_rest;
mod cache;
mod did;
mod document;
#[doc(hidden)]
pub mod fuzzing;
mod identity;
mod jws;
mod key;
mod keyset;
mod mac;
mod manifest;
mod pem;
mod random;
mod resolve;
mod root;
pub mod seal;
mod trust;
mod url;

pub use address::{AddressError, choose_address, is_public};
pub use at_rest::{AtRest, CannotOpenSecret};
pub use cache::{Cache, Found, Lookup, time_to_live};
pub use did::{Did, DidError, DidGithub, DidKey, DidWeb};
pub use document::{DidDocument, DocumentError};
pub use identity::{GRACE, Identity, IdentityError, OwnKey, REVOKED_LISTED, SWITCH};
pub use jws::{JwsError, Peer, Signed, Verified, sign, sign_owned};
pub use key::{SigningKey, VerifyingKey, WeakKey};
pub use keyset::{DEPRECATION, Key, KeyProblem, KeySet, KeySetError, KeyStatus, MAX_KEYS};
pub use mac::hmac_sha256;
pub use manifest::{
    MAX_AGE, ManifestCheck, ManifestError, ManifestRules, ManifestSummary, Pins, Seen,
    SelfSignedManifest, VerifiedManifest, sign_manifest, verify_manifest,
};
pub use pem::KeyFileError;
pub use random::{NoRandomness, Randomness};
pub use resolve::{
    Answer, Document, Fetch, GithubIds, Resolution, ResolveError, Resolved, Step, Want,
};
pub use root::{PublishedKeys, RootKeys};
pub use trust::{
    Anchor, Decision, Issuer, MAX_ENTRIES, MAX_RESOLUTIONS, Outcome, TrustLevel, Verdict, Voucher,
    Why, decide, endorse,
};
pub use url::{Scheme, UrlError, WebUrl};

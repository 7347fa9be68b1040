//! JSON as A2A signs it: a strict tree, its one canonical form, and the hash of that form.
//!
//! A received text becomes a [`Value`] once. The tree keeps every member, known or not, so its
//! hash is that of the JSON *as received*; typed messages are read from the same tree with serde
//! ([`Value::deserialize_into`]), so logic and hash can never see different data.
//!
//! It is deliberately not a signature library (that is `a2a-identity`) and has no opinion on which
//! member is left out of which hash: callers name it ([`Object::digest_without`]).
//!
//! Reading order: [`value`](Value), `number`, [`jcs`](Value::to_canonical), [`digest`](Digest),
//! [`base64url`], `de`.
//!
//! ```
//! use canonical::Value;
//!
//! let value = Value::parse(br#"{"b":1.0,"a":"\u00e9"}"#)?;
//! assert_eq!(value.to_canonical(), "{\"a\":\"é\",\"b\":1}".as_bytes());
//! assert!(value.digest().to_string().starts_with("sha256:"));
//! assert!(Value::parse(br#"{"a":1,"a":2}"#).is_err());
//! # Ok::<(), canonical::Fault>(())
//! ```

#![warn(clippy::indexing_slicing)]

pub mod base64url;
mod de;
mod digest;
#[doc(hidden)]
pub mod fuzzing;
mod jcs;
mod number;
mod value;

pub use de::TypeError;
pub use digest::{Digest, NotADigest};
pub use number::Number;
pub use strict_json::{Fault, FaultKind};
pub use value::{FromSerializeError, LIMITS, Object, SharedName, Value};

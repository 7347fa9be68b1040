//! Strict JSON text: what is a value, where it ends, and how it is written.
//!
//! Both protocols stand on this crate: A2E checks a line here before anything else sees it, and the
//! canonical tree that A2A hashes is built from text that passed here. One lexer means that no two
//! parts of the system can read one text differently.
//!
//! A text is checked once, by [`Scanner::scan`] or [`Raw::parse`]. What comes out is [`Checked`]
//! (borrowed) or [`Raw`] (borrowed or owned): evidence that the text is one JSON value without
//! duplicate member names at any depth, lone surrogates, excessive nesting or numbers out of range.
//! A [`Cursor`] walks such text and therefore has no syntax errors to report.
//!
//! It is deliberately not a tree (that is `canonical::Value`), not a serde format, and makes no
//! decision about what a message may contain.
//!
//! Reading order: [`limits`](Limits), [`fault`](Fault), `lex`, [`scan`](Scanner), `walk`,
//! [`raw`](Raw), [`cursor`](Cursor), [`write`](push_string).
//!
//! ```
//! use strict_json::{Cursor, FaultKind, Limits, Raw};
//!
//! let raw = Raw::parse(r#"{"name": "echo", "tags": ["a", "b"]}"#, Limits::default())?;
//! let mut cursor = Cursor::new(raw.checked());
//! let mut members = cursor.begin_object().unwrap();
//! assert_eq!(cursor.next_member(&mut members).as_deref(), Some("name"));
//! assert_eq!(cursor.string().as_deref(), Some("echo"));
//!
//! let fault = Raw::parse(r#"{"a":{"b":1,"\u0062":2}}"#, Limits::default()).unwrap_err();
//! assert_eq!(fault.kind, FaultKind::DuplicateName("b".into()));
//! # Ok::<(), strict_json::Fault>(())
//! ```

#![warn(clippy::indexing_slicing)]
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

mod cursor;
mod fault;
#[doc(hidden)]
pub mod fuzzing;
mod lex;
mod limits;
mod raw;
mod scan;
mod walk;
mod write;

pub use cursor::{Cursor, Elements, Kind, Members};
pub use fault::{Fault, FaultKind};
pub use limits::{Integers, Limits};
pub use raw::{Checked, Raw, RawError};
pub use scan::{Member, Remember, Scanner, utf8};
pub use write::{Charset, push_name, push_string};

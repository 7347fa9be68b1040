//! The A2E wire: every message, every field, every error code, and the lines they travel in.
//!
//! Bytes become lines with [`Framer`]. A line becomes a [`Message`] with [`Decoder`]: it is checked
//! whole (JSON grammar, nesting, duplicate names at any depth), then its envelope is read, then its
//! body by [`Tag`], borrowing from the line; free-form values stay raw JSON ([`Object`], [`Raw`]).
//! A message becomes bytes with [`Message::encode_to`].
//!
//! Messages are declared once: which there are in the table behind [`Tag`], what they contain in
//! [`messages`]. What is sent is what the catalogue says, every field, never null where it has no
//! `optional`; what is taken is more, see [`lenient`] and the table's `also`.
//!
//! It is deliberately without clock, randomness and I/O: ids and times come from the caller, and
//! what a message *means* (may it be sent now, who answers it) is the session's business.
//!
//! Reading order: [`line`](Framer), [`envelope`](Envelope), [`message`](Message), [`table`](Tag),
//! [`messages`], [`decoder`](Decoder), [`error`](DecodeError), then [`record`] and [`wire`] for how
//! a declaration becomes code.
//!
//! ```
//! use a2e_wire::messages::base::Ping;
//! use a2e_wire::{Body, Charset, Decoder, Envelope, Message, Sender, Timestamp};
//!
//! let now = Timestamp::from_unix_seconds(1716123456.5).unwrap();
//! let ping = Message::<Body>::new(Envelope::new("a1b2", now), Ping::new());
//! let mut line = Vec::new();
//! ping.encode_to(&mut line, Charset::Utf8);
//! assert_eq!(
//!     line,
//!     br#"{"a2e":"1.0","version":"1.0","type":"ping","id":"a1b2","ts":1716123456.5}"#
//! );
//! let read = Decoder::default().decode(&line, Sender::Agent, now)?;
//! assert_eq!(read, ping);
//! # Ok::<(), a2e_wire::DecodeError>(())
//! ```

#![warn(clippy::indexing_slicing)]
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

mod capability;
pub mod catalogue;
mod codec;
mod declare;
mod decoder;
mod envelope;
mod error;
mod error_code;
#[doc(hidden)]
pub mod fuzzing;
mod id;
pub mod lenient;
mod limits;
mod line;
mod message;
pub mod messages;
mod open_enum;
pub mod record;
mod table;
mod time;
mod types;
pub mod wire;

pub use capability::{CAPABILITY_ALIASES, Capability};
pub use decoder::{Decoder, Frame};
pub use envelope::{Envelope, VERSION, Version};
pub use error::{Cause, DecodeError, Invalid, Reason};
pub use error_code::{CODE_MEANINGS, CodeMeaning, ErrorCode, RETIRED_CODES, Retry};
pub use id::*;
pub use limits::{MAX_ELEMENTS, MAX_ID, MAX_LINE, OWN_VALUES};
pub use line::{Framer, LineTooLong, Lines};
pub use message::{
    Direction, Message, MessageKind, Of, Payload, Request, Sender, Spoken, Unknown,
    looks_like_request,
};
pub use open_enum::Enumeration;
pub use strict_json::{Charset, Limits, Raw};
pub use table::{Body, Namespace, Tag};
pub use time::Timestamp;
pub use types::{Map, NotAnObject, Object, Real};

//! What the listeners of both protocols need alike: refusals that peers read, whatever they are sending.
//!
//! [`close`] ends a connection, [`StreamDiscard`] a request of a connection that goes on; a peer that
//! speaks HTTP where TLS is spoken is told so ([`refuse_plain_http`]).

mod discard;
mod plain;

pub use discard::{DiscardLimits, StreamDiscard, close};
pub use plain::{is_plain_http, refuse_plain_http};

//! One connection of a server, whatever is spoken over it.
//!
//! `connection` drives it, `watch` sees to it that it is neither slow nor ambiguous, `http` answers requests (with `body`), `grpc` and
//! `ws` those that speak otherwise; `message_budget` counts what they keep. `refusal` is what a transport says by itself, before anybody knows what a message means.

mod body;
mod connection;
pub(crate) mod grpc;
mod http;
mod limits;
mod message_budget;
pub(crate) mod oversized;
pub(crate) mod peek;
mod refusal;
#[cfg(test)]
mod tests;
mod watch;
pub(crate) mod ws;

pub(crate) use connection::{Visit, serve};
pub use limits::Limits;
pub(crate) use message_budget::shared as shared_budget;

/// Where handshake messages are posted, unless a manifest says otherwise.
pub(crate) const HANDSHAKE: &str = "/a2a/handshake";

/// Where requests are posted, unless a manifest says otherwise.
pub(crate) const REQUEST: &str = "/a2a/request";

/// Where a WebSocket is opened, unless a manifest says otherwise.
pub(crate) const WEBSOCKET: &str = "/a2a/ws";

/// The WebSocket subprotocol.
pub(crate) const SUBPROTOCOL: &str = "a2a.v1";

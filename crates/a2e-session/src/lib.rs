//! What a message means in the state a session is in, for both ends of an A2E connection.
//!
//! [`HostSession`] is the host's end: it answers the handshake, negotiates capabilities, refuses
//! what may not be asked now, starts requests in their order and no more at once than agreed, and
//! sees to it that each gets exactly one response, its events before it. [`AgentSession`] is the
//! agent's: it knows which response and event belongs to which call.
//!
//! Both are sans-IO. Bytes, time and randomness go in, bytes and events come out; whoever drives
//! them owns the socket and the clock. The verbs are the same: `handle_line`, `handle_timeout`,
//! `poll_timeout`, `poll_transmit`, `poll_event`. After any call that is not a poll, poll until each
//! has nothing more to say.
//!
//! It is deliberately without plugins, policy and authentication: a request that may start, a token
//! to be checked, are events, and their outcome is handed back.
//!
//! Reading order: [`config`](Limits), [`now`](Now), [`negotiate`](Offer), `outbox`, `order`, `requests`,
//! [`event`](HostEvent), [`host`](HostSession), [`agent`](AgentSession).

#![warn(clippy::indexing_slicing)]
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

mod agent;
mod config;
mod event;
mod failure;
#[doc(hidden)]
pub mod fuzzing;
mod host;
mod negotiate;
mod now;
mod order;
mod outbox;
mod requests;

pub use agent::{
    AgentConfig, AgentEvent, AgentSession, Call, CallError, ConnectError, Connected, Refused,
};
pub use config::Limits;
pub use event::{
    CancelReason, CloseReason, EventError, HostEvent, Login, RefusedRequest, Request, Stale, Token,
};
pub use failure::{Failure, failures};
pub use host::{HandedOver, HostSession, Saved};
pub use negotiate::{Offer, OfferedCapability, OwnTypes, TypePattern};
pub use now::{Now, Random};
pub use outbox::{Backpressure, Transmit};

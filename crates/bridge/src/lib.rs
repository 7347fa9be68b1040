//! What joins both protocols, and the only crate that knows them both.
//!
//! - [`Inbound`]: what a node can do is what it offers. Intents of a table become handlers of the
//!   A2A server; each asks the A2E host in the name of the peer, through the one decision point.
//! - [`Outbound`]: the peers that a node trusts are something its own agents can ask. It is the
//!   [`Peers`](a2e_runtime::Peers) of the A2E side, over the A2A client.
//! - [`DidLogin`]: an agent with a DID comes to the A2E host by a short-lived signature of its own
//!   key instead of a token.
//!
//! [`Names`] says which agent a DID is, for all three. One table ([`error`]) says what a code of one
//! protocol is in the other; `mapping` does the same for values and events, `trace` for the W3C
//! trace context that goes along.
//!
//! It is deliberately without sockets and files, and without rules of its own: who may do what is
//! decided by the A2A session before it and by the A2E host behind it.
//!
//! Reading order: [`error`], `outcome`, `mapping`, `inbound`, `outbound`, `login`.

pub mod error;
#[doc(hidden)]
pub mod fuzzing;
mod inbound;
mod login;
mod mapping;
mod names;
mod outbound;
mod outcome;
mod trace;

pub use inbound::{Exposed, Inbound, MAX_KEPT, MAX_RESULT, Target};
pub use login::{DidLogin, MAX_AGE, NotSigned, login_token};
pub use names::Names;
pub use outbound::Outbound;
pub use outcome::Outcome;

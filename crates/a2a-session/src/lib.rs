//! What an A2A message means in the state a handshake or session is in, for both ends.
//!
//! A handshake has a type for each state, and a transition consumes it: a client goes
//! [`ExpectChallenge`] → [`CheckServer`] → [`ExpectPolicy`] → [`ExpectSession`] → [`Established`]; a
//! [`Server`] keeps the states of all its handshakes, found by what only the client can know and
//! taken out once. [`Established`] holds the evidence ([`PeerVerified`], [`ProofValid`],
//! [`PolicyAccepted`]) that only a handshake makes. A session is a [`ClientSession`] or a
//! [`ServerSession`]; [`Agents`] is what the sessions of one agent share.
//!
//! It is sans-IO: bytes, time and randomness go in; bytes, answers and records come out. Whom a DID
//! belongs to must be found out elsewhere: a machine says what it [`Need`]s, after a valid signature
//! only, and goes on with what was [`Found`]. It writes no records: every decision comes with what
//! to put on record ([`Record`], [`Refused`]).
//!
//! It is deliberately without transports, retries and handlers, and it has no cryptography of its
//! own: that is `a2a-identity`.
//!
//! Reading order: `config`, [`failure`](Failure), `own`, `replay`; `handshake/vetting`,
//! `handshake/hello`, `handshake/proof`, `handshake/server`, `handshake/client`; `session/checks`,
//! `session/server`, `session/server/admit`, `session/server/answer`, `session/client`.

#![warn(clippy::indexing_slicing)]
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

mod config;
mod failure;
#[doc(hidden)]
pub mod fuzzing;
mod handshake;
mod now;
mod own;
mod replay;
mod session;

pub use config::{
    Baseline, ClientConfig, Directory, Method, RequireManifest, Sealing, ServerConfig,
    ServerLimits, SessionLimits, ShowManifest, TrustRules, times,
};
pub use failure::{Binding, Failure};
pub use handshake::client::{
    Aborted, CheckServer, ExpectChallenge, ExpectPolicy, ExpectSession, ServerStep,
};
pub use handshake::evidence::{Established, PeerVerified, PolicyAccepted, ProofValid};
pub use handshake::reply::{Proving, Refused, Reply};
pub use handshake::server::Server;
pub use handshake::table::Source;
pub use handshake::vetting::{Facts, Found, Freshness, Need};
pub use now::Now;
pub use own::{Own, OwnError};
pub use replay::{Full, Memory, Stale, WINDOW, Window};
pub use session::agents::{AgentLimits, Agents};
pub use session::client::{ANSWER, CallError, ClientEvent, ClientSession, Dropped, Outgoing};
pub use session::incoming::Incoming;
pub use session::record::{Check, Checks, Record};
pub use session::requests::Token;
pub use session::server::{
    Answer, ChunkError, EndReason, Ended, Handled, Host, Look, NotRunning, Refusal, ServerSession,
    Signed, Start,
};
pub use session::works::{Work, WorkId, WorkLimits};

//! A2A on the network.
//!
//! [`transport`] is the seam: what carries messages (HTTP/1.1, HTTP/2, gRPC, WebSocket) is on one side of it, what they mean on the
//! other, and neither knows the other.
//!
//! Below it: [`tls`] says with whom one speaks at all, [`listen`] takes connections, `carry` serves one, and [`courier`] is the
//! other end, which sends.
//!
//! Above it: a [`Server`] answers what peers ask, with [`Handler`]s by canonical intent name; a [`Client`] calls peers by DID. Both
//! stand on one [`Home`]: who the node is, what it knows of others ([`Standing`], [`Resolver`]), and what it puts on record.
//! [`book`] is what the operator says about other agents, and [`Posts`] joins a client with real connections.
//!
//! The rules of the protocol are not here: handshakes and sessions are machines of `a2a-session`, resolution is a plan of
//! `a2a-identity`; this crate drives them with time, sockets, files and handlers.
//!
//! Reading order: `home`, `standing`, `resolve`, `record`; `server/handler`, `server`, `server/handshakes`, `server/requests`,
//! `server/work`; `client`, `client/handshake`, `client/retry`.

pub mod book;
mod carry;
mod client;
mod clock;
pub mod courier;
mod home;
pub mod listen;
mod metrics;
pub mod peer_history;
mod posts;
mod record;
mod resolve;
mod server;
mod standing;
pub mod tls;
pub mod transport;

pub use a2a_session::{Facts, Freshness, Holder};
pub use client::{
    Answered, CallError, CallOptions, Client, ClientSettings, Couriers, Encrypt, FailedWork,
    Introduction, NameWork, Provisional, Route, Said, SessionView, Setback, Speaker, Told,
};
pub use clock::{Clock, Entropy};
pub use home::{Home, Identity, Parts};
pub use posts::Posts;
pub use resolve::{
    Addresses, Connecting, Dial, FetchLimits, Fetcher, Fetching, Guard, Loopback, Names,
    NotReachable, Reach, Resolver, ResolverLimits, SystemNames, Tcp, Web, manifest_url,
};
pub use server::{
    Call, ChunkRefused, Chunks, Handler, HandlerError, Handling, PeerView, Server, ServerSettings,
    SessionState,
};
pub use standing::{Rules, Standing};

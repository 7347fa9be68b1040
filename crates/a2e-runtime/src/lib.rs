//! A2E over real connections: plugins on one side, clients on the other.
//!
//! A [`Host`] has [`Plugin`]s. It serves any byte stream ([`Host::serve`]): each connection is one
//! task that drives an `a2e_session::HostSession`, and each request a task of its own that can be
//! cancelled. A [`Client`] drives the agent's end over any byte stream.
//!
//! It is deliberately without capabilities (those are plugins, in `a2e-caps`) and without protocol
//! rules (those are in `a2e-session`).
//!
//! Reading order: [`plugin`](Plugin), `registry`, [`host`](Host), `driver`, [`client`](Client),
//! [`demo`] for a plugin to copy from.

mod auth;
pub mod blocking;
mod client;
mod clock;
pub mod demo;
mod driver;
mod host;
mod plugin;
mod registry;

pub use a2e_session::{AgentConfig, Failure, Limits};
pub use auth::{Authenticator, Identity, Login, OneToken, Open, Source};
pub use client::{
    A2eError, Address, AddressError, Asking, CallOptions, Calling, Client, ClientError, Connector,
    CustomMessage, CustomRequest, Dial, Episode, Handler, HandlerId, Link, Memory, RawLink,
    Reconnect, Reply, Roots, Skills, Tools, custom_body, read_custom,
};
pub use host::{Host, HostBuilder};
pub use plugin::{BoxFuture, Context, Outcome, Plugin, SendError, Serves};

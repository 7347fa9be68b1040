//! A2E over real connections: plugins on one side, clients on the other.
//!
//! A [`Host`] has [`Plugin`]s. It serves any byte stream ([`Host::serve`]): each connection is one
//! task that drives an `a2e_session::HostSession`, and each request a task of its own that can be
//! cancelled. A [`Client`] drives the agent's end over a byte stream or to an [`Address`], and comes
//! back when its connection breaks; [`blocking`] has the same for code that is not async.
//!
//! A host and an agent in one process (`examples/own_tools.rs` is a host of its own, with a plugin
//! that serves a tool, for a parent process or over TCP):
//!
//! ```
//! use a2e_runtime::{AgentConfig, Calling, Client, Handler, Host, Source, demo::Demo};
//! use serde_json::json;
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let host = Host::builder().plugin(Demo::default()).build();
//! let (stream, served) = tokio::io::duplex(64 * 1024);
//! tokio::spawn(async move { host.serve(served, Source::Own).await });
//!
//! let config = AgentConfig {
//!     wanted: vec!["tools".into()],
//!     ..AgentConfig::default()
//! };
//! let client = Client::connect(stream, config, Handler::none()).await?;
//! let tools = client.tools();
//! let result = tools.call("echo", &json!({"text": "hi"}), Calling::default()).await?;
//! assert!(result.success);
//! # Ok(())
//! # }
//! ```
//!
//! An agent of a node that runs somewhere:
//!
//! ```no_run
//! use a2e_runtime::{Address, AgentConfig, Calling, Connector};
//! use serde_json::json;
//!
//! # async fn agent() -> Result<(), Box<dyn std::error::Error>> {
//! let address: Address = "http://127.0.0.1:8765".parse()?;
//! let config = AgentConfig {
//!     auth_token: "frith_…".into(),
//!     wanted: vec!["tools".into()],
//!     ..AgentConfig::default()
//! };
//! let client = Connector::new(address).agent(config).connect().await?;
//! let result = client
//!     .tools()
//!     .call("echo", &json!({"text": "hi"}), Calling::default())
//!     .await?;
//! assert!(result.success);
//! # Ok(())
//! # }
//! ```
//!
//! It is deliberately without capabilities (those are plugins, in `a2e-caps`) and without protocol
//! rules (those are in `a2e-session`).
//!
//! Reading order: [`plugin`](Plugin), `registry`, [`host`](Host), `driver`, [`client`](Client),
//! [`demo`] for a plugin to copy from.

mod access;
mod approvals;
mod attempts;
mod auth;
pub mod blocking;
mod buffers;
mod client;
mod clock;
pub mod config;
mod connections;
mod data_dir;
mod decision;
pub mod definitions;
pub mod demo;
mod dispatch;
mod driver;
mod host;
mod http;
mod idempotency;
mod in_flight;
mod journal;
mod learning;
mod link;
mod listen;
mod metrics;
mod mounted;
mod nearest;
mod newcomers;
pub mod operator;
mod peers;
mod plugin;
mod policies;
mod registry;
mod resolution;
mod secret;
mod session;
mod sessions;
mod slots;
mod snapshot;
mod tls;
mod tokens;
mod trace;

pub use a2e_session::{AgentConfig, ConnectError, Failure, Limits, TypePattern, failures};
pub use access::{Access, AccessHolder};
pub use approvals::{ApprovalRequest, Approvals};
pub use attempts::Limited;
pub use auth::{Authenticator, Identity, Login, Open, Proven, Source};
pub use client::{
    A2eError, Address, AddressError, Asking, CallOptions, Calling, Client, ClientError, Connector,
    CustomMessage, CustomRequest, Dial, Episode, Handler, HandlerId, Link, Memory, RawLink,
    Reconnect, Reply, Roots, Skills, Tools, custom_body, read_custom,
};
pub use connections::EXTRA_CONNECTIONS;
pub use data_dir::{Claim, DataDir, DataError};
pub use decision::{Listed, Permissions, TrialError};
pub use dispatch::{Errand, MAX_DEPTH, StandIn};
pub use host::{Host, HostBuilder};
pub use http::{Connection, Guard, Guest, HttpServer, Route};
pub use learning::{Learner, NEUTRAL, Weights};
pub use listen::{bind_unix, serve_http, serve_tcp, serve_unix};
pub use mounted::{ConfigurationCounters, Mount, Mounted};
pub use nearest::nearest;
pub use peers::{PeerAnswer, PeerRequest, Peers};
pub use plugin::{BoxFuture, Context, Outcome, Plugin, SendError, Serves};
pub use policies::{Looser, Policies};
pub use registry::{ExclusiveConflict, precedence};
pub use resolution::{Resolution, redact};
pub use secret::Secret;
pub use session::Session;
pub use snapshot::{FileStore, MemoryStore, SnapshotMode, SnapshotStore};
pub use tls::{Tls, TlsError};
pub use tokens::{DEFAULT_AGENT, NewToken, Revoked, TokenError, TokenInfo, TokenStore};
pub use trace::TraceContext;

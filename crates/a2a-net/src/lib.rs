//! A2A on the network.
//!
//! [`transport`] is the seam: what carries messages (HTTP/1.1, HTTP/2, gRPC, WebSocket) is on one side of it, what they mean on the
//! other, and neither knows the other. [`book`] is what the operator says about other agents.
//!
//! Below it: [`tls`] says with whom one speaks at all, [`listen`] takes connections, `carry` serves one, and [`courier`] is the
//! other end, which sends.

pub mod book;
mod carry;
pub mod courier;
pub mod listen;
pub mod tls;
pub mod transport;

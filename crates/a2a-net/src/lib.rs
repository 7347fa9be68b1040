//! A2A on the network.
//!
//! [`transport`] is the seam: what carries messages (HTTP/1.1, HTTP/2, gRPC, WebSocket) is on one side of it, what they mean on the
//! other, and neither knows the other. [`book`] is what the operator says about other agents.

pub mod book;
pub mod transport;

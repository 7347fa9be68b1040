//! Starting what is measured.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use benches::node;

/// A running `frith up`.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) node: node::Node,
    pub(crate) http: SocketAddr,
    pub(crate) tcp: SocketAddr,
    pub(crate) unix: PathBuf,
    pub(crate) token: String,
}

/// Without the audit log: what a record costs is measured beside it, not as part of every transport.
const CONFIGURATION: &str = "\
audit: false
a2a: false
plugins: [{name: demo, type: demo}]
server: {listen: '127.0.0.1:0', tcp: '127.0.0.1:0'}
global_limits: {max_sessions: 20000}
telemetry: {log: warn}
";

impl Node {
    pub(crate) fn start(program: &Path) -> io::Result<Self> {
        let node = node::Node::start(program, CONFIGURATION)?;
        Ok(Self {
            http: address(node.endpoint("http", "http://")?)?,
            tcp: address(node.endpoint("tcp", "tcp:")?)?,
            unix: node.endpoint("unix", "unix:")?.into(),
            token: node.token()?,
            node,
        })
    }

    pub(crate) fn hello(&self) -> String {
        hello(&self.token)
    }
}

/// A handshake that asks for tools.
pub(crate) fn hello(token: &str) -> String {
    format!(
        r#"{{"type":"handshake/req","id":"hello","agent_id":"bench","agent_caps":["tools"],"auth_token":"{token}"}}"#
    )
}

fn address(text: &str) -> io::Result<SocketAddr> {
    text.parse().map_err(io::Error::other)
}

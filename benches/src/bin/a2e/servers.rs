//! Starting what is measured.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
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

/// An address with any port that is free.
const ANY: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0));

/// Without the audit log: what a record costs is measured beside it, not as part of every transport.
pub(crate) fn configuration(http: SocketAddr) -> String {
    format!(
        "\
audit: false
a2a: false
plugins: [{{name: demo, type: demo}}]
server: {{listen: '{http}', tcp: '127.0.0.1:0'}}
global_limits: {{max_sessions: 20000, max_sessions_per_agent: 20000, max_requests_per_agent: 20000}}
telemetry: {{log: warn}}
"
    )
}

impl Node {
    pub(crate) fn start(program: &Path) -> io::Result<Self> {
        let node = node::Node::start(program, &configuration(ANY))?;
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

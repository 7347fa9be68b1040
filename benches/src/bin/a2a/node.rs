//! Our node, and what is different from the defaults.

use std::io;
use std::process::Command;

use benches::arguments::Programs;
use benches::node::Node;

/// One agent from one address does what the limits keep one agent from doing, so those are raised: how
/// often it may shake hands, send and ask, and how many connections and sessions it has. Sessions that nobody
/// uses go soon, as there are thousands. The audit log is as it is by default.
const CONFIGURATION: &str = "\
server: {listen: '127.0.0.1:0'}
a2a:
  listen: '127.0.0.1:0'
  policy: {rate_limit: 10000000, rate_period: 1, max_concurrent_sessions: 1000000}
  limits:
    connections: 10000
    connections_per_source: 10000
    half_open_per_source: 4096
    hellos_per_second: 100000
    messages_per_second: 1000000
    newcomers_per_minute: 10000000
    sessions: 1000000
    sessions_per_source: 1000000
    unclaimed_seconds: 5
telemetry: {log: error}
";

pub(crate) fn start(programs: &Programs) -> io::Result<Node> {
    Node::start(&programs.own.join("frith"), CONFIGURATION)
}

/// Our client, to do something with a node.
pub(crate) fn client(programs: &Programs, node: &Node, task: &[&str]) -> io::Result<Command> {
    let mut command = Command::new(programs.own.join("a2a_client"));
    command.args(task);
    let origin = format!("https://{}", node.endpoint("a2a", "https://")?);
    command.arg(origin).arg(node.authority());
    Ok(command)
}

//! What a session costs when nothing happens in it.

use std::io::{self, BufRead, BufReader};
use std::process::ChildStdin;

use benches::arguments::Programs;
use benches::report::Figure;
use benches::server::Server;

use crate::node;

/// KiB that a session may take.
const MOST: f64 = 8.0;

/// Opens sessions over one connection, with one request in each, and looks at the node's memory.
pub(crate) fn measure(programs: &Programs, sessions: usize) -> io::Result<Vec<Figure>> {
    let node = node::start(programs)?;
    // What the first sessions of all bring is no session's.
    let first = hold(programs, &node, sessions.div_ceil(10))?;
    let before = node.server.usage()?;
    let held = hold(programs, &node, sessions)?;
    let after = node.server.usage()?;
    drop((first, held));
    let each = (after.resident - before.resident) / sessions as f64;
    let name = format!("{sessions} idle sessions: each");
    Ok(vec![Figure::new(&name, each, "KiB", Some(MOST))])
}

/// A client that holds sessions open.
struct HeldSessions {
    client: Server,
    input: Option<ChildStdin>,
}

impl Drop for HeldSessions {
    /// Ends the client's input and waits: one that is killed leaves its files behind.
    fn drop(&mut self) {
        self.input = None;
        self.client.wait();
    }
}

fn hold(
    programs: &Programs,
    node: &benches::node::Node,
    sessions: usize,
) -> io::Result<HeldSessions> {
    let mut client = node::client(programs, node, &["hold", &sessions.to_string()])?;
    let (client, output, input) = Server::piped(&mut client)?;
    let mut held = String::new();
    BufReader::new(output).read_line(&mut held)?;
    match held.trim().parse() == Ok(sessions) {
        true => Ok(HeldSessions {
            client,
            input: Some(input),
        }),
        false => Err(io::Error::other(format!(
            "{sessions} sessions wanted: {held}"
        ))),
    }
}

//! What the sessions of one agent may take of a node, and that others keep theirs.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

use serde_json::{Value, json};

use crate::frith;
use crate::node::{Node, Wire};

/// A connection over TCP that speaks raw lines.
pub(crate) struct Tcp(BufReader<TcpStream>);

impl Tcp {
    fn connect(node: &Node) -> Self {
        let address = node.at("tcp").strip_prefix("tcp:").unwrap();
        Self(BufReader::new(TcpStream::connect(address).unwrap()))
    }

    pub(crate) fn ask(&mut self, message: &Value) -> Value {
        writeln!(self.0.get_mut(), "{message}").unwrap();
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }

    /// One that has shaken hands, or why it could not.
    pub(crate) fn begin(node: &Node, token: &str) -> Result<Self, String> {
        let mut tcp = Self::connect(node);
        let answer = tcp.ask(&hello(token));
        refusal(&answer).map_or(Ok(tcp), Err)
    }

    pub(crate) fn into_stream(self) -> TcpStream {
        self.0.into_inner()
    }
}

fn hello(token: &str) -> Value {
    json!({"type": "handshake/req", "id": "h", "agent_caps": ["tools"], "auth_token": token})
}

/// Why a handshake was refused, before or after the agent was known.
fn refusal(answer: &Value) -> Option<String> {
    let is_refused = answer["ok"] != true;
    is_refused.then(|| {
        answer["reason"].as_str().unwrap_or_default().to_owned() + &answer["message"].to_string()
    })
}

fn begin_unix(node: &Node, token: &str) -> Result<Wire, String> {
    let mut wire = node.wire();
    let answer = wire.ask(&hello(token));
    refusal(&answer).map_or(Ok(wire), Err)
}

/// A token of another agent.
pub(crate) fn token_of(node: &Node, agent: &str) -> String {
    let data = node.data();
    let words = [
        "token",
        "new",
        agent,
        "--json",
        "--data",
        data.to_str().unwrap(),
    ];
    let (status, out, error) = frith(&words, "");
    assert_eq!(status, 0, "{error}");
    let made: Value = serde_json::from_str(&out).unwrap();
    made["token"].as_str().unwrap().to_owned()
}

pub(crate) fn echo() -> Value {
    json!({"type": "tool/call/req", "id": "e", "tool_name": "echo", "arguments": {"n": 1}})
}

/// The operator calls a tool from the command line.
pub(crate) fn operator_calls(node: &Node) {
    let data = node.data();
    let words = [
        "call",
        "echo",
        r#"{"n":1}"#,
        "--data",
        data.to_str().unwrap(),
    ];
    let (status, _, error) = frith(&words, "");
    assert_eq!(status, 0, "{error}");
}

fn node(limits: &str) -> (Node, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let config = format!("server: {{tcp: '127.0.0.1:0'}}\nglobal_limits: {{{limits}}}\n");
    (Node::start(folder.path(), &config), folder)
}

/// One token takes all it gets, over every kind of connection: at its limit it is refused over each,
/// another agent and the operator begin sessions as before, and what ends makes room.
#[test]
fn an_agent_at_its_limit_locks_no_one_out() {
    let (node, _folder) = node("max_sessions_per_agent: 5");
    let greedy = token_of(&node, "greedy");
    let mut held: Vec<Tcp> = (0..2)
        .map(|_| Tcp::begin(&node, &greedy).unwrap())
        .collect();
    let mut unix: Vec<Wire> = (0..3)
        .map(|_| begin_unix(&node, &greedy).unwrap())
        .collect();
    let refused = [
        Tcp::begin(&node, &greedy).err().unwrap(),
        begin_unix(&node, &greedy).err().unwrap(),
        #[cfg(feature = "mcp")]
        {
            let bearer = format!("Bearer {greedy}");
            let headers = [("authorization", bearer.as_str())];
            crate::mcp::http(&node, "POST", &headers, &crate::mcp::hello()).2
        },
    ];
    for text in refused {
        for part in ["`greedy`", ", 5;", "global_limits.max_sessions_per_agent"] {
            assert!(text.contains(part), "{text}");
        }
    }
    let mut honest = Tcp::begin(&node, &token_of(&node, "honest")).unwrap();
    assert_eq!(honest.ask(&echo())["type"], "tool/call/resp");
    operator_calls(&node);
    assert_eq!(
        held[0].ask(&echo())["type"],
        "tool/call/resp",
        "its own sessions go on"
    );
    assert_eq!(unix[0].ask(&echo())["type"], "tool/call/resp");
    drop(held.pop());
    // The node notices the end of the connection in its own time.
    while Tcp::begin(&node, &greedy).is_err() {}
}

/// The operator's own token, used by an agent elsewhere, is counted apart from the operator's commands.
#[test]
fn agents_with_the_operators_token_do_not_lock_it_out() {
    let (node, _folder) = node("max_sessions_per_agent: 3");
    let _held: Vec<Tcp> = (0..3)
        .map(|_| Tcp::begin(&node, &node.token).unwrap())
        .collect();
    let text = Tcp::begin(&node, &node.token).err().unwrap();
    assert!(text.contains("too_many_sessions"), "{text}");
    operator_calls(&node);
}

/// Agents that fill the node together, each within its own limit, leave the slots that are the
/// operator's: another agent is refused, also over the operator's socket.
#[test]
fn a_full_node_has_slots_for_the_operator() {
    let (node, _folder) = node("max_sessions: 8, max_sessions_per_agent: 3");
    let [first, second] = ["first", "second"].map(|agent| token_of(&node, agent));
    let held = [&first, &first, &first, &second, &second, &second];
    let _held = held.map(|token| Tcp::begin(&node, token).unwrap());
    let third = token_of(&node, "third");
    for text in [
        Tcp::begin(&node, &third).err().unwrap(),
        begin_unix(&node, &third).err().unwrap(),
    ] {
        assert!(text.contains("global_limits.max_sessions`"), "{text}");
    }
    operator_calls(&node);
}

//! Who is measured, and the measuring.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::process::Command;

use benches::arguments::Programs;
use benches::client::Client;
use benches::pin::{Cpus, Pinning};
use benches::server::Server;
use benches::turns::{Load, Turns};
use tempfile::TempDir;

use crate::http::{Connection, Events, Posts, connect};
use crate::lines::Lines;
use crate::load::{Calls, Channel, Over};
use crate::servers::{Node, hello};
use crate::websocket::WebSocket;

/// How messages travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Transport {
    Stdio,
    Unix,
    Tcp,
    Http,
    /// The same, with each side's own client instead of a bare one.
    HttpClients,
    WebSocket,
}

/// Whose server it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Side {
    Limit,
    Ours,
    RustMcp,
    PythonMcp,
}

/// All contestants, with their servers.
pub(crate) struct Contest {
    pub(crate) turns: Turns<Name>,
    only: Option<Transport>,
    servers: Vec<Server>,
    nodes: Vec<Node>,
    folder: TempDir,
}

/// Whose server, over what.
pub(crate) type Name = (Transport, Side);

const MOST: usize = 64;

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":"hello","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}"#;
const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

impl Transport {
    pub(crate) const ALL: [Self; 6] = [
        Self::Stdio,
        Self::Unix,
        Self::Tcp,
        Self::Http,
        Self::HttpClients,
        Self::WebSocket,
    ];

    /// The one whose name begins so.
    pub(crate) fn named(begin: &str) -> Option<Self> {
        let begin = begin.to_lowercase();
        Self::ALL
            .into_iter()
            .find(|transport| transport.name().to_lowercase().starts_with(&begin))
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Stdio => "stdio",
            Self::Unix => "Unix socket",
            Self::Tcp => "TCP",
            Self::Http => "HTTP + SSE",
            Self::HttpClients => "own clients",
            Self::WebSocket => "WebSocket",
        }
    }
}

impl Side {
    pub(crate) const ALL: [Self; 4] = [Self::Limit, Self::Ours, Self::RustMcp, Self::PythonMcp];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Limit => "bare limit",
            Self::Ours => "frith",
            Self::RustMcp => "Rust MCP SDK",
            Self::PythonMcp => "Python MCP SDK",
        }
    }
}

impl Contest {
    /// Starts every server that is there, and a client for each.
    pub(crate) fn start(
        programs: &Programs,
        (cpus, pinning): (&Cpus, Pinning),
        only: Option<Transport>,
    ) -> io::Result<Self> {
        cpus.be_server()?;
        let mut contest = Self {
            turns: Turns::default(),
            only,
            servers: Vec::new(),
            nodes: Vec::new(),
            folder: tempfile::tempdir()?,
        };
        contest.add_limits(programs)?;
        let mut clients = vec![contest.add_ours(programs)?];
        clients.extend(contest.add_peers(programs)?);
        // From here on this is the client of all the others.
        cpus.be_client(pinning)?;
        for (side, mut client) in clients {
            let client = Client::start(&mut client)?;
            contest.add_load(Transport::HttpClients, side, client);
        }
        Ok(contest)
    }

    fn add(&mut self, transport: Transport, side: Side, channel: impl Channel + 'static) {
        self.add_load(transport, side, Over(channel));
    }

    fn add_load(&mut self, transport: Transport, side: Side, load: impl Load + 'static) {
        if self.only.is_none_or(|only| only == transport) {
            self.turns.add((transport, side), load);
        }
    }

    fn add_limits(&mut self, programs: &Programs) -> io::Result<()> {
        let limit = programs.own.join("limit");
        let (server, input, output) = Server::piped(Command::new(&limit).arg("stdio"))?;
        self.servers.push(server);
        let lines = Lines::new(input, output, Calls::a2e(0));
        self.add(Transport::Stdio, Side::Limit, lines);

        let path = self.folder.path().join("limit.sock");
        let (server, path) = Server::listening(Command::new(&limit).arg("unix").arg(path))?;
        self.servers.push(server);
        self.add(Transport::Unix, Side::Limit, over_unix(path.as_ref(), 0)?);

        let (server, address) = Server::listening(Command::new(&limit).arg("tcp"))?;
        self.servers.push(server);
        self.add(Transport::Tcp, Side::Limit, over_tcp(parsed(&address)?, 0)?);
        Ok(())
    }

    /// Gives our own client, to be started.
    fn add_ours(&mut self, programs: &Programs) -> io::Result<(Side, Command)> {
        let frith = programs.own.join("frith");
        let (server, input, output) = Server::piped(Command::new(&frith).arg("stdio"))?;
        self.servers.push(server);
        let mut lines = Lines::new(input, output, Calls::a2e(0));
        lines.ask(&hello(""))?;
        self.add(Transport::Stdio, Side::Ours, lines);

        let node = Node::start(&frith)?;
        let mut unix = over_unix(&node.unix, 1)?;
        unix.ask(&node.hello())?;
        self.add(Transport::Unix, Side::Ours, unix);
        let mut tcp = over_tcp(node.tcp, 2)?;
        tcp.ask(&node.hello())?;
        self.add(Transport::Tcp, Side::Ours, tcp);
        self.add(Transport::Http, Side::Ours, over_http(&node, 3)?);
        let mut client = Command::new(programs.own.join("a2e_client"));
        client.arg(format!("http://{}", node.http)).arg(&node.token);
        let mut socket = WebSocket::open(node.http, Calls::a2e(4))?;
        socket.ask(&node.hello())?;
        self.add(Transport::WebSocket, Side::Ours, socket);
        self.nodes.push(node);
        Ok((Side::Ours, client))
    }

    /// Gives the peers' own client, to be started.
    fn add_peers(&mut self, programs: &Programs) -> io::Result<Option<(Side, Command)>> {
        let mut own = None;
        if let Some(peers) = &programs.peers {
            let (server, address) = Server::listening(&mut Command::new(peers.join("http_limit")))?;
            self.servers.push(server);
            let address = parsed(&address)?;
            let headers = "Content-Type: application/json\r\n";
            let posts = Posts::open(address, "/echo", headers, None, Calls::a2e(0), MOST)?;
            self.add(Transport::Http, Side::Limit, posts);
            let socket = WebSocket::open(address, Calls::a2e(0))?;
            self.add(Transport::WebSocket, Side::Limit, socket);

            let mcp = peers.join("mcp");
            self.add_mcp(Side::RustMcp, Command::new(&mcp).arg("stdio"))?;
            let (server, address) = Server::listening(Command::new(&mcp).arg("http"))?;
            self.servers.push(server);
            let posts = mcp_over_http(parsed(&address)?)?;
            self.add(Transport::Http, Side::RustMcp, posts);
            let mut client = Command::new(peers.join("mcp_client"));
            client.arg(format!("http://{address}/mcp"));
            own = Some((Side::RustMcp, client));
        }
        if let Some((interpreter, script)) = &programs.python {
            self.add_mcp(Side::PythonMcp, Command::new(interpreter).arg(script))?;
        }
        Ok(own)
    }

    fn add_mcp(&mut self, side: Side, command: &mut Command) -> io::Result<()> {
        let (server, input, output) = Server::piped(command)?;
        self.servers.push(server);
        let mut lines = Lines::new(input, output, Calls::mcp());
        lines.ask(INITIALIZE)?;
        lines.tell(INITIALIZED)?;
        self.add(Transport::Stdio, side, lines);
        Ok(())
    }
}

fn parsed(address: &str) -> io::Result<SocketAddr> {
    address.parse().map_err(io::Error::other)
}

fn over_tcp(address: SocketAddr, line: u64) -> io::Result<Lines<TcpStream, TcpStream>> {
    let stream = connect(address)?;
    Ok(Lines::new(stream.try_clone()?, stream, Calls::a2e(line)))
}

fn over_unix(path: &std::path::Path, line: u64) -> io::Result<Lines<UnixStream, UnixStream>> {
    let stream = UnixStream::connect(path)?;
    Ok(Lines::new(stream.try_clone()?, stream, Calls::a2e(line)))
}

/// A session over HTTP, with its stream.
fn over_http(node: &Node, line: u64) -> io::Result<Posts> {
    let (headers, events) = open_http(node, &mut Connection::open(node.http)?)?;
    Posts::open(
        node.http,
        "/send",
        &headers,
        Some(events),
        Calls::a2e(line),
        MOST,
    )
}

/// Begins a session over HTTP and shakes hands; gives the headers of its posts, and its stream.
pub(crate) fn open_http(node: &Node, connection: &mut Connection) -> io::Result<(String, Events)> {
    let host = node.http;
    let begin = format!("POST /session HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0\r\n\r\n");
    let begun = connection.ask(&begin)?;
    let id = begun.split('"').rev().nth(1).unwrap_or_default();
    let headers = format!("X-Session-Id: {id}\r\nContent-Type: text/plain\r\n");
    let stream = format!(
        "GET /stream HTTP/1.1\r\nHost: {host}\r\nX-Session-Id: {id}\r\nAccept: text/event-stream\r\n\r\n"
    );
    let mut events = Events::open(host, &stream)?;
    let hello = node.hello();
    connection.ask(&post(host, "/send", &headers, &hello))?;
    events.next()?;
    Ok((headers, events))
}

fn mcp_over_http(address: SocketAddr) -> io::Result<Posts> {
    let headers =
        "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n";
    let mut connection = Connection::open(address)?;
    let begun = connection.ask(&post(address, "/mcp", headers, INITIALIZE))?;
    let id = begun
        .lines()
        .find_map(|line| line.strip_prefix("mcp-session-id: "))
        .ok_or_else(|| io::Error::other(format!("no session: {begun}")))?;
    let headers = format!("{headers}Mcp-Session-Id: {id}\r\nMcp-Protocol-Version: 2025-06-18\r\n");
    connection.ask(&post(address, "/mcp", &headers, INITIALIZED))?;
    Posts::open(address, "/mcp", &headers, None, Calls::mcp(), MOST)
}

fn post(host: SocketAddr, path: &str, headers: &str, body: &str) -> String {
    let size = body.len();
    format!("POST {path} HTTP/1.1\r\nHost: {host}\r\n{headers}Content-Length: {size}\r\n\r\n{body}")
}

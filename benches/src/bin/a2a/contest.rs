//! Who is measured, and the measuring.

use std::io;
use std::path::Path;
use std::process::Command;

use benches::arguments::Programs;
use benches::client::Client;
use benches::node::Node;
use benches::pin::{Cpus, Pinning};
use benches::server::Server;
use benches::turns::Turns;
use tempfile::TempDir;

use crate::node;

/// What is done over and over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Task {
    /// A handshake of six messages.
    Handshake,
    /// A request and its response.
    Request,
}

/// How messages travel, over TLS 1.3.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Transport {
    Http1,
    Http2,
    Grpc,
    WebSocket,
}

/// Whose server and client they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Side {
    Bare,
    Floor,
    Ours,
    RustSdk,
    PythonSdk,
}

/// All contestants, with their servers.
pub(crate) struct Contest {
    pub(crate) turns: Turns<Name>,
    /// The bytes of each message, in the order in which they are sent.
    pub(crate) sizes: String,
    only: Option<Transport>,
    servers: Vec<Server>,
    node: Node,
    /// With the certificate of the peers' servers.
    folder: TempDir,
}

/// What is done, over what, by whose server and client.
pub(crate) type Name = (Task, Transport, Side);

impl Task {
    pub(crate) const ALL: [Self; 2] = [Self::Handshake, Self::Request];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Handshake => "handshake",
            Self::Request => "request",
        }
    }
}

impl Transport {
    pub(crate) const ALL: [Self; 4] = [Self::Http1, Self::Http2, Self::Grpc, Self::WebSocket];

    /// The one of this name.
    pub(crate) fn named(name: &str) -> io::Result<Self> {
        let mut all = Self::ALL.into_iter();
        let found = all.find(|transport| transport.name() == name);
        found.ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            io::Error::other(format!("there is no transport `{name}`, only {names}"))
        })
    }

    /// Its name for programs, ours and the peers'.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Http1 => "http/1.1",
            Self::Http2 => "h2",
            Self::Grpc => "grpc",
            Self::WebSocket => "websocket",
        }
    }
}

impl Side {
    pub(crate) const ALL: [Self; 5] = [
        Self::Bare,
        Self::Floor,
        Self::Ours,
        Self::RustSdk,
        Self::PythonSdk,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Bare => "bare axum",
            Self::Floor => "floor",
            Self::Ours => "frith",
            Self::RustSdk => "Rust SDK",
            Self::PythonSdk => "Python SDK",
        }
    }
}

impl Contest {
    /// Starts every server that is there, and a client for each thing to do with it.
    pub(crate) fn start(
        programs: &Programs,
        (cpus, pinning): (&Cpus, Pinning),
        only: Option<Transport>,
    ) -> io::Result<Self> {
        cpus.be_server()?;
        let node = node::start(programs)?;
        cpus.be_client(pinning)?;
        let mut contest = Self {
            sizes: sizes(programs, &node)?,
            turns: Turns::default(),
            only,
            servers: Vec::new(),
            node,
            folder: tempfile::tempdir()?,
        };
        contest.add_ours(programs)?;
        if let Some(peers) = &programs.peers {
            cpus.be_server()?;
            let mut floor = Command::new(peers.join("a2a_floor"));
            floor.arg("serve").arg(contest.folder.path());
            let floor = contest.serve(floor.arg(&contest.sizes))?;
            let mut sdk = Command::new(peers.join("a2a_sdk"));
            let sdk = contest.serve(sdk.arg("serve").arg(contest.folder.path()))?;
            cpus.be_client(pinning)?;
            contest.add_floors(peers, &floor)?;
            contest.add_rust_sdk(peers, &sdk)?;
        }
        // It shows the certificate that the floor has made.
        if let (Some((python, scripts)), true) = (&programs.python, programs.peers.is_some()) {
            cpus.be_server()?;
            let mut agent = Command::new(python);
            agent.arg(scripts.join("a2a_agent.py"));
            let agent = contest.serve(agent.arg(contest.folder.path()))?;
            cpus.be_client(pinning)?;
            let mut caller = Command::new(python);
            caller.arg(scripts.join("a2a_caller.py")).arg(&agent);
            caller.arg(contest.folder.path());
            contest.add((Task::Request, Transport::Http1, Side::PythonSdk), caller)?;
        }
        Ok(contest)
    }

    /// Starts a server; says where it is.
    fn serve(&mut self, command: &mut Command) -> io::Result<String> {
        let (server, address) = Server::listening(command)?;
        self.servers.push(server);
        Ok(address)
    }

    fn add(&mut self, (task, transport, side): Name, mut client: Command) -> io::Result<()> {
        if self.only.is_none_or(|only| only == transport) {
            let client = Client::start(&mut client)?;
            self.turns.add((task, transport, side), client);
        }
        Ok(())
    }

    fn add_ours(&mut self, programs: &Programs) -> io::Result<()> {
        for task in Task::ALL {
            for transport in Transport::ALL {
                let words = [task.name(), transport.name()];
                let client = node::client(programs, &self.node, &words)?;
                self.add((task, transport, Side::Ours), client)?;
            }
        }
        Ok(())
    }

    fn add_floors(&mut self, peers: &Path, address: &str) -> io::Result<()> {
        for task in Task::ALL {
            for transport in Transport::ALL {
                for (side, trust) in [(Side::Bare, "bare"), (Side::Floor, "signed")] {
                    let mut client = Command::new(peers.join("a2a_floor"));
                    client.args(["call", trust, transport.name(), task.name(), address]);
                    client.arg(self.folder.path()).arg(&self.sizes);
                    self.add((task, transport, side), client)?;
                }
            }
        }
        Ok(())
    }

    fn add_rust_sdk(&mut self, peers: &Path, address: &str) -> io::Result<()> {
        for transport in [Transport::Http1, Transport::Http2] {
            let mut client = Command::new(peers.join("a2a_sdk"));
            client.args(["call", transport.name(), address]);
            client.arg(self.folder.path());
            self.add((Task::Request, transport, Side::RustSdk), client)?;
        }
        Ok(())
    }
}

/// Asks our client how large messages are, for the floor to send as much.
fn sizes(programs: &Programs, node: &Node) -> io::Result<String> {
    let output = node::client(programs, node, &["sizes"])?.output()?;
    let sizes = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    match output.status.success() && sizes.split(',').count() == 8 {
        true => Ok(sizes),
        false => Err(io::Error::other(format!(
            "the client cannot talk to the node: {sizes}{}",
            String::from_utf8_lossy(&output.stderr)
        ))),
    }
}

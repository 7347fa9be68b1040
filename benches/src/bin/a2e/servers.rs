//! Starting what is measured.

use std::fs;
use std::io::{self, BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// Where the programs are.
#[derive(Debug)]
pub(crate) struct Programs {
    /// Ours and the bare limit of NDJSON.
    pub(crate) own: PathBuf,
    /// Bare limits of HTTP and MCP in Rust.
    pub(crate) peers: Option<PathBuf>,
    /// MCP in Python: an interpreter and a script.
    pub(crate) python: Option<(PathBuf, PathBuf)>,
}

/// A running server; it ends with this.
#[derive(Debug)]
pub(crate) struct Server(Child);

/// A running `frith up`.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) server: Server,
    pub(crate) http: SocketAddr,
    pub(crate) tcp: SocketAddr,
    pub(crate) unix: PathBuf,
    pub(crate) token: String,
    _data: TempDir,
    /// Open, so that it can say what it has to say.
    _output: ChildStdout,
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

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Server {
    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }

    /// Starts a program that speaks over its standard input and output.
    pub(crate) fn piped(command: &mut Command) -> io::Result<(Self, ChildStdout, ChildStdin)> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| io::Error::other(format!("{command:?}: {error}")))?;
        let pipes = child.stdout.take().zip(child.stdin.take());
        let (output, input) = pipes.ok_or_else(|| io::Error::other("no pipes"))?;
        Ok((Self(child), output, input))
    }

    /// Starts a program that prints where it listens.
    pub(crate) fn listening(command: &mut Command) -> io::Result<(Self, String)> {
        let (server, output, _) = Self::piped(command)?;
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        match line.trim() {
            "" => Err(io::Error::other(format!("{command:?} did not start"))),
            address => Ok((server, address.to_owned())),
        }
    }
}

impl Node {
    pub(crate) fn start(program: &Path) -> io::Result<Self> {
        let data = tempfile::tempdir()?;
        let config = data.path().join("bench.yaml");
        fs::write(&config, CONFIGURATION)?;
        let folder = data.path().join("data");
        let mut command = Command::new(program);
        command.arg("up").arg("--config").arg(&config);
        let (server, mut output, _) = Server::piped(command.arg("--data").arg(&folder))?;
        // It says where it is when all of it is there.
        let mut said = [0; 1];
        output.read_exact(&mut said)?;
        let endpoints = fs::read(folder.join("endpoints.json"))?;
        let endpoints: Value = serde_json::from_slice(&endpoints)?;
        Ok(Self {
            server,
            http: address(&endpoints, "http", "http://")?,
            tcp: address(&endpoints, "tcp", "tcp:")?,
            unix: endpoint(&endpoints, "unix", "unix:")?.into(),
            token: fs::read_to_string(folder.join("token"))?.trim().to_owned(),
            _data: data,
            _output: output,
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

fn endpoint<'a>(endpoints: &'a Value, name: &str, scheme: &str) -> io::Result<&'a str> {
    let value = endpoints.get(name).and_then(Value::as_str);
    let value = value.and_then(|value| value.strip_prefix(scheme));
    value.ok_or_else(|| io::Error::other(format!("no `{name}` in {endpoints}")))
}

fn address(endpoints: &Value, name: &str, scheme: &str) -> io::Result<SocketAddr> {
    endpoint(endpoints, name, scheme)?
        .parse()
        .map_err(io::Error::other)
}

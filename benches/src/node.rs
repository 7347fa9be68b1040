//! A running `frith up`, with data of its own.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Command};

use serde_json::Value;
use tempfile::TempDir;

use crate::server::Server;

/// A node that takes connections; it ends with this.
#[derive(Debug)]
pub struct Node {
    /// Its process.
    pub server: Server,
    endpoints: Value,
    data: TempDir,
    /// Open, so that it can say what it has to say.
    _output: ChildStdout,
}

impl Node {
    /// Starts a node with this configuration, and waits until all of it is there.
    ///
    /// # Errors
    /// If it does not start.
    pub fn start(program: &Path, configuration: &str) -> io::Result<Self> {
        let data = tempfile::tempdir()?;
        let config = data.path().join("bench.yaml");
        fs::write(&config, configuration)?;
        let folder = data.path().join("data");
        let mut command = Command::new(program);
        // The development CA too is of this node alone.
        command.env("XDG_DATA_HOME", data.path());
        command.arg("up").arg("--config").arg(&config);
        let (server, mut output, _) = Server::piped(command.arg("--data").arg(&folder))?;
        // It says where it is when all of it is there.
        let mut said = [0; 1];
        output.read_exact(&mut said)?;
        let endpoints = fs::read(folder.join("endpoints.json"))?;
        Ok(Self {
            server,
            endpoints: serde_json::from_slice(&endpoints)?,
            data,
            _output: output,
        })
    }

    /// Where it listens, behind the scheme.
    ///
    /// # Errors
    /// If it does not.
    pub fn endpoint(&self, name: &str, scheme: &str) -> io::Result<&str> {
        let endpoints = &self.endpoints;
        let value = endpoints.get(name).and_then(Value::as_str);
        let value = value.and_then(|value| value.strip_prefix(scheme));
        value.ok_or_else(|| io::Error::other(format!("no `{name}` in {endpoints}")))
    }

    /// The token of its default agent.
    ///
    /// # Errors
    /// If it has none.
    pub fn token(&self) -> io::Result<String> {
        let token = fs::read_to_string(self.data.path().join("data/token"))?;
        Ok(token.trim().to_owned())
    }

    /// The certificate of the authority that its own comes from.
    #[must_use]
    pub fn authority(&self) -> PathBuf {
        self.data.path().join("frith/ca/ca.pem")
    }
}

//! A node of our own: `frith up` in a process of its own, with a data directory of its own.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

pub(crate) struct Node {
    process: Child,
    folder: PathBuf,
    pub(crate) endpoints: Value,
    pub(crate) token: String,
}

/// A connection to a node's Unix socket that speaks raw lines.
pub(crate) struct Wire(BufReader<UnixStream>);

impl Node {
    /// Starts a node in a folder, and waits until it has said where it is.
    pub(crate) fn start(folder: &Path, config: &str) -> Self {
        Self::start_with(folder, config, &[])
    }

    /// The same, with these in its environment.
    pub(crate) fn start_with(folder: &Path, config: &str, variables: &[(&str, &Path)]) -> Self {
        let mut program = Command::new(env!("CARGO_BIN_EXE_frith"));
        program.envs(variables.iter().copied());
        Self::start_as(folder, config, program)
    }

    /// The same, with so many open files at most.
    pub(crate) fn start_with_open_files(folder: &Path, config: &str, most: usize) -> Self {
        let mut program = Command::new("sh");
        let script = format!("ulimit -n {most}; exec \"$0\" \"$@\"");
        program.args(["-c", &script, env!("CARGO_BIN_EXE_frith")]);
        Self::start_as(folder, config, program)
    }

    fn start_as(folder: &Path, config: &str, mut program: Command) -> Self {
        // Most tests are about the node, and use the tools that are there to try things with.
        let config = if config == "{}" { "" } else { config };
        let demo = match config.contains("plugins") || config.starts_with('{') {
            true => "",
            false => "plugins: [{name: demo, type: demo}]\n",
        };
        std::fs::write(folder.join("frith.yaml"), format!("{demo}{config}")).unwrap();
        // No test may take the port that all nodes have in mind.
        let says_where = ["a2a: false", "a2a: {listen"];
        let a2a = match says_where.iter().any(|text| config.contains(text)) {
            true => [].as_slice(),
            false => &["--a2a-listen", "127.0.0.1:0"],
        };
        let mut process = program
            .args(["up", "--listen", "127.0.0.1:0"])
            .args(a2a)
            .arg("--data")
            .arg(folder.join("data"))
            .current_dir(folder)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let out = BufReader::new(process.stdout.take().unwrap());
        let last = out
            .lines()
            .map(Result::unwrap)
            .find(|line| line.contains("Ctrl-C"));
        assert!(last.is_some(), "the node did not come up");
        let read = |name: &str| std::fs::read_to_string(folder.join("data").join(name)).unwrap();
        Self {
            process,
            folder: folder.to_owned(),
            endpoints: serde_json::from_str(&read("endpoints.json")).unwrap(),
            token: read("token").trim().to_owned(),
        }
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    /// One of its addresses, as `endpoints.json` has it.
    pub(crate) fn at(&self, name: &str) -> &str {
        self.endpoints[name].as_str().unwrap()
    }

    pub(crate) fn wire(&self) -> Wire {
        let path = self.at("unix").strip_prefix("unix:").unwrap();
        Wire::connect(Path::new(path))
    }

    /// What the kernel says of its memory, in KiB: `VmRSS` or `VmHWM`.
    pub(crate) fn memory(&self, name: &str) -> u64 {
        let status = format!("/proc/{}/status", self.process.id());
        let status = std::fs::read_to_string(status).unwrap();
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }

    /// Forgets the most that it has ever had in memory.
    pub(crate) fn forget_peak(&self) {
        std::fs::write(format!("/proc/{}/clear_refs", self.process.id()), "5").unwrap();
    }

    pub(crate) fn signal(&self, name: &str) {
        let id = self.process.id().to_string();
        assert!(
            Command::new("kill")
                .args([name, &id])
                .status()
                .unwrap()
                .success()
        );
    }

    /// Waits for its end; returns its exit status.
    pub(crate) fn wait(&mut self) -> Option<i32> {
        self.process.wait().unwrap().code()
    }

    /// Ends it as a crash would.
    pub(crate) fn crash(mut self) -> PathBuf {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        self.folder.clone()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Wire {
    /// Connects to a Unix socket.
    pub(crate) fn connect(path: &Path) -> Self {
        Self(BufReader::new(UnixStream::connect(path).unwrap()))
    }

    pub(crate) fn into_stream(self) -> UnixStream {
        self.0.into_inner()
    }

    /// Fails where nothing is heard for so long.
    pub(crate) fn set_deadline(&self, deadline: Duration) {
        let stream = self.0.get_ref();
        stream.set_read_timeout(Some(deadline)).unwrap();
    }

    pub(crate) fn say(&mut self, message: &Value) {
        let line = format!("{message}\n");
        self.0.get_mut().write_all(line.as_bytes()).unwrap();
    }

    /// The next message; nothing at the end.
    pub(crate) fn hear(&mut self) -> Option<Value> {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        (!line.is_empty()).then(|| serde_json::from_str(&line).unwrap())
    }

    pub(crate) fn ask(&mut self, message: &Value) -> Value {
        self.say(message);
        self.hear().unwrap()
    }

    /// The next message of a node that may have been killed; half a line is nothing.
    pub(crate) fn hear_of_killed(&mut self) -> Option<Value> {
        let mut line = String::new();
        // A socket whose other end died with something unread ends in an error.
        let is_read = self.0.read_line(&mut line).is_ok() && line.ends_with('\n');
        is_read.then(|| serde_json::from_str(&line).unwrap())
    }

    /// All that a node had said before it was killed.
    pub(crate) fn last_words(mut self) -> Vec<Value> {
        std::iter::from_fn(|| self.hear_of_killed()).collect()
    }
}

//! A node that does work, its folder, and how both end and come back.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;
use testkit::DiskFaults;

use super::clock::Clock;
use super::disk::{Disk, run};
use crate::bridged::records;
use crate::frith;
use crate::node::Node;

/// The tool whose runs are counted. It appends a line to a file. If there is a FIFO, it goes on when the
/// other end of that is closed.
const PAY: &str = "echo run >> log; if test -p gate; then cat gate; fi; echo paid";

/// A tool of which many run at once. It appends what it is given to a file.
const NOTE: &str = "echo \"$0\" >> notes";

/// What a node is started with.
#[derive(Debug, Default, Clone)]
pub(super) struct Settings {
    /// Whether calls of the tool wait for the operator.
    pub(super) asks: bool,
    /// How long requests may take after SIGTERM; ten seconds unless it is set.
    pub(super) drain_seconds: Option<u64>,
    /// How long a request without a timeout of its own may take.
    pub(super) request_seconds: Option<u64>,
    /// When the store and the audit log are synced.
    pub(super) sync: Option<&'static str>,
    /// Whether the data directory is a file system of its own.
    pub(super) has_disk: bool,
    /// Whether calls of the node to its disk can fail.
    pub(super) has_faults: bool,
    /// How long a session of another agent lasts; an hour unless it is set.
    pub(super) session_seconds: Option<u64>,
    /// Whether the node has its identity for two days.
    pub(super) is_old: bool,
}

/// A node and its folder. The folder of the tool is not in the data directory: it stands for the world.
pub(super) struct Site {
    node: Option<Node>,
    settings: Settings,
    disk: Option<Disk>,
    faults: Option<DiskFaults>,
    /// Where it was reached by other agents first; it stays there.
    address: Option<String>,
    clock: Clock,
    /// What the node tells its service manager.
    notified: UnixDatagram,
    folder: TempDir,
}

/// Work that waits until this is dropped.
pub(super) enum Gate {
    /// The writing end of the tool's FIFO.
    Tool { _writer: File },
    /// A program that has the write lock of the database.
    Store(Child),
}

impl Site {
    pub(super) fn start(settings: Settings) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let work = folder.path().join("work");
        fs::create_dir(&work).unwrap();
        // Programs in the sandbox may have another user.
        fs::set_permissions(&work, PermissionsExt::from_mode(0o777)).unwrap();
        let data = folder.path().join("data");
        let disk = settings.has_disk.then(|| Disk::mount(folder.path(), &data));
        let faults = settings.has_faults.then(|| {
            let library = folder.path().join("faults");
            fs::create_dir(&library).unwrap();
            DiskFaults::new(&library)
        });
        let notified = UnixDatagram::bind(folder.path().join("notify")).unwrap();
        let mut site = Self {
            node: None,
            settings,
            disk,
            faults,
            address: None,
            clock: Clock::default(),
            notified,
            folder,
        };
        if site.settings.is_old {
            site.set_clock(Clock::off_by("-2d"));
            site.up();
            site.kill();
            site.set_clock(Clock::default());
        }
        site.up();
        site
    }

    fn config(&self) -> String {
        let Settings {
            asks,
            drain_seconds,
            request_seconds,
            sync,
            session_seconds,
            has_faults: _,
            has_disk: _,
            is_old: _,
        } = &self.settings;
        let listen = self.address.as_deref().unwrap_or("127.0.0.1:0");
        let rules = match asks {
            true => "{id: ask, name: pay, action: require_approval}",
            false => "",
        };
        let (drain, request) = (drain_seconds.unwrap_or(10), request_seconds.unwrap_or(300));
        let sync = sync.unwrap_or("100ms");
        let session = session_seconds.unwrap_or(3600);
        format!(
            "plugins:
- name: tools
  type: tools
  commands:
  - {{name: pay, description: Pays, command: [sh, -c, '{PAY}']}}
  - name: note
    description: Notes
    command: [sh, -c, '{NOTE}', '{{text}}']
    parameters: {{text: {{type: string}}}}
    required: [text]
- {{name: chains, type: chains}}
- {{name: memory, type: memory}}
workspace: work
intents:
  demo.pay: {{tool: pay}}
  demo.note: {{tool: note}}
policy: {{rules: [{rules}]}}
global_limits: {{drain_seconds: {drain}, request_seconds: {request}}}
store: {{sync: {sync}}}
audit: {{sync: {sync}}}
a2a: {{listen: '{listen}', policy: {{session_timeout: {session}}}}}
"
        )
    }

    /// Starts the node, again if it has ended.
    pub(super) fn up(&mut self) {
        // The node before has no lock any more when it has ended.
        self.node = None;
        let notify = self.folder.path().join("notify");
        let mut variables = self.clock.variables();
        variables.push(("NOTIFY_SOCKET", &notify));
        let faults = self.faults.as_ref().map(DiskFaults::variables);
        let faults = faults.iter().flatten();
        variables.extend(faults.map(|(name, value)| (*name, Path::new(value))));
        let node = Node::start_with(self.folder.path(), &self.config(), &variables);
        self.expect_notice("READY=1");
        let address = node.at("a2a").trim_start_matches("https://").to_owned();
        self.address.get_or_insert(address);
        self.node = Some(node);
    }

    fn expect_notice(&self, expected: &str) {
        let mut bytes = [0; 64];
        let size = self.notified.recv(&mut bytes).unwrap();
        assert_eq!(&bytes[..size], expected.as_bytes());
    }

    pub(super) const fn is_old(&self) -> bool {
        self.settings.is_old
    }

    pub(super) fn node(&self) -> &Node {
        self.node.as_ref().unwrap()
    }

    pub(super) fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    pub(super) fn log(&self) -> PathBuf {
        self.folder.path().join("work/log")
    }

    /// What has calls of the node to its disk fail.
    pub(super) fn faults(&self) -> &DiskFaults {
        self.faults.as_ref().unwrap()
    }

    /// What was noted.
    pub(super) fn notes(&self) -> Vec<String> {
        let notes = fs::read_to_string(self.folder.path().join("work/notes"));
        notes
            .unwrap_or_default()
            .lines()
            .map(str::to_owned)
            .collect()
    }

    /// How often the tool was run.
    pub(super) fn runs(&self) -> usize {
        let log = fs::read_to_string(self.log()).unwrap_or_default();
        log.lines().count()
    }

    /// Has the next run of the tool wait.
    pub(super) fn make_gate(&self) {
        let gate = self.folder.path().join("work/gate");
        run(Command::new("mkfifo").args(["-m", "666"]).arg(gate));
    }

    /// Waits until the tool has appended its line. Further runs do not wait.
    pub(super) fn wait_for_tool(&self) -> Gate {
        let gate = self.folder.path().join("work/gate");
        let writer = OpenOptions::new().write(true).open(&gate).unwrap();
        fs::remove_file(gate).unwrap();
        assert_eq!(self.runs(), 1);
        Gate::Tool { _writer: writer }
    }

    /// Has writes of the store wait.
    pub(super) fn lock_store(&self) -> Gate {
        let script = "import sqlite3, sys\n\
            store = sqlite3.connect(sys.argv[1], isolation_level=None)\n\
            store.execute('BEGIN IMMEDIATE')\n\
            print('locked', flush=True)\n\
            sys.stdin.read()\n";
        let mut child = Command::new("python3")
            .args(["-c", script])
            .arg(self.data().join("store.db"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        out.read_line(&mut line).unwrap();
        assert_eq!(line, "locked\n");
        Gate::Store(child)
    }

    /// What the operator types.
    pub(super) fn operator(&self, words: &[&str]) -> String {
        let data = self.data();
        let (status, out, error) =
            frith(&[words, &["--data", data.to_str().unwrap()]].concat(), "");
        assert_eq!(status, 0, "{words:?}: {out}{error}");
        out
    }

    pub(super) fn operator_json(&self, words: &[&str]) -> Value {
        serde_json::from_str(&self.operator(&[words, &["--json"]].concat())).unwrap()
    }

    /// Sends SIGTERM and waits until the node drains.
    pub(super) fn drain(&self) {
        self.node().signal("-TERM");
        self.expect_notice("STOPPING=1");
    }

    /// Waits for the end of the node.
    pub(super) fn wait_for_end(&mut self) {
        let status = self.node.take().unwrap().wait();
        assert_eq!(status, Some(0));
    }

    pub(super) fn kill(&mut self) {
        self.node.take().unwrap().crash();
    }

    /// Has the next process see another time.
    pub(super) fn set_clock(&mut self, clock: Clock) {
        self.clock = clock;
    }

    /// Has no byte free on the disk of the data directory.
    pub(super) fn fill_disk(&self) {
        self.disk.as_ref().unwrap().fill();
    }

    pub(super) fn free_disk(&self) {
        self.disk.as_ref().unwrap().free();
    }

    /// Cuts the power of the machine that the node is on.
    pub(super) fn cut_power(&mut self) {
        let node = self.node.take().unwrap();
        let disk = self.disk.as_ref().unwrap();
        node.signal("-STOP");
        let found = disk.found_after_power_cut();
        node.crash();
        disk.replace(&found);
    }

    /// The same, as soon as the disk has this text.
    pub(super) fn cut_power_when_synced(&mut self, text: &str) {
        while !self.disk.as_ref().unwrap().has(text) {}
        self.cut_power();
    }

    /// Puts a copy of the database in its place while no node runs.
    pub(super) fn restore(&self, backup: &Path) {
        assert!(self.node.is_none());
        let data = self.data();
        for name in ["store.db-wal", "store.db-shm"] {
            let _ = fs::remove_file(data.join(name));
        }
        fs::copy(backup, data.join("store.db")).unwrap();
    }

    /// The place of a file that is none of the node's.
    pub(super) fn beside(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The audit records.
    pub(super) fn records(&self) -> Vec<Value> {
        records(&self.data())
    }
}

impl Gate {
    /// Lets the work go on.
    pub(super) fn open(self) {
        drop(self);
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        if let Self::Store(child) = self {
            drop(child.stdin.take());
            child.wait().unwrap();
        }
    }
}

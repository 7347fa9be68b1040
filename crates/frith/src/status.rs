//! `frith status`: how a running node is, in one view.

use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::time::Duration;

use a2e_runtime::operator::{AskError, Nothing, ask};
use anyhow::Result;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use store::Integrity;
use tokio::time::{Instant, sleep};

use crate::Outcome;
use crate::agent::{block_on, print, print_json};
use crate::data::DataArguments;
use crate::database::size;
use crate::keystore::now;
use crate::screen::{count, plain};
use crate::token::age;

/// What is wrong is said, and is in the exit status.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    data: DataArguments,

    /// Wait until the node is up, half a minute at most
    #[arg(long)]
    wait: bool,
}

/// How long a node may take to come up, and how often to look.
const START: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(20);

/// What the operator asks.
pub(crate) const OPERATION: &str = "status";

/// The answer.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct NodeStatus {
    pub(crate) pid: u32,
    pub(crate) version: String,
    /// Unix time.
    pub(crate) started_at: u64,
    /// Whether it takes no new sessions.
    pub(crate) stopping: bool,
    pub(crate) data: PathBuf,
    /// What `endpoints.json` has.
    pub(crate) endpoints: Value,
    /// Of its own agents.
    pub(crate) sessions: usize,
    /// Calls that wait for the operator's word.
    pub(crate) pending_approvals: usize,
    /// Tools that have changed and are not served.
    pub(crate) pending_tools: usize,
    /// Nothing, if there is none around what agents run.
    pub(crate) sandbox: Option<Guards>,
    /// The MCP servers: those of the configuration, and those that agents have registered.
    #[serde(default)]
    pub(crate) servers: Vec<McpServer>,
    /// Nothing, if it speaks with no other agents.
    pub(crate) peers: Option<Peers>,
    pub(crate) store: StoreFiles,
    /// Nothing, if no record is kept.
    pub(crate) audit: Option<AuditHead>,
}

/// What is asked of the guards; a node does not start unless all of them are up.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Guards {
    /// The lowest level of Landlock.
    pub(crate) landlock: u8,
    /// Whether memory is counted for all processes of a command together.
    pub(crate) tree_memory: bool,
}

/// An MCP server that the node uses.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct McpServer {
    pub(crate) name: String,
    pub(crate) state: String,
    pub(crate) tools: i64,
    /// Why it cannot be used, since it last could.
    pub(crate) problem: Option<String>,
    /// The agent that has registered it; none for one of the configuration.
    #[serde(default)]
    pub(crate) agent: Option<String>,
    /// Its command, or its address.
    #[serde(default)]
    pub(crate) place: String,
    /// How often it was started or connected to,
    #[serde(default)]
    pub(crate) starts: u64,
    /// and has gone by itself.
    #[serde(default)]
    pub(crate) losses: u64,
    /// Seconds until it is tried again, if that is due.
    #[serde(default)]
    pub(crate) retry_in: Option<u64>,
    /// The last lines of its standard error, if it is not there.
    #[serde(default)]
    pub(crate) stderr: Vec<String>,
}

impl McpServer {
    /// How it is, in a word.
    pub(crate) fn word(&self) -> &'static str {
        match (&self.problem, self.state.as_str()) {
            (Some(_), _) => "not there",
            (None, "ready") => "running",
            (None, "connecting") => "starting",
            (None, _) => "starts when used",
        }
    }

    /// What becomes of one that is not there.
    pub(crate) fn next_try(&self) -> String {
        match self.retry_in {
            Some(seconds) => format!("it is tried again in {} s", seconds.max(1)),
            None => "it is tried again when it is used".to_owned(),
        }
    }
}

/// Other agents.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Peers {
    pub(crate) known: usize,
    pub(crate) blocked: usize,
    /// Sessions with those this node calls.
    pub(crate) outgoing: usize,
    /// Sessions with those that call it.
    pub(crate) incoming: usize,
    /// Handshakes under way.
    pub(crate) half_open: usize,
}

/// The files of the database.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct StoreFiles {
    pub(crate) bytes: u64,
    pub(crate) log_bytes: u64,
    pub(crate) check: StoreCheck,
}

/// The check of the database after the node before this one did not end in order.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum StoreCheck {
    NotNeeded,
    Running,
    Passed,
    Damaged,
}

impl From<Integrity> for StoreCheck {
    fn from(integrity: Integrity) -> Self {
        match integrity {
            Integrity::NotNeeded => Self::NotNeeded,
            Integrity::Running => Self::Running,
            Integrity::Passed => Self::Passed,
            Integrity::Damaged => Self::Damaged,
        }
    }
}

/// How far the record has come.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct AuditHead {
    /// The number of the last record.
    pub(crate) seq: u64,
    /// Its time, in milliseconds.
    pub(crate) last: i64,
    /// What the node has signed last.
    pub(crate) checkpoint: Option<Signed>,
    /// Why nothing more is taken, if nothing is.
    pub(crate) problem: Option<String>,
}

/// A signed point of the record.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Signed {
    pub(crate) seq: u64,
    pub(crate) hash: String,
}

pub(crate) fn run(arguments: &Arguments, as_json: bool) -> Result<Outcome> {
    let dir = arguments.data.dir()?;
    let status: NodeStatus = block_on(async {
        let patience = Instant::now() + START;
        loop {
            match ask(&dir, OPERATION, &Nothing {}).await {
                Err(error) if arguments.wait && is_absent(&error) && Instant::now() < patience => {
                    sleep(LOOK).await;
                }
                answered => break Ok(answered?),
            }
        }
    })?;
    match as_json {
        true => print_json(&json!(status))?,
        false => lines(&status, u64::try_from(now().0).unwrap_or(0))
            .iter()
            .try_for_each(|line| print(&plain(line)))?,
    }
    Ok(match is_wrong(&status) {
        true => Outcome::Bad,
        false => Outcome::Good,
    })
}

/// Whether there is no node, or one that ended before it answered.
fn is_absent(error: &AskError) -> bool {
    let is_gone = |source: &io::Error| {
        matches!(
            source.kind(),
            ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::UnexpectedEof
        )
    };
    matches!(error, AskError::NoNode { .. })
        || matches!(error, AskError::Io { source, .. } if is_gone(source))
}

/// Whether the node does nothing for agents, or is about to end.
fn is_wrong(status: &NodeStatus) -> bool {
    let audit = status.audit.as_ref();
    let is_unwritten = audit.is_some_and(|audit| audit.problem.is_some());
    is_unwritten || matches!(status.store.check, StoreCheck::Damaged)
}

fn lines(status: &NodeStatus, now: u64) -> Vec<String> {
    let state = if status.stopping { "stopping" } else { "up" };
    let started = age(now, status.started_at);
    let mut lines = vec![format!(
        "frith {} is {state} (process {}, started {started})",
        status.version, status.pid
    )];
    let mut add = |name: &str, text: String| lines.push(format!("  {name:9}{text}"));
    add("data", status.data.display().to_string());
    for name in ["did", "http", "ws", "mcp", "tcp", "unix", "a2a"] {
        if let Some(text) = status.endpoints[name].as_str() {
            add(name, text.to_owned());
        }
    }
    add("sessions", sessions(status));
    for (number, line) in servers(&status.servers).into_iter().enumerate() {
        add(if number == 0 { "servers" } else { "" }, line);
    }
    add(
        "peers",
        match &status.peers {
            None => "none: `a2a` is off".to_owned(),
            Some(peers) => format!(
                "{} known, {} blocked; sessions: {} from here, {} from them, {} shaking hands",
                peers.known, peers.blocked, peers.outgoing, peers.incoming, peers.half_open
            ),
        },
    );
    add(
        "sandbox",
        match &status.sandbox {
            None => "none: what agents run has all rights of the node".to_owned(),
            Some(guards) => format!(
                "all guards are up (Landlock {} or higher, memory of each {}); `frith doctor` tries them",
                guards.landlock,
                if guards.tree_memory {
                    "command"
                } else {
                    "process"
                },
            ),
        },
    );
    add(
        "store",
        format!(
            "{}, and {} in the log beside it; check {}",
            size(status.store.bytes),
            size(status.store.log_bytes),
            check(status.store.check)
        ),
    );
    add("audit", audit(status.audit.as_ref(), now));
    lines
}

fn sessions(status: &NodeStatus) -> String {
    let mut text = status.sessions.to_string();
    if status.pending_approvals > 0 {
        text += &format!(
            "; {} waiting for approval (`frith approvals`)",
            calls(status.pending_approvals)
        );
    }
    if status.pending_tools > 0 {
        let plural = if status.pending_tools == 1 { "" } else { "s" };
        text += &format!(
            "; {} tool{plural} not served until approved (`frith tools pending`)",
            status.pending_tools
        );
    }
    text
}

/// How many MCP servers there are, and what to do about each that is not there.
fn servers(servers: &[McpServer]) -> Vec<String> {
    if servers.is_empty() {
        return Vec::new();
    }
    // What is wrong with an agent's own server is told to the agent.
    let failed = servers
        .iter()
        .filter(|it| it.problem.is_some() && it.agent.is_none());
    let failed: Vec<_> = failed.collect();
    let all = count(
        u64::try_from(servers.len()).unwrap_or(u64::MAX),
        "MCP server",
        "MCP servers",
    );
    let mut states: Vec<(&str, usize)> = Vec::new();
    for word in servers.iter().map(McpServer::word) {
        match states.iter_mut().find(|(known, _)| *known == word) {
            Some((_, count)) => *count += 1,
            None => states.push((word, 1)),
        }
    }
    let states: Vec<String> = states
        .iter()
        .map(|(word, count)| format!("{count} {word}"))
        .collect();
    let mut lines = vec![format!("{all}: {}", states.join(", "))];
    for server in servers.iter().filter(|it| it.agent.is_some()) {
        let agent = server.agent.as_deref().unwrap_or_default();
        let (name, state) = (&server.name, &server.state);
        lines.push(format!("{name} ({state}): registered by `{agent}`"));
    }
    for server in failed {
        let (name, state) = (&server.name, &server.state);
        let problem = server.problem.as_deref().unwrap_or_default();
        // Some say themselves what to do.
        let next = match problem.contains("`frith ") {
            true => String::new(),
            false => format!("; mend it, or `{name}` under `mcp.servers` of the configuration"),
        };
        let again = server.next_try();
        lines.push(format!("{name} ({state}): {problem}{next}; {again}"));
        lines.extend(server.stderr.iter().map(|line| format!("  {line}")));
        if !server.stderr.is_empty() {
            lines.push(format!("  (`frith mcp logs {name}` shows all of it)"));
        }
    }
    lines
}

const fn check(check: StoreCheck) -> &'static str {
    match check {
        StoreCheck::NotNeeded => "not needed: the node before this one ended in order",
        StoreCheck::Running => "after an unclean end is running",
        StoreCheck::Passed => "after an unclean end passed",
        StoreCheck::Damaged => "after an unclean end found DAMAGE: restore a backup",
    }
}

fn calls(count: usize) -> String {
    match count {
        1 => "1 call is".to_owned(),
        _ => format!("{count} calls are"),
    }
}

fn audit(head: Option<&AuditHead>, now: u64) -> String {
    let Some(head) = head else {
        return "none is kept (`audit: false`)".to_owned();
    };
    if let Some(problem) = &head.problem {
        return format!("NOT WRITTEN, so nothing is done for agents: {problem}");
    }
    let last = u64::try_from(head.last / 1000).unwrap_or(0);
    let signed = match &head.checkpoint {
        None => "nothing signed yet".to_owned(),
        Some(Signed { seq, hash }) => format!("signed up to {seq} ({hash})"),
    };
    format!("record {}, written {}; {signed}", head.seq, age(now, last))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status() -> NodeStatus {
        NodeStatus {
            pid: 7,
            version: "1.0".to_owned(),
            started_at: 100,
            stopping: false,
            data: "/data".into(),
            endpoints: json!({"did": "did:key:x", "tcp": null}),
            sessions: 2,
            pending_approvals: 1,
            pending_tools: 2,
            sandbox: Some(Guards {
                landlock: 4,
                tree_memory: false,
            }),
            servers: vec![
                server("files", None),
                server("gone", Some("nobody listens at 127.0.0.1:9")),
                server("shut", Some("log in with `frith mcp login shut`")),
            ],
            peers: None,
            store: StoreFiles {
                bytes: 2048,
                log_bytes: 0,
                check: StoreCheck::Passed,
            },
            audit: Some(AuditHead {
                seq: 9,
                last: 160_000,
                checkpoint: None,
                problem: None,
            }),
        }
    }

    fn server(name: &str, problem: Option<&str>) -> McpServer {
        McpServer {
            name: name.to_owned(),
            state: problem.map_or("ready", |_| "error").to_owned(),
            tools: 1,
            problem: problem.map(str::to_owned),
            agent: None,
            place: "program".to_owned(),
            starts: 1,
            losses: 0,
            retry_in: problem.map(|_| 4),
            stderr: problem
                .map(|_| "no such module".to_owned())
                .into_iter()
                .collect(),
        }
    }

    #[test]
    fn what_is_said() {
        let mut status = status();
        let text = lines(&status, 280).join("\n");
        for part in [
            "frith 1.0 is up (process 7, started 3 minutes ago)",
            "did      did:key:x",
            "sessions 2; 1 call is waiting for approval (`frith approvals`); 2 tools not served",
            "servers  3 MCP servers: 1 running, 2 not there",
            "         gone (error): nobody listens at 127.0.0.1:9; mend it, or `gone` under `mcp.servers`",
            "         shut (error): log in with `frith mcp login shut`; it is tried again in 4 s",
            "           no such module",
            "           (`frith mcp logs shut` shows all of it)",
            "peers    none",
            "Landlock 4 or higher, memory of each process",
            "store    2.0 KiB, and 0 B in the log beside it; check after an unclean end passed",
            "audit    record 9, written 2 minutes ago; nothing signed yet",
        ] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
        assert!(!text.contains("tcp"), "{text}");
        assert!(!is_wrong(&status));
        status.store.check = StoreCheck::Damaged;
        assert!(is_wrong(&status));
        status.store.check = StoreCheck::Passed;
        status.stopping = true;
        status.sandbox = None;
        if let Some(audit) = &mut status.audit {
            audit.problem = Some("the disk is full".to_owned());
        }
        assert!(is_wrong(&status));
        let text = lines(&status, 280).join("\n");
        for part in ["is stopping", "all rights of the node", "the disk is full"] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
    }
}

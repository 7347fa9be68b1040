//! `--json`: every command that is run here writes JSON to standard output, or nothing if it fails. The
//! commands are those of the program's manual pages, so one that is added has to be run here, or named
//! with the reason why not.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::node::{Node, Wire};

/// Commands that are not run here, each with the reason.
const OTHERS: [(&str, &str); 9] = [
    ("completions", "a program for a shell"),
    ("man", "a page for `man`"),
    ("mcp", "speaks MCP on its standard output"),
    ("mcp-login", "waits for a browser; `mcp_login` runs it"),
    ("mcp-logout", "needs a login; `mcp_login` runs it"),
    ("run", "the output is that of the program"),
    ("stdio", "speaks A2E on its standard output"),
    ("up", "runs until it is ended; `up` reads what it prints"),
    (
        "chain-resume",
        "needs a chain of a node that was killed; `chains` runs it",
    ),
];

/// Groups of commands, which do nothing by themselves.
const GROUPS: [&str; 16] = [
    "agents", "audit", "chain", "config", "env", "id", "learn", "manifest", "memory", "peer",
    "plan", "policy", "skill", "store", "token", "trust",
];

/// Runs commands about a node, and remembers which.
struct Commands {
    folder: TempDir,
    data: String,
    seen: BTreeSet<String>,
}

impl Commands {
    /// What a command writes: exit status and standard output.
    fn run(&mut self, name: &str, arguments: &[&str], input: &str) -> (i32, String) {
        self.seen.insert(name.replace(' ', "-"));
        let output = assert_cmd::Command::new(env!("CARGO_BIN_EXE_frith"))
            .args(name.split(' '))
            .arg("--json")
            .args(arguments)
            .current_dir(self.folder.path())
            .env("FRITH_DATA", &self.data)
            .env("XDG_DATA_HOME", self.folder.path())
            .write_stdin(input)
            .output()
            .unwrap();
        let status = output.status.code().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(status < 2, "{name} {arguments:?}: {error}");
        (status, String::from_utf8(output.stdout).unwrap())
    }

    /// A command that succeeds and writes one value.
    fn value(&mut self, name: &str, arguments: &[&str]) -> Value {
        let (status, out) = self.run(name, arguments, "");
        assert_eq!(status, 0, "{name} {arguments:?}: {out}");
        parse(name, &out)
    }

    /// A command that writes a value in each line, if it writes any.
    fn lines(&mut self, name: &str, arguments: &[&str], input: &str) -> Vec<Value> {
        let (_, out) = self.run(name, arguments, input);
        out.lines().map(|line| parse(name, line)).collect()
    }

    /// A command that fails here, and writes one value or nothing.
    fn fails(&mut self, name: &str, arguments: &[&str]) {
        let (status, out) = self.run(name, arguments, "");
        assert_eq!(status, 1, "{name} {arguments:?}: {out}");
        let is_json = out.is_empty() || serde_json::from_str::<Value>(&out).is_ok();
        assert!(is_json, "{name} {arguments:?}: {out:?}");
    }

    fn file(&self, name: &str, text: &str) {
        std::fs::write(self.folder.path().join(name), text).unwrap();
    }
}

fn parse(name: &str, text: &str) -> Value {
    let value = serde_json::from_str(text);
    assert!(value.is_ok(), "{name}: {text:?}");
    value.unwrap()
}

const CONFIG: &str = "plugins:
  - {name: demo, type: demo}
  - {name: tools, type: tools}
  - {name: toolkits, type: toolkits}
  - {name: memory, type: memory}
  - {name: planning, type: planning}
  - {name: learning, type: learning}
  - {name: skills, type: skills, folders: [skills]}
  - {name: chains, type: chains, durable: true}
  - {name: env, type: env}
  - {name: agents, type: multi_agent}
policy:
  rules: [{id: ask, name: clock, action: require_approval}]
";

fn scene() -> (Node, Commands) {
    let folder = tempfile::tempdir().unwrap();
    let skill = folder.path().join("skills/hello");
    std::fs::create_dir_all(&skill).unwrap();
    let text = "---\nname: hello\ndescription: Says hello\n---\nSay hello to {args}.\n";
    std::fs::write(skill.join("SKILL.md"), text).unwrap();
    let node = Node::start(folder.path(), CONFIG);
    let data = node.data().to_str().unwrap().to_owned();
    let commands = Commands {
        folder,
        data,
        seen: BTreeSet::new(),
    };
    (node, commands)
}

/// The names of all commands, as their manual pages have them: `chain-run`.
fn all(folder: &Path) -> BTreeSet<String> {
    let pages = folder.join("man");
    let (status, _, error) = crate::frith(&["man", "--folder", pages.to_str().unwrap()], "");
    assert_eq!(status, 0, "{error}");
    let names = std::fs::read_dir(&pages).unwrap().filter_map(|entry| {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let name = name.strip_prefix("frith-")?.strip_suffix(".1")?;
        (!name.contains("help")).then(|| name.to_owned())
    });
    names.collect()
}

#[test]
fn every_command_writes_json() {
    let (node, mut commands) = scene();
    about_a_host(&mut commands);
    about_what_agents_keep(&mut commands);
    about_work(&node, &mut commands);
    about_files(&mut commands);
    about_other_agents(&mut commands);
    about_the_node(&mut commands);
    let groups = GROUPS.map(ToOwned::to_owned);
    let others = OTHERS.map(|(name, _)| name.to_owned());
    let known: BTreeSet<String> = groups.into_iter().chain(others).collect();
    let all = all(commands.folder.path());
    let missing: Vec<_> = all
        .difference(&commands.seen)
        .filter(|name| !known.contains(*name))
        .collect();
    assert!(
        missing.is_empty(),
        "these are not run with --json: {missing:?}"
    );
    let gone: Vec<_> = commands
        .seen
        .iter()
        .filter(|name| !all.contains(*name))
        .collect();
    assert!(gone.is_empty(), "{gone:?}");
}

fn about_a_host(commands: &mut Commands) {
    commands.value("ping", &[]);
    assert!(commands.value("caps", &[]).is_array());
    assert!(commands.value("tools", &[]).is_array());
    assert!(commands.value("tools pending", &[]).is_array());
    let tool = format!("remote_plugin:x/y@sha256:{}", "0".repeat(64));
    commands.fails("tools approve", &[&tool]);
    assert_eq!(
        commands.value("call", &["echo", r#"{"a":1}"#])["data"],
        json!({"a": 1})
    );
    commands.value("toolkits", &[]);
    let ping = r#"{"type":"ping","id":"p"}"#;
    assert_eq!(commands.lines("send", &["-"], ping)[0]["type"], "pong");
    assert!(commands.value("types", &[]).is_array());
    let checked = commands.lines("check", &["-"], ping);
    assert_eq!(checked.last().unwrap()["wrong"], 0);
    commands.value("env list", &[]);
    let steps = commands.lines("env play", &["counter"], "inc\n");
    assert_eq!(steps.last().unwrap()["state"]["count"], 1);
}

fn about_what_agents_keep(commands: &mut Commands) {
    assert_eq!(commands.value("memory put", &["pet", "Rex"])["stored"], 1);
    commands.value("memory search", &["Rex"]);
    assert_eq!(commands.value("memory get", &["pet"])["content"], "Rex");
    commands.value("memory stats", &[]);
    assert_eq!(commands.lines("memory export", &[], "").len(), 1);
    let line = r#"{"key": "a", "content": 1}"#;
    assert_eq!(
        commands.lines("memory import", &["-"], line)[0]["stored"],
        1
    );
    assert_eq!(commands.value("memory forget", &["pet"])["deleted"], 1);
    let plan = commands.value("plan create", &["Garden"]);
    let plan = plan["plan_id"].as_str().unwrap().to_owned();
    commands.value("plan list", &[]);
    let task = commands.value("plan add", &[&plan, "Dig"]);
    let task = task["task_id"].as_str().unwrap().to_owned();
    commands.value("plan move", &[&plan, &task, "done"]);
    commands.value("plan board", &[]);
    commands.value("plan show", &[&plan]);
    commands.value("plan remove", &[&plan]);
    commands.value("learn stats", &[]);
    commands.value("learn adapt", &[]);
    commands.value("learn history", &[]);
    commands.fails("learn rollback", &["none"]);
    assert!(
        commands
            .lines("learn export", &["--format", "reward"], "")
            .is_empty()
    );
}

fn about_work(node: &Node, commands: &mut Commands) {
    commands.value("skill list", &[]);
    commands.value("skill show", &["hello"]);
    commands.value("skill run", &["hello", "Ada"]);
    commands.value("skill check", &["skills"]);
    let chain = json!({"entry_node": "a", "nodes": [
        {"node_id": "a", "kind": "tool", "name": "echo", "input": {"x": 1}}]});
    commands.file("chain.json", &chain.to_string());
    assert_eq!(
        commands.value("chain run", &["chain.json"])["success"],
        true
    );
    commands.value("chain graph", &["chain.json"]);
    let listed = commands.value("chain list", &[]);
    assert!(listed.is_array() || listed.is_object(), "{listed}");
    commands.value("chain show", &["1"]);
    commands.fails("chain cancel", &["999"]);
    commands.value("agents list", &[]);
    commands.fails("agents show", &["none"]);
    commands.fails("agents cancel", &["none"]);
    // Two calls that are held.
    let mut wires: Vec<Wire> = Vec::new();
    for id in ["1", "2"] {
        let mut wire = node.wire();
        let hello = json!({"type": "handshake/req", "id": "h", "agent_caps": ["tools"], "auth_token": node.token});
        assert_eq!(wire.ask(&hello)["ok"], true);
        wire.say(
            &json!({"type": "tool/call/req", "id": id, "tool_name": "clock", "arguments": {"call": id}}),
        );
        wires.push(wire);
    }
    let held = loop {
        let listed = commands.value("approvals", &[]);
        let ids: Vec<String> = listed
            .as_array()
            .unwrap()
            .iter()
            .map(|call| call["id"].as_str().unwrap().to_owned())
            .collect();
        if let [first, second] = ids.as_slice() {
            break [first.clone(), second.clone()];
        }
    };
    commands.value("approvals show", &[&held[0]]);
    commands.value("approve", &[&held[0]]);
    commands.value("deny", &[&held[1]]);
    // A call is on record when its agent has the answer.
    for wire in &mut wires {
        wire.hear().unwrap();
    }
    assert!(commands.value("policy test", &[])["items"].is_array());
    assert!(commands.value("policy explain", &[&held[1]])["items"].is_array());
}

fn about_files(commands: &mut Commands) {
    assert_eq!(commands.lines("demo", &["--scene", "8"], "").len(), 1);
    commands.value("id new", &["me"]);
    commands.value("id show", &["me"]);
    assert!(commands.value("id list", &[]).is_array());
    commands.value("id rotate", &["me"]);
    let shown = commands.value("id show", &["me"]);
    let last = shown["keys"].as_array().unwrap().last().unwrap();
    let kid = last["kid"].as_str().unwrap().to_owned();
    commands.value("id revoke", &[&kid, "--id", "me"]);
    commands.value("id export", &["me"]);
    let made = std::process::Command::new("openssl")
        .args(["genpkey", "-algorithm", "ed25519", "-out", "key.pem"])
        .current_dir(commands.folder.path())
        .status()
        .unwrap();
    assert!(made.success());
    commands.value("id import", &["key.pem", "other"]);
    commands.value("manifest init", &["--id", "other", "--out", "m.json"]);
    commands.value("manifest show", &["m.json"]);
    commands.value("manifest sign", &["m.json", "--id", "other"]);
    commands.value("manifest verify", &["m.json"]);
    commands.value("resolve", &["m.json"]);
    commands.value("endorse", &["m.json", "--id", "me"]);
    commands.file("bad.json", "{}");
    commands.fails("endorse", &["bad.json", "--id", "me"]);
    std::fs::create_dir(commands.folder.path().join("fresh")).unwrap();
    commands.value("init", &["fresh", "--data", "another"]);
}

fn about_other_agents(commands: &mut Commands) {
    let did = "did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK";
    commands.value("peer list", &[]);
    commands.fails("peer add", &["beta", "https://127.0.0.1:1"]);
    commands.fails("peer show", &["beta"]);
    commands.fails("peer probe", &["https://127.0.0.1:1"]);
    commands.fails("peer call", &["beta", "frith.ping"]);
    commands.value("peer sessions", &[]);
    commands.fails("peer remove", &["beta"]);
    commands.value("trust list", &[]);
    commands.value("trust anchors", &[]);
    commands.value("trust anchors add", &["acme", did]);
    commands.value("trust anchors list", &[]);
    commands.value("trust anchors remove", &["acme"]);
    commands.value("trust pins", &[]);
    let hash = format!("sha256:{}", "0".repeat(64));
    commands.value("trust pins add", &[did, "--manifest", &hash]);
    commands.value("trust pins list", &[]);
    commands.value("trust pins remove", &[did]);
    commands.value("trust block", &[did]);
    commands.value("trust unblock", &[did]);
}

fn about_the_node(commands: &mut Commands) {
    commands.value("status", &[]);
    commands.value("token new", &["ada"]);
    assert!(commands.value("token list", &[]).is_array());
    commands.value("token revoke", &["ada"]);
    commands.value("token did", &[]);
    commands.value("config check", &[]);
    commands.value("config schema", &[]);
    commands.value("config apply", &[]);
    assert!(!commands.lines("audit tail", &[], "").is_empty());
    commands.value("audit verify", &[]);
    assert!(!commands.lines("audit export", &[], "").is_empty());
    commands.value("audit stats", &[]);
    commands.value("audit purge", &["--before", "2020-01-01"]);
    commands.value("store backup", &["copy.db"]);
    commands.value("store check", &[]);
    assert!(commands.value("mcp list", &[]).is_array());
    for action in ["mcp show", "mcp test", "mcp restart", "mcp logs"] {
        commands.fails(action, &["nobody"]);
    }
    commands.value("mcp config", &["claude"]);
    commands.fails("mcp add", &["no", "--yes", "--", "sh", "-c", "exit 3"]);
    commands.fails("mcp remove", &["no"]);
    commands.value("bench", &["--time", "1"]);
    let (_, out) = commands.run("doctor", &[], "");
    assert!(serde_json::from_str::<Value>(&out).is_ok(), "{out}");
}

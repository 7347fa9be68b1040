//! `frith up`: a node from its start to its end.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::PowerRecord;

use crate::frith;
use crate::node::{Node, Wire};

fn handshake(node: &Node) -> Value {
    json!({"type": "handshake/req", "id": "h", "agent_caps": ["tools"], "auth_token": node.token})
}

fn back(node: &Node, session: &Value, last_eid: u64) -> Value {
    let mut handshake = handshake(node);
    handshake["resume"] = json!({"session_id": session, "last_eid": last_eid});
    handshake
}

fn stream(id: &str, count: u64) -> Value {
    json!({"type": "tool/call/req", "id": id, "tool_name": "stream", "arguments": {"count": count}, "streaming": true})
}

fn opened(node: &Node) -> (Wire, Value) {
    let mut wire = node.wire();
    let hello = wire.ask(&handshake(node));
    assert_eq!(hello["ok"], true, "{hello}");
    (wire, hello["session_id"].clone())
}

#[test]
fn says_where_it_is_and_keeps_others_out() {
    let folder = tempfile::tempdir().unwrap();
    let mut node = Node::start(folder.path(), "{}");
    let mut names: Vec<_> = node.endpoints.as_object().unwrap().keys().collect();
    names.sort();
    assert_eq!(
        names,
        ["a2a", "did", "http", "mcp", "pid", "tcp", "unix", "ws"]
    );
    assert!(node.at("http").starts_with("http://127.0.0.1:"));
    assert_eq!(node.at("ws"), node.at("http").replace("http", "ws") + "/ws");
    assert_eq!(node.endpoints["tcp"], Value::Null);
    let mode = |name: &str| {
        let path = node.data().join(name);
        std::fs::metadata(path).unwrap().permissions().mode() & 0o777
    };
    assert_eq!(mode(""), 0o700);
    for name in ["token", "endpoints.json", "a2e.sock", "operator.sock"] {
        assert_eq!(mode(name), 0o600, "{name}");
    }
    // A second one on the same data is told who is there.
    let second = Command::new(env!("CARGO_BIN_EXE_frith"))
        .args([
            "up",
            "--listen",
            "127.0.0.1:0",
            "--a2a-listen",
            "127.0.0.1:0",
            "--data",
        ])
        .arg(node.data())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(
        text.contains(&format!("in use by process {}", node.endpoints["pid"])),
        "{text}"
    );
    node.signal("-TERM");
    assert_eq!(node.wait(), Some(0));
    for gone in ["endpoints.json", "a2e.sock", "operator.sock"] {
        assert!(!node.data().join(gone).exists(), "{gone}");
    }
}

/// Acknowledged messages survive `kill -9`: the agent goes on where it was.
#[test]
fn sessions_survive_a_crash() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(folder.path(), "{}");
    let (mut wire, session) = opened(&node);
    wire.say(&stream("s", 3));
    let heard: Vec<_> = (0..4).map(|_| wire.hear().unwrap()).collect();
    assert_eq!(heard[3]["eid"], 5);
    // A second agent has a session too, and asks for something that will not be answered.
    let (mut other, others) = opened(&node);
    other.say(&json!({"type": "tool/call/req", "id": "w", "tool_name": "wait", "arguments": {"seconds": 1000}}));
    assert_eq!(
        other.ask(&json!({"type": "ping", "id": "p"}))["type"],
        "pong"
    );
    node.crash();

    let node = Node::start(folder.path(), "{}");
    let mut wire = node.wire();
    // It says it has only the first two messages.
    let hello = wire.ask(&back(&node, &session, 2));
    assert_eq!(
        (&hello["ok"], &hello["resumed"]),
        (&json!(true), &json!(true)),
        "{hello}"
    );
    assert_eq!(
        (&hello["session_id"], hello.get("missed")),
        (&session, None)
    );
    let again: Vec<_> = (0..3).map(|_| wire.hear().unwrap()).collect();
    assert_eq!(again, heard[1..], "byte for byte what it had missed");
    let call =
        json!({"type": "tool/call/req", "id": "e", "tool_name": "echo", "arguments": {"x": 1}});
    assert_eq!(wire.ask(&call)["eid"], 6);
    // Base messages have no answer to be remembered.
    let echo = json!({"type": "tool/call/req", "id": "h", "tool_name": "echo", "arguments": {}});
    assert_eq!(wire.ask(&echo)["type"], "tool/call/resp");

    let mut other = node.wire();
    let hello = other.ask(&back(&node, &others, 2));
    assert_eq!(hello["resumed"], true, "{hello}");
    let error = other.hear().unwrap();
    assert_eq!(
        (&error["req_id"], &error["code"]),
        (&json!("w"), &json!("runtime_error"))
    );
    assert_eq!(error["detail"]["reason"], "host_restarted");
}

/// What was done before a crash is not done again when it is asked for again: it has its answer. However
/// much was written since then, and whether the answer was seen or not.
#[test]
fn work_is_done_once_across_crashes() {
    let folder = tempfile::tempdir().unwrap();
    let config = "plugins: [{name: tools, type: tools}]\n";
    let run = |id: &str, command: &str| json!({"type": "tool/call/req", "id": id, "tool_name": "run_command", "arguments": {"command": command}});
    let add = run("add", "echo x >> notes");
    let large = |id: usize| {
        run(
            &format!("large{id}"),
            "head -c 30000 /dev/zero | tr '\\0' y",
        )
    };
    let node = Node::start(folder.path(), config);
    let (mut wire, session) = opened(&node);
    let added = wire.ask(&add);
    assert_eq!(added["data"]["success"], true, "{added}");
    // More than is kept for a peer that comes back, twice over, so that the record is begun anew.
    for id in 0..60 {
        wire.say(&large(id));
        let answer = wire.hear().unwrap();
        assert_eq!(answer["data"]["success"], true, "{answer}");
    }
    node.crash();
    for _ in 0..2 {
        let node = Node::start(folder.path(), config);
        let mut wire = node.wire();
        let hello = wire.ask(&back(&node, &session, 62));
        assert_eq!(hello["resumed"], true, "{hello}");
        let again = wire.ask(&add);
        assert_eq!(again["req_id"], "add", "{again}");
        let is_known = again["data"]["success"] == true;
        assert!(
            is_known || again["detail"]["reason"] == "host_restarted",
            "{again}"
        );
        let other = wire.ask(&run("add", "echo z >> notes"));
        assert_eq!(other["detail"]["reason"], "id_reused", "{other}");
        node.crash();
    }
    let notes = std::fs::read_to_string(folder.path().join("data/workspace/notes")).unwrap();
    assert_eq!(notes, "x\n");
}

#[test]
fn only_its_owner_goes_on_with_a_session() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(folder.path(), "{}");
    let (wire, session) = opened(&node);
    drop(wire);
    let made = Command::new(env!("CARGO_BIN_EXE_frith"))
        .args(["token", "new", "mallory", "--data"])
        .arg(node.data())
        .output()
        .unwrap();
    let token = String::from_utf8(made.stdout).unwrap();
    let mut stolen = back(&node, &session, 0);
    stolen["auth_token"] = json!(token.trim());
    let refused = node.wire().ask(&stolen);
    assert_eq!(
        (&refused["ok"], &refused["reason"]),
        (&json!(false), &json!("auth_failed"))
    );
    let unknown = node.wire().ask(&back(&node, &json!("0".repeat(32)), 0));
    assert_eq!(unknown["reason"], "auth_failed");
    assert_eq!(node.wire().ask(&back(&node, &session, 0))["resumed"], true);
}

/// The first signal lets requests finish, the second does not wait.
#[test]
fn stops_with_grace_and_at_once() {
    let wait = json!({"type": "tool/call/req", "id": "w", "tool_name": "wait", "arguments": {"seconds": 1000}});
    let folder = tempfile::tempdir().unwrap();
    let mut node = Node::start(folder.path(), "global_limits: {drain_seconds: 600}");
    let (mut wire, session) = opened(&node);
    wire.say(&wait);
    node.signal("-TERM");
    // Nothing new is taken, which also shows that the signal has arrived.
    let refused = loop {
        let answer = wire.ask(&json!({"type": "tool/list/req", "id": "l"}));
        if answer["type"] == "error" {
            break answer;
        }
    };
    assert_eq!(refused["detail"]["reason"], "closing");
    node.signal("-TERM");
    assert_eq!(node.wait(), Some(0));
    // A node that was stopped keeps its sessions for the next one.
    let mut node = Node::start(folder.path(), "global_limits: {drain_seconds: 0}");
    let mut wire = node.wire();
    let hello = wire.ask(&back(&node, &session, 0));
    assert_eq!(hello["resumed"], true, "{hello}");
    // One whose requests do not end in time answers for them.
    wire.say(&json!({"type": "tool/call/req", "id": "w2", "tool_name": "wait", "arguments": {"seconds": 1000}}));
    assert_eq!(
        wire.ask(&json!({"type": "ping", "id": "p"}))["type"],
        "handshake/resp"
    );
    node.signal("-INT");
    let mut answers = Vec::new();
    while let Some(message) = wire.hear() {
        answers.push((message["req_id"].clone(), message["code"].clone()));
    }
    assert!(
        answers.contains(&(json!("w2"), json!("timeout"))),
        "{answers:?}"
    );
    assert_eq!(node.wait(), Some(0));
}

/// Probes that ask for the head alone get the status and the headers of GET, and no body.
#[test]
fn head_is_answered_like_get_without_a_body() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(folder.path(), "{}");
    for path in ["health", "healthz", "readyz", "metrics"] {
        let url = format!("{}/{path}", node.at("http"));
        let heads = ["-I", "-i"].map(|option| {
            let output = Command::new("curl")
                .args(["-s", option, &url])
                .output()
                .unwrap();
            let text = String::from_utf8(output.stdout).unwrap();
            let (head, body) = text.split_once("\r\n\r\n").unwrap();
            assert_eq!(option == "-I", body.is_empty(), "{path}: {text}");
            let status = head.lines().next().unwrap().to_owned();
            let kind = head.lines().find(|line| line.starts_with("content-type"));
            (status, kind.map(str::to_owned))
        });
        assert_eq!(heads[0], heads[1], "{path}");
    }
}

#[test]
fn reads_its_configuration_again() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(folder.path(), "{}");
    let origin = "http://page.example";
    let health = || {
        let output = Command::new("curl")
            .args(["-s", "-o", "/dev/null", "-w", "%{http_code}"])
            .args([
                "-H",
                &format!("Origin: {origin}"),
                &format!("{}/health", node.at("http")),
            ])
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(health(), "403");
    // An agent that is in the middle of something notices nothing, be the configuration good or not.
    let (mut wire, _) = opened(&node);
    let wait = json!({"type": "tool/call/req", "id": "w", "tool_name": "wait", "arguments": {"seconds": 1}});
    wire.say(&wait);
    let write = |text: &str| std::fs::write(folder.path().join("frith.yaml"), text).unwrap();
    write("server: {origins: [no origin");
    node.signal("-HUP");
    write(&format!("server: {{origins: [\"{origin}\"]}}"));
    // A signal opens no door; the operator does.
    node.signal("-HUP");
    assert_eq!(health(), "403");
    let data = node.data();
    let (status, _, error) = frith(&["config", "apply", "--data", data.to_str().unwrap()], "");
    assert_eq!(status, 0, "{error}");
    assert_eq!(health(), "200");
    assert_eq!(wire.hear().unwrap()["data"]["data"], json!({"waited": 1}));
    assert_eq!(
        wire.ask(&json!({"type": "ping", "id": "p"}))["type"],
        "pong"
    );
}

/// A node without a configuration file goes by one that is applied, and notices when that changes.
#[test]
fn a_file_that_is_applied_is_watched() {
    let folder = tempfile::tempdir().unwrap();
    let (data, log) = (folder.path().join("data"), folder.path().join("log"));
    let mut process = Command::new(env!("CARGO_BIN_EXE_frith"))
        .args([
            "up",
            "--listen",
            "127.0.0.1:0",
            "--a2a-listen",
            "127.0.0.1:0",
            "--data",
        ])
        .arg(&data)
        .current_dir(folder.path())
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(&log).unwrap())
        .spawn()
        .unwrap();
    let data = data.to_str().unwrap();
    assert_eq!(frith(&["status", "--wait", "--data", data], "").0, 0);
    let file = folder.path().join("frith.yaml");
    std::fs::write(&file, "telemetry: {log: info}\n").unwrap();
    let (status, _, error) = frith(&["config", "apply", "--data", data], "");
    assert_eq!(status, 0, "{error}");
    std::fs::write(&file, "telemetry: {log: [}\n").unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    while !std::fs::read_to_string(&log)
        .unwrap()
        .contains("kept the old configuration")
    {
        assert!(Instant::now() < deadline, "the change was not noticed");
        std::thread::sleep(Duration::from_millis(20));
    }
    process.kill().unwrap();
    process.wait().unwrap();
}

/// That nobody reads where the node is does not end it.
#[test]
fn runs_although_nothing_reads_its_output() {
    let folder = tempfile::tempdir().unwrap();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let data = folder.path().join("data");
    let mut process = Command::new(env!("CARGO_BIN_EXE_frith"))
        .args([
            "up",
            "--listen",
            "127.0.0.1:0",
            "--a2a-listen",
            "127.0.0.1:0",
            "--data",
        ])
        .arg(&data)
        .current_dir(folder.path())
        .stdout(writer)
        .spawn()
        .unwrap();
    let data = data.to_str().unwrap();
    assert_eq!(frith(&["status", "--wait", "--data", data], "").0, 0);
    let id = process.id().to_string();
    assert!(
        Command::new("kill")
            .args(["-TERM", &id])
            .status()
            .unwrap()
            .success()
    );
    assert_eq!(process.wait().unwrap().code(), Some(0));
    // In order: the next start has nothing to check.
    for left in ["endpoints.json", "operator.sock", "store.db-open"] {
        assert!(!folder.path().join("data").join(left).exists(), "{left}");
    }
}

/// As `Type=notify` of systemd has it.
#[test]
fn a_service_manager_is_told_when_it_is_ready_and_when_it_stops() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notify");
    let socket = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
    let mut process = Command::new(env!("CARGO_BIN_EXE_frith"))
        .args(["up", "--listen", "127.0.0.1:0", "--set", "a2a=false"])
        .args(["--data", "data"])
        .current_dir(folder.path())
        .env("NOTIFY_SOCKET", &path)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let heard = || {
        let mut bytes = [0; 64];
        let size = socket.recv(&mut bytes).unwrap();
        String::from_utf8(bytes[..size].to_vec()).unwrap()
    };
    assert_eq!(heard(), "READY=1");
    let endpoints = std::fs::read(folder.path().join("data/endpoints.json")).unwrap();
    let endpoints: Value = serde_json::from_slice(&endpoints).unwrap();
    // Whoever reads it may be in another folder.
    let unix = endpoints["unix"].as_str().unwrap();
    assert!(unix.starts_with("unix:/"), "{unix}");
    let id = process.id().to_string();
    let told = Command::new("kill").args(["-TERM", &id]).status().unwrap();
    assert!(told.success());
    assert_eq!(heard(), "STOPPING=1");
    assert!(process.wait().unwrap().success());
}

#[test]
fn a_port_that_is_taken_is_told_with_a_way_out() {
    let folder = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for (option, other, hint) in [
        ("--listen", "--a2a-listen", "`--listen 127.0.0.1:0`"),
        (
            "--a2a-listen",
            "--listen",
            "`--a2a-listen`, such as 127.0.0.1:0",
        ),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_frith"))
            .args(["up", "--data", "data", other, "127.0.0.1:0"])
            .args([option, &address])
            .current_dir(folder.path())
            .output()
            .unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success());
        assert!(error.contains(hint), "{error}");
    }
}

/// TLS 1.3 by certificate files; nothing older.
#[test]
fn speaks_tls() {
    let folder = tempfile::tempdir().unwrap();
    let made =
        rcgen::generate_simple_self_signed(["localhost".into(), "127.0.0.1".into()]).unwrap();
    std::fs::write(folder.path().join("cert.pem"), made.cert.pem()).unwrap();
    std::fs::write(
        folder.path().join("key.pem"),
        made.signing_key.serialize_pem(),
    )
    .unwrap();
    let config = "server: {tls: {certificate: cert.pem, key: key.pem}}";
    let node = Node::start(folder.path(), config);
    assert!(node.at("http").starts_with("https://"));
    let get = |version: &[&str]| {
        Command::new("curl")
            .args(["-sS", "--cacert"])
            .arg(folder.path().join("cert.pem"))
            .args(version)
            .arg(format!("{}/health", node.at("http")))
            .output()
            .unwrap()
    };
    assert_eq!(get(&[]).stdout, br#"{"status":"ok"}"#);
    let old = get(&["--tls-max", "1.2"]);
    assert!(!old.status.success());
    let text = String::from_utf8_lossy(&old.stderr).into_owned();
    assert!(
        text.contains("protocol version") || text.contains("alert"),
        "{text}"
    );
}

/// Over the operator's socket too a revoked token takes its agent's sessions with it.
#[test]
fn a_revoked_token_ends_sessions() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(folder.path(), "{}");
    let data = node.data();
    let data = data.to_str().unwrap();
    let (mut wire, session) = opened(&node);
    let (status, out, _) = frith(&["token", "revoke", "default", "--data", data], "");
    assert_eq!(status, 0);
    assert!(out.contains("revoked tok_file"), "{out}");
    assert!(out.contains("ended 1 session of `default`"), "{out}");
    assert_eq!(wire.hear(), None);
    let token = std::fs::read_to_string(node.data().join("token")).unwrap();
    let mut again = back(&node, &session, 1);
    assert_eq!(node.wire().ask(&again)["reason"], "auth_failed");
    again["auth_token"] = json!(token.trim());
    assert_eq!(node.wire().ask(&again)["reason"], "auth_failed");
    again["resume"] = Value::Null;
    assert_eq!(node.wire().ask(&again)["ok"], true);
}

/// An orderly end leaves everything that was answered on the disk, however rarely the store syncs.
#[test]
fn sigterm_waits_for_the_last_sync_of_the_store() {
    let (folder, found) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let library = tempfile::tempdir().unwrap();
    let record = PowerRecord::new(library.path());
    let variables = record.variables();
    let variables = variables.each_ref();
    let variables = variables.map(|(name, value)| (*name, Path::new(value)));
    let config = "plugins: [{name: memory, type: memory}]\nstore: {sync: 10000ms}\n";
    let mut node = Node::start_with(folder.path(), config, &variables);
    let memory = |node: &Node, words: &[&str]| {
        let data = node.data();
        let data = ["--data", data.to_str().unwrap()];
        let (status, out, error) = frith(&[&["memory"], words, &data].concat(), "");
        assert_eq!(status, 0, "{error}");
        out
    };
    memory(&node, &["put", "pet", "a dog called Rex"]);
    node.signal("-TERM");
    assert_eq!(node.wait(), Some(0));
    let data = found.path().join("data");
    record.cut_power(&node.data(), &data);
    let node = Node::start(found.path(), config);
    assert_eq!(node.data(), data);
    assert!(memory(&node, &["get", "pet"]).contains("a dog called Rex"));
}

/// Without a limit on silence the record of a session is kept, however old it is.
#[test]
fn a_session_without_idle_limit_survives_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let config = "global_limits: {idle_seconds: 0, resume_seconds: 1}\n";
    let node = Node::start(folder.path(), config);
    let (_wire, session) = opened(&node);
    node.crash();
    // The session was silent for years.
    for record in std::fs::read_dir(folder.path().join("data/sessions")).unwrap() {
        let file = std::fs::File::options()
            .append(true)
            .open(record.unwrap().path());
        file.unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
    }
    let node = Node::start(folder.path(), config);
    let hello = node.wire().ask(&back(&node, &session, 1));
    assert_eq!(hello["resumed"], true, "{hello}");
}

/// Rates are counted in memory. A start gives each agent one bucket, and no more.
#[test]
fn a_restart_refills_rates_once() {
    let folder = tempfile::tempdir().unwrap();
    let config = "policy: {rate_limit: 2, rate_period: 3600}\n";
    for _ in 0..2 {
        let node = Node::start(folder.path(), config);
        for session in [["1", "2"], ["3", "4"]] {
            let (mut wire, _) = opened(&node);
            let answers = session.map(|id| wire.ask(&stream(id, 0)));
            for answer in answers {
                let expected = if session == ["1", "2"] {
                    Value::Null
                } else {
                    json!("rate_limited")
                };
                assert_eq!(answer["detail"]["reason"], expected, "{answer}");
            }
        }
        node.crash();
    }
}

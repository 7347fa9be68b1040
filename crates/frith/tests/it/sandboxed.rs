//! What agents run: tools, commands and processes of a node, in the sandbox.

use std::path::Path;

use serde_json::{Value, json};

use crate::frith;
use crate::node::{Node, Wire};

/// A node with everything that is built in.
const ALL: &str = "plugins: [{name: tools, type: tools}, {name: proc, type: proc, max_procs: 2}]\n";

fn agent(node: &Node) -> Wire {
    let mut wire = node.wire();
    let hello = json!({"type": "handshake/req", "id": "h", "agent_caps": ["tools", "proc"], "auth_token": node.token});
    assert_eq!(wire.ask(&hello)["ok"], true);
    wire
}

fn call(wire: &mut Wire, id: &str, tool: &str, arguments: &Value) -> Value {
    wire.ask(&json!({"type": "tool/call/req", "id": id, "tool_name": tool, "arguments": arguments, "streaming": false}))
}

fn spawn(wire: &mut Wire, id: &str, cmd: &[&str], more: &Value) -> Value {
    let mut request = json!({"type": "proc/spawn/req", "id": id, "cmd": cmd});
    let members = request.as_object_mut().unwrap();
    members.extend(more.as_object().unwrap().clone());
    wire.ask(&request)
}

/// What comes over the streams of a process up to its exit code, which is last.
fn until_exit(wire: &mut Wire) -> (Vec<(String, Value)>, i64) {
    let mut heard = Vec::new();
    for seq in 0.. {
        let event = wire.hear().unwrap();
        assert_eq!(event["type"], "proc/read/event", "{event}");
        assert_eq!(event["seq"], seq, "{event}");
        if let Some(code) = event["data"]["code"].as_i64() {
            let stream = if code == 0 { "stdout" } else { "stderr" };
            assert_eq!(event["stream_type"], stream);
            return (heard, code);
        }
        let stream = event["stream_type"].as_str().unwrap().to_owned();
        heard.push((stream, event["data"].clone()));
    }
    unreachable!()
}

/// Files that tools write are there for commands, and the other way round.
#[test]
fn tools_and_commands_share_the_workspace() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(folder.path(), ALL);
    let mut wire = agent(&node);
    let written = call(
        &mut wire,
        "1",
        "write_file",
        &json!({"path": "a/b.txt", "content": "one\n", "create_parents": true}),
    );
    assert_eq!(written["data"]["success"], true, "{written}");
    let ran = call(
        &mut wire,
        "2",
        "run_command",
        &json!({"command": "echo two >> a/b.txt; mkdir c; pwd"}),
    );
    assert_eq!(ran["data"]["exit_code"], 0, "{ran}");
    let code = "import os; open('c/d', 'w').write(open('a/b.txt').read()); print(os.getuid() != 0)";
    let ran = call(
        &mut wire,
        "3",
        "run_code",
        &json!({"language": "python", "code": code}),
    );
    assert_eq!(ran["data"]["data"]["stdout"], "True\n", "{ran}");
    let read = call(&mut wire, "4", "read_file", &json!({"path": "c/d"}));
    assert!(read.to_string().contains("one\\ntwo\\n"), "{read}");
    // What fails says so, and what it wrote.
    let failed = call(
        &mut wire,
        "5",
        "run_command",
        &json!({"command": "echo no >&2; exit 3"}),
    );
    assert_eq!(
        (&failed["data"]["success"], &failed["data"]["exit_code"]),
        (&json!(false), &json!(3))
    );
    assert_eq!(failed["data"]["data"]["stderr"], "no\n");
}

/// The doors of the node and its secrets are not there for what agents run.
#[test]
fn commands_do_not_reach_the_node() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(folder.path(), ALL);
    let mut wire = agent(&node);
    let data = node.data().canonicalize().unwrap();
    let port = node.at("http").rsplit(':').next().unwrap().to_owned();
    for (index, (command, complaint)) in [
        (format!("cat {}/token", data.display()), "No such file"),
        (format!("ls {}/audit", data.display()), "No such file"),
        (format!("ls {}", folder.path().join("frith.yaml").display()), "No such file"),
        ("cat /etc/shadow".to_owned(), "No such file"),
        ("touch /usr/x".to_owned(), "Read-only file system"),
        (format!("python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect(\"{}/operator.sock\")'", data.display()), "Error"),
        (format!("python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", {port}))'"), "Error"),
        (format!("kill -9 {}", std::process::id()), "No such process"),
    ]
    .iter()
    .enumerate()
    {
        let ran = call(&mut wire, &format!("e{index}"), "run_command", &json!({"command": command}));
        let errors = ran["data"]["data"]["stderr"].as_str().unwrap();
        assert!(errors.contains(complaint), "{command}: {ran}");
    }
}

#[test]
fn a_process_is_followed_to_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(folder.path(), ALL);
    let mut wire = agent(&node);
    let script = "echo out; echo err >&2; read line; echo \"got $line\"; exit 5";
    let spawned = spawn(
        &mut wire,
        "1",
        &["bash", "-c", script],
        &json!({"env": {"A": "b"}}),
    );
    assert_eq!(
        (&spawned["ok"], &spawned["error"]),
        (&json!(true), &json!("")),
        "{spawned}"
    );
    assert!(spawned["pid"].as_i64().unwrap() > 1);
    let id = &spawned["proc_id"];
    let first: Vec<Value> = (0..2).map(|_| wire.hear().unwrap()).collect();
    let texts: Vec<_> = first
        .iter()
        .map(|event| (&event["stream_type"], &event["data"]["text"]))
        .collect();
    for expected in [
        (&json!("stdout"), &json!("out\n")),
        (&json!("stderr"), &json!("err\n")),
    ] {
        assert!(texts.contains(&expected), "{texts:?}");
    }
    let status = wire.ask(&json!({"type": "proc/status/req", "id": "s", "proc_id": id}));
    assert_eq!(status["status"], "running");
    wire.say(
        &json!({"type": "proc/write/req", "id": "w", "proc_id": id, "data": "hi\n", "eof": true}),
    );
    let mut rest = Vec::new();
    while rest.len() < 3 {
        rest.push(wire.hear().unwrap());
    }
    let of = |kind: &str| {
        rest.iter()
            .filter(|it| it["type"] == kind)
            .cloned()
            .collect::<Vec<_>>()
    };
    assert_eq!(of("proc/write/resp")[0]["ok"], true);
    let events = of("proc/read/event");
    assert_eq!(events[0]["data"], json!({"text": "got hi\n"}));
    assert_eq!(
        (&events[1]["data"], &events[1]["stream_type"]),
        (&json!({"code": 5}), &json!("stderr"))
    );
    let status = wire.ask(&json!({"type": "proc/status/req", "id": "s2", "proc_id": id}));
    assert_eq!(
        (&status["status"], &status["exit_code"], &status["error"]),
        (
            &json!("failed"),
            &json!(5),
            &json!("it ended with exit code 5")
        )
    );
    let all = wire.ask(&json!({"type": "proc/status/req", "id": "s3"}));
    assert_eq!(all["status"], "ok");
    assert_eq!(
        all["procs"][0]["cmd"].as_str().unwrap().split(' ').next(),
        Some("bash")
    );
}

#[test]
fn a_killed_process_says_so_last_but_one() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(folder.path(), ALL);
    let mut wire = agent(&node);
    let spawned = spawn(
        &mut wire,
        "1",
        &["bash", "-c", "sleep 1000 & sleep 1000"],
        &json!({"stdin_mode": "null"}),
    );
    let id = spawned["proc_id"].clone();
    wire.say(&json!({"type": "proc/kill/req", "id": "k", "proc_id": id, "signal": "SIGKILL"}));
    let mut events = Vec::new();
    let mut killed = None;
    while events.len() < 2 || killed.is_none() {
        let message = wire.hear().unwrap();
        match message["type"].as_str() {
            Some("proc/kill/resp") => killed = Some(message),
            _ => events.push(message),
        }
    }
    let killed = killed.unwrap();
    assert_eq!(
        (&killed["ok"], &killed["state"]),
        (&json!(true), &json!("killed"))
    );
    assert_eq!(
        (&events[0]["stream_type"], &events[0]["data"]),
        (&json!("killed"), &json!({}))
    );
    assert_eq!(events[1]["data"], json!({"code": -9}));
    let again = wire.ask(&json!({"type": "proc/kill/req", "id": "k2", "proc_id": id}));
    assert_eq!(
        (&again["ok"], &again["state"]),
        (&json!(false), &json!("killed"))
    );

    let spawned = spawn(&mut wire, "2", &["sleep", "1000"], &json!({"timeout": 1}));
    assert_eq!(spawned["ok"], true);
    let (heard, code) = until_exit(&mut wire);
    assert_eq!((heard.last().unwrap().0.as_str(), code), ("killed", -9));
    let status =
        wire.ask(&json!({"type": "proc/status/req", "id": "s", "proc_id": spawned["proc_id"]}));
    assert_eq!(
        (&status["status"], &status["error"]),
        (&json!("killed"), &json!("timeout"))
    );
}

#[test]
fn what_cannot_be_started_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let config = "plugins: [{name: proc, type: proc, max_procs: 2, allowed_commands: [bash, sleep, nothing]}]\n";
    let node = Node::start(folder.path(), config);
    let mut wire = agent(&node);
    for (index, (cmd, more, complaint)) in [
        (vec![], json!({}), "`cmd` is empty"),
        (
            vec!["ls"],
            json!({}),
            "`ls` is not among the allowed commands",
        ),
        (vec!["nothing"], json!({}), "nothing"),
        (
            vec!["bash"],
            json!({"cwd": "/etc"}),
            "must be a folder below the workspace",
        ),
        (
            vec!["bash"],
            json!({"cwd": "../.."}),
            "must be a folder below the workspace",
        ),
        (
            vec!["bash"],
            json!({"cwd": "none"}),
            "`cwd` cannot be `none`",
        ),
        (
            vec!["bash"],
            json!({"stdin_mode": "tty"}),
            "must be pipe, null or pty",
        ),
        (
            vec!["bash"],
            json!({"env": {"LD_PRELOAD": "x"}}),
            "LD_PRELOAD",
        ),
    ]
    .iter()
    .enumerate()
    {
        let answer = spawn(&mut wire, &format!("f{index}"), cmd, more);
        assert_eq!(
            (&answer["ok"], &answer["proc_id"], &answer["pid"]),
            (&json!(false), &json!(""), &json!(0))
        );
        let error = answer["error"].as_str().unwrap();
        assert!(error.contains(complaint), "{error}");
    }
    // At the limit and past it.
    for (id, ok) in [("1", true), ("2", true), ("3", false)] {
        let answer = spawn(&mut wire, id, &["sleep", "1000"], &json!({}));
        assert_eq!(answer["ok"], ok, "{answer}");
        assert_eq!(answer["error"], if ok { "" } else { "proc_limit" });
    }
    let missing = wire.ask(&json!({"type": "proc/status/req", "id": "s", "proc_id": "none"}));
    assert_eq!(missing["status"], "not_found");
    let missing = wire.ask(&json!({"type": "proc/kill/req", "id": "k", "proc_id": "none"}));
    assert_eq!(
        (&missing["ok"], &missing["state"]),
        (&json!(false), &json!("not_found"))
    );
}

#[test]
fn a_terminal_has_a_size_and_no_lines() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(folder.path(), ALL);
    let mut wire = agent(&node);
    let script = "trap 'stty size' WINCH; stty size; printf 'name? '; read name; echo \"[$name]\"; read rest; exit 0";
    let size = json!({"stdin_mode": "pty", "env": {"LINES": "30", "COLUMNS": "100"}});
    let spawned = spawn(&mut wire, "1", &["bash", "-c", script], &size);
    assert_eq!(spawned["ok"], true, "{spawned}");
    let id = spawned["proc_id"].clone();
    let mut text = String::new();
    let mut hear = |wire: &mut Wire, is_it: &dyn Fn(&Value, &str) -> bool| {
        loop {
            let message = wire.hear().unwrap();
            text.push_str(message["data"]["text"].as_str().unwrap_or_default());
            if is_it(&message, &text) {
                return text.clone();
            }
        }
    };
    let asked = hear(&mut wire, &|_, text| text.contains("name? "));
    assert!(asked.contains("30 100"), "{asked}");
    wire.say(
        &json!({"type": "proc/resize/req", "id": "r", "proc_id": id, "rows": 40, "cols": 120}),
    );
    hear(&mut wire, &|message, _| {
        message["type"] == "proc/resize/resp"
    });
    for (id_of_request, line) in [("w", "Ada\n"), ("w2", "x\n")] {
        wire.say(
            &json!({"type": "proc/write/req", "id": id_of_request, "proc_id": id, "data": line}),
        );
    }
    // The shell tells of the size when it is done with the line that it was waiting for.
    let all = hear(&mut wire, &|message, _| message["data"]["code"] == 0);
    assert!(all.contains("[Ada]") && all.contains("40 120"), "{all}");
}

/// Processes end with their session, and with the node, however that ends.
#[test]
fn nothing_is_left_behind() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(folder.path(), ALL);
    let mark = format!("1000{}", std::process::id());
    let script = format!("(setsid sleep {mark} & ) ; sleep {mark}");
    let mut wire = agent(&node);
    assert_eq!(
        spawn(&mut wire, "1", &["bash", "-c", &script], &json!({}))["ok"],
        true
    );
    while running(&mark) < 2 {}
    wire.say(&json!({"type": "shutdown", "timeout": 0}));
    while wire.hear().is_some() {}
    while running(&mark) > 0 {}

    let mut wire = agent(&node);
    assert_eq!(
        spawn(&mut wire, "2", &["bash", "-c", &script], &json!({}))["ok"],
        true
    );
    while running(&mark) < 2 {}
    node.crash();
    while running(&mark) > 0 {}
}

/// How many processes have this word among theirs.
fn running(word: &str) -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let has = |path: &Path| {
        let words = std::fs::read(path.join("cmdline")).unwrap_or_default();
        let words = String::from_utf8_lossy(&words).into_owned();
        words.starts_with("sleep") && words.contains(word)
    };
    processes.filter(|entry| has(&entry.path())).count()
}

/// An agent could rewrite its own rules, or read what keeps others out.
#[test]
fn the_workspace_must_not_hold_the_node() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let data = path.join("data");
    for (config, complaint) in [
        ("workspace: .", "agents could read the data directory"),
        (
            "sandbox: {readable: [.]}",
            "agents could read the data directory",
        ),
        ("workspace: nowhere", "`workspace` is no folder"),
    ] {
        let file = path.join("frith.yaml");
        std::fs::write(&file, config).unwrap();
        let (status, _, error) = frith(
            &[
                "up",
                "--listen",
                "127.0.0.1:0",
                "--config",
                file.to_str().unwrap(),
                "--data",
                data.to_str().unwrap(),
            ],
            "",
        );
        assert_eq!(status, 1, "{config}");
        assert!(error.contains(complaint), "{error}");
    }
    let work = path.join("work");
    std::fs::create_dir(&work).unwrap();
    let file = work.join("frith.yaml");
    std::fs::write(&file, "workspace: .").unwrap();
    let (status, _, error) = frith(
        &[
            "up",
            "--listen",
            "127.0.0.1:0",
            "--config",
            file.to_str().unwrap(),
            "--data",
            data.to_str().unwrap(),
        ],
        "",
    );
    assert_eq!(status, 1);
    assert!(
        error.contains("agents could rewrite the configuration"),
        "{error}"
    );
}

/// `frith run`: as if the program ran here.
#[test]
fn a_program_runs_as_if_here() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(folder.path(), ALL);
    let data = node.data();
    let data = data.to_str().unwrap();
    let script = "read a; echo \"out $a\"; echo err >&2; exit 7";
    let (status, out, error) = frith(&["run", "--data", data, "--", "bash", "-c", script], "hi\n");
    assert_eq!((status, &*out, &*error), (7, "out hi\n", "err\n"));
    let (status, out, _) = frith(&["run", "--data", data, "--", "cat"], "to the end\nof it");
    assert_eq!((status, &*out), (0, "to the end\nof it"));
    let (status, _, error) = frith(
        &[
            "run",
            "--timeout",
            "1",
            "--data",
            data,
            "--",
            "sleep",
            "100",
        ],
        "",
    );
    assert_eq!((status, &*error), (137, "frith: killed: timeout\n"));
    let (status, _, error) = frith(&["run", "--data", data, "--", "no-such-program"], "");
    assert_eq!(status, 1);
    assert!(error.contains("no-such-program"), "{error}");
}

/// Every guard of this machine is tried, and holds.
#[test]
fn the_doctor_tries_every_guard() {
    let (status, out, error) = frith(&["--json", "doctor"], "");
    assert_eq!(status, 0, "{out}{error}");
    let guards: Vec<Value> = out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(guards.len(), 14);
    for guard in &guards {
        assert_ne!(guard["proof"]["outcome"], "broken", "{guard}");
    }
    let held = guards.iter().filter(|guard| guard["active"] == true);
    assert!(held.count() >= 11, "{out}");
    let (_, out, _) = frith(&["doctor"], "");
    assert!(out.ends_with("guards hold\n"), "{out}");
}

/// Tools that a configuration describes, without code.
#[test]
fn a_command_is_a_tool() {
    let folder = tempfile::tempdir().unwrap();
    let config = r#"plugins:
  - name: tools
    type: tools
    commands:
      - name: count
        description: Counts what it is given
        command: [wc, "-{what}", --, "{files}"]
        parameters: {what: {enum: [l, w]}, files: {type: array, items: {type: string}}, text: {type: string}}
        required: [what]
        stdin: text
"#;
    let node = Node::start(folder.path(), config);
    let mut wire = agent(&node);
    let counted = call(
        &mut wire,
        "1",
        "count",
        &json!({"what": "w", "text": "one two"}),
    );
    assert_eq!(counted["data"]["data"]["stdout"], "2\n", "{counted}");
    call(
        &mut wire,
        "2",
        "write_file",
        &json!({"path": "a b", "content": "x\ny\n"}),
    );
    let counted = call(
        &mut wire,
        "3",
        "count",
        &json!({"what": "l", "files": ["a b", "-"]}),
    );
    assert!(counted.to_string().contains("2 a b"), "{counted}");
    let wrong = call(&mut wire, "4", "count", &json!({"what": "x"}));
    assert_eq!(wrong["code"], "schema_violation", "{wrong}");
    let list = wire.ask(&json!({"type": "tool/list/req", "id": "5", "query": "count words"}));
    assert_eq!(list["tools"][0]["name"], "count");

    let wrong = config.replace("{files}", "{file}");
    std::fs::write(folder.path().join("frith.yaml"), wrong).unwrap();
    let data = node.data();
    let (status, out, error) = frith(&["config", "apply", "--data", data.to_str().unwrap()], "");
    assert!(
        format!("{out}{error}").contains("`count` has a place for `file`"),
        "{status} {out}{error}"
    );
}

/// A toolkit is its agent's, across sessions and restarts, and its configuration is nobody's to read.
#[test]
fn a_toolkit_is_configured_once() {
    let folder = tempfile::tempdir().unwrap();
    let config = "plugins: [{name: tools, type: tools}, {name: toolkits, type: toolkits}]\n";
    let node = Node::start(folder.path(), config);
    let open = |node: &Node| {
        let mut wire = node.wire();
        let hello = json!({"type": "handshake/req", "id": "h", "agent_caps": ["tools", "toolkits"], "auth_token": node.token});
        assert_eq!(wire.ask(&hello)["ok"], true);
        wire
    };
    let mut wire = open(&node);
    let listed = wire.ask(&json!({"type": "toolkit/list/req", "id": "1"}));
    let names: Vec<_> = listed["toolkits"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["name"].clone())
        .collect();
    for name in ["filesystem", "sqlite", "git", "http"] {
        assert!(names.contains(&json!(name)), "{names:?}");
    }
    let empty = wire.ask(
        &json!({"type": "toolkit/configure/req", "id": "2", "toolkit_name": "", "config": {}}),
    );
    assert_eq!(empty["status"], "error", "{empty}");
    let file = json!({"type": "toolkit/configure/req", "id": "3", "toolkit_name": "sqlite",
        "config": {"file": "notes.db", "access": "read_write"}});
    call(
        &mut wire,
        "w",
        "write_file",
        &json!({"path": "notes.db", "content": ""}),
    );
    let configured = wire.ask(&file);
    assert_eq!(configured["status"], "ok", "{configured}");
    call(
        &mut wire,
        "g1",
        "run_command",
        &json!({"command": "git init -q . && echo x > a && git add a"}),
    );
    let data = node.data();
    let data = data.to_str().unwrap();
    let (status, out, error) = frith(
        &["toolkits", "git", "-", "--data", data],
        r#"{"repository": "."}"#,
    );
    assert_eq!((status, &*error), (0, ""), "{out}");
    let (_, out, _) = frith(&["toolkits", "--data", data], "");
    assert!(
        out.contains("(configured)") && out.contains("(not configured)"),
        "{out}"
    );
    let (status, _, error) = frith(&["toolkits", "git", "{}", "--data", data], "");
    assert_eq!(status, 1);
    assert!(error.contains("repository"), "{error}");
    let folder = node.crash();
    let node = Node::start(&folder, config);
    let mut wire = open(&node);
    // In the sandbox, on a repository that commands of the agent have made.
    let status = call(&mut wire, "g2", "git_status", &json!({}));
    assert!(status.to_string().contains("a"), "{status}");
    assert_eq!(status["data"]["success"], true, "{status}");
    let made = call(
        &mut wire,
        "5",
        "sqlite_execute",
        &json!({"sql": "CREATE TABLE notes (text)"}),
    );
    assert_eq!(made["data"]["success"], true, "{made}");
    // Nothing of this machine can be fetched.
    let fetched = call(&mut wire, "6", "http_get", &json!({"url": node.at("http")}));
    assert!(fetched.to_string().contains("address"), "{fetched}");
    let list = wire.ask(&json!({"type": "tool/list/req", "id": "4", "query": "sqlite"}));
    assert_eq!(list["tools"][0]["toolkit"], "sqlite", "{list}");
    let key = std::fs::metadata(node.data().join("store.key")).unwrap();
    assert_eq!(
        std::os::unix::fs::PermissionsExt::mode(&key.permissions()) & 0o777,
        0o600
    );
}

//! Processes of a session.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use a2e_caps::proc::MAX_LISTED_COMMAND;
use serde_json::{Value, json};

use super::{ALL, agent, spawn, until_exit};
use crate::mcp_servers::ask;
use crate::node::{Node, Wire};

/// Proves H-15, N-12.
#[test]
#[expect(clippy::too_many_lines, reason = "one story, told in order")]
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
    // Of long commands a list has the beginning.
    let word = "x".repeat(MAX_LISTED_COMMAND - "true ".len());
    for (id, word, is_cut) in [
        ("l0", word.clone(), false),
        ("l1", format!("{word}y"), true),
    ] {
        let request = json!({"type": "proc/spawn/req", "id": id, "cmd": ["true", word]});
        let spawned = ask(&mut wire, &request);
        let all = ask(
            &mut wire,
            &json!({"type": "proc/status/req", "id": format!("{id}s")}),
        );
        let mut procs = all["procs"].as_array().unwrap().iter();
        let listed = procs
            .find(|it| it["proc_id"] == spawned["proc_id"])
            .unwrap();
        let expected = format!("true {word}").replace('y', "…");
        assert_eq!(listed["cmd"], expected);
        assert_eq!(listed["cmd"].as_str().unwrap().ends_with('…'), is_cut);
    }
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

/// With a list of commands neither the environment nor the folder makes an allowed one run another.
#[test]
fn allowed_commands_run_what_the_operator_means() {
    let folder = tempfile::tempdir().unwrap();
    let config = "plugins:
  - {name: proc, type: proc, allowed_commands: [printenv, bash, /bin/echo], allowed_env: [LANG]}\n";
    let node = Node::start(folder.path(), config);
    let mut wire = agent(&node);
    // A program of the agent's own with the name of one that is allowed.
    let workspace = node.data().join("workspace");
    let own = workspace.join("printenv");
    std::fs::write(&own, "#!/bin/sh\necho taken over\n").unwrap();
    std::fs::set_permissions(&own, std::fs::Permissions::from_mode(0o755)).unwrap();
    for (number, name) in [
        "PATH",
        "PERL5OPT",
        "LD_LIBRARY_PATH",
        "PYTHONPATH",
        "BASH_ENV",
        "NODE_OPTIONS",
        "path",
        "HOME",
    ]
    .iter()
    .enumerate()
    {
        let env = json!({"env": {"LINES": "24", "LANG": "C", *name: workspace}});
        let answer = spawn(&mut wire, &format!("e{number}"), &["printenv"], &env);
        assert_eq!(answer["ok"], false, "{answer}");
        let error = answer["error"].as_str().unwrap();
        assert!(
            error.contains(name) && error.contains("allowed_env"),
            "{error}"
        );
    }
    for (number, word) in ["./printenv", "../printenv", "/usr/bin/printenv", "echo"]
        .iter()
        .enumerate()
    {
        let answer = spawn(&mut wire, &format!("w{number}"), &[word], &json!({}));
        let error = answer["error"].as_str().unwrap();
        assert!(
            error.contains("is not among the allowed commands"),
            "{error}"
        );
    }
    let env = json!({"env": {"LINES": "50", "COLUMNS": "90", "LANG": "C"}, "stdin_mode": "null"});
    let spawned = spawn(
        &mut wire,
        "1",
        &["printenv", "LANG", "COLUMNS", "PATH"],
        &env,
    );
    assert_eq!(spawned["ok"], true, "{spawned}");
    let (heard, code) = until_exit(&mut wire);
    let lines: Vec<&str> = heard
        .iter()
        .map(|(_, data)| data["text"].as_str().unwrap())
        .collect();
    assert_eq!(
        (lines, code),
        (vec!["C\n", "90\n", "/usr/local/bin:/usr/bin:/bin\n"], 0)
    );
    let spawned = spawn(
        &mut wire,
        "2",
        &["/bin/echo", "hi"],
        &json!({"stdin_mode": "null"}),
    );
    assert_eq!(spawned["ok"], true, "{spawned}");
    assert_eq!(until_exit(&mut wire).0[0].1, json!({"text": "hi\n"}));
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

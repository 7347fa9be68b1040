//! `frith init`: from a folder with what other programs left there to a node's configuration.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;

use serde_json::Value;
#[cfg(feature = "mcp")]
use serde_json::json;

use crate::frith_in;
#[cfg(feature = "mcp")]
use crate::{mcp_servers::python_module, node::Node};

#[test]
fn finds_what_is_there_and_says_what_it_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let write = |name: &str, text: &str| {
        let file = folder.join(name);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    };
    let python =
        "host_id: mine\nplugins:\n  - {name: d, type: demo}\n  - {name: g, type: gym}\nx: 1\n";
    write("config.yaml", python);
    write(
        ".mcp.json",
        r#"{"mcpServers": {"files": {"command": "npx", "env": {"KEY": "${NOT_SET_HERE:-k}"}}, "odd": {}}}"#,
    );
    write("skills/pdf/SKILL.md", "---\nname: pdf\n---\n");
    let skill = "---\nname: cut\ndescription: Cuts\n---\nCut it.\n";
    write(".claude/skills/cut/SKILL.md", skill);
    let init = ["init", "--data", "data", "--json"];
    let (status, out, error) = frith_in(folder, &init, "");
    assert_eq!(status, 0, "{error}");
    let told: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(told["imported"][0], "config.yaml: host_id, plugins");
    assert_eq!(told["imported"][1], ".claude/skills: cut");
    // Nobody is there to say that it may be started.
    #[cfg(feature = "mcp")]
    assert_eq!(told["servers"][0]["state"], "not_started");
    let left = told["left_out"].to_string();
    for part in [
        "`plugins[1].type`",
        "unknown key `x`",
        #[cfg(feature = "mcp")]
        "`odd` has neither `command` nor `url`",
        "skills/pdf/SKILL.md: ",
    ] {
        assert!(left.contains(part), "{part} in {left}");
    }
    assert!(told["did"].as_str().unwrap().starts_with("did:key:"));
    let token = folder.join(told["token_file"].as_str().unwrap());
    for file in [token, folder.join("frith.yaml")] {
        let mode = std::fs::metadata(file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
    let (status, out, _) = frith_in(folder, &["config", "check"], "");
    assert_eq!(status, 0, "{out}");
    let text = std::fs::read_to_string(folder.join("frith.yaml")).unwrap();
    assert!(text.contains("host_id: mine\n"), "{text}");
    #[cfg(feature = "mcp")]
    assert!(
        text.contains(
            "\n#     files:\n#       command:\n#         - npx\n#       env:\n#         KEY: k\n"
        ),
        "{text}"
    );
    assert!(
        text.contains("folders:\n      - \".claude/skills\"\n"),
        "{text}"
    );
    assert!(text.contains("\npolicy: {rules: "), "{text}");
    // Once is enough, and what is there stays.
    let (status, _, error) = frith_in(folder, &init, "");
    assert_eq!(status, 0);
    assert!(
        error.contains("is there already, and nothing was changed"),
        "{error}"
    );
    assert_eq!(
        std::fs::read_to_string(folder.join("frith.yaml")).unwrap(),
        text
    );
}

#[test]
fn other_peoples_files_are_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::write(folder.join("config.yaml"), "title: a blog\n").unwrap();
    std::fs::write(folder.join(".mcp.json"), "{").unwrap();
    let (status, out, error) = frith_in(folder, &["init", "--data", "data"], "");
    assert_eq!(status, 0, "{error}");
    assert!(
        out.contains("config.yaml: it is no configuration of an A2E host"),
        "{out}"
    );
    assert!(out.contains(".mcp.json: it is no JSON"), "{out}");
    assert!(!out.contains("Imported"), "{out}");
    let next = format!("Next: frith up --data {}\n", folder.join("data").display());
    assert!(out.ends_with(&next), "{out}");
    assert_eq!(frith_in(folder, &["config", "check"], "").0, 0);
}

/// Naming one plugin must not take away the others.
#[cfg(feature = "mcp")]
#[test]
fn with_servers_of_mcp_a_node_has_all_that_it_has_without() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let servers = r#"{"mcpServers": {"docs": {"url": "http://127.0.0.1:1/mcp"}}}"#;
    std::fs::write(folder.join(".mcp.json"), servers).unwrap();
    let (status, out, error) = frith_in(folder, &["init", "--data", "data", "--yes"], "");
    assert_eq!(status, 0, "{error}");
    // It may be there later.
    assert!(out.contains("docs does not work"), "{out}");
    let caps = |more: &str| {
        let host = format!("cmd:{} stdio {more}", env!("CARGO_BIN_EXE_frith"));
        let elsewhere = tempfile::tempdir().unwrap();
        let caps = ["caps", "--json", "--host", &host];
        let (status, out, error) = frith_in(elsewhere.path(), &caps, "");
        assert_eq!(status, 0, "{error}");
        serde_json::from_str::<Value>(&out).unwrap()
    };
    let file = folder.join("frith.yaml");
    assert_eq!(caps(&format!("--config {}", file.display())), caps(""));
}

/// Found, written down, started: an agent has what lay in the folder, and what a node has anyway.
#[cfg(feature = "mcp")]
#[test]
fn an_agent_has_the_skills_and_the_servers_that_were_found() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let server = python_module("mcp_server_time", &json!({}));
    let words = server["command"].as_array().unwrap();
    let servers = json!({"mcpServers": {"time": {"command": words[0], "args": words[1..]}}});
    std::fs::write(folder.join(".mcp.json"), servers.to_string()).unwrap();
    let skill = folder.join("skills/greet");
    std::fs::create_dir_all(&skill).unwrap();
    let text = "---\nname: greet\ndescription: Greets somebody\n---\nSay hello to {args}.\n";
    std::fs::write(skill.join("SKILL.md"), text).unwrap();
    let (status, out, error) = frith_in(folder, &["init", "--data", "data", "--yes"], "");
    assert_eq!(status, 0, "{error}");
    assert!(out.contains("time works: 2 tools; it may read "), "{out}");
    let text = std::fs::read_to_string(folder.join("frith.yaml")).unwrap();
    // No test may take the port that all nodes have in mind.
    let node = Node::start(folder, &text.replace("# a2a: {listen", "# a2a: {at"));
    let mut wire = node.wire();
    let hello = json!({"type": "handshake/req", "id": "h", "auth_token": node.token,
        "agent_caps": ["tools", "mcp", "skill", "memory"]});
    let welcome = wire.ask(&hello);
    assert_eq!(welcome["ok"], true, "{welcome}");
    let listed = wire.ask(&json!({"type": "skill/discover/req", "id": "s"}));
    assert_eq!(listed["skills"][0]["name"], "greet", "{listed}");
    assert_eq!(listed["skills"][0]["status"], "Published", "{listed}");
    // Asking for its prompts waits for a server.
    let mut ask = |message: Value| {
        wire.say(&message);
        loop {
            let heard = wire.hear().unwrap();
            if heard["req_id"] == message["id"] && heard["type"] != "tool/event" {
                return heard;
            }
        }
    };
    ask(json!({"type": "mcp/prompt/list/req", "id": "w", "server_id": "time"}));
    let arguments =
        json!({"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"});
    let converted = ask(json!({"type": "tool/call/req", "id": "c", "timeout": 60,
        "tool_name": "time__convert_time", "arguments": arguments}));
    let said = converted["data"]["data"]["text"].as_str();
    assert!(said.is_some_and(|it| it.contains("21:00")), "{converted}");
}

/// What `init` makes on the way to the certificates is a data directory that a node takes.
#[test]
fn the_first_files_of_a_user_are_closed_to_others() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    let run = |words: &[&str]| {
        assert_cmd::Command::new(env!("CARGO_BIN_EXE_frith"))
            .args(words)
            .current_dir(folder.path())
            .env("XDG_DATA_HOME", &home)
            .output()
            .unwrap()
    };
    assert!(run(&["init", "--data", "elsewhere"]).status.success());
    let mode = std::fs::metadata(home.join("frith"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o700);
    let used = run(&["call", "echo", "{}"]);
    let error = String::from_utf8_lossy(&used.stderr).into_owned();
    assert!(used.status.success(), "{error}");
}

/// The commands that are printed to be pasted work as they stand, also without a home folder.
#[test]
fn printed_commands_can_be_pasted() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("it's data");
    let binary = env!("CARGO_BIN_EXE_frith");
    let bare = |program: &str| {
        let mut command = std::process::Command::new(program);
        command.current_dir(folder.path());
        command.env_remove("HOME").env_remove("XDG_DATA_HOME");
        command
    };
    let paste = |line: &str| {
        let line = line.replace("frith ", &format!("{binary} "));
        let output = bare("sh").arg("-c").arg(&line).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{line}: {error}");
    };
    std::fs::create_dir(folder.path().join("my node")).unwrap();
    let output = bare(binary)
        .args(["init", "my node", "--data"])
        .arg(&data)
        .output()
        .unwrap();
    let out = String::from_utf8(output.stdout).unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    let next = out.lines().find_map(|line| line.strip_prefix("Next: "));
    paste(&format!("{} --help", next.expect(&error)));

    let mut node = bare(binary)
        .args([
            "up",
            "--listen",
            "127.0.0.1:0",
            "--a2a-listen",
            "127.0.0.1:0",
            "--data",
        ])
        .arg(&data)
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(node.stdout.take().unwrap()).lines();
    let lines = lines.map(Result::unwrap);
    let shown: Vec<String> = lines
        .take_while(|line| !line.contains("Ctrl-C"))
        .filter(|line| line.starts_with("  frith "))
        .collect();
    assert!(shown.len() >= 2, "{shown:?}");
    for line in &shown {
        paste(line.trim());
    }
    node.kill().unwrap();
    node.wait().unwrap();
}

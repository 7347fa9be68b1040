//! The host inside a command, and `frith stdio`: what a node serves, by the same rules.

use std::path::Path;

use serde_json::{Value, json};
use tempfile::tempdir;

use crate::frith_in;

fn call(folder: &Path, tool: &str, arguments: &Value) -> (i32, Value, String) {
    let arguments = arguments.to_string();
    let (status, out, error) = frith_in(folder, &["call", tool, &arguments, "--json"], "");
    (
        status,
        serde_json::from_str(&out).unwrap_or_default(),
        error,
    )
}

#[test]
fn tools_and_commands_work_without_a_node() {
    let folder = tempdir().unwrap();
    let workspace = Path::new(concat!(
        env!("CARGO_TARGET_TMPDIR"),
        "/data/frith/workspace"
    ));
    // Of a file that nobody named only the rules count.
    let run = json!({"name": "bad", "type": "remote_plugin", "command": ["/bin/sh", "-c", "touch ran; cat"]});
    let config = json!({"workspace": "/elsewhere", "plugins": [run], "policy": {"rules": [
        {"id": "never", "name": "write_file", "when": "path == 'secret'", "action": "deny"},
        {"id": "ask", "name": "glob", "action": "require_approval"},
    ]}});
    std::fs::write(folder.path().join("frith.yaml"), config.to_string()).unwrap();
    let write = |path: &str| {
        let arguments = json!({"path": path, "content": "x"});
        call(folder.path(), "write_file", &arguments)
    };
    let (status, _, error) = write("a.txt");
    assert_eq!(status, 0, "{error}");
    assert_eq!(std::fs::read(workspace.join("a.txt")).unwrap(), b"x");
    let command = json!({"command": "ls; ls /proc | grep -c '^[0-9]'; cat /etc/shadow"});
    let (_, ran, error) = call(folder.path(), "run_command", &command);
    let output = ran["data"]["stdout"].as_str().unwrap_or_default();
    assert!(output.contains("a.txt\n"), "{ran} {error}");
    assert!(!ran.to_string().contains("root:"), "{ran}");
    // The rules of the folder count.
    let (status, denied, _) = write("secret");
    assert_eq!((status, &denied["code"]), (1, &json!("tool_denied")));
    let (status, held, _) = call(folder.path(), "glob", &json!({"pattern": "*"}));
    assert_eq!((status, &held["code"]), (1, &json!("tool_denied")));
    assert!(!folder.path().join("ran").exists());
}

#[test]
fn stdio_serves_what_a_node_does() {
    let folder = tempdir().unwrap();
    let hello =
        json!({"type": "handshake/req", "id": "h", "agent_caps": ["tools", "toolkits", "proc"]});
    let list = json!({"type": "toolkit/list/req", "id": "l"});
    let tools = json!({"type": "tool/list/req", "id": "t"});
    let input = format!("{hello}\n{list}\n{tools}\n");
    let (status, out, error) = frith_in(folder.path(), &["stdio"], &input);
    assert_eq!(status, 0, "{error}");
    let answers: Vec<Value> = out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let accepted = answers[0]["accepted_caps"].as_array().unwrap();
    assert!(accepted.iter().all(|one| one["enabled"] == true), "{out}");
    for name in ["\"read_file\"", "\"run_command\"", "\"echo\"", "\"sqlite\""] {
        assert!(out.contains(name), "{name}: {out}");
    }
    // A configuration says what there is, and a bad one is said so.
    let file = folder.path().join("other.yaml");
    std::fs::write(&file, "plugins: [{name: demo, type: demo}]\n").unwrap();
    let config = ["stdio", "--config", file.to_str().unwrap()];
    let (_, out, _) = frith_in(folder.path(), &config, &input);
    assert!(
        out.contains("\"echo\"") && !out.contains("read_file"),
        "{out}"
    );
    std::fs::write(&file, "plugin: []\n").unwrap();
    let (status, _, error) = frith_in(folder.path(), &config, &input);
    assert_eq!(status, 1);
    assert!(error.contains("plugin"), "{error}");
}

/// Who has no such kernel, or no place for a workspace, can still try a call.
#[test]
fn without_a_workspace_there_are_the_tools_to_try_a_host_with() {
    let folder = tempdir().unwrap();
    let data = folder.path().join("frith");
    std::fs::create_dir(&data).unwrap();
    let closed = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    std::fs::set_permissions(&data, closed).unwrap();
    std::fs::write(data.join("workspace"), "in the way").unwrap();
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_frith"))
        .args(["call", "echo", r#"{"text":"hi"}"#])
        .current_dir(folder.path())
        .env("XDG_DATA_HOME", folder.path())
        .output()
        .unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{error}");
    assert_eq!(output.stdout, b"{\n  \"text\": \"hi\"\n}\n");
    assert!(
        error.contains("only the tools to try a host with are served: cannot make the workspace"),
        "{error}"
    );
}

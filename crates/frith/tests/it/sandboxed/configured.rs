//! Tools that a configuration or an agent brings about.

use serde_json::json;

use super::{agent, call};
use crate::node::Node;
use crate::{frith, frith_in};

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

/// Paths begin at the folder of the file, also if the file is named by a relative path.
#[test]
fn a_relative_configuration_file_names_folders_beside_it() {
    let folder = tempfile::tempdir().unwrap();
    let conf = folder.path().join("conf");
    std::fs::create_dir_all(conf.join("share")).unwrap();
    std::fs::write(conf.join("share/note"), "beside").unwrap();
    let config = r"workspace: work
sandbox: {readable: [share]}
plugins:
  - name: tools
    type: tools
    commands:
      - {name: note, description: Shows a note, command: [cat, ../share/note]}
";
    std::fs::create_dir(conf.join("work")).unwrap();
    std::fs::write(conf.join("frith.yaml"), config).unwrap();
    let hello = r#"{"type":"handshake/req","id":"h","agent_caps":["tools"]}"#;
    let call = r#"{"type":"tool/call/req","id":"c","tool_name":"note","streaming":false}"#;
    let input = format!("{hello}\n{call}");
    for file in ["conf/frith.yaml", "./conf/../conf/frith.yaml"] {
        let command = ["stdio", "--config", file];
        let (status, out, error) = frith_in(folder.path(), &command, &input);
        assert_eq!(status, 0, "{error}");
        let last: serde_json::Value = serde_json::from_str(out.lines().last().unwrap()).unwrap();
        assert_eq!(last["data"]["data"]["stdout"], "beside", "{out}{error}");
    }
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

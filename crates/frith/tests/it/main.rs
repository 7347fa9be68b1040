//! The command line, as a user meets it.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod agents;
mod approvals;
mod approved_target;
mod audit;
mod audit_hostile;
mod bench;
mod bridged;
mod buffered;
mod called;
mod chains;
#[cfg(feature = "wasm")]
mod components;
mod config;
mod declared;
#[cfg(not(all(feature = "embed", feature = "mcp", feature = "wasm")))]
mod default_build;
mod demo;
mod descriptors;
mod done_once;
mod environments;
mod errors;
mod fairness;
mod foreign;
mod gone;
mod hooks;
mod identity;
mod identity_hostile;
mod inbox;
mod init;
mod interrupted;
mod json;
mod learning;
mod listing;
mod local;
mod manifests;
mod manual;
#[cfg(feature = "mcp")]
mod mcp;
#[cfg(feature = "mcp")]
mod mcp_adopted;
#[cfg(feature = "mcp")]
mod mcp_conformance;
mod mcp_hostile;
mod mcp_login;
#[cfg(feature = "mcp")]
mod mcp_servers;
#[cfg(feature = "mcp")]
mod mcp_whole;
mod memory;
mod mounted;
mod newcomer;
mod node;
mod otlp;
mod own_host;
mod own_identity;
mod peak_memory;
mod peers;
mod pinned;
mod planning;
mod policy;
mod public_host;
mod queries;
mod readme;
mod remote_plugins;
mod revoked;
mod run_foreign;
mod sample;
mod sandboxed;
mod secrets;
mod seed004;
mod selectors;
mod served;
mod session_limits;
mod skills;
mod stateful;
mod status;
mod store;
mod terminal;
mod token;
mod two_nodes;
mod up;
mod wrong_clock;

use std::path::Path;

use assert_cmd::Command;

fn frith(arguments: &[&str], input: &str) -> (i32, String, String) {
    frith_in(Path::new("."), arguments, input)
}

/// The same in a folder, whose configuration counts.
fn frith_in(folder: &Path, arguments: &[&str], input: &str) -> (i32, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_frith"))
        .args(arguments)
        .current_dir(folder)
        // Whatever runs on this machine is none of a test's business.
        .env(
            "XDG_DATA_HOME",
            concat!(env!("CARGO_TARGET_TMPDIR"), "/data"),
        )
        .write_stdin(input)
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (
        output.status.code().unwrap(),
        text(output.stdout),
        text(output.stderr),
    )
}

#[test]
fn without_arguments_it_says_what_it_is() {
    let (status, out, _) = frith(&[], "");
    assert_eq!(status, 0);
    for word in [
        "environment",
        "other agents",
        "stdio",
        "call",
        "types",
        "check",
        "Try:",
    ] {
        assert!(out.contains(word), "{word} is not in\n{out}");
    }
}

/// A parent that writes all it has and closes its side gets every answer, to the last byte.
#[test]
fn stdio_answers_after_the_end_of_input() {
    let handshake = r#"{"type":"handshake/req","id":"h","agent_caps":["tools"]}"#;
    let call = r#"{"type":"tool/call/req","id":"c","tool_name":"echo","arguments":{"x":1}}"#;
    for _ in 0..20 {
        let (status, out, _) = frith(&["stdio"], &format!("{handshake}\n{call}"));
        assert_eq!((status, out.lines().count()), (0, 2), "{out}");
        assert!(out.ends_with("}\n"), "{out}");
    }
}

fn on_own_host(arguments: &[&str]) -> (i32, String, String) {
    on_own_host_with(arguments, "")
}

fn on_own_host_with(arguments: &[&str], input: &str) -> (i32, String, String) {
    let host = concat!("cmd:", env!("CARGO_BIN_EXE_frith"), " stdio");
    frith(&[arguments, &["--host", host]].concat(), input)
}

#[test]
fn a_host_can_be_asked_from_the_command_line() {
    let (status, out, error) = on_own_host(&["ping"]);
    assert_eq!(status, 0, "{error}");
    assert!(out.starts_with("the host answers in"), "{out}");
    let (_, out, _) = on_own_host(&["caps"]);
    for name in [
        "skill",
        "tools",
        "toolkits",
        "env",
        "proc",
        "memory",
        "learning",
        "chains",
        "multi_agent",
        "planning",
    ] {
        assert!(out.contains(&format!("{name:11}  yes")), "{out}");
    }
    assert!(
        out.contains("test         no   (no plugin loaded)"),
        "{out}"
    );
    let (_, out, _) = on_own_host(&["tools"]);
    // Each with what it is for.
    assert!(
        out.contains("echo\n    Gives its arguments back\n"),
        "{out}"
    );
    let (status, out, _) = on_own_host(&["call", "echo", r#"{"text":"hi"}"#, "--json"]);
    assert_eq!(status, 0);
    let result: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(result["data"], serde_json::json!({"text": "hi"}));
    let (_, _, events) = on_own_host(&["call", "stream", r#"{"count":2}"#, "--events"]);
    assert_eq!(events.lines().count(), 2, "{events}");
}

#[test]
fn without_a_host_there_is_one_inside() {
    let (status, out, error) = frith(&["call", "echo", r#"{"text":"hi"}"#], "");
    assert_eq!(
        (status, out.as_str()),
        (0, "{\n  \"text\": \"hi\"\n}\n"),
        "{error}"
    );
}

/// As with `2>&1 | head -1`: what cannot be told is not, and the exit status is what it would have been.
#[test]
fn nobody_reads_standard_error() {
    let host = concat!("cmd:", env!("CARGO_BIN_EXE_frith"), " stdio");
    for (arguments, expected) in [
        (&["call", "none"][..], 1),
        (&["call", "stream", r#"{"count":9}"#, "--events"], 0),
        (&["call", "echo", "not json"], 2),
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_frith"))
            .args(arguments)
            .args(["--host", host])
            .stderr(writer)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(expected), "{arguments:?}");
    }
}

#[test]
fn a_failed_call_says_why() {
    let (status, _, error) = on_own_host(&["call", "none"]);
    assert_eq!(status, 1);
    assert!(
        error.contains("unknown_tool: there is no tool \"none\"; `frith tools` lists"),
        "{error}"
    );
    let (status, _, error) = on_own_host(&["call", "echo", "not json"]);
    assert_eq!(status, 2);
    assert!(error.contains("must be a JSON object"), "{error}");
    for (host, hint) in [
        ("unix:/nonexistent", "cannot reach unix:/nonexistent"),
        ("cmd:/nonexistent", "cannot reach cmd:/nonexistent"),
        (
            "cmd:true",
            "cmd:true is there, but: the connection to the host",
        ),
    ] {
        let (status, _, error) = frith(&["ping", "--host", host], "");
        assert_eq!(status, 1);
        assert!(error.contains(hint), "{error}");
    }
    let (status, _, error) = frith(&["ping", "--host", "nowhere"], "");
    assert_eq!(status, 2);
    assert!(
        error.contains("`nowhere` is no host; say tcp:ADDRESS:PORT"),
        "{error}"
    );
}

/// Lines go out as they are; every answer is a line.
#[test]
fn send_prints_what_comes_back() {
    let call = r#"{"type":"tool/call/req","id":"c","tool_name":"echo","arguments":{"x":1}}"#;
    let input = format!("{call}\n\nnot json\n{{\"type\":\"ping\",\"id\":\"p\"}}");
    let (status, out, error) = frith(&["send", "-"], &input);
    assert_eq!(status, 0, "{error}");
    let answers: Vec<serde_json::Value> = out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let mut kinds: Vec<_> = answers.iter().map(|line| line["type"].as_str()).collect();
    kinds.sort_unstable();
    assert_eq!(
        kinds,
        [Some("error"), Some("pong"), Some("tool/call/resp")],
        "{out}"
    );
    // Its own handshake is answered like any other request.
    let own = r#"{"type":"handshake/req","id":"h"}"#;
    let (status, out, _) = on_own_host_with(&["send", "-"], own);
    assert_eq!((status, out.lines().count()), (0, 1), "{out}");
}

#[test]
fn send_says_what_was_not_answered() {
    let input = r#"{"type":"ping","id":"1"}"#;
    let (status, _, error) = frith(&["send", "-", "--host", "cmd:true"], input);
    assert_eq!(status, 1, "{error}");
    let (status, _, error) = frith(&["send", "/nonexistent"], "");
    assert_eq!(status, 1);
    assert!(error.contains("cannot read /nonexistent"), "{error}");
    let (status, _, error) = frith(&["send", "-"], "\n\n");
    assert_eq!(status, 1);
    assert!(error.contains("there is no message in -"), "{error}");
    // `cat` says every line again: a handshake that was not accepted.
    let (status, _, error) = frith(&["send", "-", "--host", "cmd:cat"], input);
    assert_eq!(status, 1);
    assert!(error.contains("refused the handshake"), "{error}");
    let own = r#"{"type":"handshake/req","id":"h"}"#;
    let (status, out, error) = frith(&["send", "-", "--timeout", "0", "--host", "cmd:cat"], own);
    assert_eq!(status, 1, "{out}");
    assert!(error.contains("a request was not answered"), "{error}");
}

#[test]
fn types_lists_every_message() {
    let (status, out, _) = frith(&["types"], "");
    assert_eq!((status, out.lines().count()), (0, a2e_wire::Tag::ALL.len()));
    let (_, out, _) = frith(&["types", "--json"], "");
    let all: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(all.as_array().unwrap().len(), a2e_wire::Tag::ALL.len());
}

#[test]
fn types_shows_one_message() {
    let (status, out, _) = frith(&["types", "tool/call/req"], "");
    assert_eq!(status, 0);
    for word in [
        "is answered by tool/call/resp",
        "arguments",
        "default {}",
        "default 30",
    ] {
        assert!(out.contains(word), "{word} is not in\n{out}");
    }
    for tag in a2e_wire::Tag::ALL {
        let (_, out, _) = frith(&["types", tag.as_str()], "");
        assert!(out.starts_with(tag.as_str()), "{out}");
    }
}

#[test]
fn types_shows_what_messages_are_made_of() {
    let (_, out, _) = frith(&["types", "ToolDefinition"], "");
    assert!(
        out.contains("input_parameters") && out.contains("list<ToolParameter>"),
        "{out}"
    );
    let (_, out, _) = frith(&["types", "MemoryTier"], "");
    assert!(out.contains("working, episodic, semantic"), "{out}");
    let (_, out, _) = frith(&["types", "--json", "env/state_push"], "");
    let push: serde_json::Value = serde_json::from_str(&out).unwrap();
    let fields = push["fields"].as_array().unwrap();
    assert!(
        fields
            .iter()
            .any(|field| field["also_written_as"] == "state_delta"),
        "{out}"
    );
}

#[test]
fn types_says_what_there_is_instead() {
    for (wrong, hint) in [
        ("pingg", "did you mean `ping`?"),
        ("tools/call/req", "did you mean `tool/call/req`?"),
        ("tool", "there are tool/list/req, tool/list/resp"),
        ("nonsense", "`frith types` lists all"),
    ] {
        let (status, _, error) = frith(&["types", wrong], "");
        assert_eq!(status, 2);
        assert!(error.contains(hint), "{error}");
    }
}

#[test]
fn check_names_what_is_wrong() {
    let input = "{\"type\":\"ping\",\"id\":5}\n\nnot json\n{\"type\":\"ping\"}\n";
    let (status, out, _) = frith(&["check"], input);
    assert_eq!(status, 1);
    assert_eq!(
        out,
        "line 1: schema_violation: ping: field `id` must be a string, not a number\n\
         line 3: parse_error: not JSON: expected a value at byte 0\n\
         line 4: note: `a2e` is missing, which every message has\n\
         line 4: note: `id` is missing, which every message has\n\
         line 4: note: `ts` is missing, which every message has\n\
         3 messages, 2 wrong\n"
    );
    let whole = "{\"a2e\":\"1.0\",\"type\":\"pong\",\"id\":\"1\",\"ts\":1.0}\n";
    let (status, out, _) = frith(&["check", "-", "--json"], whole);
    assert_eq!(
        (status, out.as_str()),
        (0, "{\"messages\":1,\"wrong\":0}\n")
    );
    let (status, out, _) = frith(&["check", "--max-line", "10"], "{\"type\":\"pong\"}\n");
    assert_eq!(status, 1);
    assert!(
        out.contains("longer than 10 bytes; --max-line takes longer ones"),
        "{out}"
    );
}

#[test]
fn check_notes_what_is_probably_misspelled() {
    let input = "{\"type\":\"pingg\",\"version\":\"1.0\",\"id\":\"1\",\"ts\":1}\n\
        {\"type\":\"tool/call/req\",\"a2e\":\"1.0\",\"id\":\"2\",\"ts\":1,\"tool_nam\":\"x\"}\n";
    let (status, out, _) = frith(&["check"], input);
    assert_eq!(status, 0);
    assert_eq!(
        out,
        "line 1: note: type `pingg` is not in the catalogue; did you mean `ping`?\n\
         line 2: note: tool/call/req: field `tool_nam` is not in the catalogue; did you mean `tool_name`?\n\
         2 messages, 0 wrong\n"
    );
}

/// Two spellings mean one message from an agent and another from a host.
#[test]
fn check_knows_who_may_send_what() {
    let line = "{\"type\":\"env/plan/resp\",\"suggested_actions\":5}\n";
    assert_eq!(frith(&["check"], line).0, 1);
    assert_eq!(frith(&["check", "--from", "host"], line).0, 1);
    assert_eq!(frith(&["check", "--from", "agent"], line).0, 0);
}

#[test]
fn check_of_nothing_is_not_well() {
    for input in ["", "\n\n"] {
        let (status, out, _) = frith(&["check"], input);
        assert_eq!(
            (status, out.as_str()),
            (1, "there is no message in the input\n")
        );
    }
    assert_eq!(frith(&["check", "--max-line", "0"], "").0, 2);
}

#[test]
fn check_says_which_file_it_cannot_read() {
    for file in ["/nonexistent", "/"] {
        let (status, _, error) = frith(&["check", file], "");
        assert_eq!(status, 1);
        assert!(
            error.starts_with(&format!("frith: cannot read {file}")),
            "{error}"
        );
    }
}

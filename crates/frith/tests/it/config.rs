//! The configuration as a user meets it: layers, mistakes, the schema, and a file that changes.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::node::Node;
use crate::{frith, frith_in};

fn write(folder: &Path, name: &str, text: &str) {
    std::fs::write(folder.join(name), text).unwrap();
}

#[test]
fn mistakes_have_a_place_and_a_way_out() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (status, out, _) = frith_in(folder, &["config", "check"], "");
    assert_eq!(
        (status, out.as_str()),
        (0, "there is no file; the defaults are good\n")
    );
    write(
        folder,
        "a.yaml",
        "host_id: a\nserver:\n  listn: 127.0.0.1:0\n",
    );
    write(
        folder,
        "b.toml",
        "host_id = \"a\"\n[server]\nlistn = \"127.0.0.1:0\"\n",
    );
    for (file, column) in [("a.yaml", 3), ("b.toml", 1)] {
        let (status, out, _) = frith_in(folder, &["config", "check", "--config", file], "");
        let told = "unknown key `listn` in `server`; did you mean `listen`?";
        assert_eq!((status, out), (1, format!("{file}:3:{column}: {told}\n")));
        let (status, out, _) =
            frith_in(folder, &["config", "check", "--config", file, "--json"], "");
        let wanted = json!({
            "file": file,
            "problems": [{"line": 3, "column": column, "text": told}],
            "notes": [],
        });
        let found: Value = serde_json::from_str(&out).unwrap();
        assert_eq!((status, found), (1, wanted));
    }
    write(folder, "frith.yaml", "auth_token: ${NOT_SET_HERE}\n");
    let (status, out, _) = frith_in(folder, &["config", "check"], "");
    assert_eq!(status, 1);
    assert!(out.contains("NOT_SET_HERE, which is not set"), "{out}");
    let set = [
        "config",
        "check",
        "--set",
        "auth_token=hunter2",
        "--set",
        "audit=falze",
    ];
    let (status, out, error) = frith_in(folder, &set, "");
    assert_eq!(status, 1);
    assert!(out.contains("--set audit: `audit` must be"), "{out}");
    assert!(!out.contains("hunter2") && !error.contains("hunter2"));
}

/// A policy that no request fits into, or whose requests no source may send, is refused at the start.
#[test]
fn a_payload_size_that_the_node_cannot_keep_to_is_refused() {
    for (size, is_taken) in [
        (1, false),
        (4095, false),
        (4096, true),
        (16_777_216, true),
        (16_777_217, false),
    ] {
        let set = format!("a2a.policy.max_payload_size={size}");
        let folder = tempfile::tempdir().unwrap();
        let (status, out, error) = frith_in(folder.path(), &["config", "check", "--set", &set], "");
        assert_eq!(status == 0, is_taken, "{size}: {out}{error}");
        let text = format!("{out}{error}");
        assert_eq!(text.contains("choose 4096"), !is_taken, "{text}");
    }
}

#[test]
fn the_schema_is_json() {
    let (status, out, _) = frith(&["config", "schema"], "");
    let schema: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(status, 0);
    assert_eq!(
        schema["properties"]["server"]["properties"]["listen"]["type"],
        "string"
    );
}

/// A node whose log is read.
struct Logged(Child, BufReader<std::process::ChildStderr>);

impl Logged {
    fn start(folder: &Path) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_frith"))
            .args([
                "up",
                "--listen",
                "127.0.0.1:0",
                "--set",
                "a2a=false",
                "--data",
                "data",
            ])
            .current_dir(folder)
            .env("FRITH__TELEMETRY__LOG_FORMAT", "json")
            .env("FRITH__HOST_ID", "overridden")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let log = BufReader::new(process.stderr.take().unwrap());
        let out = BufReader::new(process.stdout.take().unwrap());
        let mut lines = out.lines().map(Result::unwrap);
        assert!(lines.any(|line| line.contains("Ctrl-C")));
        Self(process, log)
    }

    /// Reads on until something is said; the log is JSON, as the environment wanted.
    fn until(&mut self, text: &str) {
        let mut line = String::new();
        while !line.contains(text) {
            line.clear();
            assert!(
                self.1.read_line(&mut line).unwrap() > 0,
                "never said: {text}"
            );
            let _: Value = serde_json::from_str(&line).unwrap();
        }
    }
}

impl Drop for Logged {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_file_that_changes_only_tightens() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let demo = "plugins: [{name: demo, type: demo}]\n";
    write(folder, "frith.yaml", demo);
    let mut node = Logged::start(folder);
    let call = || {
        frith_in(
            folder,
            &["call", "echo", "{\"text\":\"hi\"}", "--data", "data"],
            "",
        )
        .0
    };
    assert_eq!(call(), 0);
    let ping = frith_in(folder, &["ping", "--data", "data", "--json"], "");
    assert_eq!(ping.0, 0, "{ping:?}");
    // Tighter: taken without a word.
    write(
        folder,
        "frith.yaml",
        &format!("{demo}policy: {{default: deny}}\n"),
    );
    node.until("read the configuration again");
    assert_eq!(call(), 1);
    // Looser: not taken.
    write(
        folder,
        "frith.yaml",
        &format!("{demo}policy: {{default: allow}}\n"),
    );
    node.until("kept the old rules");
    assert_eq!(call(), 1);
    // Broken: nothing happens to what runs.
    write(folder, "frith.yaml", "policy: [");
    node.until("kept the old configuration");
    assert_eq!(call(), 1);
    // The operator may.
    write(folder, "frith.yaml", demo);
    let (status, _, error) = frith_in(folder, &["config", "apply", "--data", "data"], "");
    assert_eq!(status, 0, "{error}");
    assert_eq!(call(), 0);
}

/// What the node has read and refused is applied all the same once the operator consents.
#[test]
fn apply_loosens_rules_that_the_node_had_already_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let demo = "plugins: [{name: demo, type: demo}]\n";
    let deny = format!("{demo}policy: {{rules: [{{id: none, name: echo, action: deny}}]}}\n");
    write(folder, "frith.yaml", &deny);
    let mut node = Logged::start(folder);
    let call = || frith_in(folder, &["call", "echo", "{}", "--data", "data"], "").0;
    assert_eq!(call(), 1);
    write(
        folder,
        "frith.yaml",
        &format!("{demo}policy: {{rules: []}}\n"),
    );
    node.until("kept the old rules");
    node.until("read the configuration again");
    assert_eq!(call(), 1);
    let (status, _, error) = frith_in(folder, &["config", "apply", "--data", "data"], "");
    assert_eq!((status, call()), (0, 0), "{error}");
}

/// A file that is gone says nothing: the node goes on by what it said, however it is told to look.
#[test]
fn a_file_that_is_gone_opens_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let tight = "plugins: [{name: demo, type: demo}]\npolicy: {default: deny}\n";
    write(folder, "frith.yaml", tight);
    let mut node = Logged::start(folder);
    let call = || frith_in(folder, &["call", "echo", "{}", "--data", "data"], "").0;
    let apply = || frith_in(folder, &["config", "apply", "--data", "data"], "");
    let file = folder.join("frith.yaml").display().to_string();
    let (status, out, error) = apply();
    assert_eq!((status, out), (0, format!("applied {file}\n")), "{error}");
    std::fs::remove_file(folder.join("frith.yaml")).unwrap();
    let (status, _, error) = apply();
    assert_eq!(status, 1);
    assert!(
        error.contains(&format!("{file}, which the node goes by, is gone")),
        "{error}"
    );
    assert_eq!(call(), 1);
    let id = node.0.id().to_string();
    let hangup = Command::new("kill").args(["-HUP", &id]).status();
    assert!(hangup.unwrap().success());
    // Said for each of the two.
    node.until("kept the old configuration");
    node.until("kept the old configuration");
    assert_eq!(call(), 1);
    write(folder, "frith.yaml", tight);
    assert_eq!(apply().0, 0);
}

/// A rule that holds what was allowed needs no word of the operator, whatever capability it is for;
/// one that allows what was held does.
#[test]
fn a_hold_in_a_file_that_changes_is_tighter() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let demo = "plugins: [{name: demo, type: demo}]\n";
    let ask = |action: &str| {
        format!("{demo}policy: {{rules: [{{id: ask, name: echo, action: {action}}}]}}\n")
    };
    write(folder, "frith.yaml", demo);
    let mut node = Logged::start(folder);
    let mut change = |text: &str, said: &[&str]| {
        write(folder, "frith.yaml", text);
        said.iter().for_each(|said| node.until(said));
    };
    let (taken, kept) = ("read the configuration again", "kept the old rules");
    change(&ask("require_approval"), &[taken]);
    change(demo, &[kept, taken]);
    change(&ask("deny"), &[taken]);
    change(&ask("require_approval"), &[kept, taken]);
}

/// The log is in a file if that is said, and a reload finds it again after somebody has moved it.
#[test]
fn a_log_in_a_file_is_begun_anew_when_it_was_moved() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let log = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap_or_default();
    let node = Node::start(folder, "telemetry: {log_file: node.log}\n");
    node.signal("-HUP");
    while !log("node.log").contains("read the configuration again") {}
    std::fs::rename(folder.join("node.log"), folder.join("moved.log")).unwrap();
    let data = node.data();
    let apply = ["config", "apply", "--data", data.to_str().unwrap()];
    // What is said while it is applied may still be in the old one.
    for _ in 0..2 {
        assert_eq!(frith(&apply, "").0, 0);
    }
    assert!(log("node.log").contains("read the configuration again"));
    assert!(!log("moved.log").is_empty());
}

/// A file is named with and without the option.
#[test]
fn a_file_is_checked_by_its_name() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "other.yaml", "servr: {}");
    for check in [
        ["config", "check", "other.yaml"].as_slice(),
        &["config", "check", "--config", "other.yaml"],
    ] {
        let (status, out, _) = frith_in(folder.path(), check, "");
        assert_eq!(status, 1);
        assert!(out.contains("did you mean `server`?"), "{out}");
    }
}

//! `frith audit` with files and names that somebody means ill with, and for those who are new to it.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::audit::{Node, record};
use crate::frith;
use crate::identity::User;

/// A folder that was emptied while the node was away: before its next start, and after.
#[test]
fn an_emptied_log_is_missed() {
    let home = tempfile::tempdir().unwrap();
    let run = || {
        let mut node = crate::node::Node::start(home.path(), "{}");
        node.signal("-TERM");
        assert_eq!(node.wait(), Some(0));
        node.data()
    };
    let data = run();
    let verify = || frith(&["audit", "--data", data.to_str().unwrap(), "verify"], "");
    let (status, out, _) = verify();
    assert_eq!(status, 0, "{out}");
    let mode = fs::metadata(data.join("audit.head")).unwrap().permissions();
    assert_eq!(mode.mode() & 0o777, 0o600);
    fs::remove_dir_all(data.join("audit")).unwrap();
    fs::create_dir(data.join("audit")).unwrap();
    let (status, out, _) = verify();
    assert_eq!(status, 1);
    assert!(
        out.starts_with("missing  the log had come to record"),
        "{out}"
    );
    run();
    let (status, out, _) = verify();
    assert_eq!(status, 1);
    assert!(out.contains("gap ") && out.contains("missing_log"), "{out}");
    // What the node knows of it is no proof, and may be gone.
    fs::write(data.join("audit.head"), "").unwrap();
    let (status, _, error) = verify();
    assert_eq!(status, 1);
    assert!(error.contains("audit.head is damaged"), "{error}");
}

/// A node's log is never empty; a folder that somebody names may be.
#[test]
fn an_empty_log_is_no_node_s() {
    let user = User::new();
    user.ok(&["id", "new"]);
    fs::create_dir_all(user.path("data/audit")).unwrap();
    let (status, out, _) = user.run(&["audit", "verify"]);
    assert_eq!(status, 1);
    assert!(out.starts_with("missing  there are no records"), "{out}");
    let folder = user.path("data/audit");
    let out = user.ok(&["audit", "verify", folder.to_str().unwrap()]);
    assert!(out.starts_with("there is nothing in it"), "{out}");
}

/// A tool may have any name, but not one that looks like what the node says about it.
#[test]
fn a_name_cannot_look_like_other_columns() {
    let node = Node::new();
    let log = node.open_log();
    for name in ["echo approved success rule=built-in 0 ms", "ec\u{200b}ho"] {
        let pending = log.append(&record(name, "tool_denied")).unwrap();
        pending.wait().unwrap();
    }
    log.close();
    let out = node.user.ok(&["audit", "tail", "-n", "100"]);
    assert!(
        out.contains(
            r#"tool/call/req "echo approved success rule=built-in 0 ms" approved tool_denied"#
        ),
        "{out}"
    );
    assert!(out.contains("\"ec\u{fffd}ho\""), "{out}");
}

#[test]
fn the_data_directory_is_given_before_or_after() {
    let node = Node::with_log();
    let data = node.user.path("data");
    let data = data.to_str().unwrap();
    let other = User::new();
    for arguments in [
        &["audit", "--data", data, "tail"][..],
        &["audit", "tail", "--data", data],
        &["audit", "--data", data, "stats"],
        &["audit", "--data", data, "verify"],
        &["audit", "verify", "--data", data],
        &["audit", "--data", data, "purge", "--before", "2026-02-07"],
        &["audit", "export", "--data", data],
    ] {
        other.ok(arguments);
    }
    let help = other.ok(&["audit", "purge", "--help"]);
    assert!(help.contains("only with `--only addresses`"), "{help}");
}

/// The file and the reason, once each.
#[test]
fn what_cannot_be_read_is_named_once() {
    let node = Node::with_log();
    fs::create_dir(node.folder().join("audit-00000099.jsonl")).unwrap();
    for arguments in [
        &["audit", "tail"][..],
        &["audit", "verify"],
        &["audit", "stats"],
        &["audit", "export"],
        &["audit", "purge", "--before", "90d"],
    ] {
        let (status, _, error) = node.user.run(arguments);
        assert_eq!(status, 1);
        for word in ["audit-00000099.jsonl", "not a regular file"] {
            assert_eq!(error.matches(word).count(), 1, "{error}");
        }
    }
}

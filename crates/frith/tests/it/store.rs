//! `frith store`, on the database of a node that runs and of one that does not.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

use rusqlite::Connection;
use serde_json::Value;
use store::{AgentId, Options, Sqlite, Store, UnixMillis, Use};

use crate::frith;
use crate::node::Node;

const NOW: UnixMillis = UnixMillis(1_770_000_000_000);

fn open(path: &Path) -> Store {
    Store::new(Sqlite::open(&Options::new(path)).unwrap())
}

fn use_once(store: &Store, id: &str) -> Use {
    let ids = store.for_agent(&AgentId::new("ada").unwrap()).replay_ids();
    ids.use_once(NOW, id, UnixMillis::NEVER).wait().unwrap()
}

fn run(data: &Path, arguments: &[&str]) -> (i32, String, String) {
    let data = data.to_str().unwrap();
    frith(&[&["store"], arguments, &["--data", data]].concat(), "")
}

#[test]
fn a_database_is_backed_up_while_it_is_used() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path();
    let store = open(&data.join("store.db"));
    assert_eq!(use_once(&store, "before"), Use::First);
    let target = data.join("backup.db");
    let target = target.to_str().unwrap();
    let (status, out, error) = run(data, &["backup", target]);
    assert_eq!(status, 0, "{error}");
    assert!(out.starts_with(&format!("wrote {target} (")), "{out}");
    assert!(out.ends_with("version 18); it is well\n"), "{out}");
    assert_eq!(use_once(&store, "after"), Use::First);
    // Once more, and only if it is asked for.
    let (status, _, error) = run(data, &["backup", target]);
    assert_eq!(status, 1);
    assert_eq!(
        error,
        format!("frith: nothing was written (--force replaces it): {target} is already there\n")
    );
    assert_eq!(use_once(&open(Path::new(target)), "after"), Use::First);
    let (status, out, error) = run(data, &["backup", target, "--force", "--json"]);
    assert_eq!(status, 0, "{error}");
    let made: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(made["bytes"], fs::metadata(target).unwrap().len());
    let restored = open(Path::new(target));
    assert_eq!(use_once(&restored, "after"), Use::Again);
    // Not over itself.
    let own = data.join("store.db");
    let (status, _, error) = run(data, &["backup", own.to_str().unwrap(), "--force"]);
    assert_eq!(status, 1);
    assert!(
        error.contains("it is a part of the database itself"),
        "{error}"
    );
}

#[test]
fn a_check_is_readable() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path();
    let store = open(&data.join("store.db"));
    use_once(&store, "12345");
    let (status, out, error) = run(data, &["check"]);
    assert_eq!(status, 0, "{error}");
    assert!(out.contains("store.db: version 18, "), "{out}");
    assert!(
        out.contains("  replay_ids            1 entries of      1 owners,        5 B\n"),
        "{out}"
    );
    assert!(out.ends_with("\nit is well\n"), "{out}");
    let (_, out, _) = run(data, &["check", "--json"]);
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(report["version"], report["newest_version"]);
    assert_eq!(report["tables"][2]["table"], "replay_ids");
    assert_eq!(report["tables"][2]["entries"], 1);
    assert_eq!(report["problems"], serde_json::json!([]));
}

#[test]
fn a_check_names_what_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path();
    let path = data.join("store.db");
    let store = open(&path);
    for number in 0..2000 {
        use_once(&store, &format!("an id that takes some room: {number}"));
    }
    drop(store);
    damage(&path);
    let (status, out, _) = run(data, &["check"]);
    assert_eq!(status, 1, "{out}");
    assert!(
        out.contains("\n! ") && out.contains("it is not well: "),
        "{out}"
    );
    let (status, _, error) = run(data, &["backup", data.join("b.db").to_str().unwrap()]);
    assert_eq!(status, 1);
    assert!(error.contains("the database is damaged ("), "{error}");
    assert!(!data.join("b.db").exists());
}

#[test]
fn without_a_database_it_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("b.db");
    for arguments in [&["check"][..], &["backup", target.to_str().unwrap()]] {
        let (status, _, error) = run(folder.path(), arguments);
        assert_eq!(status, 1);
        assert!(
            error.contains("a node makes it with the first thing it keeps"),
            "{error}"
        );
        assert!(error.contains("there is no database at "), "{error}");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

/// How `frith status` describes the check of the store.
fn check_of(node: &Node) -> Value {
    let data = node.data();
    let arguments = ["status", "--data", data.to_str().unwrap(), "--json"];
    let (status, out, error) = frith(&arguments, "");
    assert_eq!(status, 0, "{error}");
    serde_json::from_str::<Value>(&out).unwrap()["store"]["check"].clone()
}

/// Overwrites a page in the middle of a file.
fn damage(path: &Path) {
    let file = File::options().write(true).open(path).unwrap();
    let middle = file.metadata().unwrap().len() / 2 / 4096 * 4096;
    file.write_all_at(&[0x5a; 4096], middle).unwrap();
}

/// Runs a node that must fail; returns its standard error.
fn failed_start(folder: &Path) -> String {
    let node = Command::new(env!("CARGO_BIN_EXE_frith"))
        .args([
            "up",
            "--listen",
            "127.0.0.1:0",
            "--a2a-listen",
            "127.0.0.1:0",
        ])
        .arg("--data")
        .arg(folder.join("data"))
        .current_dir(folder)
        .output()
        .unwrap();
    let text = String::from_utf8(node.stderr).unwrap();
    assert_eq!(node.status.code(), Some(1), "{text}");
    text
}

#[test]
fn store_is_checked_after_an_unclean_end_and_refused_if_it_is_damaged() {
    let folder = tempfile::tempdir().unwrap();
    let mut node = Node::start(folder.path(), "{}");
    assert_eq!(check_of(&node), "not_needed");
    let path = node.data().join("store.db");
    node.signal("-TERM");
    assert_eq!(node.wait(), Some(0));
    let store = open(&path);
    for number in 0..2000 {
        use_once(&store, &format!("an id that takes some room: {number}"));
    }
    drop(store);
    let node = Node::start(folder.path(), "{}");
    assert_eq!(check_of(&node), "not_needed");
    node.crash();
    let node = Node::start(folder.path(), "{}");
    assert_eq!(check_of(&node), "passed");
    node.crash();
    let sound = fs::read(&path).unwrap();
    damage(&path);
    // Not only once.
    for _ in 0..2 {
        let error = failed_start(folder.path());
        let shown = path.display();
        for part in [
            &format!("frith: cannot use {shown}: the database is damaged ("),
            &format!("restore a backup: with the node stopped, put it in the place of {shown}"),
            "`frith store check` names the damage",
        ] {
            assert!(error.contains(part), "{part} in {error}");
        }
    }
    fs::write(&path, sound).unwrap();
    let mut node = Node::start(folder.path(), "{}");
    assert_eq!(check_of(&node), "passed");
    node.signal("-TERM");
    assert_eq!(node.wait(), Some(0));
    assert_eq!(check_of(&Node::start(folder.path(), "{}")), "not_needed");
}

/// One of more than 256 MiB is checked while the node serves.
#[test]
fn damage_of_a_large_store_ends_the_node() {
    let folder = tempfile::tempdir().unwrap();
    let mut node = Node::start(folder.path(), "{}");
    let path = node.data().join("store.db");
    node.signal("-TERM");
    assert_eq!(node.wait(), Some(0));
    let connection = Connection::open(&path).unwrap();
    let fill = "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; CREATE TABLE large (x);
        INSERT INTO large VALUES (zeroblob(270000000));";
    connection.execute_batch(fill).unwrap();
    drop(connection);
    Node::start(folder.path(), "{}").crash();
    let node = Node::start(folder.path(), "{}");
    let check = loop {
        match check_of(&node) {
            check if check != "running" => break check,
            _ => {}
        }
    };
    assert_eq!(check, "passed");
    node.crash();
    damage(&path);
    let error = failed_start(folder.path());
    assert!(error.contains("stopping at once: cannot use "), "{error}");
    assert!(error.contains("the database is damaged ("), "{error}");
    // The check did not pass, so the next node checks again.
    let error = failed_start(folder.path());
    assert!(error.contains("the database is damaged ("), "{error}");
}

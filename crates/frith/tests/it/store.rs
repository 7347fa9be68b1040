//! `frith store`, on the database of a node that runs and of one that does not.

use std::fs;
use std::path::Path;

use store::{AgentId, Options, Sqlite, Store, UnixMillis, Use};

use crate::frith;

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
    assert!(out.ends_with("version 15); it is well\n"), "{out}");
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
    let made: serde_json::Value = serde_json::from_str(&out).unwrap();
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
    assert!(out.contains("store.db: version 15, "), "{out}");
    assert!(
        out.contains("  replay_ids            1 entries of      1 owners,        5 B\n"),
        "{out}"
    );
    assert!(out.ends_with("\nit is well\n"), "{out}");
    let (_, out, _) = run(data, &["check", "--json"]);
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
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
    let mut bytes = fs::read(&path).unwrap();
    let middle = bytes.len() / 2 / 4096 * 4096;
    bytes[middle..middle + 4096].fill(0x5a);
    fs::write(&path, bytes).unwrap();
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

//! The database as a file: backups, checks, erased data, files that go away.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use rusqlite::Connection;
use store::{
    Backend as _, Begun, Error, Existing, Options, Rooms, SessionId, Snapshots, Sqlite, Store,
    Swept, Tier, UnixMillis, Use, backup, check,
};
use tempfile::TempDir;

use crate::contract::entry;
use crate::subject::{NOW, START, ada, at, folder, hash, moment};

struct Node {
    folder: TempDir,
    path: PathBuf,
    sqlite: Sqlite,
    store: Store,
}

impl Node {
    fn start() -> Self {
        let folder = folder();
        let path = folder.path().join("store.db");
        let sqlite = Sqlite::open(&Options::new(&path)).unwrap();
        Self {
            folder,
            path,
            store: Store::new(sqlite.clone()),
            sqlite,
        }
    }

    fn records(&self) -> Arc<dyn Snapshots> {
        records(&self.store)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn files(&self) -> Vec<String> {
        let files = fs::read_dir(self.folder.path()).unwrap();
        let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    }
}

fn records(store: &Store) -> Arc<dyn Snapshots> {
    let session = SessionId::new("s").unwrap();
    store.for_agent(&ada()).snapshots(&session)
}

fn put(records: &dyn Snapshots, name: &str) {
    let put = records.put(NOW, name, name.as_bytes().to_vec(), UnixMillis::NEVER);
    put.wait().unwrap();
}

/// While a node writes: what was acknowledged before is in it, and the node goes on.
#[test]
fn a_backup_is_of_one_moment() {
    let node = Node::start();
    let done = Arc::new(AtomicBool::new(false));
    let (told, tell) = std::sync::mpsc::channel();
    let writing = thread::spawn({
        let (records, done) = (node.records(), Arc::clone(&done));
        move || {
            let mut number = 0_u32;
            while !done.load(Ordering::Relaxed) {
                // Two records that are always the same: a moment between them would show.
                for name in ["left", "right"] {
                    let text = number.to_string().into_bytes();
                    records
                        .put(NOW, name, text, UnixMillis::NEVER)
                        .wait()
                        .unwrap();
                }
                number += 1;
                let _ = told.send(number);
            }
        }
    });
    for round in 0..5 {
        let acknowledged = tell.iter().find(|number| number % 10 == 0).unwrap();
        let target = node.file(&format!("backup-{round}.db"));
        let made = backup(&node.path, &target, Existing::Keep).unwrap();
        assert_eq!(made.bytes, fs::metadata(&target).unwrap().len());
        let mode = fs::metadata(&target).unwrap().permissions().mode() & 0o7777;
        assert_eq!(mode, 0o600);
        let report = check(&target).unwrap();
        assert_eq!(
            (report.version, report.problems),
            (made.version, Vec::new())
        );
        let restored = records(&Store::new(Sqlite::open(&Options::new(&target)).unwrap()));
        let number = |name| -> u32 {
            let text = restored.get(NOW, name).wait().unwrap().unwrap();
            String::from_utf8(text).unwrap().parse().unwrap()
        };
        let (left, right) = (number("left"), number("right"));
        assert!(left == right || left == right + 1, "{left} and {right}");
        assert!(right + 1 >= acknowledged, "{right} after {acknowledged}");
    }
    done.store(true, Ordering::Relaxed);
    writing.join().unwrap();
}

#[test]
fn a_backup_replaces_nothing_unasked() {
    let node = Node::start();
    put(&*node.records(), "a");
    let target = node.file("backup.db");
    fs::write(&target, "something else").unwrap();
    let exists = Error::FileExists {
        path: target.clone(),
    };
    assert_eq!(backup(&node.path, &target, Existing::Keep), Err(exists));
    assert_eq!(fs::read(&target).unwrap(), b"something else");
    backup(&node.path, &target, Existing::Replace).unwrap();
    assert_eq!(check(&target).unwrap().problems, Vec::<String>::new());
    // Its own files are no place for it, asked or not, by whatever name.
    fs::hard_link(&node.path, node.file("link.db")).unwrap();
    for own in ["store.db", "store.db-wal", "store.db-shm", "link.db"] {
        let refused = backup(&node.path, &node.file(own), Existing::Replace);
        let text = refused.unwrap_err().to_string();
        assert!(text.ends_with("is a part of the database itself"), "{text}");
    }
    put(&*node.records(), "b");
}

#[test]
fn a_backup_that_fails_leaves_nothing() {
    let node = Node::start();
    let before = node.files();
    fs::create_dir(node.file("folder")).unwrap();
    let target = |name: &str| backup(&node.path, &node.file(name), Existing::Replace);
    let text = target("folder").unwrap_err().to_string();
    assert!(text.ends_with("it is not a file"), "{text}");
    assert!(matches!(target("none/backup.db"), Err(Error::Io { .. })));
    fs::remove_dir(node.file("folder")).unwrap();
    let missing = backup(&node.file("none.db"), &node.file("b.db"), Existing::Keep);
    assert!(matches!(missing, Err(Error::NoDatabase { .. })));
    assert_eq!(node.files(), before);
    // A database that is not well is not copied.
    drop_counts(&node.path);
    let damaged = target("damaged.db");
    assert!(matches!(damaged, Err(Error::Damaged { .. })), "{damaged:?}");
    assert_eq!(node.files(), before);
}

/// What no code does: the owner has something that is not counted.
fn drop_counts(path: &Path) {
    let connection = Connection::open(path).unwrap();
    connection
        .execute_batch(
            "INSERT INTO replay_ids (owner, id, expires, bytes) VALUES ('ada', 'i', 1, 1);
             UPDATE usage SET entries = 7 WHERE kind = 'replay_ids'",
        )
        .unwrap();
}

#[test]
fn a_check_says_what_is_there() {
    let node = Node::start();
    put(&*node.records(), "abc");
    let ids = node.store.for_agent(&ada()).replay_ids();
    ids.use_once(NOW, "12345", at(60)).wait().unwrap();
    let report = check(&node.path).unwrap();
    assert_eq!(report.problems, Vec::<String>::new());
    assert_eq!(report.version, report.newest);
    assert!(report.bytes > 0 && report.log_bytes > 0, "{report:?}");
    let table = |name| {
        report
            .tables
            .iter()
            .find(|table| table.table == name)
            .unwrap()
    };
    let (snapshots, ids) = (table("snapshots"), table("replay_ids"));
    assert_eq!(
        (snapshots.owners, snapshots.entries, snapshots.bytes),
        (1, 1, 7)
    );
    assert_eq!((ids.owners, ids.entries, ids.bytes), (1, 1, 5));
    assert_eq!(table("pins").entries, 0);
}

#[test]
fn a_check_finds_what_is_wrong() {
    let counted = Node::start();
    drop_counts(&counted.path);
    let problems = check(&counted.path).unwrap().problems;
    let expected = "replay_ids of `ada`: 1 entries of 1 bytes are counted as 7 of 1";
    assert_eq!(problems, [expected]);

    let orphaned = Node::start();
    let connection = Connection::open(&orphaned.path).unwrap();
    connection
        .pragma_update(None, "foreign_keys", "OFF")
        .unwrap();
    let orphan = "INSERT INTO snapshot_parts VALUES (99, 0, x'00')";
    connection.execute_batch(orphan).unwrap();
    let problems = check(&orphaned.path).unwrap().problems;
    assert_eq!(
        problems,
        ["a row of snapshot_parts belongs to none of snapshots"]
    );

    // A page that is not what it was.
    let Node {
        path,
        sqlite,
        store,
        folder,
    } = Node::start();
    for number in 0..200 {
        put(&*records(&store), &format!("record {number}"));
    }
    drop((sqlite, store));
    let mut bytes = fs::read(&path).unwrap();
    let end = bytes.len();
    bytes[end / 2..end / 2 + 4096].fill(0x5a);
    fs::write(&path, bytes).unwrap();
    let problems = check(&path).unwrap().problems;
    assert!(!problems.is_empty());
    drop(folder);
}

#[test]
fn a_check_needs_a_database() {
    let folder = folder();
    let path = folder.path().join("store.db");
    let missing = Error::NoDatabase { path: path.clone() };
    assert_eq!(check(&path), Err(missing.clone()));
    fs::write(&path, "").unwrap();
    assert_eq!(check(&path), Err(missing));
    fs::write(&path, "not a database\n".repeat(100)).unwrap();
    assert!(matches!(check(&path), Err(Error::Damaged { .. })));
    // It has made nothing.
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

/// Threat 141 and `data_retention` (profile §11.4): what was removed is in no file.
#[test]
fn what_has_expired_is_on_no_disk() {
    let node = Node::start();
    let marker = b"marker-8c1f52".repeat(400);
    let contains_marker = || {
        let files = node.files();
        let mut files = files.iter().map(|name| fs::read(node.file(name)).unwrap());
        files.any(|file| file.windows(13).any(|part| part == b"marker-8c1f52"))
    };
    let results = node.store.for_agent(&ada()).results();
    results.begin(START, "a", hash(1)).wait().unwrap();
    results
        .finish(START, "a", Some(marker.clone()))
        .wait()
        .unwrap();
    node.records().put(NOW, "r", marker, at(60)).wait().unwrap();
    assert!(contains_marker());
    // Somebody reads an older state: that one is not taken away, and the sweep does not wait.
    let reader = Connection::open(&node.path).unwrap();
    reader
        .execute_batch("BEGIN; SELECT count(*) FROM results")
        .unwrap();
    let count = |reader: &Connection| -> i64 {
        let all = "SELECT count(*) FROM results";
        reader.query_row(all, [], |row| row.get(0)).unwrap()
    };
    assert_eq!(count(&reader), 1);
    let swept = |removed, is_erased| {
        Ok(Swept {
            removed,
            has_more: false,
            is_erased,
        })
    };
    assert_eq!(node.store.sweep(moment(600)).wait(), swept(2, false));
    assert_eq!(count(&reader), 1);
    drop(reader);
    assert_eq!(node.store.sweep(moment(600)).wait(), swept(0, true));
    assert!(!contains_marker());
}

/// Nothing is acknowledged that nobody would find again.
#[test]
fn a_file_that_is_gone_is_noticed() {
    for name in ["store.db", "store.db-wal"] {
        for is_replaced in [false, true] {
            let node = Node::start();
            put(&*node.records(), "before");
            fs::rename(node.file(name), node.file("elsewhere")).unwrap();
            if is_replaced {
                fs::copy(node.file("elsewhere"), node.file(name)).unwrap();
            }
            let gone = Err(Error::Gone {
                path: node.file(name),
            });
            let put = || node.records().put(NOW, "after", Vec::new(), at(60)).wait();
            assert_eq!(put(), gone);
            // Also when it is back: what was written meanwhile is not in it.
            fs::rename(node.file("elsewhere"), node.file(name)).unwrap();
            assert_eq!(put(), gone);
            assert_eq!(node.sqlite.flush().wait(), gone);
        }
    }
}

#[test]
fn what_was_written_is_flushed_when_asked() {
    let node = Node::start();
    put(&*node.records(), "a");
    let before = node.sqlite.figures().syncs;
    node.sqlite.flush().wait().unwrap();
    assert!(node.sqlite.figures().syncs > before);
    assert_eq!(node.sqlite.path(), node.path);
}

/// What another process looks at, it does not disturb.
#[test]
fn a_second_reader_changes_nothing() {
    let node = Node::start();
    put(&*node.records(), "a");
    drop(Connection::open(&node.path).unwrap());
    check(&node.path).unwrap();
    put(&*node.records(), "b");
    let ids = node.store.for_agent(&ada()).replay_ids();
    assert_eq!(ids.use_once(NOW, "i", at(60)).wait(), Ok(Use::First));
    let results = node.store.for_agent(&ada()).results();
    assert_eq!(results.begin(START, "r", hash(1)).wait(), Ok(Begun::New));
    // Checked from another handle while it is open, it does not count as another start.
    check(&node.path).unwrap();
    assert_eq!(
        results.begin(START, "r", hash(1)).wait(),
        Ok(Begun::Running)
    );
    let report = check(&node.path).unwrap();
    assert_eq!(report.problems, Vec::<String>::new());
}

/// A text of words that come once, of a kind.
fn text(kind: &str, number: u64) -> String {
    const WORDS: u64 = 1024;
    let word = |at: u64| {
        // Distinct, without a pattern.
        let bits = (number * WORDS + at).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let part = |size: u64, at: u32| u32::try_from(bits / size.pow(at) % size).unwrap();
        let letters = |first: char, size: u64, count: u32| -> String {
            let letters = (0..count).map(|at| u32::from(first) + part(size, at));
            letters.filter_map(char::from_u32).collect()
        };
        match kind {
            "short" => letters('a', 26, 5),
            "long" => format!("{:032x}", u128::from(bits) << 40),
            "numbers" => letters('0', 10, 10),
            _ => letters('\u{4e00}', 20_000, 4),
        }
    };
    (0..WORDS).map(word).collect::<Vec<_>>().join(" ")
}

/// Entries count with their part of the index, whatever their words are like. As long as what was replaced
/// is not erased the index has that too, and the file up to five times what counts.
#[test]
fn entries_take_no_more_of_the_file_than_they_count() {
    const MOST: u64 = 1 << 20;
    const EMPTY: u64 = 512 * 1024;
    for kind in ["short", "long", "numbers", "dense"] {
        for (most, count) in [(usize::MAX, 24), (1 << 20, 60)] {
            let folder = folder();
            let path = folder.path().join("store.db");
            let mut options = Options::new(&path);
            options.limits.memories.bytes = most;
            let store = Store::new(Sqlite::open(&options).unwrap());
            let session = SessionId::new("s").unwrap();
            let memories = store.for_agent(&ada()).memories(&session, "default");
            for number in 0..count {
                let entry = entry(Tier::Episodic, &number.to_string(), &text(kind, number));
                let outcomes = memories.put(NOW, vec![entry], Rooms::default()).wait();
                assert_eq!(outcomes.unwrap(), [Ok(())]);
            }
            let [_, size, _] = memories.sizes(NOW).wait().unwrap();
            drop((memories, store));
            let (counted, file) = (size.bytes as u64, fs::metadata(&path).unwrap().len());
            let (at_least, at_most) = match most {
                usize::MAX => (0, counted + counted / 4),
                _ => (MOST / 4 * 3, 5 * MOST),
            };
            assert!(
                counted >= at_least && file <= at_most + EMPTY,
                "{kind} {size:?} {file}"
            );
        }
    }
}

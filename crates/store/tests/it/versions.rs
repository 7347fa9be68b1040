//! Databases of every earlier version, and of none.
//!
//! `versions/N.sql` is a database of version N as text, with something in each table. Once a
//! version is published its sample never changes; the one of the newest is written with
//! `UPDATE_VECTORS=1`.

use std::fmt::Write as _;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use store::{
    Begun, Bucket, Call, ChainState, Compared, Error, Options, PinKind, Rooms, SessionId, Sqlite,
    Store, Tier, Use, Wanted, wait,
};

use crate::contract::{
    by, cipher, component, entry, experience, journal, plan, refinement, session, task,
};
use crate::subject::{NOW, START, ada, at, folder, hash, moment};

/// The version of this program's databases.
const NEWEST: i64 = 18;

fn open(path: &Path) -> Result<Store, Error> {
    Sqlite::open(&Options::new(path)).map(Store::new)
}

fn sample(version: i64) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/versions");
    folder.join(format!("{version}.sql"))
}

/// Puts something into each table.
fn fill(store: &Store) {
    let scope = store.for_agent(&ada());
    scope
        .results()
        .begin(START, "done", hash(1))
        .wait()
        .unwrap();
    scope
        .results()
        .finish(START, "done", Some(b"answer".to_vec()))
        .wait()
        .unwrap();
    scope
        .results()
        .begin(START, "cut off", hash(1))
        .wait()
        .unwrap();
    let records = scope.snapshots(&SessionId::new("s").unwrap());
    for line in ["one\n", "two\n"] {
        let line = line.as_bytes().to_vec();
        records.append(NOW, "journal", line, at(60)).wait().unwrap();
    }
    scope
        .replay_ids()
        .use_once(NOW, "jti", at(60))
        .wait()
        .unwrap();
    let bucket = bucket();
    scope.rate_buckets().save(NOW, vec![bucket]).wait().unwrap();
    let call = Call {
        id: "call".to_owned(),
        hash: hash(1),
        did: Some("did:example:ada".to_owned()),
        shown: b"{}".to_vec(),
        expires: at(60),
    };
    scope.held_calls().hold(NOW, call).wait().unwrap();
    store
        .pins(&PinKind::TOOL)
        .pin(NOW, "tool", hash(1))
        .wait()
        .unwrap();
    let vault = wait(store.vault(cipher(1))).unwrap();
    wait(vault.for_agent(&ada()).put("token", b"secret")).unwrap();
    let memories = scope.memories(&session("s"), "default");
    let entries = vec![entry(Tier::Episodic, "pet", "a dog called Rex")];
    let outcomes = memories.put(NOW, entries, Rooms::default()).wait().unwrap();
    assert_eq!(outcomes, [Ok(())]);
    let plans = scope.plans();
    plans.create(plan("p")).wait().unwrap();
    plans.add(by("ada", 0), "p", task("1")).wait().unwrap();
    let learning = scope.learning();
    let known = vec![component("c", "known")];
    learning
        .record(vec![experience("{}")], known)
        .wait()
        .unwrap();
    learning
        .refine(refinement("r", "after", "before"))
        .wait()
        .unwrap();
    let chains = scope.chains();
    let number = chains.begin(moment(0), "c", b"{}".to_vec()).wait().unwrap();
    chains.note(number, b"a note".to_vec()).wait().unwrap();
    let ended = chains.begin(moment(0), "c", b"{}".to_vec()).wait().unwrap();
    chains
        .end(moment(0), ended, ChainState::Done, b"outcome".to_vec())
        .wait()
        .unwrap();
}

fn bucket() -> Bucket {
    Bucket {
        name: "calls".to_owned(),
        state: b"3".to_vec(),
        full_at: at(60),
    }
}

/// Finds what a database of that version had, and nothing in the tables it did not have.
fn look(store: &Store, version: i64) {
    let has = |since: i64| version >= since;
    let scope = store.for_agent(&ada());
    let begin = |id| scope.results().begin(START, id, hash(1)).wait().unwrap();
    let records = scope.snapshots(&SessionId::new("s").unwrap());
    let pins = store.pins(&PinKind::TOOL);
    if has(2) {
        assert_eq!(begin("done"), Begun::Finished);
        let result = scope.results().result(START, "done").wait();
        assert_eq!(result, Ok(Some(b"answer".to_vec())));
        assert_eq!(begin("cut off"), Begun::Interrupted);
    }
    assert_eq!(begin("new"), Begun::New);
    let record = has(3).then(|| b"one\ntwo\n".to_vec());
    assert_eq!(records.get(NOW, "journal").wait(), Ok(record));
    let used = scope.replay_ids().use_once(NOW, "jti", at(60)).wait();
    assert_eq!(used, Ok(if has(4) { Use::Again } else { Use::First }));
    let buckets = if has(5) { vec![bucket()] } else { Vec::new() };
    assert_eq!(scope.rate_buckets().load(NOW).wait(), Ok(buckets));
    let waiting = store.approvals().list(NOW).wait().unwrap();
    assert_eq!(waiting.len(), usize::from(has(6)));
    let callers = store.approvals().callers(NOW, None, 10).wait().unwrap();
    let dids: Vec<_> = callers.into_iter().map(|caller| caller.did).collect();
    let did = has(16).then(|| "did:example:ada".to_owned());
    assert_eq!(dids, vec![did; waiting.len()]);
    let compared = match has(7) {
        true => Compared::Same,
        false => Compared::Unknown,
    };
    assert_eq!(pins.compare(NOW, "tool", hash(1)).wait(), Ok(compared));
    let pin = pins.get("tool").wait().unwrap().unwrap();
    assert_eq!(pin.since, NOW);
    let secrets = wait(store.vault(cipher(1))).unwrap().for_agent(&ada());
    let secret = wait(secrets.get("token")).unwrap();
    assert_eq!(secret.is_some(), has(8));
    let wanted = Wanted {
        tiers: vec![Tier::Episodic],
        query: "dog".to_owned(),
        limit: 1,
        ..Wanted::default()
    };
    let found = scope.memories(&session("s"), "default").find(NOW, &wanted);
    assert_eq!(found.wait().unwrap().total, usize::from(has(9)));
    let planned = scope.plans().task("p", "1").wait().unwrap();
    assert_eq!(
        planned.map(|(_, changes)| changes.len()),
        has(10).then_some(1)
    );
    let snapshot = scope.learning().snapshot("r").wait().unwrap();
    assert_eq!(snapshot, has(11).then(|| b"before".to_vec()));
    let open = store.open_chains().wait().unwrap();
    assert_eq!(open.len(), usize::from(has(12)));
    for (agent, number) in open {
        let chains = store.for_agent(&agent).chains();
        assert_eq!(journal(&*chains, number), [b"a note"]);
        assert_eq!(chains.list(NOW, 9).wait().unwrap().len(), 2);
        let chain = chains.find(NOW, number).wait().unwrap().unwrap();
        assert_eq!(chain.request, b"{}");
    }
}

#[test]
fn every_version_is_brought_up_to_date() {
    for version in 1..=NEWEST {
        let folder = folder();
        let path = folder.path().join("store.db");
        let sql = fs::read_to_string(sample(version)).unwrap();
        Connection::open(&path)
            .unwrap()
            .execute_batch(&sql)
            .unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        let before = store::check(&path).unwrap();
        assert_eq!((before.version, before.newest), (version, NEWEST));
        assert_eq!(before.problems, Vec::<String>::new(), "version {version}");
        look(&open(&path).unwrap(), version);
        let after = store::check(&path).unwrap();
        assert_eq!((after.version, after.problems), (NEWEST, Vec::new()));
        // And all of them end as the same.
        assert_eq!(schema(&path), schema_of_new(), "version {version}");
    }
}

/// A step that was published never changes: databases made by it would differ from new ones.
#[test]
fn the_newest_version_is_as_its_sample() {
    let folder = folder();
    let path = folder.path().join("store.db");
    fill(&open(&path).unwrap());
    let text = dump(&path);
    if std::env::var_os("UPDATE_VECTORS").is_some() {
        fs::write(sample(NEWEST), &text).unwrap();
    }
    assert_eq!(text, fs::read_to_string(sample(NEWEST)).unwrap());
}

fn schema_of_new() -> Vec<String> {
    let folder = folder();
    let path = folder.path().join("store.db");
    open(&path).unwrap();
    schema(&path)
}

fn rows(connection: &Connection, sql: &str) -> Vec<String> {
    let mut statement = connection.prepare(sql).unwrap();
    let rows = statement.query_map([], |row| row.get(0)).unwrap();
    rows.map(Result::unwrap).collect()
}

/// All tables, indexes and triggers.
fn schema(path: &Path) -> Vec<String> {
    let connection = Connection::open(path).unwrap();
    let all = "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name";
    rows(&connection, all)
}

/// A database as the SQL that makes it.
fn dump(path: &Path) -> String {
    let connection = Connection::open(path).unwrap();
    let number = |name: &str| -> i64 {
        let value = connection.pragma_query_value(None, name, |row| row.get(0));
        value.unwrap()
    };
    let mut text = String::new();
    for name in ["application_id", "user_version"] {
        writeln!(text, "PRAGMA {name} = {};", number(name)).unwrap();
    }
    // Rows come before the triggers that would count them a second time.
    let tables = "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY rowid";
    for table in rows(&connection, tables) {
        let create = format!("SELECT sql FROM sqlite_schema WHERE name = '{table}'");
        // Those of an index are made with it, and filled from what it is an index of.
        if table.starts_with("memory_index_") {
            continue;
        }
        writeln!(text, "{};", rows(&connection, &create).concat()).unwrap();
        if table == "memory_index" {
            let settings = "SELECT 'INSERT INTO memory_index (memory_index, rank) VALUES ('
                || quote(k) || ', ' || v || ');' FROM memory_index_config WHERE k <> 'version'";
            for setting in rows(&connection, settings) {
                writeln!(text, "{setting}").unwrap();
            }
            let fill = "INSERT INTO memory_index (memory_index) VALUES ('rebuild');";
            writeln!(text, "{fill}").unwrap();
            continue;
        }
        let columns = format!("SELECT name FROM pragma_table_info('{table}')");
        let columns = rows(&connection, &columns);
        let quoted: Vec<String> = columns
            .iter()
            .map(|name| format!("quote({name})"))
            .collect();
        let values = quoted.join(" || ', ' || ");
        let insert = format!(
            "SELECT 'INSERT INTO {table} ({}) VALUES (' || {values} || ');' FROM {table}",
            columns.join(", ")
        );
        for row in rows(&connection, &insert) {
            writeln!(text, "{row}").unwrap();
        }
    }
    let others = "SELECT sql FROM sqlite_schema
         WHERE type <> 'table' AND sql IS NOT NULL ORDER BY rowid";
    for other in rows(&connection, others) {
        writeln!(text, "{other};").unwrap();
    }
    text
}

#[test]
fn a_newer_database_is_left_alone() {
    let folder = folder();
    let path = folder.path().join("store.db");
    open(&path).unwrap();
    let set = "PRAGMA user_version = 99";
    Connection::open(&path).unwrap().execute_batch(set).unwrap();
    let before = fs::read(&path).unwrap();
    let error = open(&path).unwrap_err();
    let expected = Error::Newer {
        path: path.clone(),
        found: 99,
        known: NEWEST,
    };
    assert_eq!(error, expected);
    let text = error.to_string();
    assert!(
        text.contains("version 99, written by a newer frith"),
        "{text}"
    );
    assert!(text.contains("update frith, or restore a backup"), "{text}");
    assert_eq!(fs::read(&path).unwrap(), before);
    assert_eq!(store::check(&path).unwrap_err(), expected);
}

#[test]
fn what_is_no_database_of_ours_is_left_alone() {
    let folder = folder();
    let path = |name: &str| folder.path().join(name);
    let foreign = "CREATE TABLE t (x); INSERT INTO t VALUES (1)";
    Connection::open(path("foreign"))
        .unwrap()
        .execute_batch(foreign)
        .unwrap();
    fs::write(path("text"), "not a database\n".repeat(100)).unwrap();
    fs::create_dir(path("folder")).unwrap();
    for name in ["foreign", "text"] {
        fs::set_permissions(path(name), Permissions::from_mode(0o600)).unwrap();
    }
    let before = fs::read(path("foreign")).unwrap();
    let not_ours = |name| Error::NotOurs { path: path(name) };
    assert_eq!(open(&path("foreign")).unwrap_err(), not_ours("foreign"));
    assert_eq!(fs::read(path("foreign")).unwrap(), before);
    assert_eq!(open(&path("folder")).unwrap_err(), not_ours("folder"));
    let error = open(&path("text")).unwrap_err();
    assert!(matches!(error, Error::Damaged { .. }), "{error}");
    let error = open(&path("no folder/store.db")).unwrap_err();
    assert!(matches!(error, Error::Io { .. }), "{error}");
}

#[test]
fn a_database_is_for_its_owner_alone() {
    let folder = folder();
    let path = folder.path().join("store.db");
    let store = open(&path).unwrap();
    fill(&store);
    for file in fs::read_dir(folder.path()).unwrap() {
        let file = file.unwrap();
        let mode = file.metadata().unwrap().permissions().mode() & 0o7777;
        assert_eq!(mode, 0o600, "{}", file.path().display());
    }
    drop(store);
    fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
    let text = open(&path).unwrap_err().to_string();
    assert!(text.contains("(mode 640); run `chmod 600 "), "{text}");
}

/// One that was killed when it had only said that it uses a log.
#[test]
fn a_database_without_tables_is_new() {
    let folder = folder();
    let path = folder.path().join("store.db");
    fs::write(&path, "").unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    let connection = Connection::open(&path).unwrap();
    connection
        .pragma_update(None, "journal_mode", "wal")
        .unwrap();
    drop(connection);
    assert!(fs::metadata(&path).unwrap().len() > 0);
    fill(&open(&path).unwrap());
}

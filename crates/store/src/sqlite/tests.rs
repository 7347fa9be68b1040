//! The writer, its queue and the sync in the background, from inside.

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::task::{Context, Waker};
use std::thread::ThreadId;

use super::writer::{MAX_HERE, MAX_WAITING, MAX_WAITING_BYTES};
use super::*;
use crate::{AgentId, SessionId, Store, UnixMillis};

fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .unwrap()
}

fn open(folder: &tempfile::TempDir) -> Sqlite {
    Sqlite::open(&Options::new(folder.path().join("store.db"))).unwrap()
}

/// A note in the table `node`, which nothing else counts.
fn note(connection: &Connection, name: &str) -> Result<(), Error> {
    connection.execute("INSERT INTO node VALUES (?1, 1)", [name])?;
    Ok(())
}

fn notes(sqlite: &Sqlite) -> Vec<String> {
    let read = sqlite.0.read(|connection| {
        let mut names =
            connection.prepare("SELECT name FROM node WHERE name <> 'run' ORDER BY name")?;
        let names = names.query_map([], |row| row.get(0))?;
        Ok(names.collect::<Result<_, _>>()?)
    });
    read.wait().unwrap()
}

/// Stops the writer in the middle of a transaction, until something is sent or dropped.
fn stop(sqlite: &Sqlite) -> (Pending<()>, Sender<()>) {
    let (entered, is_in): (_, Receiver<()>) = channel();
    let (release, wait): (_, Receiver<()>) = channel();
    let stopped = sqlite.0.write(0, move |connection| {
        note(connection, "stop")?;
        let _ = entered.send(());
        let _ = wait.recv();
        Ok(())
    });
    is_in.recv().unwrap();
    (stopped, release)
}

#[test]
fn what_waits_becomes_one_transaction() {
    let folder = folder();
    let sqlite = open(&folder);
    let (stopped, release) = stop(&sqlite);
    let waiting: Vec<_> = (0..100)
        .map(|number| {
            let change = move |connection: &Connection| note(connection, &format!("{number:03}"));
            sqlite.0.write(0, change)
        })
        .collect();
    drop(release);
    stopped.wait().unwrap();
    for pending in waiting {
        pending.wait().unwrap();
    }
    let Figures { writes, groups, .. } = sqlite.figures();
    assert_eq!((writes, groups), (101, 2));
    assert_eq!(notes(&sqlite).len(), 101);
}

/// The thread that a small change is made by.
fn thread_of_a_change(sqlite: &Sqlite, name: &'static str, size: usize) -> ThreadId {
    let written = sqlite.0.write_here(size, move |connection| {
        note(connection, name)?;
        Ok(std::thread::current().id())
    });
    written.wait().unwrap()
}

/// Waits until the writer has nothing to do.
fn rest(sqlite: &Sqlite) {
    while !sqlite.0.writer.is_idle() {
        std::thread::yield_now();
    }
}

#[test]
fn a_small_change_is_made_by_its_caller() {
    let folder = folder();
    let sqlite = open(&folder);
    let here = std::thread::current().id();
    rest(&sqlite);
    assert_eq!(thread_of_a_change(&sqlite, "small", MAX_HERE), here);
    assert_ne!(thread_of_a_change(&sqlite, "large", MAX_HERE + 1), here);
    rest(&sqlite);
    // One that is refused or fails is told so, and the next one finds nothing of it.
    let refused = sqlite
        .0
        .write_here::<()>(0, |_| Err(Error::NotFound { what: "note" }));
    assert_eq!(refused.wait(), Err(Error::NotFound { what: "note" }));
    let bad = sqlite.0.write_here(0, |connection| {
        note(connection, "half")?;
        note(connection, "half")
    });
    assert!(matches!(bad.wait(), Err(Error::Sql(_))));
    assert_eq!(thread_of_a_change(&sqlite, "last", 0), here);
    assert_eq!(notes(&sqlite), ["large", "last", "small"]);
}

#[test]
fn a_small_change_waits_for_what_came_before() {
    let folder = folder();
    let sqlite = open(&folder);
    let (_stopped, release) = stop(&sqlite);
    let first = sqlite.0.write(0, |connection| note(connection, "first"));
    let second = sqlite.0.write_here(0, |connection| {
        let count = connection.query_row("SELECT count(*) FROM node", [], |row| row.get(0))?;
        Ok::<i64, Error>(count)
    });
    drop(release);
    first.wait().unwrap();
    // The run, what stopped the writer, and the first.
    assert_eq!(second.wait(), Ok(3));
}

#[test]
fn nobody_waits_for_the_disk_on_his_own_thread() {
    let folder = folder();
    let options = Options {
        sync: SyncMode::Commit,
        ..Options::new(folder.path().join("store.db"))
    };
    let sqlite = Sqlite::open(&options).unwrap();
    rest(&sqlite);
    let here = std::thread::current().id();
    assert_ne!(thread_of_a_change(&sqlite, "synced", 0), here);
}

#[test]
fn the_log_does_not_grow_by_small_changes() {
    let folder = folder();
    let sqlite = open(&folder);
    for number in 0..2000 {
        let name = format!("{}{}", number % 10, "n".repeat(MAX_HERE / 2));
        let written = sqlite.0.write_here(name.len(), move |connection| {
            let sql = "INSERT OR REPLACE INTO node VALUES (?1, ?2)";
            connection.execute(sql, (&name, number))?;
            Ok(())
        });
        written.wait().unwrap();
    }
    let log = std::fs::metadata(files::log_path(sqlite.path())).unwrap();
    let page = 4096 + 24;
    assert!(
        log.len() < 2 * u64::from(CHECKPOINT_PAGES) * page,
        "{}",
        log.len()
    );
}

/// One that fails leaves nothing behind and takes nobody with it.
#[test]
fn a_change_that_fails_fails_alone() {
    let folder = folder();
    let sqlite = open(&folder);
    let (_stopped, release) = stop(&sqlite);
    let good = |name: &'static str| sqlite.0.write(0, move |connection| note(connection, name));
    let first = good("first");
    let bad = sqlite.0.write(0, |connection| {
        note(connection, "half")?;
        note(connection, "half")
    });
    let last = good("last");
    drop(release);
    assert_eq!((first.wait(), last.wait()), (Ok(()), Ok(())));
    assert!(matches!(bad.wait(), Err(Error::Sql(_))));
    assert_eq!(notes(&sqlite), ["first", "last", "stop"]);
}

#[test]
fn readers_wait_for_nobody() {
    let folder = folder();
    let sqlite = open(&folder);
    let (stopped, release) = stop(&sqlite);
    // The writer is in the middle of its transaction and will not go on.
    assert_eq!(notes(&sqlite), Vec::<String>::new());
    drop(release);
    stopped.wait().unwrap();
    assert_eq!(notes(&sqlite), ["stop"]);
}

/// More threads than connections: they take turns.
#[test]
fn readers_take_turns() {
    let folder = folder();
    let sqlite = open(&folder);
    let threads: Vec<_> = (0..readers::MAX_READERS * 3)
        .map(|_| {
            let sqlite = sqlite.clone();
            std::thread::spawn(move || (0..50).map(|_| notes(&sqlite).len()).sum::<usize>())
        })
        .collect();
    for thread in threads {
        assert_eq!(thread.join().unwrap(), 0);
    }
    // A reader that panics gives its connection back.
    for _ in 0..=readers::MAX_READERS {
        let sqlite = sqlite.clone();
        let panicking = std::thread::spawn(move || {
            let read = sqlite.0.read::<()>(|_| panic!("a reader panics"));
            read.wait()
        });
        assert!(panicking.join().is_err());
    }
    assert_eq!(notes(&sqlite).len(), 0);
}

#[test]
fn so_many_may_wait_and_no_more() {
    let folder = folder();
    let sqlite = open(&folder);
    let (_stopped, release) = stop(&sqlite);
    let nothing = || sqlite.0.write(0, |_| Ok(()));
    let mut waiting: Vec<_> = (0..MAX_WAITING).map(|_| nothing()).collect();
    assert_eq!(nothing().wait(), Err(Error::Busy));
    drop(release);
    assert!(waiting.drain(..).all(|pending| pending.wait().is_ok()));
    nothing().wait().unwrap();
}

#[test]
fn so_many_bytes_may_wait_and_no_more() {
    let folder = folder();
    let sqlite = open(&folder);
    let (_stopped, release) = stop(&sqlite);
    let write = |size| sqlite.0.write(size, |_| Ok(()));
    let first = write(MAX_WAITING_BYTES - 1000);
    assert_eq!(write(1000).wait(), Err(Error::Busy));
    let second = write(100);
    drop(release);
    assert_eq!((first.wait(), second.wait()), (Ok(()), Ok(())));
    // One that is larger than all that may wait is taken alone.
    write(MAX_WAITING_BYTES * 2).wait().unwrap();
}

#[test]
fn what_was_taken_is_written_before_it_closes() {
    let folder = folder();
    let sqlite = open(&folder);
    let (stopped, release) = stop(&sqlite);
    let last = sqlite.0.write(0, |connection| note(connection, "last"));
    let closing = std::thread::spawn(move || drop(sqlite));
    drop(release);
    closing.join().unwrap();
    assert_eq!((stopped.wait(), last.wait()), (Ok(()), Ok(())));
    assert_eq!(notes(&open(&folder)), ["last", "stop"]);
}

/// A task that the writer wakes may hold the last handle.
#[test]
fn the_last_handle_may_be_dropped_by_the_writer() {
    struct Last(Mutex<Option<Sqlite>>, Sender<()>);
    impl std::task::Wake for Last {
        fn wake(self: Arc<Self>) {
            drop(self.0.lock().unwrap().take());
            let _ = self.1.send(());
        }
    }
    let folder = folder();
    let sqlite = open(&folder);
    let (mut stopped, release) = stop(&sqlite);
    let (dropped, is_dropped) = channel();
    let waker = Waker::from(Arc::new(Last(Some(sqlite).into(), dropped)));
    let poll = std::pin::Pin::new(&mut stopped).poll(&mut Context::from_waker(&waker));
    assert!(poll.is_pending());
    drop(release);
    is_dropped.recv().unwrap();
    assert_eq!(stopped.wait(), Ok(()));
}

#[test]
fn a_writer_that_dies_says_so() {
    let folder = folder();
    let sqlite = open(&folder);
    let (_stopped, release) = stop(&sqlite);
    let dies = sqlite.0.write::<()>(0, |_| panic!("a change panics"));
    let waits = sqlite.0.write(0, |connection| note(connection, "lost"));
    drop(release);
    assert_eq!(dies.wait(), Err(Error::Closed));
    assert_eq!(waits.wait(), Err(Error::Closed));
    let late = sqlite.0.write(0, |connection| note(connection, "late"));
    assert_eq!(late.wait(), Err(Error::Closed));
    assert_eq!(notes(&sqlite), ["stop"]);
}

/// After a sync that failed nobody can say what is on the disk, so nothing is taken any more.
#[test]
fn a_failed_sync_ends_it() {
    let folder = folder();
    let path = folder.path().join("store.db");
    drop(open(&folder));
    let connection = connect(&path, OpenFlags::SQLITE_OPEN_READ_WRITE).unwrap();
    // So that there is a log to watch.
    note(&connection, "before").unwrap();
    let files = files::Files::watch(&path).unwrap();
    let failing = || Err(io::Error::other("the disk is on fire"));
    let syncer = sync::Syncer::with(Some(Duration::from_secs(3600)), failing).unwrap();
    let writer = writer::Writer::start(connection, files, syncer.shared()).unwrap();
    let acknowledged = writer.write(0, |connection| note(connection, "after"));
    assert_eq!(acknowledged.wait(), Ok(()));
    let error = syncer.flush().wait().unwrap_err();
    assert!(error.to_string().contains("the disk is on fire"), "{error}");
    let late = writer.write(0, |connection| note(connection, "late"));
    assert_eq!(late.wait(), Err(error.clone()));
    assert_eq!(syncer.flush().wait(), Err(error));
}

/// A write is synced after its time without anybody asking; this waits as long as it takes.
#[test]
fn what_was_written_is_synced_in_the_background() {
    let (synced, is_synced) = channel();
    let sync = move || {
        let _ = synced.send(());
        Ok(())
    };
    let syncer = sync::Syncer::with(Some(Duration::from_millis(1)), sync).unwrap();
    syncer.shared().mark();
    is_synced.recv().unwrap();
    // Nothing was written since: nothing is synced unless somebody asks.
    assert!(is_synced.try_recv().is_err());
    syncer.flush().wait().unwrap();
    is_synced.recv().unwrap();
    // What is left is synced at the end.
    syncer.shared().mark();
    drop(syncer);
    is_synced.recv().unwrap();
}

#[test]
fn with_sync_commit_sqlite_syncs_each_group() {
    let synchronous = |sync| {
        let folder = folder();
        let sqlite = Sqlite::open(&Options {
            sync,
            ..Options::new(folder.path().join("store.db"))
        })
        .unwrap();
        let read = |connection: &Connection| {
            let value = connection.pragma_query_value(None, "synchronous", |row| row.get(0));
            Ok(value?)
        };
        sqlite.0.write::<i64>(0, read).wait().unwrap()
    };
    // FULL and NORMAL.
    assert_eq!(synchronous(SyncMode::Commit), 2);
    assert_eq!(synchronous(SyncMode::Every(Duration::from_secs(9))), 1);
}

#[test]
fn sync_modes_are_words() {
    for text in ["commit", "1ms", "100ms", "10000ms"] {
        assert_eq!(text.parse::<SyncMode>().unwrap().to_string(), text);
    }
    assert_eq!(SyncMode::default().to_string(), "100ms");
    for text in [
        "", "100", "0ms", "10001ms", "+5ms", "ms", "1s", "never", "COMMIT",
    ] {
        assert_eq!(text.parse::<SyncMode>(), Err(NotASyncMode), "{text}");
    }
}

#[test]
fn a_sweep_takes_a_part_at_a_time() {
    let folder = folder();
    let store = Store::new(open(&folder));
    let scope = store.for_agent(&AgentId::new("ada").unwrap());
    let records = scope.snapshots(&SessionId::new("s").unwrap());
    let put: Vec<_> = (0..meter::SWEEP + 1)
        .map(|number| {
            records.put(
                UnixMillis(0),
                &number.to_string(),
                Vec::new(),
                UnixMillis(1),
            )
        })
        .collect();
    assert!(put.into_iter().all(|put| put.wait() == Ok(())));
    let swept = |removed, has_more| {
        Ok(Swept {
            removed,
            has_more,
            is_erased: true,
        })
    };
    let now = Moment {
        unix: UnixMillis(1),
        uptime: Uptime(1),
    };
    assert_eq!(store.sweep(now).wait(), swept(meter::SWEEP, true));
    assert_eq!(store.sweep(now).wait(), swept(1, false));
}

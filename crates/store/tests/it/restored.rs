//! What a node finds that starts on a backup.

use std::path::{Path, PathBuf};
use std::time::Duration;

use store::{
    AgentId, Begun, Call, ChainState, Error, Existing, Options, Restored, Sqlite, Store, Verdict,
};
use tempfile::TempDir;

use crate::contract::journal;
use crate::subject::{NOW, START, ada, at, bob, folder, hash, moment, up};

/// A backup of a store in which something of everything is open, and the store itself.
struct Copied {
    _folder: TempDir,
    backup: PathBuf,
    original: Store,
    chains: [i64; 2],
}

fn open(path: &Path) -> Sqlite {
    Sqlite::open(&Options::new(path)).unwrap()
}

fn hold(store: &Store, agent: &AgentId, id: &str, number: u8, verdict: Option<Verdict>) {
    let call = Call {
        id: id.to_owned(),
        hash: hash(number),
        shown: Vec::new(),
        expires: at(60),
        did: None,
    };
    let calls = store.for_agent(agent).held_calls();
    calls.hold(NOW, call).wait().unwrap();
    if let Some(verdict) = verdict {
        let decided = store.approvals().decide(NOW, id, verdict, "", at(60));
        decided.wait().unwrap();
    }
}

fn copied() -> Copied {
    let folder = folder();
    let path = folder.path().join("store.db");
    let store = Store::new(open(&path));
    let results = store.for_agent(&ada()).results();
    for id in ["done", "running"] {
        assert_eq!(results.begin(START, id, hash(1)).wait(), Ok(Begun::New));
    }
    let result = Some(b"answer".to_vec());
    results.finish(START, "done", result).wait().unwrap();
    let chains = store.for_agent(&bob()).chains();
    let begin = || {
        chains
            .begin(moment(0), "c", b"ask".to_vec())
            .wait()
            .unwrap()
    };
    let numbers = [begin(), begin()];
    chains.note(numbers[0], b"note".to_vec()).wait().unwrap();
    let ended = chains.end(moment(0), numbers[1], ChainState::Done, b"out".to_vec());
    ended.wait().unwrap();
    hold(&store, &ada(), "waits", 1, None);
    hold(&store, &ada(), "granted", 2, Some(Verdict::Granted));
    hold(&store, &bob(), "refused", 3, Some(Verdict::Refused));
    let backup = folder.path().join("backup.db");
    store::backup(&path, &backup, Existing::Keep).unwrap();
    Copied {
        _folder: folder,
        backup,
        original: store,
        chains: numbers,
    }
}

#[test]
fn what_a_backup_has_open_is_interrupted_and_withdrawn() {
    let copied = copied();
    let sqlite = open(&copied.backup);
    let expected = Restored {
        requests: 1,
        chains: 1,
        approvals: 2,
    };
    assert_eq!(sqlite.restored(), Some(expected));
    let store = Store::new(sqlite);
    let results = store.for_agent(&ada()).results();
    let begin = |id| results.begin(START, id, hash(1)).wait();
    assert_eq!(begin("running"), Ok(Begun::Interrupted));
    assert_eq!(begin("done"), Ok(Begun::Finished));
    assert_eq!(store.open_chains().wait(), Ok(Vec::new()));
    let chains = store.for_agent(&bob()).chains();
    let [interrupted, done] = copied.chains;
    // Whoever sends its request again is told what became of it.
    assert_eq!(chains.earlier(START).wait(), Ok(vec![done, interrupted]));
    let chain = chains.recall(START, interrupted).wait().unwrap().unwrap();
    assert_eq!(
        (chain.head.state, chain.outcome),
        (ChainState::Interrupted, None)
    );
    assert_eq!(journal(&*chains, interrupted), [b"note"]);
    let resumed = chains.resume(interrupted).wait();
    assert!(matches!(resumed, Err(Error::NotFound { .. })));
    for number in [1, 2] {
        let calls = store.for_agent(&ada()).held_calls();
        assert_eq!(calls.take(NOW, hash(number)).wait(), Ok(None));
    }
    let refused = store.for_agent(&bob()).held_calls().take(NOW, hash(3));
    let refused = refused.wait().unwrap().unwrap();
    assert_eq!(refused.verdict, Verdict::Refused);
    let report = store::check(&copied.backup).unwrap();
    assert_eq!(report.problems, Vec::<String>::new());
}

/// A request that is unknown to the copy may have been done after it was made.
#[test]
fn a_restored_store_takes_no_new_requests_until_none_is_sent_again() {
    let copied = copied();
    let later = copied.original.for_agent(&ada()).results();
    assert_eq!(later.begin(START, "later", hash(1)).wait(), Ok(Begun::New));
    later.finish(START, "later", None).wait().unwrap();
    let begin = |store: &Store, uptime| {
        let results = store.for_agent(&ada()).results();
        results.begin(uptime, "later", hash(1)).wait()
    };
    let wait = |seconds| {
        Err(Error::Restored {
            wait: Duration::from_secs(seconds),
        })
    };
    let store = Store::new(open(&copied.backup));
    assert_eq!(begin(&store, START), wait(600));
    let chain = |seconds| {
        let chains = store.for_agent(&bob()).chains();
        let begun = chains.begin(moment(seconds), "c", b"ask".to_vec());
        begun.wait().map(drop)
    };
    assert_eq!(
        (chain(0), chain(599), chain(600)),
        (wait(600).map(drop), wait(1).map(drop), Ok(()))
    );
    assert_eq!(begin(&store, up(200)), wait(400));
    store.sweep(moment(200)).wait().unwrap();
    drop(store);
    // Also after another start, which interrupts nothing more.
    let sqlite = open(&copied.backup);
    assert_eq!(sqlite.restored(), None);
    let store = Store::new(sqlite);
    assert_eq!(begin(&store, START), wait(400));
    assert_eq!(begin(&store, up(399)), wait(1));
    assert_eq!(begin(&store, up(400)), Ok(Begun::New));
    store.sweep(moment(400)).wait().unwrap();
    drop(store);
    let store = Store::new(open(&copied.backup));
    let results = store.for_agent(&ada()).results();
    assert_eq!(results.begin(START, "new", hash(1)).wait(), Ok(Begun::New));
}

#[test]
fn the_original_of_a_backup_goes_on() {
    let copied = copied();
    let results = copied.original.for_agent(&ada()).results();
    let begin = |id| results.begin(START, id, hash(1)).wait();
    assert_eq!(begin("running"), Ok(Begun::Running));
    assert_eq!(begin("new"), Ok(Begun::New));
    let open = copied.original.open_chains().wait().unwrap();
    assert_eq!(open, [(bob(), copied.chains[0])]);
}

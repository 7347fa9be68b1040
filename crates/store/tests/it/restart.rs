//! What a restart finds.

use std::path::Path;

use store::{
    Begun, Bucket, Call, ChainState, Compared, Error, Limits, Options, PinKind, SessionId, Sqlite,
    Store, SyncMode, Use, Verdict, wait,
};

use crate::contract::cipher;
use crate::subject::{NOW, START, ada, at, folder, hash, limit, moment, up};

fn open(path: &Path) -> Store {
    Store::new(Sqlite::open(&Options::new(path)).unwrap())
}

/// (DID, intent_id) is on record before the work begins, so a retry after a crash does not do it
/// twice; threat 109 across a restart.
#[test]
fn a_request_that_was_cut_off_is_not_done_again() {
    let folder = folder();
    let path = folder.path().join("store.db");
    let results = open(&path).for_agent(&ada()).results();
    for id in ["cut off", "done", "done and not kept"] {
        assert_eq!(results.begin(START, id, hash(1)).wait(), Ok(Begun::New));
    }
    results
        .finish(START, "done", Some(b"answer".to_vec()))
        .wait()
        .unwrap();
    results
        .finish(START, "done and not kept", None)
        .wait()
        .unwrap();
    drop(results);
    let results = open(&path).for_agent(&ada()).results();
    let begin = |id, number| results.begin(up(1), id, hash(number)).wait().unwrap();
    assert_eq!(begin("cut off", 1), Begun::Interrupted);
    assert_eq!(begin("cut off", 2), Begun::Conflict);
    assert_eq!(begin("done", 1), Begun::Finished);
    let result = |id| results.result(up(1), id).wait().unwrap();
    assert_eq!(result("done").unwrap(), b"answer");
    assert_eq!(result("cut off"), None);
    assert_eq!(begin("done and not kept", 1), Begun::Finished);
    assert_eq!(result("done and not kept"), None);
    // It is not being done here, so it cannot be finished here.
    let finished = results.finish(up(1), "cut off", None).wait();
    assert!(matches!(finished, Err(Error::NotFound { .. })));
    // It is forgotten in its time, like a result.
    assert_eq!(
        results.begin(up(599), "cut off", hash(1)).wait(),
        Ok(Begun::Interrupted)
    );
    assert_eq!(
        results.begin(up(600), "cut off", hash(1)).wait(),
        Ok(Begun::New)
    );
}

/// What was cut off makes way like what was done.
#[test]
fn what_was_cut_off_makes_way() {
    let folder = folder();
    let path = folder.path().join("store.db");
    let limits = Limits {
        results: limit(100, 1, 1000),
        ..Limits::default()
    };
    let open = || {
        Store::new(
            Sqlite::open(&Options {
                limits,
                ..Options::new(&path)
            })
            .unwrap(),
        )
    };
    let first = open().for_agent(&ada()).results();
    first.begin(START, "a", hash(1)).wait().unwrap();
    drop(first);
    let second = open().for_agent(&ada()).results();
    assert_eq!(second.begin(START, "b", hash(1)).wait(), Ok(Begun::New));
    let full = second.begin(START, "a", hash(1)).wait();
    assert!(matches!(full, Err(Error::Full { .. })));
}

/// What may be sent again goes by how long the processes ran, whatever the system's clock says.
#[test]
fn the_time_between_two_processes_does_not_count() {
    let folder = folder();
    let path = folder.path().join("store.db");
    let first = open(&path);
    let results = first.for_agent(&ada()).results();
    assert_eq!(results.begin(START, "a", hash(1)).wait(), Ok(Begun::New));
    results.finish(up(100), "a", None).wait().unwrap();
    // The last that is known of the first process is that it ran for 400 seconds.
    first.sweep(moment(400)).wait().unwrap();
    drop((first, results));
    let second = open(&path);
    let results = second.for_agent(&ada()).results();
    let begin = |uptime| results.begin(uptime, "a", hash(1)).wait();
    assert_eq!(begin(up(299)), Ok(Begun::Finished));
    assert_eq!(begin(up(300)), Ok(Begun::New));
}

/// The run number of the store says what an earlier process has begun; no clock does.
#[test]
fn the_chains_of_earlier_processes_are_known_by_their_run() {
    let folder = folder();
    let path = folder.path().join("store.db");
    let chains = |store: &Store| store.for_agent(&ada()).chains();
    let begin = |store: &Store| {
        let begun = chains(store).begin(moment(0), "c", b"{}".to_vec());
        begun.wait().unwrap()
    };
    let first = open(&path);
    let (open_one, ended, old) = (begin(&first), begin(&first), begin(&first));
    for (number, seconds) in [(old, 1), (ended, 700)] {
        let done = chains(&first).end(moment(seconds), number, ChainState::Done, Vec::new());
        done.wait().unwrap();
    }
    first.sweep(moment(701)).wait().unwrap();
    assert_eq!(chains(&first).earlier(up(701)).wait(), Ok(Vec::new()));
    drop(first);
    let second = open(&path);
    begin(&second);
    let earlier = |uptime| chains(&second).earlier(uptime).wait().unwrap();
    assert_eq!(earlier(START), [ended, open_one]);
    assert_eq!(earlier(up(598)), [ended, open_one]);
    assert_eq!(earlier(up(599)), [open_one]);
}

/// In both modes what was acknowledged is there.
#[test]
fn records_are_there_after_a_restart() {
    let folder = folder();
    let path = folder.path().join("store.db");
    let session = SessionId::new("s").unwrap();
    for sync in [SyncMode::Commit, SyncMode::default()] {
        let options = Options {
            sync,
            ..Options::new(&path)
        };
        let store = Store::new(Sqlite::open(&options).unwrap());
        let records = store.for_agent(&ada()).snapshots(&session);
        records
            .append(NOW, "n", b"line\n".to_vec(), at(60))
            .wait()
            .unwrap();
    }
    let records = open(&path).for_agent(&ada()).snapshots(&session);
    let record = records.get(NOW, "n").wait().unwrap().unwrap();
    assert_eq!(record, b"line\nline\n");
}

/// An approval is used once, also across a restart.
#[test]
fn held_calls_are_there_after_a_restart() {
    let folder = folder();
    let path = folder.path().join("store.db");
    {
        let store = open(&path);
        let calls = store.for_agent(&ada()).held_calls();
        for (id, number) in [("waits", 1), ("granted", 2)] {
            let call = Call {
                id: id.to_owned(),
                hash: hash(number),
                did: None,
                shown: Vec::new(),
                expires: at(60),
            };
            calls.hold(NOW, call).wait().unwrap();
        }
        let word = store
            .approvals()
            .decide(NOW, "granted", Verdict::Granted, "", at(60));
        word.wait().unwrap();
    }
    let store = open(&path);
    let calls = store.for_agent(&ada()).held_calls();
    let granted = calls.take(NOW, hash(2)).wait().unwrap().unwrap();
    assert_eq!(granted.verdict, Verdict::Granted);
    assert_eq!(calls.take(NOW, hash(2)).wait(), Ok(None));
    // The operator can still answer what an agent asked before the restart.
    store
        .approvals()
        .decide(NOW, "waits", Verdict::Refused, "", at(60))
        .wait()
        .unwrap();
    let refused = calls.take(NOW, hash(1)).wait().unwrap().unwrap();
    assert_eq!(refused.verdict, Verdict::Refused);
}

#[test]
fn what_was_used_and_pinned_is_there_after_a_restart() {
    let folder = folder();
    let path = folder.path().join("store.db");
    let bucket = Bucket {
        name: "calls".to_owned(),
        state: b"3 left".to_vec(),
        full_at: at(60),
    };
    {
        let store = open(&path);
        let scope = store.for_agent(&ada());
        scope
            .replay_ids()
            .use_once(NOW, "jti", at(60))
            .wait()
            .unwrap();
        scope
            .rate_buckets()
            .save(NOW, vec![bucket.clone()])
            .wait()
            .unwrap();
        store
            .pins(&PinKind::TOOL)
            .pin(NOW, "tool", hash(1))
            .wait()
            .unwrap();
        let vault = wait(store.vault(cipher(1))).unwrap();
        wait(vault.for_agent(&ada()).put("k", b"secret")).unwrap();
    }
    let store = open(&path);
    let scope = store.for_agent(&ada());
    assert_eq!(
        scope.replay_ids().use_once(NOW, "jti", at(60)).wait(),
        Ok(Use::Again)
    );
    assert_eq!(scope.rate_buckets().load(NOW).wait(), Ok(vec![bucket]));
    let compared = store
        .pins(&PinKind::TOOL)
        .compare(NOW, "tool", hash(2))
        .wait();
    assert_eq!(compared, Ok(Compared::Changed { pinned: hash(1) }));
    assert_eq!(wait(store.vault(cipher(2))).unwrap_err(), Error::WrongKey);
    let vault = wait(store.vault(cipher(1))).unwrap();
    let secret = wait(vault.for_agent(&ada()).get("k")).unwrap().unwrap();
    assert_eq!(**secret, *b"secret");
}

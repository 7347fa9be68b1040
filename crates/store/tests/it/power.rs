//! What survives a power failure: with `commit` everything that was acknowledged, else the database.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use store::{Approvals, Call, Held, HeldCalls, Options, Sqlite, Store, Use, Verdict};
use testkit::PowerRecord;

use crate::subject::{NOW, ada, at, folder, hash, moment};

const PATH: &str = "FRITH_TEST_STORE";
const SYNC: &str = "FRITH_TEST_SYNC";

/// The process that loses its power: writes what must precede an effect.
#[test]
#[ignore = "started by other tests as a process of its own"]
fn writer() {
    let sync = std::env::var(SYNC).unwrap().parse().unwrap();
    let path = std::env::var(PATH).unwrap();
    let options = Options {
        sync,
        ..Options::new(path)
    };
    let store = Store::new(Sqlite::open(&options).unwrap());
    let scope = store.for_agent(&ada());
    let used = scope.replay_ids().use_once(NOW, "nonce", at(60)).wait();
    assert_eq!(used, Ok(Use::First));
    let granted = approve(&*scope.held_calls(), &*store.approvals());
    assert_eq!(granted.verdict, Verdict::Granted);
    let number = scope
        .chains()
        .begin(moment(0), "chain", b"request".to_vec());
    let number = number.wait().unwrap();
    let noted = scope.chains().note(number, b"begun".to_vec());
    noted.wait().unwrap();
    writeln!(std::io::stdout(), "acknowledged").unwrap();
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

/// A call is held, granted and taken: from now on it may be done.
fn approve(calls: &dyn HeldCalls, approvals: &dyn Approvals) -> Held {
    let call = Call {
        id: "call".into(),
        hash: hash(1),
        shown: b"{}".to_vec(),
        expires: at(60),
        did: None,
    };
    calls.hold(NOW, call).wait().unwrap();
    let decided = approvals.decide(NOW, "call", Verdict::Granted, "", at(60));
    decided.wait().unwrap();
    calls.take(NOW, hash(1)).wait().unwrap().unwrap()
}

/// A store after the power has failed, when everything in it was acknowledged.
fn after_power_failure(sync: &str, look: impl FnOnce(Store)) {
    let (before, after) = (folder(), folder());
    let library = folder();
    let record = PowerRecord::new(library.path());
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["power::writer", "--exact", "--ignored", "--nocapture"])
        .envs(record.variables())
        .env(PATH, before.path().join("store.db"))
        .env(SYNC, sync)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let out = BufReader::new(child.stdout.take().unwrap());
    let mut lines = out.lines().map_while(Result::ok);
    let is_acknowledged = lines.any(|line| line.contains("acknowledged"));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(is_acknowledged);
    record.cut_power(before.path(), after.path());
    look(open(after.path()));
}

fn open(folder: &Path) -> Store {
    let path = folder.join("store.db");
    let store = Store::new(Sqlite::open(&Options::new(&path)).unwrap());
    assert_eq!(store::check(&path).unwrap().problems, Vec::<String>::new());
    store
}

#[test]
fn with_sync_commit_what_precedes_an_effect_survives_a_power_failure() {
    after_power_failure("commit", |store| {
        let scope = store.for_agent(&ada());
        let used = scope.replay_ids().use_once(NOW, "nonce", at(60)).wait();
        assert_eq!(used, Ok(Use::Again));
        // It was taken, so it can neither be decided nor taken once more.
        assert_eq!(scope.held_calls().take(NOW, hash(1)).wait(), Ok(None));
        let chains = scope.chains();
        let [chain] = &chains.list(NOW, 10).wait().unwrap()[..] else {
            panic!("one chain was begun");
        };
        let mut journal = Vec::new();
        let mut show = |entry: &[u8]| {
            journal.push(entry.to_vec());
            std::ops::ControlFlow::Continue(())
        };
        chains.journal(chain.number, &mut show).wait().unwrap();
        assert_eq!(journal, [b"begun"]);
    });
}

/// The longest interval there is: nothing was synced yet.
#[test]
fn with_an_interval_a_power_failure_leaves_a_whole_database() {
    after_power_failure("10000ms", |store| {
        let scope = store.for_agent(&ada());
        let used = scope.replay_ids().use_once(NOW, "nonce", at(60)).wait();
        assert_eq!(used, Ok(Use::First));
        assert_eq!(scope.chains().list(NOW, 10).wait(), Ok(Vec::new()));
    });
}

//! Any sequence of operations on SQLite gives what it gives in memory.

use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::Config;
use store::{
    AgentId, Bucket, Call, Caller, Error, Limits, Pending, PinKind, Scope, SessionId, Store,
    UnixMillis, Verdict, wait,
};

use crate::contract::cipher;
use crate::subject::{self, at, hash, limit, moment, up};

/// One operation, on small numbers of everything so that they meet.
#[derive(Debug, Clone)]
struct Step {
    /// Seconds; the clock may go back, as clocks do.
    now: i64,
    agent: usize,
    name: usize,
    hash: u8,
    size: usize,
    /// Seconds from now.
    expires: i64,
    act: Act,
}

#[derive(Debug, Clone, Copy)]
enum Act {
    Result(OnResult),
    Snapshot(OnSnapshot),
    Call(OnCall),
    Pin(OnPin),
    Secret(OnSecret),
    UseOnce,
    SaveBuckets,
    LoadBuckets,
    Sweep,
}

#[derive(Debug, Clone, Copy)]
enum OnResult {
    Begin,
    Finish,
    FinishWithout,
    Interrupt,
    Result,
    Forget,
}

#[derive(Debug, Clone, Copy)]
enum OnSnapshot {
    Append,
    Put,
    Get,
    Remove,
    Clear,
}

#[derive(Debug, Clone, Copy)]
enum OnCall {
    Hold,
    Take,
    Withdraw,
    Grant,
    Refuse,
    List,
    Show,
    Callers,
    WithdrawAll,
}

#[derive(Debug, Clone, Copy)]
enum OnPin {
    Compare,
    Pin,
    Advance,
    List,
    Remove,
}

#[derive(Debug, Clone, Copy)]
enum OnSecret {
    Put,
    Get,
    Names,
    Remove,
}

fn act() -> impl Strategy<Value = Act> {
    use OnCall::{Callers, Grant, Hold, List, Refuse, Show, Take, Withdraw, WithdrawAll};
    use OnResult::{Begin, Finish, FinishWithout, Forget, Interrupt, Result};
    use OnSnapshot::{Append, Clear, Get, Put, Remove};
    // What fills a store comes more often than what empties it.
    let results = [
        Begin,
        Begin,
        Begin,
        Finish,
        Finish,
        FinishWithout,
        Interrupt,
        Result,
        Forget,
    ];
    let snapshots = [Append, Append, Put, Get, Remove, Clear];
    let calls = [
        Hold,
        Hold,
        Hold,
        Take,
        Take,
        Withdraw,
        Grant,
        Grant,
        Refuse,
        List,
        Show,
        Callers,
        WithdrawAll,
    ];
    let pins = [
        OnPin::Compare,
        OnPin::Pin,
        OnPin::Advance,
        OnPin::List,
        OnPin::Remove,
    ];
    let secrets = [
        OnSecret::Put,
        OnSecret::Put,
        OnSecret::Get,
        OnSecret::Names,
        OnSecret::Remove,
    ];
    prop_oneof![
        7 => prop::sample::select(results.to_vec()).prop_map(Act::Result),
        6 => prop::sample::select(snapshots.to_vec()).prop_map(Act::Snapshot),
        8 => prop::sample::select(calls.to_vec()).prop_map(Act::Call),
        4 => prop::sample::select(pins.to_vec()).prop_map(Act::Pin),
        2 => prop::sample::select(secrets.to_vec()).prop_map(Act::Secret),
        2 => Just(Act::UseOnce),
        2 => Just(Act::SaveBuckets),
        1 => Just(Act::LoadBuckets),
        1 => Just(Act::Sweep),
    ]
}

const AGENTS: [&str; 2] = ["ada", "bob"];
const NAMES: [&str; 5] = ["", "a", "b", "a\0", "ä"];

/// So small that everything comes to its limits.
fn limits() -> Limits {
    Limits {
        results: limit(20, 3, 150),
        results_kept: Duration::from_secs(20),
        snapshots: limit(30, 3, 60),
        replay_ids: limit(0, 2, 4),
        rate_buckets: limit(15, 3, 30),
        approvals: limit(15, 2, 90),
        pins: limit(0, 3, 196),
        secrets: limit(40, 3, 100),
        ..Limits::default()
    }
}

fn step() -> impl Strategy<Value = Step> {
    let numbers = (0..60_i64, 0..2_usize, 0..NAMES.len(), 0..3_u8, 0..25_usize);
    (numbers, -5..40_i64, act()).prop_map(|((now, agent, name, hash, size), expires, act)| Step {
        now,
        agent,
        name,
        hash,
        size,
        expires,
        act,
    })
}

/// What came of it, as text.
fn told<T: std::fmt::Debug>(pending: Pending<T>) -> String {
    let outcome: Result<T, Error> = pending.wait();
    format!("{outcome:?}")
}

impl Step {
    fn run(&self, store: &Store) -> String {
        let agent = AgentId::new(AGENTS[self.agent]).unwrap();
        let scope = store.for_agent(&agent);
        let (now, expires, hash) = (at(self.now), at(self.now + self.expires), hash(self.hash));
        let (name, uptime) = (NAMES[self.name], up(self.now));
        let bytes = vec![b'x'; self.size];
        match self.act {
            Act::Result(OnResult::Begin) => told(scope.results().begin(uptime, name, hash)),
            Act::Result(OnResult::Finish) => {
                told(scope.results().finish(uptime, name, Some(bytes)))
            }
            Act::Result(OnResult::FinishWithout) => {
                told(scope.results().finish(uptime, name, None))
            }
            Act::Result(OnResult::Interrupt) => told(scope.results().interrupt(uptime, name)),
            Act::Result(OnResult::Result) => told(scope.results().result(uptime, name)),
            Act::Result(OnResult::Forget) => told(scope.results().forget(name)),
            Act::Snapshot(act) => self.snapshot(act, &scope, (now, expires), bytes),
            Act::Call(act) => self.call(act, store, (now, expires), bytes),
            Act::Pin(act) => self.pin(act, store, now),
            Act::Secret(act) => self.secret(act, store, &bytes),
            Act::UseOnce => told(scope.replay_ids().use_once(now, name, expires)),
            Act::SaveBuckets => {
                let buckets = (0..=self.hash).map(|number| Bucket {
                    name: NAMES[(self.name + usize::from(number)) % NAMES.len()].to_owned(),
                    state: bytes.clone(),
                    full_at: expires,
                });
                told(scope.rate_buckets().save(now, buckets.collect()))
            }
            Act::LoadBuckets => told(scope.rate_buckets().load(now)),
            Act::Sweep => told(store.sweep(moment(self.now))),
        }
    }

    fn snapshot(
        &self,
        act: OnSnapshot,
        scope: &Scope,
        (now, expires): (UnixMillis, UnixMillis),
        bytes: Vec<u8>,
    ) -> String {
        let session = SessionId::new(["s", "t", "u"][usize::from(self.hash)]).unwrap();
        let snapshots = scope.snapshots(&session);
        let name = NAMES[self.name % 2];
        match act {
            OnSnapshot::Append => told(snapshots.append(now, name, bytes, expires)),
            OnSnapshot::Put => told(snapshots.put(now, name, bytes, expires)),
            OnSnapshot::Get => told(snapshots.get(now, name)),
            OnSnapshot::Remove => told(snapshots.remove(name)),
            OnSnapshot::Clear => told(snapshots.clear()),
        }
    }

    fn pin(&self, act: OnPin, store: &Store, now: UnixMillis) -> String {
        let pins = store.pins(&[PinKind::TOOL, PinKind::MANIFEST][self.agent]);
        let (name, hash) = (NAMES[self.name], hash(self.hash));
        match act {
            OnPin::Compare => told(pins.compare(now, name, hash)),
            OnPin::Pin => told(pins.pin(now, name, hash)),
            OnPin::Advance => told(pins.advance(now, name, hash, self.expires)),
            OnPin::List => told(pins.list()) + &told(pins.get(name)),
            OnPin::Remove => told(pins.remove(name)),
        }
    }

    fn secret(&self, act: OnSecret, store: &Store, bytes: &[u8]) -> String {
        let vault = wait(store.vault(cipher(1))).unwrap();
        let secrets = vault.for_agent(&AgentId::new(AGENTS[self.agent]).unwrap());
        let name = NAMES[self.name];
        match act {
            OnSecret::Put => format!("{:?}", wait(secrets.put(name, bytes))),
            OnSecret::Get => format!("{:?}", wait(secrets.get(name))),
            OnSecret::Names => format!("{:?}", wait(secrets.names())),
            OnSecret::Remove => format!("{:?}", wait(secrets.remove(name))),
        }
    }

    fn call(
        &self,
        act: OnCall,
        store: &Store,
        (now, expires): (UnixMillis, UnixMillis),
        shown: Vec<u8>,
    ) -> String {
        let agent = AgentId::new(AGENTS[self.agent]).unwrap();
        let calls = store.for_agent(&agent).held_calls();
        let (id, hash) = (NAMES[self.name], hash(self.hash));
        let operator = store.approvals();
        let did = (self.hash > 0).then(|| format!("did:{}", self.hash));
        let caller = Caller {
            agent: AGENTS[self.agent].to_owned(),
            did: did.clone(),
        };
        let call = Call {
            id: id.to_owned(),
            hash,
            did,
            shown,
            expires,
        };
        match act {
            OnCall::Hold => told(calls.hold(now, call)),
            OnCall::Take => told(calls.take(now, hash)),
            OnCall::Withdraw => told(calls.withdraw(hash)),
            OnCall::Grant => told(operator.decide(now, id, Verdict::Granted, "", expires)),
            OnCall::Refuse => told(operator.decide(now, id, Verdict::Refused, "", expires)),
            OnCall::List => told(operator.list(now)),
            OnCall::Show => told(operator.get(now, id)),
            OnCall::Callers => told(operator.callers(now, Some(caller), 3)),
            OnCall::WithdrawAll => told(operator.withdraw(&caller)),
        }
    }
}

proptest! {
    #![proptest_config(Config { cases: 128, failure_persistence: None, ..Config::default() })]

    #[test]
    fn sqlite_is_as_memory(steps in prop::collection::vec(step(), 1..120)) {
        let memory = subject::memory(limits());
        let (sqlite, path) = subject::sqlite_at(limits());
        for (number, step) in steps.iter().enumerate() {
            prop_assert_eq!(step.run(&sqlite), step.run(&memory), "step {}: {:?}", number, step);
        }
        // What is counted for the owners is what they have, and the file is well.
        let report = store::check(&path).unwrap();
        prop_assert_eq!(report.problems, Vec::<String>::new());
    }
}

//! Held calls: an approval is bound to exactly one call and used once; silence denies.

use std::sync::Arc;
use std::thread;

use store::{
    Approval, Call, Caller, Error, Hash, Held, Limits, MAX_LISTED, MAX_NAME, MAX_REASON, Verdict,
};

use crate::subject::{Make, NOW, ada, at, bob, contract, hash, limit};

contract! {
    a_grant_is_used_once,
    of_many_at_once_one_uses_the_grant,
    a_grant_is_for_exactly_that_call_of_that_agent,
    a_refusal_stands_until_it_expires,
    silence_grants_nothing,
    a_call_is_asked_about_once,
    a_word_is_said_once,
    the_reason_of_a_refusal_stands_with_it,
    a_call_may_be_withdrawn_until_the_word,
    the_operator_sees_all_that_wait,
    a_list_ends,
    callers_are_listed_by_page_and_their_calls_withdrawn,
    limits_hold,
}

fn call(id: &str, number: u8) -> Call {
    Call {
        id: id.to_owned(),
        hash: hash(number),
        did: None,
        shown: format!("call {number}").into_bytes(),
        expires: at(60),
    }
}

fn held(id: &str, verdict: Verdict) -> Held {
    Held {
        id: id.to_owned(),
        verdict,
        reason: String::new(),
    }
}

fn missing() -> Result<Approval, Error> {
    Err(Error::NotFound { what: "held call" })
}

fn a_grant_is_used_once(make: Make) {
    let store = make(Limits::default());
    let (calls, operator) = (store.for_agent(&ada()).held_calls(), store.approvals());
    let waiting = held("a", Verdict::Waiting);
    assert_eq!(calls.hold(NOW, call("a", 1)).wait(), Ok(waiting.clone()));
    assert_eq!(calls.take(NOW, hash(1)).wait(), Ok(Some(waiting)));
    let decided = operator
        .decide(at(1), "a", Verdict::Granted, "", at(300))
        .wait();
    let expected = Approval {
        id: "a".to_owned(),
        agent: "ada".to_owned(),
        hash: hash(1),
        shown: b"call 1".to_vec(),
        created: NOW,
        expires: at(300),
        verdict: Verdict::Granted,
        reason: String::new(),
    };
    assert_eq!(decided, Ok(expected.clone()));
    assert_eq!(operator.get(at(1), "a").wait(), Ok(Some(expected)));
    let granted = held("a", Verdict::Granted);
    assert_eq!(calls.take(at(299), hash(1)).wait(), Ok(Some(granted)));
    assert_eq!(calls.take(at(299), hash(1)).wait(), Ok(None));
    assert_eq!(operator.get(at(299), "a").wait(), Ok(None));
    // The same call again is asked about again.
    let again = Call {
        expires: at(400),
        ..call("b", 1)
    };
    let waiting = held("b", Verdict::Waiting);
    assert_eq!(calls.hold(at(299), again).wait(), Ok(waiting));
}

fn of_many_at_once_one_uses_the_grant(make: Make) {
    let store = make(Limits::default());
    let calls = store.for_agent(&ada()).held_calls();
    calls.hold(NOW, call("a", 1)).wait().unwrap();
    let decided = store
        .approvals()
        .decide(NOW, "a", Verdict::Granted, "", at(60));
    decided.wait().unwrap();
    let threads: Vec<_> = (0..8)
        .map(|_| {
            let calls = Arc::clone(&calls);
            thread::spawn(move || calls.take(NOW, hash(1)).wait().unwrap())
        })
        .collect();
    let taken = threads.into_iter().filter_map(|t| t.join().unwrap());
    assert_eq!(taken.count(), 1);
}

fn a_grant_is_for_exactly_that_call_of_that_agent(make: Make) {
    let store = make(Limits::default());
    let calls = store.for_agent(&ada()).held_calls();
    calls.hold(NOW, call("a", 1)).wait().unwrap();
    let decided = store
        .approvals()
        .decide(NOW, "a", Verdict::Granted, "", at(60));
    decided.wait().unwrap();
    assert_eq!(calls.take(NOW, hash(2)).wait(), Ok(None));
    let other = store.for_agent(&bob()).held_calls();
    assert_eq!(other.take(NOW, hash(1)).wait(), Ok(None));
    assert!(calls.take(NOW, hash(1)).wait().unwrap().is_some());
}

fn a_refusal_stands_until_it_expires(make: Make) {
    let store = make(Limits::default());
    let calls = store.for_agent(&ada()).held_calls();
    calls.hold(NOW, call("a", 1)).wait().unwrap();
    let decided = store
        .approvals()
        .decide(NOW, "a", Verdict::Refused, "", at(100));
    decided.wait().unwrap();
    let refused = held("a", Verdict::Refused);
    for _ in 0..2 {
        assert_eq!(
            calls.take(at(99), hash(1)).wait(),
            Ok(Some(refused.clone()))
        );
    }
    assert_eq!(calls.hold(at(99), call("b", 1)).wait(), Ok(refused));
    assert_eq!(calls.take(at(100), hash(1)).wait(), Ok(None));
}

fn silence_grants_nothing(make: Make) {
    let store = make(Limits::default());
    let (calls, operator) = (store.for_agent(&ada()).held_calls(), store.approvals());
    calls.hold(NOW, call("a", 1)).wait().unwrap();
    let waiting = held("a", Verdict::Waiting);
    assert_eq!(calls.take(at(59), hash(1)).wait(), Ok(Some(waiting)));
    assert_eq!(calls.take(at(60), hash(1)).wait(), Ok(None));
    assert_eq!(operator.list(at(60)).wait(), Ok(Vec::new()));
    // Too late.
    let decided = operator.decide(at(60), "a", Verdict::Granted, "", at(100));
    assert_eq!(decided.wait(), missing());
    assert_eq!(calls.take(at(61), hash(1)).wait(), Ok(None));
}

/// A retry of a held call, also after a restart, is the same call.
fn a_call_is_asked_about_once(make: Make) {
    let store = make(Limits::default());
    let calls = store.for_agent(&ada()).held_calls();
    calls.hold(NOW, call("a", 1)).wait().unwrap();
    let waiting = held("a", Verdict::Waiting);
    assert_eq!(calls.hold(at(1), call("b", 1)).wait(), Ok(waiting));
    assert_eq!(store.approvals().list(at(1)).wait().unwrap().len(), 1);
    // An id is one call's, whoever asks; when that has expired it is free.
    let taken = Err(Error::Exists { what: "held call" });
    assert_eq!(calls.hold(NOW, call("a", 2)).wait(), taken);
    let other = store.for_agent(&bob()).held_calls();
    assert_eq!(other.hold(NOW, call("a", 1)).wait(), taken);
    let late = Call {
        expires: at(100),
        ..call("a", 1)
    };
    let waiting = held("a", Verdict::Waiting);
    assert_eq!(other.hold(at(60), late).wait(), Ok(waiting));
}

fn a_word_is_said_once(make: Make) {
    let store = make(Limits::default());
    let (calls, operator) = (store.for_agent(&ada()).held_calls(), store.approvals());
    let decide = |id: &str, verdict| operator.decide(NOW, id, verdict, "", at(60)).wait();
    assert_eq!(decide("a", Verdict::Granted), missing());
    calls.hold(NOW, call("a", 1)).wait().unwrap();
    assert_eq!(decide("a", Verdict::Waiting), missing());
    assert!(decide("a", Verdict::Refused).is_ok());
    assert_eq!(decide("a", Verdict::Granted), missing());
    assert_eq!(operator.list(NOW).wait(), Ok(Vec::new()));
}

fn the_reason_of_a_refusal_stands_with_it(make: Make) {
    let store = make(Limits::default());
    let (calls, operator) = (store.for_agent(&ada()).held_calls(), store.approvals());
    calls.hold(NOW, call("a", 1)).wait().unwrap();
    let refuse = |reason: &str| {
        operator
            .decide(NOW, "a", Verdict::Refused, reason, at(60))
            .wait()
    };
    let too_long = Error::TooLarge {
        what: "reason",
        size: MAX_REASON + 1,
        limit: MAX_REASON,
    };
    assert_eq!(refuse(&"x".repeat(MAX_REASON + 1)), Err(too_long));
    let reason = "x".repeat(MAX_REASON);
    assert_eq!(refuse(&reason).unwrap().reason, reason);
    assert_eq!(
        operator.get(NOW, "a").wait().unwrap().unwrap().reason,
        reason
    );
    let refused = Held {
        reason,
        ..held("a", Verdict::Refused)
    };
    assert_eq!(calls.take(NOW, hash(1)).wait(), Ok(Some(refused)));
}

fn a_call_may_be_withdrawn_until_the_word(make: Make) {
    let store = make(Limits::default());
    let (calls, operator) = (store.for_agent(&ada()).held_calls(), store.approvals());
    calls.hold(NOW, call("a", 1)).wait().unwrap();
    calls.withdraw(hash(1)).wait().unwrap();
    calls.withdraw(hash(1)).wait().unwrap();
    assert_eq!(operator.list(NOW).wait(), Ok(Vec::new()));
    calls.hold(NOW, call("b", 1)).wait().unwrap();
    operator
        .decide(NOW, "b", Verdict::Granted, "", at(60))
        .wait()
        .unwrap();
    calls.withdraw(hash(1)).wait().unwrap();
    assert!(calls.take(NOW, hash(1)).wait().unwrap().is_some());
}

fn the_operator_sees_all_that_wait(make: Make) {
    let store = make(Limits::default());
    let (own, other) = (store.for_agent(&ada()), store.for_agent(&bob()));
    other.held_calls().hold(at(2), call("a", 1)).wait().unwrap();
    own.held_calls().hold(at(1), call("c", 1)).wait().unwrap();
    own.held_calls().hold(at(1), call("b", 2)).wait().unwrap();
    let list = store.approvals().list(at(3)).wait().unwrap();
    let list: Vec<_> = list.iter().map(|a| (&*a.id, &*a.agent)).collect();
    assert_eq!(list, [("b", "ada"), ("c", "ada"), ("a", "bob")]);
}

fn a_list_ends(make: Make) {
    let store = make(Limits {
        approvals: limit(10, 2 * MAX_LISTED, 1_000_000),
        ..Limits::default()
    });
    let calls = store.for_agent(&ada()).held_calls();
    let held: Vec<_> = (0..=MAX_LISTED)
        .map(|number| {
            let mut hash = [0; 32];
            hash[..8].copy_from_slice(&number.to_be_bytes());
            let call = Call {
                id: format!("{number:04}"),
                hash: Hash(hash),
                did: None,
                shown: Vec::new(),
                expires: at(60),
            };
            calls.hold(NOW, call)
        })
        .collect();
    assert!(held.into_iter().all(|held| held.wait().is_ok()));
    let list = store.approvals().list(NOW).wait().unwrap();
    assert_eq!(list.len(), MAX_LISTED);
    assert_eq!(list.last().unwrap().id, format!("{:04}", MAX_LISTED - 1));
}

fn callers_are_listed_by_page_and_their_calls_withdrawn(make: Make) {
    let store = make(Limits::default());
    let operator = store.approvals();
    let caller = |agent: &str, did: &str| Caller {
        agent: agent.to_owned(),
        did: (!did.is_empty()).then(|| did.to_owned()),
    };
    // An agent that came in by a token and by two DIDs, and another.
    for (number, (agent, did)) in [
        (bob(), "did:b"),
        (ada(), "did:b"),
        (ada(), ""),
        (ada(), "did:a"),
        (ada(), "did:a"),
    ]
    .into_iter()
    .enumerate()
    {
        let name = number.to_string();
        let call = Call {
            did: caller("", did).did,
            ..call(&name, u8::try_from(number).unwrap())
        };
        let calls = store.for_agent(&agent).held_calls();
        calls.hold(NOW, call).wait().unwrap();
    }
    let (mut pages, mut after) = (Vec::new(), None);
    loop {
        let page = operator.callers(NOW, after.take(), 3).wait().unwrap();
        after = page.last().cloned();
        if page.is_empty() {
            break;
        }
        pages.push(page);
    }
    let expected = [
        vec![
            caller("ada", ""),
            caller("ada", "did:a"),
            caller("ada", "did:b"),
        ],
        vec![caller("bob", "did:b")],
    ];
    assert_eq!(pages, expected);
    // What was decided stands.
    operator
        .decide(NOW, "4", Verdict::Granted, "", at(60))
        .wait()
        .unwrap();
    operator.withdraw(&caller("ada", "did:a")).wait().unwrap();
    let left = operator.list(NOW).wait().unwrap();
    let left: Vec<_> = left.iter().map(|it| &*it.id).collect();
    assert_eq!(left, ["0", "1", "2"]);
    let granted = store.for_agent(&ada()).held_calls();
    assert!(granted.take(NOW, hash(4)).wait().unwrap().is_some());
    // An expired call is not pending.
    assert_eq!(operator.callers(at(60), None, 3).wait(), Ok(Vec::new()));
}

fn limits_hold(make: Make) {
    let store = make(Limits {
        approvals: limit(10, 2, 93),
        ..Limits::default()
    });
    let calls = store.for_agent(&ada()).held_calls();
    let shown = |id: &str, number, size| Call {
        shown: vec![b'x'; size],
        ..call(id, number)
    };
    let too_large = calls.hold(NOW, shown("a", 1, 11)).wait();
    assert!(matches!(
        too_large,
        Err(Error::TooLarge {
            size: 11,
            limit: 10,
            ..
        })
    ));
    let long = calls
        .hold(NOW, shown(&"x".repeat(MAX_NAME + 1), 1, 0))
        .wait();
    assert!(matches!(long, Err(Error::TooLarge { .. })));
    // Each counts its id, its hash and what is shown: 43 and 50 bytes.
    calls.hold(NOW, shown("a", 1, 10)).wait().unwrap();
    let full = Err(Error::Full { what: "held call" });
    assert_eq!(calls.hold(NOW, shown("0123456789", 2, 9)).wait(), full);
    calls.hold(NOW, shown("0123456789", 2, 8)).wait().unwrap();
    assert_eq!(calls.hold(NOW, shown("c", 3, 0)).wait(), full);
    assert_eq!(calls.hold(at(59), shown("c", 3, 0)).wait(), full);
    calls.hold(at(60), shown("c", 3, 0)).wait().unwrap();
}

//! Chains on their way, and those that have ended.

use std::ops::ControlFlow;

use store::{AgentId, ChainState, Chains, Error, Limits, MAX_NAME, Moment, UnixMillis};

use crate::subject::{Make, NOW, START, ada, at, bob, contract, limit, moment, up};

contract! {
    a_chain_has_its_journal_until_it_ends,
    open_chains_are_found_again,
    only_open_chains_change,
    what_has_ended_makes_room,
    what_is_open_is_never_dropped,
    what_has_ended_expires,
    a_chain_is_recalled_while_its_request_may_be_sent_again,
    chains_of_others_are_out_of_reach,
    limits_hold,
}

const NOT_FOUND: Error = Error::NotFound { what: "chain" };
const FULL: Error = Error::Full { what: "chain" };

fn begin(chains: &dyn Chains, name: &str) -> i64 {
    chains
        .begin(moment(0), name, b"ask".to_vec())
        .wait()
        .unwrap()
}

fn end(chains: &dyn Chains, number: i64) {
    chains
        .end(moment(1), number, ChainState::Done, b"out".to_vec())
        .wait()
        .unwrap();
}

/// The journal of a chain.
pub(crate) fn journal(chains: &dyn Chains, number: i64) -> Vec<Vec<u8>> {
    let mut entries = Vec::new();
    let mut show = |entry: &[u8]| {
        entries.push(entry.to_owned());
        ControlFlow::Continue(())
    };
    chains.journal(number, &mut show).wait().unwrap();
    entries
}

fn numbers(chains: &dyn Chains, now: UnixMillis) -> Vec<i64> {
    let heads = chains.list(now, 100).wait().unwrap();
    heads.into_iter().map(|head| head.number).collect()
}

fn a_chain_has_its_journal_until_it_ends(make: Make) {
    let store = make(Limits::default());
    let chains = store.for_agent(&ada()).chains();
    let number = begin(&*chains, "c");
    for note in ["one", "two", "three"] {
        chains.note(number, note.into()).wait().unwrap();
    }
    assert_eq!(journal(&*chains, number), [&b"one"[..], b"two", b"three"]);
    let chain = chains.find(NOW, number).wait().unwrap().unwrap();
    assert_eq!((&*chain.request, chain.outcome), (&b"ask"[..], None));
    let head = &chain.head;
    assert_eq!(
        (head.state, head.begun, head.ended),
        (ChainState::Open, NOW, None)
    );
    chains
        .end(moment(5), number, ChainState::Failed, b"because".to_vec())
        .wait()
        .unwrap();
    assert!(journal(&*chains, number).is_empty());
    let chain = chains.find(at(5), number).wait().unwrap().unwrap();
    assert_eq!(chain.outcome.as_deref(), Some(&b"because"[..]));
    let head = chain.head;
    assert_eq!((head.state, head.ended), (ChainState::Failed, Some(at(5))));
    assert_eq!(chains.list(at(5), 9).wait(), Ok(vec![head]));
}

fn open_chains_are_found_again(make: Make) {
    let store = make(Limits::default());
    let of = |agent: &AgentId| store.for_agent(agent).chains();
    let first = begin(&*of(&ada()), "a");
    let second = begin(&*of(&bob()), "a");
    let third = begin(&*of(&ada()), "b");
    let ended = begin(&*of(&ada()), "c");
    end(&*of(&ada()), ended);
    let open = vec![(ada(), first), (bob(), second), (ada(), third)];
    assert_eq!(store.open_chains().wait(), Ok(open));
    // It is counted how often that was.
    assert_eq!(of(&ada()).resume(first).wait(), Ok(1));
    assert_eq!(of(&ada()).resume(first).wait(), Ok(2));
    let head = of(&ada()).find(NOW, first).wait().unwrap().unwrap().head;
    assert_eq!(head.resumed, 2);
}

fn only_open_chains_change(make: Make) {
    let store = make(Limits::default());
    let chains = store.for_agent(&ada()).chains();
    let ended = begin(&*chains, "c");
    end(&*chains, ended);
    for number in [ended, ended + 1] {
        assert_eq!(chains.resume(number).wait(), Err(NOT_FOUND));
        assert_eq!(chains.note(number, Vec::new()).wait(), Err(NOT_FOUND));
        let again = chains.end(moment(0), number, ChainState::Cancelled, Vec::new());
        assert_eq!(again.wait(), Err(NOT_FOUND));
    }
    let chain = chains.find(at(1), ended).wait().unwrap().unwrap();
    assert_eq!(chain.head.state, ChainState::Done);
}

fn what_has_ended_makes_room(make: Make) {
    let store = make(Limits {
        chains: limit(100, 3, 1000),
        ..Limits::default()
    });
    let chains = store.for_agent(&ada()).chains();
    let open = begin(&*chains, "a");
    let ended = [begin(&*chains, "b"), begin(&*chains, "c")];
    for number in ended {
        end(&*chains, number);
    }
    let new = begin(&*chains, "d");
    assert_eq!(numbers(&*chains, at(1)), [new, ended[1], open]);
    // Also for an entry of a journal, by its bytes.
    for _ in 0..9 {
        chains.note(open, vec![0; 100]).wait().unwrap();
    }
    assert_eq!(numbers(&*chains, at(1)), [new, ended[1], open]);
    chains.note(open, vec![0; 90]).wait().unwrap();
    assert_eq!(numbers(&*chains, at(1)), [new, open]);
    assert_eq!(journal(&*chains, open).len(), 10);
}

fn what_is_open_is_never_dropped(make: Make) {
    let store = make(Limits {
        chains: limit(100, 2, 210),
        ..Limits::default()
    });
    let chains = store.for_agent(&ada()).chains();
    let open = [begin(&*chains, "a"), begin(&*chains, "b")];
    let third = chains.begin(moment(0), "c", Vec::new()).wait();
    assert_eq!(third, Err(FULL));
    // Both have 8 bytes so far.
    chains.note(open[0], vec![0; 100]).wait().unwrap();
    chains.note(open[1], vec![0; 100]).wait().unwrap();
    assert_eq!(chains.note(open[1], vec![0; 3]).wait(), Err(FULL));
    chains.note(open[1], vec![0; 2]).wait().unwrap();
    assert_eq!(journal(&*chains, open[1]).len(), 2);
    // What takes the place of a journal has its room.
    chains
        .end(moment(0), open[1], ChainState::Done, vec![0; 100])
        .wait()
        .unwrap();
    assert_eq!(numbers(&*chains, NOW), [open[1], open[0]]);
}

fn what_has_ended_expires(make: Make) {
    let limits = Limits::default();
    let store = make(limits);
    let chains = store.for_agent(&ada()).chains();
    let (open, ended) = (begin(&*chains, "a"), begin(&*chains, "b"));
    chains.note(open, b"note".to_vec()).wait().unwrap();
    end(&*chains, ended);
    let over = at(1).plus(limits.chains_kept);
    assert_eq!(numbers(&*chains, UnixMillis(over.0 - 1)), [ended, open]);
    assert_eq!(numbers(&*chains, over), [open]);
    assert_eq!(chains.find(over, ended).wait(), Ok(None));
    let over = Moment {
        unix: over,
        uptime: up(601),
    };
    assert_eq!(store.sweep(over).wait().unwrap().removed, 1);
    assert_eq!(numbers(&*chains, NOW), [open]);
    assert_eq!(journal(&*chains, open), vec![b"note".to_vec()]);
}

/// A clock that is set a year ahead forgets nothing that a request sent again would find.
fn a_chain_is_recalled_while_its_request_may_be_sent_again(make: Make) {
    let store = make(Limits::default());
    let chains = store.for_agent(&ada()).chains();
    let (open, ended) = (begin(&*chains, "a"), begin(&*chains, "b"));
    end(&*chains, ended);
    let ahead = |uptime| Moment {
        unix: at(365 * 24 * 3600),
        uptime,
    };
    assert_eq!(store.sweep(ahead(up(600))).wait().unwrap().removed, 0);
    let recalled = |seconds, number| {
        let found = chains.recall(up(seconds), number).wait().unwrap();
        found.map(|chain| (chain.head.state, chain.outcome))
    };
    let done = (ChainState::Done, Some(b"out".to_vec()));
    assert_eq!(recalled(600, ended), Some(done));
    assert_eq!(recalled(601, ended), None);
    assert_eq!(recalled(100_000, open), Some((ChainState::Open, None)));
    // Both were begun by this process.
    assert_eq!(chains.earlier(up(1)).wait(), Ok(Vec::new()));
    assert_eq!(store.sweep(ahead(up(601))).wait().unwrap().removed, 1);
}

fn chains_of_others_are_out_of_reach(make: Make) {
    let store = make(Limits::default());
    let own = store.for_agent(&ada()).chains();
    let number = begin(&*own, "c");
    own.note(number, b"note".to_vec()).wait().unwrap();
    for other in [store.for_agent(&bob()).chains(), store.node().chains()] {
        assert_eq!(other.list(NOW, 9).wait(), Ok(Vec::new()));
        assert_eq!(other.find(NOW, number).wait(), Ok(None));
        assert_eq!(other.recall(START, number).wait(), Ok(None));
        assert!(journal(&*other, number).is_empty());
        assert_eq!(other.resume(number).wait(), Err(NOT_FOUND));
        assert_eq!(other.note(number, Vec::new()).wait(), Err(NOT_FOUND));
        let ended = other.end(moment(0), number, ChainState::Done, Vec::new());
        assert_eq!(ended.wait(), Err(NOT_FOUND));
    }
    assert_eq!(journal(&*own, number), vec![b"note".to_vec()]);
}

fn limits_hold(make: Make) {
    let store = make(Limits {
        chains: limit(3, 100, 10_000),
        ..Limits::default()
    });
    let chains = store.for_agent(&ada()).chains();
    let number = begin(&*chains, "c");
    for (length, is_taken) in [(3, true), (4, false)] {
        let text = vec![0; length];
        let too_large = Error::TooLarge {
            what: "chain",
            size: length,
            limit: 3,
        };
        let asked = chains.begin(moment(0), "c", text.clone()).wait();
        assert_eq!(asked.is_ok(), is_taken);
        assert!(is_taken || asked == Err(too_large.clone()));
        let noted = chains.note(number, text.clone()).wait();
        assert_eq!(noted.is_ok(), is_taken);
        let other = begin(&*chains, "d");
        let ended = chains.end(moment(0), other, ChainState::Done, text).wait();
        assert_eq!(ended, if is_taken { Ok(()) } else { Err(too_large) });
    }
    for (length, is_taken) in [(MAX_NAME, true), (MAX_NAME + 1, false)] {
        let named = chains
            .begin(moment(0), &"x".repeat(length), Vec::new())
            .wait();
        assert_eq!(named.is_ok(), is_taken);
    }
}

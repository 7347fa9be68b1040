//! Ids that may be used once: threat 97, single-use credentials.

use std::sync::Arc;
use std::thread;

use store::{Error, Limits, MAX_NAME, Use};

use crate::subject::{Make, NOW, ada, at, contract, limit, moment};

contract! {
    an_id_is_used_once,
    of_many_at_once_one_is_first,
    expired_id_is_remembered_until_its_room_is_needed,
    none_is_forgotten_for_another,
    bytes_are_limited,
    a_long_id_is_refused,
}

fn an_id_is_used_once(make: Make) {
    let store = make(Limits::default());
    let ids = store.for_agent(&ada()).replay_ids();
    assert_eq!(ids.use_once(NOW, "a", at(60)).wait(), Ok(Use::First));
    assert_eq!(ids.use_once(NOW, "a", at(60)).wait(), Ok(Use::Again));
    assert_eq!(ids.use_once(NOW, "b", at(60)).wait(), Ok(Use::First));
    // A replay does not make it live longer.
    assert_eq!(ids.use_once(at(59), "a", at(600)).wait(), Ok(Use::Again));
    assert_eq!(ids.use_once(at(60), "a", at(120)).wait(), Ok(Use::Again));
}

fn of_many_at_once_one_is_first(make: Make) {
    let store = make(Limits::default());
    let ids = store.for_agent(&ada()).replay_ids();
    let threads: Vec<_> = (0..8)
        .map(|_| {
            let ids = Arc::clone(&ids);
            thread::spawn(move || ids.use_once(NOW, "a", at(60)).wait().unwrap())
        })
        .collect();
    let uses: Vec<Use> = threads.into_iter().map(|t| t.join().unwrap()).collect();
    let first = uses.iter().filter(|used| **used == Use::First);
    assert_eq!(first.count(), 1, "{uses:?}");
}

/// The clock may be set back, by any time.
fn expired_id_is_remembered_until_its_room_is_needed(make: Make) {
    let store = make(Limits {
        replay_ids: limit(0, 2, 1000),
        ..Limits::default()
    });
    let ids = store.for_agent(&ada()).replay_ids();
    assert_eq!(ids.use_once(NOW, "b", at(10)).wait(), Ok(Use::First));
    assert_eq!(ids.use_once(at(1), "a", at(11)).wait(), Ok(Use::First));
    assert_eq!(store.sweep(moment(1000)).wait().unwrap().removed, 0);
    assert_eq!(ids.use_once(at(1000), "a", at(1010)).wait(), Ok(Use::Again));
    assert_eq!(ids.use_once(at(1), "b", at(11)).wait(), Ok(Use::Again));
    // The one that expired first makes room.
    assert_eq!(ids.use_once(at(1000), "c", at(1010)).wait(), Ok(Use::First));
    assert_eq!(ids.use_once(at(1000), "a", at(1010)).wait(), Ok(Use::Again));
    assert_eq!(ids.use_once(at(1000), "b", at(1010)).wait(), Ok(Use::First));
}

fn none_is_forgotten_for_another(make: Make) {
    let store = make(Limits {
        replay_ids: limit(0, 2, 1000),
        ..Limits::default()
    });
    let ids = store.for_agent(&ada()).replay_ids();
    for id in ["a", "b"] {
        assert_eq!(ids.use_once(NOW, id, at(10)).wait(), Ok(Use::First));
    }
    let full = Err(Error::Full { what: "replay id" });
    assert_eq!(ids.use_once(at(9), "c", at(20)).wait(), full);
    assert_eq!(ids.use_once(at(9), "a", at(20)).wait(), Ok(Use::Again));
    assert_eq!(ids.use_once(at(10), "c", at(20)).wait(), Ok(Use::First));
}

fn bytes_are_limited(make: Make) {
    let store = make(Limits {
        replay_ids: limit(0, 100, 10),
        ..Limits::default()
    });
    let ids = store.for_agent(&ada()).replay_ids();
    assert_eq!(ids.use_once(NOW, "12345", at(10)).wait(), Ok(Use::First));
    let full = Err(Error::Full { what: "replay id" });
    assert_eq!(ids.use_once(NOW, "123456", at(10)).wait(), full);
    assert_eq!(ids.use_once(NOW, "54321", at(10)).wait(), Ok(Use::First));
}

fn a_long_id_is_refused(make: Make) {
    let store = make(Limits::default());
    let ids = store.for_agent(&ada()).replay_ids();
    let used = |length| ids.use_once(NOW, &"x".repeat(length), at(10)).wait();
    assert_eq!(used(MAX_NAME), Ok(Use::First));
    assert!(matches!(used(MAX_NAME + 1), Err(Error::TooLarge { .. })));
}

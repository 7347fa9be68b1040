//! What has expired is removed.

use std::time::Duration;

use store::{Begun, Bucket, Call, Limits, SessionId, Swept};

use crate::subject::{Make, NOW, START, ada, at, contract, hash, moment, up};

contract! {
    what_has_expired_is_removed,
    what_runs_stays,
}

fn what_has_expired_is_removed(make: Make) {
    let store = make(Limits {
        results_kept: Duration::from_secs(10),
        ..Limits::default()
    });
    let scope = store.for_agent(&ada());
    let records = scope.snapshots(&SessionId::new("s").unwrap());
    for (seconds, name) in [(10, "old"), (20, "new")] {
        let begun = up(seconds - 10);
        scope.results().begin(begun, name, hash(1)).wait().unwrap();
        scope.results().finish(begun, name, None).wait().unwrap();
        records
            .put(NOW, name, b"x".to_vec(), at(seconds))
            .wait()
            .unwrap();
        let bucket = Bucket {
            name: name.to_owned(),
            state: Vec::new(),
            full_at: at(seconds),
        };
        scope.rate_buckets().save(NOW, vec![bucket]).wait().unwrap();
        let call = Call {
            id: name.to_owned(),
            hash: hash(u8::try_from(seconds).unwrap()),
            did: None,
            shown: Vec::new(),
            expires: at(seconds),
        };
        scope.held_calls().hold(NOW, call).wait().unwrap();
    }
    let swept = |removed| {
        Ok(Swept {
            removed,
            has_more: false,
            is_erased: true,
        })
    };
    assert_eq!(store.sweep(moment(9)).wait(), swept(0));
    assert_eq!(store.sweep(moment(10)).wait(), swept(4));
    assert_eq!(store.sweep(moment(10)).wait(), swept(0));
    let kept = scope.results().begin(up(19), "new", hash(1)).wait();
    assert_eq!(kept, Ok(Begun::Finished));
    assert_eq!(store.sweep(moment(20)).wait(), swept(4));
}

fn what_runs_stays(make: Make) {
    let store = make(Limits::default());
    let results = store.for_agent(&ada()).results();
    results.begin(START, "a", hash(1)).wait().unwrap();
    store.sweep(moment(1_000_000)).wait().unwrap();
    let begun = results.begin(up(1_000_000), "a", hash(1)).wait();
    assert_eq!(begun, Ok(Begun::Running));
}

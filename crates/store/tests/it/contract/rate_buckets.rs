//! Rate buckets: a restart does not refill them.

use store::{Bucket, Error, Limits, MAX_NAME};

use crate::subject::{Make, NOW, ada, at, contract, limit};

contract! {
    buckets_are_saved_together,
    a_full_bucket_is_none,
    limits_hold_for_all_or_none,
    a_large_state_or_name_is_refused,
}

fn bucket(name: &str, state: &[u8], seconds: i64) -> Bucket {
    Bucket {
        name: name.to_owned(),
        state: state.to_vec(),
        full_at: at(seconds),
    }
}

fn buckets_are_saved_together(make: Make) {
    let store = make(Limits::default());
    let buckets = store.for_agent(&ada()).rate_buckets();
    let (a, b) = (bucket("a", b"1", 10), bucket("b", b"2", 20));
    // Of one name the last counts.
    let all = vec![b.clone(), bucket("a", b"0", 5), a.clone()];
    buckets.save(NOW, all).wait().unwrap();
    assert_eq!(buckets.load(NOW).wait(), Ok(vec![a, b.clone()]));
    let a = bucket("a", b"changed", 30);
    buckets.save(at(1), vec![a.clone()]).wait().unwrap();
    assert_eq!(buckets.load(at(1)).wait(), Ok(vec![a, b]));
    buckets.save(NOW, Vec::new()).wait().unwrap();
}

fn a_full_bucket_is_none(make: Make) {
    let store = make(Limits::default());
    let buckets = store.for_agent(&ada()).rate_buckets();
    let a = bucket("a", b"1", 10);
    buckets
        .save(NOW, vec![a.clone(), bucket("b", b"", 0)])
        .wait()
        .unwrap();
    assert_eq!(buckets.load(at(9)).wait(), Ok(vec![a]));
    assert_eq!(buckets.load(at(10)).wait(), Ok(Vec::new()));
}

fn limits_hold_for_all_or_none(make: Make) {
    let store = make(Limits {
        rate_buckets: limit(10, 2, 10),
        ..Limits::default()
    });
    let buckets = store.for_agent(&ada()).rate_buckets();
    let names = |names: &[&str]| -> Vec<Bucket> {
        names.iter().map(|name| bucket(name, b"1234", 10)).collect()
    };
    let full = Err(Error::Full {
        what: "rate bucket",
    });
    assert_eq!(buckets.save(NOW, names(&["a", "b", "c"])).wait(), full);
    assert_eq!(buckets.load(NOW).wait(), Ok(Vec::new()));
    buckets.save(NOW, names(&["a", "b"])).wait().unwrap();
    assert_eq!(buckets.save(NOW, names(&["a", "c"])).wait(), full);
    buckets.save(NOW, names(&["a", "b"])).wait().unwrap();
    // Two names and eight bytes are all there is room for.
    assert_eq!(
        buckets.save(NOW, vec![bucket("a", b"12345", 10)]).wait(),
        full
    );
    // When they are full they make way.
    buckets
        .save(at(10), vec![bucket("c", b"12345678", 20)])
        .wait()
        .unwrap();
    assert_eq!(buckets.load(at(10)).wait().unwrap().len(), 1);
}

fn a_large_state_or_name_is_refused(make: Make) {
    let store = make(Limits::default());
    let buckets = store.for_agent(&ada()).rate_buckets();
    let save = |name: usize, state: usize| {
        let bucket = bucket(&"x".repeat(name), &vec![0; state], 10);
        buckets.save(NOW, vec![bucket]).wait()
    };
    save(MAX_NAME, 256).unwrap();
    assert!(matches!(save(MAX_NAME + 1, 0), Err(Error::TooLarge { .. })));
    assert!(matches!(
        save(1, 257),
        Err(Error::TooLarge {
            size: 257,
            limit: 256,
            ..
        })
    ));
}

//! Records of sessions.

use store::{Error, Limits, MAX_NAME, SessionId, Snapshots, UnixMillis};

use crate::subject::{Make, NOW, ada, at, contract, limit};

contract! {
    records_are_added_to_and_replaced,
    records_expire,
    a_session_is_cleared_alone,
    the_longest_record_is_kept_and_no_longer,
    there_is_room_for_so_many_and_no_more,
    bytes_are_limited_over_all_sessions,
    what_has_expired_makes_way,
    a_long_name_is_refused,
}

const NEVER: UnixMillis = UnixMillis::NEVER;

fn session(name: &str) -> SessionId {
    SessionId::new(name).unwrap()
}

fn get(snapshots: &dyn Snapshots, name: &str) -> Option<Vec<u8>> {
    snapshots.get(NOW, name).wait().unwrap()
}

fn full() -> Result<(), Error> {
    Err(Error::Full { what: "snapshot" })
}

/// What the records of sessions in `a2e-runtime` ask of a store.
fn records_are_added_to_and_replaced(make: Make) {
    let store = make(Limits::default());
    let records = store.for_agent(&ada()).snapshots(&session("s"));
    let append = |name: &str, bytes: &[u8]| {
        let added = records.append(NOW, name, bytes.to_vec(), NEVER);
        added.wait().unwrap();
    };
    assert_eq!(get(&*records, "a"), None);
    append("a", b"one\n");
    append("b", b"other\n");
    append("a", b"two\n");
    assert_eq!(get(&*records, "a").unwrap(), b"one\ntwo\n");
    records
        .put(NOW, "a", b"three\n".to_vec(), NEVER)
        .wait()
        .unwrap();
    append("a", b"four\n");
    assert_eq!(get(&*records, "a").unwrap(), b"three\nfour\n");
    records.remove("a").wait().unwrap();
    records.remove("a").wait().unwrap();
    assert_eq!(get(&*records, "a"), None);
    append("a", b"");
    assert_eq!(get(&*records, "a").unwrap(), b"");
    assert_eq!(get(&*records, "b").unwrap(), b"other\n");
}

fn records_expire(make: Make) {
    let store = make(Limits::default());
    let records = store.for_agent(&ada()).snapshots(&session("s"));
    records
        .append(NOW, "a", b"1".to_vec(), at(10))
        .wait()
        .unwrap();
    // Each addition says anew until when.
    records
        .append(at(9), "a", b"2".to_vec(), at(20))
        .wait()
        .unwrap();
    assert_eq!(records.get(at(19), "a").wait().unwrap().unwrap(), b"12");
    assert_eq!(records.get(at(20), "a").wait().unwrap(), None);
    records
        .append(at(20), "a", b"3".to_vec(), at(30))
        .wait()
        .unwrap();
    assert_eq!(records.get(at(20), "a").wait().unwrap().unwrap(), b"3");
}

fn a_session_is_cleared_alone(make: Make) {
    let store = make(Limits::default());
    let scope = store.for_agent(&ada());
    let (one, other) = (
        scope.snapshots(&session("1")),
        scope.snapshots(&session("2")),
    );
    for records in [&one, &other] {
        for name in ["a", "b"] {
            records.put(NOW, name, b"x".to_vec(), NEVER).wait().unwrap();
        }
    }
    one.clear().wait().unwrap();
    assert_eq!((get(&*one, "a"), get(&*one, "b")), (None, None));
    assert_eq!(get(&*other, "a").unwrap(), b"x");
}

fn the_longest_record_is_kept_and_no_longer(make: Make) {
    let store = make(Limits {
        snapshots: limit(10, 10, 1000),
        ..Limits::default()
    });
    let records = store.for_agent(&ada()).snapshots(&session("s"));
    records.append(NOW, "a", vec![1; 6], NEVER).wait().unwrap();
    let too_large = |size| {
        Err(Error::TooLarge {
            what: "snapshot",
            size,
            limit: 10,
        })
    };
    assert_eq!(
        records.append(NOW, "a", vec![1; 5], NEVER).wait(),
        too_large(11)
    );
    assert_eq!(get(&*records, "a").unwrap(), [1; 6]);
    records.append(NOW, "a", vec![1; 4], NEVER).wait().unwrap();
    assert_eq!(get(&*records, "a").unwrap(), [1; 10]);
    assert_eq!(
        records.put(NOW, "b", vec![1; 11], NEVER).wait(),
        too_large(11)
    );
    records.put(NOW, "b", vec![1; 10], NEVER).wait().unwrap();
}

fn there_is_room_for_so_many_and_no_more(make: Make) {
    let store = make(Limits {
        snapshots: limit(10, 2, 1000),
        ..Limits::default()
    });
    let scope = store.for_agent(&ada());
    let (one, other) = (
        scope.snapshots(&session("1")),
        scope.snapshots(&session("2")),
    );
    one.put(NOW, "a", b"x".to_vec(), NEVER).wait().unwrap();
    other.put(NOW, "a", b"x".to_vec(), NEVER).wait().unwrap();
    assert_eq!(one.append(NOW, "b", b"x".to_vec(), NEVER).wait(), full());
    assert_eq!(other.put(NOW, "b", b"x".to_vec(), NEVER).wait(), full());
    // Those that are there go on.
    one.append(NOW, "a", b"y".to_vec(), NEVER).wait().unwrap();
    other.put(NOW, "a", b"y".to_vec(), NEVER).wait().unwrap();
    one.remove("a").wait().unwrap();
    other.put(NOW, "b", b"x".to_vec(), NEVER).wait().unwrap();
}

fn bytes_are_limited_over_all_sessions(make: Make) {
    // Each record counts its session, its name and its content.
    let store = make(Limits {
        snapshots: limit(100, 10, 24),
        ..Limits::default()
    });
    let scope = store.for_agent(&ada());
    let (one, other) = (
        scope.snapshots(&session("1")),
        scope.snapshots(&session("2")),
    );
    one.put(NOW, "a", vec![0; 10], NEVER).wait().unwrap();
    assert_eq!(other.put(NOW, "a", vec![0; 11], NEVER).wait(), full());
    other.put(NOW, "a", vec![0; 10], NEVER).wait().unwrap();
    assert_eq!(one.append(NOW, "a", vec![0; 1], NEVER).wait(), full());
    one.put(NOW, "a", vec![0; 9], NEVER).wait().unwrap();
    other.append(NOW, "a", vec![0; 1], NEVER).wait().unwrap();
    assert_eq!(get(&*other, "a").unwrap(), [0; 11]);
}

fn what_has_expired_makes_way(make: Make) {
    let store = make(Limits {
        snapshots: limit(10, 2, 1000),
        ..Limits::default()
    });
    let records = store.for_agent(&ada()).snapshots(&session("s"));
    records.put(NOW, "a", b"x".to_vec(), at(10)).wait().unwrap();
    records.put(NOW, "b", b"x".to_vec(), at(20)).wait().unwrap();
    let put = |seconds| records.put(at(seconds), "c", b"x".to_vec(), NEVER).wait();
    assert_eq!(put(9), full());
    put(10).unwrap();
    assert_eq!(get(&*records, "c").unwrap(), b"x");
    assert_eq!(records.get(at(10), "b").wait().unwrap().unwrap(), b"x");
}

fn a_long_name_is_refused(make: Make) {
    let store = make(Limits::default());
    let records = store.for_agent(&ada()).snapshots(&session("s"));
    let put = |length| {
        records
            .put(NOW, &"x".repeat(length), Vec::new(), NEVER)
            .wait()
    };
    put(MAX_NAME).unwrap();
    assert!(matches!(put(MAX_NAME + 1), Err(Error::TooLarge { .. })));
}

//! Idempotent results: A2A profile §10.5, threat 109; retries of A2E requests.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use store::{Begun, Error, Limits, MAX_NAME, Results};

use crate::subject::{Make, START, ada, contract, hash, limit, up};

contract! {
    a_request_is_done_once,
    a_request_that_was_not_done_may_be_tried_again,
    an_interrupted_request_is_not_done_again,
    a_result_is_kept_ten_minutes,
    a_result_that_may_not_be_kept_leaves_that_it_was_done,
    only_a_running_request_is_finished,
    of_many_at_once_one_is_first,
    the_largest_result_is_kept_and_no_larger,
    the_oldest_result_makes_way,
    a_running_request_never_makes_way,
    bytes_count_with_names_and_hashes,
    a_long_id_is_refused,
}

/// Begins a request that must not be refused.
fn begin(results: &dyn Results, seconds: i64, id: &str, number: u8) -> Begun {
    results.begin(up(seconds), id, hash(number)).wait().unwrap()
}

/// Does a request.
fn run(results: &dyn Results, seconds: i64, id: &str, result: &[u8]) {
    assert_eq!(begin(results, seconds, id, 1), Begun::New);
    let result = Some(result.to_vec());
    results.finish(up(seconds), id, result).wait().unwrap();
}

/// The result of a request that is sent again.
fn again(results: &dyn Results, seconds: i64, id: &str) -> Option<Vec<u8>> {
    assert_eq!(begin(results, seconds, id, 1), Begun::Finished, "{id}");
    results.result(up(seconds), id).wait().unwrap()
}

fn full<T>() -> Result<T, Error> {
    Err(Error::Full {
        what: "idempotent result",
    })
}

fn a_request_is_done_once(make: Make) {
    let store = make(Limits::default());
    let results = &*store.for_agent(&ada()).results();
    assert_eq!(begin(results, 0, "a", 1), Begun::New);
    assert_eq!(begin(results, 0, "a", 1), Begun::Running);
    assert_eq!(begin(results, 0, "a", 2), Begun::Conflict);
    assert_eq!(results.result(START, "a").wait(), Ok(None));
    let result = Some(b"done".to_vec());
    results.finish(START, "a", result).wait().unwrap();
    assert_eq!(again(results, 1, "a").unwrap(), b"done");
    assert_eq!(begin(results, 1, "a", 2), Begun::Conflict);
    assert_eq!(results.result(START, "b").wait(), Ok(None));
    // Whatever an agent calls its requests: they are bytes.
    let drop_table = "'; DROP TABLE results; --";
    for id in ["", "a\0b", "a\0c", drop_table, "A", "ä", "a\u{308}"] {
        assert_eq!(begin(results, 0, id, 1), Begun::New, "{id:?}");
    }
}

fn a_request_that_was_not_done_may_be_tried_again(make: Make) {
    let store = make(Limits::default());
    let results = &*store.for_agent(&ada()).results();
    assert_eq!(begin(results, 0, "a", 1), Begun::New);
    results.forget("a").wait().unwrap();
    results.forget("a").wait().unwrap();
    assert_eq!(begin(results, 0, "a", 2), Begun::New);
}

fn an_interrupted_request_is_not_done_again(make: Make) {
    let store = make(Limits {
        results: limit(100, 2, 10_000),
        ..Limits::default()
    });
    let results = &*store.for_agent(&ada()).results();
    let missing = Err(Error::NotFound {
        what: "idempotent result",
    });
    assert_eq!(results.interrupt(START, "a").wait(), missing);
    assert_eq!(begin(results, 0, "a", 1), Begun::New);
    results.interrupt(up(5), "a").wait().unwrap();
    assert_eq!(begin(results, 5, "a", 1), Begun::Interrupted);
    assert_eq!(begin(results, 5, "a", 2), Begun::Conflict);
    assert_eq!(results.result(up(5), "a").wait(), Ok(None));
    for ended in [
        results.interrupt(up(6), "a").wait(),
        results.finish(up(6), "a", None).wait(),
    ] {
        assert_eq!(ended, missing);
    }
    // It is remembered as long as a result, and makes way like one.
    assert_eq!(begin(results, 604, "a", 1), Begun::Interrupted);
    assert_eq!(begin(results, 605, "a", 1), Begun::New);
    results.interrupt(up(605), "a").wait().unwrap();
    for id in ["b", "c"] {
        assert_eq!(begin(results, 606, id, 1), Begun::New);
    }
    assert_eq!(results.begin(up(606), "a", hash(1)).wait(), full());
}

fn a_result_is_kept_ten_minutes(make: Make) {
    let store = make(Limits::default());
    let results = &*store.for_agent(&ada()).results();
    assert_eq!(begin(results, 0, "a", 1), Begun::New);
    // However long it takes, it is being done; and then its time begins.
    assert_eq!(begin(results, 5000, "a", 1), Begun::Running);
    let result = Some(b"x".to_vec());
    results.finish(up(5000), "a", result).wait().unwrap();
    assert_eq!(again(results, 5599, "a").unwrap(), b"x");
    assert_eq!(results.result(up(5600), "a").wait(), Ok(None));
    assert_eq!(begin(results, 5600, "a", 2), Begun::New);
}

/// `data_retention: none`: a retry is told that it was done, and no more.
fn a_result_that_may_not_be_kept_leaves_that_it_was_done(make: Make) {
    let store = make(Limits::default());
    let results = &*store.for_agent(&ada()).results();
    assert_eq!(begin(results, 0, "a", 1), Begun::New);
    results.finish(START, "a", None).wait().unwrap();
    assert_eq!(again(results, 0, "a"), None);
    run(results, 0, "empty", b"");
    assert_eq!(again(results, 0, "empty").unwrap(), b"");
}

fn only_a_running_request_is_finished(make: Make) {
    let store = make(Limits::default());
    let results = &*store.for_agent(&ada()).results();
    let missing = Err(Error::NotFound {
        what: "idempotent result",
    });
    assert_eq!(results.finish(START, "a", None).wait(), missing);
    run(results, 0, "a", b"first");
    let second = Some(b"second".to_vec());
    assert_eq!(results.finish(START, "a", second).wait(), missing);
    assert_eq!(again(results, 0, "a").unwrap(), b"first");
}

fn of_many_at_once_one_is_first(make: Make) {
    let store = make(Limits::default());
    let results = store.for_agent(&ada()).results();
    for round in 0..20 {
        let id = format!("request {round}");
        let threads: Vec<_> = (0..8)
            .map(|_| {
                let (results, id) = (Arc::clone(&results), id.clone());
                thread::spawn(move || begin(&*results, 0, &id, 1))
            })
            .collect();
        let begun: Vec<Begun> = threads.into_iter().map(|t| t.join().unwrap()).collect();
        let first = begun.iter().filter(|begun| **begun == Begun::New);
        assert_eq!(first.count(), 1, "{begun:?}");
    }
}

fn the_largest_result_is_kept_and_no_larger(make: Make) {
    let store = make(Limits {
        results: limit(100, 10, 1000),
        ..Limits::default()
    });
    let results = &*store.for_agent(&ada()).results();
    assert_eq!(begin(results, 0, "a", 1), Begun::New);
    let too_large = Err(Error::TooLarge {
        what: "idempotent result",
        size: 101,
        limit: 100,
    });
    let finish = |size| results.finish(START, "a", Some(vec![7; size])).wait();
    assert_eq!(finish(101), too_large);
    assert_eq!(begin(results, 0, "a", 1), Begun::Running);
    assert_eq!(finish(100), Ok(()));
    assert_eq!(again(results, 0, "a").unwrap(), [7; 100]);
}

fn the_oldest_result_makes_way(make: Make) {
    let store = make(Limits {
        results: limit(100, 3, 10_000),
        ..Limits::default()
    });
    let results = &*store.for_agent(&ada()).results();
    for (seconds, id) in [(2, "b"), (1, "a"), (3, "c")] {
        run(results, seconds, id, id.as_bytes());
    }
    for id in ["a", "b", "c"] {
        assert_eq!(again(results, 4, id).unwrap(), id.as_bytes());
    }
    run(results, 4, "d", b"d");
    for id in ["b", "c", "d"] {
        assert_eq!(again(results, 4, id).unwrap(), id.as_bytes());
    }
    assert_eq!(begin(results, 4, "a", 1), Begun::New);
}

fn a_running_request_never_makes_way(make: Make) {
    let store = make(Limits {
        results: limit(100, 2, 10_000),
        results_kept: Duration::from_secs(10),
        ..Limits::default()
    });
    let results = &*store.for_agent(&ada()).results();
    for id in ["a", "b"] {
        assert_eq!(begin(results, 0, id, 1), Begun::New);
    }
    assert_eq!(results.begin(up(100), "c", hash(1)).wait(), full());
    for id in ["a", "b"] {
        assert_eq!(begin(results, 100, id, 1), Begun::Running);
    }
    results.finish(up(100), "b", None).wait().unwrap();
    assert_eq!(begin(results, 100, "c", 1), Begun::New);
    assert_eq!(results.begin(up(100), "b", hash(1)).wait(), full());
}

fn bytes_count_with_names_and_hashes(make: Make) {
    // Two entries of 1 + 32 bytes, one of them with a result of 34.
    let store = make(Limits {
        results: limit(100, 100, 100),
        ..Limits::default()
    });
    let results = &*store.for_agent(&ada()).results();
    let finish = |id, size| results.finish(START, id, Some(vec![0; size])).wait();
    assert_eq!(begin(results, 0, "a", 1), Begun::New);
    assert_eq!(begin(results, 0, "b", 1), Begun::New);
    assert_eq!(finish("a", 35), full());
    assert_eq!(finish("a", 34), Ok(()));
    assert_eq!(again(results, 0, "a").unwrap(), [0; 34]);
    // 67 + 33 bytes; two more for the second, and the first makes way for them.
    assert_eq!(finish("b", 2), Ok(()));
    assert_eq!(again(results, 0, "b").unwrap(), [0; 2]);
    assert_eq!(begin(results, 0, "a", 2), Begun::New);
}

fn a_long_id_is_refused(make: Make) {
    let store = make(Limits::default());
    let results = &*store.for_agent(&ada()).results();
    let (longest, longer) = ("x".repeat(MAX_NAME), "x".repeat(MAX_NAME + 1));
    assert_eq!(begin(results, 0, &longest, 1), Begun::New);
    let error = results.begin(START, &longer, hash(1)).wait().unwrap_err();
    assert!(
        matches!(error, Error::TooLarge { size: 1025, .. }),
        "{error}"
    );
}

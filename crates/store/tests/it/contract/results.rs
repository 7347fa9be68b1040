//! Idempotent results: A2A profile §10.5, threat 109; retries of A2E requests.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use store::{Begun, Error, Limits, MAX_NAME, Results};

use crate::subject::{Make, NOW, ada, at, contract, hash, limit};

contract! {
    a_request_is_done_once,
    a_request_that_was_not_done_may_be_tried_again,
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

fn finished(result: &[u8]) -> Begun {
    Begun::Finished(Some(result.to_vec()))
}

fn run(results: &dyn Results, seconds: i64, id: &str, result: &[u8]) {
    assert_eq!(
        results.begin(at(seconds), id, hash(1)).wait(),
        Ok(Begun::New)
    );
    let result = Some(result.to_vec());
    results.finish(at(seconds), id, result).wait().unwrap();
}

fn a_request_is_done_once(make: Make) {
    let store = make(Limits::default());
    let results = store.for_agent(&ada()).results();
    assert_eq!(results.begin(NOW, "a", hash(1)).wait(), Ok(Begun::New));
    assert_eq!(results.begin(NOW, "a", hash(1)).wait(), Ok(Begun::Running));
    assert_eq!(results.begin(NOW, "a", hash(2)).wait(), Ok(Begun::Conflict));
    results
        .finish(NOW, "a", Some(b"done".to_vec()))
        .wait()
        .unwrap();
    assert_eq!(
        results.begin(at(1), "a", hash(1)).wait(),
        Ok(finished(b"done"))
    );
    assert_eq!(
        results.begin(at(1), "a", hash(2)).wait(),
        Ok(Begun::Conflict)
    );
    // Whatever an agent calls its requests: they are bytes.
    for id in [
        "",
        "a\0b",
        "a\0c",
        "'; DROP TABLE results; --",
        "A",
        "ä",
        "a\u{308}",
    ] {
        assert_eq!(
            results.begin(NOW, id, hash(1)).wait(),
            Ok(Begun::New),
            "{id:?}"
        );
    }
}

fn a_request_that_was_not_done_may_be_tried_again(make: Make) {
    let store = make(Limits::default());
    let results = store.for_agent(&ada()).results();
    assert_eq!(results.begin(NOW, "a", hash(1)).wait(), Ok(Begun::New));
    results.forget("a").wait().unwrap();
    results.forget("a").wait().unwrap();
    assert_eq!(results.begin(NOW, "a", hash(2)).wait(), Ok(Begun::New));
}

fn a_result_is_kept_ten_minutes(make: Make) {
    let store = make(Limits::default());
    let results = store.for_agent(&ada()).results();
    assert_eq!(results.begin(NOW, "a", hash(1)).wait(), Ok(Begun::New));
    // However long it takes, it is being done; and then its time begins.
    assert_eq!(
        results.begin(at(5000), "a", hash(1)).wait(),
        Ok(Begun::Running)
    );
    results
        .finish(at(5000), "a", Some(b"x".to_vec()))
        .wait()
        .unwrap();
    assert_eq!(
        results.begin(at(5599), "a", hash(1)).wait(),
        Ok(finished(b"x"))
    );
    assert_eq!(results.begin(at(5600), "a", hash(2)).wait(), Ok(Begun::New));
}

/// `data_retention: none`: a retry is told that it was done, and no more.
fn a_result_that_may_not_be_kept_leaves_that_it_was_done(make: Make) {
    let store = make(Limits::default());
    let results = store.for_agent(&ada()).results();
    assert_eq!(results.begin(NOW, "a", hash(1)).wait(), Ok(Begun::New));
    results.finish(NOW, "a", None).wait().unwrap();
    assert_eq!(
        results.begin(NOW, "a", hash(1)).wait(),
        Ok(Begun::Finished(None))
    );
    run(&*results, 0, "empty", b"");
    assert_eq!(
        results.begin(NOW, "empty", hash(1)).wait(),
        Ok(finished(b""))
    );
}

fn only_a_running_request_is_finished(make: Make) {
    let store = make(Limits::default());
    let results = store.for_agent(&ada()).results();
    let missing = Err(Error::NotFound {
        what: "idempotent result",
    });
    assert_eq!(results.finish(NOW, "a", None).wait(), missing);
    run(&*results, 0, "a", b"first");
    assert_eq!(
        results.finish(NOW, "a", Some(b"second".to_vec())).wait(),
        missing
    );
    assert_eq!(
        results.begin(NOW, "a", hash(1)).wait(),
        Ok(finished(b"first"))
    );
}

fn of_many_at_once_one_is_first(make: Make) {
    let store = make(Limits::default());
    let results = store.for_agent(&ada()).results();
    for round in 0..20 {
        let id = format!("request {round}");
        let threads: Vec<_> = (0..8)
            .map(|_| {
                let (results, id) = (Arc::clone(&results), id.clone());
                thread::spawn(move || results.begin(NOW, &id, hash(1)).wait().unwrap())
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
    let results = store.for_agent(&ada()).results();
    assert_eq!(results.begin(NOW, "a", hash(1)).wait(), Ok(Begun::New));
    let too_large = Error::TooLarge {
        what: "idempotent result",
        size: 101,
        limit: 100,
    };
    assert_eq!(
        results.finish(NOW, "a", Some(vec![7; 101])).wait(),
        Err(too_large)
    );
    assert_eq!(results.begin(NOW, "a", hash(1)).wait(), Ok(Begun::Running));
    results.finish(NOW, "a", Some(vec![7; 100])).wait().unwrap();
    assert_eq!(
        results.begin(NOW, "a", hash(1)).wait(),
        Ok(finished(&[7; 100]))
    );
}

fn the_oldest_result_makes_way(make: Make) {
    let store = make(Limits {
        results: limit(100, 3, 10_000),
        ..Limits::default()
    });
    let results = store.for_agent(&ada()).results();
    for (seconds, id) in [(2, "b"), (1, "a"), (3, "c")] {
        run(&*results, seconds, id, id.as_bytes());
    }
    for id in ["a", "b", "c"] {
        assert_eq!(
            results.begin(at(4), id, hash(1)).wait(),
            Ok(finished(id.as_bytes()))
        );
    }
    run(&*results, 4, "d", b"d");
    for id in ["b", "c", "d"] {
        assert_eq!(
            results.begin(at(4), id, hash(1)).wait(),
            Ok(finished(id.as_bytes()))
        );
    }
    assert_eq!(results.begin(at(4), "a", hash(1)).wait(), Ok(Begun::New));
}

fn a_running_request_never_makes_way(make: Make) {
    let store = make(Limits {
        results: limit(100, 2, 10_000),
        results_kept: Duration::from_secs(10),
        ..Limits::default()
    });
    let results = store.for_agent(&ada()).results();
    for id in ["a", "b"] {
        assert_eq!(results.begin(NOW, id, hash(1)).wait(), Ok(Begun::New));
    }
    let full = Err(Error::Full {
        what: "idempotent result",
    });
    assert_eq!(results.begin(at(100), "c", hash(1)).wait(), full);
    for id in ["a", "b"] {
        assert_eq!(
            results.begin(at(100), id, hash(1)).wait(),
            Ok(Begun::Running)
        );
    }
    results.finish(at(100), "b", None).wait().unwrap();
    assert_eq!(results.begin(at(100), "c", hash(1)).wait(), Ok(Begun::New));
    assert_eq!(results.begin(at(100), "b", hash(1)).wait(), full);
}

fn bytes_count_with_names_and_hashes(make: Make) {
    // Two entries of 1 + 32 bytes, one of them with a result of 34.
    let store = make(Limits {
        results: limit(100, 100, 100),
        ..Limits::default()
    });
    let results = store.for_agent(&ada()).results();
    assert_eq!(results.begin(NOW, "a", hash(1)).wait(), Ok(Begun::New));
    assert_eq!(results.begin(NOW, "b", hash(1)).wait(), Ok(Begun::New));
    let full = Err(Error::Full {
        what: "idempotent result",
    });
    assert_eq!(results.finish(NOW, "a", Some(vec![0; 35])).wait(), full);
    results.finish(NOW, "a", Some(vec![0; 34])).wait().unwrap();
    assert_eq!(
        results.begin(NOW, "a", hash(1)).wait(),
        Ok(finished(&[0; 34]))
    );
    // 67 + 33 bytes; two more for the second, and the first makes way for them.
    results.finish(NOW, "b", Some(vec![0; 2])).wait().unwrap();
    assert_eq!(
        results.begin(NOW, "b", hash(1)).wait(),
        Ok(finished(&[0; 2]))
    );
    assert_eq!(results.begin(NOW, "a", hash(2)).wait(), Ok(Begun::New));
}

fn a_long_id_is_refused(make: Make) {
    let store = make(Limits::default());
    let results = store.for_agent(&ada()).results();
    let (longest, longer) = ("x".repeat(MAX_NAME), "x".repeat(MAX_NAME + 1));
    assert_eq!(results.begin(NOW, &longest, hash(1)).wait(), Ok(Begun::New));
    let error = results.begin(NOW, &longer, hash(1)).wait().unwrap_err();
    assert!(
        matches!(error, Error::TooLarge { size: 1025, .. }),
        "{error}"
    );
}

//! Profile §11.5: token buckets, and the threats to them.

use std::time::Duration;

use policy::{Buckets, Exceeded, Limited, Rate, Refused, TokenBucket, limits};

use crate::{rate, seconds};

/// Whose bucket.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Key {
    /// All agents that nobody vouches for.
    SelfLevel,
    Agent(u32),
    Session(u32),
}

const NOW: Duration = Duration::from_secs(1_000_000);

fn limited(refused: Refused) -> Limited {
    match refused {
        Refused::Exceeded(limited) => limited,
        Refused::NoRoom { .. } => panic!("{refused}"),
    }
}

/// Threat 99: N + 1 requests, and 200 at once with N = 100.
/// Proves A-7-10, A-7-12.
#[test]
fn threat_099_exactly_the_limit_passes() {
    let mut buckets = Buckets::new(10);
    let hundred = rate(100, 60);
    let outcomes: Vec<_> = (0..200)
        .map(|_| buckets.take(NOW, [(&Key::Session(1), hundred)]))
        .collect();
    assert_eq!(
        outcomes.iter().filter(|outcome| outcome.is_ok()).count(),
        100
    );
    assert!(outcomes[..100].iter().all(Result::is_ok));
    let first = limited(outcomes[100].unwrap_err()).exceeded;
    assert_eq!(
        first,
        Exceeded {
            rate: hundred,
            current_rate: 101,
            retry_after: Duration::from_millis(600),
        }
    );
    // Those refused are counted as seen, and take nothing.
    let last = limited(outcomes[199].unwrap_err()).exceeded;
    assert_eq!(
        (last.current_rate, last.retry_after),
        (200, first.retry_after)
    );
    let almost = NOW + Duration::from_nanos(599_999_999);
    assert!(buckets.take(almost, [(&Key::Session(1), hundred)]).is_err());
    let then = NOW + Duration::from_millis(600);
    assert_eq!(buckets.take(then, [(&Key::Session(1), hundred)]), Ok(()));
    assert!(buckets.take(then, [(&Key::Session(1), hundred)]).is_err());
}

/// Threat 100: the same DID over 20 sessions; a new session does not refill its bucket.
#[test]
fn threat_100_the_agent_bucket_holds_over_sessions() {
    let mut buckets = Buckets::new(100);
    let ten = rate(10, 60);
    let passed = (0..20)
        .flat_map(|session| [session; 3])
        .filter(|session| {
            let wanted = [(&Key::Session(*session), ten), (&Key::Agent(7), ten)];
            buckets.take(NOW, wanted).is_ok()
        })
        .count();
    assert_eq!(passed, 10);
    // Reconnecting: the old session is gone, the agent's bucket is not.
    for session in 0..20 {
        buckets.forget(&Key::Session(session));
    }
    let wanted = [(&Key::Session(99), ten), (&Key::Agent(7), ten)];
    let refused = limited(buckets.take(NOW, wanted).unwrap_err());
    assert_eq!(refused.index, 1);
    // Step 4 of §10.3, "taken together or not at all": nothing of the session was taken.
    assert!(buckets.get(&Key::Session(99)).is_none());
}

/// Threat 101: 1 000 fresh agents share one budget; verified ones are not affected.
#[test]
fn threat_101_sybils_share_a_budget() {
    let mut buckets = Buckets::new(200);
    let (all, each) = (rate(50, 60), rate(10, 60));
    let sybil = |buckets: &mut Buckets<Key>, agent: u32| {
        let agent = Key::Agent(agent);
        buckets.take(NOW, [(&Key::SelfLevel, all), (&agent, each)])
    };
    let passed = (0..1000)
        .filter(|agent| sybil(&mut buckets, *agent).is_ok())
        .count();
    assert_eq!(passed, 50);
    // The refused ones left no buckets behind.
    assert_eq!(buckets.len(), 51);
    for agent in 5000..5100 {
        assert_eq!(buckets.take(NOW, [(&Key::Agent(agent), each)]), Ok(()));
    }
}

/// Threat 102: what is refused before it gets here changes nothing, and what is refused here takes
/// nothing from any bucket.
#[test]
fn threat_102_a_refused_request_takes_nothing() {
    let mut buckets = Buckets::new(10);
    let (session, agent) = (rate(5, 60), rate(1, 60));
    let wanted = [(&Key::Session(1), session), (&Key::Agent(1), agent)];
    assert_eq!(buckets.take(NOW, wanted), Ok(()));
    for _ in 0..100 {
        assert_eq!(limited(buckets.take(NOW, wanted).unwrap_err()).index, 1);
    }
    let left = (0..10).filter(|_| buckets.take(NOW, [(&Key::Session(1), session)]).is_ok());
    assert_eq!(left.count(), 4);
}

/// Of several empty buckets the one that takes longest is told, whichever stands first.
#[test]
fn the_longest_wait_is_told() {
    for turn in [false, true] {
        let mut buckets = Buckets::new(10);
        let mut wanted = [
            (&Key::Session(1), rate(1, 10)),
            (&Key::Agent(1), rate(1, 20)),
        ];
        if turn {
            wanted.reverse();
        }
        assert_eq!(buckets.take(NOW, wanted), Ok(()));
        let refused = limited(buckets.take(NOW, wanted).unwrap_err());
        assert_eq!(refused.exceeded.retry_after, seconds(20));
        assert_eq!(refused.index, usize::from(!turn));
        let then = NOW + refused.exceeded.retry_after;
        assert_eq!(buckets.take(then, wanted), Ok(()));
    }
}

/// A bucket that is named twice gives two tokens or none.
#[test]
fn a_bucket_named_twice() {
    let mut buckets = Buckets::new(10);
    let twice = |limit| [(&Key::Agent(1), rate(limit, 60)); 2];
    assert!(buckets.take(NOW, twice(1)).is_err());
    assert!(buckets.is_empty());
    assert_eq!(buckets.take(NOW, twice(3)), Ok(()));
    assert!(buckets.take(NOW, twice(3)).is_err());
    assert_eq!(buckets.take(NOW, [(&Key::Agent(1), rate(3, 60))]), Ok(()));
}

/// Only full buckets make room; until then new keys are refused and known ones go on.
#[test]
fn eviction_gives_no_tokens() {
    let mut buckets = Buckets::new(2);
    let two = rate(2, 20);
    let mut take = |now: Duration, agent: u32| buckets.take(now, [(&Key::Agent(agent), two)]);
    assert_eq!(take(NOW, 1), Ok(()));
    assert_eq!(take(NOW, 1), Ok(()));
    assert_eq!(take(NOW, 2), Ok(()));
    let retry_after = seconds(10);
    assert_eq!(take(NOW, 3), Err(Refused::NoRoom { retry_after }));
    assert_eq!(take(NOW, 2), Ok(()), "one that has a bucket goes on");
    // A bucket is full again after 20 s; 9 s later nothing is.
    assert!(matches!(
        take(NOW + seconds(9), 3),
        Err(Refused::NoRoom { .. })
    ));
    assert!(take(NOW + seconds(9), 1).is_err(), "its bucket was kept");
    assert_eq!(take(NOW + seconds(20), 3), Ok(()));
    assert_eq!(buckets.len(), 1, "both others were full");
}

/// Looking for full buckets is work, so it is done once a second at most.
#[test]
fn sweeps_are_a_second_apart() {
    let mut buckets = Buckets::new(1);
    let fast = rate(1000, 1);
    assert_eq!(buckets.take(NOW, [(&Key::Agent(1), rate(1, 100))]), Ok(()));
    assert!(buckets.take(NOW, [(&Key::Agent(2), fast)]).is_err());
    buckets.forget(&Key::Agent(1));
    assert_eq!(buckets.take(NOW, [(&Key::Agent(2), fast)]), Ok(()));
    // Full after a millisecond, but not looked at before the second is over.
    let soon = NOW + Duration::from_millis(400);
    let retry_after = Duration::from_millis(600);
    assert_eq!(
        buckets.take(soon, [(&Key::Agent(3), fast)]),
        Err(Refused::NoRoom { retry_after })
    );
    assert_eq!(
        buckets.take(soon + retry_after, [(&Key::Agent(3), fast)]),
        Ok(())
    );
}

/// `reset_at`: the first second at which a request can pass, never beyond now + `rate_period`.
#[test]
fn reset_at() {
    let exceeded = |limit, period, millis| Exceeded {
        rate: rate(limit, period),
        current_rate: 0,
        retry_after: Duration::from_millis(millis),
    };
    let unix = Duration::from_millis(1_770_000_000_500);
    assert_eq!(exceeded(100, 60, 600).reset_at(unix), 1_770_000_002);
    assert_eq!(exceeded(100, 60, 500).reset_at(unix), 1_770_000_001);
    assert_eq!(exceeded(1, 60, 59_900).reset_at(unix), 1_770_000_060);
    assert_eq!(exceeded(1, 1, 1000).reset_at(unix), 1_770_000_001);
    assert_eq!(exceeded(100, 60, 600).retry_after_ms(), 600);
    let nanos = Exceeded {
        retry_after: Duration::from_nanos(1),
        ..exceeded(1, 1, 0)
    };
    assert_eq!(nanos.retry_after_ms(), 1);
}

/// `current_rate` counts the trailing period.
/// Proves A-7-15.
#[test]
fn current_rate_is_that_of_the_trailing_period() {
    let mut bucket = TokenBucket::new(rate(10, 10), NOW);
    for _ in 0..20 {
        let _ = bucket.take(NOW);
    }
    assert_eq!(bucket.current_rate(NOW + seconds(9)), 20);
    assert_eq!(bucket.current_rate(NOW + seconds(10)), 20);
    assert_eq!(bucket.current_rate(NOW + seconds(15)), 10);
    assert_eq!(bucket.current_rate(NOW + seconds(20)), 0);
    let _ = bucket.take(NOW + seconds(15));
    assert_eq!(bucket.current_rate(NOW + seconds(15)), 11);
    assert_eq!(bucket.current_rate(NOW + seconds(1000)), 0);
}

/// Time that goes backwards refills nothing, and what was empty stays empty.
#[test]
fn a_clock_that_goes_backwards() {
    let mut bucket = TokenBucket::new(rate(1, 10), NOW);
    assert_eq!(bucket.take(NOW), Ok(()));
    let before = NOW - seconds(100);
    let refused = bucket.take(before).unwrap_err();
    assert_eq!(refused.retry_after, seconds(110));
    assert!(bucket.take(NOW).is_err());
    assert_eq!(bucket.take(NOW + seconds(10)), Ok(()));
}

/// The largest and smallest figures there are do not overflow.
#[test]
fn extreme_figures() {
    let corners = [1, limits::RATE_LIMIT].map(|limit| [(limit, 1), (limit, limits::RATE_PERIOD)]);
    let rates: Vec<Rate> = corners
        .as_flattened()
        .iter()
        .map(|it| rate(it.0, it.1))
        .collect();
    for one in &rates {
        for other in &rates {
            let mut bucket = TokenBucket::new(*one, Duration::ZERO);
            assert_eq!(bucket.take(Duration::ZERO), Ok(()));
            bucket.set_rate(*other, Duration::MAX);
            assert_eq!(bucket.rate(), *other);
            assert_eq!(bucket.take(Duration::MAX), Ok(()));
            bucket.set_rate(*one, Duration::ZERO);
            let _ = bucket.take(Duration::ZERO);
            assert!(bucket.current_rate(Duration::MAX) <= 3);
        }
    }
    assert_eq!(Rate::new(0, 1), None);
    assert_eq!(Rate::new(1, 0), None);
    assert_eq!(Rate::new(limits::RATE_LIMIT + 1, 1), None);
    assert_eq!(Rate::new(1, limits::RATE_PERIOD + 1), None);
}

/// A reload that changes the rate keeps the tokens there are, and never adds any.
#[test]
fn another_rate_adds_no_tokens() {
    let mut bucket = TokenBucket::new(rate(10, 10), NOW);
    for _ in 0..8 {
        assert_eq!(bucket.take(NOW), Ok(()));
    }
    let passing = |bucket: &TokenBucket| {
        let mut bucket = bucket.clone();
        (0..1000).filter(|_| bucket.take(NOW).is_ok()).count()
    };
    assert_eq!(passing(&bucket), 2);
    bucket.set_rate(rate(1000, 7), NOW);
    assert_eq!(passing(&bucket), 2);
    bucket.set_rate(rate(1, 7), NOW);
    assert_eq!(passing(&bucket), 1);
    bucket.set_rate(rate(1000, 7), NOW);
    assert_eq!(passing(&bucket), 1);
}

/// Tokens are taken together or not at all, and of several empty buckets the slowest is named.
#[test]
fn tokens_are_taken_from_all_buckets_or_from_none() {
    let mut slow = TokenBucket::new(rate(1, 20), NOW);
    let mut fast = TokenBucket::new(rate(2, 10), NOW);
    assert_eq!(TokenBucket::take_all(NOW, [&mut fast, &mut slow]), Ok(()));
    let refused = TokenBucket::take_all(NOW, [&mut fast, &mut slow]).unwrap_err();
    assert_eq!(
        (refused.index, refused.exceeded.retry_after),
        (1, seconds(20))
    );
    assert_eq!(fast.take(NOW), Ok(()), "the refused request took nothing");
    let refused = TokenBucket::take_all(NOW, [&mut fast, &mut slow]).unwrap_err();
    assert_eq!(
        (refused.index, refused.exceeded.retry_after),
        (1, seconds(20))
    );
    let then = NOW + seconds(19);
    assert!(fast.is_full(then) && !slow.is_full(then) && slow.is_full(then + seconds(1)));
}

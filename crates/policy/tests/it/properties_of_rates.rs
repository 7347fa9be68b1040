//! What must hold for any requests at any time.

use std::collections::BTreeMap;
use std::time::Duration;

use policy::{Buckets, Effect, Rate, Refused, Repeat, RepeatBreaker, TokenBucket, limits};
use proptest::prelude::*;

pub(crate) fn any_rate() -> impl Strategy<Value = Rate> {
    let small = (1_u32..6, 1_u32..10);
    let large = (1..=limits::RATE_LIMIT, 1..=limits::RATE_PERIOD);
    prop_oneof![small, large].prop_map(|(limit, period)| Rate::new(limit, period).unwrap())
}

/// Nanoseconds that a request comes after the last one.
fn pause() -> impl Strategy<Value = u64> {
    prop_oneof![3 => Just(0), 3 => 0_u64..3_000_000_000, 1 => 0_u64..10_000_000_000_000]
}

/// No stretch of time has more grants than a full bucket and what came in meanwhile.
fn within_bound(grants: &[u64], rate: Rate) -> bool {
    let period = u128::from(rate.period()) * 1_000_000_000;
    let limit = u128::from(rate.limit());
    grants.iter().enumerate().all(|(i, from)| {
        grants[i..].iter().enumerate().all(|(count, to)| {
            (count as u128 + 1) * period <= limit * period + u128::from(to - from) * limit
        })
    })
}

proptest! {
    /// Whatever is asked for whenever, with more keys than there is room for: no key gets more than
    /// its bucket and its rate give, and a request takes from all its buckets or none.
    /// Proves A-7-11.
    #[test]
    fn buckets_never_give_too_much(
        rates in prop::collection::vec(any_rate(), 4),
        requests in prop::collection::vec((pause(), 0_usize..4, 0_usize..4), 1..120),
        capacity in 1_usize..5,
    ) {
        let mut buckets = Buckets::new(capacity);
        let mut grants: BTreeMap<usize, Vec<u64>> = BTreeMap::new();
        let mut now = 0;
        for (pause, a, b) in requests {
            now += pause;
            let wanted = [(&a, rates[a]), (&b, rates[b])];
            if buckets.take(Duration::from_nanos(now), wanted).is_ok() {
                grants.entry(a).or_default().push(now);
                grants.entry(b).or_default().push(now);
            }
            prop_assert!(buckets.len() <= capacity);
        }
        for (key, times) in grants {
            prop_assert!(within_bound(&times, rates[key]), "{key}: {:?}", rates[key]);
        }
    }

    /// `retry_after` is exact: a nanosecond before it there is no token.
    #[test]
    fn retry_after_is_the_first_moment(
        rate in any_rate(),
        pauses in prop::collection::vec(pause(), 1..60),
    ) {
        let mut bucket = TokenBucket::new(rate, Duration::ZERO);
        let mut now = Duration::ZERO;
        for pause in pauses {
            now += Duration::from_nanos(pause);
            if let Err(exceeded) = bucket.take(now) {
                let then = now + exceeded.retry_after;
                prop_assert!(bucket.clone().take(then - Duration::from_nanos(1)).is_err());
                prop_assert_eq!(bucket.clone().take(then), Ok(()));
                prop_assert!(exceeded.retry_after <= Duration::from_secs(rate.period().into()));
            }
        }
    }

    /// Changing rates never give more than the larger of all.
    #[test]
    fn changing_rates_give_no_more_than_the_largest(
        rates in prop::collection::vec((1_u32..6, 1_u32..6), 3),
        requests in prop::collection::vec((0_u64..2_000_000_000, 0_usize..3), 1..100),
    ) {
        let largest = Rate::new(
            rates.iter().map(|rate| rate.0).max().unwrap(),
            rates.iter().map(|rate| rate.1).min().unwrap(),
        );
        let rates: Vec<Rate> = rates.iter().map(|it| Rate::new(it.0, it.1).unwrap()).collect();
        let mut buckets = Buckets::new(1);
        let (mut grants, mut now) = (Vec::new(), 0);
        for (pause, index) in requests {
            now += pause;
            let taken = buckets.take(Duration::from_nanos(now), [(&(), rates[index])]);
            if taken.is_ok() {
                grants.push(now);
            }
            let refused_for_room = matches!(taken, Err(Refused::NoRoom { .. }));
            prop_assert!(!refused_for_room);
        }
        prop_assert!(within_bound(&grants, largest.unwrap()));
    }

    /// Two rates tightened are within both, whatever they are.
    #[test]
    fn tightened_rates_are_within_both(own in any_rate(), asked in any_rate()) {
        let merged = own.tightened_by(asked);
        prop_assert!(merged.is_within(own));
        prop_assert!(merged.is_at_most(asked));
        prop_assert_eq!(Rate::new(merged.limit(), merged.period()), Some(merged));
    }

    #[test]
    fn the_breaker_counts_as_the_log_says(
        calls in 2_u32..5,
        window in 1_u64..20,
        requests in prop::collection::vec((0_u64..6, 0_u8..3), 1..100),
    ) {
        let repeat = Repeat::new(calls, Duration::from_secs(window), Effect::RequireApproval).unwrap();
        let mut breaker = RepeatBreaker::new(repeat);
        let (mut log, mut now) = (Vec::new(), 0_u64);
        for (pause, call) in requests {
            now += pause;
            log.push((now, call));
            let same = log.iter().filter(|(at, it)| *it == call && now - at < window).count();
            let stopped = breaker.observe(Duration::from_secs(now), &[call; 32]).is_some();
            prop_assert_eq!(stopped, same >= calls as usize);
        }
    }
}

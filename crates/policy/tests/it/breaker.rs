//! The repeat breaker.

use std::time::Duration;

use policy::{Effect, Repeat, RepeatBreaker, limits};

use crate::seconds;

const A: [u8; 32] = [1; 32];
const B: [u8; 32] = [2; 32];

fn breaker(calls: u32, window: u64) -> RepeatBreaker {
    RepeatBreaker::new(Repeat::new(calls, seconds(window), Effect::RequireApproval).unwrap())
}

#[test]
fn the_nth_same_call_in_the_window_is_stopped() {
    let mut breaker = breaker(3, 60);
    assert_eq!(breaker.observe(seconds(0), &A), None);
    assert_eq!(breaker.observe(seconds(1), &B), None);
    assert_eq!(breaker.observe(seconds(2), &A), None);
    assert_eq!(
        breaker.observe(seconds(3), &A),
        Some(Effect::RequireApproval)
    );
    assert_eq!(breaker.observe(seconds(4), &B), None);
    assert_eq!(
        breaker.observe(seconds(5), &B),
        Some(Effect::RequireApproval)
    );
}

/// A call is forgotten when the window has passed; one that was stopped counts too.
#[test]
fn an_agent_in_a_loop_stays_stopped_until_it_pauses() {
    let mut breaker = breaker(3, 60);
    for at in [0, 10] {
        assert_eq!(breaker.observe(seconds(at), &A), None);
    }
    for at in [20, 59, 61, 80, 118] {
        assert_eq!(
            breaker.observe(seconds(at), &A),
            Some(Effect::RequireApproval),
            "{at} s"
        );
    }
    assert_eq!(breaker.observe(seconds(178), &A), None);
    assert_eq!(breaker.observe(seconds(238), &A), None);
}

#[test]
fn an_approved_call_is_forgotten() {
    let mut breaker = breaker(2, 60);
    assert_eq!(breaker.observe(seconds(0), &A), None);
    assert_eq!(breaker.observe(seconds(0), &B), None);
    assert_eq!(
        breaker.observe(seconds(1), &A),
        Some(Effect::RequireApproval)
    );
    breaker.forget(&A);
    assert_eq!(breaker.observe(seconds(2), &A), None);
    assert_eq!(
        breaker.observe(seconds(2), &B),
        Some(Effect::RequireApproval)
    );
}

#[test]
fn another_setting_goes_on_with_what_is_remembered() {
    let mut breaker = breaker(5, 60);
    for at in 0..2 {
        assert_eq!(breaker.observe(seconds(at), &A), None);
    }
    breaker.set(Repeat::new(3, seconds(60), Effect::Deny).unwrap());
    assert_eq!(breaker.observe(seconds(2), &A), Some(Effect::Deny));
}

/// As many calls are remembered as the limit says: with one more between them a call is new.
#[test]
fn memory_at_the_limit_and_past_it() {
    let other = |n: usize| {
        let mut call = [9; 32];
        call[..8].copy_from_slice(&n.to_be_bytes());
        call
    };
    for (between, outcome) in [
        (limits::REPEAT_MEMORY - 2, Some(Effect::RequireApproval)),
        (limits::REPEAT_MEMORY - 1, None),
    ] {
        let mut breaker = breaker(2, 60);
        assert_eq!(breaker.observe(seconds(0), &A), None);
        for n in 0..between {
            assert_eq!(breaker.observe(seconds(0), &other(n)), None);
        }
        assert_eq!(
            breaker.observe(seconds(0), &A),
            outcome,
            "{between} between"
        );
    }
}

/// Time that goes backwards does not make old calls young or young ones old.
#[test]
fn a_clock_that_goes_backwards() {
    let mut breaker = breaker(2, 60);
    assert_eq!(breaker.observe(seconds(100), &A), None);
    assert_eq!(
        breaker.observe(seconds(10), &A),
        Some(Effect::RequireApproval)
    );
    assert_eq!(
        breaker.observe(seconds(159), &A),
        Some(Effect::RequireApproval)
    );
    assert_eq!(breaker.observe(Duration::MAX, &A), None);
}

#[test]
fn settings_at_their_limits_and_past_them() {
    let day = seconds(u64::from(limits::REPEAT_WINDOW));
    assert!(Repeat::new(2, Duration::from_nanos(1), Effect::Deny).is_some());
    assert!(Repeat::new(limits::REPEAT_CALLS, day, Effect::RequireApproval).is_some());
    for (calls, window, then) in [
        (1, day, Effect::RequireApproval),
        (limits::REPEAT_CALLS + 1, day, Effect::RequireApproval),
        (2, Duration::ZERO, Effect::RequireApproval),
        (2, day + Duration::from_nanos(1), Effect::RequireApproval),
        (2, day, Effect::Allow),
    ] {
        assert_eq!(Repeat::new(calls, window, then), None);
    }
}

use std::time::Duration;

use super::super::component::{Seen, What};
use super::*;

fn component(scores: &[f64]) -> Component {
    let mut component = Component::default();
    for score in scores {
        let seen = Seen {
            score: *score,
            at: 1.0,
            what: What::Lived {
                duration_ms: None,
                is_tool: false,
            },
        };
        component.see(&seen, Duration::from_secs(3600));
    }
    component
}

/// A good one that is well known, a middling one, a bad one, and one that is nearly unknown.
fn weights(strategy: Strategy, current: &BTreeMap<String, f64>, seed: u64) -> [f64; 4] {
    let (good, middling, bad) = (
        component(&[0.9; 100]),
        component(&[0.0; 100]),
        component(&[-0.9; 100]),
    );
    let new = component(&[0.2]);
    let all = BTreeMap::from([("a", &good), ("b", &middling), ("c", &bad), ("d", &new)]);
    let weights = strategy.weights(&all, current, &mut Random::new(seed));
    assert_eq!(weights.len(), 4);
    ["a", "b", "c", "d"].map(|name| weights[name])
}

#[test]
fn weights_follow_what_was_learned() {
    use Strategy::{EpsilonGreedy, Softmax, Ucb1};
    let none = BTreeMap::new();
    for strategy in [EpsilonGreedy, Softmax] {
        let [good, middling, bad, _] = weights(strategy, &none, 1);
        assert_eq!(good, 1.0, "{strategy:?}");
        assert!(
            middling < 0.2 && middling >= bad && bad >= LEAST,
            "{strategy:?}"
        );
    }
    // What is hardly known is tried first.
    let [good, middling, bad, new] = weights(Ucb1, &none, 1);
    assert_eq!(new, 1.0);
    assert!(new > good && good > middling && middling > bad);
}

/// However much better one is, its weight moves by a fifth at once.
#[test]
fn the_ppo_update_is_clipped() {
    let mut current = BTreeMap::new();
    let mut last = [NEUTRAL; 4];
    for _ in 0..200 {
        let now = weights(Strategy::Ppo, &current, 1);
        for (now, last) in now.iter().zip(last) {
            let ratio = now / last;
            assert!((0.8 - 1e-9..=1.2 + 1e-9).contains(&ratio), "{ratio}");
        }
        assert!(now[0] >= last[0] && now[2] <= last[2]);
        last = now;
        let names = ["a", "b", "c", "d"].map(str::to_owned);
        current = names.into_iter().zip(now).collect();
    }
    assert_eq!((last[0], last[2]), (1.0, LEAST));
    // One alone moves by what it is worth itself.
    let good = component(&[1.0; 10]);
    let alone = BTreeMap::from([("a", &good)]);
    let moved = Strategy::Ppo.weights(&alone, &BTreeMap::new(), &mut Random::new(1));
    assert_eq!(moved["a"], NEUTRAL * 1.2);
}

/// A draw of Thompson's is the better one's in proportion to how sure that is.
#[test]
fn thompson_draws_from_what_each_may_be_worth() {
    let mut won = [0_u32; 4];
    for seed in 0..2000 {
        let weights = weights(Strategy::Thompson, &BTreeMap::new(), seed);
        let best = (0..4).max_by(|one, other| weights[*one].total_cmp(&weights[*other]));
        won[best.unwrap()] += 1;
    }
    // The good one mostly, and sometimes the one of which nobody knows.
    assert!(won[0] > 1700 && won[3] > 20, "{won:?}");
    assert_eq!((won[1], won[2]), (0, 0));
}

#[test]
fn draws_have_the_mean_of_their_distribution() {
    let mut random = Random::new(7);
    for (one, other) in [(1.0, 1.0), (2.0, 5.0), (80.0, 20.0)] {
        let sum: f64 = (0..20_000).map(|_| random.beta(one, other)).sum();
        let (mean, expected) = (sum / 20_000.0, one / (one + other));
        assert!((mean - expected).abs() < 0.01, "{mean} of {expected}");
    }
}

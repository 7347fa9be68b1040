//! What must hold for any input.

use std::collections::BTreeMap;
use std::time::Duration;

use policy::{
    Buckets, Effect, Glob, IntentList, IntentName, IntentPattern, Layer, Policy, Rate, Refused,
    Repeat, RepeatBreaker, RuleConfig, Rules, RulesConfig, TokenBucket, TrustLevel, limits,
    tightens,
};
use proptest::prelude::*;
use serde_json::{Value as Json, json};

use crate::reference::{self, CONDITIONS, Sample};
use crate::{CAPABILITIES, policy as read_policy, server};

fn compile(config: &RulesConfig) -> Rules {
    let place = "policy";
    Rules::compile(&[Layer { place, config }], &CAPABILITIES).unwrap()
}

fn effect() -> impl Strategy<Value = Effect> {
    prop::sample::select(vec![Effect::Allow, Effect::Hold, Effect::Deny])
}

fn trust() -> impl Strategy<Value = TrustLevel> {
    use TrustLevel::{Delegated, Own, Verified};
    prop::sample::select(vec![Own, Delegated, Verified])
}

fn list<T: std::fmt::Debug + Clone>(
    of: impl Strategy<Value = T> + Clone,
) -> impl Strategy<Value = Option<Vec<T>>> {
    prop::option::weighted(0.4, prop::collection::vec(of, 1..3))
}

fn capability() -> impl Strategy<Value = String> + Clone {
    prop::sample::select(vec!["tools", "proc", "memory"]).prop_map(str::to_owned)
}

fn rule() -> impl Strategy<Value = RuleConfig> {
    let pattern = || "[ab*]{1,4}";
    let when = prop::option::weighted(0.3, prop::sample::select(CONDITIONS.to_vec()));
    (
        (list(pattern()), list(pattern()), list(pattern())),
        prop::option::weighted(0.2, prop::collection::vec(trust(), 1..3)),
        list(capability()),
        when,
        effect(),
    )
        .prop_map(
            |((agent, did, name), trust, capability, when, then)| RuleConfig {
                id: None,
                agent,
                did,
                trust,
                capability,
                name,
                when: when.map(str::to_owned),
                then,
                reason: None,
            },
        )
}

fn config() -> impl Strategy<Value = RulesConfig> {
    let defaults = prop::collection::btree_map(capability(), effect(), 0..3);
    (
        prop::option::of(effect()),
        defaults,
        prop::collection::vec(rule(), 0..8),
    )
        .prop_map(|(default, defaults, rules)| RulesConfig {
            default,
            defaults,
            rules,
            ..RulesConfig::default()
        })
}

fn sample() -> impl Strategy<Value = Sample> {
    let value = prop::sample::select(vec![
        json!(1),
        json!(2),
        json!("ab"),
        json!(true),
        json!(null),
    ]);
    let arguments =
        prop::collection::btree_map(prop::sample::select(vec!["n", "s", "b"]), value, 0..4);
    (
        "[ab]{0,3}",
        prop::option::of("[ab]{1,3}"),
        prop::option::of(trust()),
        prop_oneof![4 => capability(), 1 => Just("unheard_of".to_owned())],
        "[ab]{0,4}",
        arguments,
    )
        .prop_map(|(id, did, trust, capability, name, arguments)| Sample {
            id,
            did,
            trust,
            capability,
            name,
            arguments: json!(arguments),
        })
}

/// A change of rules, as someone might make it.
#[derive(Debug, Clone)]
enum Edit {
    Insert(usize, RuleConfig),
    Remove(usize),
    Effect(usize, Effect),
    Swap(usize, usize),
    Names(usize, Vec<String>),
    Default(Effect),
}

fn edit() -> impl Strategy<Value = Edit> {
    let at = 0_usize..8;
    prop_oneof![
        (at.clone(), rule()).prop_map(|(at, rule)| Edit::Insert(at, rule)),
        at.clone().prop_map(Edit::Remove),
        (at.clone(), effect()).prop_map(|(at, effect)| Edit::Effect(at, effect)),
        (at.clone(), at.clone()).prop_map(|(a, b)| Edit::Swap(a, b)),
        (at, prop::collection::vec("[ab*]{1,3}", 1..3)).prop_map(|(at, it)| Edit::Names(at, it)),
        effect().prop_map(Edit::Default),
    ]
}

fn apply(config: &mut RulesConfig, edit: &Edit) {
    let rules = &mut config.rules;
    let count = rules.len();
    match edit {
        Edit::Insert(at, rule) => rules.insert((*at).min(count), rule.clone()),
        Edit::Default(effect) => config.default = Some(*effect),
        Edit::Remove(_) | Edit::Effect(..) | Edit::Swap(..) | Edit::Names(..) if count == 0 => {}
        Edit::Remove(at) => drop(rules.remove(at % count)),
        Edit::Effect(at, effect) => rules[at % count].then = *effect,
        Edit::Swap(a, b) => rules.swap(a % count, b % count),
        Edit::Names(at, names) => rules[at % count].name = Some(names.clone()),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// The first match wins, as the plain reading says.
    #[test]
    fn decisions_are_those_of_the_reference(
        config in config(),
        samples in prop::collection::vec(sample(), 20),
    ) {
        let rules = compile(&config);
        for sample in samples {
            let decision = rules.decide(&sample.call());
            let expected = reference::decide(&config, &CAPABILITIES, &sample);
            prop_assert_eq!((decision.effect, decision.rule.to_owned()), expected, "{:?}", sample);
        }
    }

    /// What is said to tighten never decides a call less strictly.
    #[test]
    fn what_tightens_is_nowhere_looser(
        old in config(),
        edits in prop::collection::vec(edit(), 1..4),
        samples in prop::collection::vec(sample(), 60),
    ) {
        let mut new = old.clone();
        for edit in &edits {
            apply(&mut new, edit);
        }
        let (old, new) = (compile(&old), compile(&new));
        prop_assert_eq!(tightens(&old, &old), Ok(()));
        if tightens(&old, &new).is_ok() {
            for sample in samples {
                let (before, after) = (old.decide(&sample.call()), new.decide(&sample.call()));
                prop_assert!(after.effect >= before.effect, "{before} to {after}: {sample:?}");
            }
        }
    }

    #[test]
    fn globs_are_those_of_the_reference(pattern in "[abö*]{1,8}", text in "[abö]{0,10}") {
        let glob = Glob::parse(&pattern).unwrap();
        prop_assert_eq!(glob.matches(&text), reference::glob(&pattern, &text));
    }
}

fn any_rate() -> impl Strategy<Value = Rate> {
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
        let repeat = Repeat::new(calls, Duration::from_secs(window), Effect::Hold).unwrap();
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

fn label() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["a", "b", "c", "v1", "v2"]).prop_map(str::to_owned)
}

fn intent() -> impl Strategy<Value = String> {
    prop::collection::vec(label(), 1..4).prop_map(|labels| labels.join("."))
}

fn pattern() -> impl Strategy<Value = String> {
    prop_oneof![
        1 => Just("*".to_owned()),
        4 => intent(),
        4 => intent().prop_map(|prefix| format!("{prefix}.*")),
    ]
    .prop_filter("a pattern", |text| IntentPattern::parse(text).is_ok())
}

fn stated() -> impl Strategy<Value = Json> {
    let patterns = || prop::option::of(prop::collection::vec(pattern(), 0..4));
    let words = ["none", "session", "24h", "7d", "30d", "permanent"];
    (
        prop::option::of(any_rate()),
        prop::option::of(1_u32..1000),
        prop::option::of(1_u32..1000),
        (patterns(), patterns()),
        prop::option::of(prop::sample::select(words.to_vec())),
        prop::option::of(any::<bool>()),
        prop::option::of(1_u32..1000),
    )
        .prop_map(|(rate, timeout, size, (allowed, blocked), retention, encryption, sessions)| {
            let mut document = json!({
                "rate_limit": rate.map(Rate::limit), "rate_period": rate.map(Rate::period),
                "session_timeout": timeout, "max_payload_size": size, "allowed_intents": allowed,
                "blocked_intents": blocked, "data_retention": retention,
                "require_encryption": encryption, "max_concurrent_sessions": sessions,
            });
            document.as_object_mut().unwrap().retain(|_, value| !value.is_null());
            document
        })
}

proptest! {
    /// Whatever a client asks for, the policy in force allows nothing that the server's own does
    /// not, and nothing that the client does not want.
    #[test]
    fn a_merged_policy_is_never_looser(
        own in stated(),
        asked in stated(),
        names in prop::collection::vec(intent(), 30),
    ) {
        let (own, asked) = (server(&own), read_policy(&asked));
        let merged = own.tightened_by(&asked).unwrap();
        prop_assert!(merged.rate().is_within(own.rate()));
        prop_assert!(merged.session_timeout() <= own.session_timeout());
        prop_assert!(merged.max_payload_size() <= own.max_payload_size());
        prop_assert!(merged.max_concurrent_sessions() <= own.max_concurrent_sessions());
        prop_assert!(merged.data_retention() <= own.data_retention());
        prop_assert!(merged.require_encryption() >= own.require_encryption());
        let demanded = asked.data_retention().unwrap_or(policy::Retention::Permanent);
        prop_assert!(merged.data_retention() <= demanded);
        for name in names.iter().filter_map(|name| IntentName::parse(name).ok()) {
            if merged.check_intent(&name, None).is_ok() {
                prop_assert_eq!(own.check_intent(&name, None), Ok(()), "{}", &name);
                prop_assert_eq!(asked.check_intent(&name, None), Ok(()), "{}", &name);
            }
        }
    }

    /// What is sent reads back as the same.
    #[test]
    fn a_policy_reads_back(document in stated()) {
        let policy = read_policy(&document);
        let read = |tree| Policy::read(&tree, limits::PAYLOAD_CEILING);
        prop_assert_eq!(read(policy.to_tree()), Ok(policy.clone()));
        let complete = policy.complete();
        prop_assert_eq!(read(complete.to_tree()).map(Policy::complete), Ok(complete));
    }

    /// A name is canonical, wherever one cuts it into domain and goal.
    #[test]
    fn names_are_canonical(text in intent(), cut in 0_usize..4) {
        let Ok(name) = IntentName::parse(&text.to_uppercase()) else {
            return Ok(());
        };
        prop_assert_eq!(IntentName::parse(name.as_str()), Ok(name.clone()));
        let labels: Vec<&str> = text.split('.').collect();
        let (domain, goal) = labels.split_at(cut.min(labels.len() - 1));
        let (domain, goal) = (domain.join("."), goal.join("."));
        // A goal that happens to begin with its domain is the whole name already.
        if !goal.starts_with(&format!("{domain}.")) {
            prop_assert_eq!(IntentName::of(&domain, &goal), Ok(name));
        }
    }

    /// What an allow list lets through, the same list as a block list stops.
    #[test]
    fn blocking_is_wider_than_allowing(pattern in pattern(), text in intent()) {
        let pattern = IntentPattern::parse(&pattern).unwrap();
        if let Ok(name) = IntentName::parse(&text)
            && pattern.matches(&name, IntentList::Allowed)
        {
            prop_assert!(pattern.matches(&name, IntentList::Blocked));
        }
    }
}

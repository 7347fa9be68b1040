//! What must hold for any rules.

use policy::{
    Effect, Glob, Layer, PartialCall, PartialName, RuleConfig, Rules, RulesConfig, TrustLevel,
    tightens, tightens_listing,
};
use proptest::prelude::*;
use serde_json::json;

use crate::CAPABILITIES;
use crate::reference::{self, CONDITIONS, Sample};

fn compile(config: &RulesConfig) -> Rules {
    let place = "policy";
    Rules::compile(&[Layer { place, config }], &CAPABILITIES).unwrap()
}

fn effect() -> impl Strategy<Value = Effect> {
    prop::sample::select(vec![Effect::Allow, Effect::RequireApproval, Effect::Deny])
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
            |((agent, did, name), trust, capability, when, action)| RuleConfig {
                id: None,
                agent,
                did,
                trust,
                capability,
                name,
                when: when.map(str::to_owned),
                action,
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
        Edit::Effect(at, effect) => rules[at % count].action = *effect,
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

    /// What is said to tighten never decides a request that lists less strictly.
    #[test]
    fn what_tightens_a_listing_is_nowhere_looser(
        old in config(),
        edits in prop::collection::vec(edit(), 1..4),
        samples in prop::collection::vec(sample(), 20),
    ) {
        let mut new = old.clone();
        for edit in &edits {
            apply(&mut new, edit);
        }
        let (old, new) = (compile(&old), compile(&new));
        for sample in samples {
            let (capability, name) = (&sample.capability, &sample.name);
            if tightens_listing(&old, &new, capability, name).is_ok() {
                let call = sample.call();
                let (before, after) = (old.decide_listing(&call), new.decide_listing(&call));
                prop_assert!(after.effect >= before.effect, "{before} to {after}: {sample:?}");
            }
        }
    }

    /// What is allowed or held could be, however little is known of it.
    #[test]
    fn what_is_let_through_could_be_allowed(
        config in config(),
        samples in prop::collection::vec(sample(), 20),
        known in 0_usize..4,
    ) {
        let rules = compile(&config);
        for sample in samples {
            let call = sample.call();
            let shorter: String = sample.name.chars().take(known).collect();
            let name = match known {
                0 => PartialName::Exact(&sample.name),
                _ => PartialName::Prefix(&shorter),
            };
            let all = sample.arguments.as_object().cloned().unwrap_or_default();
            let some = all.clone().into_iter().take(known).collect();
            for arguments in [&all, &some] {
                let partial = PartialCall {
                    agent: call.agent,
                    capability: call.capability,
                    name,
                    arguments,
                };
                let is_possible = rules.may_allow(&partial);
                let decision = rules.decide(&call);
                prop_assert!(is_possible || decision.effect == Effect::Deny, "{partial:?}");
                // All that conditions read is known.
                if known == 0 && arguments.len() == 3 {
                    prop_assert_eq!(is_possible, decision.effect != Effect::Deny, "{:?}", partial);
                }
            }
        }
    }

    #[test]
    fn globs_are_those_of_the_reference(pattern in "[abö*]{1,8}", text in "[abö]{0,10}") {
        let glob = Glob::parse(&pattern).unwrap();
        prop_assert_eq!(glob.matches(&text), reference::glob(&pattern, &text));
    }
}

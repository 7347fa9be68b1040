//! Any condition that is taken, on any arguments, decides: the library neither panics nor runs away.

use policy::{Agent, Call, Effect, Layer, Reason, RuleConfig, Rules, RulesConfig};
use proptest::prelude::*;
use serde_json::{Value as Json, json};

use crate::CAPABILITIES;

const FUNCTIONS: [&str; 26] = [
    "abs",
    "avg",
    "ceil",
    "contains",
    "ends_with",
    "floor",
    "join",
    "keys",
    "length",
    "map",
    "max",
    "max_by",
    "merge",
    "min",
    "min_by",
    "not_null",
    "reverse",
    "sort",
    "sort_by",
    "starts_with",
    "sum",
    "to_array",
    "to_number",
    "to_string",
    "type",
    "values",
];

fn number() -> impl Strategy<Value = i32> {
    prop_oneof![4 => -3..4_i32, 1 => any::<i32>()]
}

fn expression() -> impl Strategy<Value = String> {
    let bound =
        || prop::option::of(number()).prop_map(|it| it.map_or(String::new(), |n| n.to_string()));
    let leaf = prop_oneof![
        prop::sample::select(vec!["@", "a", "b", "*", "[]", "[*]", "'x'", "''", "\"a\""])
            .prop_map(str::to_owned),
        prop::sample::select(vec![
            "`1e308`",
            "`-1.5`",
            "`18446744073709551615`",
            "`[1,\"a\"]`",
            "`{}`"
        ])
        .prop_map(str::to_owned),
        number().prop_map(|n| format!("[{n}]")),
        (bound(), bound(), bound()).prop_map(|(a, b, c)| format!("[{a}:{b}:{c}]")),
    ];
    leaf.prop_recursive(5, 24, 3, |part| {
        let pair = (part.clone(), part.clone());
        let operator =
            prop::sample::select(vec![" | ", ".", " && ", " || ", " == ", " < ", " >= "]);
        prop_oneof![
            (pair.clone(), operator).prop_map(|((a, b), it)| format!("{a}{it}{b}")),
            part.clone().prop_map(|a| format!("!{a}")),
            part.clone().prop_map(|a| format!("({a})")),
            pair.clone().prop_map(|(a, b)| format!("{a}[?{b}]")),
            pair.clone().prop_map(|(a, b)| format!("{a}[*].{b}")),
            pair.clone().prop_map(|(a, b)| format!("[{a}, {b}]")),
            pair.clone()
                .prop_map(|(a, b)| format!("{{x: {a}, y: {b}}}")),
            (prop::sample::select(FUNCTIONS.to_vec()), part)
                .prop_map(|(name, a)| format!("{name}({a})")),
            (prop::sample::select(FUNCTIONS.to_vec()), pair.clone())
                .prop_map(|(name, (a, b))| format!("{name}({a}, {b})")),
            (prop::sample::select(FUNCTIONS.to_vec()), pair)
                .prop_map(|(name, (a, b))| format!("{name}({a}, &{b})")),
        ]
    })
}

fn arguments() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::from),
        any::<i64>().prop_map(Json::from),
        any::<u64>().prop_map(Json::from),
        prop::sample::select(vec![
            json!(0),
            json!(-0.0),
            json!(1e308),
            json!(-1e308),
            json!(5e-324)
        ]),
        "[aä\\x00]{0,4}".prop_map(Json::from),
    ];
    leaf.prop_recursive(4, 24, 4, |value| {
        let members = prop::collection::btree_map(
            prop::sample::select(vec!["a", "b", "c"]),
            value.clone(),
            0..4,
        );
        prop_oneof![
            prop::collection::vec(value, 0..5).prop_map(Json::from),
            members.prop_map(|members| json!(members)),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn a_condition_that_is_taken_decides(when in expression(), arguments in arguments()) {
        let config = RulesConfig {
            rules: vec![RuleConfig {
                id: None,
                agent: None,
                did: None,
                trust: None,
                capability: None,
                name: None,
                when: Some(when),
                action: Effect::RequireApproval,
                reason: None,
            }],
            ..RulesConfig::default()
        };
        let layer = Layer { place: "policy", config: &config };
        let Ok(rules) = Rules::compile(&[layer], &CAPABILITIES) else {
            return Ok(());
        };
        let agent = Agent { id: "a", did: None, trust: None };
        let call = Call { agent, capability: "tools", name: "x", arguments: &arguments };
        let decision = rules.decide(&call);
        let expected = match decision.reason {
            Reason::Rule(_) => Effect::RequireApproval,
            Reason::Default => Effect::Allow,
            Reason::Condition(_) => Effect::Deny,
        };
        prop_assert_eq!(decision.effect, expected);
    }
}

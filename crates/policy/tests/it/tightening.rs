//! A reload by file watch may only tighten.

use policy::{Calls, Effect, Layer, Loosening, Rules, tightens};
use serde_json::{Value as Json, json};

use crate::{CAPABILITIES, config, rules};

fn of(list: &Json) -> Rules {
    rules(&json!({"rules": list}))
}

#[track_caller]
fn tighter(old: &Json, new: &Json) {
    assert_eq!(tightens(&of(old), &of(new)), Ok(()));
}

#[track_caller]
fn looser(old: &Json, new: &Json) -> Loosening {
    tightens(&of(old), &of(new)).unwrap_err()
}

/// For tools, whose built-in default is to allow.
fn rule(name: &str, then: &str) -> Json {
    json!({"capability": "tools", "name": name, "then": then})
}

fn when(name: &str, condition: &str, then: &str) -> Json {
    json!({"capability": "tools", "name": name, "when": condition, "then": then})
}

#[test]
fn what_tightens() {
    let (write, all) = (rule("write*", "hold"), rule("*", "allow"));
    let both = json!([write, all]);
    tighter(&both, &both);
    tighter(&json!([]), &json!([rule("x", "deny")]));
    tighter(
        &both,
        &json!([rule("x", "deny"), write, all, rule("y", "deny")]),
    );
    tighter(&both, &json!([write]));
    tighter(&both, &json!([rule("write*", "deny"), all]));
    tighter(&both, &json!([rule("w*", "hold"), all]));
    tighter(
        &both,
        &json!([write, rule("read*", "allow"), rule("*", "deny")]),
    );
    // A new hold among what was allowed.
    tighter(&json!([]), &json!([rule("edit", "hold")]));
    tighter(&both, &json!([rule("edit", "hold"), write, all]));
    // Rules that cannot meet may change places.
    tighter(
        &json!([rule("a*", "hold"), rule("b*", "deny")]),
        &json!([rule("b*", "deny"), rule("a*", "hold")]),
    );
    // Names and reasons do not matter.
    tighter(
        &json!([{"then": "hold", "name": "x"}]),
        &json!([{"then": "hold", "name": "x", "id": "x", "reason": "because"}]),
    );
}

#[test]
fn what_loosens() {
    let deny = json!([rule("rm", "deny")]);
    let reason = looser(&deny, &json!([]));
    assert_eq!(
        reason,
        Loosening::Uncaught {
            new: "built-in".into(),
            effect: Effect::Allow,
            calls: Calls::Of("tools".into()),
            old: "policy.rules[0]".into(),
        }
    );
    looser(&deny, &json!([rule("rm", "hold")]));
    looser(&deny, &json!([rule("rm", "allow")]));
    looser(&deny, &json!([rule("r", "deny")]));
    looser(&deny, &json!([rule("rm*", "hold"), rule("rm", "deny")]));
    looser(&deny, &json!([rule("*", "allow"), rule("rm", "deny")]));
    looser(&json!([rule("r*", "deny")]), &deny);
    looser(&json!([rule("*", "deny")]), &json!([rule("*", "hold")]));
    // Restricting a denial to some agents, some arguments, another capability.
    for (member, value) in [
        ("agent", json!("a")),
        ("did", json!("did:key:*")),
        ("trust", json!(["self", "delegated", "verified"])),
        ("when", json!("x == `1`")),
        ("capability", json!("proc")),
    ] {
        let mut narrower = rule("rm", "deny");
        narrower[member] = value;
        looser(&deny, &json!([narrower]));
    }
    let text = looser(
        &json!([rule("a*", "deny"), rule("ab", "hold")]),
        &json!([rule("ab", "hold")]),
    );
    assert_eq!(
        text.to_string(),
        "`policy.rules[0]` may hold calls of `tools` that `policy.rules[0]` of before caught first, \
         and nothing before `policy.rules[0]` catches all of these now"
    );
    let memory = json!({"capability": "memory", "name": "x", "then": "allow"});
    assert_eq!(
        looser(&json!([]), &json!([memory])).to_string(),
        "`policy.rules[0]` may allow calls of `memory` that nothing before did as a whole"
    );
}

/// A rule without a capability is compared with what decided about each capability before.
#[test]
fn rules_for_all_capabilities() {
    let ask = |then: &str| json!({"rules": [{"id": "ask", "name": "run*", "then": then}]});
    let by = |default: &str, rules: &Json| {
        let mut section = rules.clone();
        section["default"] = json!(default);
        section
    };
    let none = json!({});
    for (old, new, good) in [
        // Allow to hold, hold to allow, deny to hold, hold to deny.
        (by("allow", &none), by("allow", &ask("hold")), true),
        (by("allow", &ask("hold")), by("allow", &none), false),
        (by("allow", &ask("hold")), by("allow", &ask("allow")), false),
        (by("allow", &ask("deny")), by("allow", &ask("hold")), false),
        (by("allow", &ask("hold")), by("allow", &ask("deny")), true),
        (by("hold", &none), by("hold", &ask("hold")), true),
        (by("hold", &none), by("hold", &ask("allow")), false),
        (by("deny", &none), by("deny", &ask("hold")), false),
        // The built-in defaults: memory, which they deny, would be held.
        (none.clone(), ask("hold"), false),
        (none.clone(), ask("deny"), true),
        // Defaults of single capabilities.
        (
            json!({"default": "allow", "defaults": {"proc": "deny"}}),
            json!({"default": "allow", "defaults": {"proc": "deny"}, "rules": ask("hold")["rules"]}),
            false,
        ),
        (
            json!({"default": "allow", "defaults": {"proc": "hold"}}),
            json!({"default": "allow", "defaults": {"proc": "hold"}, "rules": ask("hold")["rules"]}),
            true,
        ),
        // One rule for all instead of one for each, and back.
        (
            json!({"default": "allow", "rules": [
                {"capability": "tools", "name": "run*", "then": "hold"},
                {"capability": ["proc", "memory"], "name": "r*", "then": "hold"},
            ]}),
            by("allow", &ask("hold")),
            false,
        ),
        (
            by("allow", &ask("hold")),
            json!({"default": "allow", "rules": [
                {"capability": "tools", "name": "run*", "then": "hold"},
                {"capability": ["proc", "memory"], "name": "r*", "then": "hold"},
                {"name": "run*", "then": "hold"},
            ]}),
            true,
        ),
    ] {
        let outcome = tightens(&rules(&old), &rules(&new));
        assert_eq!(outcome.is_ok(), good, "{old} to {new}: {outcome:?}");
    }
    let reason = tightens(&rules(&none), &rules(&ask("hold"))).unwrap_err();
    assert_eq!(
        reason.to_string(),
        "`ask` may hold calls of `memory` that nothing before did as a whole"
    );
}

/// As a node has it: every capability there is, each allowed.
#[test]
fn a_hold_among_what_a_node_allows() {
    let of = |json: &Json| {
        let (config, place) = (config(json), "policy");
        let layer = Layer {
            place,
            config: &config,
        };
        Rules::compile(
            &[layer],
            &[("tools", Effect::Allow), ("proc", Effect::Allow)],
        )
        .unwrap()
    };
    let ask = |then: &str| of(&json!({"rules": [{"id": "ask", "name": "run*", "then": then}]}));
    let none = of(&json!({}));
    assert_eq!(tightens(&none, &ask("hold")), Ok(()));
    assert_eq!(tightens(&ask("hold"), &ask("deny")), Ok(()));
    assert!(tightens(&ask("hold"), &none).is_err());
    assert!(tightens(&ask("deny"), &ask("hold")).is_err());
}

/// A condition that fails denies, so a rule with one is never taken away lightly.
#[test]
fn conditions() {
    let careful = when("*", "starts_with(path, '/tmp')", "allow");
    looser(&json!([careful]), &json!([]));
    tighter(&json!([careful]), &json!([careful]));
    tighter(&json!([careful]), &json!([rule("*", "deny")]));
    tighter(
        &json!([careful, rule("*", "deny")]),
        &json!([
            when("w*", "starts_with(path, '/tmp')", "allow"),
            rule("*", "deny")
        ]),
    );
    let other = when("*", "starts_with(path, '/')", "allow");
    looser(
        &json!([careful, rule("*", "deny")]),
        &json!([other, rule("*", "deny")]),
    );
    tighter(&json!([]), &json!([careful]));
    tighter(
        &json!([rule("*", "hold")]),
        &json!([when("x", "a == `1`", "hold"), rule("*", "hold")]),
    );
    looser(
        &json!([rule("*", "hold")]),
        &json!([when("x", "a == `1`", "allow"), rule("*", "hold")]),
    );
    // The same condition twice: where the second says yes, so did the first.
    tighter(
        &json!([
            when("x", "a == `1`", "allow"),
            when("*", "a == `1`", "allow"),
            rule("*", "deny")
        ]),
        &json!([when("*", "a == `1`", "allow"), rule("*", "deny")]),
    );
}

#[test]
fn defaults() {
    let section = |json: &Json| rules(json);
    let tools = |then: &str| json!({"defaults": {"tools": then}});
    for (old, new, good) in [
        (tools("allow"), tools("hold"), true),
        (tools("hold"), tools("deny"), true),
        (tools("deny"), tools("hold"), false),
        (tools("hold"), json!({}), false),
        (json!({}), json!({"default": "deny"}), true),
        (json!({"default": "deny"}), json!({}), false),
        // The built-in ones: allow, hold, deny; and to deny what nobody knows.
        (json!({}), json!({"default": "hold"}), false),
        (
            json!({"default": "deny"}),
            json!({"default": "deny", "defaults": {"tools": "allow"}}),
            false,
        ),
    ] {
        let outcome = tightens(&section(&old), &section(&new));
        assert_eq!(outcome.is_ok(), good, "{old} to {new}: {outcome:?}");
    }
}

/// A capability that only one side knows.
#[test]
fn capabilities_that_come_and_go() {
    let silent = config(&json!({}));
    let layer = Layer {
        place: "policy",
        config: &silent,
    };
    let of = |capabilities: &[(&str, Effect)]| Rules::compile(&[layer], capabilities).unwrap();
    let (few, more) = (of(&CAPABILITIES[..1]), of(&CAPABILITIES));
    // `proc` was unknown and so denied; now it is held.
    assert!(tightens(&few, &more).is_err());
    assert_eq!(tightens(&more, &few), Ok(()));
}

#[test]
fn rates_and_repeats() {
    let rate = |limit: u32, period: u32| json!({"rate_limit": limit, "rate_period": period});
    let repeat = |calls: u32, window: u32, then: &str| json!({"repeat": {"calls": calls, "window": window, "then": then}});
    let (ten, five) = (rate(10, 60), repeat(5, 60, "hold"));
    for (old, new, expected) in [
        (json!({}), ten.clone(), Ok(())),
        (ten.clone(), rate(9, 60), Ok(())),
        (ten.clone(), rate(10, 61), Ok(())),
        (ten.clone(), rate(5, 20), Err(Loosening::Rate)),
        (ten.clone(), rate(11, 120), Err(Loosening::Rate)),
        (ten, json!({}), Err(Loosening::Rate)),
        (json!({}), five.clone(), Ok(())),
        (five.clone(), repeat(4, 61, "deny"), Ok(())),
        (five.clone(), repeat(6, 60, "hold"), Err(Loosening::Repeat)),
        (five.clone(), repeat(5, 59, "hold"), Err(Loosening::Repeat)),
        (repeat(5, 60, "deny"), five.clone(), Err(Loosening::Repeat)),
        (five, json!({}), Err(Loosening::Repeat)),
    ] {
        assert_eq!(
            tightens(&rules(&old), &rules(&new)),
            expected,
            "{old} to {new}"
        );
    }
}

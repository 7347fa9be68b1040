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
const APPROVE: &str = "require_approval";

fn rule(name: &str, then: &str) -> Json {
    json!({"capability": "tools", "name": name, "action": then})
}

fn when(name: &str, condition: &str, then: &str) -> Json {
    json!({"capability": "tools", "name": name, "when": condition, "action": then})
}

#[test]
fn what_tightens() {
    let (write, all) = (rule("write*", APPROVE), rule("*", "allow"));
    let both = json!([write, all]);
    tighter(&both, &both);
    tighter(&json!([]), &json!([rule("x", "deny")]));
    tighter(
        &both,
        &json!([rule("x", "deny"), write, all, rule("y", "deny")]),
    );
    tighter(&both, &json!([write]));
    tighter(&both, &json!([rule("write*", "deny"), all]));
    tighter(&both, &json!([rule("w*", APPROVE), all]));
    tighter(
        &both,
        &json!([write, rule("read*", "allow"), rule("*", "deny")]),
    );
    // A new hold among what was allowed.
    tighter(&json!([]), &json!([rule("edit", APPROVE)]));
    tighter(&both, &json!([rule("edit", APPROVE), write, all]));
    // Rules that cannot meet may change places.
    tighter(
        &json!([rule("a*", APPROVE), rule("b*", "deny")]),
        &json!([rule("b*", "deny"), rule("a*", APPROVE)]),
    );
    // Names and reasons do not matter.
    tighter(
        &json!([{"action": APPROVE, "name": "x"}]),
        &json!([{"action": APPROVE, "name": "x", "id": "x", "reason": "because"}]),
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
    looser(&deny, &json!([rule("rm", APPROVE)]));
    looser(&deny, &json!([rule("rm", "allow")]));
    looser(&deny, &json!([rule("r", "deny")]));
    looser(&deny, &json!([rule("rm*", APPROVE), rule("rm", "deny")]));
    looser(&deny, &json!([rule("*", "allow"), rule("rm", "deny")]));
    looser(&json!([rule("r*", "deny")]), &deny);
    looser(&json!([rule("*", "deny")]), &json!([rule("*", APPROVE)]));
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
        &json!([rule("a*", "deny"), rule("ab", APPROVE)]),
        &json!([rule("ab", APPROVE)]),
    );
    assert_eq!(
        text.to_string(),
        "`policy.rules[0]` may decide `require_approval` for calls of `tools` that `policy.rules[0]` of before caught first, \
         and nothing before `policy.rules[0]` catches all of these now"
    );
    let memory = json!({"capability": "memory", "name": "x", "action": "allow"});
    assert_eq!(
        looser(&json!([]), &json!([memory])).to_string(),
        "`policy.rules[0]` may decide `allow` for calls of `memory` that nothing before did as a whole"
    );
}

/// A rule without a capability is compared with what decided about each capability before.
#[test]
fn rules_for_all_capabilities() {
    let ask = |then: &str| json!({"rules": [{"id": "ask", "name": "run*", "action": then}]});
    let by = |default: &str, rules: &Json| {
        let mut section = rules.clone();
        section["default"] = json!(default);
        section
    };
    let none = json!({});
    for (old, new, good) in [
        // Allow to hold, hold to allow, deny to hold, hold to deny.
        (by("allow", &none), by("allow", &ask(APPROVE)), true),
        (by("allow", &ask(APPROVE)), by("allow", &none), false),
        (
            by("allow", &ask(APPROVE)),
            by("allow", &ask("allow")),
            false,
        ),
        (by("allow", &ask("deny")), by("allow", &ask(APPROVE)), false),
        (by("allow", &ask(APPROVE)), by("allow", &ask("deny")), true),
        (by(APPROVE, &none), by(APPROVE, &ask(APPROVE)), true),
        (by(APPROVE, &none), by(APPROVE, &ask("allow")), false),
        (by("deny", &none), by("deny", &ask(APPROVE)), false),
        // The built-in defaults: memory, which they deny, would be held.
        (none.clone(), ask(APPROVE), false),
        (none.clone(), ask("deny"), true),
        // Defaults of single capabilities.
        (
            json!({"default": "allow", "defaults": {"proc": "deny"}}),
            json!({"default": "allow", "defaults": {"proc": "deny"}, "rules": ask(APPROVE)["rules"]}),
            false,
        ),
        (
            json!({"default": "allow", "defaults": {"proc": APPROVE}}),
            json!({"default": "allow", "defaults": {"proc": APPROVE}, "rules": ask(APPROVE)["rules"]}),
            true,
        ),
        // One rule for all instead of one for each, and back.
        (
            json!({"default": "allow", "rules": [
                {"capability": "tools", "name": "run*", "action": APPROVE},
                {"capability": ["proc", "memory"], "name": "r*", "action": APPROVE},
            ]}),
            by("allow", &ask(APPROVE)),
            false,
        ),
        (
            by("allow", &ask(APPROVE)),
            json!({"default": "allow", "rules": [
                {"capability": "tools", "name": "run*", "action": APPROVE},
                {"capability": ["proc", "memory"], "name": "r*", "action": APPROVE},
                {"name": "run*", "action": APPROVE},
            ]}),
            true,
        ),
    ] {
        let outcome = tightens(&rules(&old), &rules(&new));
        assert_eq!(outcome.is_ok(), good, "{old} to {new}: {outcome:?}");
    }
    let reason = tightens(&rules(&none), &rules(&ask(APPROVE))).unwrap_err();
    assert_eq!(
        reason.to_string(),
        "`ask` may decide `require_approval` for calls of `memory` that nothing before did as a whole"
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
    let ask = |then: &str| of(&json!({"rules": [{"id": "ask", "name": "run*", "action": then}]}));
    let none = of(&json!({}));
    assert_eq!(tightens(&none, &ask(APPROVE)), Ok(()));
    assert_eq!(tightens(&ask(APPROVE), &ask("deny")), Ok(()));
    assert!(tightens(&ask(APPROVE), &none).is_err());
    assert!(tightens(&ask("deny"), &ask(APPROVE)).is_err());
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
        &json!([rule("*", APPROVE)]),
        &json!([when("x", "a == `1`", APPROVE), rule("*", APPROVE)]),
    );
    looser(
        &json!([rule("*", APPROVE)]),
        &json!([when("x", "a == `1`", "allow"), rule("*", APPROVE)]),
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
        (tools("allow"), tools(APPROVE), true),
        (tools(APPROVE), tools("deny"), true),
        (tools("deny"), tools(APPROVE), false),
        (tools(APPROVE), json!({}), false),
        (json!({}), json!({"default": "deny"}), true),
        (json!({"default": "deny"}), json!({}), false),
        // The built-in ones: allow, hold, deny; and to deny what nobody knows.
        (json!({}), json!({"default": APPROVE}), false),
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
    let repeat = |calls: u32, window: u32, then: &str| json!({"repeat": {"calls": calls, "window": window, "action": then}});
    let (ten, five) = (rate(10, 60), repeat(5, 60, APPROVE));
    for (old, new, expected) in [
        (json!({}), ten.clone(), Ok(())),
        (ten.clone(), rate(9, 60), Ok(())),
        (ten.clone(), rate(10, 61), Ok(())),
        (ten.clone(), rate(5, 20), Err(Loosening::Rate)),
        (ten.clone(), rate(11, 120), Err(Loosening::Rate)),
        (ten, json!({}), Err(Loosening::Rate)),
        (json!({}), five.clone(), Ok(())),
        (five.clone(), repeat(4, 61, "deny"), Ok(())),
        (five.clone(), repeat(6, 60, APPROVE), Err(Loosening::Repeat)),
        (five.clone(), repeat(5, 59, APPROVE), Err(Loosening::Repeat)),
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

//! Rules: first match wins, a default for each capability, and a decision says who made it.

use canonical::Value;
use policy::{
    Agent, Call, Decision, Effect, Layer, Reason, Rules, RulesConfig, TrustLevel, limits,
};
use serde_json::{Value as Json, json};

use crate::{CAPABILITIES, config, places, rate, rules};

const LOCAL: Agent<'_> = Agent {
    id: "default",
    did: None,
    trust: None,
};

fn decide<'r>(rules: &'r Rules, agent: Agent<'_>, capability: &str, name: &str) -> Decision<'r> {
    rules.decide(&Call {
        agent,
        capability,
        name,
        arguments: &(),
    })
}

fn remote(did: &str, trust: TrustLevel) -> Agent<'_> {
    Agent {
        id: "peer",
        did: Some(did),
        trust: Some(trust),
    }
}

#[test]
fn the_first_match_wins_and_says_so() {
    let rules = rules(&json!({"rules": [
        {"id": "no-shell", "name": "shell", "action": "deny", "reason": "there is no shell here"},
        {"capability": "tools", "name": ["write*", "edit"], "action": "require_approval"},
        {"capability": "tools", "name": "*", "action": "allow"},
    ]}));
    let decision = decide(&rules, LOCAL, "tools", "write_file");
    assert_eq!(
        decision,
        Decision {
            effect: Effect::RequireApproval,
            rule: "policy.rules[1]",
            id: None,
            reason: Reason::Rule(None),
            hash: decision.hash,
        }
    );
    assert_eq!(decision.name(), "unnamed");
    let decision = decide(&rules, LOCAL, "tools", "shell");
    assert_eq!(
        decision.to_string(),
        "deny by `no-shell`: there is no shell here"
    );
    assert_eq!(decision.name(), "no-shell");
    assert_eq!(decide(&rules, LOCAL, "proc", "ls").name(), "default");
    assert_eq!(
        decide(&rules, LOCAL, "tools", "edit").effect,
        Effect::RequireApproval
    );
    assert_eq!(
        decide(&rules, LOCAL, "tools", "edit2").rule,
        "policy.rules[2]"
    );
    assert_eq!(decide(&rules, LOCAL, "proc", "shell").rule, "no-shell");
}

/// The digest of a rule does not change with its place, and that of a default with its effect.
#[test]
fn digest_changes_with_what_decides() {
    let shell = json!({"name": "shell", "capability": "tools", "action": "deny"});
    let listed = json!({"name": ["shell"], "capability": ["tools"], "action": "deny"});
    let other = json!({"name": "shell", "capability": "tools", "action": "deny", "reason": "no"});
    let first = json!({"name": "edit", "action": "allow"});
    let hash =
        |rules_: serde_json::Value, name: &str| decide(&rules(&rules_), LOCAL, "tools", name).hash;
    let alone = hash(json!({"rules": [shell]}), "shell");
    assert_eq!(hash(json!({"rules": [first, listed]}), "shell"), alone);
    assert_ne!(hash(json!({"rules": [other]}), "shell"), alone);
    let default = |effect: &str| hash(json!({"default": effect, "rules": [shell]}), "edit");
    assert_eq!(default("deny"), default("deny"));
    assert_ne!(default("deny"), default("allow"));
}

/// Names are compared as they are dispatched, in their case.
#[test]
fn names_are_compared_in_their_case() {
    let rules = rules(&json!({"rules": [{"name": "write", "action": "deny"}]}));
    assert_eq!(decide(&rules, LOCAL, "tools", "write").effect, Effect::Deny);
    assert_eq!(
        decide(&rules, LOCAL, "tools", "Write").effect,
        Effect::Allow
    );
}

#[test]
fn defaults_by_capability() {
    let stated = rules(&json!({"default": "require_approval", "defaults": {"proc": "deny"}}));
    for (capability, effect, rule) in [
        ("tools", Effect::RequireApproval, "policy.default"),
        ("proc", Effect::Deny, "policy.defaults.proc"),
        ("unheard_of", Effect::RequireApproval, "policy.default"),
    ] {
        let decision = decide(&stated, LOCAL, capability, "x");
        assert_eq!(
            decision.to_string(),
            format!("{effect} by `{rule}`: no rule matches")
        );
    }
    // Nothing is said: what is built in holds, and a capability that nobody knows is denied.
    let silent = rules(&json!({}));
    for (capability, effect) in CAPABILITIES {
        let decision = decide(&silent, LOCAL, capability, "x");
        assert_eq!((decision.effect, decision.rule), (effect, "built-in"));
    }
    assert_eq!(
        decide(&silent, LOCAL, "unheard_of", "x").effect,
        Effect::Deny
    );
    // A rule for all capabilities is for those there are; with a default, for that one too.
    let mut all = json!({"rules": [{"name": "x", "action": "allow"}]});
    let effect = |all: &serde_json::Value| decide(&rules(all), LOCAL, "unheard_of", "x").effect;
    assert_eq!(effect(&all), Effect::Deny);
    all["default"] = json!("require_approval");
    assert_eq!(effect(&all), Effect::Allow);
}

#[test]
fn agents_by_id_did_and_trust() {
    let rules = rules(&json!({"rules": [
        {"agent": "build-*", "action": "allow", "id": "agent"},
        {"did": ["did:web:corp.example:*", "did:key:z1"], "trust": "verified", "action": "allow", "id": "did"},
        {"trust": ["self", "delegated"], "action": "deny", "id": "trust"},
    ]}));
    let by = |agent: Agent<'_>| decide(&rules, agent, "proc", "x").rule;
    assert_eq!(
        by(Agent {
            id: "build-7",
            ..LOCAL
        }),
        "agent"
    );
    assert_eq!(by(LOCAL), "built-in", "a local agent has no trust level");
    assert_eq!(
        by(remote("did:web:corp.example:a", TrustLevel::Verified)),
        "did"
    );
    assert_eq!(by(remote("did:key:z1", TrustLevel::Verified)), "did");
    assert_eq!(by(remote("did:key:z1", TrustLevel::Delegated)), "trust");
    assert_eq!(by(remote("did:web:corp.example", TrustLevel::Own)), "trust");
    assert_eq!(by(remote("did:key:z2", TrustLevel::Verified)), "built-in");
    let without_trust = Agent {
        trust: None,
        ..remote("did:key:z1", TrustLevel::Own)
    };
    assert_eq!(by(without_trust), "built-in");
}

/// An agent's own section stands before the common one, in rules and in defaults.
#[test]
fn layers() {
    let own = config(&json!({
        "defaults": {"proc": "allow"},
        "rules": [{"capability": "tools", "name": "write", "action": "allow"}],
        "repeat": {"calls": 3, "window": 60, "action": "deny"},
    }));
    let common = config(&json!({
        "default": "deny",
        "rules": [{"capability": "tools", "action": "require_approval"}, {"capability": "proc", "name": "rm", "action": "deny"}],
        "repeat": {"calls": 9, "window": 60, "action": "require_approval"}, "rate_limit": 5, "rate_period": 60,
    }));
    let layers = [("agents[0].policy", &own), ("policy", &common)];
    let layers = layers.map(|(place, config)| Layer { place, config });
    let rules = Rules::compile(&layers, &CAPABILITIES).unwrap();
    for (capability, name, effect, rule) in [
        ("tools", "write", Effect::Allow, "agents[0].policy.rules[0]"),
        ("tools", "read", Effect::RequireApproval, "policy.rules[0]"),
        ("proc", "rm", Effect::Deny, "policy.rules[1]"),
        (
            "proc",
            "ls",
            Effect::Allow,
            "agents[0].policy.defaults.proc",
        ),
        ("memory", "x", Effect::Deny, "policy.default"),
    ] {
        let decision = decide(&rules, LOCAL, capability, name);
        assert_eq!((decision.effect, decision.rule), (effect, rule));
    }
    assert_eq!(rules.rate(), Some(rate(5, 60)));
    assert_eq!(
        rules.repeat().map(policy::Repeat::action),
        Some(Effect::Deny)
    );
    assert_eq!(rules.len(), 3);
}

/// Names and patterns around the length of the start that is compared first.
#[test]
fn long_names() {
    for length in [1, 14, 15, 16, 17, 18, 40] {
        let text = |c: char| c.to_string().repeat(length);
        let (a, b, umlaut) = (text('a'), text('b'), text('ä'));
        for (names, matching, others) in [
            (
                json!(a),
                vec![a.clone()],
                vec![format!("{a}a"), b.clone(), String::new()],
            ),
            (
                json!([format!("{a}b"), format!("{a}c*")]),
                vec![format!("{a}b"), format!("{a}c"), format!("{a}cx")],
                vec![a.clone(), format!("{a}bb"), format!("{a}d")],
            ),
            (
                json!([a, "b*"]),
                vec![a.clone(), b.clone()],
                vec!["c".into(), "\0".into()],
            ),
            (
                json!([format!("{umlaut}ä"), format!("{umlaut}ö")]),
                vec![format!("{umlaut}ä"), format!("{umlaut}ö")],
                vec![umlaut.clone(), format!("{umlaut}ü")],
            ),
            (
                json!("*"),
                vec![a.clone(), "\0".into(), String::new()],
                vec![],
            ),
        ] {
            let rules = rules(&json!({"rules": [{"name": names, "action": "deny"}]}));
            let effect = |name: &String| decide(&rules, LOCAL, "tools", name).effect;
            assert!(
                matching.iter().all(|name| effect(name) == Effect::Deny),
                "{names}"
            );
            assert!(
                others.iter().all(|name| effect(name) == Effect::Allow),
                "{names}"
            );
        }
    }
}

/// All that is wrong is told, each with its place.
#[test]
fn mistakes_name_their_places() {
    let section = json!({
        "defaults": {"tool": "deny"},
        "rules": [
            {"capability": "tool", "action": "deny"},
            {"name": ["a", "b?"], "action": "deny"},
            {"agent": "", "action": "deny"},
            {"did": [], "trust": [], "capability": [], "action": "deny"},
            {"id": "x", "when": "a ==", "action": "deny"},
            {"id": "x", "action": "deny"},
            {"id": "a b", "action": "deny"},
        ],
        "repeat": {"calls": 1, "window": 0, "action": "allow"},
        "rate_limit": 5,
    });
    assert_eq!(
        places(&section),
        [
            "policy.defaults",
            "policy.rules[0].capability",
            "policy.rules[1].name",
            "policy.rules[2].agent",
            "policy.rules[3].did",
            "policy.rules[3].capability",
            "policy.rules[3].trust",
            "policy.rules[4].when",
            "policy.rules[5].id",
            "policy.rules[6].id",
            "policy.rate_limit",
            "policy.repeat.calls",
            "policy.repeat.window",
            "policy.repeat.action",
        ]
    );
    let section = json!({"rate_limit": 0, "rate_period": 2_592_001});
    assert_eq!(
        places(&section),
        ["policy.rate_limit", "policy.rate_period"]
    );
    let config = config(&json!({"rules": [{"capability": "tool", "action": "deny"}]}));
    let layer = Layer {
        place: "policy",
        config: &config,
    };
    let errors = Rules::compile(&[layer], &CAPABILITIES).unwrap_err();
    assert_eq!(
        errors[0].to_string(),
        "`policy.rules[0].capability` names the capability `tool`, which is unknown"
    );
}

fn reads(json: &Json) -> bool {
    let value = Value::from_serialize(json).unwrap();
    value.deserialize_into::<RulesConfig>().is_ok()
}

/// Unknown keys, `null` and wrong types are errors: a rule must not silently mean less.
#[test]
fn what_is_not_read() {
    assert!(reads(&json!({"rules": [{"action": "deny"}]})));
    for wrong in [
        json!({"rule": []}),
        json!({"default": "reject"}),
        json!({"default": null}),
        json!({"rules": [{}]}),
        json!({"rules": [{"action": "deny", "names": "a"}]}),
        json!({"rules": [{"action": "deny", "when": null}]}),
        json!({"rules": [{"action": "deny", "agent": null}]}),
        json!({"rules": [{"action": "deny", "name": [null]}]}),
        json!({"rules": [{"action": "deny", "trust": "full"}]}),
        json!({"rules": [{"action": "Deny"}]}),
        json!({"repeat": {"calls": 3, "window": 60}}),
        json!({"repeat": {"calls": 3, "window": 60, "action": "require_approval", "per": "agent"}}),
        json!({"rate_limit": 1.5, "rate_period": 60}),
    ] {
        assert!(!reads(&wrong), "{wrong}");
    }
}

#[test]
fn sizes_at_their_limits_and_past_them() {
    let rule = |member: &str, value: Json| json!({"rules": [{member: value, "action": "deny"}]});
    let text = |bytes: usize| json!("a".repeat(bytes));
    let list = |count: usize| json!(vec!["a"; count]);
    for (member, most) in [
        ("name", limits::GLOB),
        ("agent", limits::GLOB),
        ("did", limits::GLOB),
        ("id", limits::RULE_ID),
        ("reason", limits::REASON),
    ] {
        assert_eq!(rules(&rule(member, text(most))).len(), 1, "{member}");
        let place = format!("policy.rules[0].{member}");
        assert_eq!(places(&rule(member, text(most + 1))), [place]);
    }
    for member in ["name", "agent", "did"] {
        assert_eq!(rules(&rule(member, list(limits::GLOBS))).len(), 1);
        let place = format!("policy.rules[0].{member}");
        assert_eq!(places(&rule(member, list(limits::GLOBS + 1))), [place]);
    }
    let many = |count: usize| json!({"rules": vec![json!({"action": "deny"}); count]});
    assert_eq!(rules(&many(limits::RULES)).len(), limits::RULES);
    assert_eq!(places(&many(limits::RULES + 1)), ["policy.rules"]);
}

/// A star matches any characters, and a name that is made to be hard is not.
#[test]
fn globs() {
    for (pattern, name, fits) in [
        ("a", "a", true),
        ("a", "ab", false),
        ("*", "", true),
        ("*", "anything at all", true),
        ("a*", "a", true),
        ("a*", "ba", false),
        ("*a", "ba", true),
        ("a*a", "a", false),
        ("a*a", "aa", true),
        ("a*b*c", "a-b-b-c", true),
        ("a*b*c", "a-c-b", false),
        ("*.v2", "x.y.v2", true),
        ("ä*ö", "äxö", true),
        ("ä*ö", "ä", false),
        ("a**b", "ab", true),
    ] {
        let glob = policy::Glob::parse(pattern).unwrap();
        assert_eq!(glob.matches(name), fits, "{pattern} and {name}");
    }
    let hard = format!("{}b", "a*".repeat(200));
    let glob = policy::Glob::parse(&hard).unwrap();
    assert!(!glob.matches(&"a".repeat(1_000_000)));
    for text in ["", "a?", "[a]", "{a,b}", "a\\*", "a\n"] {
        assert!(policy::Glob::parse(text).is_err(), "{text}");
    }
}

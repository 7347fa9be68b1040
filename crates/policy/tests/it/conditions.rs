//! Conditions of rules: JMESPath that says yes or no, within bounds.

use policy::{
    Agent, Arguments, Call, ConditionFailure, Decision, Effect, Reason, Rules, UnreadableArguments,
    limits,
};
use serde_json::{Value as Json, json};

use crate::{config, places, rules};

/// What becomes of a call with these arguments under one rule that allows, where the default denies.
fn outcome(condition: &str, arguments: &dyn Arguments) -> (Effect, bool) {
    let rules = allowing(condition);
    let decision = decide(&rules, arguments);
    let by_default = decision.reason == Reason::Default;
    (decision.effect, by_default)
}

fn allowing(condition: &str) -> Rules {
    rules(&json!({"rules": [{"capability": "memory", "when": condition, "action": "allow"}]}))
}

fn decide<'r>(rules: &'r Rules, arguments: &dyn Arguments) -> Decision<'r> {
    rules.decide(&Call {
        agent: Agent {
            id: "default",
            did: None,
            trust: None,
        },
        capability: "memory",
        name: "memory/store",
        arguments,
    })
}

fn failure(condition: &str, arguments: &dyn Arguments) -> ConditionFailure {
    let rules = allowing(condition);
    let decision = decide(&rules, arguments);
    assert_eq!(
        (decision.effect, decision.rule),
        (Effect::Deny, "policy.rules[0]")
    );
    match decision.reason {
        Reason::Condition(failure) => failure,
        other @ (Reason::Rule(_) | Reason::Default) => panic!("{other:?}"),
    }
}

/// `true` matches, `false` goes on to the next rule.
#[test]
fn yes_and_no() {
    let arguments = json!({"path": "/tmp/x", "size": 5, "tags": ["a", "b"]});
    for (condition, met) in [
        ("starts_with(path, '/tmp/')", true),
        ("starts_with(path, '/etc/')", false),
        ("size > `4` && size < `6`", true),
        ("size == `5.0`", true),
        ("contains(tags, 'b')", true),
        ("tags[?@ == 'c'] == `[]`", true),
        ("length(tags[?starts_with(@, 'a')]) == `1`", true),
        ("max_by(@.{x: [@]}.x, &size).size == `5`", true),
        ("owner == null", true),
        ("!contains(keys(@), 'owner')", true),
        (
            "contains(keys(@), 'owner') && starts_with(owner, 'x')",
            false,
        ),
    ] {
        let expected = if met {
            (Effect::Allow, false)
        } else {
            (Effect::Deny, true)
        };
        assert_eq!(outcome(condition, &arguments), expected, "{condition}");
    }
}

/// Anything but yes and no denies, errors included: a rule that denies cannot be got around by
/// arguments of another type.
#[test]
fn everything_else_denies() {
    let arguments = json!({"path": 7, "size": "5", "list": [1], "text": "true"});
    for (condition, expected) in [
        ("starts_with(path, '/tmp/')", ConditionFailure::Evaluation),
        (
            "starts_with(missing, '/tmp/')",
            ConditionFailure::Evaluation,
        ),
        ("length(path, path) > `1`", ConditionFailure::Evaluation),
        ("size > `4`", ConditionFailure::NotBoolean("null")),
        ("missing", ConditionFailure::NotBoolean("null")),
        (
            "missing && path == `7`",
            ConditionFailure::NotBoolean("null"),
        ),
        ("path", ConditionFailure::NotBoolean("a number")),
        ("text", ConditionFailure::NotBoolean("a string")),
        ("list", ConditionFailure::NotBoolean("an array")),
        ("@", ConditionFailure::NotBoolean("an object")),
    ] {
        assert_eq!(failure(condition, &arguments), expected, "{condition}");
    }
    let rules = rules(&json!({"rules": [
        {"id": "no-keys", "capability": "tools", "when": "contains(path, '.ssh')", "action": "deny"},
        {"capability": "tools", "action": "allow"},
    ]}));
    for path in [
        json!(".ssh/id"),
        json!([[".ssh/id"]]),
        json!(null),
        json!({}),
    ] {
        let arguments = json!({"path": path});
        let call = Call {
            agent: Agent {
                id: "a",
                did: None,
                trust: None,
            },
            capability: "tools",
            name: "read",
            arguments: &arguments,
        };
        let decision = rules.decide(&call);
        // An array that does not contain the text is no error, and JMESPath says so.
        let expected = if path.is_array() {
            Effect::Allow
        } else {
            Effect::Deny
        };
        assert_eq!(decision.effect, expected, "{path}");
    }
}

/// What a failure says never quotes the arguments.
#[test]
fn a_failure_does_not_quote_arguments() {
    let arguments = json!({"path": {"secret": "hunter2"}});
    let rules = allowing("starts_with(path, 'x')");
    let decision = decide(&rules, &arguments);
    let text = format!("{decision} {decision:?}");
    assert!(!text.contains("hunter2"), "{text}");
    assert!(text.contains("the condition cannot be evaluated for these arguments"));
}

#[derive(Debug)]
struct Broken;

impl Arguments for Broken {
    fn to_json(&self) -> Result<Json, UnreadableArguments> {
        Err(UnreadableArguments)
    }
}

/// Arguments are read for a rule that matches otherwise and has a condition, and else not at all.
#[test]
fn arguments_are_read_late() {
    assert_eq!(failure("x == `1`", &Broken), ConditionFailure::Arguments);
    let rules = rules(&json!({"rules": [
        {"capability": "memory", "name": "other", "when": "x == `1`", "action": "deny"},
        {"capability": "memory", "action": "allow"},
    ]}));
    assert_eq!(decide(&rules, &Broken).effect, Effect::Allow);
}

/// Every form of arguments is the same to a condition.
#[test]
fn forms_of_arguments() {
    let text = br#"{"path":"/tmp/x","n":5,"r":1.5,"deep":[{"x":null}]}"#;
    let tree = canonical::Value::parse(text).unwrap();
    let json: Json = serde_json::from_slice(text).unwrap();
    let object = tree.as_object().unwrap();
    let condition = "path == '/tmp/x' && n == `5` && r == `1.5` && deep == `[{\"x\": null}]`";
    for arguments in [&tree as &dyn Arguments, &json, object] {
        assert_eq!(outcome(condition, arguments), (Effect::Allow, false));
        assert_eq!(arguments.to_json().as_ref(), Ok(&json));
    }
    assert_eq!(outcome("@ == `{}`", &()), (Effect::Allow, false));
}

/// Integers beyond 2^53 are compared exactly.
#[test]
fn large_integers_are_exact() {
    let arguments = json!({"id": 9_007_199_254_740_993_u64});
    assert_eq!(
        outcome("id == `9007199254740993`", &arguments),
        (Effect::Allow, false)
    );
    assert_eq!(
        outcome("id == `9007199254740992`", &arguments),
        (Effect::Deny, true)
    );
}

fn refused(condition: &str) -> bool {
    let section = json!({"rules": [{"when": condition, "action": "deny"}]});
    let config = config(&section);
    let layer = policy::Layer {
        place: "policy",
        config: &config,
    };
    match Rules::compile(&[layer], &crate::CAPABILITIES) {
        Ok(_) => false,
        Err(_) => {
            assert_eq!(places(&section), ["policy.rules[0].when"], "{condition}");
            true
        }
    }
}

#[test]
fn conditions_that_are_none() {
    for condition in [
        "",
        "a b",
        "a.",
        "starts_with(a",
        "nonsense(a)",
        "a == `{`",
        "let $x = a in $x",
    ] {
        assert!(refused(condition), "{condition}");
    }
}

#[test]
fn lengths_at_the_limit_and_past_it() {
    let filled = |bytes: usize| format!("a == '{}'", "x".repeat(bytes - 7));
    assert!(!refused(&filled(limits::CONDITION)));
    assert!(refused(&filled(limits::CONDITION + 1)));
}

#[test]
fn depth_at_the_limit_and_past_it() {
    let nested = |depth: usize| format!("{}a", "!".repeat(depth - 1));
    assert!(!refused(&nested(limits::CONDITION_DEPTH)));
    assert!(refused(&nested(limits::CONDITION_DEPTH + 1)));
    assert!(refused(&nested(1000)));
    // A chain is as deep as it is long.
    let chain = |links: usize| vec!["a"; links].join(".");
    assert!(!refused(&chain(limits::CONDITION_DEPTH)));
    assert!(refused(&chain(limits::CONDITION_DEPTH + 1)));
}

/// `[@,@]` doubles what it is given, and a chain of ten makes a thousand of one.
#[test]
fn growth_at_the_limit_and_past_it() {
    let doubled = |times: usize| vec!["[@,@]"; times].join(" | ");
    assert!(!refused(&doubled(6)));
    assert!(
        refused(&doubled(7)),
        "each counts as three: two parts and the list"
    );
    assert!(refused(&doubled(60)));
    assert!(refused(&["to_string([@])"; 8].join(" | ")));
    assert!(refused(&["map(&[@,@,@,@], @)"; 8].join(" | ")));
    assert!(refused(&["[*].[@,@,@,@]"; 8].join(" | ")));
    assert!(refused(&["{a:@,b:@,c:@,d:@}"; 8].join(" | ")));
}

/// The library would add such a step to a 32-bit index, and keep a copy of each reference.
#[test]
fn what_the_library_must_not_be_asked() {
    assert!(!refused("a[::1000000]"));
    assert!(!refused("a[::-1000000]"));
    for condition in [
        "a[::0]",
        "a[1::1000001]",
        "a[1::2147483647]",
        "a[::-2147483648]",
    ] {
        assert!(refused(condition), "{condition}");
    }
    assert!(!refused("sort_by(a, &b)[0].c == `1`"));
    for condition in [
        "a[*].sort_by(@, &b)",
        "a[?max_by(@, &b)]",
        "map(&sort_by(@, &b), a)",
        "&a",
    ] {
        assert!(refused(condition), "{condition}");
    }
}

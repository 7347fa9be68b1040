//! Calls of which only a part is known, and requests that list what there is.

use policy::{
    Agent, Call, Calls, Effect, Loosening, PartialCall, PartialName, Rules, tightens,
    tightens_listing,
};
use serde_json::{Map, Value as Json, json};

use crate::rules;

const ADA: Agent<'_> = Agent {
    id: "ada",
    did: None,
    trust: None,
};

fn may(rules: &Rules, name: PartialName<'_>, arguments: &Json) -> bool {
    let arguments = arguments.as_object().cloned().unwrap_or_else(Map::new);
    rules.may_allow(&PartialCall {
        agent: ADA,
        capability: "tools",
        name,
        arguments: &arguments,
    })
}

fn tool(rules: &Rules, name: &str) -> bool {
    may(rules, PartialName::Exact(name), &Json::Null)
}

fn listing(rules: &Rules) -> Effect {
    let call = Call {
        agent: ADA,
        capability: "tools",
        name: "tool/list/req",
        arguments: &(),
    };
    rules.decide_listing(&call).effect
}

#[test]
fn first_rule_that_must_match_decides() {
    let rules = rules(&json!({"default": "deny", "rules": [
        {"name": "shell", "action": "deny"},
        {"name": ["shell", "echo"], "action": "allow"},
        {"name": "write", "action": "require_approval"},
        {"name": "other", "agent": "bob", "action": "allow"},
    ]}));
    for (name, is_visible) in [
        ("shell", false),
        ("echo", true),
        ("write", true),
        ("other", false),
        ("else", false),
    ] {
        assert_eq!(tool(&rules, name), is_visible, "{name}");
    }
}

#[test]
fn condition_on_unknown_arguments_may_go_either_way() {
    let of = |effect: &str, then: &str| {
        rules(&json!({"default": effect, "rules": [
            {"name": "echo", "when": "starts_with(text, 'a')", "action": then}]}))
    };
    assert!(tool(&of("deny", "allow"), "echo"));
    assert!(tool(&of("deny", "require_approval"), "echo"));
    assert!(tool(&of("allow", "deny"), "echo"));
    assert!(!tool(&of("deny", "deny"), "echo"));
}

#[test]
fn condition_on_known_arguments_is_evaluated() {
    let known = json!({"server": "docs", "list": []});
    for (condition, yes, no) in [
        ("server == 'docs'", true, false),
        ("server == 'other'", false, true),
        ("!(server == 'other')", true, false),
        ("server == 'docs' && uri == 'x'", true, true),
        ("server == 'other' && uri == 'x'", false, true),
        ("uri == 'x' && server == 'other'", false, true),
        ("server == 'docs' || uri == 'x'", true, false),
        ("uri == 'x' || server == 'docs'", true, false),
        ("list || uri == 'x'", true, true),
        ("!(uri == 'x')", true, true),
        ("contains(server, 'oc')", true, false),
        ("length(@) == `2`", true, true),
        // Neither true nor false denies.
        ("server", false, false),
        (
            "contains(list, server) && contains(`1`, server)",
            false,
            true,
        ),
        ("contains(`1`, server)", false, false),
    ] {
        let rule = |then: &str| json!({"name": "x", "when": condition, "action": then});
        let name = PartialName::Exact("x");
        let allowed = rules(&json!({"default": "deny", "rules": [rule("allow")]}));
        assert_eq!(may(&allowed, name, &known), yes, "{condition}");
        let denied = rules(&json!({"default": "allow", "rules": [rule("deny")]}));
        assert_eq!(may(&denied, name, &known), no, "{condition}");
    }
}

#[test]
fn names_are_known_by_their_beginning() {
    let allow = |names: Json| {
        rules(&json!({"default": "deny", "rules": [{"name": names, "action": "allow"}]}))
    };
    let git = PartialName::Prefix("git__");
    for (names, is_visible) in [
        (json!("git__status"), true),
        (json!("git__*"), true),
        (json!("*"), true),
        (json!("*_status"), true),
        (json!("docs__*"), false),
        (json!(["docs__*", "echo"]), false),
    ] {
        assert_eq!(
            may(&allow(names.clone()), git, &Json::Null),
            is_visible,
            "{names}"
        );
    }
    let deny = |name: &str| {
        rules(&json!({"default": "allow", "rules": [{"name": name, "action": "deny"}]}))
    };
    assert!(may(&deny("git__status"), git, &Json::Null));
    assert!(!may(&deny("git*"), git, &Json::Null));
    let any = PartialName::Prefix("");
    assert!(may(&deny("git*"), any, &Json::Null));
    assert!(!may(&deny("*"), any, &Json::Null));
}

#[test]
fn defaults_do_not_decide_about_lists() {
    for default in ["allow", "require_approval", "deny"] {
        assert_eq!(
            listing(&rules(&json!({ "default": default }))),
            Effect::Allow
        );
        for effect in ["require_approval", "deny"] {
            let rule = json!({"name": "tool/list/req", "action": effect});
            let rules = rules(&json!({"default": default, "rules": [rule]}));
            assert_eq!(listing(&rules).as_str(), effect);
        }
    }
}

/// What was denied by a rule is allowed when only a default is left: that loosens.
#[test]
fn rule_about_a_list_is_not_replaced_by_a_default() {
    let rule = |name: &str| json!({"rules": [{"name": name, "action": "deny"}]});
    let default = rules(&json!({"default": "deny"}));
    for (name, is_looser) in [("tool/list/req", true), ("tool/*", true), ("echo", false)] {
        let old = rules(&rule(name));
        assert_eq!(tightens(&old, &default), Ok(()));
        let listed = tightens_listing(&old, &default, "tools", "tool/list/req");
        let calls = Calls::Listing("tool/list/req".to_owned());
        let is_about_lists = |it: &Loosening| matches!(it, Loosening::Uncaught { calls: found, .. } if *found == calls);
        assert_eq!(
            listed.is_err_and(|it| is_about_lists(&it)),
            is_looser,
            "{name}"
        );
        assert_eq!(
            tightens_listing(&old, &old, "tools", "tool/list/req"),
            Ok(())
        );
    }
}

/// What a condition on unknown arguments leaves open is listed with the condition, and nothing behind a
/// rule that decides.
#[test]
fn possible_decisions_are_listed_in_order() {
    let rules = rules(&json!({"default": "deny", "rules": [
        {"id": "keys", "name": "read", "when": "contains(path, '.ssh')", "action": "deny"},
        {"id": "small", "name": "read", "when": "type == 'x'", "action": "allow"},
        {"id": "ask", "name": "re*", "action": "require_approval"},
        {"id": "late", "action": "allow"},
    ]}));
    let possible = |name, arguments: &Json| {
        let arguments = arguments.as_object().cloned().unwrap();
        let call = PartialCall {
            agent: ADA,
            capability: "tools",
            name,
            arguments: &arguments,
        };
        let possible = rules.possible(&call).into_iter();
        let words = possible.map(|it| match it.when {
            Some(when) => format!("{} if {when}", it.decision.rule),
            None => it.decision.rule.to_owned(),
        });
        words.collect::<Vec<_>>().join(", ")
    };
    let read = PartialName::Exact("read");
    assert_eq!(
        possible(read, &json!({})),
        "keys if contains(path, '.ssh'), small if type == 'x', ask"
    );
    assert_eq!(possible(read, &json!({"path": "a", "type": "x"})), "small");
    assert_eq!(possible(read, &json!({"path": "a", "type": "y"})), "ask");
    // A condition that cannot be evaluated denies.
    assert_eq!(possible(read, &json!({"path": 1})), "keys");
    assert_eq!(possible(PartialName::Exact("write"), &json!({})), "late");
    assert_eq!(
        possible(
            PartialName::Prefix("re"),
            &json!({"path": "a", "type": "y"})
        ),
        "ask"
    );
}

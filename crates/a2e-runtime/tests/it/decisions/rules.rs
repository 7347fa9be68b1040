//! What rules allow, deny and count.

use a2e_runtime::Policies;
use a2e_runtime::config::{AgentPolicy, Policy};
use serde_json::{Value, json};

use super::{agent, call, log, of_type, policies, recorded, rules, with};
use crate::support::{Transport, Wire, demo, handshake};

#[tokio::test]
async fn the_first_rule_decides_and_is_named() {
    let host = with(&json!({"rules": [
        {"id": "no-secrets", "capability": "tools", "name": "echo", "when": "contains(text, 'secret')", "action": "deny"},
        {"name": ["echo", "clock"], "action": "allow"},
        {"capability": "tools", "name": "*", "action": "deny", "reason": "only what is listed"},
    ]}))
    .build();
    let mut agent = agent(&host).await;
    let answer = agent.ask(&call("1", "echo", &json!({"text": "hi"}))).await;
    assert_eq!(answer["data"]["success"], true);
    let answer = agent
        .ask(&call("2", "echo", &json!({"text": "a secret"})))
        .await;
    assert_eq!(
        (&answer["code"], &answer["retryable"]),
        (&json!("tool_denied"), &json!(false))
    );
    assert_eq!(answer["detail"], json!({"rule": "no-secrets"}));
    assert_eq!(
        answer["message"],
        "the rule `no-secrets` refuses this; only the operator of this node can change its rules"
    );
    // A condition that says neither yes nor no denies.
    let answer = agent.ask(&call("3", "echo", &json!({"text": 5}))).await;
    assert_eq!(answer["detail"], json!({"rule": "no-secrets"}));
    let answer = agent.ask(&call("4", "fail", &json!({}))).await;
    assert_eq!(answer["detail"], json!({"rule": "unnamed"}));
    assert!(
        answer["message"]
            .as_str()
            .unwrap()
            .contains("only what is listed"),
        "{answer}"
    );
}

#[tokio::test]
async fn rates_are_limited_and_say_when_to_come_again() {
    let host = with(&json!({"rate_limit": 2, "rate_period": 3600})).build();
    let mut agent = agent(&host).await;
    for id in ["1", "2"] {
        let answer = agent.ask(&call(id, "echo", &json!({}))).await;
        assert_eq!(answer["data"]["success"], true);
    }
    let answer = agent.ask(&call("3", "echo", &json!({}))).await;
    assert_eq!(
        (&answer["code"], &answer["retryable"]),
        (&json!("runtime_error"), &json!(true))
    );
    assert_eq!(answer["detail"]["reason"], "rate_limited");
    assert!(answer["detail"]["reset_at"].as_u64().unwrap() > 1_700_000_000);
    // Another session of the same agent is the same agent.
    let mut other = self::agent(&host).await;
    let answer = other.ask(&call("4", "echo", &json!({}))).await;
    assert_eq!(answer["detail"]["reason"], "rate_limited");
}

#[tokio::test]
async fn the_same_call_again_and_again_is_stopped() {
    let host = with(&json!({"repeat": {"calls": 3, "window": 60, "action": "deny"}})).build();
    let mut agent = agent(&host).await;
    for id in ["1", "2"] {
        assert_eq!(
            agent.ask(&call(id, "echo", &json!({"a": 1}))).await["data"]["success"],
            true
        );
    }
    let answer = agent.ask(&call("3", "echo", &json!({"a": 1}))).await;
    assert_eq!(answer["detail"], json!({"rule": "repeat"}));
    let answer = agent.ask(&call("4", "echo", &json!({"a": 2}))).await;
    assert_eq!(answer["data"]["success"], true, "another call");
}

#[tokio::test]
async fn rules_change_under_open_sessions() {
    let host = with(&json!({})).build();
    let mut agent = agent(&host).await;
    assert_eq!(
        agent.ask(&call("1", "echo", &json!({}))).await["data"]["success"],
        true
    );
    let strict = policies(&json!({"defaults": {"tools": "deny"}}));
    assert!(strict.tighten(&host.policies()).is_ok());
    assert!(host.policies().tighten(&strict).is_err());
    host.set_policies(strict);
    let answer = agent.ask(&call("2", "echo", &json!({}))).await;
    assert_eq!(answer["detail"], json!({"rule": "default"}));
}

#[tokio::test]
async fn an_agent_has_rules_of_its_own() {
    let policy = Policy {
        common: rules(&json!({"default": "deny"})),
        agents: vec![AgentPolicy {
            name: "default".to_owned(),
            did: None,
            policy: rules(&json!({"rules": [{"name": "echo", "action": "allow"}]})),
        }],
    };
    let host = demo().policies(Policies::compile(&policy).unwrap()).build();
    let mut agent = agent(&host).await;
    assert_eq!(
        agent.ask(&call("1", "echo", &json!({}))).await["data"]["success"],
        true
    );
    let answer = agent.ask(&call("2", "clock", &json!({}))).await;
    assert_eq!(answer["detail"], json!({"rule": "default"}));
}

/// A host that is asked for things that this one has no plugin for, and says what it got.
pub(super) struct Everything;

impl a2e_runtime::Plugin for Everything {
    fn name(&self) -> &str {
        "everything"
    }

    fn capability(&self) -> Option<a2e_wire::Capability<'static>> {
        Some(a2e_wire::Capability::Memory)
    }

    fn serves(&self) -> a2e_runtime::Serves {
        use a2e_wire::Tag;
        a2e_runtime::Serves::Tags(vec![
            Tag::MemoryRetrieveRequest,
            Tag::MemoryForgetRequest,
            Tag::ToolkitConfigureRequest,
        ])
    }

    fn handle(
        &self,
        _: Box<a2e_wire::Message<'static>>,
        _: a2e_runtime::Context,
    ) -> a2e_runtime::BoxFuture<'_, Result<a2e_runtime::Outcome, a2e_runtime::Failure>> {
        let answer = a2e_wire::messages::memory::MemoryForgetResponse::new();
        Box::pin(std::future::ready(Ok(a2e_runtime::Outcome::answer(answer))))
    }
}

async fn with_memory(rules: &Value) -> Wire {
    let host = with(rules).plugin(Everything).build();
    let mut wire = Transport::Memory.place(&host).await.wire().await;
    let mut hello = handshake();
    hello["agent_caps"] = json!(["tools", "memory"]);
    assert_eq!(wire.ask(&hello).await["ok"], true);
    wire
}

/// A rule is about what is done, in whatever words it is asked for.
#[tokio::test]
async fn other_spellings_of_a_type_are_the_same_type() {
    let mut agent = with_memory(
        &json!({"rules": [{"id": "no", "name": "memory/retrieve/req", "action": "deny"}]}),
    )
    .await;
    for (index, spelling) in ["memory/retrieve/req", "memory/recall"].iter().enumerate() {
        let answer = agent
            .ask(&json!({"type": spelling, "id": format!("r{index}"), "memory_id": "m"}))
            .await;
        assert_eq!(answer["detail"]["rule"], "no", "{spelling}");
    }
}

/// A condition sees what the plugin gets: defaults are there, and members by their right names.
#[tokio::test]
async fn conditions_see_what_the_plugin_gets() {
    let rules = json!({"rules": [
        {"id": "no", "name": "memory/forget/req", "when": "tier == 'episodic'", "action": "deny"},
    ]});
    let mut agent = with_memory(&rules).await;
    let forget = json!({"type": "memory/forget/req", "id": "1", "memory_id": "m", "keys": []});
    assert_eq!(agent.ask(&forget).await["detail"]["rule"], "no");
}

/// Repetitions are told by what is called and with what; nothing else makes a call another one.
#[tokio::test]
async fn a_repetition_is_one_whatever_else_is_said() {
    let host = with(&json!({"repeat": {"calls": 2, "window": 60, "action": "deny"}})).build();
    let mut agent = agent(&host).await;
    for (index, more) in [
        json!({}),
        json!({"correlation_id": "one"}),
        json!({"correlation_id": "two", "timeout": 7}),
        json!({"extra": true}),
    ]
    .iter()
    .enumerate()
    {
        let mut repeated = call(&format!("r{index}"), "echo", &json!({"n": 1}));
        let members = repeated.as_object_mut().unwrap();
        members.extend(more.as_object().unwrap().clone());
        let answer = agent.ask(&repeated).await;
        let denied = answer["detail"]["rule"] == "repeat";
        assert_eq!(denied, index >= 1, "{index}: {answer}");
    }
    for index in 0..4 {
        let line = format!(
            r#"{{"type":"tool/call/req","id":"n{index}","tool_name":"echo","arguments":{{"n":123456789012345678901234567890}}}}"#
        );
        let answer = agent.ask_line(&line).await;
        let denied = answer["detail"]["rule"] == "repeat";
        assert_eq!(denied, index >= 1, "{index}: {answer}");
    }
}

/// What is sent again counts against the rate and is recorded, and so does a reused id count; what is refused
/// does not fill the log.
#[tokio::test]
async fn retries_count_and_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let log = log(folder.path());
    let host = with(&json!({"rate_limit": 5, "rate_period": 3600}))
        .audit(log.clone())
        .build();
    let mut agent = agent(&host).await;
    let mut limited = 0;
    for index in 0..20 {
        let answer = agent
            .ask(&call("same", "echo", &json!({"n": index % 2})))
            .await;
        limited += u32::from(answer["detail"]["reason"] == "rate_limited");
    }
    assert_eq!(limited, 15);
    log.close();
    // The first, and two that were sent again.
    assert_eq!(recorded(folder.path()).len(), 3);
    let counts: Vec<_> = of_type(folder.path(), "rejections")
        .iter()
        .map(|it| {
            (
                it["agent"].clone(),
                it["reason"].clone(),
                it["count"].clone(),
            )
        })
        .collect();
    let agent = json!("default");
    assert_eq!(
        counts,
        [
            (agent.clone(), json!("id_reused"), json!(2)),
            (agent, json!("rate_limited"), json!(15)),
        ]
    );
}

//! The one decision point (`design.md` §2): rules, rates, held calls, and the record of it all.

use std::path::Path;
use std::time::Duration;

use a2e_runtime::config::{AgentPolicy, Policy};
use a2e_runtime::{Approvals, Host, HostBuilder, Policies};
use audit::{Checkpoint, KeyCheck, Log, NotSigned, Parts, Refusal, Settings, UnixMillis};
use canonical::Value as Tree;
use policy::RulesConfig;
use serde_json::{Value, json};
use store::{Memory, Store, Verdict};

use crate::support::{Transport, Wire, demo, handshake};

fn rules(rules: &Value) -> RulesConfig {
    let text = rules.to_string();
    Tree::parse(text.as_bytes())
        .unwrap()
        .deserialize_into()
        .unwrap()
}

fn policies(common: &Value) -> Policies {
    let policy = Policy {
        common: rules(common),
        agents: Vec::new(),
    };
    Policies::compile(&policy).unwrap()
}

fn with(common: &Value) -> HostBuilder {
    demo().policies(policies(common))
}

fn approvals() -> Approvals {
    let store = Store::new(Memory::new(store::Limits::default()));
    Approvals::new(store, Duration::from_secs(60))
}

fn call(id: &str, tool: &str, arguments: &Value) -> Value {
    json!({"type": "tool/call/req", "id": id, "tool_name": tool, "arguments": arguments})
}

async fn agent(host: &Host) -> Wire {
    Wire::connected(Transport::Memory, host).await
}

/// A node that signs with nothing: these tests are about what is on record, not about its proof.
struct NoKeys;

impl audit::Signer for NoKeys {
    fn sign(&self, checkpoint: &Checkpoint) -> Result<String, NotSigned> {
        let Checkpoint {
            log_id,
            seq,
            head_hash,
            timestamp,
        } = checkpoint;
        Ok(format!("{log_id}.{seq}.{head_hash}.{timestamp}"))
    }
}

impl KeyCheck for NoKeys {
    fn check(&self, jws: &str) -> Result<Checkpoint, Refusal> {
        let parts: Vec<&str> = jws.split('.').collect();
        let [log_id, seq, head_hash, timestamp] = parts.as_slice() else {
            return Err(Refusal::Invalid(jws.to_owned()));
        };
        Ok(Checkpoint {
            log_id: (*log_id).to_owned(),
            seq: seq.parse().unwrap(),
            head_hash: head_hash.parse().unwrap(),
            timestamp: timestamp.parse().unwrap(),
        })
    }
}

fn log(folder: &Path) -> Log {
    let mut count = 0;
    let parts = Parts {
        signer: Box::new(NoKeys),
        keys: Box::new(NoKeys),
        random: Box::new(move |bytes: &mut [u8]| {
            count += 1;
            bytes.fill(count);
            Ok(())
        }),
        clock: Box::new(|| UnixMillis(1_770_000_000_000)),
        alarm: Box::new(|_| {}),
    };
    Log::open(folder, Settings::default(), parts).unwrap()
}

/// The requests on record.
fn recorded(folder: &Path) -> Vec<Value> {
    of_type(folder, "request_received")
}

/// What is on record of one type.
fn of_type(folder: &Path, event_type: &str) -> Vec<Value> {
    let (_, lines) = audit::Follower::new(folder, 1000).unwrap();
    lines
        .iter()
        .map(|line| serde_json::from_slice::<Value>(line).unwrap())
        .filter(|record| record["event_type"] == event_type)
        .collect()
}

#[tokio::test]
async fn the_first_rule_decides_and_is_named() {
    let host = with(&json!({"rules": [
        {"id": "no-secrets", "capability": "tools", "name": "echo", "when": "contains(text, 'secret')", "then": "deny"},
        {"name": ["echo", "clock"], "then": "allow"},
        {"capability": "tools", "name": "*", "then": "deny", "reason": "only what is listed"},
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
    // A condition that says neither yes nor no denies.
    let answer = agent.ask(&call("3", "echo", &json!({"text": 5}))).await;
    assert_eq!(answer["detail"], json!({"rule": "no-secrets"}));
    let answer = agent.ask(&call("4", "fail", &json!({}))).await;
    assert_eq!(answer["detail"], json!({"rule": "policy.rules[2]"}));
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
    let host = with(&json!({"repeat": {"calls": 3, "window": 60, "then": "deny"}})).build();
    let mut agent = agent(&host).await;
    for id in ["1", "2"] {
        assert_eq!(
            agent.ask(&call(id, "echo", &json!({"a": 1}))).await["data"]["success"],
            true
        );
    }
    let answer = agent.ask(&call("3", "echo", &json!({"a": 1}))).await;
    assert_eq!(answer["detail"], json!({"rule": "policy.repeat"}));
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
    assert_eq!(answer["detail"], json!({"rule": "policy.defaults.tools"}));
}

#[tokio::test]
async fn an_agent_has_rules_of_its_own() {
    let policy = Policy {
        common: rules(&json!({"default": "deny"})),
        agents: vec![AgentPolicy {
            name: "default".to_owned(),
            policy: rules(&json!({"rules": [{"name": "echo", "then": "allow"}]})),
        }],
    };
    let host = demo().policies(Policies::compile(&policy).unwrap()).build();
    let mut agent = agent(&host).await;
    assert_eq!(
        agent.ask(&call("1", "echo", &json!({}))).await["data"]["success"],
        true
    );
    let answer = agent.ask(&call("2", "clock", &json!({}))).await;
    assert_eq!(answer["detail"], json!({"rule": "policy.default"}));
}

const HOLD: &str = r#"{"rules": [{"id": "ask", "name": "echo", "then": "hold"}]}"#;

fn holding(approvals: &Approvals) -> HostBuilder {
    with(&serde_json::from_str(HOLD).unwrap()).approvals(approvals.clone())
}

/// The id of the one call that waits, while its agent listens.
async fn waiting(approvals: &Approvals, agent: &mut Wire) -> String {
    let found = async {
        loop {
            if let [approval] = approvals.list().await.unwrap().as_slice() {
                return approval.id.clone();
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        id = found => id,
        message = agent.hear() => panic!("{message:?}"),
    }
}

#[tokio::test]
async fn a_held_call_goes_on_once_it_is_approved_and_once_only() {
    let approvals = approvals();
    let host = holding(&approvals).build();
    let mut agent = agent(&host).await;
    let mut held = call("1", "echo", &json!({"n": 1}));
    held["streaming"] = json!(true);
    agent.say(&held.to_string());
    let status = agent.hear().await.unwrap();
    assert_eq!(
        (&status["type"], &status["kind"], &status["seq"]),
        (&json!("tool/event"), &json!("status"), &json!(0))
    );
    let id = waiting(&approvals, &mut agent).await;
    assert_eq!(status["data"], json!({"status": "held", "approval_id": id}));
    let shown = approvals.get(&id).await.unwrap().unwrap();
    assert_eq!(shown.agent, "default");
    let shown: Value = serde_json::from_slice(&shown.shown).unwrap();
    assert_eq!(
        (&shown["rule"], &shown["request"]["arguments"]),
        (&json!("ask"), &json!({"n": 1}))
    );
    // It takes no place: others go on.
    for id in ["2", "3", "4", "5", "6"] {
        assert_eq!(
            agent.ask(&call(id, "clock", &json!({}))).await["data"]["success"],
            true
        );
    }
    approvals.decide(&id, Verdict::Granted).await.unwrap();
    let answer = agent.hear().await.unwrap();
    assert_eq!(
        (&answer["req_id"], &answer["data"]["success"]),
        (&json!("1"), &json!(true))
    );
    assert!(
        approvals.decide(&id, Verdict::Granted).await.is_err(),
        "it is used up"
    );

    agent.say(&call("7", "echo", &json!({"n": 1})).to_string());
    assert_ne!(
        waiting(&approvals, &mut agent).await,
        id,
        "the same again is another question"
    );
}

#[tokio::test]
async fn a_refusal_is_an_answer() {
    let approvals = approvals();
    let host = holding(&approvals).build();
    let mut agent = agent(&host).await;
    agent.say(&call("1", "echo", &json!({})).to_string());
    let id = waiting(&approvals, &mut agent).await;
    approvals.decide(&id, Verdict::Refused).await.unwrap();
    let answer = agent.hear().await.unwrap();
    assert_eq!(answer["code"], "tool_denied");
    assert_eq!(
        answer["detail"],
        json!({"rule": "ask", "reason": "not_approved", "approval_id": id})
    );
}

#[tokio::test(start_paused = true)]
async fn silence_denies() {
    let approvals = approvals();
    let host = holding(&approvals).build();
    let mut agent = agent(&host).await;
    // Its own time limit does not count as long as it is held.
    let mut held = call("1", "echo", &json!({}));
    held["timeout"] = json!(1);
    let answer = agent.ask(&held).await;
    assert_eq!(answer["detail"]["reason"], "not_approved");
    assert!(approvals.list().await.unwrap().is_empty());
}

#[tokio::test]
async fn without_an_operator_held_calls_are_refused() {
    let host = with(&serde_json::from_str(HOLD).unwrap()).build();
    let mut agent = agent(&host).await;
    let answer = agent.ask(&call("1", "echo", &json!({}))).await;
    assert_eq!(answer["detail"]["reason"], "not_approved");
}

/// The word stands although the host was restarted in between: the same call needs no second
/// question, another one does.
#[tokio::test]
async fn an_approval_survives_the_host() {
    let approvals = approvals();
    let first = holding(&approvals).drain(Duration::ZERO).build();
    let mut agent = agent(&first).await;
    agent.say(&call("1", "echo", &json!({"n": 1})).to_string());
    let id = waiting(&approvals, &mut agent).await;
    first.stop();
    first.stopped().await;
    approvals.decide(&id, Verdict::Granted).await.unwrap();

    let second = holding(&approvals).build();
    let mut agent = self::agent(&second).await;
    let answer = agent.ask(&call("again", "echo", &json!({"n": 1}))).await;
    assert_eq!(answer["data"]["success"], true);
    agent.say(&call("more", "echo", &json!({"n": 1})).to_string());
    assert_ne!(waiting(&approvals, &mut agent).await, id);
}

#[tokio::test]
async fn everything_is_on_record() {
    let folder = tempfile::tempdir().unwrap();
    let approvals = approvals();
    let host = with(&json!({"rules": [
        {"id": "ask", "name": "clock", "then": "hold"},
        {"id": "never", "name": "fail", "then": "deny"},
    ]}))
    .approvals(approvals.clone())
    .audit(log(folder.path()))
    .build();
    let mut agent = agent(&host).await;
    let mut first = call("1", "echo", &json!({}));
    first["correlation_id"] = json!("corr");
    agent.ask(&first).await;
    agent.ask(&call("2", "fail", &json!({}))).await;
    agent.ask(&call("3", "none", &json!({}))).await;
    agent.say(&call("4", "clock", &json!({})).to_string());
    let id = waiting(&approvals, &mut agent).await;
    approvals.decide(&id, Verdict::Granted).await.unwrap();
    agent.hear().await.unwrap();

    let records = recorded(folder.path());
    let what = |index: usize| {
        let record: &Value = &records[index];
        (
            record["request_id"].clone(),
            record["result"].clone(),
            record["response_status"].clone(),
            record["rule"].clone(),
        )
    };
    let is = |id: &str, result: &str, status: &str, rule: &str| {
        (json!(id), json!(result), json!(status), json!(rule))
    };
    assert_eq!(what(0), is("1", "approved", "success", "built-in"));
    assert_eq!(what(1), is("2", "rejected", "tool_denied", "never"));
    assert_eq!(what(2), is("3", "approved", "unknown_tool", "built-in"));
    assert_eq!(what(3), is("4", "approved", "success", "ask"));
    assert_eq!(records[3]["approval_id"], json!(id));
    let first = &records[0];
    assert_eq!(first["agent"], "default");
    assert_eq!(
        (&first["capability"], &first["name"]),
        (&json!("tools"), &json!("echo"))
    );
    assert_eq!(first["correlation_id"], "corr");
    assert_eq!(
        first["policy_checks"],
        json!({"capability_accepted": "passed", "rule_allowed": "passed"})
    );
    assert!(
        first["session_id"].as_str().unwrap().starts_with("sha256:"),
        "{first}"
    );
    assert!(first["output_bytes"].as_u64().unwrap() > 100);
}

/// What cannot be put on record is not done.
#[tokio::test]
async fn without_a_record_nothing_is_done() {
    let folder = tempfile::tempdir().unwrap();
    let log = log(folder.path());
    let host = with(&json!({})).audit(log.clone()).build();
    let mut agent = agent(&host).await;
    assert_eq!(
        agent.ask(&call("1", "echo", &json!({}))).await["data"]["success"],
        true
    );
    log.close();
    let answer = agent.ask(&call("2", "echo", &json!({}))).await;
    assert_eq!(
        (&answer["code"], &answer["retryable"]),
        (&json!("runtime_error"), &json!(true))
    );
    assert_eq!(answer["detail"]["reason"], "audit_unavailable");
    assert_eq!(recorded(folder.path()).len(), 1);
}

/// Who came, who went, and who was not let in.
#[tokio::test]
async fn sessions_are_on_record_from_handshake_to_end() {
    let folder = tempfile::tempdir().unwrap();
    let log = log(folder.path());
    let host = with(&json!({})).audit(log.clone()).build();
    let mut agent = Transport::Tcp.place(&host).await.wire().await;
    // Before the handshake, and with nothing that is offered.
    agent.ask(&call("1", "echo", &json!({}))).await;
    let mut useless = handshake();
    useless["agent_caps"] = json!(["memory"]);
    assert_eq!(agent.ask(&useless).await["reason"], "no_caps");
    assert_eq!(agent.ask(&handshake()).await["ok"], true);
    let refused = agent
        .ask(&json!({"type": "memory/init/req", "id": "2"}))
        .await;
    assert_eq!(refused["code"], "capability_missing");
    agent.say(&json!({"type": "shutdown", "timeout": 0}).to_string());
    assert!(agent.is_over().await);
    host.stop();
    host.stopped().await;
    log.close();

    let [handshake] = &of_type(folder.path(), "handshake")[..] else {
        panic!("one handshake let somebody in");
    };
    assert_eq!(
        (
            &handshake["agent"],
            &handshake["result"],
            &handshake["transport"]
        ),
        (&json!("default"), &json!("approved"), &json!("tcp"))
    );
    let [refused] = &recorded(folder.path())[..] else {
        panic!("one request was made in the session");
    };
    assert_eq!(
        (
            &refused["result"],
            &refused["response_status"],
            &refused["capability"]
        ),
        (
            &json!("rejected"),
            &json!("capability_missing"),
            &json!("memory")
        )
    );
    assert_eq!(
        refused["policy_checks"],
        json!({"capability_accepted": "failed"})
    );
    let [end] = &of_type(folder.path(), "session_end")[..] else {
        panic!("one session ended");
    };
    assert_eq!(end["reason"], "shutdown");
    for record in [refused, end] {
        assert_eq!(record["session_id"], handshake["session_id"]);
        assert_eq!(record["remote_ip"], "127.0.0.1");
    }
    let turned_away = of_type(folder.path(), "rejections");
    let reasons: Vec<_> = turned_away
        .iter()
        .map(|record| (record["reason"].as_str().unwrap(), record["count"].as_u64()))
        .collect();
    assert_eq!(reasons, [("no_caps", Some(1)), ("no_handshake", Some(1))]);
}

/// An agent whose coming cannot be put on record does not come in.
#[tokio::test]
async fn without_a_record_nobody_is_let_in() {
    let folder = tempfile::tempdir().unwrap();
    let log = log(folder.path());
    let host = with(&json!({})).audit(log.clone()).build();
    log.close();
    let mut agent = Transport::Memory.place(&host).await.wire().await;
    let answer = agent.ask(&handshake()).await;
    assert_eq!(
        (&answer["ok"], &answer["reason"]),
        (&json!(false), &json!("server_error"))
    );
}

/// A host that is asked for things that this one has no plugin for, and says what it got.
struct Everything;

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
        _: a2e_wire::Message<'static>,
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
        &json!({"rules": [{"id": "no", "name": "memory/retrieve/req", "then": "deny"}]}),
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
        {"id": "no", "name": "memory/forget/req", "when": "tier == 'episodic'", "then": "deny"},
    ]});
    let mut agent = with_memory(&rules).await;
    let forget = json!({"type": "memory/forget/req", "id": "1", "memory_id": "m", "keys": []});
    assert_eq!(agent.ask(&forget).await["detail"]["rule"], "no");
}

/// Repetitions are told by what is called and with what; nothing else makes a call another one.
#[tokio::test]
async fn a_repetition_is_one_whatever_else_is_said() {
    let host = with(&json!({"repeat": {"calls": 2, "window": 60, "then": "deny"}})).build();
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
        let denied = answer["detail"]["rule"] == "policy.repeat";
        assert_eq!(denied, index >= 1, "{index}: {answer}");
    }
    for index in 0..4 {
        let line = format!(
            r#"{{"type":"tool/call/req","id":"n{index}","tool_name":"echo","arguments":{{"n":123456789012345678901234567890}}}}"#
        );
        let answer = agent.ask_line(&line).await;
        let denied = answer["detail"]["rule"] == "policy.repeat";
        assert_eq!(denied, index >= 1, "{index}: {answer}");
    }
}

/// What is sent again counts against the rate, and so does a reused id; neither fills the log.
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
    assert_eq!(recorded(folder.path()).len(), 1);
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

/// Two calls that are the same need two words.
#[tokio::test]
async fn one_word_serves_one_of_two_equal_calls() {
    let approvals = approvals();
    let host = holding(&approvals).build();
    let mut agent = agent(&host).await;
    for id in ["1", "2"] {
        agent.say(&call(id, "echo", &json!({"n": 1})).to_string());
    }
    let first = waiting(&approvals, &mut agent).await;
    approvals.decide(&first, Verdict::Granted).await.unwrap();
    assert_eq!(agent.hear().await.unwrap()["data"]["success"], true);
    let second = loop {
        let listed = approvals.list().await.unwrap();
        match listed.first() {
            Some(call) => break call.id.clone(),
            None => tokio::task::yield_now().await,
        }
    };
    assert_ne!(first, second);
    approvals.decide(&second, Verdict::Granted).await.unwrap();
    assert_eq!(agent.hear().await.unwrap()["data"]["success"], true);
}

/// An approval under rules that have changed since does not outweigh those of now.
#[tokio::test]
async fn what_is_denied_meanwhile_is_not_done_although_approved() {
    let approvals = approvals();
    let host = holding(&approvals).build();
    let mut agent = agent(&host).await;
    agent.say(&call("1", "echo", &json!({})).to_string());
    let id = waiting(&approvals, &mut agent).await;
    host.set_policies(policies(&json!({"defaults": {"tools": "deny"}})));
    approvals.decide(&id, Verdict::Granted).await.unwrap();
    let answer = agent.hear().await.unwrap();
    assert_eq!(answer["detail"]["rule"], "policy.defaults.tools");
}

/// Nobody approved of a call whose agent went away: that is on record, and it is asked about no more.
#[tokio::test]
async fn a_held_call_ends_with_its_session() {
    let folder = tempfile::tempdir().unwrap();
    let approvals = approvals();
    let host = holding(&approvals).audit(log(folder.path())).build();
    let mut agent = agent(&host).await;
    agent.say(&call("1", "echo", &json!({})).to_string());
    let id = waiting(&approvals, &mut agent).await;
    assert!(approvals.is_awaited(&id));
    agent.say(&json!({"type": "shutdown", "timeout": 0}).to_string());
    while agent.hear().await.is_some() {}
    while !approvals.list().await.unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    assert!(!approvals.is_awaited(&id));
    let records = recorded(folder.path());
    assert_eq!(
        (&records[0]["result"], &records[0]["response_status"]),
        (&json!("rejected"), &json!("cancelled"))
    );
    assert_eq!(records[0]["policy_checks"]["approval"], "failed");
}

/// What a toolkit is configured with is shown to nobody, and kept nowhere for the operator.
#[tokio::test]
async fn secrets_are_not_shown_to_the_operator() {
    let approvals = approvals();
    let host = with(&json!({"default": "hold"}))
        .plugin(Everything)
        .plugin(Kits)
        .approvals(approvals.clone())
        .build();
    let mut agent = Transport::Memory.place(&host).await.wire().await;
    let mut hello = handshake();
    hello["agent_caps"] = json!(["toolkits"]);
    assert_eq!(agent.ask(&hello).await["ok"], true);
    let configure = json!({"type": "toolkit/configure/req", "id": "1", "toolkit_name": "http",
        "config": {"hosts": [{"host": "a", "headers": {"token": "s3cret"}}]}});
    agent.say(&configure.to_string());
    let id = waiting(&approvals, &mut agent).await;
    let shown = approvals.get(&id).await.unwrap().unwrap().shown;
    let shown = String::from_utf8(shown).unwrap();
    assert!(
        shown.contains("token") && !shown.contains("s3cret"),
        "{shown}"
    );
}

/// Offers toolkits, of which it has none.
struct Kits;

impl a2e_runtime::Plugin for Kits {
    fn name(&self) -> &str {
        "kits"
    }

    fn capability(&self) -> Option<a2e_wire::Capability<'static>> {
        Some(a2e_wire::Capability::Toolkits)
    }

    fn serves(&self) -> a2e_runtime::Serves {
        a2e_runtime::Serves::Tags(vec![a2e_wire::Tag::ToolkitListRequest])
    }

    fn handle(
        &self,
        _: a2e_wire::Message<'static>,
        _: a2e_runtime::Context,
    ) -> a2e_runtime::BoxFuture<'_, Result<a2e_runtime::Outcome, a2e_runtime::Failure>> {
        Box::pin(std::future::ready(Ok(a2e_runtime::Outcome::Pass)))
    }
}

/// Would run chains.
struct Chains;

impl a2e_runtime::Plugin for Chains {
    fn name(&self) -> &str {
        "chains"
    }

    fn capability(&self) -> Option<a2e_wire::Capability<'static>> {
        Some(a2e_wire::Capability::Chains)
    }

    fn serves(&self) -> a2e_runtime::Serves {
        a2e_runtime::Serves::Tags(vec![a2e_wire::Tag::ChainRequest])
    }

    fn handle(
        &self,
        _: a2e_wire::Message<'static>,
        _: a2e_runtime::Context,
    ) -> a2e_runtime::BoxFuture<'_, Result<a2e_runtime::Outcome, a2e_runtime::Failure>> {
        let answer = a2e_wire::messages::chain::ChainResponse::new();
        Box::pin(std::future::ready(Ok(a2e_runtime::Outcome::answer(answer))))
    }
}

/// Calls inside a call are decided about as well, and the strictest decision counts.
#[tokio::test]
async fn a_chain_calls_nothing_that_its_agent_may_not_call() {
    let rules = json!({"rules": [
        {"id": "no-echo", "capability": "tools", "name": "echo", "then": "deny"},
        {"id": "no-big", "capability": "tools", "name": "clock", "when": "n > `5`", "then": "deny"},
    ]});
    let host = with(&rules).plugin(Chains).build();
    let mut agent = Transport::Memory.place(&host).await.wire().await;
    let mut hello = handshake();
    hello["agent_caps"] = json!(["tools", "chains"]);
    assert_eq!(agent.ask(&hello).await["ok"], true);
    for (index, (node, rule)) in [
        (json!({"kind": "tool", "name": "echo"}), Some("no-echo")),
        (json!({"kind": "skill", "name": "echo"}), None),
        (
            json!({"kind": "tool", "name": "clock", "input": {"n": 6}}),
            Some("no-big"),
        ),
        (
            json!({"kind": "tool", "name": "clock", "input": {"n": 5}}),
            None,
        ),
        // What it will be called with is not known yet.
        (
            json!({"kind": "tool", "name": "clock", "input_map": {"n": "$.n"}}),
            Some("no-big"),
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let mut node = node;
        node["node_id"] = json!("a");
        let chain = json!({"type": "chain/req", "id": format!("c{index}"), "chain_id": "c",
            "entry_node": "a", "nodes": [node], "streaming": false});
        let answer = agent.ask(&chain).await;
        assert_eq!(answer["detail"]["rule"].as_str(), rule, "{answer}");
    }
}

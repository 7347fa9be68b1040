//! What is on record, and what cannot be.

use serde_json::{Value, json};
use store::Verdict;

use super::held::waiting;
use super::{agent, approvals, call, log, of_type, recorded, with};
use crate::support::{Transport, handshake};

#[tokio::test]
async fn everything_is_on_record() {
    let folder = tempfile::tempdir().unwrap();
    let approvals = approvals();
    let host = with(&json!({"rules": [
        {"id": "ask", "name": "clock", "action": "require_approval"},
        {"id": "never", "name": "fail", "action": "deny"},
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
    approvals.decide(&id, Verdict::Granted, "").await.unwrap();
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

/// An answer that is kept and sent again leaves the node as the first one did.
#[tokio::test]
async fn stored_answer_that_is_sent_again_is_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let host = with(&json!({})).audit(log(folder.path())).build();
    let mut agent = agent(&host).await;
    let echo = call("1", "echo", &json!({"secret": "s3cret"}));
    let answers = [agent.ask(&echo).await, agent.ask(&echo).await];
    assert_eq!(answers[0]["data"], answers[1]["data"]);
    let records = recorded(folder.path());
    let rules: Vec<_> = records.iter().map(|it| it["rule"].clone()).collect();
    assert_eq!(rules, ["built-in", "idempotency_cache"]);
    let [first, again] = records.as_slice() else {
        panic!("{records:?}");
    };
    for member in ["request_id", "request_hash", "name", "agent", "result"] {
        assert_eq!(first[member], again[member], "{member}");
    }
    assert_eq!(again["response_status"], "success");
    assert!(again["output_bytes"].as_u64().unwrap() > 0);
}

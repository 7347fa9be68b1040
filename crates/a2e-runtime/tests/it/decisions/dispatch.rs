//! Requests that one plugin makes of another, and for whoever has no connection: they are decided
//! about and recorded like those of agents.

use std::sync::Arc;

use a2e_runtime::{
    BoxFuture, Context, Failure, Host, Identity, MAX_DEPTH, Outcome, Plugin, Serves,
};
use a2e_wire::{Body, Capability, ErrorCode, Message, Tag};
use policy::TrustLevel;
use serde_json::json;
use store::Verdict;
use tokio::sync::{Notify, mpsc};

use super::held::waiting;
use super::{agent, approvals, call, log, recorded, with};
use crate::support::{call as tool_call, demo};

/// Answers every call of `twice` with the answer to `inner`, which it asks the host for.
struct Through {
    inner: &'static str,
    events: Option<mpsc::Sender<Body<'static>>>,
}

impl Plugin for Through {
    fn name(&self) -> &'static str {
        "through"
    }

    fn capability(&self) -> Option<Capability<'static>> {
        Some(Capability::Tools)
    }

    fn priority(&self) -> i64 {
        1
    }

    fn serves(&self) -> Serves {
        Serves::Tags(vec![Tag::ToolCallRequest])
    }

    fn handle(
        &self,
        request: Box<Message<'static>>,
        context: Context,
    ) -> BoxFuture<'_, Result<Outcome, Failure>> {
        Box::pin(async move {
            let Body::ToolCallRequest(call) = request.body else {
                return Ok(Outcome::Pass);
            };
            if call.tool_name != "twice" {
                return Ok(Outcome::Pass);
            }
            let mut inner = tool_call(self.inner, r#"{"count":2}"#);
            inner.streaming = self.events.is_some();
            let answer = context.ask_with_events(inner, self.events.clone()).await?;
            Ok(Outcome::answer(answer))
        })
    }
}

fn through(inner: &'static str) -> Through {
    Through {
        inner,
        events: None,
    }
}

#[tokio::test]
async fn a_request_inside_another_is_decided_about_and_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let host = with(&json!({"rules": [{"id": "never", "name": "clock", "action": "deny"}]}))
        .plugin(through("echo"))
        .audit(log(folder.path()))
        .build();
    let mut allowed = agent(&host).await;
    let answer = allowed.ask(&call("1", "twice", &json!({}))).await;
    assert_eq!(answer["data"]["data"], json!({"count": 2}), "{answer}");

    let ids: Vec<_> = recorded(folder.path())
        .iter()
        .map(|record| (record["request_id"].clone(), record["name"].clone()))
        .collect();
    let inner = (json!("1.0"), json!("echo"));
    assert_eq!(ids, [inner, (json!("1"), json!("twice"))]);
    let records = recorded(folder.path());
    assert_eq!(records[0]["session_id"], records[1]["session_id"]);
    assert_eq!(records[0]["response_status"], "success");
}

#[tokio::test]
async fn what_the_rules_refuse_is_refused_inside_too() {
    let host = with(&json!({"rules": [{"id": "never", "name": "clock", "action": "deny"}]}))
        .plugin(through("clock"))
        .build();
    let mut agent = agent(&host).await;
    let answer = agent.ask(&call("1", "twice", &json!({}))).await;
    assert_eq!(
        (&answer["code"], &answer["detail"]["rule"]),
        (&json!("tool_denied"), &json!("never")),
        "{answer}"
    );
}

#[tokio::test]
async fn the_operator_is_asked_about_what_is_inside() {
    let folder = tempfile::tempdir().unwrap();
    let approvals = approvals();
    let host =
        with(&json!({"rules": [{"id": "ask", "name": "echo", "action": "require_approval"}]}))
            .plugin(through("echo"))
            .approvals(approvals.clone())
            .audit(log(folder.path()))
            .build();
    let mut agent = agent(&host).await;
    for (verdict, is_done) in [(Verdict::Granted, true), (Verdict::Refused, false)] {
        agent.say(&call(&format!("{is_done}"), "twice", &json!({})).to_string());
        let id = waiting(&approvals, &mut agent).await;
        approvals.decide(&id, verdict, "").await.unwrap();
        let answer = agent.hear().await.unwrap();
        assert_eq!(answer["data"]["success"] == true, is_done, "{answer}");
        let records = recorded(folder.path());
        let inner = &records[records.len() - 2];
        assert_eq!(inner["approval_id"], json!(id), "{inner}");
    }
}

/// Whoever gives up takes the question back, and it is on record.
#[tokio::test]
async fn a_held_request_inside_one_that_is_given_up_is_withdrawn() {
    let folder = tempfile::tempdir().unwrap();
    let approvals = approvals();
    let host =
        with(&json!({"rules": [{"id": "ask", "name": "echo", "action": "require_approval"}]}))
            .plugin(through("echo"))
            .approvals(approvals.clone())
            .audit(log(folder.path()))
            .build();
    let stand_in = host.stand_in(Identity::named("peer"));
    {
        let held = async {
            while approvals.list().await.unwrap().is_empty() {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            answer = stand_in.ask("1", tool_call("twice", "{}"), None) => panic!("{answer:?}"),
            () = held => {}
        }
    }
    while !approvals.list().await.unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    assert_eq!(recorded(folder.path()).len(), 2);
    for record in recorded(folder.path()) {
        assert_eq!(record["response_status"], "cancelled", "{record}");
    }
}

#[tokio::test]
async fn events_inside_reach_whoever_asked() {
    let (events, mut received) = mpsc::channel(16);
    let host = demo()
        .plugin(Through {
            inner: "stream",
            events: Some(events),
        })
        .build();
    let mut agent = agent(&host).await;
    let answer = agent.ask(&call("1", "twice", &json!({}))).await;
    assert_eq!(answer["data"]["success"], true, "{answer}");
    let first = received.try_recv().unwrap();
    assert!(matches!(first, Body::ToolEvent(_)), "{first:?}");
}

#[tokio::test]
async fn requests_are_only_so_deep_inside_each_other() {
    let host = demo().plugin(through("twice")).build();
    let stand_in = host.stand_in(Identity::named("peer"));
    let failure = stand_in
        .ask("1", tool_call("twice", "{}"), None)
        .await
        .unwrap_err();
    assert_eq!(failure.code, ErrorCode::RuntimeError);
    assert!(
        failure.message.contains(&MAX_DEPTH.to_string()),
        "{failure:?}"
    );
}

/// What is dropped is cancelled, in the plugin that serves it too.
#[tokio::test]
async fn a_request_inside_ends_with_whoever_waits_for_it() {
    let started = Arc::new(Notify::new());
    let ended = Arc::new(Notify::new());
    let host = demo()
        .plugin(Endless {
            started: Arc::clone(&started),
            ended: Arc::clone(&ended),
        })
        .build();
    let stand_in = host.stand_in(Identity::named("peer"));
    {
        let asked = stand_in.ask("1", tool_call("endless", "{}"), None);
        tokio::select! {
            _ = asked => panic!("it never ends"),
            () = started.notified() => {}
        }
    }
    ended.notified().await;
}

struct Endless {
    started: Arc<Notify>,
    ended: Arc<Notify>,
}

impl Plugin for Endless {
    fn name(&self) -> &'static str {
        "endless"
    }

    fn capability(&self) -> Option<Capability<'static>> {
        Some(Capability::Tools)
    }

    fn priority(&self) -> i64 {
        1
    }

    fn serves(&self) -> Serves {
        Serves::Tags(vec![Tag::ToolCallRequest])
    }

    fn handle(
        &self,
        _: Box<Message<'static>>,
        context: Context,
    ) -> BoxFuture<'_, Result<Outcome, Failure>> {
        Box::pin(async move {
            let (over, ended) = (context.over().clone(), Arc::clone(&self.ended));
            tokio::spawn(async move {
                over.cancelled().await;
                ended.notify_one();
            });
            self.started.notify_one();
            std::future::pending().await
        })
    }
}

/// What runs is cut off, and nothing more is done. Who comes in by the same name later has its own access.
#[tokio::test]
async fn requests_of_a_stand_in_end_when_its_access_is_revoked() {
    let (started, ended) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let host = Host::builder()
        .plugin(Endless {
            started: Arc::clone(&started),
            ended: Arc::clone(&ended),
        })
        .build();
    let did = "did:key:peer";
    let stand_in = host.stand_in(Identity::proven("peer", did, TrustLevel::Own));
    let other = host.stand_in(Identity::named("peer"));
    let revoked = async {
        started.notified().await;
        host.revoke_access(move |it| it.did.as_deref() == Some(did))
            .await
    };
    // The revocation waits until the stand-in is gone, too.
    let asking = async move {
        let asked = stand_in.ask("1", tool_call("endless", "{}"), None);
        let failure = asked.await.unwrap_err();
        let again = stand_in.ask("2", tool_call("endless", "{}"), None);
        assert_eq!(again.await.unwrap_err().code, ErrorCode::Unauthorized);
        failure
    };
    let (failure, ended_sessions) = tokio::join!(asking, revoked);
    assert_eq!(failure.code, ErrorCode::Unauthorized);
    assert_eq!(ended_sessions.unwrap(), 0);
    ended.notified().await;
    assert_eq!(host.acting(|it| it.did.is_some()), 0);
    assert!(!other.access().is_revoked());
    let later = host.stand_in(Identity::proven("peer", did, TrustLevel::Own));
    assert!(!later.access().is_revoked());
}

/// Rules of an agent hold for whoever asks in its name.
#[tokio::test]
async fn a_stand_in_has_the_rights_of_its_agent() {
    let folder = tempfile::tempdir().unwrap();
    let host: Host = with(&json!({"rules": [
        {"id": "not_peers", "agent": "peer", "name": "clock", "action": "deny"},
    ]}))
    .audit(log(folder.path()))
    .build();
    let stand_in = host.stand_in(Identity::named("peer"));
    let answer = stand_in.ask("a", tool_call("echo", "{}"), None).await;
    assert!(
        matches!(answer, Ok(Body::ToolCallResponse(_))),
        "{answer:?}"
    );
    let refused = stand_in.ask("b", tool_call("clock", "{}"), None).await;
    assert_eq!(refused.unwrap_err().code, ErrorCode::ToolDenied);
    let records = recorded(folder.path());
    assert_eq!(records[0]["agent"], "peer");
    assert_eq!(records[1]["result"], "rejected");
}

/// Who has proved a DID is known to rules by it, and by how much it is trusted.
#[tokio::test]
async fn rules_know_who_proved_what() {
    let host = with(&json!({"rules": [
        {"id": "strangers", "trust": "self", "name": "clock", "action": "deny"},
        {"id": "carol", "did": "did:web:carol.example.com", "name": "echo", "action": "deny"},
    ]}))
    .build();
    let carol = "did:web:carol.example.com";
    for (identity, tool, rule) in [
        (
            Identity::proven("x", "did:key:x", TrustLevel::Own),
            "clock",
            Some("strangers"),
        ),
        (
            Identity::proven("x", "did:key:x", TrustLevel::Own),
            "echo",
            None,
        ),
        (
            Identity::proven("x", carol, TrustLevel::Verified),
            "clock",
            None,
        ),
        (
            Identity::proven("x", carol, TrustLevel::Verified),
            "echo",
            Some("carol"),
        ),
        // What it is called proves nothing.
        (Identity::named(carol), "echo", None),
        (Identity::named(carol), "clock", None),
    ] {
        let shown = format!("{identity:?} {tool}");
        let stand_in = host.stand_in(identity);
        let answer = stand_in.ask("1", tool_call(tool, "{}"), None).await;
        let detail = answer.err().map(|failure| {
            let detail: serde_json::Value = failure.detail.raw().deserialize().unwrap();
            detail["rule"].as_str().unwrap().to_owned()
        });
        assert_eq!(detail.as_deref(), rule, "{shown}");
    }
}

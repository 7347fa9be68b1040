//! Calls that wait for the operator.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use a2e_runtime::{AccessHolder, Approvals, HostBuilder};
use serde_json::{Value, json};
use store::{AgentId, Call, Hash, Memory, Store, UnixMillis, Verdict};
use tokio::sync::Semaphore;

use super::rules::Everything;
use super::{agent, approvals, approvals_in, call, log, policies, recorded, with};
use crate::support::{Transport, Wire, handshake};

const HOLD: &str = r#"{"rules": [{"id": "ask", "name": "echo", "action": "require_approval"}]}"#;

fn holding(approvals: &Approvals) -> HostBuilder {
    with(&serde_json::from_str(HOLD).unwrap()).approvals(approvals.clone())
}

/// The id of the one call that waits, while its agent listens.
pub(super) async fn waiting(approvals: &Approvals, agent: &mut Wire) -> String {
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
    assert_eq!(
        status["data"],
        json!({"status": "approval_pending", "approval_id": id})
    );
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
    approvals.decide(&id, Verdict::Granted, "").await.unwrap();
    let answer = agent.hear().await.unwrap();
    assert_eq!(
        (&answer["req_id"], &answer["data"]["success"]),
        (&json!("1"), &json!(true))
    );
    assert!(
        approvals.decide(&id, Verdict::Granted, "").await.is_err(),
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
    let reason = "not on a Friday";
    let decided = approvals.decide(&id, Verdict::Refused, reason).await;
    decided.unwrap();
    let answer = agent.hear().await.unwrap();
    assert_eq!(answer["code"], "tool_denied");
    let detail = json!({"rule": "ask", "reason": "approval_denied", "approval_id": id,
        "operator_reason": reason});
    assert_eq!(answer["detail"], detail);
    assert!(
        answer["message"].as_str().unwrap().contains(reason),
        "{answer}"
    );
    // The refusal stands, with its reason.
    let again = agent.ask(&call("2", "echo", &json!({}))).await;
    assert_eq!(again["detail"], detail);
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
    assert_eq!(answer["detail"]["reason"], "approval_expired");
    assert!(approvals.list().await.unwrap().is_empty());
}

#[tokio::test]
async fn without_an_operator_held_calls_are_refused() {
    let host = with(&serde_json::from_str(HOLD).unwrap()).build();
    let mut agent = agent(&host).await;
    let answer = agent.ask(&call("1", "echo", &json!({}))).await;
    assert_eq!(answer["detail"]["reason"], "approval_unavailable");
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
    approvals.decide(&id, Verdict::Granted, "").await.unwrap();

    let second = holding(&approvals).build();
    let mut agent = self::agent(&second).await;
    let answer = agent.ask(&call("again", "echo", &json!({"n": 1}))).await;
    assert_eq!(answer["data"]["success"], true);
    agent.say(&call("more", "echo", &json!({"n": 1})).to_string());
    assert_ne!(waiting(&approvals, &mut agent).await, id);
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
    approvals
        .decide(&first, Verdict::Granted, "")
        .await
        .unwrap();
    assert_eq!(agent.hear().await.unwrap()["data"]["success"], true);
    let second = loop {
        let listed = approvals.list().await.unwrap();
        match listed.first() {
            Some(call) => break call.id.clone(),
            None => tokio::task::yield_now().await,
        }
    };
    assert_ne!(first, second);
    approvals
        .decide(&second, Verdict::Granted, "")
        .await
        .unwrap();
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
    approvals.decide(&id, Verdict::Granted, "").await.unwrap();
    let answer = agent.hear().await.unwrap();
    assert_eq!(answer["detail"]["rule"], "default");
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
    let host = with(&json!({"default": "require_approval"}))
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
        _: Box<a2e_wire::Message<'static>>,
        _: a2e_runtime::Context,
    ) -> a2e_runtime::BoxFuture<'_, Result<a2e_runtime::Outcome, a2e_runtime::Failure>> {
        Box::pin(std::future::ready(Ok(a2e_runtime::Outcome::Pass)))
    }
}

/// What waits for the operator or for its turn was asked in the session before: a second handshake on the
/// connection withdraws it, and neither does the new agent get it nor the record name that one.
#[tokio::test]
async fn a_second_handshake_withdraws_what_is_held_or_waits() {
    let folder = tempfile::tempdir().unwrap();
    let approvals = approvals();
    let host = holding(&approvals)
        .authenticator(Named)
        .audit(log(folder.path()))
        .build();
    let mut agent = Transport::Memory.place(&host).await.wire().await;
    let hello = |name: &str| {
        let mut hello = handshake();
        hello["auth_token"] = json!(name);
        hello["id"] = json!(name);
        hello
    };
    assert_eq!(agent.ask(&hello("ada")).await["ok"], true);
    agent.say(&call("held", "echo", &json!({"n": 1})).to_string());
    let id = waiting(&approvals, &mut agent).await;
    // As many as run at a time, so that one more waits.
    for number in 0..4 {
        let wait = call(&format!("run{number}"), "wait", &json!({"seconds": 600}));
        agent.say(&wait.to_string());
    }
    agent.say(&call("waits", "clock", &json!({})).to_string());
    agent.say(&hello("bob").to_string());
    let mut withdrawn = Vec::new();
    loop {
        let heard = agent.hear().await.unwrap();
        match heard["req_id"].as_str() {
            Some("bob") => break,
            Some(request) => {
                assert_eq!(heard["detail"]["reason"], "withdrawn", "{heard}");
                withdrawn.push(request.to_owned());
            }
            None => panic!("{heard}"),
        }
    }
    withdrawn.sort();
    assert_eq!(withdrawn, ["held", "waits"]);
    while !approvals.list().await.unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    assert!(approvals.decide(&id, Verdict::Granted, "").await.is_err());
    // What runs is still ada's, and ends with her access; the connection is bob's, and goes on.
    let revoked = tokio::spawn({
        let host = host.clone();
        async move { host.revoke_access(|it| it.agent == "ada").await }
    });
    let mut ended = Vec::new();
    while ended.len() < 4 {
        let heard = agent.hear().await.unwrap();
        assert_eq!(heard["code"], "unauthorized", "{heard}");
        ended.push(heard["req_id"].as_str().unwrap().to_owned());
    }
    ended.sort();
    assert_eq!(ended, ["run0", "run1", "run2", "run3"]);
    revoked.await.unwrap().unwrap();
    assert_eq!(host.acting(|it| it.agent == "ada"), 0);
    agent.say(&json!({"type": "shutdown", "timeout": 0}).to_string());
    while agent.hear().await.is_some() {}
    let records = recorded(folder.path());
    let mut of: Vec<_> = records
        .iter()
        .map(|record| (record["request_id"].clone(), record["agent"].clone()))
        .collect();
    of.sort_by_key(|(id, _)| id.to_string());
    let expected = ["held", "run0", "run1", "run2", "run3"];
    let expected: Vec<_> = expected.map(|id| (json!(id), json!("ada"))).into();
    assert_eq!(of, expected, "{records:?}");
}

/// The calls of an identity that is revoked are withdrawn, also those of sessions that this process does
/// not know; those of others wait on, and so do those of its agent that came in otherwise.
#[tokio::test]
async fn revocation_withdraws_the_calls_of_an_identity_however_many_wait() {
    const OTHERS: usize = 1_100;
    let store = Store::new(Memory::new(store::Limits::default()));
    let approvals = approvals_in(&store);
    let host = holding(&approvals).build();
    let hold = async |number: usize, agent: &str, did: Option<&str>| {
        let mut hash = [0; 32];
        hash[..8].copy_from_slice(&number.to_be_bytes());
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let now = UnixMillis(i64::try_from(now.as_millis()).unwrap());
        let call = Call {
            id: format!("{agent}{number}"),
            hash: Hash(hash),
            did: did.map(str::to_owned),
            shown: Vec::new(),
            expires: now.plus(Duration::from_secs(60)),
        };
        let calls = store.for_agent(&AgentId::new(agent).unwrap());
        calls.held_calls().hold(now, call).await.unwrap();
    };
    for number in 0..OTHERS {
        hold(number, &format!("agent{number:04}"), None).await;
    }
    let did = "did:example:eve";
    for (number, of) in [(0, Some(did)), (1, None), (2, Some(did))] {
        hold(number, "eve", of).await;
    }
    let is_meant = move |it: &AccessHolder| it.did.as_deref() == Some(did);
    host.revoke_access(is_meant).await.unwrap();
    for (id, is_left) in [("eve0", false), ("eve1", true), ("eve2", false)] {
        let found = approvals.get(id).await.unwrap();
        assert_eq!(found.is_some(), is_left, "{id}");
    }
    let all = store::MAX_LISTED.min(OTHERS);
    assert_eq!(approvals.list().await.unwrap().len(), all);
}

/// A request is resolved before it is decided about, before the operator is asked, and before it goes on.
/// A second handshake withdraws it in each of these moments.
#[tokio::test]
async fn second_handshake_withdraws_a_request_that_is_being_resolved() {
    let rules = json!({"rules": [{"id": "ask", "name": "mcp/resource/list/req", "action": "require_approval"}]});
    for resolved_before in 0..3 {
        let approvals = approvals();
        let resolving = Arc::new(Semaphore::new(resolved_before));
        let host = with(&rules)
            .plugin(SlowlyResolved(Arc::clone(&resolving)))
            .approvals(approvals.clone())
            .authenticator(Named)
            .build();
        let mut agent = Transport::Memory.place(&host).await.wire().await;
        let hello = |name: &str| {
            let mut hello = handshake();
            hello["agent_caps"] = json!(["mcp"]);
            hello["auth_token"] = json!(name);
            hello["id"] = json!(name);
            hello
        };
        assert_eq!(agent.ask(&hello("ada")).await["ok"], true);
        agent.say(&json!({"type": "mcp/resource/list/req", "id": "r"}).to_string());
        let ping = json!({"type": "ping", "id": "p"});
        assert_eq!(agent.ask(&ping).await["type"], "pong");
        if resolved_before == 2 {
            let id = waiting(&approvals, &mut agent).await;
            approvals.decide(&id, Verdict::Granted, "").await.unwrap();
            // Until it has used its approval.
            while approvals.get(&id).await.unwrap().is_some() {
                tokio::task::yield_now().await;
            }
        } else {
            while resolving.available_permits() > 0 {
                tokio::task::yield_now().await;
            }
        }
        let withdrawn = agent.ask(&hello("bob")).await;
        assert_eq!(withdrawn["req_id"], "r", "{resolved_before}: {withdrawn}");
        assert_eq!(withdrawn["detail"]["reason"], "withdrawn", "{withdrawn}");
        assert_eq!(agent.hear().await.unwrap()["req_id"], "bob");
        // Nothing of it comes back.
        resolving.add_permits(9);
        assert_eq!(agent.ask(&ping).await["type"], "pong");
        assert!(approvals.list().await.unwrap().is_empty());
    }
}

/// Has resources, and finds out only as often as there are permits what a request for them is about.
struct SlowlyResolved(Arc<Semaphore>);

impl a2e_runtime::Plugin for SlowlyResolved {
    fn name(&self) -> &str {
        "slow"
    }

    fn capability(&self) -> Option<a2e_wire::Capability<'static>> {
        Some(a2e_wire::Capability::Mcp)
    }

    fn serves(&self) -> a2e_runtime::Serves {
        a2e_runtime::Serves::Tags(vec![a2e_wire::Tag::McpResourceListRequest])
    }

    fn resolve<'a>(
        &'a self,
        _: &'a a2e_wire::Message<'static>,
        _: &'a Arc<a2e_runtime::Session>,
    ) -> a2e_runtime::BoxFuture<'a, Result<Option<a2e_runtime::Resolution>, a2e_runtime::Failure>>
    {
        Box::pin(async move {
            self.0.acquire().await.unwrap().forget();
            let all = vec!["one".to_owned()];
            Ok(Some(a2e_runtime::Resolution::of_all("server_id", all)))
        })
    }

    fn handle(
        &self,
        _: Box<a2e_wire::Message<'static>>,
        _: a2e_runtime::Context,
    ) -> a2e_runtime::BoxFuture<'_, Result<a2e_runtime::Outcome, a2e_runtime::Failure>> {
        let answer = a2e_wire::messages::mcp::McpResourceListResponse::new();
        Box::pin(std::future::ready(Ok(a2e_runtime::Outcome::answer(answer))))
    }
}

/// Lets everybody in, by the name that the token is.
struct Named;

impl a2e_runtime::Authenticator for Named {
    fn authenticate<'a>(
        &'a self,
        login: &'a a2e_runtime::Login,
        _: a2e_runtime::Source,
    ) -> a2e_runtime::BoxFuture<
        'a,
        Result<a2e_runtime::Identity, a2e_wire::messages::base::HandshakeReason<'static>>,
    > {
        let identity = a2e_runtime::Identity::named(&login.auth_token);
        Box::pin(std::future::ready(Ok(identity)))
    }

    fn required(&self) -> bool {
        true
    }
}

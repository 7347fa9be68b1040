//! Calls, events, pushes, and requests of the host's (seed 003).

use std::sync::{Arc, Mutex};
use std::time::Duration;

use a2e_runtime::{
    AgentConfig, CallOptions, Client, ClientError, Connector, CustomMessage, CustomRequest,
    Handler, Link, blocking,
};
use a2e_wire::messages::base::Ping;
use a2e_wire::messages::mcp::McpRootListResponse;
use a2e_wire::messages::proc::ProcSpawnRequest;
use a2e_wire::messages::tool::ToolListRequest;
use a2e_wire::{Body, ErrorCode, MessageId};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::script::{Wire, pair};
use crate::support::{TOKEN, demo};

/// A handler that remembers the types it was called with.
pub(super) fn recorder() -> (Arc<Mutex<Vec<String>>>, Handler) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let handler = {
        let seen = Arc::clone(&seen);
        Handler::new(move |message| seen.lock().unwrap().push(message.type_name().to_owned()))
    };
    (seen, handler)
}

/// Seed 003, "A2EClientError": all seven fields.
/// Proves C-23, C-40 to C-47.
#[tokio::test]
async fn an_error_has_all_fields() {
    let (client, mut wire) = pair().await;
    let event = json!({"type": "invoke/event", "seq": 0});
    let error = json!({"type": "error", "code": "tool_error", "message": "no", "retryable": true,
        "detail": {"a": 1}, "capability_name": "tools"});
    let messages = [event, error];
    let call = client.rpc(Ping::new(), CallOptions::default());
    let (outcome, request) = tokio::join!(call, wire.answer(messages));
    let Err(ClientError::Host(error)) = outcome else {
        panic!("{outcome:?}")
    };
    assert_eq!(
        (&error.code, &*error.message, error.retryable),
        (&ErrorCode::ToolError, "no", true)
    );
    assert_eq!(
        (error.detail.raw().as_str(), &*error.capability_name),
        (r#"{"a":1}"#, "tools")
    );
    let id: MessageId<'_> = request["id"].as_str().unwrap().into();
    assert_eq!((&error.req_id, error.events.len()), (&id, 1));
}

/// Seed 003, "Incoming Message Routing": pending call, event callback, push handler.
/// Proves C-18, C-22, C-31 to C-33, C-35 to C-38.
#[tokio::test]
async fn the_three_ways_of_a_message() {
    let (client, mut wire) = pair().await;
    let ((pushed, push), (any, rest)) = (recorder(), recorder());
    let id = client.register_push_handler("env/state_push", push);
    client.on_any(rest);
    let push =
        json!({"type": "env/state/push", "episode_id": "e", "step_id": 0, "event_type": "status"});
    let output = |data| json!({"type": "proc/read/event", "proc_id": "p", "data": data});
    let (events, event_callback) = recorder();
    let call = client.rpc(
        ProcSpawnRequest::new(),
        CallOptions {
            event_callback,
            ..CallOptions::default()
        },
    );
    let serve = async {
        wire.say(&push).await;
        wire.say(&json!({"type": "my/push"})).await;
        let spawned = json!({"type": "proc/spawn/resp", "ok": true, "proc_id": "p"});
        wire.answer([output(json!({"text": "a"})), spawned]).await
    };
    let (outcome, request) = tokio::join!(call, serve);
    outcome.unwrap();
    // The process goes on after the response, until it has ended.
    for data in [
        json!({"text": "b"}),
        json!({"code": 0}),
        json!({"text": "late"}),
    ] {
        let mut event = output(data);
        event["req_id"] = request["id"].clone();
        wire.say(&event).await;
    }
    client.unregister_push_handler(id);
    wire.say(&push).await;
    tokio::join!(client.ping(), wire.answer([json!({"type": "pong"})]))
        .0
        .unwrap();
    assert_eq!(events.lock().unwrap().len(), 3);
    assert_eq!(*pushed.lock().unwrap(), ["env/state/push"]);
    assert_eq!(
        *any.lock().unwrap(),
        ["my/push", "proc/read/event", "env/state/push"]
    );
}

/// The last handle of a client may be one that a handler holds. Then the client ends with what the
/// handler listens to.
#[tokio::test(flavor = "multi_thread")]
async fn a_handler_may_hold_the_last_handle() {
    let (client, mut wire) = pair().await;
    let held = client.clone();
    let options = CallOptions {
        event_callback: Handler::new(move |_| assert!(!held.is_closed())),
        ..CallOptions::default()
    };
    let spawned = json!({"type": "proc/spawn/resp", "ok": true, "proc_id": "p"});
    let call = client.rpc(ProcSpawnRequest::new(), options);
    let (outcome, request) = tokio::join!(call, wire.answer([spawned]));
    outcome.unwrap();
    drop(client);
    wire.say(
        &json!({"type": "proc/read/event", "proc_id": "p", "data": {"code": 0},
        "req_id": request["id"]}),
    )
    .await;
    let end = tokio::time::timeout(Duration::from_secs(60), wire.hear());
    assert_eq!(end.await.unwrap().unwrap()["type"], "shutdown");
}

/// A host may send the response and the first output in one piece.
#[tokio::test]
async fn output_in_the_same_read_as_the_response_keeps_its_handler() {
    let (client, mut wire) = pair().await;
    let (events, event_callback) = recorder();
    let call = client.rpc(
        ProcSpawnRequest::new(),
        CallOptions {
            event_callback,
            ..CallOptions::default()
        },
    );
    let output = |data| json!({"type": "proc/read/event", "proc_id": "p", "data": data});
    let spawned = json!({"type": "proc/spawn/resp", "ok": true, "proc_id": "p"});
    let answers = [spawned, output(json!({"text": "a"}))];
    let (outcome, request) = tokio::join!(call, wire.answer(answers));
    outcome.unwrap();
    for data in [json!({"text": "b"}), json!({"code": 0})] {
        let mut event = output(data);
        event["req_id"] = request["id"].clone();
        wire.say(&event).await;
    }
    tokio::join!(client.ping(), wire.answer([json!({"type": "pong"})]))
        .0
        .unwrap();
    assert_eq!(events.lock().unwrap().len(), 3);
}

/// A process may have ended before its response comes: then no more output is waited for.
#[tokio::test]
async fn output_ends_with_an_exit_before_the_response() {
    let (client, mut wire) = pair().await;
    let (sent, mut heard) = tokio::sync::mpsc::unbounded_channel();
    let call = client.rpc(
        ProcSpawnRequest::new(),
        CallOptions {
            event_callback: Handler::new(move |_| {
                let _ = sent.send(());
            }),
            ..CallOptions::default()
        },
    );
    let exit = json!({"type": "proc/read/event", "proc_id": "p", "data": {"code": 0}});
    let spawned = json!({"type": "proc/spawn/resp", "ok": true, "proc_id": "p"});
    let (outcome, _) = tokio::join!(call, wire.answer([exit, spawned]));
    outcome.unwrap();
    assert_eq!(heard.recv().await, Some(()));
    assert_eq!(heard.recv().await, None);
}

/// Events of a call without a handler go where pushes go.
#[tokio::test]
async fn events_without_a_handler_are_pushes() {
    let (client, mut wire) = pair().await;
    let (pushed, push) = recorder();
    client.register_push_handler("proc/read/event", push);
    let call = client.rpc(ProcSpawnRequest::new(), CallOptions::default());
    let early = json!({"type": "proc/read/event", "proc_id": "p", "data": {"text": "a"}});
    let spawned = json!({"type": "proc/spawn/resp", "ok": true, "proc_id": "p"});
    let (outcome, _) = tokio::join!(call, wire.answer([early, spawned]));
    outcome.unwrap();
    assert_eq!(*pushed.lock().unwrap(), ["proc/read/event"]);
}

/// Conflict 93: what a host says in both spellings is one push, by its id.
/// Proves C-34.
#[tokio::test]
async fn a_push_in_two_spellings_is_one() {
    let (client, mut wire) = pair().await;
    let (pushed, push) = recorder();
    client.register_push_handler("env/state_push", push);
    for (kind, id) in [
        ("env/state_push", "x"),
        ("env/state/push", "x"),
        ("env/state/push", "y"),
        ("env/state_push", "y"),
        ("env/state_push", "z"),
    ] {
        let push = json!({"type": kind, "id": id, "episode_id": "e", "step_id": 0,
            "event_type": "status"});
        wire.say(&push).await;
    }
    tokio::join!(client.ping(), wire.answer([json!({"type": "pong"})]))
        .0
        .unwrap();
    assert_eq!(
        *pushed.lock().unwrap(),
        ["env/state_push", "env/state/push", "env/state_push"]
    );
}

#[tokio::test]
async fn a_dropped_call_is_forgotten() {
    let (client, mut wire) = pair().await;
    let config = Duration::from_secs(60);
    let options = CallOptions {
        timeout: config,
        ..CallOptions::default()
    };
    let call = client.rpc(Ping::new(), options);
    let first = tokio::select! {
        biased;
        _ = call => panic!("it was not answered"),
        request = wire.hear() => request.unwrap(),
    };
    // The host is told that nobody waits for it.
    let withdrawn = wire.hear().await.unwrap();
    assert_eq!(
        (&withdrawn["type"], &withdrawn["req_id"]),
        (&json!("error"), &first["id"])
    );
    // The late answer is nobody's; the next call gets its own.
    wire.say(&json!({"type": "pong", "req_id": first["id"]}))
        .await;
    let (outcome, _) = tokio::join!(client.ping(), wire.answer([json!({"type": "pong"})]));
    outcome.unwrap();
}

#[tokio::test]
async fn the_host_asks() {
    let (client, mut wire) = pair().await;
    client.on_request("mcp/root/list/req", |_, reply| {
        tokio::spawn(async move { reply.send(McpRootListResponse::new()) });
    });
    client.on_request("my/own/req", |_, reply| drop(reply));
    for (name, answer) in [
        ("mcp/root/list/req", "mcp/root/list/resp"),
        ("my/own/req", "error"),
        ("other/req", "error"),
    ] {
        wire.say(&json!({"type": name, "id": name})).await;
        let heard = wire.hear().await.unwrap();
        assert_eq!(
            (&heard["type"], &heard["req_id"]),
            (&json!(answer), &json!(name))
        );
    }
}

/// A handler runs on the task of the connection. Its panic ends no call, of others or its own.
#[tokio::test]
async fn a_handler_that_panics_ends_no_call() {
    let (client, mut wire) = pair().await;
    let seen = Arc::new(Mutex::new(0));
    let counter = Arc::clone(&seen);
    client.register_push_handler(
        "env/state_push",
        Handler::new(|_| panic!("as a push handler may")),
    );
    client.on_any(Handler::new(move |_| {
        let mut seen = counter.lock().unwrap();
        *seen += 1;
        let count = *seen;
        drop(seen);
        assert_ne!(count, 1, "as a handler may at first");
    }));
    client.on_request("my/own/req", |_, _| panic!("as a request handler may"));
    let push =
        json!({"type": "env/state/push", "episode_id": "e", "step_id": 0, "event_type": "status"});
    let event = json!({"type": "invoke/event", "seq": 0});
    let others = client.ping();
    let options = CallOptions {
        event_callback: Handler::new(|_| panic!("as an event handler may")),
        ..CallOptions::default()
    };
    let own = client.rpc(Ping::new(), options);
    let serve = async {
        let requests = [wire.hear().await.unwrap(), wire.hear().await.unwrap()];
        for message in [
            &push,
            &json!({"type": "my/push"}),
            &json!({"type": "my/push"}),
        ] {
            wire.say(message).await;
        }
        wire.say(&json!({"type": "my/own/req", "id": "r"})).await;
        let heard = wire.hear().await.unwrap();
        assert_eq!(
            (&heard["type"], &heard["req_id"]),
            (&json!("error"), &json!("r"))
        );
        for request in requests {
            for mut message in [event.clone(), json!({"type": "pong"})] {
                message["req_id"] = request["id"].clone();
                wire.say(&message).await;
            }
        }
    };
    let (others, own, ()) = tokio::join!(others, own, serve);
    others.unwrap();
    own.unwrap();
    // It is called again after its panic, also with the event of the call that has no handler.
    assert_eq!(*seen.lock().unwrap(), 3);
}

/// Proves C-24.
#[tokio::test]
async fn typed_requests() {
    let (client, mut wire) = pair().await;
    let list = json!({"type": "tool/list/resp", "tools": [{"name": "t", "description": "d"}]});
    let (response, _) = tokio::join!(
        client.request(ToolListRequest::new()).into_future(),
        wire.answer([list])
    );
    assert_eq!(response.unwrap().tools[0].name, "t");
    let asking = client.request(ToolListRequest::new()).into_future();
    let (response, _) = tokio::join!(asking, wire.answer([json!({"type": "pong"})]));
    let Err(ClientError::Invalid(error)) = response else {
        panic!("{response:?}")
    };
    assert_eq!(error.code, ErrorCode::SchemaViolation);
    assert!(error.message.contains("`pong` does not answer the request"));
}

#[tokio::test]
async fn typed_ways_to_the_demo() {
    let client = crate::support::Transport::Memory
        .client(&demo().build())
        .await;
    assert_eq!(client.tools().list().await.unwrap().len(), 5);
    let (seen, event_callback) = recorder();
    let calling = a2e_runtime::Calling {
        event_callback,
        ..Default::default()
    };
    let result = client
        .tools()
        .call("stream", &json!({"count": 3}), calling)
        .await
        .unwrap();
    assert!(result.success);
    assert_eq!(seen.lock().unwrap().len(), 3);
    let wrong = client.tools().call("echo", &5, Default::default()).await;
    assert!(matches!(wrong, Err(ClientError::Custom(_))));
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Weather {
    town: String,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Forecast {
    degrees: f64,
}

impl CustomMessage for Weather {
    const TYPE: &'static str = "weather/req";
}

impl CustomMessage for Forecast {
    const TYPE: &'static str = "weather/resp";
}

impl CustomRequest for Weather {
    type Response = Forecast;
}

/// Seed 003, "Type Registry Extension".
/// Proves C-30, M-41.
#[tokio::test]
async fn types_of_ones_own() {
    let (client, mut wire) = pair().await;
    let ask = Weather {
        town: "Bath".into(),
    };
    let call = client.rpc_custom(&ask, CallOptions::default());
    let answers = [json!({"type": "weather/resp", "degrees": 7.5})];
    let (outcome, request) = tokio::join!(call, wire.answer(answers));
    assert_eq!(outcome.unwrap(), Forecast { degrees: 7.5 });
    assert_eq!(
        (&request["town"], &request["version"]),
        (&json!("Bath"), &json!("1.0"))
    );
    let call = client.rpc_custom(&ask, CallOptions::default());
    let (outcome, _) = tokio::join!(call, wire.answer([json!({"type": "weather/resp"})]));
    assert!(matches!(outcome, Err(ClientError::Custom(_))));
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&seen);
    client.on_custom(move |forecast: Forecast| sink.lock().unwrap().push(forecast.degrees));
    wire.say(&json!({"type": "weather/resp", "degrees": 1.0}))
        .await;
    wire.say(&json!({"type": "weather/resp", "degrees": "hot"}))
        .await;
    let (outcome, _) = tokio::join!(client.ping(), wire.answer([json!({"type": "pong"})]));
    outcome.unwrap();
    assert_eq!(*seen.lock().unwrap(), [1.0]);
}

/// Proves C-26 to C-28.
#[test]
fn encode_and_decode() {
    let line = br#"{"type":"pong","id":"1","ts":1.5,"req_id":"2","uptime_seconds":3.0}"#;
    let message = Client::decode(line).unwrap();
    assert!(matches!(message.body, Body::Pong(_)));
    let again = Client::decode(&Client::encode(&message)).unwrap();
    assert_eq!(again, message);
    assert!(Client::decode(b"{}").is_err());
}

/// A host that does not read: calls wait for room instead of filling memory, and time out.
#[tokio::test(start_paused = true)]
async fn a_host_that_does_not_read() {
    let (ours, theirs) = tokio::io::duplex(64);
    let mut wire = Wire::new(theirs);
    let config = AgentConfig {
        max_outbound: 1000,
        ..AgentConfig::default()
    };
    let connect = Client::connect(ours, config, Handler::none());
    let (client, ()) = tokio::join!(connect, wire.greet());
    let client = client.unwrap();
    let many = ToolListRequest {
        query: "x".repeat(100_000).into(),
        ..ToolListRequest::new()
    };
    let blocked = client.rpc(many.clone(), CallOptions::default());
    let (first, second) = tokio::join!(blocked, client.rpc(many, CallOptions::default()));
    for outcome in [first, second] {
        assert!(
            matches!(outcome, Err(ClientError::Timeout(_))),
            "{outcome:?}"
        );
    }
}

/// Proves C-10.
#[tokio::test]
async fn dropping_the_last_client_says_goodbye() {
    let (client, mut wire) = pair().await;
    drop(client.clone());
    drop(client);
    assert_eq!(wire.hear().await.unwrap()["type"], "shutdown");
    assert_eq!(wire.hear().await, None);
}

/// The blocking client: no runtime around it, callbacks on its own thread, gone when dropped.
#[test]
fn blocking_calls() {
    let dial = || -> a2e_runtime::BoxFuture<'static, std::io::Result<Link>> {
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let host = demo().build();
        tokio::spawn(async move { host.serve(theirs, a2e_runtime::Source::Own).await });
        Box::pin(async move { Ok(Link::new(ours)) })
    };
    let config = AgentConfig {
        auth_token: TOKEN.into(),
        wanted: vec!["tools".into()],
        ..AgentConfig::default()
    };
    let client = blocking::Client::connect(Connector::new(dial).agent(config)).unwrap();
    client.ping().unwrap();
    assert_eq!(
        client.request(ToolListRequest::new()).unwrap().tools.len(),
        5
    );
    let (seen, event_callback) = recorder();
    let options = CallOptions {
        event_callback,
        ..CallOptions::default()
    };
    let request = a2e_wire::messages::tool::ToolCallRequest {
        streaming: true,
        ..crate::support::call("stream", r#"{"count":5}"#)
    };
    client.rpc(request, options).unwrap();
    assert_eq!(seen.lock().unwrap().len(), 5);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..50).for_each(|_| assert!(client.ping().is_ok())));
        }
    });
    client.disconnect(Duration::from_secs(1));
    assert!(matches!(client.ping(), Err(ClientError::Closed)));
    let refused = blocking::Client::connect(Connector::new(dial));
    assert!(matches!(refused, Err(ClientError::Connect(_))));
}

//! Every member of the client API of document 003, under its name.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use a2e_runtime::{
    A2eError, AgentConfig, CallOptions, Client, ClientError, ConnectError, Connector, Handler,
    Link, blocking,
};
use a2e_wire::messages::tool::ToolListRequest;
use a2e_wire::{Capability, ErrorCode, MessageKind};
use serde_json::json;

use super::calls::recorder;
use super::script::Wire;
use crate::support::{TOKEN, demo};

/// The members, as the document lists them.
const MEMBERS: [&str; 24] = [
    "transport",
    "logger",
    "agent_id",
    "auth_token",
    "agent_caps",
    "type_registry",
    "connect",
    "disconnect",
    "rpc",
    "ping",
    "encode",
    "decode",
    "update_msg_types",
    "register_push_handler",
    "unregister_push_handler",
    "capabilities",
    "A2EClientError",
    "code",
    "message",
    "retryable",
    "detail",
    "capability_name",
    "req_id",
    "events",
];

#[test]
fn the_table_of_the_documentation_names_every_member() {
    let text = include_str!("../../../../../docs/writing-agents.md");
    let rows = text
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    let words = rows.flat_map(|cell| cell.split(['`', '(', ')', ',', ' ']));
    let words: Vec<&str> = words.collect();
    for member in MEMBERS {
        assert!(words.contains(&member), "{member}");
    }
}

/// Proves C-7 to C-9, C-15 to C-18, C-22, C-26, C-27, C-30, C-32, C-34, C-39, M-41, N-24.
#[tokio::test]
async fn members_of_the_asynchronous_client() {
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    let mut wire = Wire::new(theirs);
    let config = AgentConfig {
        agent_id: "my-agent".into(),
        auth_token: "dev-secret".into(),
        wanted: vec!["tools".into(), "memory".into()],
        type_registry: [("own/step".to_owned(), MessageKind::Event)].into(),
        ..AgentConfig::default()
    };
    let connect = Client::connect(ours, config, Handler::none());
    let (client, ()) = tokio::join!(connect, wire.greet());
    let client = client.unwrap();
    assert_eq!(client.capabilities()[0].capability, Capability::Tools);
    assert!(client.capability("tools").unwrap().enabled);
    assert_eq!(client.capability("tool"), client.capability("tools"));
    assert!(client.capability("memory").is_none());

    client.update_msg_types([("own/news", MessageKind::Push)]);
    let (pushed, push) = recorder();
    let id = client.register_push_handler("own/news", push);
    let (events, event_callback) = recorder();
    let options = CallOptions {
        timeout: Duration::from_secs(30),
        event_callback,
    };
    let answers = [
        json!({"type": "own/step"}),
        json!({"type": "own/news"}),
        json!({"type": "invoke/event", "seq": 0}),
        json!({"type": "own/other/event"}),
        json!({"type": "tool/list/resp"}),
    ];
    let call = client.rpc(ToolListRequest::new(), options);
    let response = tokio::join!(call, wire.answer(answers)).0.unwrap();
    assert_eq!(response.type_name(), "tool/list/resp");
    let expected = ["own/step", "invoke/event", "own/other/event"];
    assert_eq!(*events.lock().unwrap(), expected);
    assert_eq!(*pushed.lock().unwrap(), ["own/news"]);

    client.unregister_push_handler(id);
    wire.say(&json!({"type": "own/news"})).await;
    let pong = [json!({"type": "pong"})];
    tokio::join!(client.ping(), wire.answer(pong)).0.unwrap();
    assert_eq!(pushed.lock().unwrap().len(), 1);

    let line = Client::encode(&response);
    assert_eq!(Client::decode(&line).unwrap(), response);
    let (bye, ()) = tokio::join!(wire.hear(), client.disconnect(Duration::from_secs(1)));
    assert_eq!(bye.unwrap()["type"], "shutdown");
}

/// The same for code that is not async.
/// Proves C-7 to C-10, C-15 to C-18, C-26, C-27, C-30, C-32, C-34, C-39, N-24.
#[test]
fn members_of_the_blocking_client() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let _context = runtime.enter();
    let dial = || -> a2e_runtime::BoxFuture<'static, std::io::Result<Link>> {
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let host = demo().build();
        tokio::spawn(async move { host.serve(theirs, a2e_runtime::Source::Own).await });
        Box::pin(async move { Ok(Link::new(ours)) })
    };
    let config = AgentConfig {
        auth_token: TOKEN.into(),
        wanted: vec!["tools".into()],
        type_registry: [("own/step".to_owned(), MessageKind::Event)].into(),
        ..AgentConfig::default()
    };
    let client = blocking::Client::connect(Connector::new(dial).agent(config)).unwrap();
    client.update_msg_types([("own/news", MessageKind::Push)]);
    let id = client.register_push_handler("own/news", Handler::none());
    client.unregister_push_handler(id);
    assert!(client.ping().unwrap() > Duration::ZERO);
    assert_eq!(client.capabilities()[0].capability, Capability::Tools);
    assert!(client.capability("tools").unwrap().enabled);
    let (events, event_callback) = recorder();
    let options = CallOptions {
        event_callback,
        ..CallOptions::default()
    };
    let call = a2e_wire::messages::tool::ToolCallRequest {
        streaming: true,
        ..crate::support::call("stream", r#"{"count":2}"#)
    };
    let response = client.rpc(call, options).unwrap();
    assert_eq!(*events.lock().unwrap(), ["tool/event", "tool/event"]);
    let line = blocking::Client::encode(&response);
    assert_eq!(blocking::Client::decode(&line).unwrap(), response);
    client.disconnect(Duration::from_secs(1));
    assert!(matches!(client.ping(), Err(ClientError::Closed)));
}

/// Document 002, "Encoding Rules": invalid messages are a `schema_violation`, here without waiting for the
/// timeout. Document 003, "A2EClientError": with all fields.
/// Proves M-19, C-40 to C-47.
#[tokio::test(start_paused = true)]
async fn an_invalid_response_is_an_error_at_once() {
    let start = tokio::time::Instant::now();
    let (client, mut wire) = super::script::pair().await;
    let call = client.rpc(ToolListRequest::new(), CallOptions::default());
    let answers = [
        json!({"type": "invoke/event", "seq": 0}),
        json!({"type": "tool/list/resp", "tools": 7}),
    ];
    let (outcome, request) = tokio::join!(call, wire.answer(answers));
    let error = A2eError::from(&outcome.unwrap_err());
    assert_eq!(error.code, ErrorCode::SchemaViolation);
    let text = "the host's response is not valid: ";
    assert!(error.message.starts_with(text), "{error}");
    assert!(!error.retryable);
    assert_eq!(error.detail.raw().as_str(), "{}");
    assert_eq!(error.capability_name, "tools");
    assert_eq!(error.req_id.as_str(), request["id"]);
    assert_eq!(error.events.len(), 1);

    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    let mut wire = Wire::new(theirs);
    let connect = Client::connect(ours, AgentConfig::default(), Handler::none());
    let answer = [json!({"type": "handshake/resp", "session_id": 7})];
    let outcome = tokio::join!(connect, wire.answer(answer)).0;
    let error = outcome.unwrap_err();
    assert!(
        matches!(error, ClientError::Connect(ConnectError::Invalid(_))),
        "{error}"
    );
    assert_eq!(A2eError::from(&error).code, ErrorCode::SchemaViolation);
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test]
async fn several_handlers_take_what_no_handler_of_a_type_takes() {
    let (client, mut wire) = super::script::pair().await;
    let (first, handler) = recorder();
    let id = client.on_any(handler);
    let (second, handler) = recorder();
    client.on_any(handler);
    let said = async |wire: &mut Wire, name: &str| {
        wire.say(&json!({"type": name})).await;
        wire.answer([json!({"type": "pong"})]).await;
    };
    let _ = tokio::join!(client.ping(), said(&mut wire, "a/push"));
    client.unregister_push_handler(id);
    let _ = tokio::join!(client.ping(), said(&mut wire, "b/push"));
    let seen = |types: &Arc<Mutex<Vec<String>>>| types.lock().unwrap().join(" ");
    assert_eq!(
        (&*seen(&first), &*seen(&second)),
        ("a/push", "a/push b/push")
    );
}

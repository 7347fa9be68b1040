//! Several plugins, plugins that misbehave, and cancellation for real.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use a2e_runtime::{
    BoxFuture, CallOptions, ClientError, Context, Failure, Host, Outcome, Plugin, Serves,
    TypePattern,
};
use a2e_wire::messages::tool::{
    ToolCallRequest, ToolCallResponse, ToolDefinition, ToolEvent, ToolListRequest,
    ToolListResponse, ToolResult,
};
use a2e_wire::{Body, Capability, ErrorCode, Message, Tag, Timestamp, Unknown};
use serde_json::json;
use tokio::sync::Notify;

use crate::support::{Transport, Wire, call, data, demo, handshake};

/// A plugin made of a closure.
struct Made<F> {
    name: &'static str,
    priority: i64,
    exclusive: bool,
    serves: Serves,
    handle: F,
}

impl<F> Plugin for Made<F>
where
    F: Fn(Message<'static>, Context) -> BoxFuture<'static, Result<Outcome, Failure>>
        + Send
        + Sync
        + 'static,
{
    fn name(&self) -> &str {
        self.name
    }

    fn capability(&self) -> Option<Capability<'static>> {
        matches!(self.serves, Serves::Tags(_)).then_some(Capability::Tools)
    }

    fn priority(&self) -> i64 {
        self.priority
    }

    fn exclusive(&self) -> bool {
        self.exclusive
    }

    fn serves(&self) -> Serves {
        self.serves.clone()
    }

    fn handle(
        &self,
        request: Box<Message<'static>>,
        context: Context,
    ) -> BoxFuture<'_, Result<Outcome, Failure>> {
        (self.handle)(*request, context)
    }
}

fn lists(tool: &'static str, priority: i64, exclusive: bool) -> impl Plugin {
    Made {
        name: tool,
        priority,
        exclusive,
        serves: Serves::Tags(vec![Tag::ToolListRequest]),
        handle: move |_, _| -> BoxFuture<'static, _> {
            let tools = vec![ToolDefinition::new(tool.into(), "".into())];
            Box::pin(async move { Ok(Outcome::answer(ToolListResponse { tools })) })
        },
    }
}

async fn listed(host: Host) -> Vec<String> {
    let client = Transport::Memory.client(&host).await;
    let list = client
        .rpc(ToolListRequest::new(), CallOptions::default())
        .await
        .unwrap();
    let Body::ToolListResponse(list) = list.body else {
        panic!()
    };
    list.tools
        .into_iter()
        .map(|tool| tool.name.into())
        .collect()
}

/// Row 37: lists of all plugins become one response, higher priority first; an exclusive one is alone.
/// Proves N-20, N-22.
#[tokio::test]
async fn lists_are_merged_by_priority() {
    let host = demo()
        .plugin(lists("low", -1, false))
        .plugin(lists("high", 5, false))
        .build();
    assert_eq!(
        listed(host).await,
        ["high", "echo", "clock", "fail", "stream", "wait", "low"]
    );
    let host = demo().plugin(lists("only", 5, true)).build();
    assert_eq!(listed(host).await, ["only"]);
}

/// Capability negotiation, "Negotiation Rules": an exclusive plugin has sole handling of its message types,
/// wherever it stands, and the metadata names it.
/// Proves N-21, N-23.
#[tokio::test]
async fn exclusive_plugin_is_alone_at_any_priority() {
    for priority in [-5, 0, 5] {
        let host = demo()
            .plugin(lists("high", 3, false))
            .plugin(lists("only", priority, true))
            .build();
        let mut wire = Transport::Memory.place(&host).await.wire().await;
        let hello = wire.ask(&handshake()).await;
        let metadata = json!({"name": "only", "type": "tools", "priority": priority,
            "exclusive": true});
        assert_eq!(hello["accepted_caps"][0]["metadata"], metadata);
        assert_eq!(listed(host).await, ["only"]);
    }
}

/// Two plugins cannot both have sole handling of a type: that is an error which names them.
#[tokio::test]
async fn two_exclusive_plugins_of_a_type_are_a_conflict() {
    let both = Host::builder()
        .plugin(lists("a", 0, true))
        .plugin(lists("b", 5, true));
    assert_eq!(
        both.check_exclusive().unwrap_err().to_string(),
        "the plugins `a` and `b` are both `exclusive` and both serve `tool/list/req`; take `exclusive` \
         from one of them"
    );
    // Of different types, or of one configured plugin, they are none.
    let of_others = Host::builder()
        .plugin(lists("a", 0, true))
        .plugin(lists("a", 0, true))
        .plugin(lists("b", 0, false))
        .plugin(endless(Arc::default(), Arc::default()));
    assert_eq!(of_others.check_exclusive(), Ok(()));
}

/// Capability negotiation, "Negotiation Rules": plugins with higher priority are preferred, and of equal
/// ones the first configured. So it is with tools of the same name, which are listed once.
/// Proves N-22.
#[tokio::test]
async fn of_equal_tools_the_first_in_precedence_answers() {
    fn echo(name: &'static str, priority: i64) -> impl Plugin {
        Made {
            name,
            priority,
            exclusive: false,
            serves: Serves::Tags(vec![Tag::ToolListRequest, Tag::ToolCallRequest]),
            handle: move |request: Message<'static>, _| -> BoxFuture<'static, _> {
                Box::pin(async move {
                    let description = format!("of {name}");
                    let tool = ToolDefinition::new("echo".into(), description.into());
                    Ok(match request.body.tag() {
                        Some(Tag::ToolListRequest) => {
                            Outcome::answer(ToolListResponse { tools: vec![tool] })
                        }
                        _ => Outcome::answer(result(name)),
                    })
                })
            },
        }
    }
    for (priorities, expected) in [([-1, 5], "b"), ([5, -1], "a"), ([2, 2], "a")] {
        let [a, b] = priorities;
        let host = demo().plugin(echo("a", a)).plugin(echo("b", b)).build();
        let client = Transport::Memory.client(&host).await;
        let list = client.request(ToolListRequest::new()).await.unwrap();
        let echoes = list.tools.iter().filter(|tool| tool.name == "echo");
        let described: Vec<_> = echoes.map(|tool| &*tool.description).collect();
        assert_eq!(described, [format!("of {expected}")]);
        let answer = client.rpc(call("echo", "{}"), CallOptions::default()).await;
        assert_eq!(data(&answer.unwrap()), format!("\"{expected}\""));
        let metadata = client.capabilities()[0].metadata.raw().as_str().to_owned();
        assert!(
            metadata.contains(&format!("\"name\":\"{expected}\"")),
            "{metadata}"
        );
    }
}

/// The result of a tool call.
fn result(text: &str) -> ToolCallResponse<'static> {
    let result = ToolResult {
        data: Some(a2e_wire::Raw::from_serialize(&text).unwrap()),
        ..ToolResult::new(true, "echo".into(), 1)
    };
    ToolCallResponse::new(result, Timestamp::default())
}

#[tokio::test]
async fn a_plugin_that_panics_fails_its_request_alone() {
    let host = demo()
        .plugin(Made {
            name: "bomb",
            priority: 1,
            exclusive: false,
            serves: Serves::Tags(vec![Tag::ToolCallRequest]),
            handle: |request: Message<'static>, _| -> BoxFuture<'static, _> {
                Box::pin(async move {
                    let Body::ToolCallRequest(call) = request.body else {
                        return Ok(Outcome::Pass);
                    };
                    assert!(call.tool_name != "bomb", "as it was asked to");
                    Ok(Outcome::Pass)
                })
            },
        })
        .build();
    let client = Transport::Memory.client(&host).await;
    let outcome = client.rpc(call("bomb", "{}"), CallOptions::default()).await;
    let Err(ClientError::Host(error)) = outcome else {
        panic!("{outcome:?}")
    };
    assert_eq!(error.code, ErrorCode::RuntimeError);
    let echo = client
        .rpc(call("echo", r#"{"x":1}"#), CallOptions::default())
        .await
        .unwrap();
    assert_eq!(data(&echo), r#"{"x":1}"#);
}

/// A tool that never ends, and that tells when it is dropped.
fn endless(dropped: Arc<AtomicUsize>, started: Arc<Notify>) -> impl Plugin {
    struct Guard(Arc<AtomicUsize>);
    impl Drop for Guard {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    Made {
        name: "endless",
        priority: 9,
        exclusive: true,
        serves: Serves::Tags(vec![Tag::ToolCallRequest]),
        handle: move |_, _| -> BoxFuture<'static, _> {
            let guard = Guard(Arc::clone(&dropped));
            started.notify_one();
            Box::pin(async move {
                let _guard = guard;
                std::future::pending().await
            })
        },
    }
}

/// A request whose time passes is stopped, not only answered. Time is virtual here.
#[tokio::test(start_paused = true)]
async fn a_timeout_stops_the_work() {
    let (dropped, started) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
    let host = demo()
        .plugin(endless(Arc::clone(&dropped), started))
        .build();
    let client = Transport::Memory.client(&host).await;
    let request = ToolCallRequest {
        timeout: 5,
        ..call("endless", "{}")
    };
    let outcome = client.rpc(request, CallOptions::default()).await;
    let Err(ClientError::Host(error)) = outcome else {
        panic!("{outcome:?}")
    };
    assert_eq!(error.code, ErrorCode::Timeout);
    while dropped.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_stops_its_work() {
    let (dropped, started) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
    let host = demo()
        .plugin(endless(Arc::clone(&dropped), Arc::clone(&started)))
        .build();
    let client = Transport::Memory.client(&host).await;
    let asking = tokio::spawn({
        let client = client.clone();
        async move {
            client
                .rpc(call("endless", "{}"), CallOptions::default())
                .await
        }
    });
    started.notified().await;
    asking.abort();
    drop(client);
    let _ = asking.await;
    while dropped.load(Ordering::SeqCst) == 0 {
        tokio::time::advance(std::time::Duration::from_millis(100)).await;
        tokio::task::yield_now().await;
    }
}

/// Seed 002: unknown types can be routed to a catch-all handler.
/// Proves M-40, M-42 to M-44.
#[tokio::test]
async fn types_of_a_plugins_own() {
    let host = demo()
        .plugin(Made {
            name: "rest",
            priority: 0,
            exclusive: false,
            serves: Serves::Types(vec![TypePattern::all()]),
            handle: |request: Message<'static>, _| -> BoxFuture<'static, _> {
                Box::pin(async move {
                    let (name, id) = (request.type_name(), &request.envelope.id);
                    let text =
                        format!(r#"{{"type":"my/answer","req_id":"{id}","asked":"{name}"}}"#);
                    let raw = a2e_wire::Raw::parse(&text, a2e_wire::OWN_VALUES).unwrap();
                    Ok(Outcome::answer(Body::Unknown(Unknown {
                        type_name: "my/answer".into(),
                        raw: raw.into_owned(),
                    })))
                })
            },
        })
        .build();
    let mut wire = Wire::connected(Transport::Memory, &host).await;
    let mut answer = wire.ask_line(r#"{"type":"my/question","id":"q1"}"#).await;
    // It has the envelope of every message.
    for name in ["id", "ts", "eid"] {
        let value = answer.as_object_mut().unwrap().remove(name);
        assert!(value.is_some(), "{name}: {answer}");
    }
    let expected = serde_json::json!({"a2e": "1.0", "version": "1.0", "type": "my/answer",
        "req_id": "q1", "asked": "my/question"});
    assert_eq!(answer, expected);
}

fn answer() -> ToolCallResponse<'static> {
    let result = ToolResult::new(true, "any".into(), 0);
    ToolCallResponse::new(result, Timestamp::default())
}

/// A tool that waits as often as it is told, and then answers or panics.
fn late() -> impl Plugin {
    Made {
        name: "late",
        priority: 9,
        exclusive: true,
        serves: Serves::Tags(vec![Tag::ToolCallRequest]),
        handle: |request: Message<'static>, _| -> BoxFuture<'static, _> {
            Box::pin(async move {
                let Body::ToolCallRequest(call) = request.body else {
                    return Ok(Outcome::Pass);
                };
                for _ in 0..call.timeout {
                    tokio::task::yield_now().await;
                }
                assert!(call.tool_name != "bomb", "as it was asked to");
                Ok(Outcome::answer(answer()))
            })
        },
    }
}

/// The session's own task goes on with what waits once, another with what waits again.
#[tokio::test]
async fn however_often_a_request_waits_it_is_answered() {
    let host = demo().plugin(late()).build();
    let client = Transport::Memory.client(&host).await;
    for waits in 0..4 {
        let ask = |tool| {
            let request = ToolCallRequest {
                timeout: waits,
                ..call(tool, "{}")
            };
            client.rpc(request, CallOptions::default())
        };
        ask("any").await.unwrap();
        let outcome = ask("bomb").await;
        let Err(ClientError::Host(error)) = outcome else {
            panic!("{outcome:?}")
        };
        assert_eq!(error.code, ErrorCode::RuntimeError);
    }
}

/// A retry of a request that only reads is executed: its response was not kept, which may be large. Its
/// id is free for another request.
#[tokio::test]
async fn request_that_only_reads_is_executed_again() {
    let lists = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&lists);
    let host = demo()
        .plugin(Made {
            name: "lists",
            priority: 9,
            exclusive: true,
            serves: Serves::Tags(vec![Tag::ToolListRequest]),
            handle: move |_, _| -> BoxFuture<'static, _> {
                counter.fetch_add(1, Ordering::SeqCst);
                let list = ToolListResponse { tools: Vec::new() };
                Box::pin(async { Ok(Outcome::answer(list)) })
            },
        })
        .build();
    let mut wire = Wire::connected(Transport::Memory, &host).await;
    for count in 1..=2 {
        let request = r#"{"type":"tool/list/req","id":"l"}"#;
        assert_eq!(wire.ask_line(request).await["type"], "tool/list/resp");
        assert_eq!(lists.load(Ordering::SeqCst), count);
    }
    let request = r#"{"type":"tool/call/req","id":"l","tool_name":"echo","arguments":{}}"#;
    assert_eq!(wire.ask_line(request).await["type"], "tool/call/resp");
}

/// What a request says beside its answer is heard in the order in which it was said.
#[tokio::test]
async fn events_after_an_answer_that_was_waited_for() {
    let host = demo()
        .plugin(Made {
            name: "streams",
            priority: 9,
            exclusive: true,
            serves: Serves::Tags(vec![Tag::ToolCallRequest]),
            handle: |_, context: Context| -> BoxFuture<'static, _> {
                Box::pin(async move {
                    tokio::task::yield_now().await;
                    context.keep_stream().await.unwrap();
                    let over = context.over().clone();
                    tokio::spawn(async move {
                        over.cancelled().await;
                        context.event(ToolEvent::new()).await.unwrap();
                        context.end_stream().await.unwrap();
                    });
                    Ok(Outcome::answer(answer()))
                })
            },
        })
        .build();
    let mut wire = Wire::connected(Transport::Memory, &host).await;
    let request = r#"{"type":"tool/call/req","id":"c","tool_name":"t","arguments":{}}"#;
    assert_eq!(wire.ask_line(request).await["type"], "tool/call/resp");
    assert_eq!(wire.hear().await.unwrap()["type"], "tool/event");
}

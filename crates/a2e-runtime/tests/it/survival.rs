//! What outlives a connection and a process: sessions, what plugins keep for them, and answers.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use a2e_runtime::{
    BoxFuture, Context, Failure, Host, HostBuilder, Limits, MemoryStore, Outcome, Plugin, Serves,
    Session, SnapshotMode, SnapshotStore,
};
use a2e_wire::messages::mcp::McpSampleRequest;
use a2e_wire::messages::tool::{ToolCallResponse, ToolEvent, ToolResult};
use a2e_wire::{Body, Capability, Message, Raw, Tag, Timestamp};
use serde_json::json;
use tokio::sync::Notify;

use crate::support::{Transport, Wire, demo, handshake};

/// Counts calls: of this session, and of all.
#[derive(Default)]
struct Counter {
    all: AtomicUsize,
    log: Arc<Mutex<Vec<String>>>,
    /// A call waits for this if it asks to.
    gate: Arc<Notify>,
}

#[derive(Default)]
struct Count(AtomicUsize);

impl Plugin for Counter {
    fn name(&self) -> &'static str {
        "counter"
    }

    fn capability(&self) -> Option<Capability<'static>> {
        Some(Capability::Tools)
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
            if call.tool_name == "ask" {
                let answer = context
                    .session()
                    .ask(McpSampleRequest::new(), Duration::from_secs(60));
                let Body::McpSampleResponse(answer) = answer.await.unwrap().body else {
                    panic!()
                };
                context
                    .session()
                    .push(Body::from(ToolEvent::new()))
                    .await
                    .unwrap();
                return Ok(respond(&format!("{:?}", answer.model)));
            }
            self.all.fetch_add(1, Ordering::SeqCst);
            let mine = &context.session().state::<Count>().0;
            let count = mine.fetch_add(1, Ordering::SeqCst) + 1;
            if call.tool_name == "gated" {
                context.event(ToolEvent::new()).await.ok();
                self.gate.notified().await;
            }
            Ok(respond(&count.to_string()))
        })
    }

    fn save(&self, session: &Session) -> Option<Raw<'static>> {
        let count = session.state::<Count>().0.load(Ordering::SeqCst);
        Some(
            Raw::parse(&count.to_string(), a2e_wire::OWN_VALUES)
                .unwrap()
                .into_owned(),
        )
    }

    fn restore(&self, session: &Session, state: Option<&Raw<'_>>) {
        let text = state.map_or_else(|| "nothing".to_owned(), ToString::to_string);
        self.log.lock().unwrap().push(format!("restore {text}"));
        let count = state.map_or(0, |state| state.deserialize().unwrap());
        session.state::<Count>().0.store(count, Ordering::SeqCst);
    }

    fn clear(&self, _: &Session) {
        self.log.lock().unwrap().push("clear".into());
    }

    fn teardown(&self) -> BoxFuture<'_, ()> {
        self.log.lock().unwrap().push("teardown".into());
        Box::pin(std::future::ready(()))
    }
}

fn respond(json: &str) -> Outcome {
    let result = ToolResult {
        data: Some(Raw::parse(json, a2e_wire::OWN_VALUES).unwrap().into_owned()),
        ..ToolResult::new(true, "count".into(), 0)
    };
    Outcome::answer(ToolCallResponse::new(result, Timestamp::default()))
}

/// What outlives a process.
#[derive(Default)]
struct Disk {
    sessions: Arc<MemoryStore>,
    requests: Arc<MemoryStore>,
}

fn builder(disk: &Disk, mode: SnapshotMode) -> (HostBuilder, Arc<Counter>) {
    let counter = Arc::new(Counter::default());
    let plugin: Arc<dyn Plugin> = Arc::<Counter>::clone(&counter);
    let builder = demo().shared_plugin(plugin);
    let builder = builder.snapshots(Arc::<MemoryStore>::clone(&disk.sessions), mode);
    let builder = builder.idempotency(Arc::<MemoryStore>::clone(&disk.requests));
    (builder, counter)
}

async fn count(wire: &mut Wire, id: &str) -> serde_json::Value {
    let call = json!({"type": "tool/call/req", "id": id, "tool_name": "count", "arguments": {}});
    wire.ask(&call).await["data"]["data"].clone()
}

async fn back(
    host: &Host,
    session: &serde_json::Value,
    last_eid: u64,
) -> (Wire, serde_json::Value) {
    let mut wire = Transport::Memory.place(host).await.wire().await;
    let mut hello = handshake();
    hello["resume"] = json!({"session_id": session, "last_eid": last_eid});
    let answer = wire.ask(&hello).await;
    (wire, answer)
}

/// Each session has its own count, the plugin has one for all; a new process goes on with both kinds
/// of state as the mode says.
#[tokio::test]
async fn what_a_plugin_keeps() {
    for (mode, restored, next) in [
        (SnapshotMode::Host, "restore 2", 3),
        (SnapshotMode::Hybrid, "restore 2", 3),
        (SnapshotMode::Plugin, "restore nothing", 1),
    ] {
        let disk = Disk::default();
        let (first, counter) = builder(&disk, mode);
        let first = first.build();
        let mut wire = Transport::Memory.place(&first).await.wire().await;
        let session = wire.ask(&handshake()).await["session_id"].clone();
        let mut other = Wire::connected(Transport::Memory, &first).await;
        assert_eq!(count(&mut wire, "1").await, 1);
        assert_eq!(count(&mut other, "2").await, 1);
        assert_eq!(count(&mut wire, "3").await, 2);
        assert_eq!(counter.all.load(Ordering::SeqCst), 3);
        assert!(counter.log.lock().unwrap().is_empty());

        // Another process with the same store, while the first is as good as dead.
        let (second, counter) = builder(&disk, mode);
        let second = second.build();
        let (mut wire, hello) = back(&second, &session, 3).await;
        assert_eq!(hello["resumed"], true, "{hello}");
        assert_eq!(*counter.log.lock().unwrap(), [restored]);
        assert_eq!(count(&mut wire, "4").await, next);
        // A request of before the restart is not done again: it has its answer.
        let before = counter.all.load(Ordering::SeqCst);
        assert_eq!(count(&mut wire, "3").await, 2);
        let other = json!({"type": "tool/call/req", "id": "3", "tool_name": "count", "arguments": {"x": 1}});
        assert_eq!(wire.ask(&other).await["detail"]["reason"], "id_reused");
        assert_eq!(counter.all.load(Ordering::SeqCst), before);

        // Ended for good, nothing is kept.
        wire.say(&json!({"type": "shutdown", "id": "bye", "timeout": 1}).to_string());
        assert_eq!(wire.hear().await, None);
        while second.sessions() > 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(counter.log.lock().unwrap().last().unwrap(), "clear");
        assert_eq!(back(&second, &session, 3).await.1["reason"], "auth_failed");
        second.stop();
        second.stopped().await;
        assert_eq!(counter.log.lock().unwrap().last().unwrap(), "teardown");
    }
}

/// A request that is sent again while it runs is done once, and answered twice.
#[tokio::test]
async fn a_request_that_is_sent_again_is_done_once() {
    let (host, counter) = builder(&Disk::default(), SnapshotMode::Host);
    let host = host.build();
    let gated = json!({"type": "tool/call/req", "id": "g", "tool_name": "gated", "arguments": {}});
    let mut first = Wire::connected(Transport::Tcp, &host).await;
    assert_eq!(first.ask(&gated).await["type"], "tool/event");
    // From another session of the same agent, as after a lost connection without resume.
    let mut second = Wire::connected(Transport::Http, &host).await;
    let event = second.ask(&gated).await;
    assert_eq!(
        (&event["type"], &event["req_id"]),
        (&json!("tool/event"), &json!("g"))
    );
    counter.gate.notify_one();
    for wire in [&mut first, &mut second] {
        let answer = wire.hear().await.unwrap();
        assert_eq!(
            (&answer["req_id"], &answer["data"]["data"]),
            (&json!("g"), &json!(1))
        );
    }
    assert_eq!(counter.all.load(Ordering::SeqCst), 1);
    // Afterwards too, with its event again; with another body it is refused.
    assert_eq!(second.ask(&gated).await["type"], "tool/event");
    assert_eq!(second.hear().await.unwrap()["data"]["data"], 1);
    let other =
        json!({"type": "tool/call/req", "id": "g", "tool_name": "gated", "arguments": {"x": 1}});
    let refused = second.ask(&other).await;
    assert_eq!(
        (&refused["code"], &refused["detail"]["reason"]),
        (&json!("invalid_message"), &json!("id_reused"))
    );
    assert_eq!(counter.all.load(Ordering::SeqCst), 1);
}

/// A request that a crash has cut off is not begun again, however often it is sent and whatever crashes.
#[tokio::test]
async fn a_request_that_was_cut_off_is_not_begun_again() {
    let disk = Disk::default();
    let (host, counter) = builder(&disk, SnapshotMode::Host);
    let mut wire = Transport::Memory.place(&host.build()).await.wire().await;
    let session = wire.ask(&handshake()).await["session_id"].clone();
    let gated = json!({"type": "tool/call/req", "id": "g", "tool_name": "gated", "arguments": {}});
    assert_eq!(wire.ask(&gated).await["type"], "tool/event");
    assert_eq!(counter.all.load(Ordering::SeqCst), 1);
    for last_eid in [2, 3] {
        let (next, counter) = builder(&disk, SnapshotMode::Host);
        let (mut wire, hello) = back(&next.build(), &session, last_eid).await;
        assert_eq!(hello["resumed"], true, "{hello}");
        if last_eid == 2 {
            let told = wire.hear().await.unwrap();
            assert_eq!(told["detail"]["reason"], "host_restarted", "{told}");
        }
        let again = wire.ask(&gated).await;
        assert_eq!(again["detail"]["reason"], "host_restarted", "{again}");
        assert_eq!(counter.all.load(Ordering::SeqCst), 0);
    }
}

/// Looks at what is on record when it is called.
struct Witness {
    store: Arc<MemoryStore>,
    seen: Arc<Mutex<Vec<bool>>>,
}

impl Plugin for Witness {
    fn name(&self) -> &'static str {
        "witness"
    }

    fn capability(&self) -> Option<Capability<'static>> {
        Some(Capability::Tools)
    }

    fn serves(&self) -> Serves {
        Serves::Tags(vec![Tag::ToolCallRequest])
    }

    fn handle(
        &self,
        request: Box<Message<'static>>,
        _: Context,
    ) -> BoxFuture<'_, Result<Outcome, Failure>> {
        let id = request.envelope.id.as_str().to_owned();
        let records = self.store.keys().unwrap().into_iter();
        let records = records.filter_map(|key| self.store.get(&key).unwrap());
        let texts: Vec<String> = records.map(|it| String::from_utf8(it).unwrap()).collect();
        let begun = format!(r#""begun":{{"id":"{id}""#);
        let is_there = texts.iter().any(|text| text.contains(&begun));
        self.seen.lock().unwrap().push(is_there);
        Box::pin(std::future::ready(Ok(respond("1"))))
    }
}

/// What cannot be undone is begun only when it is on record that it is.
#[tokio::test]
async fn a_request_is_on_record_before_it_is_begun() {
    let store = Arc::new(MemoryStore::default());
    let seen = Arc::new(Mutex::new(Vec::new()));
    let witness = Witness {
        store: Arc::clone(&store),
        seen: Arc::clone(&seen),
    };
    let host = demo().plugin(witness).idempotency(store).build();
    let mut wire = Wire::connected(Transport::Memory, &host).await;
    for id in ["1", "2"] {
        assert_eq!(count(&mut wire, id).await, 1);
    }
    assert_eq!(*seen.lock().unwrap(), [true, true]);
}

/// Plugins ask the agent, and tell it things it did not ask for.
#[tokio::test]
async fn a_plugin_asks_the_agent() {
    let (host, _) = builder(&Disk::default(), SnapshotMode::Host);
    let mut wire = Wire::connected(Transport::WebSocket, &host.build()).await;
    let call = json!({"type": "tool/call/req", "id": "a", "tool_name": "ask", "arguments": {}});
    let question = wire.ask(&call).await;
    assert_eq!(question["type"], "mcp/sample/req");
    let answer =
        json!({"type": "mcp/sample/resp", "id": "x", "req_id": question["id"], "model": "m"});
    let push = wire.ask(&answer).await;
    assert_eq!(
        (&push["type"], &push["req_id"]),
        (&json!("tool/event"), &json!(""))
    );
    assert_eq!(wire.hear().await.unwrap()["data"]["data"], "m");
}

/// A session that nobody comes back to ends in its time; one that somebody does goes on.
#[tokio::test(start_paused = true)]
async fn the_time_to_come_back() {
    let limits = Limits {
        resume: Duration::from_secs(30),
        ..Limits::default()
    };
    let host = demo().limits(limits).build();
    let mut wire = Transport::Memory.place(&host).await.wire().await;
    let session = wire.ask(&handshake()).await["session_id"].clone();
    drop(wire);
    tokio::time::sleep(Duration::from_secs(29)).await;
    let (wire, hello) = back(&host, &session, 1).await;
    assert_eq!(hello["resumed"], true, "{hello}");
    drop(wire);
    tokio::time::sleep(Duration::from_secs(40)).await;
    assert_eq!(host.sessions(), 0);
    assert_eq!(back(&host, &session, 1).await.1["reason"], "auth_failed");
}

/// A session that is ending is not gone on with: who asks is told, and what runs is answered.
#[tokio::test]
async fn a_session_that_is_ending() {
    let (host, counter) = builder(&Disk::default(), SnapshotMode::Host);
    let host = host.build();
    let mut wire = Transport::Memory.place(&host).await.wire().await;
    let session = wire.ask(&handshake()).await["session_id"].clone();
    let gated = json!({"type": "tool/call/req", "id": "g", "tool_name": "gated", "arguments": {}});
    assert_eq!(wire.ask(&gated).await["type"], "tool/event");
    wire.say(&json!({"type": "shutdown", "id": "s", "timeout": 1000}).to_string());
    let refused = wire.ask(&json!({"type": "tool/list/req", "id": "l"})).await;
    assert_eq!(refused["detail"]["reason"], "closing");
    let (_, answer) = back(&host, &session, 1).await;
    assert_eq!(
        (&answer["ok"], &answer["reason"]),
        (&json!(false), &json!("auth_failed"))
    );
    counter.gate.notify_one();
    assert_eq!(wire.hear().await.unwrap()["data"]["data"], 1);
}

/// Numbers that the session has not reached are those of another one.
#[tokio::test]
async fn more_than_there_is() {
    let host = demo().build();
    let mut wire = Transport::Memory.place(&host).await.wire().await;
    let session = wire.ask(&handshake()).await["session_id"].clone();
    drop(wire);
    assert_eq!(back(&host, &session, 2).await.1["reason"], "auth_failed");
    assert_eq!(back(&host, &session, 1).await.1["resumed"], true);
}

/// A parent that closes its side waits for two seconds, and is told what was cut off.
#[tokio::test(start_paused = true)]
async fn what_takes_too_long_after_the_end_of_input() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let (mut ours, theirs) = tokio::io::duplex(64 * 1024);
    let host = Host::builder()
        .plugin(a2e_runtime::demo::Demo::default())
        .build();
    tokio::spawn(async move { host.serve(theirs, a2e_runtime::Source::Own).await });
    let wait = json!({"type": "tool/call/req", "id": "w", "tool_name": "wait", "arguments": {"seconds": 9}});
    let hello = json!({"type": "handshake/req", "id": "h", "agent_caps": ["tools"]});
    ours.write_all(format!("{hello}\n{wait}\n").as_bytes())
        .await
        .unwrap();
    ours.shutdown().await.unwrap();
    let mut answers = String::new();
    ours.read_to_string(&mut answers).await.unwrap();
    assert!(
        answers
            .lines()
            .last()
            .unwrap()
            .contains("\"reason\":\"closing\""),
        "{answers}"
    );
}

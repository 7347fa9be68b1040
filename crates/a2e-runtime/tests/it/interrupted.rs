//! Requests that were interrupted: what may have had an effect is never executed again under its id.

use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use a2e_runtime::config::Policy;
use a2e_runtime::{
    BoxFuture, Context, Failure, Host, HostBuilder, Limits, MemoryStore, Outcome, Plugin, Policies,
    Serves, SnapshotMode, SnapshotStore,
};
use a2e_wire::messages::tool::{ToolCallResponse, ToolEvent, ToolResult};
use a2e_wire::{Body, Capability, Message, Raw, Tag, Timestamp};
use canonical::Value as Tree;
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::decisions::log;
use crate::support::{Transport, Wire, demo, handshake};

/// A tool that counts its calls, with an effect that outlives the process or not.
#[derive(Default)]
struct Tool {
    calls: AtomicUsize,
    gate: Notify,
    ends_with_process: bool,
}

impl Plugin for Tool {
    fn name(&self) -> &'static str {
        "tool"
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

    fn outlives(&self, _: &Message<'_>) -> bool {
        !self.ends_with_process
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
            let count = self.calls.fetch_add(1, Ordering::SeqCst) + 1;
            context.event(ToolEvent::new()).await.ok();
            match &*call.tool_name {
                "panic" => panic!("as it was told to"),
                "wait" => self.gate.notified().await,
                _ => {}
            }
            let count = count.to_string();
            let count = Raw::parse(&count, a2e_wire::OWN_VALUES).unwrap();
            let result = ToolResult {
                data: Some(count.into_owned()),
                ..ToolResult::new(true, "call".into(), 0)
            };
            let response = ToolCallResponse::new(result, Timestamp::default());
            Ok(Outcome::answer(response))
        })
    }
}

/// What outlives a process.
#[derive(Default)]
struct Disk {
    sessions: Arc<MemoryStore>,
    requests: Arc<MemoryStore>,
}

impl Disk {
    fn builder(&self, tool: &Arc<Tool>) -> HostBuilder {
        let plugin: Arc<dyn Plugin> = Arc::<Tool>::clone(tool);
        demo()
            .shared_plugin(plugin)
            .snapshots(
                Arc::<MemoryStore>::clone(&self.sessions),
                SnapshotMode::Host,
            )
            .idempotency(Arc::<MemoryStore>::clone(&self.requests))
    }

    /// The next process.
    fn host(&self) -> (Host, Arc<Tool>) {
        let tool = Arc::default();
        (self.builder(&tool).build(), tool)
    }
}

fn call(name: &str) -> Value {
    json!({"type": "tool/call/req", "id": "c", "tool_name": name, "arguments": {}, "timeout": 1})
}

async fn connected(host: &Host) -> Wire {
    Wire::connected(Transport::Memory, host).await
}

/// Waits until no session is left.
async fn ended(host: &Host) {
    while host.sessions() > 0 {
        tokio::task::yield_now().await;
    }
}

/// Sends a request again, and asserts that it is not executed.
async fn is_interrupted(wire: &mut Wire, request: &Value, tool: &Tool, what: &str) {
    let before = tool.calls.load(Ordering::SeqCst);
    let error = wire.ask(request).await;
    assert_eq!(error["code"], "runtime_error", "{what}: {error}");
    assert_eq!(
        error["detail"]["reason"], "host_restarted",
        "{what}: {error}"
    );
    assert_eq!(error["retryable"], false, "{what}: {error}");
    assert_eq!(tool.calls.load(Ordering::SeqCst), before, "{what}");
}

/// How a call is interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Timeout,
    Cancelled,
    SessionEnded,
    SessionLeft,
    Panic,
    Revoked,
    Stopped,
    Killed,
}

const WAYS: [Way; 8] = [
    Way::Timeout,
    Way::Cancelled,
    Way::SessionEnded,
    Way::SessionLeft,
    Way::Panic,
    Way::Revoked,
    Way::Stopped,
    Way::Killed,
];

/// Has a call interrupted; returns the connection if it is left.
async fn interrupt(way: Way, host: &Host) -> Option<Wire> {
    let mut wire = connected(host).await;
    let name = if way == Way::Panic { "panic" } else { "wait" };
    assert_eq!(wire.ask(&call(name)).await["type"], "tool/event");
    match way {
        Way::Timeout => {
            let error = wire.hear().await.unwrap();
            assert_eq!(error["code"], "timeout", "{error}");
        }
        Way::Cancelled => {
            let withdrawn = json!({"type": "error", "id": "w", "req_id": "c", "code": "timeout"});
            let error = wire.ask(&withdrawn).await;
            assert_eq!(error["detail"]["reason"], "withdrawn", "{error}");
        }
        Way::Panic => {
            let error = wire.hear().await.unwrap();
            assert_eq!(error["code"], "runtime_error", "{error}");
        }
        Way::SessionEnded => {
            wire.say(&json!({"type": "shutdown", "id": "s", "timeout": 0}).to_string());
            assert_eq!(wire.hear().await.unwrap()["detail"]["reason"], "closing");
            assert_eq!(wire.hear().await, None);
            ended(host).await;
            return None;
        }
        Way::SessionLeft => {
            drop(wire);
            tokio::time::sleep(Limits::default().resume * 2).await;
            ended(host).await;
            return None;
        }
        Way::Revoked => {
            host.revoke_access(|_| true).await.unwrap();
            return None;
        }
        Way::Stopped => {
            host.stop();
            host.stopped().await;
            return None;
        }
        Way::Killed => return None,
    }
    Some(wire)
}

/// In the same session, in a new one, and in new ones of the next processes.
#[tokio::test(start_paused = true)]
async fn interrupted_request_is_never_executed_again() {
    for way in WAYS {
        let (disk, what) = (Disk::default(), format!("{way:?}"));
        let (host, tool) = disk.host();
        let request = call(if way == Way::Panic { "panic" } else { "wait" });
        if let Some(mut wire) = interrupt(way, &host).await {
            is_interrupted(&mut wire, &request, &tool, &what).await;
        }
        if !matches!(way, Way::Stopped | Way::Killed) {
            let mut wire = connected(&host).await;
            is_interrupted(&mut wire, &request, &tool, &what).await;
            // It is the id of that request still.
            let other = wire.ask(&call("other")).await;
            assert_eq!(other["detail"]["reason"], "id_reused", "{way:?} {other}");
        }
        assert_eq!(tool.calls.load(Ordering::SeqCst), 1, "{way:?}");
        for _ in 0..2 {
            let (host, tool) = disk.host();
            let mut wire = connected(&host).await;
            is_interrupted(&mut wire, &request, &tool, &what).await;
        }
    }
}

/// A request whose effect ends with the process is executed again.
#[tokio::test(start_paused = true)]
async fn interrupted_request_without_lasting_effect_is_executed_again() {
    for way in [Way::Timeout, Way::Cancelled, Way::Killed] {
        let disk = Disk::default();
        let tool = || {
            Arc::new(Tool {
                ends_with_process: true,
                ..Tool::default()
            })
        };
        let (first, second) = (tool(), tool());
        let host = disk.builder(&first).build();
        if let Some(mut wire) = interrupt(way, &host).await {
            assert_eq!(
                wire.ask(&call("wait")).await["type"],
                "tool/event",
                "{way:?}"
            );
            assert_eq!(first.calls.load(Ordering::SeqCst), 2, "{way:?}");
        }
        let mut wire = connected(&disk.builder(&second).build()).await;
        assert_eq!(
            wire.ask(&call("wait")).await["type"],
            "tool/event",
            "{way:?}"
        );
        assert_eq!(second.calls.load(Ordering::SeqCst), 1, "{way:?}");
    }
}

/// A session that is resumed by the next process is sent the error, and a retry gets it again.
#[tokio::test]
async fn resumed_session_is_told_that_a_request_was_interrupted() {
    let disk = Disk::default();
    let (host, _) = disk.host();
    let place = Transport::Memory.place(&host).await;
    let mut wire = place.wire().await;
    let session = wire.ask(&handshake()).await["session_id"].clone();
    assert_eq!(wire.ask(&call("wait")).await["type"], "tool/event");
    let (host, tool) = disk.host();
    let mut wire = Transport::Memory.place(&host).await.wire().await;
    let mut hello = handshake();
    hello["resume"] = json!({"session_id": session, "last_eid": 2});
    assert_eq!(wire.ask(&hello).await["resumed"], true);
    let told = wire.hear().await.unwrap();
    assert_eq!(
        (&told["req_id"], &told["retryable"]),
        (&json!("c"), &json!(false))
    );
    assert_eq!(told["detail"]["reason"], "host_restarted", "{told}");
    is_interrupted(&mut wire, &call("wait"), &tool, "resumed").await;
}

/// The response is kept for a new session of the agent too, also in the next process.
#[tokio::test]
async fn retry_gets_the_response_in_any_session_and_process() {
    let disk = Disk::default();
    let (host, tool) = disk.host();
    let mut wire = connected(&host).await;
    assert_eq!(wire.ask(&call("add")).await["type"], "tool/event");
    let response = wire.hear().await.unwrap();
    wire.say(&json!({"type": "shutdown", "id": "s", "timeout": 0}).to_string());
    assert_eq!(wire.hear().await, None);
    ended(&host).await;
    let mut wire = connected(&host).await;
    wire.ask(&call("add")).await;
    assert_eq!(wire.hear().await.unwrap()["data"], response["data"]);
    assert_eq!(tool.calls.load(Ordering::SeqCst), 1);
    let (host, tool) = disk.host();
    let again = connected(&host).await.ask(&call("add")).await;
    assert_eq!(again["data"], response["data"], "{again}");
    assert_eq!(tool.calls.load(Ordering::SeqCst), 0);
}

/// However long it runs, and however much is done meanwhile.
#[tokio::test(start_paused = true)]
async fn call_of_more_than_ten_minutes_is_not_executed_again_after_a_restart() {
    let disk = Disk::default();
    let tool = Arc::default();
    let limits = Limits {
        request: Duration::from_secs(3600),
        ..Limits::default()
    };
    let host = disk.builder(&tool).limits(limits).build();
    let mut wire = connected(&host).await;
    let mut long = call("wait");
    long["timeout"] = json!(0);
    assert_eq!(wire.ask(&long).await["type"], "tool/event");
    for minutes in 0..3 {
        tokio::time::sleep(Duration::from_secs(601)).await;
        host.remove_expired().unwrap();
        let id = minutes.to_string();
        let other = json!({"type": "tool/call/req", "id": id, "tool_name": "add", "arguments": {}});
        assert_eq!(wire.ask(&other).await["type"], "tool/event");
        assert_eq!(wire.hear().await.unwrap()["type"], "tool/call/resp");
    }
    let (host, tool) = disk.host();
    let mut wire = connected(&host).await;
    is_interrupted(&mut wire, &long, &tool, "long").await;
}

/// A refusal executes nothing, so that the same id is a new request when the rules have changed.
#[tokio::test]
async fn refused_request_is_decided_about_again() {
    let (disk, tool) = (Disk::default(), Arc::default());
    let rules = |rules: &Value| {
        let text = rules.to_string();
        let rules = Tree::parse(text.as_bytes()).unwrap();
        let policy = Policy {
            common: rules.deserialize_into().unwrap(),
            agents: Vec::new(),
        };
        Policies::compile(&policy).unwrap()
    };
    let never = json!({"rules": [{"id": "never", "name": "add", "action": "deny"}]});
    let host = disk.builder(&tool).policies(rules(&never)).build();
    let mut wire = connected(&host).await;
    for _ in 0..2 {
        assert_eq!(wire.ask(&call("add")).await["code"], "tool_denied");
    }
    host.set_policies(rules(&json!({})));
    assert_eq!(wire.ask(&call("add")).await["type"], "tool/event");
    assert_eq!(wire.hear().await.unwrap()["type"], "tool/call/resp");
    assert_eq!(tool.calls.load(Ordering::SeqCst), 1);
}

/// A response whose audit record fails is sent to no session: not to its own, not to one that waits for
/// it, and not to a retry.
#[tokio::test]
async fn response_without_audit_record_is_never_sent() {
    let (disk, tool) = (Disk::default(), Arc::<Tool>::default());
    let folder = tempfile::tempdir().unwrap();
    let host = disk.builder(&tool).audit(log(folder.path())).build();
    let (mut first, mut second) = (connected(&host).await, connected(&host).await);
    let mut request = call("wait");
    request["timeout"] = json!(1000);
    for wire in [&mut first, &mut second] {
        assert_eq!(wire.ask(&request).await["type"], "tool/event");
    }
    // The log finds that another program has changed it, writes no more, and looks at it again.
    let segment = audit::segments(folder.path()).unwrap().remove(0).path;
    let mut segment = std::fs::File::options().append(true).open(segment).unwrap();
    segment.write_all(b"x").unwrap();
    tool.gate.notify_one();
    assert_eq!(first.hear().await, None);
    let told = second.hear().await.unwrap();
    assert_eq!(told["detail"]["reason"], "host_restarted", "{told}");
    let mut wire = connected(&host).await;
    is_interrupted(&mut wire, &request, &tool, "unrecorded").await;
    let (host, tool) = disk.host();
    let mut wire = connected(&host).await;
    is_interrupted(&mut wire, &request, &tool, "unrecorded, after a restart").await;
}

/// Notes in which order records are written and synced, and requests are executed.
#[derive(Default)]
struct Steps {
    store: MemoryStore,
    steps: Arc<Mutex<Vec<String>>>,
    syncs: bool,
    fails: bool,
}

impl Steps {
    fn add(&self, step: &str, bytes: &[u8]) {
        let line = String::from_utf8_lossy(bytes).replace("{\"frith\":", "");
        let kind = line.split('"').nth(1).unwrap_or_default();
        self.steps.lock().unwrap().push(format!("{step} {kind}"));
    }
}

impl SnapshotStore for Steps {
    fn append(&self, key: &str, bytes: &[u8]) -> std::io::Result<()> {
        self.add("append", bytes);
        self.store.append(key, bytes)
    }

    fn put(&self, key: &str, bytes: &[u8]) -> std::io::Result<()> {
        self.add("put", bytes);
        match self.fails {
            true => Err(std::io::Error::other("the disk is full")),
            false => self.store.put(key, bytes),
        }
    }

    fn get(&self, key: &str) -> std::io::Result<Option<Vec<u8>>> {
        self.store.get(key)
    }

    fn remove(&self, key: &str) -> std::io::Result<()> {
        self.store.remove(key)
    }

    fn syncs(&self) -> bool {
        self.syncs
    }

    fn sync(&self, _: &str) -> std::io::Result<()> {
        self.steps.lock().unwrap().push("sync".to_owned());
        Ok(())
    }

    fn keys(&self) -> std::io::Result<Vec<String>> {
        self.store.keys()
    }
}

/// Notes when it is executed.
struct Stepping(Arc<Mutex<Vec<String>>>);

impl Plugin for Stepping {
    fn name(&self) -> &'static str {
        "stepping"
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
        _: Context,
    ) -> BoxFuture<'_, Result<Outcome, Failure>> {
        self.0.lock().unwrap().push("execute".to_owned());
        let result = ToolResult::new(true, "call".into(), 0);
        let response = ToolCallResponse::new(result, Timestamp::default());
        Box::pin(std::future::ready(Ok(Outcome::answer(response))))
    }
}

/// Before it is executed a request is open in the journal of its session, and in the store, and on the disk
/// if the store promises that. One that cannot be recorded is not executed.
#[tokio::test]
async fn request_is_recorded_and_synced_before_it_is_executed() {
    for (syncs, fails, expected) in [
        (
            false,
            false,
            &["append open", "put begun", "execute", "append responded"][..],
        ),
        (
            true,
            false,
            &[
                "append open",
                "put begun",
                "sync",
                "execute",
                "append responded",
            ],
        ),
        (false, true, &["append open", "put begun"]),
        (true, true, &["append open", "put begun"]),
    ] {
        let steps = Arc::new(Steps {
            syncs,
            fails,
            ..Steps::default()
        });
        let store: Arc<dyn SnapshotStore> = Arc::<Steps>::clone(&steps);
        let sessions = Arc::new(Steps {
            steps: Arc::clone(&steps.steps),
            ..Steps::default()
        });
        let host = demo()
            .plugin(Stepping(Arc::clone(&steps.steps)))
            .snapshots(sessions, SnapshotMode::Host)
            .idempotency(store)
            .build();
        let answer = connected(&host).await.ask(&call("add")).await;
        let steps = steps.steps.lock().unwrap();
        assert_eq!(steps.first().unwrap(), "put head", "the handshake");
        assert_eq!(steps.last().unwrap(), "append a2e", "the response");
        assert_eq!(steps[1..steps.len() - 1], *expected);
        if fails {
            assert_eq!(answer["detail"]["reason"], "store_unavailable", "{answer}");
            assert_eq!(answer["retryable"], true, "{answer}");
        }
    }
}

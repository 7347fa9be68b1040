//! What other A2E clients see, line by line (a2e-behaviour, section 4, tools).

use std::sync::Arc;

use a2e_caps::tool::{Definition, Output};
use a2e_runtime::{Host, Source};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf};

use crate::support::{constant, defined, fake, host};

/// An agent that writes and reads lines, as the calls of other libraries make them.
pub(crate) struct Agent {
    lines: tokio::io::Lines<BufReader<ReadHalf<DuplexStream>>>,
    out: WriteHalf<DuplexStream>,
    said: usize,
    /// What the ids of its requests begin with: those of one agent must differ.
    pub(crate) ids: &'static str,
}

impl Agent {
    async fn connect(host: &Host) -> Self {
        Self::connect_as(host, "", &["tools"]).await
    }

    /// The agent of this token, for these capabilities.
    pub(crate) async fn connect_as(host: &Host, token: &str, capabilities: &[&str]) -> Self {
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let host = host.clone();
        tokio::spawn(async move { host.serve(theirs, Source::Own).await });
        let (read, out) = tokio::io::split(ours);
        let mut agent = Self {
            lines: BufReader::new(read).lines(),
            out,
            said: 0,
            ids: "R",
        };
        let hello = json!({"type": "handshake/req", "agent_id": "a", "agent_caps": capabilities,
            "auth_token": token, "agent_version": "1.0"});
        agent.say(hello).await;
        assert_eq!(agent.hear().await["ok"], true);
        agent
    }

    pub(crate) async fn say(&mut self, mut message: Value) {
        message["version"] = json!("1.0");
        // The handshake, then `R`, then others.
        message["id"] = match self.said {
            0 => json!("H"),
            1 => json!(self.ids),
            number => json!(format!("{}{number}", self.ids)),
        };
        self.said += 1;
        message["ts"] = json!(1716123456.5);
        self.out
            .write_all(format!("{message}\n").as_bytes())
            .await
            .unwrap();
    }

    /// What is answered.
    pub(crate) async fn ask(&mut self, message: Value) -> Value {
        self.say(message).await;
        self.hear().await
    }

    pub(crate) async fn hear(&mut self) -> Value {
        let line = self.lines.next_line().await.unwrap().unwrap();
        serde_json::from_str(&line).unwrap()
    }
}

fn echo() -> Definition {
    let schema = json!({"type": "object", "required": ["text"], "properties": {
        "text": {"type": "string", "description": "Text"},
        "how": {"type": "object", "description": "How", "properties": {
            "loud": {"type": "boolean", "description": "Loud"}}},
        "voice": {"type": "string", "enum": ["high", "low"], "description": "Voice"},
    }});
    Definition::new("echo", "Echo", &schema)
        .unwrap()
        .read_only()
        .streaming()
        .tags(["text"])
}

fn echoing() -> Host {
    let tool = fake(echo(), |call| async move {
        call.progress.progress(50, "half").await;
        call.progress.status("nearly").await;
        call.progress.log("info", "a line").await;
        call.progress
            .artifact("a.txt", "text/plain", b"hi", true)
            .await;
        Output::new(call.arguments.value())
    });
    host(vec![tool, constant(defined("later").deferred(), json!(1))])
}

fn names(list: &Value) -> Vec<&str> {
    let tools = list["tools"].as_array().unwrap();
    tools
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect()
}

#[tokio::test]
async fn a_list_has_every_field_with_its_type() {
    let mut agent = Agent::connect(&echoing()).await;
    agent
        .say(
            json!({"type": "tool/list/req", "filter_kind": "", "filter_tags": ["TEXT"],
            "query": "", "include_deferred": false}),
        )
        .await;
    let list = agent.hear().await;
    assert_eq!(
        (&list["type"], &list["req_id"]),
        (&json!("tool/list/resp"), &json!("R"))
    );
    let parameter = |name: &str, kind: &str, text: &str, required: bool| {
        json!({"name": name, "type": kind, "description": text, "required": required,
            "enum": null, "properties": null})
    };
    let mut voice = parameter("voice", "string", "Voice", false);
    voice["enum"] = json!(["high", "low"]);
    let mut how = parameter("how", "object", "How", false);
    how["properties"] = json!({"loud": parameter("loud", "boolean", "Loud", false)});
    assert_eq!(
        list["tools"],
        json!([{
            "name": "echo",
            "description": "Echo",
            "input_parameters": [how, parameter("text", "string", "Text", true), voice],
            "output_parameters": [],
            "streaming": true,
            "idempotent": true,
            "tags": ["text"],
            "version": "1.0.0",
            "toolkit": null,
            "defer_loading": false,
        }])
    );
}

#[tokio::test]
async fn deferred_tools_are_found_when_asked_for() {
    let mut agent = Agent::connect(&echoing()).await;
    for (query, include, expected) in [
        ("", false, vec!["echo", "artifact_read", "artifact_search"]),
        (
            "",
            true,
            vec!["echo", "later", "artifact_read", "artifact_search"],
        ),
        ("LATE", false, vec![]),
        ("LATE", true, vec!["later"]),
        ("cho", false, vec!["echo"]),
    ] {
        agent
            .say(
                json!({"type": "tool/list/req", "filter_kind": "x", "filter_tags": [],
                "query": query, "include_deferred": include}),
            )
            .await;
        let list = agent.hear().await;
        assert_eq!(names(&list), expected, "{query} {include}");
    }
}

/// Proves H-12, N-9.
#[tokio::test]
async fn a_call_has_its_events_and_every_field_of_its_result() {
    let mut agent = Agent::connect(&echoing()).await;
    agent
        .say(
            json!({"type": "tool/call/req", "session_id": "", "tool_name": "echo",
            "arguments": {"text": "hi"}, "streaming": true, "timeout": 60,
            "correlation_id": "0a1b2c3d"}),
        )
        .await;
    let expected = [
        ("progress", json!({"pct": 50, "message": "half"})),
        ("status", json!({"message": "nearly"})),
        ("log", json!({"level": "info", "message": "a line"})),
        (
            "artifact",
            json!({"name": "a.txt", "mime": "text/plain", "chunk": "aGk=", "final": true}),
        ),
    ];
    for (seq, (kind, data)) in expected.into_iter().enumerate() {
        let event = agent.hear().await;
        assert_eq!(event["type"], "tool/event");
        assert_eq!(event["req_id"], "R");
        assert_eq!((&event["kind"], &event["data"]), (&json!(kind), &data));
        assert_eq!(event["seq"], seq);
    }
    let response = agent.hear().await;
    assert_eq!(response["type"], "tool/call/resp");
    assert!(response["created_at"].is_f64(), "{response}");
    let mut result = response["data"].clone();
    assert!(result["duration_ms"].take().is_u64());
    assert_eq!(
        result,
        json!({"success": true, "tool_name": "echo", "data": {"text": "hi"}, "summary": null,
            "truncated": false, "exit_code": null, "error": null, "error_code": null,
            "duration_ms": null, "events": []})
    );
}

/// Conflicts 54 and 70: no events on the way, but those of the call in its result.
#[tokio::test]
async fn without_streaming_the_result_has_the_events() {
    let mut agent = Agent::connect(&echoing()).await;
    agent
        .say(json!({"type": "tool/call/req", "tool_name": "echo", "arguments": {"text": "hi"}}))
        .await;
    let response = agent.hear().await;
    assert_eq!(response["type"], "tool/call/resp");
    let events = response["data"]["events"].as_array().unwrap();
    let kinds: Vec<_> = events
        .iter()
        .map(|event| event["kind"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["progress", "status", "log", "artifact"]);
    let ids: Vec<_> = events
        .iter()
        .map(|event| event["id"].as_str().unwrap())
        .collect();
    assert_eq!(ids, ["R.0", "R.1", "R.2", "R.3"]);
    assert!(
        events
            .iter()
            .all(|event| event["req_id"] == "R" && event["type"] == "tool/event")
    );
}

/// Conflict 48, and the refusals of the base.
#[tokio::test]
async fn errors_have_every_field() {
    let mut agent = Agent::connect(&echoing()).await;
    for (name, arguments, code) in [
        ("nothing", json!({}), "unknown_tool"),
        ("echo", json!({}), "schema_violation"),
        ("echo", json!({"text": 1}), "schema_violation"),
    ] {
        agent
            .say(json!({"type": "tool/call/req", "tool_name": name, "arguments": arguments}))
            .await;
        let error = agent.hear().await;
        assert_eq!(
            (&error["type"], &error["code"]),
            (&json!("error"), &json!(code))
        );
        assert_eq!(error["capability_name"], "tools");
        assert_eq!(error["retryable"], false);
        assert!(error["message"].is_string() && error["detail"].is_object());
    }
}

#[tokio::test]
async fn a_schema_goes_along_where_parameters_cannot_say_it() {
    let schema = json!({"type": "object", "minProperties": 1});
    let tool = constant(Definition::new("t", "T", &schema).unwrap(), json!(1));
    let mut agent = Agent::connect(&host(vec![Arc::clone(&tool)])).await;
    agent.say(json!({"type": "tool/list/req"})).await;
    assert_eq!(agent.hear().await["tools"][0]["input_schema"], schema);
}

//! Spans, as an OpenTelemetry collector gets them.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};

use serde_json::{Value, json};

use crate::node::Node;

/// What takes spans over HTTP, and nothing else.
struct Collector {
    url: String,
    bodies: Receiver<Value>,
    seen: Vec<Value>,
}

impl Collector {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (sender, bodies) = channel();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(body) = take(&stream.unwrap()) else {
                    continue;
                };
                if sender.send(body).is_err() {
                    return;
                }
            }
        });
        Self {
            url,
            bodies,
            seen: Vec::new(),
        }
    }

    /// Waits for a span of a service.
    fn span(&mut self, service: &str, name: &str) -> Value {
        let is_it = |span: &&Value| span["service"] == service && span["name"] == name;
        loop {
            if let Some(found) = self.seen.iter().find(is_it) {
                return found.clone();
            }
            let body = self.bodies.recv().unwrap();
            let resource = &body["resourceSpans"][0];
            let service = &resource["resource"]["attributes"][0]["value"]["stringValue"];
            for span in resource["scopeSpans"][0]["spans"].as_array().unwrap() {
                let mut span = span.clone();
                span["service"] = service.clone();
                self.seen.push(span);
            }
        }
    }
}

/// Reads a request and answers it.
fn take(stream: &TcpStream) -> std::io::Result<Value> {
    let mut reader = BufReader::new(stream);
    let mut first = String::new();
    reader.read_line(&mut first)?;
    assert_eq!(first, "POST /v1/traces HTTP/1.1\r\n");
    let (mut length, mut kind) = (0, String::new());
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        match line.trim().to_ascii_lowercase().split_once(": ") {
            Some(("content-length", value)) => length = value.parse().unwrap(),
            Some(("content-type", value)) => kind = value.to_owned(),
            Some(_) => {}
            None => break,
        }
    }
    assert_eq!(kind, "application/json");
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let mut stream = stream;
    stream.write_all(
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}",
    )?;
    Ok(serde_json::from_slice(&body)?)
}

fn attribute(span: &Value, key: &str) -> Value {
    let all = span["attributes"].as_array().unwrap();
    let found = all.iter().find(|attribute| attribute["key"] == key);
    found.map_or(Value::Null, |found| found["value"]["stringValue"].clone())
}

/// One trace: the agent's call at A, A's call to B, B's work, and the tool there.
#[test]
fn one_trace_goes_through_both_nodes() {
    let mut collector = Collector::start();
    let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let telemetry = format!("telemetry: {{otlp: \"{}\"}}\n", collector.url);
    let b = Node::start(
        folders[1].path(),
        &format!("host_id: b\n{telemetry}intents: {{demo.time: {{tool: clock}}}}\n"),
    );
    let peers = format!(
        "plugins: [{{name: tools, type: tools}}]\npeers: {{beta: {{did: \"{}\", url: \"{}\", intents: {{demo.time: {{description: Tells the time}}}}}}}}\n",
        b.at("did"),
        b.at("a2a")
    );
    let mut a = Node::start(
        folders[0].path(),
        &format!("host_id: a\n{telemetry}{peers}"),
    );
    let mut wire = a.wire();
    let hello =
        json!({"type": "handshake/req", "id": "h", "agent_caps": ["tools"], "auth_token": a.token});
    assert_eq!(wire.ask(&hello)["ok"], true);
    let tool = "peer:beta:demo.time";
    let call = json!({"type": "tool/call/req", "id": "c1", "tool_name": tool, "arguments": {}});
    let answer = wire.ask(&call);
    assert_eq!(answer["data"]["success"], true, "{answer}");

    let request = collector.span("a", &format!("execute_tool {tool}"));
    let called = collector.span("a", "demo.time");
    let intent = collector.span("b", "demo.time");
    let trace = &request["traceId"];
    assert!(request["parentSpanId"].is_null(), "{request}");
    assert_eq!(
        (&called["traceId"], &called["parentSpanId"]),
        (trace, &request["spanId"])
    );
    assert_eq!(
        (&intent["traceId"], &intent["parentSpanId"]),
        (trace, &called["spanId"])
    );
    assert_eq!((&called["kind"], &intent["kind"]), (&json!(3), &json!(2)));
    assert_eq!(attribute(&request, "gen_ai.tool.call.id"), "c1");
    assert_eq!(attribute(&called, "frith.peer"), b.at("did"));
    assert_eq!(attribute(&intent, "frith.peer"), a.at("did"));

    // What fails says how; and what has ended shortly before the node does is sent too.
    let none = json!({"type": "tool/call/req", "id": "c2", "tool_name": "none", "arguments": {}});
    assert_eq!(wire.ask(&none)["code"], "unknown_tool");
    a.signal("-TERM");
    assert_eq!(a.wait(), Some(0));
    let failed = collector.span("a", "execute_tool none");
    assert_eq!(
        failed["status"],
        json!({"code": 2, "message": "unknown_tool"})
    );
    assert_ne!(&failed["traceId"], trace);
}

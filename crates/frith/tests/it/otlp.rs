//! Spans, as an OpenTelemetry collector gets them.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

use serde_json::{Value, json};
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::rustls::version::TLS13;
use tokio_rustls::rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::node::Node;

/// What takes spans over HTTP, and nothing else.
struct Collector {
    url: String,
    bodies: Receiver<Value>,
    seen: Vec<Value>,
}

impl Collector {
    fn start() -> Self {
        Self::start_as("http", |stream| take(&stream))
    }

    /// One that takes requests off connections in this way.
    fn start_as(
        scheme: &str,
        take: impl Fn(TcpStream) -> std::io::Result<Value> + Send + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("{scheme}://{}", listener.local_addr().unwrap());
        let (sender, bodies) = channel();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(body) = take(stream.unwrap()) else {
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
                span["who"] = body["who"].clone();
                self.seen.push(span);
            }
        }
    }
}

/// Reads a request and answers it. Its `authorization` is put into what it has sent.
fn take(stream: impl Read + Write) -> std::io::Result<Value> {
    let mut reader = BufReader::new(stream);
    let mut first = String::new();
    reader.read_line(&mut first)?;
    assert_eq!(first, "POST /v1/traces HTTP/1.1\r\n");
    let (mut length, mut kind, mut who) = (0, String::new(), Value::Null);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        match line.trim().to_ascii_lowercase().split_once(": ") {
            Some(("content-length", value)) => length = value.parse().unwrap(),
            Some(("content-type", value)) => kind = value.to_owned(),
            Some(("authorization", value)) => who = json!(value),
            Some(_) => {}
            None => break,
        }
    }
    assert_eq!(kind, "application/json");
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    reader.get_mut().write_all(
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}",
    )?;
    reader.get_mut().flush()?;
    let mut body: Value = serde_json::from_slice(&body)?;
    body["who"] = who;
    Ok(body)
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
        &format!(
            "host_id: b\n{telemetry}intents: {{demo.time: {{tool: clock}}, demo.again: {{tool: clock}}}}\n"
        ),
    );
    let peers = format!(
        "plugins: [{{name: tools, type: tools}}]\npeers: {{beta: {{did: \"{}\", url: \"{}\", intents: {{demo.time: {{description: Tells the time}}, demo.again: {{description: Tells it again}}}}}}}}\n",
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
    let done = collector.span("b", "execute_tool clock");
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
    assert_eq!(
        (&done["traceId"], &done["parentSpanId"]),
        (trace, &intent["spanId"])
    );
    assert_eq!((&called["kind"], &intent["kind"]), (&json!(3), &json!(2)));
    assert_eq!(attribute(&request, "gen_ai.tool.call.id"), "c1");
    assert_eq!(attribute(&called, "frith.peer"), b.at("did"));
    assert_eq!(attribute(&intent, "frith.peer"), a.at("did"));

    // An agent that is traced itself says so.
    let own = "4bf92f3577b34da6a3ce929d0e0e4736";
    let call = json!({"type": "tool/call/req", "id": "c3", "tool_name": "peer:beta:demo.again",
        "arguments": {}, "correlation_id": format!("00-{own}-00f067aa0ba902b7-01")});
    assert_eq!(wire.ask(&call)["data"]["success"], true);
    let request = collector.span("a", "execute_tool peer:beta:demo.again");
    assert_eq!(request["parentSpanId"], "00f067aa0ba902b7");
    let (called, intent) = (
        collector.span("a", "demo.again"),
        collector.span("b", "demo.again"),
    );
    assert_eq!(called["parentSpanId"], request["spanId"]);
    assert_eq!(intent["parentSpanId"], called["spanId"]);
    for span in [&request, &called, &intent] {
        assert_eq!(span["traceId"], own, "{span}");
    }

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

/// A collector that is elsewhere: by TLS, to whom its certificate says, and with what it wants to see.
#[test]
fn a_collector_elsewhere_is_believed_by_its_certificate() {
    let folder = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".into()]).unwrap();
    let root = folder.path().join("root.pem");
    std::fs::write(&root, made.cert.pem()).unwrap();
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(aws_lc_rs::default_provider());
    let tls = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    let tls = Arc::new(tls);
    let mut collector = Collector::start_as("https", move |stream| {
        let session = ServerConnection::new(Arc::clone(&tls)).unwrap();
        take(StreamOwned::new(session, stream))
    });
    std::fs::write(folder.path().join("secret"), "Bearer hunter2").unwrap();
    let config = format!(
        "host_id: a\ntelemetry: {{otlp: \"{}\", otlp_headers: {{authorization: \"file:secret\"}}, log_file: node.log}}\n",
        collector.url
    );
    let ask = |node: &Node| {
        let mut wire = node.wire();
        let hello = json!({"type": "handshake/req", "id": "h", "agent_caps": ["tools"], "auth_token": node.token});
        assert_eq!(wire.ask(&hello)["ok"], true);
        let call =
            json!({"type": "tool/call/req", "id": "c", "tool_name": "clock", "arguments": {}});
        assert_eq!(wire.ask(&call)["data"]["success"], true);
    };
    // Nobody vouches for it yet.
    let mut node = Node::start(folder.path(), &config);
    ask(&node);
    node.signal("-TERM");
    assert_eq!(node.wait(), Some(0));
    let log = std::fs::read_to_string(folder.path().join("node.log")).unwrap();
    assert!(
        log.contains("does not take them: invalid peer certificate"),
        "{log}"
    );
    let node = Node::start_with(folder.path(), &config, &[("SSL_CERT_FILE", &root)]);
    ask(&node);
    let span = collector.span("a", "execute_tool clock");
    assert_eq!(span["who"], "bearer hunter2");
    drop(node);
    let log = std::fs::read_to_string(folder.path().join("node.log")).unwrap();
    assert!(!log.contains("hunter2"), "{log}");
}

use serde_json::{Value, json};
use tracing::{debug_span, info_span};
use tracing_subscriber::layer::SubscriberExt;

use super::*;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const SPAN: &str = "00f067aa0ba902b7";

/// The spans that end while something is done, in the order of their ends.
fn ended(work: impl FnOnce()) -> Vec<Value> {
    let (spans, mut exporter) = Spans::new();
    let subscriber = tracing_subscriber::registry().with(spans);
    tracing::subscriber::with_default(subscriber, work);
    std::iter::from_fn(|| exporter.next()).collect()
}

fn attribute(span: &Value, key: &str) -> Value {
    let all = span["attributes"].as_array().unwrap();
    let found = all.iter().find(|attribute| attribute["key"] == key);
    found.map_or(Value::Null, |found| found["value"]["stringValue"].clone())
}

#[test]
fn a_request_is_a_trace_and_a_session_is_none() {
    let spans = ended(|| {
        let _session = info_span!("session", source = "own").entered();
        let request = debug_span!(
            "request",
            kind = "tool/call/req",
            id = "7",
            tool = "grep",
            error = tracing::field::Empty
        );
        request.record("error", "timeout");
        let _inside = request.entered();
        drop(info_span!("step", count = 3).entered());
    });
    let [step, request] = spans.as_slice() else {
        panic!("{spans:?}")
    };
    assert_eq!(request["name"], "execute_tool grep");
    assert_eq!(request["kind"], 2);
    assert_eq!(request["status"], json!({"code": 2, "message": "timeout"}));
    assert!(request["parentSpanId"].is_null());
    for (key, value) in [
        ("rpc.system", "a2e"),
        ("rpc.method", "tool/call/req"),
        ("gen_ai.tool.name", "grep"),
        ("gen_ai.tool.call.id", "7"),
        ("error.type", "timeout"),
    ] {
        assert_eq!(attribute(request, key), value, "{key} in {request}");
    }
    assert_eq!(step["traceId"], request["traceId"]);
    assert_eq!(step["parentSpanId"], request["spanId"]);
    assert_eq!((&step["kind"], &step["status"]), (&json!(1), &json!({})));
    assert_eq!(attribute(step, "frith.count"), "3");
    assert_eq!(request["traceId"].as_str().unwrap().len(), 32);
    assert_eq!(request["spanId"].as_str().unwrap().len(), 16);
}

#[test]
fn a_trace_goes_from_node_to_node() {
    let spans = ended(|| {
        let _request = debug_span!("request", kind = "tool/call/req", id = "1").entered();
        let call = || {
            info_span!(
                "peer_call",
                intent = "a.b",
                trace_id = TRACE,
                span_id = SPAN
            )
        };
        drop(call().entered());
        let other = info_span!(
            "peer_call",
            intent = "c.d",
            trace_id = "0af7651916cd43dd8448eb211c80319c"
        );
        drop(other.entered());
    });
    let [first, second, request] = spans.as_slice() else {
        panic!("{spans:?}")
    };
    // The request belongs to the trace that the peer was told.
    assert_eq!(request["traceId"], TRACE);
    assert_eq!(
        (&first["traceId"], &first["spanId"]),
        (&json!(TRACE), &json!(SPAN))
    );
    assert_eq!((&first["kind"], &first["name"]), (&json!(3), &json!("a.b")));
    assert_eq!(first["parentSpanId"], request["spanId"]);
    // A second call has another trace there, and says here to what it belongs.
    assert_ne!(second["traceId"], TRACE);
    let link = json!([{"traceId": TRACE, "spanId": request["spanId"]}]);
    assert_eq!(
        (&second["links"], second["parentSpanId"].is_null()),
        (&link, true)
    );
    let spans = ended(|| {
        let _intent =
            info_span!("intent", name = "a.b", trace_id = TRACE, parent_id = SPAN).entered();
        drop(debug_span!("request", kind = "tool/call/req").entered());
    });
    assert_eq!(spans[1]["parentSpanId"], SPAN);
    assert_eq!(spans[1]["kind"], 2);
    assert!(
        spans.iter().all(|span| span["traceId"] == TRACE),
        "{spans:?}"
    );
    assert_eq!(spans[0]["parentSpanId"], spans[1]["spanId"]);
}

#[test]
fn what_nobody_takes_is_lost_and_counted() {
    let (spans, mut exporter) = Spans::new();
    let lost = Arc::clone(&spans.lost);
    let subscriber = tracing_subscriber::registry().with(spans);
    tracing::subscriber::with_default(subscriber, || {
        for _ in 0..=WAITING {
            drop(info_span!("step", text = "x".repeat(1000)).entered());
        }
    });
    assert_eq!(lost.load(Ordering::Relaxed), 1);
    let first = exporter.next().unwrap();
    let text = attribute(&first, "frith.text");
    assert_eq!(text.as_str().unwrap().len(), 256);
    assert_eq!(std::iter::from_fn(|| exporter.next()).count(), WAITING - 1);
}

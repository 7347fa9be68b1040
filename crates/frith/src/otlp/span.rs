//! A span, from its beginning to the form a collector reads.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Record};

/// A session is no piece of work: what is done in it are traces of their own.
const SESSION: &str = "session";

/// Of a value so much is sent, and so many of them.
const MAX_TEXT: usize = 256;
const MAX_FIELDS: usize = 16;

/// A span that has not ended.
pub(super) struct Begun {
    name: &'static str,
    at: SystemTime,
    /// Shared by all spans of a trace here. Whoever knows the trace first says it: a call to a peer has
    /// one of its own, which becomes that of the request it is made for.
    trace: Arc<OnceLock<String>>,
    id: String,
    parent: Option<String>,
    /// Another trace that this belongs to as well.
    link: Option<(Arc<OnceLock<String>>, String)>,
    kind: Kind,
    fields: Fields,
}

/// As OpenTelemetry counts them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Internal = 1,
    Server = 2,
    Client = 3,
}

/// A span that has ended.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Span(pub(super) Value);

#[derive(Debug, Default)]
struct Fields {
    trace_id: Option<String>,
    span_id: Option<String>,
    parent_id: Option<String>,
    others: Vec<(&'static str, String)>,
}

impl Begun {
    /// Nothing, if there is no randomness for an id.
    pub(super) fn new(
        attributes: &Attributes<'_>,
        at: SystemTime,
        parent: Option<&Self>,
    ) -> Option<Self> {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        let parent = parent.filter(|parent| parent.name != SESSION);
        let mut begun = Self {
            name: attributes.metadata().name(),
            at,
            trace: parent.map_or_else(Arc::default, |parent| Arc::clone(&parent.trace)),
            id: random::<8>()?,
            parent: parent.map(|parent| parent.id.clone()),
            link: None,
            kind: match parent {
                Some(_) => Kind::Internal,
                None => Kind::Server,
            },
            fields,
        };
        begun.take_ids(parent);
        Some(begun)
    }

    /// Goes by the ids that the bridge has sent or got.
    fn take_ids(&mut self, parent: Option<&Self>) {
        let fields = &mut self.fields;
        let Some(trace_id) = fields.trace_id.take() else {
            return;
        };
        if let Some(parent_id) = fields.parent_id.take() {
            // It goes on with what began elsewhere.
            self.trace = Arc::new(OnceLock::from(trace_id));
            self.parent = Some(parent_id);
            self.kind = Kind::Server;
            return;
        }
        self.kind = Kind::Client;
        if let Some(span_id) = fields.span_id.take() {
            self.id = span_id;
        }
        let known = self.trace.get_or_init(|| trace_id.clone());
        if *known != trace_id {
            // The second call to a peer in one request: the peer knows it by another trace.
            self.link = parent.map(|parent| (Arc::clone(&parent.trace), parent.id.clone()));
            self.trace = Arc::new(OnceLock::from(trace_id));
            self.parent = None;
        }
    }

    pub(super) fn record(&mut self, values: &Record<'_>) {
        values.record(&mut self.fields);
    }

    /// Nothing, if it is none to send.
    pub(super) fn end(self, at: SystemTime) -> Option<Span> {
        if self.name == SESSION {
            return None;
        }
        let trace = id_of(&self.trace)?;
        let (name, attributes) = self.fields.named(self.name, self.kind);
        let mut span = json!({
            "traceId": trace,
            "spanId": self.id,
            "name": name,
            "kind": self.kind as u8,
            "startTimeUnixNano": nanoseconds(self.at),
            "endTimeUnixNano": nanoseconds(at),
            "attributes": attributes,
            "status": self.fields.status(),
        });
        if let Some(parent) = self.parent {
            span["parentSpanId"] = json!(parent);
        }
        if let Some((trace, id)) = self.link {
            span["links"] = json!([{"traceId": id_of(&trace)?, "spanId": id}]);
        }
        Some(Span(span))
    }
}

/// The id of a trace; if nobody has said one, a new one.
fn id_of(trace: &OnceLock<String>) -> Option<String> {
    if let Some(known) = trace.get() {
        return Some(known.clone());
    }
    let id = random::<16>()?;
    Some(trace.get_or_init(|| id).clone())
}

/// As the format wants it: a number in a text.
fn nanoseconds(at: SystemTime) -> String {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_nanos().to_string()
}

fn random<const BYTES: usize>() -> Option<String> {
    let mut bytes = [0; BYTES];
    getrandom::fill(&mut bytes).ok()?;
    Some(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

impl Fields {
    fn get(&self, name: &str) -> Option<&str> {
        let found = self.others.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| value.as_str())
    }

    /// The name of a span and its attributes, by the conventions for RPC and for tools of models.
    fn named(&self, span: &str, kind: Kind) -> (String, Vec<Value>) {
        let mut attributes = Vec::new();
        let mut add = |key: &str, value: &str| {
            attributes.push(json!({"key": key, "value": {"stringValue": value}}));
        };
        let (system, method) = match span {
            "request" => ("a2e", self.get("kind")),
            "intent" => ("a2a", self.get("name")),
            "peer_call" => ("a2a", self.get("intent")),
            _ => ("", None),
        };
        let mut name = method.unwrap_or(span).to_owned();
        if let Some(method) = method {
            add("rpc.system", system);
            add("rpc.method", method);
        }
        if let (Some(tool), true) = (self.get("tool"), kind != Kind::Client) {
            name = format!("execute_tool {tool}");
            add("gen_ai.operation.name", "execute_tool");
            add("gen_ai.tool.name", tool);
            if let Some(id) = self.get("id") {
                add("gen_ai.tool.call.id", id);
            }
        }
        for (field, value) in &self.others {
            match *field {
                "kind" | "name" | "intent" | "tool" if method.is_some() => {}
                "error" => add("error.type", value),
                "id" => add("frith.request_id", value),
                field => add(&format!("frith.{field}"), value),
            }
        }
        (name, attributes)
    }

    fn status(&self) -> Value {
        match self.get("error") {
            Some(code) => json!({"code": 2, "message": code}),
            None => json!({}),
        }
    }

    fn set(&mut self, field: &Field, value: String) {
        match field.name() {
            "trace_id" => self.trace_id = Some(value),
            "span_id" => self.span_id = Some(value),
            "parent_id" => self.parent_id = Some(value),
            name => {
                let room = self.others.len() < MAX_FIELDS;
                let known = self.others.iter_mut().find(|(known, _)| *known == name);
                match known {
                    Some((_, known)) => *known = value,
                    None if room => self.others.push((name, value)),
                    None => {}
                }
            }
        }
    }
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.set(field, value.chars().take(MAX_TEXT).collect());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.record_str(field, &format!("{value:?}"));
    }
}

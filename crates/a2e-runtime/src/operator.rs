//! What the operator of a node may ask of it: over a socket of its own that no agent can reach.
//!
//! One JSON object per line each way: `{"op":"token.new","agent":"ada"}` is answered with
//! `{"ok":true,…}` or `{"ok":false,"error":"…"}`, before which an operation may tell how it gets on
//! (`{"news":…}`). [`Operations`] is what a node can be asked, [`Server`] answers, [`ask`] asks.

mod approvals;
mod client;
mod definitions;
mod server;
mod tokens;

use std::collections::{BTreeMap, BTreeSet};
use std::future::ready;

use canonical::{Object, Value};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use crate::plugin::BoxFuture;

pub(crate) use approvals::summary;
pub use approvals::{Decide, HeldCall, HeldCalls, Show, WaitingCall};
pub use client::{AskError, ask, ask_telling};
pub use definitions::{ApproveTool, ChangedTool, ChangedTools, ShowTool, ToolChange};
pub use server::Server;
pub use tokens::{Create, Created, Listed, Revoke};

/// What a node can be asked.
pub struct Operations {
    handlers: BTreeMap<&'static str, Box<dyn Operation>>,
    /// Those that nobody else needs to be done: they end when the operator goes.
    dropped: BTreeSet<&'static str>,
    /// Where it is put on record what the operator did.
    audit: Option<audit::Log>,
}

/// Operations that only look, or that put on record themselves what they do.
const LOOKING: [&str; 13] = [
    "approvals.list",
    "approvals.show",
    "mcp.heard",
    "mcp.show",
    "peer.call",
    "peer.probe",
    "peer.look",
    "peer.sessions",
    "status",
    "token.list",
    "tools.pending",
    "tools.show",
    "trust.list",
];
/// Operations that take rights away, or make room: they are done also if they cannot be put on record.
const TAKING: [&str; 4] = [
    "audit.purge",
    "token.revoke",
    "trust.block",
    "trust.unanchor",
];

/// Reads a request and gives the answer to it, as one line.
trait Operation: Fn(&Value<'_>, News) -> BoxFuture<'static, Vec<u8>> + Send + Sync {}
impl<T: Fn(&Value<'_>, News) -> BoxFuture<'static, Vec<u8>> + Send + Sync> Operation for T {}

/// Where an operation tells how it gets on, before it answers.
#[derive(Debug, Clone)]
pub struct News(mpsc::Sender<Vec<u8>>);

/// Lines that wait for the operator; an operation that has more to tell waits too.
const NEWS: usize = 16;

#[derive(Serialize)]
struct Told<'a, T> {
    news: &'a T,
}

impl News {
    /// Tells the operator, if it still listens.
    pub async fn tell(&self, news: &impl Serialize) {
        let _ = self.0.send(line(&Told { news })).await;
    }

    /// The same, unless too much waits to be read already.
    pub fn try_tell(&self, news: &impl Serialize) {
        let _ = self.0.try_send(line(&Told { news }));
    }
}

/// The request of an operation that needs nothing to be said.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nothing {}

/// The answer to `status`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// The node's process.
    pub pid: u32,
    /// Its version.
    pub version: String,
}

#[derive(Serialize)]
struct Good<R> {
    ok: bool,
    #[serde(flatten)]
    answer: R,
}

#[derive(Serialize)]
struct Bad<'a> {
    ok: bool,
    error: &'a str,
}

impl std::fmt::Debug for Operations {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.handlers.keys()).finish()
    }
}

impl Default for Operations {
    fn default() -> Self {
        Self::new()
    }
}

impl Operations {
    /// Only `status`: is the node there, and which is it?
    #[must_use]
    pub fn new() -> Self {
        let empty = Self {
            handlers: BTreeMap::new(),
            dropped: BTreeSet::new(),
            audit: None,
        };
        empty.add("status", |_: Nothing| {
            ready(Ok(Status {
                pid: std::process::id(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
            }))
        })
    }

    /// Puts on record what the operator does.
    #[must_use]
    pub fn on_record(mut self, log: Option<audit::Log>) -> Self {
        self.audit = log;
        self
    }

    /// Adds an operation, in place of one of the same name. Its request and its answer are JSON
    /// objects; what it gives as an error is shown to the operator.
    #[must_use]
    pub fn add<Q, R, F>(
        self,
        name: &'static str,
        act: impl Fn(Q) -> F + Send + Sync + 'static,
    ) -> Self
    where
        Q: DeserializeOwned,
        R: Serialize + Send,
        F: Future<Output = Result<R, String>> + Send + 'static,
    {
        self.add_telling(name, move |request, _| act(request))
    }

    /// Adds an operation that tells how it gets on.
    #[must_use]
    pub fn add_telling<Q, R, F>(
        mut self,
        name: &'static str,
        act: impl Fn(Q, News) -> F + Send + Sync + 'static,
    ) -> Self
    where
        Q: DeserializeOwned,
        R: Serialize + Send,
        F: Future<Output = Result<R, String>> + Send + 'static,
    {
        let handler = move |request: &Value<'_>, news: News| -> BoxFuture<'static, Vec<u8>> {
            let request = match request.deserialize_into::<Q>() {
                Ok(request) => request,
                Err(error) => return Box::pin(ready(refusal(&error.to_string()))),
            };
            let result = act(request, news);
            Box::pin(async move {
                match result.await {
                    Ok(answer) => line(&Good { ok: true, answer }),
                    Err(error) => refusal(&error),
                }
            })
        };
        self.handlers.insert(name, Box::new(handler));
        self
    }

    /// Has an operation end when the operator who asked for it goes away, as by Ctrl-C. All others
    /// are done to their end.
    #[must_use]
    pub fn ending_with_operator(mut self, name: &'static str) -> Self {
        self.dropped.insert(name);
        self
    }

    /// Whether what a line asks for ends with the operator.
    fn ends_with_operator(&self, line: &[u8]) -> bool {
        parse(line).is_ok_and(|(name, _)| self.dropped.contains(name.as_str()))
    }

    /// The answer to a line, as a line.
    async fn answer(&self, line: &[u8], news: News) -> Vec<u8> {
        let (name, request) = match parse(line) {
            Ok(request) => request,
            Err(error) => return refusal(&error),
        };
        let Some(handler) = self.handlers.get(name.as_str()) else {
            let known: Vec<&str> = self.handlers.keys().copied().collect();
            let name: String = name.chars().take(64).collect();
            let known = known.join(", ");
            return refusal(&format!(
                "there is no operation `{name}`; there are {known}"
            ));
        };
        let log = self.audit.as_ref();
        let log = log.filter(|_| !LOOKING.contains(&name.as_str()));
        let room = match log.map(audit::Log::reserve).transpose() {
            Err(error) if !TAKING.contains(&name.as_str()) => {
                return refusal(&format!(
                    "nothing was done: it cannot be put on record: {error}"
                ));
            }
            room => room.ok().flatten(),
        };
        let request = Value::Object(request);
        let asked = room.as_ref().map(|_| request.to_canonical());
        // The borrowed request must not be held while the operation runs.
        let answer = handler(&request, news);
        drop(request);
        let answer = answer.await;
        if let (Some(room), Some(asked)) = (room, asked) {
            record(room, &name, &asked, &answer).await;
        }
        answer
    }
}

/// Puts on record what the operator asked for, and whether it was done.
async fn record(room: audit::Permit, name: &str, asked: &[u8], answer: &[u8]) {
    let asked = String::from_utf8_lossy(asked);
    let is_done = answer.starts_with(br#"{"ok":true"#);
    let record = audit::Record {
        event: audit::Event::Operator,
        body: audit::Body {
            name: Some(name),
            reason: Some(&asked),
            result: Some(match is_done {
                true => audit::Verdict::Approved,
                false => audit::Verdict::Rejected,
            }),
            ..audit::Body::default()
        },
    };
    let written = match room.append(&record) {
        Ok(pending) => pending.await.map(drop),
        Err(error) => Err(error),
    };
    if let Err(error) = written {
        tracing::error!(%error, operation = name, "what the operator did is not on record");
    }
}

fn parse(line: &[u8]) -> Result<(String, Object<'_>), String> {
    let value = Value::parse(line).map_err(|fault| fault.to_string())?;
    let Value::Object(mut request) = value else {
        return Err("a request must be a JSON object".to_owned());
    };
    match request.remove("op") {
        Some(Value::String(name)) => Ok((name.into_owned(), request)),
        _ => Err("a request must say in `op` what to do".to_owned()),
    }
}

fn refusal(error: &str) -> Vec<u8> {
    line(&Bad { ok: false, error })
}

fn line(answer: &impl Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(answer).unwrap_or_else(|_| {
        // An answer that is no object: a defect of the operation.
        br#"{"ok":false,"error":"the answer cannot be written as JSON"}"#.to_vec()
    });
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests;

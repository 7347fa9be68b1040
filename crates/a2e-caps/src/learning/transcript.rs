//! `learn/samples/req`, a type of our own: an agent's own feedback and experiences, page by page. What
//! models are trained with is made of it ([`export`](super::export)).

use std::sync::Arc;

use a2e_runtime::{BoxFuture, Context, Failure, Outcome, Plugin, Serves};
use a2e_wire::{Body, Capability, ErrorCode, Message, Namespace, Raw, Unknown};
use serde::Deserialize;
use serde_json::{Value, json};
use store::SampleKind;

use super::{Ledgers, failed};

/// The plugin; it goes with [`Learning`](super::Learning).
#[derive(Debug, Clone)]
pub struct Transcript(Arc<Ledgers>);

const REQUEST: &str = "learn/samples/req";
const RESPONSE: &str = "learn/samples/resp";

/// Samples of one page.
pub const MAX_PAGE: usize = 1_000;

/// Bytes of one page; one sample may have more.
const MAX_PAGE_BYTES: usize = 2 * 1024 * 1024;

#[derive(Deserialize)]
struct Wanted {
    kind: Kind,
    #[serde(default)]
    after: i64,
    #[serde(default = "page")]
    limit: usize,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Feedback,
    Experience,
}

const fn page() -> usize {
    MAX_PAGE
}

impl Transcript {
    pub(super) const fn new(ledgers: Arc<Ledgers>) -> Self {
        Self(ledgers)
    }

    /// A page: the samples, and the number to ask on from; none when this is the last.
    fn page(&self, agent: &str, wanted: &Wanted) -> Result<(Vec<Value>, Option<i64>), Failure> {
        let kind = match wanted.kind {
            Kind::Feedback => SampleKind::Feedback,
            Kind::Experience => SampleKind::Experience,
        };
        let limit = wanted.limit.clamp(1, MAX_PAGE);
        let ledger = self.0.of(agent)?;
        let found = ledger.samples(kind, wanted.after, limit).map_err(failed)?;
        let is_last = found.len() < limit;
        let (mut samples, mut bytes, mut last) = (Vec::new(), 0_usize, wanted.after);
        for (number, body) in found {
            bytes = bytes.saturating_add(body.len());
            if bytes > MAX_PAGE_BYTES && !samples.is_empty() {
                return Ok((samples, Some(last)));
            }
            // What is kept was JSON when it came.
            samples.push(serde_json::from_slice(&body).unwrap_or(Value::Null));
            last = number;
        }
        Ok((samples, (!is_last).then_some(last)))
    }
}

impl Plugin for Transcript {
    fn name(&self) -> &str {
        "learning_transcript"
    }

    fn capability(&self) -> Option<Capability<'static>> {
        None
    }

    fn serves(&self) -> Serves {
        Serves::Types(vec![REQUEST.to_owned()])
    }

    fn handle(
        &self,
        request: Message<'static>,
        context: Context,
    ) -> BoxFuture<'_, Result<Outcome, Failure>> {
        Box::pin(async move {
            let Body::Unknown(unknown) = &request.body else {
                return Ok(Outcome::Pass);
            };
            let wrong = |why: String| {
                let text = format!("`{REQUEST}` needs `kind`, feedback or experience: {why}");
                Failure::new(ErrorCode::SchemaViolation, Namespace::Learn, text)
            };
            let wanted: Result<Wanted, _> = unknown.raw.deserialize();
            let wanted = wanted.map_err(|error| wrong(error.to_string()))?;
            let (samples, next) = self.page(&context.identity().agent, &wanted)?;
            let answer = json!({
                "type": RESPONSE,
                "req_id": request.envelope.id.as_str(),
                "samples": samples,
                "next": next,
            });
            let raw = Raw::from_serialize(&answer).map_err(|error| wrong(error.to_string()))?;
            Ok(Outcome::answer(Body::Unknown(Unknown {
                type_name: RESPONSE.into(),
                raw,
            })))
        })
    }
}

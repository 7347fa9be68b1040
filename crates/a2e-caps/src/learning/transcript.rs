//! `learn/samples/req`, a type of our own: an agent's own feedback and experiences, page by page. What
//! models are trained with is made of it ([`export`](super::export)).

use std::sync::Arc;

use a2e_runtime::{Context, Failure, Plugin};
use a2e_wire::Namespace;
use serde::Deserialize;
use serde_json::{Map, Value};
use store::SampleKind;

use super::{Ledgers, failed};
use crate::own_type::{OwnType, fields, own_type};

/// The plugin; it goes with [`Learning`](super::Learning).
#[derive(Debug, Clone)]
pub struct Transcript(Arc<Ledgers>);

/// Samples of one page.
pub const MAX_PAGE: usize = 1_000;

/// Which samples.
#[derive(Debug, Deserialize)]
pub(crate) struct Wanted {
    kind: Kind,
    #[serde(default)]
    after: i64,
    #[serde(default = "page")]
    limit: usize,
}

#[derive(Debug, Clone, Copy, Deserialize)]
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
    async fn page(
        &self,
        agent: &str,
        wanted: &Wanted,
    ) -> Result<(Vec<Value>, Option<i64>), Failure> {
        let kind = match wanted.kind {
            Kind::Feedback => SampleKind::Feedback,
            Kind::Experience => SampleKind::Experience,
        };
        let limit = wanted.limit.clamp(1, MAX_PAGE);
        let ledger = self.0.of(agent).await?;
        let found = ledger.samples(kind, wanted.after, limit).await;
        let found = found.map_err(failed)?;
        let next = found.last().map(|(number, _)| *number);
        let is_last = match next {
            None => true,
            Some(_) if found.len() == limit => false,
            // Fewer than asked for are not always the last: they may be large.
            Some(last) => {
                let more = ledger.samples(kind, last, 1).await.map_err(failed)?;
                more.is_empty()
            }
        };
        // What is kept was JSON when it came.
        let read = |body: Vec<u8>| serde_json::from_slice(&body).unwrap_or(Value::Null);
        let samples = found.into_iter().map(|(_, body)| read(body)).collect();
        Ok((samples, next.filter(|_| !is_last)))
    }
}

impl OwnType for Transcript {
    const NAME: &'static str = "learning_transcript";
    const REQUEST: &'static str = "learn/samples/req";
    const RESPONSE: &'static str = "learn/samples/resp";
    const NAMESPACE: Namespace = Namespace::Learn;
    const NEEDS: &'static str = "`kind`, feedback or experience";
    type Wanted = Wanted;

    async fn answer(
        &self,
        wanted: Wanted,
        context: &Context,
    ) -> Result<Map<String, Value>, Failure> {
        let (samples, next) = self.page(&context.identity().agent, &wanted).await?;
        Ok(fields! {"samples": samples, "next": next})
    }
}

impl Plugin for Transcript {
    own_type!();
}

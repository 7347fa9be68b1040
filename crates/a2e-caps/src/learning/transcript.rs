//! An agent's own feedback and experiences, page by page. What models are trained with is made of it
//! ([`export`](super::export)).

use a2e_runtime::Failure;
use a2e_wire::messages::learn::{LearnSampleKind, LearnSamplesRequest, LearnSamplesResponse};
use a2e_wire::wire::ToStatic;
use a2e_wire::{ErrorCode, Namespace, Object};
use store::SampleKind;

use super::failed;
use super::ledger::Ledger;

/// Samples of one page.
pub const MAX_PAGE: usize = 1_000;

/// A page of samples.
pub(super) async fn page(
    request: LearnSamplesRequest<'static>,
    ledger: &Ledger,
) -> Result<LearnSamplesResponse<'static>, Failure> {
    let kind = match request.kind {
        LearnSampleKind::Feedback => SampleKind::Feedback,
        LearnSampleKind::Experience => SampleKind::Experience,
        LearnSampleKind::Other(_) => {
            return Err(Failure::new(
                ErrorCode::SchemaViolation,
                Namespace::Learn,
                "`kind` must be feedback or experience",
            ));
        }
    };
    let limit = usize::try_from(request.limit)
        .unwrap_or(1)
        .clamp(1, MAX_PAGE);
    let found = ledger.samples(kind, request.after, limit).await;
    let found = found.map_err(failed)?;
    let next = found.last().map(|(number, _)| *number);
    let is_last = match next {
        None => true,
        Some(_) if found.len() == limit => false,
        // Fewer than the limit are not always the last: they may be large.
        Some(last) => {
            let more = ledger.samples(kind, last, 1).await.map_err(failed)?;
            more.is_empty()
        }
    };
    // They were JSON objects when they came.
    let read = |body: Vec<u8>| {
        let text = String::from_utf8(body).unwrap_or_default();
        Object::parse(&text).unwrap_or_default().to_static()
    };
    Ok(LearnSamplesResponse {
        samples: found.into_iter().map(|(_, body)| read(body)).collect(),
        next: next.filter(|_| !is_last),
    })
}

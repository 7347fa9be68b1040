//! Refinements, as they are asked for: plan, review, apply, rollback, history.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::ControlFlow;

use a2e_runtime::Failure;
use a2e_wire::lenient::Confidence;
use a2e_wire::messages::learn::{
    LearnRefinementApplyRequest, LearnRefinementApplyResponse, LearnRefinementHistoryResponse,
    LearnRefinementPlanRequest, LearnRefinementPlanResponse, LearnRefinementReviewRequest,
    LearnRefinementReviewResponse, LearnRefinementRollbackRequest, LearnRefinementRollbackResponse,
    RefinementHistoryEntry, RefinementPlanStatus,
};
use a2e_wire::{Namespace, Object, Real, Timestamp};

use super::entry::Past;
use super::ledger::Ledger;
use super::proposal::Proposal;
use super::{Learning, failed};
use crate::fresh;

/// Bytes of snapshots that go into one answer about the past.
const MAX_HISTORY: usize = 1024 * 1024;

impl Learning {
    pub(super) async fn plan(
        &self,
        request: LearnRefinementPlanRequest<'static>,
        ledger: &Ledger,
    ) -> Result<LearnRefinementPlanResponse<'static>, Failure> {
        let scope = request.scope.as_str();
        let proposals = ledger
            .plan(&request.component_name, scope, &self.settings)
            .await;
        Ok(LearnRefinementPlanResponse {
            plan_id: fresh::id(Namespace::Learn)?.into(),
            status: match proposals.is_empty() {
                true => RefinementPlanStatus::Empty,
                false => RefinementPlanStatus::Ready,
            },
            proposals: proposals.iter().map(Proposal::written).collect(),
        })
    }

    pub(super) async fn review(
        &self,
        request: LearnRefinementReviewRequest<'static>,
        ledger: &Ledger,
    ) -> Result<LearnRefinementReviewResponse<'static>, Failure> {
        let proposal = Proposal::read(request.proposal, String::new());
        let review = ledger
            .review(proposal, self.settings.confidence_threshold)
            .await
            .map_err(failed)?;
        Ok(LearnRefinementReviewResponse {
            approved: review.approved,
            confidence_adjusted: Confidence(Real::new(review.confidence).unwrap_or_default()),
            reasons: review.reasons.into_iter().map(Cow::Owned).collect(),
            risk_level: review.risk,
        })
    }

    pub(super) async fn apply(
        request: LearnRefinementApplyRequest<'static>,
        ledger: &Ledger,
    ) -> Result<LearnRefinementApplyResponse<'static>, Failure> {
        let proposal = Proposal::read(request.proposal, fresh::id(Namespace::Learn)?);
        let edits = i64::try_from(proposal.edits.len()).unwrap_or(i64::MAX);
        let id = proposal.id.clone();
        let answer = LearnRefinementApplyResponse {
            refinement_id: id.into(),
            ..LearnRefinementApplyResponse::new()
        };
        let count = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        match ledger.apply(&proposal).await {
            Ok(done) => Ok(LearnRefinementApplyResponse {
                applied_edits: count(done.applied),
                failed_edits: count(done.failed),
                rollback_available: done.applied > 0,
                error: done.error.into(),
                ..answer
            }),
            Err(error @ store::Error::TooLarge { .. }) => Ok(LearnRefinementApplyResponse {
                failed_edits: edits,
                error: error.to_string().into(),
                ..answer
            }),
            Err(error) => Err(failed(error)),
        }
    }

    pub(super) async fn roll_back(
        request: LearnRefinementRollbackRequest<'static>,
        ledger: &Ledger,
    ) -> Result<LearnRefinementRollbackResponse<'static>, Failure> {
        let done = ledger.roll_back(request.refinement_id.as_str()).await;
        let rolled_back = done.map_err(failed)?;
        let error = match rolled_back {
            true => "",
            false => {
                "there is no refinement of that id that could be taken back; \
                 `learn/refinement/history/req` lists them"
            }
        };
        Ok(LearnRefinementRollbackResponse {
            refinement_id: request.refinement_id,
            rolled_back,
            error: error.into(),
        })
    }

    pub(super) async fn history(
        ledger: &Ledger,
    ) -> Result<LearnRefinementHistoryResponse<'static>, Failure> {
        let history = ledger.fold(History::default(), |history, past: Past| {
            history.add(past);
            ControlFlow::Continue(())
        });
        Ok(LearnRefinementHistoryResponse {
            entries: history.await.map_err(failed)?.entries,
        })
    }
}

/// What is told of the past: all refinements, the newest first, their states as far as there is room.
#[derive(Default)]
struct History {
    entries: Vec<RefinementHistoryEntry<'static>>,
    taken_back: BTreeSet<String>,
    size: usize,
}

impl History {
    fn add(&mut self, past: Past) {
        if past.status == "rolled_back" {
            self.taken_back.insert(past.refinement_id.clone());
        }
        let is_back = self.taken_back.contains(&past.refinement_id);
        let entry = told(&past, is_back, &mut self.size);
        self.entries.push(entry);
    }
}

/// An entry of the history; its states as far as there is room.
fn told(entry: &Past, is_back: bool, size: &mut usize) -> RefinementHistoryEntry<'static> {
    let state = |value: &serde_json::Value, size: &mut usize| {
        *size = size.saturating_add(value.to_string().len());
        match *size > MAX_HISTORY {
            true => Object::EMPTY,
            false => Object::from_serialize(value).unwrap_or_default(),
        }
    };
    let at = Timestamp::from_unix_seconds(entry.at).unwrap_or_default();
    let count = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
    RefinementHistoryEntry {
        refinement_id: entry.refinement_id.clone().into(),
        scope: entry.scope.clone().into(),
        action: entry.action.clone().into(),
        status: entry.status.clone().into(),
        applied_edits: count(entry.applied_edits),
        failed_edits: count(entry.failed_edits),
        before_snapshot: state(&entry.before, size),
        after_snapshot: state(&entry.after, size),
        rollback_available: entry.is_applied() && !is_back,
        rolled_back: is_back,
        error: entry.error.clone().map(Cow::Owned),
        created_at: at,
        ts: at,
    }
}

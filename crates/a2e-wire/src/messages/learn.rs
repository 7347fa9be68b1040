//! Learning: feedback, experience, and refinements that follow from them.

use std::borrow::Cow;

use strict_json::Raw;

use crate::lenient::{Confidence, Score};
use crate::open_enum::open_enum;
use crate::record::record;
use crate::{
    CorrelationId, EpisodeId, ExperienceId, FeedbackId, Object, Real, RefinementId,
    RefinementPlanId, SessionId, Timestamp,
};

open_enum! {
    /// Which way feedback points.
    FeedbackPolarity read from_any_case {
        Positive = "positive",
        Negative = "negative",
        Neutral = "neutral",
        Corrective = "corrective",
    }
}

open_enum! {
    /// What feedback is about.
    FeedbackDimension read from_any_case {
        Correctness = "correctness",
        Helpfulness = "helpfulness",
        Safety = "safety",
        Tone = "tone",
        PlanQuality = "plan_quality",
    }
}

open_enum! {
    /// Who gives feedback.
    FeedbackSource read from_any_case {
        Human = "human",
        Env = "env",
        SelfRated = "self",
    }
}

open_enum! {
    /// How to choose between components.
    AdaptStrategy read from_any_case {
        Ppo = "ppo",
        Ucb1 = "ucb1",
        EpsilonGreedy = "epsilon_greedy",
        Softmax = "softmax",
        Custom = "custom",
    }
}

open_enum! {
    /// How far a refinement reaches.
    RefinementScope {
        Local = "local",
        Global = "global",
    }
}

open_enum! {
    /// Whether a plan has proposals.
    RefinementPlanStatus {
        Ready = "ready",
        Empty = "empty",
    }
}

open_enum! {
    /// How risky a proposal is.
    RiskLevel {
        Low = "low",
        Medium = "medium",
        High = "high",
    }
}

open_enum! {
    /// What an edit changes.
    RefinementTarget {
        Prompt = "prompt",
        Tool = "tool",
        RouterWeight = "router_weight",
        Verifier = "verifier",
        Router = "router",
    }
}

open_enum! {
    /// What an edit does.
    RefinementOp {
        Replace = "replace",
        Insert = "insert",
        Delete = "delete",
        Update = "update",
    }
}

record! {
    /// What was rated.
    RatedTurn<'a> {
        prompt: Cow<'a, str>,
        response: Cow<'a, str>,
        model: Cow<'a, str>,
        environment: Option<Raw<'a>> = null,
        version: Option<Cow<'a, str>> = null,
    }
}

record! {
    /// One rating.
    Feedback<'a> {
        feedback_id: FeedbackId<'a> = (b_unix_ns),
        correlation_id: CorrelationId<'a> = "",
        session_id: SessionId<'a> = "",
        rated_turn: Option<RatedTurn<'a>> = null,
        polarity: FeedbackPolarity<'a>,
        score: Score = 0.0,
        dimension: FeedbackDimension<'a> = "helpfulness",
        confidence: Real = 1.0,
        comment: Cow<'a, str> = "",
        correction: Cow<'a, str> = "",
        correction_span: Option<(i64, i64)> = null,
        source: FeedbackSource<'a> = "human",
        annotator_id: Cow<'a, str> = "",
        ts: Timestamp = (now),
    }
}

record! {
    /// One transition: state, action, reward, next state.
    Experience<'a> {
        experience_id: ExperienceId<'a> = (uuid4_hex),
        state: Object<'a> = {},
        action: Object<'a> = {},
        reward: Real = 0.0,
        next_state: Object<'a> = {},
        done: bool = false,
        episode_id: EpisodeId<'a> = "",
        step: i64 = 0,
        ts: Timestamp = (now),
    }
}

record! {
    /// How a component has done so far.
    ComponentPerformanceRecord<'a> {
        component_name: Cow<'a, str>,
        calls_total: i64 = 0,
        calls_success: i64 = 0,
        calls_failed: i64 = 0,
        avg_duration_ms: Real = 0.0,
        avg_score: Real = 0.0,
        last_called: Timestamp = 0.0,
        p95_duration_ms: Real = 0.0,
    }
    sparse {
        decayed_score: Real,
        weight: Real,
    }
}

record! {
    /// One change.
    RefinementEdit<'a> {
        target: RefinementTarget<'a>,
        op: RefinementOp<'a>,
        path: Cow<'a, str>,
        old_value: Raw<'a> = null,
        new_value: Raw<'a> = null,
        reason: Cow<'a, str> = "",
    }
}

record! {
    /// Changes to be reviewed: a list of edits, or one edit written flat.
    RefinementProposal<'a> {
        refinement_id: RefinementId<'a> = (hex12),
        scope: Cow<'a, str> = "local",
        component_name: Cow<'a, str> = "",
        feedback_summary: Cow<'a, str> = "",
        edits: Vec<RefinementEdit<'a>> = [],
        confidence: Real = 0.0,
        created_at: Timestamp = (now),
        status: Cow<'a, str> = "proposed",
        strategy: Cow<'a, str> = "ppo",
        target: Cow<'a, str> = "",
        op: Cow<'a, str> = "",
        path: Cow<'a, str> = "",
        old_value: Raw<'a> = null,
        new_value: Raw<'a> = null,
        reason: Cow<'a, str> = "",
    }
}

record! {
    /// A refinement of the past.
    RefinementHistoryEntry<'a> {
        refinement_id: RefinementId<'a> = "",
        scope: Cow<'a, str> = "local",
        action: Cow<'a, str> = "",
        status: Cow<'a, str> = "",
        applied_edits: i64 = 0,
        failed_edits: i64 = 0,
        before_snapshot: Object<'a> = {},
        after_snapshot: Object<'a> = {},
        rollback_available: bool = false,
        rolled_back: bool = false,
        error: Option<Cow<'a, str>> = null,
        created_at: Timestamp = (now),
        ts: Timestamp = (now),
    }
}

record! {
    /// Records feedback.
    LearnFeedbackRequest<'a> {
        feedbacks: Vec<Feedback<'a>>,
    }
}

record! {
    /// Answers [`LearnFeedbackRequest`].
    LearnFeedbackResponse {
        recorded: i64 = 0,
        new_score: Option<Real> = null,
    }
}

record! {
    /// Records experience.
    LearnExperienceRequest<'a> {
        experiences: Vec<Experience<'a>> = [],
    }
}

record! {
    /// Answers [`LearnExperienceRequest`].
    LearnExperienceResponse {
        stored: i64 = 0,
    }
}

record! {
    /// Asks the host to learn from what it has.
    LearnAdaptRequest<'a> {
        component_name: Cow<'a, str> = "",
        strategy: AdaptStrategy<'a> = "ppo",
    }
}

record! {
    /// Answers [`LearnAdaptRequest`].
    LearnAdaptResponse<'a> {
        updated: Vec<ComponentPerformanceRecord<'a>> = [],
        message: Cow<'a, str> = "",
    }
}

record! {
    /// Asks how components have done.
    LearnStatsRequest<'a> {
        component_name: Cow<'a, str> = "",
    }
}

record! {
    /// Answers [`LearnStatsRequest`].
    LearnStatsResponse<'a> {
        components | "skills" | "tools": Vec<ComponentPerformanceRecord<'a>> = [],
    }
}

record! {
    /// Asks for proposals.
    LearnRefinementPlanRequest<'a> {
        component_name: Cow<'a, str> = "",
        scope: RefinementScope<'a> = "local",
    }
}

record! {
    /// Answers [`LearnRefinementPlanRequest`].
    LearnRefinementPlanResponse<'a> {
        plan_id: RefinementPlanId<'a> = "",
        proposals: Vec<RefinementProposal<'a>> = [],
        status: RefinementPlanStatus<'a> = "",
    }
}

record! {
    /// Applies a proposal.
    LearnRefinementApplyRequest<'a> {
        proposal: RefinementProposal<'a> = {},
    }
}

record! {
    /// Answers [`LearnRefinementApplyRequest`].
    LearnRefinementApplyResponse<'a> {
        refinement_id: RefinementId<'a> = "",
        applied_edits: i64 = 0,
        failed_edits: i64 = 0,
        rollback_available: bool = false,
        error: Cow<'a, str> = "",
    }
}

record! {
    /// Takes a refinement back.
    LearnRefinementRollbackRequest<'a> {
        refinement_id: RefinementId<'a> = "",
    }
}

record! {
    /// Answers [`LearnRefinementRollbackRequest`].
    LearnRefinementRollbackResponse<'a> {
        refinement_id: RefinementId<'a> = "",
        rolled_back: bool = false,
        error: Cow<'a, str> = "",
    }
}

record! {
    /// Asks for a judgement on a proposal.
    LearnRefinementReviewRequest<'a> {
        proposal: RefinementProposal<'a> = {},
    }
}

record! {
    /// Answers [`LearnRefinementReviewRequest`].
    LearnRefinementReviewResponse<'a> {
        approved: bool = false,
        confidence_adjusted: Confidence = 0.0,
        reasons: Vec<Cow<'a, str>> = [],
        risk_level: RiskLevel<'a> = "low",
    }
}

record! {
    /// Asks for past refinements.
    LearnRefinementHistoryRequest {
    }
}

record! {
    /// Answers [`LearnRefinementHistoryRequest`].
    LearnRefinementHistoryResponse<'a> {
        entries: Vec<RefinementHistoryEntry<'a>> = [],
    }
}

open_enum! {
    /// A kind of samples. Ours alone.
    LearnSampleKind {
        Feedback = "feedback",
        Experience = "experience",
    }
}

record! {
    /// Reads the agent's own samples, page by page: those after a number, at most `limit`. Ours alone.
    LearnSamplesRequest<'a> {
        kind: LearnSampleKind<'a>,
        after: i64 = 0,
        limit: i64 = 1000,
    }
}

record! {
    /// Answers [`LearnSamplesRequest`]. `next` is the `after` of the next page, if there is one.
    LearnSamplesResponse<'a> {
        samples: Vec<Object<'a>> = [],
        next: Option<i64> = null,
    }
}

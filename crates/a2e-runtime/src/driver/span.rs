//! Requests as spans of a trace, whoever makes them.

use a2e_session::Failure;
use a2e_wire::{Body, Message};

use super::record::correlation_id;
use crate::TraceContext;

/// What a request is in a trace: in the one it is made in or, if its agent is traced itself, in that.
pub(crate) fn span_of(message: &Message<'_>, trace: Option<&TraceContext>) -> tracing::Span {
    tracing::debug_span!(
        "request",
        kind = message.type_name(),
        id = message.envelope.id.as_str(),
        tool = tool_of(message),
        trace_id = trace.map(TraceContext::trace_id),
        parent_id = trace.map(TraceContext::span_id),
        error = tracing::field::Empty,
    )
}

/// The trace of an agent that gives it as `correlation_id`.
pub(crate) fn trace_of(message: &Message<'_>) -> Option<TraceContext> {
    TraceContext::parse(correlation_id(&message.body))
}

/// Says in the span of a request why it failed, if it did.
pub(crate) fn note_failure<T>(outcome: &Result<T, Failure>) {
    if let Err(failure) = outcome {
        tracing::Span::current().record("error", failure.code.as_str());
    }
}

/// The tool that is called, if one is.
fn tool_of<'a>(message: &'a Message<'_>) -> Option<&'a str> {
    #[expect(clippy::wildcard_enum_match_arm, reason = "nothing else is a tool's")]
    match &message.body {
        Body::ToolCallRequest(call) => Some(&call.tool_name),
        _ => None,
    }
}

//! What an error of one protocol is in the other: one table, read both ways.
//!
//! Over A2A a peer is told a code and a reason of a list, and nothing else (profile §12): the words
//! of a tool stay in the log of the node that has it.

use a2a_net::{CallError, HandlerError};
use a2a_wire::ErrorCode as A2a;
use a2e_runtime::Failure;
use a2e_wire::{ErrorCode as A2e, Namespace, Object};
use canonical::Value;
use serde_json::json;

/// A line of the table.
struct Row {
    a2a: A2a,
    way: Way,
    a2e: A2e<'static>,
    /// `detail.reason` in A2E, where that tells it from others with this code.
    reason: Option<&'static str>,
    /// Whether it may be tried again, if nothing was done.
    again: Again,
}

/// Which way a line is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Both,
    ToA2e,
    ToA2a,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Again {
    Yes,
    No,
}

macro_rules! rows {
    ($($a2a:ident $way:ident $a2e:ident $($reason:literal)? $again:ident;)*) => {
        &[$(Row {
            a2a: A2a::$a2a,
            way: Way::$way,
            a2e: A2e::$a2e,
            reason: rows!(@ $($reason)?),
            again: Again::$again,
        }),*]
    };
    (@) => { None };
    (@ $reason:literal) => { Some($reason) };
}

/// The first line that fits counts.
#[rustfmt::skip]
const TABLE: &[Row] = rows! {
    PolicyViolation            Both  ToolDenied                              No;
    PolicyViolation            ToA2a Unauthorized                            No;
    InvalidIntent              Both  SchemaViolation                         No;
    InvalidIntent              ToA2a InvalidMessage                          No;
    InvalidIntent              ToA2a ParseError                              No;
    InvalidIntent              ToA2a UnknownAction                           No;
    InvalidIntent              ToA2a BadEntry                                No;
    InvalidIntent              ToA2a ChainCycle                              No;
    UnsupportedCapability      Both  UnknownTool                             No;
    UnsupportedCapability      ToA2a CapabilityMissing                       No;
    UnsupportedCapability      ToA2a UnknownSkill                            No;
    UnsupportedCapability      ToA2a UnknownProc                             No;
    UnsupportedCapability      ToA2a McpServerNotFound                       No;
    UnsupportedCapability      ToA2a McpToolNotFound                         No;
    UnsupportedCapability      ToA2a McpResourceNotFound                     No;
    UnsupportedCapability      ToA2a McpPromptNotFound                       No;
    UnsupportedCapability      ToA2a McpCapabilityMissing                    No;
    UnsupportedCapability      ToA2a RuntimeError      "unknown_environment" No;
    InvalidIntent              ToA2a RuntimeError      "unknown_episode"     No;
    InvalidIntent              ToA2a RuntimeError      "episode_over"        No;
    RateLimitExceeded          Both  RuntimeError      "rate_limited"        Yes;
    Timeout                    Both  Timeout                                 Yes;
    ServiceUnavailable         Both  RuntimeError                            Yes;
    ServiceUnavailable         ToA2a OutOfMemory                             Yes;
    ServiceUnavailable         ToA2a ProcLimit                               Yes;
    ServiceUnavailable         ToA2a MemoryFull                              Yes;
    ServiceUnavailable         ToA2a McpServerUnavailable                    Yes;
    ServiceUnavailable         ToA2a McpTransportError                       Yes;
    InternalError              Both  ToolError                               Yes;
    UnverifiedAgent            ToA2e Unauthorized      "peer_not_verified"   No;
    InvalidManifest            ToA2e Unauthorized      "peer_not_verified"   No;
    ProtocolVersionUnsupported ToA2e VersionMismatch                         No;
    HandshakeFailed            ToA2e RuntimeError      "peer_unavailable"    Yes;
    HandshakeTimeout           ToA2e RuntimeError      "peer_unavailable"    Yes;
    SessionExpired             ToA2e RuntimeError      "peer_unavailable"    Yes;
    InvalidMessage             ToA2e InvalidMessage                          No;
    ReplayDetected             ToA2e ToolError         "already_executed"    No;
    PayloadTooLarge            ToA2e SchemaViolation   "payload_too_large"   No;
    Cancelled                  ToA2e RuntimeError      "cancelled"           No;
};

/// Why a call of a peer came to nothing, as an agent of this node is told. What may have been done is
/// not to be tried again: another try would be other work to the peer.
#[must_use]
pub fn to_failure(peer: &str, error: &CallError) -> Failure {
    let code = error.code();
    let row = TABLE
        .iter()
        .find(|row| row.way != Way::ToA2a && row.a2a == code);
    let (a2e, reason, again) = match row {
        Some(row) => (row.a2e.clone(), row.reason, row.again),
        // A code that nobody knows.
        None => (A2e::ToolError, None, Again::No),
    };
    let mut detail = json!({"peer": peer, "a2a_code": code.as_str()});
    if let CallError::Refused(told) = error.last() {
        detail["signed"] = json!(told.signed);
        let figures = told.failure.details().map(Value::Object);
        if let Ok(serde_json::Value::Object(figures)) = serde_json::to_value(&figures) {
            for (name, figure) in figures {
                detail[name] = figure;
            }
        }
    }
    // A reason of ours is what programs know; what the peer said stays beside it.
    if let Some(reason) = reason {
        if let Some(said) = detail.get("reason").cloned() {
            detail["peer_reason"] = said;
        }
        detail["reason"] = json!(reason);
    }
    let mut failure = Failure::new(a2e, Namespace::Tool, format!("{peer}: {error}"));
    let may_have_run = matches!(error, CallError::MayHaveRun(_));
    failure.retryable = again == Again::Yes && !may_have_run;
    failure.detail = Object::from_serialize(&detail).unwrap_or_default();
    failure
}

/// Why a request of a peer came to nothing before its target had it, as the peer is told.
#[must_use]
pub fn to_refusal(failure: &Failure) -> HandlerError {
    let reason = detail(failure, "reason");
    let reason = reason.as_ref().and_then(serde_json::Value::as_str);
    let fits = |row: &&Row| {
        row.way != Way::ToA2e
            && row.a2e == failure.code
            && (row.reason.is_none() || row.reason == reason)
    };
    let row = TABLE.iter().find(fits);
    let code = row.map_or(&A2a::InternalError, |row| &row.a2a);
    #[expect(clippy::wildcard_enum_match_arm, reason = "the table has no others")]
    match code {
        A2a::PolicyViolation => HandlerError::Denied("the node's rules or its operator refuse it"),
        A2a::InvalidIntent => HandlerError::Invalid {
            field: "intent.inputs",
            cause: "the inputs are not what the target takes",
        },
        A2a::UnsupportedCapability => {
            HandlerError::Unsupported("the target of the intent is not there")
        }
        A2a::RateLimitExceeded => HandlerError::TooOften {
            cause: "the node's rules allow no more requests of this agent now",
            reset_at: detail(failure, "reset_at").and_then(|at| at.as_u64()),
        },
        A2a::Timeout => HandlerError::TimedOut("the target took longer than it may"),
        A2a::ServiceUnavailable => HandlerError::Unavailable("the target cannot do it now"),
        _ => HandlerError::Failed("the target failed"),
    }
}

/// Why a request of a peer failed when its target had it, as the peer is told: something may have been
/// done, so it is not done again.
#[must_use]
pub fn to_failed(failure: &Failure) -> HandlerError {
    let reason = detail(failure, "reason");
    let reason = reason.as_ref().and_then(serde_json::Value::as_str);
    if !failure.retryable && matches!(reason, Some("plugin_crashed" | "host_restarted")) {
        return HandlerError::Interrupted("the target was cut off");
    }
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "all others say what they say"
    )]
    match to_refusal(failure) {
        // They would have the peer try again.
        HandlerError::TooOften { .. } | HandlerError::Unavailable(_) => {
            HandlerError::Failed("the target could not do all of it")
        }
        error @ (HandlerError::TimedOut(_) | HandlerError::Failed(_)) => error,
        error => HandlerError::Started(Box::new(error)),
    }
}

/// A member of what a failure says for programs.
fn detail(failure: &Failure, name: &str) -> Option<serde_json::Value> {
    let all: serde_json::Value = failure.detail.raw().deserialize().ok()?;
    all.get(name).cloned()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use a2a_net::transport::CarryError;

    use super::*;

    fn known() -> impl Iterator<Item = A2e<'static>> {
        let names = A2e::ENUMERATION.values.iter();
        names.map(|name| A2e::from_peer((*name).into()))
    }

    #[test]
    fn every_code_of_a2a_has_a_line() {
        for code in A2a::ALL {
            let mut rows = TABLE.iter().filter(|row| row.way != Way::ToA2a);
            assert!(rows.any(|row| row.a2a == *code), "{code}");
        }
    }

    /// What has no line is a failure of the target: the peer learns an incident number.
    #[test]
    fn every_code_of_a2e_comes_to_something() {
        let mut failed = Vec::new();
        for code in known() {
            let failure = Failure::new(code.clone(), Namespace::Tool, "x");
            if to_refusal(&failure) == HandlerError::Failed("the target failed") {
                failed.push(code.as_str().to_owned());
            }
        }
        let expected = [
            "version_mismatch",
            "sandbox_crash",
            "tool_error",
            "tool_execution_error",
            "skill_error",
            "execution_error",
            "memory_not_found",
            "reset_denied",
            "proc_dead",
            "chain_node_error",
            "chain_error",
            "mcp_protocol_error",
            "mcp_sampling_refused",
        ];
        assert_eq!(failed, expected);
    }

    #[test]
    fn a_code_comes_back_as_it_went() {
        for row in TABLE.iter().filter(|row| row.way == Way::Both) {
            let mut failure = Failure::new(row.a2e.clone(), Namespace::Tool, "x");
            if let Some(reason) = row.reason {
                failure = failure.because(reason);
            }
            let back = match to_refusal(&failure) {
                HandlerError::Invalid { .. } => A2a::InvalidIntent,
                HandlerError::Denied(_) => A2a::PolicyViolation,
                HandlerError::Unsupported(_) => A2a::UnsupportedCapability,
                HandlerError::Unavailable(_) => A2a::ServiceUnavailable,
                HandlerError::TooOften { .. } => A2a::RateLimitExceeded,
                HandlerError::TimedOut(_) => A2a::Timeout,
                HandlerError::Failed(_) => A2a::InternalError,
                other @ (HandlerError::Started(_) | _) => panic!("{other:?}"),
            };
            assert_eq!(back, row.a2a);
        }
    }

    /// What may have been done must not be done again, by the node or at the word of the node.
    #[test]
    fn what_may_have_been_done_is_not_to_be_tried_again() {
        for error in [
            CallError::TimedOut,
            CallError::Carry(CarryError::Connect("refused".to_owned())),
        ] {
            assert!(to_failure("beta", &error).retryable, "{error}");
            let unclear = CallError::MayHaveRun(Box::new(error.clone()));
            let failure = to_failure("beta", &unclear);
            assert!(!failure.retryable, "{failure:?}");
            assert_eq!(failure.code, to_failure("beta", &error).code);
            assert!(failure.message.ends_with("it may have been done"));
        }
        for code in known() {
            let mut failure = Failure::new(code, Namespace::Tool, "x");
            failure.retryable = true;
            let failed = to_failed(&failure);
            assert!(
                matches!(
                    failed,
                    HandlerError::Failed(_) | HandlerError::TimedOut(_) | HandlerError::Started(_)
                ),
                "{failed:?}"
            );
        }
    }

    /// How far a target came that crashed is not known, so a retry gets that it was interrupted.
    #[test]
    fn a_target_that_crashed_was_interrupted() {
        for reason in ["plugin_crashed", "host_restarted"] {
            let failure = Failure::new(A2e::RuntimeError, Namespace::Base, "x");
            let mut failure = failure.because(reason);
            failure.retryable = false;
            let failed = to_failed(&failure);
            assert!(matches!(failed, HandlerError::Interrupted(_)), "{failed:?}");
        }
    }

    /// Asking again would not help, so nobody is told to.
    #[test]
    fn an_episode_that_is_gone_is_not_asked_for_again() {
        for reason in ["unknown_episode", "episode_over"] {
            let failure = Failure::new(A2e::RuntimeError, Namespace::Env, "x").because(reason);
            assert!(matches!(to_refusal(&failure), HandlerError::Invalid { .. }));
        }
        let failure = Failure::new(A2e::RuntimeError, Namespace::Env, "x");
        let failure = failure.because("unknown_environment");
        assert!(matches!(to_refusal(&failure), HandlerError::Unsupported(_)));
    }

    #[test]
    fn when_to_come_again_goes_along() {
        let mut failure = Failure::new(A2e::RuntimeError, Namespace::Tool, "x");
        let detail = json!({"reason": "rate_limited", "reset_at": 17});
        failure.detail = Object::from_serialize(&detail).unwrap();
        assert!(matches!(
            to_refusal(&failure),
            HandlerError::TooOften {
                reset_at: Some(17),
                ..
            }
        ));
        let failure = to_failure("beta", &CallError::RateLimited(Duration::from_secs(1)));
        assert_eq!(failure.code, A2e::RuntimeError);
        assert!(failure.retryable);
        let detail: serde_json::Value = failure.detail.raw().deserialize().unwrap();
        assert_eq!(
            detail,
            json!({"peer": "beta", "a2a_code": "RATE_LIMIT_EXCEEDED", "reason": "rate_limited"})
        );
    }

    #[test]
    fn who_cannot_be_reached_may_be_asked_again_and_who_is_not_trusted_not() {
        let failure = to_failure("beta", &CallError::TimedOut);
        assert_eq!((failure.code, failure.retryable), (A2e::Timeout, true));
        let error = CallError::NoAddress {
            did: "did:key:x".into(),
        };
        let failure = to_failure("beta", &error);
        assert_eq!(
            (failure.code, failure.retryable),
            (A2e::Unauthorized, false)
        );
        assert!(
            failure.message.contains("frith peer add"),
            "{}",
            failure.message
        );
    }
}

//! What our agents are told when a mounted host fails them. That host is not ours: what it says is
//! passed on in the size and the form of our own errors.

use a2e_session::Failure;
use a2e_wire::{ErrorCode, Namespace, Object, Tag};
use serde::Deserialize;

use crate::client::{A2eError, ClientError};
use crate::registry::{UNKNOWN_ENVIRONMENT, UNKNOWN_EPISODE};

/// The longest text of an error, in characters.
const MAX_TEXT: usize = 2000;

/// The largest `detail` of an error, in bytes.
const MAX_DETAIL: usize = 16 * 1024;

/// The longest code that the table of codes does not have.
const MAX_CODE: usize = 64;

/// Whether a host says that it does not have what is asked for, be it a tool, an environment or an
/// episode.
pub(super) fn is_unknown(tag: Option<Tag>, error: &A2eError) -> bool {
    match tag {
        Some(Tag::ToolCallRequest) => error.code == ErrorCode::UnknownTool,
        Some(tag) if tag.namespace() == Namespace::Env => {
            let detail = error.detail.raw().deserialize::<Detail>();
            detail.is_ok_and(|it| [UNKNOWN_ENVIRONMENT, UNKNOWN_EPISODE].contains(&&*it.reason))
        }
        _ => false,
    }
}

#[derive(Deserialize)]
struct Detail {
    reason: String,
}

/// What our agent is told of a failure of a request that was sent there. Without an answer nobody knows
/// whether it was executed, and sent again it would be another request.
pub(super) fn after_sending(name: &str, namespace: Namespace, error: ClientError) -> Failure {
    let is_uncertain = !matches!(error, ClientError::Host(_) | ClientError::Refused(_));
    let failure = failure(name, namespace, error);
    Failure {
        retryable: failure.retryable && !is_uncertain,
        ..failure
    }
}

/// What our agent is told of a failure there.
pub(super) fn failure(name: &str, namespace: Namespace, error: ClientError) -> Failure {
    match error {
        ClientError::Host(error) => {
            let A2eError {
                code,
                message,
                retryable,
                detail,
                ..
            } = *error;
            Failure {
                code: code_like_ours(code),
                message: text_like_ours(&message),
                detail: detail_like_ours(detail),
                retryable,
                capability: namespace.capability(),
            }
        }
        other @ (ClientError::Connect(_)
        | ClientError::Invalid(_)
        | ClientError::Unexpected(_)
        | ClientError::Custom(_)
        | ClientError::Timeout(_)
        | ClientError::Refused(_)
        | ClientError::Lost
        | ClientError::Closed
        | ClientError::Unreachable(_)
        | ClientError::Io(_)) => {
            let text = text_like_ours(&format!("the remote plugin `{name}`: {other}"));
            let mut failure = Failure::new(ErrorCode::RuntimeError, namespace, text);
            failure.retryable = true;
            match matches!(other, ClientError::Invalid(_) | ClientError::Unexpected(_)) {
                true => failure.because("unexpected_response"),
                false => failure,
            }
        }
    }
}

pub(super) fn too_many_children(name: &str) -> ClientError {
    let text = format!(
        "as many programs of the remote plugin `{name}` run as may (`max_children`); try again when \
         another session has ended"
    );
    let detail = Object::parse(r#"{"reason":"too_many_children"}"#).unwrap_or_default();
    own(text, true, detail)
}

fn own(message: String, retryable: bool, detail: Object<'static>) -> ClientError {
    ClientError::Host(Box::new(A2eError {
        code: ErrorCode::RuntimeError,
        message,
        retryable,
        detail,
        capability_name: String::new(),
        req_id: "".into(),
        events: Vec::new(),
    }))
}

/// A code of the table, or a word that could stand in it.
fn code_like_ours(code: ErrorCode<'static>) -> ErrorCode<'static> {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./".contains(&byte);
    let text = code.as_str();
    match !text.is_empty() && text.len() <= MAX_CODE && text.bytes().all(is_word) {
        true => code,
        false => ErrorCode::RuntimeError,
    }
}

/// One line that moves no cursor and has an end.
fn text_like_ours(text: &str) -> String {
    let shown = |character: char| match character.is_control() {
        true => ' ',
        false => character,
    };
    let mut short: String = text.chars().take(MAX_TEXT).map(shown).collect();
    if text.chars().nth(MAX_TEXT).is_some() {
        short.push('…');
    }
    short
}

fn detail_like_ours(detail: Object<'static>) -> Object<'static> {
    match detail.raw().as_str().len() <= MAX_DETAIL {
        true => detail,
        false => Object::parse(r#"{"reason":"detail_too_large"}"#).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(code: &'static str, message: String, detail: &str) -> Failure {
        let error = A2eError {
            code: ErrorCode::from_peer(code.into()),
            message,
            retryable: true,
            detail: a2e_wire::wire::ToStatic::to_static(Object::parse(detail).unwrap()),
            capability_name: "x".into(),
            req_id: "r".into(),
            events: Vec::new(),
        };
        failure("m", Namespace::Tool, ClientError::Host(Box::new(error)))
    }

    /// At the limit it comes through as it is, beyond it is cut.
    #[test]
    fn texts_and_details_have_an_end() {
        let long = |length| "é".repeat(length);
        assert_eq!(said("tool_error", long(2000), "{}").message, long(2000));
        let cut = format!("{}…", long(2000));
        assert_eq!(said("tool_error", long(2001), "{}").message, cut);
        let detail = |length: usize| format!(r#"{{"a":"{}"}}"#, "x".repeat(length - 8));
        let kept = said("tool_error", String::new(), &detail(MAX_DETAIL)).detail;
        assert_eq!(kept.raw().as_str(), detail(MAX_DETAIL));
        let gone = said("tool_error", String::new(), &detail(MAX_DETAIL + 1)).detail;
        assert_eq!(gone.raw().as_str(), r#"{"reason":"detail_too_large"}"#);
        let unreachable = ClientError::Io(std::io::Error::other(long(10_000)));
        let failure = failure("m", Namespace::Tool, unreachable);
        assert_eq!(failure.message.chars().count(), 2001);
    }

    /// Sent again it would be another request there.
    #[test]
    fn request_that_may_have_been_executed_is_not_retryable() {
        let failed = |error| after_sending("m", Namespace::Tool, error).retryable;
        assert!(!failed(ClientError::Lost));
        assert!(!failed(ClientError::Closed));
        assert!(failure("m", Namespace::Tool, ClientError::Closed).retryable);
        assert!(failed(too_many_children("m")), "the host itself says so");
    }

    #[test]
    fn what_would_write_to_a_terminal_does_not() {
        let failure = said("tool_error", "a\u{1b}[2Jb\r\nc\u{9b}d".into(), "{}");
        assert_eq!(failure.message, "a [2Jb  c d");
    }

    #[test]
    fn codes_are_words() {
        for (code, kept) in [
            ("tool_error", "tool_error"),
            ("my.own/code", "my.own/code"),
            ("two words", "runtime_error"),
            ("\u{1b}[2J", "runtime_error"),
            ("", "runtime_error"),
        ] {
            assert_eq!(said(code, String::new(), "{}").code.as_str(), kept);
        }
        let long: &'static str = "x".repeat(65).leak();
        assert_eq!(
            said(&long[..64], String::new(), "{}").code.as_str(),
            &long[..64]
        );
        assert_eq!(
            said(long, String::new(), "{}").code,
            ErrorCode::RuntimeError
        );
    }
}

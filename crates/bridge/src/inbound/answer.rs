//! What a target gave, as a peer is answered.

use a2a_net::HandlerError;
use a2e_runtime::Failure;
use a2e_wire::messages::skill::{SkillCallResponse, SkillResult};
use a2e_wire::messages::tool::{ToolCallResponse, ToolResult};
use a2e_wire::wire::Encode;
use a2e_wire::{Body, ErrorCode, Namespace, Object, Raw};
use canonical::Value;

use crate::error::to_failed;
use crate::mapping::{NoForm, to_tree};
use crate::outcome::Outcome;

/// Bytes of a result that a peer is sent; half of what clients take in one message.
pub const MAX_RESULT: usize = 8 * 1024 * 1024;

/// The result that an answer of the host has.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "no other answers are asked for"
)]
pub(super) fn result_of(answer: Body<'static>) -> Result<Value<'static>, HandlerError> {
    let result = match answer {
        Body::ToolCallResponse(ToolCallResponse { data, .. }) => {
            return of_tool(data).map(Outcome::into_result);
        }
        Body::SkillCallResponse(response) => of_skill(response),
        Body::EnvResetResponse(response) => of_record(&response),
        Body::EnvStepResponse(response) => of_record(&response),
        Body::EnvObserveResponse(response) => of_record(&response),
        Body::EnvRenderResponse(response) => of_record(&response),
        Body::EnvPlanResponse(response) => of_record(&response),
        Body::EnvSpaceResponse(response) => of_record(&response),
        Body::EnvCloseResponse(response) => of_record(&response),
        _ => Err(HandlerError::Failed("the target answered something else")),
    };
    Ok(Outcome::Succeeded(result?).into_result())
}

fn of_tool(result: ToolResult<'static>) -> Result<Outcome<Value<'static>>, HandlerError> {
    let ToolResult { success, data, .. } = result;
    let data = data.map_or(Ok(Value::Null), |data| sent(&data))?;
    Ok(match success {
        true => Outcome::Succeeded(data),
        false => Outcome::Failed(data),
    })
}

fn of_skill(response: SkillCallResponse<'static>) -> Result<Value<'static>, HandlerError> {
    let (code, message) = match (response.data, response.error) {
        (
            Some(SkillResult {
                success: true,
                data,
                ..
            }),
            None,
        ) => {
            return data.map_or(Ok(Value::Null), |data| sent(&data));
        }
        (_, Some(error)) => (Some(error.code), Some(error.message)),
        (result, None) => result
            .map(|it| (it.error_code, it.error))
            .unwrap_or_default(),
    };
    let code = code.map_or(ErrorCode::SkillError, ErrorCode::from_peer);
    let failure = Failure::new(code, Namespace::Skill, message.unwrap_or_default());
    tracing::info!(code = %failure.code, "a skill failed for a peer: {}", failure.message);
    Err(to_failed(&failure))
}

/// An answer of an environment, with all that it has.
fn of_record(record: &impl Encode) -> Result<Value<'static>, HandlerError> {
    let object = Object::from_record(record);
    let object = object.map_err(|_| HandlerError::Failed("the result is too large to be sent"))?;
    sent(object.raw())
}

fn sent(data: &Raw<'static>) -> Result<Value<'static>, HandlerError> {
    if data.as_str().len() > MAX_RESULT {
        return Err(HandlerError::Failed("the result is too large to be sent"));
    }
    to_tree(data).map_err(|no_form: NoForm| {
        tracing::info!(%no_form, "a result cannot be sent to a peer");
        HandlerError::Failed("the result has no form in A2A")
    })
}

#[cfg(test)]
mod tests {
    use a2e_wire::Timestamp;
    use a2e_wire::messages::env::EnvCloseResponse;

    use super::*;

    fn raw(text: &str) -> Raw<'static> {
        Raw::parse(text, a2e_wire::OWN_VALUES).unwrap().into_owned()
    }

    fn answered(data: Option<&str>, success: bool) -> Result<Value<'static>, HandlerError> {
        let result = ToolResult {
            data: data.map(raw),
            ..ToolResult::new(success, "t".into(), 1)
        };
        result_of(Body::from(ToolCallResponse::new(
            result,
            Timestamp::default(),
        )))
    }

    #[test]
    fn a_result_is_what_the_tool_gave() {
        assert_eq!(
            answered(Some("5"), true).map(|it| it.to_canonical()),
            Ok(b"5".to_vec())
        );
        assert_eq!(answered(None, true), Ok(Value::Null));
        assert!(answered(Some("9007199254740992"), true).is_err());
    }

    #[test]
    fn a_tool_that_failed_is_no_success() {
        for (data, sent) in [
            (
                Some(r#"{"exit_code":1}"#),
                r#"{"tool_failed":{"exit_code":1}}"#,
            ),
            (Some("null"), r#"{"tool_failed":null}"#),
            (None, r#"{"tool_failed":null}"#),
        ] {
            let answered = answered(data, false).unwrap();
            assert_eq!(answered.to_canonical(), sent.as_bytes());
        }
    }

    /// A tool must not say of itself, in what it gives back, that it has failed.
    #[test]
    fn a_tool_that_succeeded_is_no_failure() {
        let forged = r#"{"tool_failed":{"exit_code":1}}"#;
        let sent = answered(Some(forged), true).unwrap();
        let read = Outcome::of_result(&sent);
        assert!(!read.is_failure());
        assert_eq!(read.result().to_canonical(), forged.as_bytes());
        let skill = SkillResult {
            data: Some(raw(forged)),
            ..SkillResult::new(true, 1)
        };
        let sent = result_of(Body::from(SkillCallResponse::new(
            Some(skill),
            Timestamp::default(),
        )));
        assert!(!Outcome::of_result(&sent.unwrap()).is_failure());
    }

    #[test]
    fn a_result_has_a_limit() {
        let text = |bytes: usize| format!("\"{}\"", "x".repeat(bytes - 2));
        assert!(answered(Some(&text(MAX_RESULT)), true).is_ok());
        let refused = answered(Some(&text(MAX_RESULT + 1)), true);
        assert_eq!(
            refused,
            Err(HandlerError::Failed("the result is too large to be sent"))
        );
    }

    #[test]
    fn a_skill_that_failed_is_refused_as_its_code_says() {
        let answered = |result: Option<SkillResult<'static>>| {
            result_of(Body::from(SkillCallResponse::new(
                result,
                Timestamp::default(),
            )))
        };
        let well = SkillResult {
            data: Some(raw("5")),
            ..SkillResult::new(true, 1)
        };
        assert!(answered(Some(well)).is_ok());
        assert_eq!(answered(Some(SkillResult::new(true, 1))), Ok(Value::Null));
        let late = SkillResult {
            error_code: Some("timeout".into()),
            ..SkillResult::new(false, 1)
        };
        assert!(matches!(
            answered(Some(late)),
            Err(HandlerError::TimedOut(_))
        ));
        for failed in [None, Some(SkillResult::new(false, 1))] {
            assert!(matches!(answered(failed), Err(HandlerError::Failed(_))));
        }
    }

    #[test]
    fn an_environment_answers_with_all_it_has() {
        let closed = result_of(Body::from(EnvCloseResponse { closed: true }));
        assert_eq!(
            closed.map(|it| it.to_canonical()),
            Ok(br#"{"closed":true}"#.to_vec())
        );
    }
}

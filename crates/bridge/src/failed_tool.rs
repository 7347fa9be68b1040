//! A tool that failed and has a result all the same, as a command that ended with 3 and its output.
//!
//! A2A has errors without results, and results that mean success. So the result of such a tool is
//! `{"tool_failed": RESULT}`: what was asked was carried out, and nobody asks again.

use canonical::{Object, Value};

const MEMBER: &str = "tool_failed";

/// The result of a tool that failed, as a peer is sent it.
pub(crate) fn wrap(result: Value<'static>) -> Value<'static> {
    let mut object = Object::default();
    object.insert(MEMBER, result);
    Value::Object(object)
}

/// The result of the tool that failed, if that is what a peer answered.
#[must_use]
pub fn result_of_failed_tool<'a>(answered: &'a Value<'_>) -> Option<&'a Value<'a>> {
    let object = answered.as_object()?;
    object.get(MEMBER).filter(|_| object.iter().len() == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_its_only_member() {
        let failed = wrap(Value::Bool(true));
        assert_eq!(failed.to_canonical(), br#"{"tool_failed":true}"#);
        assert_eq!(result_of_failed_tool(&failed), Some(&Value::Bool(true)));
        for other in [
            "1",
            "{}",
            r#"{"tool_failed":1,"a":2}"#,
            r#"["tool_failed"]"#,
        ] {
            let other = Value::parse(other.as_bytes()).unwrap();
            assert_eq!(result_of_failed_tool(&other), None);
        }
    }
}

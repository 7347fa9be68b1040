//! What came of a tool: its result, and whether it failed all the same, as a command that ended with 3 and
//! its output.
//!
//! A2A has errors without results, and results that mean success. So the result of a tool that failed is
//! sent as `{"tool_failed": RESULT}`: what was asked was carried out, and nobody asks again. What a tool
//! itself gives back is never read as such a mark: a result of that form is sent as
//! `{"tool_succeeded": RESULT}`.

use canonical::{Object, Value};

/// The result of something that was asked for, and whether it failed.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome<T> {
    /// It succeeded.
    Succeeded(T),
    /// It failed, with this result.
    Failed(T),
}

const SUCCEEDED: &str = "tool_succeeded";
const FAILED: &str = "tool_failed";

impl Outcome<Value<'static>> {
    /// The result as a peer is sent it.
    pub(crate) fn into_result(self) -> Value<'static> {
        let (mark, result) = match self {
            Self::Succeeded(result) if marked(&result).is_none() => return result,
            Self::Succeeded(result) => (SUCCEEDED, result),
            Self::Failed(result) => (FAILED, result),
        };
        let mut object = Object::default();
        object.insert(mark, result);
        Value::Object(object)
    }
}

impl<'a> Outcome<&'a Value<'a>> {
    /// What a peer has answered.
    #[must_use]
    pub fn of_result(answered: &'a Value<'_>) -> Self {
        match marked(answered) {
            Some((FAILED, result)) => Self::Failed(result),
            Some((_, result)) => Self::Succeeded(result),
            None => Self::Succeeded(answered),
        }
    }
}

impl<T> Outcome<T> {
    /// Whether it failed.
    #[must_use]
    pub const fn is_failure(&self) -> bool {
        matches!(self, Self::Failed(_))
    }

    /// The result.
    #[must_use]
    pub fn result(self) -> T {
        let (Self::Succeeded(result) | Self::Failed(result)) = self;
        result
    }
}

/// The mark that a result has, and what is marked.
fn marked<'a>(result: &'a Value<'_>) -> Option<(&'static str, &'a Value<'a>)> {
    let object = result.as_object().filter(|it| it.iter().len() == 1)?;
    let mark = |mark| object.get(mark).map(|result| (mark, result));
    mark(FAILED).or_else(|| mark(SUCCEEDED))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Value<'static> {
        Value::parse(text.as_bytes()).unwrap().into_owned()
    }

    /// Whatever a tool gives back, a peer reads that, and whether it failed.
    #[test]
    fn no_result_of_a_tool_is_taken_for_another_outcome() {
        for result in [
            "1",
            "{}",
            r#"{"tool_failed":1,"a":2}"#,
            r#"["tool_failed"]"#,
            r#"{"tool_failed":{"exit_code":0}}"#,
            r#"{"tool_succeeded":1}"#,
            r#"{"tool_failed":{"tool_succeeded":{"tool_failed":null}}}"#,
        ] {
            for outcome in [
                Outcome::Succeeded(value(result)),
                Outcome::Failed(value(result)),
            ] {
                let is_failure = outcome.is_failure();
                let sent = outcome.into_result();
                let read = Outcome::of_result(&sent);
                assert_eq!(read.is_failure(), is_failure, "{result}");
                assert_eq!(read.result(), &value(result), "{result}");
            }
        }
    }

    /// Results of the usual kind are sent as they are, for peers that know nothing of this.
    #[test]
    fn only_failures_are_marked() {
        let sent = |outcome: Outcome<Value<'static>>| {
            String::from_utf8(outcome.into_result().to_canonical()).unwrap()
        };
        let result = || value(r#"{"text":"hi"}"#);
        assert_eq!(sent(Outcome::Succeeded(result())), r#"{"text":"hi"}"#);
        assert_eq!(
            sent(Outcome::Failed(result())),
            r#"{"tool_failed":{"text":"hi"}}"#
        );
    }
}

//! The W3C trace context of what is done: where it comes from, and where it goes.
//!
//! What is done for somebody who has one is done inside of it, so that what is asked of others
//! meanwhile goes on with it.

use std::fmt;

tokio::task_local! {
    /// The trace of whoever something is done for at the moment.
    static CURRENT: TraceContext;
}

/// How long a `traceparent` of version 00 is.
const LENGTH: usize = "00-".len() + 32 + "-".len() + 16 + "-00".len();

/// A trace, and the step in it that led here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceContext {
    trace_id: String,
    span_id: String,
    flags: String,
}

impl TraceContext {
    /// A step of a new trace, if these are ids: 32 and 16 hexadecimal digits.
    #[must_use]
    pub fn new(trace_id: &str, span_id: &str) -> Option<Self> {
        Self::parse(&format!("00-{trace_id}-{span_id}-00"))
    }

    /// Reads a `traceparent` of version 00. What has another form is ignored, as the specification
    /// of trace contexts says.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        // Most of what is not one differs from it by its length.
        if text.len() != LENGTH {
            return None;
        }
        let mut parts = text.split('-');
        let (version, trace_id, span_id, flags) =
            (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let hex = |text: &str, length: usize| {
            let digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
            text.len() == length && text.bytes().all(digit)
        };
        let is_zero = |text: &str| text.bytes().all(|byte| byte == b'0');
        let is_good = version == "00"
            && parts.next().is_none()
            && hex(trace_id, 32)
            && hex(span_id, 16)
            && hex(flags, 2)
            && !is_zero(trace_id)
            && !is_zero(span_id);
        is_good.then(|| Self {
            trace_id: trace_id.to_owned(),
            span_id: span_id.to_owned(),
            flags: flags.to_owned(),
        })
    }

    /// That of whoever something is done for at the moment.
    #[must_use]
    pub fn current() -> Option<Self> {
        CURRENT.try_with(Clone::clone).ok()
    }

    /// Does something inside of it.
    pub async fn within<F: Future>(self, work: F) -> F::Output {
        CURRENT.scope(self, work).await
    }

    /// The next step of the same trace.
    #[must_use]
    pub fn next(self, span_id: String) -> Self {
        Self { span_id, ..self }
    }

    /// The trace.
    #[must_use]
    pub fn trace_id(&self) -> &str {
        &self.trace_id
    }

    /// The step.
    #[must_use]
    pub fn span_id(&self) -> &str {
        &self.span_id
    }
}

impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{}-{}-{}", self.trace_id, self.span_id, self.flags)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn only_the_form_of_the_specification_is_read() {
        assert_eq!(TraceContext::parse(GOOD).unwrap().to_string(), GOOD);
        for bad in [
            "",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
            "01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-x",
            "00-4bf92f3577b34da6a3ce929d0e0e473-00f067aa0ba902b7-01",
        ] {
            assert_eq!(TraceContext::parse(bad), None, "{bad}");
        }
    }

    #[tokio::test]
    async fn it_holds_for_what_is_done_inside_of_it() {
        assert_eq!(TraceContext::current(), None);
        let trace = TraceContext::parse(GOOD).unwrap();
        let inside = trace.clone().within(async { TraceContext::current() });
        assert_eq!(inside.await, Some(trace));
        assert_eq!(TraceContext::current(), None);
    }
}

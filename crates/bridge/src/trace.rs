//! The W3C trace context of a call: where it comes from, and where it goes.
//!
//! It stands in an intent as `extensions.traceparent`. What is done for a peer is done inside of its
//! trace, so that what is asked of others meanwhile goes on with it.

use std::fmt;

use a2a_net::Entropy;
use canonical::{Object, Value};

tokio::task_local! {
    /// The trace of the peer for whom something is done at the moment.
    pub(crate) static CURRENT: Trace;
}

/// A trace, and the call in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Trace {
    pub(crate) trace_id: String,
    pub(crate) span_id: String,
    flags: String,
}

impl Trace {
    /// The next call of the trace that is gone on with here, or the first of a new one.
    pub(crate) fn next(entropy: &Entropy) -> Option<Self> {
        let digits = || Some(entropy.uuid().ok()?.replace('-', ""));
        let span_id = digits()?.get(..16)?.to_owned();
        let known = CURRENT.try_with(Clone::clone);
        Some(match known {
            Ok(known) => Self { span_id, ..known },
            Err(_) => Self {
                trace_id: digits()?,
                span_id,
                flags: "00".to_owned(),
            },
        })
    }

    /// The trace of an intent, if it has one that is well formed.
    pub(crate) fn of(intent: &Value<'_>) -> Option<Self> {
        let extensions = intent.as_object()?.get("extensions")?.as_object()?;
        Self::parse(extensions.get("traceparent")?.as_str()?)
    }

    /// Reads a `traceparent` of version 00. What has another form is ignored, as the specification
    /// of trace contexts says.
    fn parse(text: &str) -> Option<Self> {
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

    /// As a member of an intent.
    pub(crate) fn extensions(&self) -> Value<'static> {
        let mut extensions = Object::default();
        extensions.insert("traceparent", Value::String(self.to_string().into()));
        Value::Object(extensions)
    }
}

impl fmt::Display for Trace {
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
        assert_eq!(Trace::parse(GOOD).unwrap().to_string(), GOOD);
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
            assert_eq!(Trace::parse(bad), None, "{bad}");
        }
    }

    #[tokio::test]
    async fn what_is_asked_meanwhile_goes_on_with_the_trace() {
        let entropy = Entropy::system();
        let first = Trace::next(&entropy).unwrap();
        assert_eq!(Trace::parse(&first.to_string()), Some(first.clone()));
        let next = CURRENT.scope(first.clone(), async { Trace::next(&entropy).unwrap() });
        let next = next.await;
        assert_eq!(next.trace_id, first.trace_id);
        assert_ne!(next.span_id, first.span_id);
        assert_ne!(Trace::next(&entropy).unwrap().trace_id, first.trace_id);
    }
}

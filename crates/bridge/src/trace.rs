//! The trace context of an intent: it stands there as `extensions.traceparent`.

use a2a_net::Entropy;
use a2e_runtime::TraceContext;
use canonical::{Object, Value};

/// The next step of the trace that is gone on with here, or the first of a new one.
pub(crate) fn next(entropy: &Entropy) -> Option<TraceContext> {
    let digits = || Some(entropy.uuid().ok()?.replace('-', ""));
    let span_id = digits()?.get(..16)?.to_owned();
    match TraceContext::current() {
        Some(known) => Some(known.next(span_id)),
        None => TraceContext::new(&digits()?, &span_id),
    }
}

/// The trace of an intent, if it has one that is well formed.
pub(crate) fn of(intent: &Value<'_>) -> Option<TraceContext> {
    let extensions = intent.as_object()?.get("extensions")?.as_object()?;
    TraceContext::parse(extensions.get("traceparent")?.as_str()?)
}

/// As a member of an intent.
pub(crate) fn extensions(trace: &TraceContext) -> Value<'static> {
    let mut extensions = Object::default();
    extensions.insert("traceparent", Value::String(trace.to_string().into()));
    Value::Object(extensions)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_asked_meanwhile_goes_on_with_the_trace() {
        let entropy = Entropy::system();
        let first = next(&entropy).unwrap();
        let mut intent = Object::default();
        intent.insert("extensions", extensions(&first));
        assert_eq!(of(&Value::Object(intent)), Some(first.clone()));
        let second = first.clone().within(async { next(&entropy).unwrap() });
        let second = second.await;
        assert_eq!(second.trace_id(), first.trace_id());
        assert_ne!(second.span_id(), first.span_id());
        assert_ne!(next(&entropy).unwrap().trace_id(), first.trace_id());
    }
}

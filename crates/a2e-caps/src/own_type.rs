//! Types of our own: requests that the catalogue does not have. Each has a plugin, which goes with that
//! of its capability.

use std::fmt;

use a2e_runtime::{Context, Failure, Outcome};
use a2e_wire::{Body, ErrorCode, Message, Namespace, Raw, Unknown};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// A request of our own, and who answers it.
pub(crate) trait OwnType: fmt::Debug + Send + Sync + 'static {
    /// The name of the plugin.
    const NAME: &'static str;
    /// The type of the request.
    const REQUEST: &'static str;
    /// The type of the answer.
    const RESPONSE: &'static str;
    /// Whose request it is.
    const NAMESPACE: Namespace;
    /// What a request must have, as someone is told whose request does not have it.
    const NEEDS: &'static str;
    /// What is asked.
    type Wanted: DeserializeOwned + Send;

    /// The fields of the answer, beside its type and the request that it answers.
    fn answer(
        &self,
        wanted: Self::Wanted,
        context: &Context,
    ) -> impl Future<Output = Result<Map<String, Value>, Failure>> + Send;
}

/// Answers a request.
pub(crate) async fn serve<T: OwnType>(
    own: &T,
    request: Box<Message<'static>>,
    context: Context,
) -> Result<Outcome, Failure> {
    let Body::Unknown(unknown) = &request.body else {
        return Ok(Outcome::Pass);
    };
    let wrong = |why: serde_json::Error| {
        let text = format!("`{}` needs {}: {why}", T::REQUEST, T::NEEDS);
        Failure::new(ErrorCode::SchemaViolation, T::NAMESPACE, text)
    };
    let wanted: T::Wanted = unknown.raw.deserialize().map_err(wrong)?;
    let mut answer = own.answer(wanted, &context).await?;
    answer.insert("type".to_owned(), T::RESPONSE.into());
    answer.insert("req_id".to_owned(), request.envelope.id.as_str().into());
    let raw = Raw::from_serialize(&answer)
        .map_err(|error| Failure::new(ErrorCode::RuntimeError, T::NAMESPACE, error.to_string()))?;
    Ok(Outcome::answer(Body::Unknown(Unknown {
        type_name: T::RESPONSE.into(),
        raw,
    })))
}

/// The fields of an answer.
macro_rules! fields {
    ($($name:literal: $value:expr),+ $(,)?) => {
        serde_json::Map::from_iter([$(($name.to_owned(), serde_json::json!($value))),+])
    };
}

/// The methods of a plugin that serves an [`OwnType`].
macro_rules! own_type {
    () => {
        fn name(&self) -> &str {
            <Self as $crate::own_type::OwnType>::NAME
        }

        fn capability(&self) -> Option<a2e_wire::Capability<'static>> {
            None
        }

        fn serves(&self) -> a2e_runtime::Serves {
            let request = <Self as $crate::own_type::OwnType>::REQUEST;
            a2e_runtime::Serves::Types(vec![request.to_owned()])
        }

        fn handle(
            &self,
            request: Box<a2e_wire::Message<'static>>,
            context: a2e_runtime::Context,
        ) -> a2e_runtime::BoxFuture<'_, Result<a2e_runtime::Outcome, a2e_runtime::Failure>> {
            Box::pin($crate::own_type::serve(self, request, context))
        }
    };
}

pub(crate) use {fields, own_type};

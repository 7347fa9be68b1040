//! What a tool is: its definition, how it is called, and what comes of it.
//!
//! Built-in tools, toolkits, tools from the configuration and components all are [`Tool`]s in one
//! [`Catalogue`]; the plugin [`Tools`](crate::tools::Tools) checks arguments before and results after.

mod catalogue;
mod configuration;
mod content;
mod definition;
mod own;
mod parameters;
mod pinning;
mod progress;
mod schema;
mod search;

use std::borrow::Cow;
use std::sync::Arc;

use a2e_runtime::{BoxFuture, Failure};
use a2e_wire::{ErrorCode, Namespace, Object, Raw};
use serde::Serialize;
use tokio_util::sync::CancellationToken;

pub use catalogue::{Catalogue, Clash, Entry, Snapshot, Source};
pub use configuration::ToolConfiguration;
pub use content::{Content, MAX_READABLE};
pub use definition::{Definition, DefinitionError, MAX_DESCRIPTION, MAX_NAME};
pub use own::{LoadError, Loaded, Loader, MAX_OWN_LISTED};
pub(crate) use parameters::schema_of;
pub use pinning::{Admitted, Pinning, Quarantined};
pub use progress::{MAX_KEPT_EVENTS, Progress};
pub use schema::{Arguments, MAX_SCHEMA, Schema, SchemaError, Violation};
pub use search::{Index, MAX_RANKED};

/// Something an agent can call by name.
pub trait Tool: Send + Sync + 'static {
    /// What it says of itself. The same each time.
    fn definition(&self) -> &Definition;

    /// What runs, where that lies in a file that somebody could change. It is pinned with the
    /// definition; the tool itself makes sure that nothing else runs.
    fn content(&self) -> Option<Content> {
        None
    }

    /// What it is configured with, where its definition does not say all that it does.
    fn configuration(&self) -> Option<ToolConfiguration> {
        None
    }

    /// Does it. The future is dropped when the call is cancelled or takes too long; for what it has
    /// started elsewhere there is [`Call::over`].
    fn call(&self, call: Call) -> BoxFuture<'_, Result<Output, ToolFailure>>;
}

/// One call of a tool.
#[derive(Debug, Clone)]
pub struct Call {
    /// What it is called with: these fit its definition.
    pub arguments: Arguments,
    /// Who calls.
    pub caller: Caller,
    /// Where it tells how it gets on.
    pub progress: Progress,
    /// Ends when nobody waits for the call any more.
    pub over: CancellationToken,
}

/// Who calls a tool.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Caller {
    /// The agent, as its credential says.
    pub agent: Arc<str>,
    /// The session, by the key that names it in stores.
    pub session: Arc<str>,
}

/// What came of a call.
#[derive(Debug, Clone, PartialEq)]
pub struct Output {
    /// The result. If it is an object with an integer `exit_code`, that is the call's.
    pub data: Raw<'static>,
    /// The result in a sentence, where that helps.
    pub summary: Option<String>,
    /// Whether the tool itself left something out.
    pub truncated: bool,
    /// Why the tool counts as failed although it has a result, as a command that ends with 1.
    pub error: Option<String>,
}

/// Why a call has no result.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct ToolFailure {
    code: ErrorCode<'static>,
    message: Cow<'static, str>,
    detail: Object<'static>,
    /// Whether to try again, where that is not what its code says.
    retryable: Option<bool>,
}

impl Output {
    /// A result that any type writes.
    ///
    /// # Errors
    /// If it cannot be written as JSON.
    pub fn new(data: &impl Serialize) -> Result<Self, ToolFailure> {
        let data = Raw::from_serialize(data)
            .map_err(|error| ToolFailure::new(format!("the result is no JSON: {error}")))?;
        Ok(Self {
            data,
            summary: None,
            truncated: false,
            error: None,
        })
    }

    /// The same result, of which the tool has left something out.
    #[must_use]
    pub const fn truncated(mut self, truncated: bool) -> Self {
        self.truncated = truncated;
        self
    }
}

impl ToolFailure {
    /// The tool failed; the message says why, and what to do next.
    #[must_use]
    pub fn new(message: impl Into<Cow<'static, str>>) -> Self {
        Self::with_code(ErrorCode::ToolError, message)
    }

    /// The tool must not do this.
    #[must_use]
    pub fn denied(reason: &'static str, message: impl Into<Cow<'static, str>>) -> Self {
        Self::with_code(ErrorCode::ToolDenied, message).because(reason)
    }

    /// The tool would do this, but not now; the message says when.
    #[must_use]
    pub fn busy(reason: &'static str, message: impl Into<Cow<'static, str>>) -> Self {
        Self {
            retryable: Some(true),
            ..Self::with_code(ErrorCode::RuntimeError, message).because(reason)
        }
    }

    /// The part of the tool that runs on a thread of its own has crashed.
    #[must_use]
    pub const fn crashed() -> Self {
        Self {
            code: ErrorCode::ToolError,
            message: Cow::Borrowed("the tool crashed; the host's log says more"),
            detail: Object::EMPTY,
            retryable: None,
        }
    }

    /// The same failure in other words.
    pub(crate) fn reworded(self, reword: impl FnOnce(Cow<'static, str>) -> String) -> Self {
        Self {
            message: reword(self.message).into(),
            ..self
        }
    }

    /// Whether the tool must not do this, rather than could not.
    pub(crate) fn is_denied(&self) -> bool {
        self.code == ErrorCode::ToolDenied
    }

    pub(crate) fn with_code(
        code: ErrorCode<'static>,
        message: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self {
            code,
            message: message.into(),
            detail: Object::EMPTY,
            retryable: None,
        }
    }

    /// The same failure of a call that may have had an effect: it is not to be executed again.
    pub(crate) const fn uncertain(mut self) -> Self {
        self.retryable = Some(false);
        self
    }

    fn because(mut self, reason: &'static str) -> Self {
        let detail = serde_json::json!({ "reason": reason });
        self.detail = Object::from_serialize(&detail).unwrap_or_default();
        self
    }
}

impl From<ToolFailure> for Failure {
    fn from(failure: ToolFailure) -> Self {
        let told = Self::new(failure.code, Namespace::Tool, failure.message);
        Self {
            detail: failure.detail,
            retryable: failure.retryable.unwrap_or(told.retryable),
            ..told
        }
    }
}

/// What a tool was told by whomever it asked.
impl From<Failure> for ToolFailure {
    fn from(failure: Failure) -> Self {
        Self {
            code: failure.code,
            message: failure.message.into(),
            detail: failure.detail,
            retryable: Some(failure.retryable),
        }
    }
}

/// Runs what would keep others waiting on a thread of its own.
///
/// # Errors
/// What it fails with, and if it panics.
pub async fn blocking<T: Send + 'static>(
    run: impl FnOnce() -> Result<T, ToolFailure> + Send + 'static,
) -> Result<T, ToolFailure> {
    match tokio::task::spawn_blocking(run).await {
        Ok(outcome) => outcome,
        Err(_) => Err(ToolFailure::crashed()),
    }
}

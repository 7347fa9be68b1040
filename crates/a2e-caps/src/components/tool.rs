//! Calls of a component.

use std::sync::Arc;

use a2e_runtime::BoxFuture;
use a2e_wire::{OWN_VALUES, Raw};
use sandbox::wasm::{Component, Event, Grant, Listener, Told};

use crate::shares::Shares;
use crate::tool::{Call, Content, Definition, Output, Progress, Tool, ToolFailure};

/// Bytes that a component may say about what went wrong; the rest is left out.
const MAX_SAID: usize = 8 * 1024;

/// A component that agents can call.
pub(super) struct ComponentTool {
    pub(super) definition: Definition,
    /// Its code, which is approved together with what it says.
    pub(super) content: Content,
    pub(super) component: Component,
    pub(super) grant: Grant,
    pub(super) shares: Arc<Shares>,
}

/// Passes on what a component tells.
struct ToProgress(Progress);

impl Tool for ComponentTool {
    fn definition(&self) -> &Definition {
        &self.definition
    }

    fn content(&self) -> Option<Content> {
        Some(self.content.clone())
    }

    fn call(&self, call: Call) -> BoxFuture<'_, Result<Output, ToolFailure>> {
        Box::pin(async move {
            let _share = self.shares.take(&call.caller.agent)?;
            let arguments = call.arguments.raw().as_str();
            let listener = Arc::new(ToProgress(call.progress.clone()));
            let answer = self.component.call(arguments, &self.grant, listener).await;
            match answer {
                Ok(Ok(text)) => output(&text),
                Ok(Err(said)) => Err(ToolFailure::new(cut(said))),
                Err(error) => Err(ToolFailure::new(error.to_string())),
            }
        })
    }
}

impl Listener for ToProgress {
    fn tell(&self, event: Event) -> Told<'_> {
        let Self(progress) = self;
        Box::pin(async move {
            match event {
                Event::Progress { percent, message } => progress.progress(percent, &message).await,
                Event::Status(message) => progress.status(&message).await,
                Event::Log { level, message } => progress.log(level.as_str(), &message).await,
                Event::Artifact {
                    name,
                    mime,
                    chunk,
                    last,
                } => progress.artifact(&name, &mime, &chunk, last).await,
            }
        })
    }
}

fn output(text: &str) -> Result<Output, ToolFailure> {
    let data = Raw::parse(text, OWN_VALUES).map_err(|fault| {
        ToolFailure::new(format!(
            "the result is no JSON: {fault}; tell whoever maintains the component"
        ))
    })?;
    Ok(Output {
        data: data.into_owned(),
        summary: None,
        truncated: false,
        error: None,
    })
}

/// What it says, as far as there is room for it.
fn cut(mut said: String) -> String {
    if said.len() > MAX_SAID {
        said.truncate(said.floor_char_boundary(MAX_SAID));
        said.push('…');
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_went_wrong_is_cut_where_a_letter_ends() {
        assert_eq!(cut("a".repeat(MAX_SAID)).len(), MAX_SAID);
        let cut = cut(format!("a{}", "é".repeat(MAX_SAID / 2)));
        assert_eq!(cut.chars().count(), MAX_SAID / 2 + 1);
        assert!(cut.ends_with('…'));
    }
}

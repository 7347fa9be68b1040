//! A chain of the operator's as a tool: whoever calls it says what goes in, and not what is done.

use std::pin::pin;
use std::sync::Arc;

use a2e_runtime::BoxFuture;
use a2e_runtime::config::ChainTool;
use a2e_wire::messages::base::Event;
use a2e_wire::messages::chain::{ChainEvent, ChainPhase, ChainRequest, ChainResponse};
use a2e_wire::wire::ToStatic;
use a2e_wire::{Body, ErrorCode, Object, Timestamp};
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;

use super::plan::{Limits, Plan};
use crate::tool::{Call, Definition, DefinitionError, Output, Progress, Tool, ToolFailure};

/// Events of a chain that wait to be given on.
const EVENTS: usize = 8;

/// Why something is no tool that runs a chain.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OfferedError {
    /// It cannot be described like that.
    #[error(transparent)]
    Definition(#[from] DefinitionError),
    /// The chain could not run.
    #[error("the chain cannot run: {0}")]
    Chain(String),
}

struct Offered {
    definition: Definition,
    chain: ChainRequest<'static>,
}

/// A tool that runs a chain of at most such a size.
///
/// # Errors
/// All that is wrong with the chain, or what is wrong with its description.
pub fn tool(described: &ChainTool, limits: Limits) -> Result<Arc<dyn Tool>, OfferedError> {
    let chain = read(&described.chain).map_err(OfferedError::Chain)?;
    let checked = Plan::of(&chain, limits);
    checked.map_err(|problems| OfferedError::Chain(problems.to_string()))?;
    let schema = json!({
        "type": "object", "additionalProperties": false,
        "required": described.required, "properties": described.parameters,
    });
    let (name, description) = (described.name.clone(), described.description.clone());
    let definition = Definition::new(name, description, &schema)?;
    let definition = definition.tags(["intent", "chain"]).streaming();
    Ok(Arc::new(Offered { definition, chain }))
}

fn read(chain: &Value) -> Result<ChainRequest<'static>, String> {
    let object = Object::from_serialize(chain).map_err(|error| error.to_string())?;
    let read: Result<ChainRequest<'_>, _> = object.read(Timestamp::default());
    read.map(|chain| chain.to_static())
        .map_err(|error| error.to_string())
}

impl Offered {
    async fn run(&self, call: Call) -> Result<Output, ToolFailure> {
        let Call {
            arguments,
            progress,
            ..
        } = call;
        let Some(context) = progress.context() else {
            return Err(ToolFailure::new("nobody asks for this chain"));
        };
        let (events, mut heard) = mpsc::channel(EVENTS);
        let request = ChainRequest {
            // So that whoever reads records and kept chains finds one by the other.
            chain_id: progress.request_id().to_owned().into(),
            initial_input: Object::new(arguments.raw().clone()).unwrap_or_default(),
            streaming: progress.is_heard(),
            ..self.chain.clone()
        };
        let events = progress.is_heard().then_some(events);
        let mut asking = pin!(context.ask_with_events(request, events));
        let answer = loop {
            tokio::select! {
                biased;
                Some(event) = heard.recv() => give_on(event, &progress).await,
                answer = &mut asking => break answer?,
            }
        };
        while let Ok(event) = heard.try_recv() {
            give_on(event, &progress).await;
        }
        let Body::ChainResponse(response) = answer else {
            return Err(ToolFailure::new(
                "the chain gave another answer than its own",
            ));
        };
        outcome(response)
    }
}

impl Tool for Offered {
    fn definition(&self) -> &Definition {
        &self.definition
    }

    fn call(&self, call: Call) -> BoxFuture<'_, Result<Output, ToolFailure>> {
        Box::pin(self.run(call))
    }
}

/// Tells what happened to a node.
async fn give_on(event: Body<'static>, progress: &Progress) {
    let Body::ChainEvent(ChainEvent {
        kind,
        data,
        node_id,
        phase,
        output,
        error,
        ..
    }) = event
    else {
        return;
    };
    let mut told: Map<String, Value> = data.raw().deserialize().unwrap_or_default();
    let mut tell = |name: &str, value: Value| drop(told.insert(name.to_owned(), value));
    tell("node_id", json!(node_id.as_str()));
    tell("phase", json!(phase.as_str()));
    if phase == ChainPhase::Done {
        tell("output", output.deserialize().unwrap_or_default());
    }
    if !error.is_empty() {
        tell("error", json!(error));
    }
    let data = Object::from_serialize(&told).unwrap_or_default();
    let event = Event {
        kind,
        data,
        ..Event::new()
    };
    progress.event(event).await;
}

/// What came of a chain: its last output. One that went on after a failure has one and is not
/// successful.
fn outcome(response: ChainResponse<'static>) -> Result<Output, ToolFailure> {
    if let Some(error) = response.error {
        let code = ErrorCode::from_peer(error.code);
        return Err(ToolFailure::with_code(code, error.message));
    }
    let failed = || "a node of the chain failed, and the chain went on".to_owned();
    Ok(Output {
        data: response.final_output,
        summary: None,
        truncated: false,
        error: (!response.success).then(failed),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(chain: Value) -> ChainTool {
        ChainTool {
            name: "intent:x".into(),
            description: "Does it".into(),
            chain,
            file: None,
            parameters: Map::new(),
            required: Vec::new(),
        }
    }

    #[test]
    fn a_chain_that_could_not_run_is_no_tool() {
        let one =
            json!({"nodes": [{"node_id": "a", "kind": "tool", "name": "echo"}], "entry_node": "a"});
        assert!(tool(&described(one.clone()), Limits::default()).is_ok());
        let none = Limits {
            nodes: 0,
            ..Limits::default()
        };
        assert!(tool(&described(one), none).is_err());
        let circle = json!({"entry_node": "a", "nodes": [
            {"node_id": "a", "kind": "tool", "name": "echo", "next_node": "b"},
            {"node_id": "b", "kind": "tool", "name": "echo", "next_node": "a"}]});
        for (wrong, why) in [
            (circle, "a"),
            (json!({"nodes": 1}), "nodes"),
            (json!(1), ""),
        ] {
            let Err(OfferedError::Chain(text)) = tool(&described(wrong), Limits::default()) else {
                panic!("it is taken");
            };
            assert!(text.contains(why), "{text}");
        }
    }

    #[test]
    fn a_chain_that_went_on_after_a_failure_has_an_output_and_failed() {
        let went_on = ChainResponse {
            final_output: a2e_wire::Raw::from_serialize(&5).unwrap(),
            ..ChainResponse::new()
        };
        let output = outcome(went_on.clone()).unwrap();
        assert_eq!((output.data.as_str(), output.error.is_some()), ("5", true));
        let well = ChainResponse {
            success: true,
            ..went_on.clone()
        };
        assert_eq!(outcome(well).unwrap().error, None);
        let late = ChainResponse {
            error: Some(a2e_wire::messages::chain::ChainError {
                code: "timeout".into(),
                message: "late".into(),
            }),
            ..went_on
        };
        let failure = a2e_runtime::Failure::from(outcome(late).unwrap_err());
        assert_eq!(failure.code, ErrorCode::Timeout);
    }
}

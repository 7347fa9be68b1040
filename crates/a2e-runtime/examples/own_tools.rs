//! A host with a tool of your own: for the process that starts it, or over TCP.
//!
//! ```console
//! $ cargo build -p a2e-runtime --example own_tools
//! $ frith call greet '{"name":"Ada"}' --host 'cmd:target/debug/examples/own_tools'
//! $ TOKEN=secret target/debug/examples/own_tools 127.0.0.1:8766 &
//! $ frith call greet '{"name":"Ada"}' --host tcp:127.0.0.1:8766 --token secret
//! ```

use std::error::Error;

use a2e_runtime::{
    BoxFuture, Context, Failure, Host, HostBuilder, Limited, Outcome, Plugin, Secret, Serves,
    Source, TokenStore, serve_tcp,
};
use a2e_wire::messages::tool::{
    ToolCallRequest, ToolCallResponse, ToolDefinition, ToolListResponse, ToolParameter,
    ToolParameterType, ToolResult,
};
use a2e_wire::{Body, Capability, ErrorCode, Message, Namespace, Raw, Tag, Timestamp};
use serde_json::json;

/// One tool: `greet`.
struct Greeter;

impl Plugin for Greeter {
    fn name(&self) -> &str {
        "greeter"
    }

    fn capability(&self) -> Option<Capability<'static>> {
        Some(Capability::Tools)
    }

    fn serves(&self) -> Serves {
        Serves::Tags(vec![Tag::ToolListRequest, Tag::ToolCallRequest])
    }

    /// Dropped when the call times out or its agent leaves: there is nothing to do for that.
    fn handle(
        &self,
        request: Box<Message<'static>>,
        _context: Context,
    ) -> BoxFuture<'_, Result<Outcome, Failure>> {
        Box::pin(async move {
            #[expect(clippy::wildcard_enum_match_arm, reason = "nothing else is served")]
            match request.body {
                Body::ToolListRequest(_) => Ok(Outcome::answer(tools())),
                Body::ToolCallRequest(call) if call.tool_name == "greet" => greet(&call),
                // Another plugin may have that tool; if none has, the agent is told so.
                _ => Ok(Outcome::Pass),
            }
        })
    }
}

fn tools() -> ToolListResponse<'static> {
    let (string, text) = (ToolParameterType::String, "Whom to greet");
    let name = ToolParameter {
        required: true,
        ..ToolParameter::new("name".into(), string, text.into())
    };
    let greet = ToolDefinition {
        input_parameters: vec![name],
        ..ToolDefinition::new("greet".into(), "Says hello".into())
    };
    ToolListResponse { tools: vec![greet] }
}

#[derive(serde::Deserialize)]
struct Arguments {
    name: String,
}

fn greet(call: &ToolCallRequest<'_>) -> Result<Outcome, Failure> {
    let failed = |text: String| Failure::new(ErrorCode::ToolError, Namespace::Tool, text);
    let arguments = call.arguments.raw().deserialize::<Arguments>();
    let Arguments { name } = arguments.map_err(|error| failed(error.to_string()))?;
    let data = json!({"text": format!("Hello, {name}!")}).to_string();
    let data =
        Raw::parse(&data, a2e_wire::OWN_VALUES).map_err(|error| failed(error.to_string()))?;
    let result = ToolResult {
        data: Some(data.into_owned()),
        ..ToolResult::new(true, "greet".into(), 0)
    };
    Ok(Outcome::answer(ToolCallResponse::new(
        result,
        Timestamp::default(),
    )))
}

/// What both ways in have in common.
pub(crate) fn host() -> HostBuilder {
    Host::builder().plugin(Greeter)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let Some(address) = std::env::args().nth(1) else {
        // Whoever started this process may do everything it can: no token is asked for.
        let parent = tokio::io::join(tokio::io::stdin(), tokio::io::stdout());
        return Ok(host().build().serve(parent, Source::Own).await?);
    };
    // Over TCP anybody on this machine could come: whoever knows the token may.
    let token = Secret::new(std::env::var("TOKEN")?);
    let tokens = TokenStore::in_memory(&token)?;
    let host = host().authenticator(Limited::new(tokens)).build();
    let listener = tokio::net::TcpListener::bind(address).await?;
    serve_tcp(host, listener, None).await;
    Ok(())
}

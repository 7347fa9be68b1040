//! `frith ping`, `caps`, `tools`, `call`: the agent's side, from the command line.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use a2e_runtime::{A2eError, CallOptions, Client, ClientError, Handler, nearest};
use a2e_wire::messages::tool::{ToolCallRequest, ToolDefinition, ToolListRequest, ToolParameter};
use a2e_wire::{Body, Capability, Enumeration, ErrorCode, Message, Object};
use anyhow::{Context, Result, bail};
use serde::Serialize;
use serde_json::{Value, json};

use crate::Outcome;
use crate::connect;
use crate::interrupt::until_interrupted;
use crate::pending;
use crate::progress::{Events, Progress};
use crate::screen::{self, plain};

#[derive(Debug, clap::Args)]
pub(crate) struct CallArguments {
    /// The tool's name
    tool: String,

    /// Its arguments, a JSON object
    #[arg(default_value = "{}")]
    arguments: String,

    /// Show the tool's events as they come
    #[arg(long)]
    events: bool,

    /// Seconds to wait for the result, or for the next event of the tool
    #[arg(long, default_value_t = 30)]
    timeout: u32,

    #[command(flatten)]
    host: connect::Arguments,
}

#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, disable_help_subcommand = true)]
pub(crate) struct ToolsArguments {
    #[command(subcommand)]
    action: Option<pending::Action>,

    /// Words to look for in names, descriptions, tags and parameters
    query: Vec<String>,

    /// Also those that are only found by searching
    #[arg(long)]
    all: bool,

    #[command(flatten)]
    host: connect::Arguments,
}

pub(crate) fn ping(host: &connect::Arguments, as_json: bool) -> Result<Outcome> {
    block_on(async {
        let connection = host.connect_elsewhere(&[]).await?;
        let took = connection.client.ping().await?;
        connection.close().await;
        let milliseconds = took.as_secs_f64() * 1000.0;
        match as_json {
            true => print_json(&json!({"milliseconds": milliseconds}))?,
            false => print(&format!("the host answers in {milliseconds:.2} ms"))?,
        }
        Ok(Outcome::Good)
    })
}

pub(crate) fn caps(host: &connect::Arguments, as_json: bool) -> Result<Outcome> {
    block_on(async {
        let Enumeration { values, .. } = Capability::ENUMERATION;
        let connection = host.connect(values).await?;
        let mut values = Vec::new();
        for capability in connection.client.capabilities() {
            let metadata: Value = capability.metadata.raw().deserialize()?;
            if as_json {
                values.push(json!({
                    "capability": capability.capability.as_str(),
                    "enabled": capability.enabled,
                    "metadata": metadata,
                }));
                continue;
            }
            let note = match capability.enabled {
                true => format!("yes  (plugin {})", metadata["name"].as_str().unwrap_or("?")),
                false => format!(
                    "no   ({})",
                    metadata["reason"].as_str().unwrap_or("not enabled")
                ),
            };
            print(&plain(format!(
                "{:12} {note}",
                capability.capability.as_str()
            )))?;
        }
        if as_json {
            print_json(&values)?;
        }
        connection.close().await;
        Ok(Outcome::Good)
    })
}

pub(crate) fn tools(arguments: &ToolsArguments, as_json: bool) -> Result<Outcome> {
    block_on(async {
        if let Some(action) = &arguments.action {
            return pending::run(action, &arguments.host.dir()?, as_json).await;
        }
        let connection = arguments.host.connect(&["tools"]).await?;
        let request = ToolListRequest {
            query: arguments.query.join(" ").into(),
            include_deferred: arguments.all,
            ..ToolListRequest::new()
        };
        let list = connection.client.request(request).await;
        let list = list.context("cannot list the tools")?;
        if as_json {
            let tools: Result<Vec<Value>> = list.tools.iter().map(tool_json).collect();
            print_json(&tools?)?;
        } else {
            list.tools.iter().try_for_each(show_tool)?;
        }
        if list.tools.is_empty() && !as_json {
            print(&"no tool fits; `frith tools` lists all")?;
        }
        connection.close().await;
        Ok(Outcome::Good)
    })
}

pub(crate) fn call(call: &CallArguments, as_json: bool) -> Result<Outcome> {
    let arguments = match Object::parse(&call.arguments) {
        Ok(arguments) => arguments,
        Err(error) => {
            let given = &call.arguments;
            let text =
                format!("the tool's arguments must be a JSON object, not `{given}`: {error}");
            return Ok(Outcome::WrongArguments(text));
        }
    };
    let request = ToolCallRequest {
        tool_name: call.tool.clone().into(),
        arguments: a2e_wire::wire::ToStatic::to_static(arguments),
        // Also for who wants no events: that a call waits for the operator comes as one.
        streaming: true,
        timeout: call.timeout.into(),
        ..ToolCallRequest::new()
    };
    block_on(async {
        let connection = call.host.connect(&["tools"]).await?;
        let events = match (call.events, as_json) {
            (false, _) => Events::Quiet,
            (true, false) => Events::Lines,
            (true, true) => Events::Json,
        };
        let progress = Arc::new(Progress::new(events, as_json));
        let told = Arc::clone(&progress);
        let options = CallOptions {
            timeout: LONGEST,
            event_callback: Handler::new(move |event| told.event(&event)),
        };
        let response = connection.client.rpc(request, options);
        let response = progress.within(response, call.timeout).await;
        let is_unknown = matches!(
            &response,
            Err(ClientError::Host(error)) if error.code == ErrorCode::UnknownTool
        );
        let hint = match is_unknown {
            true => meant(&connection, &call.tool).await,
            false => None,
        };
        connection.close().await;
        match hint {
            Some(hint) if !as_json => {
                bail!("unknown_tool: there is no tool {:?}; {hint}", call.tool)
            }
            _ => show_result(response, as_json),
        }
    })
}

/// Nobody waits longer, not even for an operator: a host holds no call for so long.
pub(crate) const LONGEST: Duration = Duration::from_secs(25 * 3600);

/// What to do about a tool that is not there.
async fn meant(connection: &connect::Connection, tool: &str) -> Option<String> {
    let list = connection.client.request(ToolListRequest::new()).await;
    let list = list.ok()?;
    let names = list.tools.iter().map(|known| &*known.name);
    Some(match nearest(tool, names) {
        Some(name) => format!("did you mean {name:?}? `frith tools` lists all"),
        None => "`frith tools` lists those that are".to_owned(),
    })
}

fn show_tool(tool: &ToolDefinition<'_>) -> Result<()> {
    print(&plain(signature(tool)))?;
    // Each line of it is set off, so none looks like another tool.
    let mut lines = tool.description.lines();
    lines.try_for_each(|line| print(&format!("    {}", plain(line))))
}

/// A tool's name with its parameters, those that may be left out last and in brackets:
/// `wait(seconds: number, [reason: string])`.
fn signature(tool: &ToolDefinition<'_>) -> String {
    let parameter = |parameter: &ToolParameter<'_>| {
        let text = format!("{}: {}", parameter.name, parameter.kind.as_str());
        match parameter.required {
            true => text,
            false => format!("[{text}]"),
        }
    };
    let mut parameters: Vec<_> = tool.input_parameters.iter().collect();
    parameters.sort_by_key(|parameter| !parameter.required);
    let parameters: Vec<String> = parameters.into_iter().map(parameter).collect();
    match parameters.is_empty() {
        true => tool.name.to_string(),
        false => format!("{}({})", tool.name, parameters.join(", ")),
    }
}

fn show_result(response: Result<Message<'static>, ClientError>, as_json: bool) -> Result<Outcome> {
    let response = match response {
        Ok(response) => response,
        Err(error) if as_json => {
            print_json(&error_json(&error)?)?;
            return Ok(Outcome::Bad);
        }
        Err(error) => return Err(error.into()),
    };
    let Body::ToolCallResponse(response) = response.body else {
        bail!("the host answered with `{}`", response.type_name());
    };
    let result = response.data;
    let data: Value = match &result.data {
        Some(data) => data.deserialize()?,
        None => Value::Null,
    };
    match as_json {
        true => {
            print_json(&json!({"success": result.success, "data": data, "error": result.error}))?
        }
        false => print(&screen::json(&format!("{data:#}")))?,
    }
    if let (false, Some(error), false) = (result.success, &result.error, as_json) {
        bail!("the tool says: {error}");
    }
    Ok(if result.success {
        Outcome::Good
    } else {
        Outcome::Bad
    })
}

/// Why a call failed, for programs: all that the protocol has of an error.
pub(crate) fn error_json(error: &ClientError) -> Result<Value> {
    let error = A2eError::from(error);
    let detail: Value = error.detail.raw().deserialize()?;
    let events = error.events.iter();
    let events = events.map(|event| serde_json::from_slice(&Client::encode(event)));
    let events: Vec<Value> = events.collect::<Result<_, _>>()?;
    Ok(json!({
        "success": false, "code": error.code.as_str(), "message": error.message,
        "retryable": error.retryable, "detail": detail, "capability_name": error.capability_name,
        "req_id": error.req_id.as_str(), "events": events,
    }))
}

fn tool_json(tool: &ToolDefinition<'_>) -> Result<Value> {
    Ok(Object::from_record(tool)?.raw().deserialize()?)
}

/// Prints text for people. Whoever had a say in it, it does nothing to their terminal.
pub(crate) fn print(text: &impl std::fmt::Display) -> Result<()> {
    writeln!(std::io::stdout(), "{}", screen::message(text))?;
    Ok(())
}

/// Prints a value for programs, in one line.
pub(crate) fn print_json(value: &impl Serialize) -> Result<()> {
    let text = serde_json::to_string(value)?;
    writeln!(std::io::stdout(), "{}", screen::json(&text))?;
    Ok(())
}

pub(crate) fn block_on<T>(future: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(until_interrupted(future))
}

#[cfg(test)]
mod tests {
    use a2e_wire::Timestamp;

    use super::*;

    #[test]
    fn what_a_tool_needs_comes_first() {
        let told = json!({"name": "wait", "description": "Waits", "input_parameters": [
            {"name": "reason", "type": "string", "description": "", "required": false},
            {"name": "seconds", "type": "number", "description": "", "required": true},
            {"name": "exactly", "type": "boolean", "description": "", "required": false},
        ]});
        let text = told.to_string();
        let object = Object::parse(&text).unwrap();
        let tool: ToolDefinition<'_> = object.read(Timestamp::default()).unwrap();
        let shown = "wait(seconds: number, [reason: string], [exactly: boolean])";
        assert_eq!(signature(&tool), shown);
    }
}

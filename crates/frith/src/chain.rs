//! `frith chain`: runs a chain that a file describes, and shows those that are kept.

mod graph;
mod kept;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use a2e_runtime::{CallOptions, ClientError, Handler};
use a2e_wire::messages::chain::{ChainEvent, ChainPhase, ChainRequest, ChainResponse};
use a2e_wire::wire::ToStatic;
use a2e_wire::{Body, Object, Timestamp};
use anyhow::{Context, Result, anyhow, bail};
use clap::Subcommand;
use serde_json::{Value, json};

use crate::Outcome;
use crate::agent::{LONGEST, block_on, error_json, print, print_json};
use crate::progress::{Events, Progress};
use crate::screen::{self, plain};
use crate::{connect, hint};

#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Action,

    #[command(flatten)]
    host: connect::Arguments,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Run a chain and show what came of it
    Run {
        /// The chain: what a `chain/req` has, as JSON; `-` is standard input
        file: PathBuf,

        /// What it is given, a JSON object, in place of its `initial_input`
        #[arg(long, value_name = "JSON")]
        input: Option<String>,

        /// Tell of each node as it starts and ends
        #[arg(long)]
        watch: bool,
    },
    /// List the chains that run or ran, the newest first
    List,
    /// Show how a chain stands, node by node
    Show {
        /// Its number, from the list
        #[arg(value_parser = number)]
        number: i64,
    },
    /// Go on with a chain that was cut off, and show what came of it
    Resume {
        /// Its number, from the list
        #[arg(value_parser = number)]
        number: i64,
    },
    /// End a chain
    Cancel {
        /// Its number, from the list
        #[arg(value_parser = number)]
        number: i64,
    },
    /// Draw a chain
    Graph {
        /// The chain, as for `run`
        file: PathBuf,

        /// As an SVG image rather than as text
        #[arg(long)]
        svg: bool,
    },
}

/// What nodes of chains need of a host.
const WANTED: [&str; 4] = ["chains", "tools", "skill", "proc"];

pub(crate) fn run(arguments: &Arguments, json: bool) -> Result<Outcome> {
    match &arguments.action {
        Action::Run { file, input, watch } => {
            let mut request = read(file)?;
            if let Some(input) = input {
                let input = Object::parse(input).context("`--input` must be a JSON object")?;
                request.initial_input = input.to_static();
            }
            // Also for who wants no events: that a chain waits for the operator comes as one.
            request.streaming = true;
            let told = match watch {
                true => Told::Nodes,
                false => Told::Held,
            };
            run_chain(request, told, arguments, json)
        }
        Action::Graph { file, svg } => {
            let limits = a2e_caps::chains::Limits::default();
            let sketch = a2e_caps::chains::Sketch::of(&read(file)?, limits);
            let sketch = sketch.map_err(|problems| anyhow!("{}", plain(problems)))?;
            let drawn = match svg {
                true => graph::svg(&sketch),
                false => graph::text(&sketch),
            };
            match json {
                true => print(&json!({ "graph": drawn }))?,
                false => print(&drawn)?,
            }
            Ok(Outcome::Good)
        }
        Action::List => kept::run(arguments, async |client| kept::list(client, json).await),
        Action::Show { number } => kept::run(arguments, async |client| {
            kept::show(client, *number, json).await
        }),
        Action::Resume { number } => kept::run(arguments, async |client| {
            kept::resume(client, *number, json).await
        }),
        Action::Cancel { number } => kept::run(arguments, async |client| {
            kept::cancel(client, *number, json).await
        }),
    }
}

/// A chain's number.
fn number(text: &str) -> Result<i64, &'static str> {
    text.parse()
        .map_err(|_| "a chain goes by its number, which `frith chain list` has before its name")
}

/// The chain that a file describes; `-` is standard input.
fn read(file: &Path) -> Result<ChainRequest<'static>> {
    let text = match file.as_os_str() == "-" {
        true => std::io::read_to_string(std::io::stdin()).context("cannot read the chain")?,
        false => std::fs::read_to_string(file)
            .with_context(|| format!("cannot read {} as a chain", file.display()))?,
    };
    chain(&text).with_context(|| format!("in {}", file.display()))
}

/// What is told of a chain while it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    /// That it waits for the operator.
    Held,
    /// Also what its nodes do.
    Nodes,
}

fn run_chain(
    request: ChainRequest<'static>,
    told: Told,
    arguments: &Arguments,
    json: bool,
) -> Result<Outcome> {
    block_on(async {
        let connection = arguments.host.connect(&WANTED).await?;
        connection.must_have("chains")?;
        let progress = Arc::new(Progress::new(Events::Quiet, json));
        let telling = Arc::clone(&progress);
        let seconds = u32::try_from(request.timeout).unwrap_or(u32::MAX);
        let options = CallOptions {
            timeout: LONGEST,
            event_callback: Handler::new(move |message| {
                telling.event(&message);
                if let (Told::Nodes, Body::ChainEvent(event)) = (told, &message.body)
                    && !event.node_id.as_str().is_empty()
                {
                    telling.say(&text(event));
                }
            }),
        };
        let response = connection.client.rpc(request, options);
        let response = progress.within(response, seconds).await;
        connection.close().await;
        let response = match response {
            Err(error) if json => {
                print_json(&error_json(&error)?)?;
                return Ok(Outcome::Bad);
            }
            response => response.map_err(failed)?,
        };
        let Body::ChainResponse(response) = response.body else {
            bail!("the host answered with `{}`", response.type_name());
        };
        show(&response, json)
    })
}

/// Why there is no answer. A node that goes away does not forget its chains.
fn failed(error: ClientError) -> anyhow::Error {
    if hint::gone(&error).is_none() {
        return anyhow::Error::new(error).context("the chain did not run");
    }
    anyhow!(
        "the node went away before the chain was done ({error})\n\
         Once it runs again (`frith up`), it goes on with chains that it keeps: `frith chain list` tells what \
         became of this one, and `frith chain show NUMBER` all about it"
    )
}

/// The chain that a file describes.
fn chain(text: &str) -> Result<ChainRequest<'static>> {
    let object = Object::parse(text).context("a chain is a JSON object")?;
    let chain: ChainRequest<'_> = object
        .read(Timestamp::default())
        .map_err(|error| anyhow!("this is no chain: {error}"))?;
    Ok(chain.to_static())
}

fn text(event: &ChainEvent<'_>) -> String {
    let id = plain(event.node_id.as_str());
    match &event.phase {
        ChainPhase::Start => format!("{id}  starts"),
        ChainPhase::Done => format!("{id}  done  {}", beginning(event.output.as_str())),
        ChainPhase::Skip => format!("{id}  is skipped"),
        ChainPhase::Error => format!("{id}  failed: {}", plain(&event.error)),
        ChainPhase::Other(phase) => format!("{id}  {}", plain(phase)),
    }
}

/// As much of what a node gave as fits beside its name: all of it is in the outputs.
fn beginning(output: &str) -> String {
    const SHOWN: usize = 200;
    match output.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}… ({} bytes)", plain(&output[..end]), output.len()),
        None => plain(output),
    }
}

fn show(response: &ChainResponse<'_>, json: bool) -> Result<Outcome> {
    let value = |raw: &a2e_wire::Raw<'_>| raw.deserialize::<Value>().unwrap_or_default();
    let error = response.error.as_ref();
    show_response(
        &json!({
            "chain_id": response.chain_id.as_str(), "success": response.success,
            "outputs": value(response.outputs.raw()), "final_output": value(&response.final_output),
            "nodes_run": response.nodes_run, "duration_ms": response.duration_ms,
            "error": error.map(|error| json!({"code": error.code, "message": error.message})),
        }),
        json,
    )
}

/// Shows what a `chain/resp` says.
fn show_response(response: &Value, json: bool) -> Result<Outcome> {
    if json {
        print_json(response)?;
    } else {
        // Of a chain that failed there may be nothing to show but why.
        if response["error"].is_null() || !response["final_output"].is_null() {
            print(&screen::json(&response["final_output"].to_string()))?;
        }
        let took = &response["duration_ms"];
        match response["nodes_run"].as_u64().unwrap_or_default() {
            1 => tell!("1 node in {took} ms"),
            count => tell!("{count} nodes in {took} ms"),
        }
        let text = |name: &str| plain(response["error"][name].as_str().unwrap_or_default());
        if !response["error"].is_null() {
            let message = hint::for_people(&text("message"));
            tell!("frith: {message} ({})", text("code"));
        } else if response["success"] == false {
            tell!(
                "frith: a node failed, and the chain went on without it; `--watch` shows which and why"
            );
        }
    }
    Ok(match response["success"].as_bool() {
        Some(true) => Outcome::Good,
        Some(false) | None => Outcome::Bad,
    })
}

//! `frith chain`: runs a chain that a file describes.

use std::path::PathBuf;

use a2e_runtime::Handler;
use a2e_wire::messages::chain::{ChainEvent, ChainPhase, ChainRequest, ChainResponse};
use a2e_wire::wire::ToStatic;
use a2e_wire::{Body, Object, Timestamp};
use anyhow::{Context, Result, anyhow};
use clap::Subcommand;
use serde_json::{Value, json};

use crate::Outcome;
use crate::agent::{block_on, print, print_json};
use crate::connect;
use crate::screen::plain;

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
}

pub(crate) fn run(arguments: &Arguments, json: bool) -> Result<Outcome> {
    let Action::Run { file, input, watch } = &arguments.action;
    let text = match file.as_os_str() == "-" {
        true => std::io::read_to_string(std::io::stdin()).context("cannot read the chain")?,
        false => std::fs::read_to_string(file)
            .with_context(|| format!("cannot read {}", file.display()))?,
    };
    let mut request = chain(&text).with_context(|| format!("in {}", file.display()))?;
    if let Some(input) = input {
        let input = Object::parse(input).context("`--input` must be a JSON object")?;
        request.initial_input = input.to_static();
    }
    request.streaming = *watch;
    block_on(async {
        let wanted = ["chains", "tools", "skill", "proc"];
        let connection = arguments.host.connect(&wanted).await?;
        let asking = connection
            .client
            .request(request)
            .on_event(Handler::new(|message| {
                if let Body::ChainEvent(event) = message.body {
                    tell(&event);
                }
            }));
        let response = asking.await.context("the chain did not run");
        connection.close().await;
        show(&response?, json)
    })
}

/// The chain that a file describes.
fn chain(text: &str) -> Result<ChainRequest<'static>> {
    let object = Object::parse(text).context("a chain is a JSON object")?;
    let chain: ChainRequest<'_> = object
        .read(Timestamp::default())
        .map_err(|error| anyhow!("this is no chain: {error}"))?;
    Ok(chain.to_static())
}

fn tell(event: &ChainEvent<'_>) {
    let id = plain(event.node_id.as_str());
    match &event.phase {
        ChainPhase::Start => eprintln!("{id}  starts"),
        ChainPhase::Done => eprintln!("{id}  done  {}", plain(event.output.as_str())),
        ChainPhase::Skip => eprintln!("{id}  is skipped"),
        ChainPhase::Error => eprintln!("{id}  failed: {}", plain(&event.error)),
        ChainPhase::Other(phase) => eprintln!("{id}  {}", plain(phase)),
    }
}

fn show(response: &ChainResponse<'_>, json: bool) -> Result<Outcome> {
    let value = |raw: &a2e_wire::Raw<'_>| raw.deserialize::<Value>().unwrap_or_default();
    let error = response.error.as_ref();
    if json {
        print_json(&json!({
            "chain_id": response.chain_id.as_str(), "success": response.success,
            "outputs": value(response.outputs.raw()), "final_output": value(&response.final_output),
            "nodes_run": response.nodes_run, "duration_ms": response.duration_ms,
            "error": error.map(|error| json!({"code": error.code, "message": error.message})),
        }))?;
    } else {
        print(&response.final_output.as_str())?;
        let (count, took) = (response.nodes_run, response.duration_ms);
        eprintln!("{count} nodes in {took} ms");
        if let Some(error) = error {
            eprintln!("frith: {} ({})", plain(&error.message), plain(&error.code));
        }
    }
    Ok(match response.success {
        true => Outcome::Good,
        false => Outcome::Bad,
    })
}

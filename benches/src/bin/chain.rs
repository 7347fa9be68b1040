//! What a node of a chain costs, beside the work it does: chains that are walked, graphs and maps, in
//! memory and kept, each beside LangGraph with a graph of the same form.
#![expect(clippy::print_stdout, reason = "this is a report")]

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use a2e_caps::chains::{Chains, Keeper, Settings};
use a2e_caps::tool::{
    Call, Catalogue, Definition, Output, Source as ToolSource, Tool, ToolFailure,
};
use a2e_caps::tools::{Settings as ToolSettings, Tools};
use a2e_runtime::{AgentConfig, BoxFuture, Client, Handler, Host, Source};
use a2e_wire::messages::chain::ChainRequest;
use a2e_wire::wire::ToStatic;
use a2e_wire::{Object, Timestamp};
use benches::median;
use serde_json::{Value, json};
use store::{Options, Sqlite, Store};

type Fallible<T> = Result<T, Box<dyn std::error::Error>>;

/// What a node may cost at most, in microseconds.
const IN_MEMORY: f64 = 20.0;
const KEPT: f64 = 150.0;

/// How large chains are, and how often each is run.
#[derive(Clone, Copy)]
struct Size {
    nodes: usize,
    runs: usize,
}

/// A tool that gives back what it is given.
struct Echo(Definition);

impl Tool for Echo {
    fn definition(&self) -> &Definition {
        &self.0
    }

    fn call(&self, call: Call) -> BoxFuture<'_, Result<Output, ToolFailure>> {
        Box::pin(async move { Output::new(call.arguments.value()) })
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let size = |nodes, runs| Size { nodes, runs };
    let (size, peer) = match words.as_slice() {
        [] => (size(1_000, 9), None),
        ["--langgraph", python, script] => (size(1_000, 9), Some((*python, *script))),
        ["--smoke"] => (size(20, 1), None),
        _ => {
            println!("usage: chain [--langgraph PYTHON SCRIPT | --smoke]");
            return;
        }
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build();
    let outcome = runtime
        .map_err(Into::into)
        .and_then(|runtime| runtime.block_on(report(size, peer)));
    if let Err(error) = outcome {
        println!("{error}");
    }
}

async fn report(size: Size, peer: Option<(&str, &str)>) -> Fallible<()> {
    let folder = tempfile::tempdir()?;
    let theirs = match peer {
        Some((python, script)) => langgraph(python, script, size)?,
        None => Value::Null,
    };
    println!("microseconds for each of {} nodes or items", size.nodes);
    println!(
        "  {:16} {:>9} {:>9} {:>11} {:>7}",
        "", "frith", "at most", "LangGraph", "ratio"
    );
    for is_kept in [false, true] {
        let client = client(is_kept.then_some(folder.path())).await?;
        for (name, chain) in [
            ("linear", linear(size.nodes)),
            ("fan-out", fan_out(size.nodes)),
            ("map", map(size.nodes)),
        ] {
            let ours = measure(&client, &chain, size).await?;
            let name = if is_kept {
                format!("{name}, kept")
            } else {
                name.to_owned()
            };
            let most = if is_kept { KEPT } else { IN_MEMORY };
            let (theirs, ratio) = match theirs[&name].as_f64() {
                Some(theirs) => (format!("{theirs:.1}"), format!("{:.1}x", theirs / ours)),
                None => ("-".to_owned(), "-".to_owned()),
            };
            println!("  {name:16} {ours:>9.1} {most:>9.0} {theirs:>11} {ratio:>7}");
        }
        client.disconnect(Duration::from_secs(1)).await;
    }
    Ok(())
}

/// A client of a host in this process; its chains are kept in a folder, or not at all.
async fn client(folder: Option<&Path>) -> Fallible<Client> {
    let schema = json!({"type": "object"});
    let definition = Definition::new("echo", "Gives back what it is given", &schema)?;
    // What a session has kept of an earlier run must not be what is measured.
    let definition = definition.read_only().volatile();
    let catalogue = Arc::new(Catalogue::default());
    let tool: Arc<dyn Tool> = Arc::new(Echo(definition));
    if let Some(clash) = catalogue.set(ToolSource::BuiltIn, vec![tool]).first() {
        return Err(format!("{clash:?}").into());
    }
    let keeper = folder.map(|folder| -> Fallible<Arc<Keeper>> {
        let store = Sqlite::open(&Options::new(folder.join("chains.db")))?;
        Ok(Arc::new(Keeper::new(Store::new(store))))
    });
    let chains = Chains::new(Settings {
        keeper: keeper.transpose()?,
        ..Settings::default()
    });
    let host = Host::builder()
        .plugin(Tools::new(catalogue, ToolSettings::default())?)
        .plugin(chains)
        .build();
    let (ours, theirs) = tokio::io::duplex(1024 * 1024);
    tokio::spawn(async move { host.serve(theirs, Source::Own).await });
    let config = AgentConfig {
        wanted: vec!["tools".into(), "chains".into()],
        ..AgentConfig::default()
    };
    Ok(Client::connect(ours, config, Handler::none()).await?)
}

/// Microseconds of a node: the median of several runs.
async fn measure(client: &Client, chain: &Value, size: Size) -> Fallible<f64> {
    let object = Object::from_serialize(chain)?;
    let chain: ChainRequest<'_> = object
        .read(Timestamp::default())
        .map_err(|error| error.to_string())?;
    let chain = chain.to_static();
    let mut times = Vec::new();
    for _ in 0..size.runs {
        let begun = Instant::now();
        let response = client.request(chain.clone()).await?;
        let took = begun.elapsed();
        if !response.success {
            return Err(format!("a chain failed: {:?}", response.error).into());
        }
        times.push(took.as_secs_f64() * 1e6 / size.nodes as f64);
    }
    Ok(median(times))
}

fn node(id: usize) -> Value {
    json!({"node_id": format!("n{id}"), "kind": "tool", "name": "echo", "input": {"n": id}})
}

/// Each after the one before.
fn linear(count: usize) -> Value {
    let nodes = (0..count).map(|id| {
        let mut node = node(id);
        if id + 1 < count {
            node["next_node"] = json!(format!("n{}", id + 1));
        }
        node
    });
    json!({"entry_node": "n0", "streaming": false, "nodes": nodes.collect::<Vec<_>>()})
}

/// One, then all but two after it, then one after these.
fn fan_out(count: usize) -> Value {
    let last = count - 1;
    let nodes = (0..count).map(|id| {
        let mut node = node(id);
        node["deps"] = match id {
            0 => json!([]),
            id if id < last => json!(["n0"]),
            _ => (1..last).map(|id| json!(format!("n{id}"))).collect(),
        };
        node
    });
    json!({"streaming": false, "nodes": nodes.collect::<Vec<_>>()})
}

/// One for each item.
fn map(count: usize) -> Value {
    json!({"entry_node": "m", "streaming": false,
        "initial_input": {"list": (0..count).collect::<Vec<_>>()}, "nodes": [
            {"node_id": "m", "kind": "map", "items_path": "$.list", "map_node": "t"},
            {"node_id": "t", "kind": "tool", "name": "echo"}]})
}

/// The same by LangGraph, in its own process: microseconds by the name of the chain.
fn langgraph(python: &str, script: &str, size: Size) -> Fallible<Value> {
    let (nodes, runs) = (size.nodes.to_string(), size.runs.to_string());
    let output = Command::new(python)
        .args([script, &nodes, &runs])
        .output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

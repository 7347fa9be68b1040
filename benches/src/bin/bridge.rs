//! A call through both protocols beside the sum of its parts, in one run.
//!
//! usage: bridge [--smoke] [--out FOLDER]
//!
//! The whole is an agent that calls a tool of its node A, which is an intent of node B, which is a tool
//! there: `echo`, which does nothing. The parts are the same tool called by an agent of A (A2E), an
//! intent that echoes, asked of B by the client of a node (A2A), encrypted and as work that has a name
//! as between nodes, and the tool as B has it called: by a host, for an agent that stands outside, past
//! its rules and onto its record. All nodes are processes as `frith up` starts them, with an audit log
//! at the default `sync`; one call is in flight at a time. B is the server when client and server have
//! a CPU each.
//!
//! One call of each kind follows another: a part that is called again and again has the caches to
//! itself, which as a part of the whole it never has.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "this is a report"
)]

use std::cell::Cell;
use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use a2e_runtime::demo::Demo;
use a2e_runtime::{Host, Identity, StandIn};
use a2e_wire::messages::tool::ToolCallRequest;
use a2e_wire::{Body, Object};
use audit::Log;
use benches::arguments::{Arguments, Programs};
use benches::client::Client;
use benches::median;
use benches::node::Node;
use benches::pin::{Cpus, Pinning};
use benches::report::{Figure, figures};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// Calls of each kind.
const FULL: usize = 3000;
const SMOKE: usize = 1;

/// How much more than the sum of its parts the whole may take.
const AT_MOST: f64 = 1.1;

/// B. What is different from the defaults lets one agent ask as often as it can.
const OFFER: &str = "\
server: {listen: '127.0.0.1:0'}
plugins: [{name: demo, type: demo}]
intents: {bench.echo: {tool: echo}}
a2a:
  listen: '127.0.0.1:0'
  policy: {rate_limit: 10000000, rate_period: 1}
telemetry: {log: error}
";

fn main() -> ExitCode {
    match Arguments::read("bridge").and_then(|arguments| run(&arguments)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bridge: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> io::Result<()> {
    let rounds = if arguments.smoke { SMOKE } else { FULL };
    let cpus = Cpus::of_this_process()?;
    let mut all = Vec::new();
    for pinning in Pinning::ALL {
        if let Err(error) = cpus.be_client(pinning) {
            println!("\n{}: left out, {error}", pinning.name());
            continue;
        }
        all.push(compare(&arguments.programs, (&cpus, pinning), rounds)?);
    }
    cpus.be_free()?;
    if let Some(out) = &arguments.out {
        fs::create_dir_all(out)?;
        fs::write(out.join("bridge.json"), format!("{:#}\n", json!(all)))?;
        println!("see {}/bridge.json", out.display());
    }
    Ok(())
}

/// Measures the whole and its parts by turns, and shows them.
fn compare(
    programs: &Programs,
    (cpus, pinning): (&Cpus, Pinning),
    rounds: usize,
) -> io::Result<Value> {
    let frith = programs.own.join("frith");
    cpus.be_server()?;
    let b = Node::start(&frith, OFFER)?;
    cpus.be_client(pinning)?;
    let a = Node::start(&frith, &asking(&b)?)?;
    let mut agent = Agent::of(&a)?;
    let mut peer = Client::start(&mut asker(programs, &b)?)?;
    let tool = Tool::new()?;
    // Sessions are there before anything is measured.
    agent.call("there")?;
    peer.tell(1, Duration::ZERO)?;
    let [mut here, mut between, mut inside, mut through] = [(); 4].map(|()| Vec::new());
    for _ in 0..rounds {
        here.push(timed(|| agent.call("echo"))?);
        // As long as a call takes.
        between.push(1.0 / peer.tell(1, Duration::ZERO)?.rate);
        inside.push(timed(|| tool.call())?);
        through.push(timed(|| agent.call("there"))?);
    }
    let parts = [
        ("A2E: an agent calls a tool of its node", median(here)),
        ("A2A: a node asks another", median(between)),
        ("the tool, as a node calls it for another", median(inside)),
    ];
    let whole = median(through);
    let ratio = whole / parts.iter().map(|(_, seconds)| seconds).sum::<f64>();
    let all = parts
        .into_iter()
        .chain([("through both: agent, node, node, tool", whole)]);
    let shown: Vec<Figure> = all
        .map(|(name, seconds)| Figure::new(name, seconds * 1e6, "µs", None))
        .collect();
    let (table, _) = figures(pinning.name(), &shown);
    println!("{table}");
    let mark = if ratio > AT_MOST { " !" } else { "" };
    println!("the whole is {ratio:.2}x the sum of its parts, at most {AT_MOST:.2}x{mark}");
    let shown: Vec<Value> = shown.iter().map(Figure::to_json).collect();
    Ok(json!({"pinning": pinning.name(), "figures": shown, "ratio": ratio, "at_most": AT_MOST}))
}

/// A: knows B by its DID, and the authority that B's certificate is by.
fn asking(b: &Node) -> io::Result<String> {
    let (did, url) = (b.endpoint("did", "")?, b.endpoint("a2a", "")?);
    let authority = b.authority();
    Ok(format!(
        "server: {{listen: '127.0.0.1:0'}}
plugins: [{{name: tools, type: tools}}, {{name: demo, type: demo}}]
a2a: {{listen: '127.0.0.1:0', tls: {{roots: ['{}']}}}}
peers:
  beta:
    did: '{did}'
    url: '{url}'
    intents:
      bench.echo: {{tool: there, description: Echoes, parameters: {{text: {{type: string}}}}}}
telemetry: {{log: error}}
",
        authority.display()
    ))
}

/// The client of a node, which asks B for an echo.
fn asker(programs: &Programs, b: &Node) -> io::Result<Command> {
    let mut command = Command::new(programs.own.join("a2a_client"));
    command.args(["named", "h2", b.endpoint("a2a", "")?]);
    command.arg(b.authority());
    Ok(command)
}

/// An agent on its node's Unix socket.
struct Agent {
    wire: BufReader<UnixStream>,
    calls: u64,
}

impl Agent {
    fn of(node: &Node) -> io::Result<Self> {
        let stream = UnixStream::connect(node.endpoint("unix", "unix:")?)?;
        let mut agent = Self {
            wire: BufReader::new(stream),
            calls: 0,
        };
        let hello = json!({"type": "handshake/req", "id": "h", "agent_caps": ["tools"],
            "auth_token": node.token()?});
        let answer = agent.ask(&hello)?;
        match answer.get("ok").and_then(Value::as_bool) {
            Some(true) => Ok(agent),
            _ => Err(io::Error::other(format!("not let in: {answer}"))),
        }
    }

    fn ask(&mut self, message: &Value) -> io::Result<Value> {
        // In one piece: each write is a system call.
        self.wire
            .get_mut()
            .write_all(format!("{message}\n").as_bytes())?;
        let mut line = String::new();
        self.wire.read_line(&mut line)?;
        Ok(serde_json::from_str(&line)?)
    }

    /// Calls a tool, which gives back what it is given.
    fn call(&mut self, tool: &str) -> io::Result<()> {
        self.calls += 1;
        let arguments = json!({"text": "grey fox"});
        let answer = self.ask(
            &json!({"type": "tool/call/req", "id": format!("c{}", self.calls),
            "tool_name": tool, "arguments": arguments, "streaming": false}),
        )?;
        match answer.pointer("/data/data") == Some(&arguments) {
            true => Ok(()),
            false => Err(io::Error::other(format!("no echo: {answer}"))),
        }
    }
}

/// The tool, called as a node calls it for whoever asks it over A2A.
struct Tool {
    runtime: Runtime,
    asker: StandIn,
    calls: Cell<u64>,
    log: Log,
    _folder: TempDir,
}

impl Drop for Tool {
    /// Before its folder goes.
    fn drop(&mut self) {
        self.log.close();
    }
}

impl Tool {
    fn new() -> io::Result<Self> {
        let folder = tempfile::tempdir()?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let _inside = runtime.enter();
        let parts = benches::log::parts().map_err(|error| io::Error::other(error.to_string()))?;
        let log = Log::open(folder.path(), audit::Settings::default(), parts);
        let log = log.map_err(io::Error::other)?;
        let builder = Host::builder().plugin(Demo::default());
        let host = builder.audit(log.clone()).build();
        let asker = host.stand_in(Identity {
            agent: "another".into(),
            proven: None,
        });
        drop(_inside);
        Ok(Self {
            runtime,
            asker,
            calls: Cell::new(0),
            log,
            _folder: folder,
        })
    }

    fn call(&self) -> io::Result<()> {
        let number = self.calls.replace(self.calls.get() + 1);
        let arguments = Object::from_serialize(&json!({"text": "grey fox"}));
        let request = ToolCallRequest {
            tool_name: "echo".into(),
            arguments: arguments.map_err(io::Error::other)?,
            ..ToolCallRequest::new()
        };
        let asked = self.asker.ask(format!("c{number}"), request, None);
        match self.runtime.block_on(asked) {
            Ok(Body::ToolCallResponse(_)) => Ok(()),
            other => Err(io::Error::other(format!("no echo: {other:?}"))),
        }
    }
}

/// Seconds of a call.
fn timed(call: impl FnOnce() -> io::Result<()>) -> io::Result<f64> {
    let start = Instant::now();
    call()?;
    Ok(start.elapsed().as_secs_f64())
}

//! Frith: one runtime for an agent's environment (A2E) and for its peers (A2A).

/// Tells whoever ran the command something that is not its result, in a line on standard error.
macro_rules! tell {
    ($($text:tt)*) => {
        $crate::screen::tell(format_args!($($text)*))
    };
}

mod agent;
mod agents;
mod approvals;
mod audit;
mod bench;
mod book;
mod capabilities;
mod chain;
mod check;
mod components;
mod config;
mod configured;
mod connect;
mod data;
mod database;
mod demo;
mod diff;
mod doctor;
mod endorse;
mod env;
mod hint;
mod hooks;
mod id;
mod inbox;
mod init;
mod interrupt;
mod key_mode;
mod keystore;
mod learn;
mod log;
mod log_file;
mod manifest;
mod manual;
#[cfg(feature = "mcp")]
mod mcp;
#[cfg(feature = "mcp")]
mod mcp_servers;
mod memory;
mod node;
mod notify;
mod otlp;
mod own;
mod peer;
mod pending;
mod plan;
mod policy;
mod post;
mod progress;
mod resolve;
mod run;
mod screen;
mod send;
mod skill;
mod status;
mod stdio;
mod token;
mod toolkits;
mod trust;
mod types;
mod up;
mod vault;
mod watch;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use crate::interrupt::Interrupted;

/// Half of what a host does with a small message is to allocate for it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// One runtime for an AI agent's two relationships: with its environment (A2E: tools, memory,
/// processes, environments and more, as typed NDJSON) and with other agents (A2A trust protocol:
/// DID identity, signed manifests, agreed policy, audited intents).
#[derive(Debug, Parser)]
#[command(name = "frith", version, after_help = AFTER_HELP)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,

    /// Write JSON for programs instead of text for people: one value for each command, an array for
    /// a list, and a value in each line for what comes one by one (events, `send`, `check`, `audit
    /// tail` and `audit export`)
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show in less than a minute what this is for, with real commands on two nodes of its own
    #[command(after_help = DEMO_EXIT_STATUS)]
    Demo(demo::Arguments),
    /// Write a first configuration for a folder, with what is found there, and give the node its identity
    #[command(after_help = EXIT_STATUS)]
    Init(init::Arguments),
    /// Start the node: an A2E host for agents on this machine, and a port for other nodes
    #[command(after_help = UP_EXIT_STATUS)]
    Up(up::Arguments),
    /// Show how the node is that runs: sessions, peers, sandbox, store, audit log
    #[command(after_help = EXIT_STATUS)]
    Status(status::Arguments),
    /// Be an A2E host for the process that started this one: NDJSON on standard input and output
    #[command(after_help = EXIT_STATUS)]
    Stdio(stdio::Arguments),
    /// Be an MCP server for the process that started this one, with what a host has; or look after those
    /// that the node uses: list, show, test, add, remove, restart, logs, config, login, logout
    #[cfg(feature = "mcp")]
    #[command(after_help = EXIT_STATUS)]
    Mcp(mcp::McpArguments),
    /// Not in this program: be an MCP server
    #[cfg(not(feature = "mcp"))]
    #[command(hide = true)]
    Mcp {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<String>,
    },
    /// Ask whether a host is there
    #[command(after_help = EXIT_STATUS)]
    Ping(connect::Arguments),
    /// Show which capabilities a host has
    #[command(after_help = EXIT_STATUS)]
    Caps(connect::Arguments),
    /// List the tools of a host, or those that fit some words, the best first; approve changed ones
    #[command(after_help = EXIT_STATUS)]
    Tools(agent::ToolsArguments),
    /// Call a tool of a host
    #[command(after_help = EXIT_STATUS)]
    Call(agent::CallArguments),
    /// List the toolkits of a node, show one, or configure it
    #[command(after_help = EXIT_STATUS)]
    Toolkits(toolkits::Arguments),
    /// What an agent remembers: search, get, put, forget, stats, export, import
    #[command(after_help = EXIT_STATUS)]
    Memory(memory::Arguments),
    /// Run a chain of calls that a file describes
    #[command(after_help = EXIT_STATUS)]
    Chain(chain::Arguments),
    /// Run a program in the sandbox of a node: its output as it comes, and its exit status
    #[command(after_help = RUN_EXIT_STATUS)]
    Run(run::Arguments),
    /// What an agent has learned: stats, adapt, history, rollback, export
    #[command(after_help = EXIT_STATUS)]
    Learn(learn::Arguments),
    /// Plans of the agents of a node: create, list, board, add, move, show, remove
    #[command(after_help = EXIT_STATUS)]
    Plan(plan::Arguments),
    /// Environments of a host: list them, or play in one with the keyboard
    #[command(after_help = EXIT_STATUS)]
    Env(env::Arguments),
    /// Prepared instructions of a node: list, show, run; check those of a folder
    #[command(after_help = EXIT_STATUS)]
    Skill(skill::Arguments),
    /// The agents that agents of a node have: list, show, cancel
    #[command(after_help = EXIT_STATUS)]
    Agents(agents::Arguments),
    /// Show which guards stand around what agents run, and try to get past each
    #[command(after_help = EXIT_STATUS)]
    Doctor(doctor::Arguments),
    /// Measure for a moment what this machine reaches, beside the bare limit
    #[command(after_help = EXIT_STATUS)]
    Bench(bench::Arguments),
    /// Send lines to a host as they are, and print what comes back
    ///
    /// Shakes hands first, unless the first line does. Ends when every request is answered.
    #[command(after_help = SEND_EXIT_STATUS)]
    Send(send::SendArguments),
    /// Say who may come in: make, list and revoke the tokens of agents of a running node
    #[command(after_help = EXIT_STATUS)]
    Token(token::Arguments),
    /// List the calls that need approval, oldest first, or show one
    #[command(after_help = EXIT_STATUS)]
    Approvals(approvals::Arguments),
    /// Approve a call: exactly this one, once
    #[command(after_help = EXIT_STATUS)]
    Approve(approvals::Approve),
    /// Deny a call
    #[command(after_help = EXIT_STATUS)]
    Deny(approvals::Deny),
    /// Rules: try them on calls without doing anything, explain a decision of the past
    #[command(after_help = EXIT_STATUS)]
    Policy(policy::Arguments),
    /// The configuration: check it, show which keys there are, have a running node apply it
    #[command(after_help = EXIT_STATUS)]
    Config(config::Arguments),
    /// What agents did: tail, verify, export, purge, stats
    #[command(after_help = EXIT_STATUS)]
    Audit(audit::Arguments),
    /// The node's database: back it up, or check it
    #[command(after_help = EXIT_STATUS)]
    Store(database::Arguments),
    /// List the messages of the A2E protocol, or show one of them
    #[command(after_help = EXIT_STATUS)]
    Types(types::Arguments),
    /// Check A2E messages: one JSON object per line, from a file or standard input
    #[command(after_help = EXIT_STATUS)]
    Check(check::Arguments),
    /// The A2A identities of this user: new, show, list, rotate, revoke, export, import
    #[command(after_help = EXIT_STATUS)]
    Id(id::Arguments),
    /// An agent's signed description of itself: init, show, sign, verify
    #[command(after_help = EXIT_STATUS)]
    Manifest(manifest::Arguments),
    /// Show what a DID leads to, or what must be fetched to know
    #[command(after_help = EXIT_STATUS)]
    Resolve(resolve::Arguments),
    /// Vouch for another agent
    #[command(after_help = EXIT_STATUS)]
    Endorse(endorse::Arguments),
    /// Other agents: remember them, shake hands, have them do something
    #[command(after_help = EXIT_STATUS)]
    Peer(peer::Arguments),
    /// Whose word counts, what agents must show, who is blocked: list, anchors, pins, block, unblock
    #[command(after_help = EXIT_STATUS)]
    Trust(trust::Arguments),
    /// Print what a shell needs to complete these commands
    #[command(after_help = EXIT_STATUS)]
    Completions(manual::CompletionsArguments),
    /// Print a manual page, or write one for each command
    #[command(after_help = EXIT_STATUS)]
    Man(manual::ManArguments),
}

/// How a command ended.
enum Outcome {
    /// All is well.
    Good,
    /// Something was found wrong, and said.
    Bad,
    /// The command line asks for what does not exist.
    WrongArguments(String),
    /// As another program did.
    Exit(u8),
}

const EXIT_STATUS: &str = "\
Exit status: 0 all is well, 1 something was found wrong or could not be reached, 2 the command line was
wrong; 130 (Ctrl-C) or 143 (SIGTERM) it was interrupted, and the host told to stop.";

const DEMO_EXIT_STATUS: &str = "\
It asks nothing, works in a directory of its own below $TMPDIR, on free ports, and removes everything at its
end, also after Ctrl-C.

Exit status: 0 every step did what it shows, 1 one did not, 2 the command line was wrong, 130 (Ctrl-C) or
143 (SIGTERM) it was interrupted.";

const UP_EXIT_STATUS: &str = "\
Exit status: 0 it was told to stop (Ctrl-C or SIGTERM), 1 something was found wrong, 2 the command line was
wrong.";

const RUN_EXIT_STATUS: &str = "\
Exit status: that of the program, or 128 and the signal that ended it; 1 also if it could not be run or
the node went away, 2 if the command line was wrong; 130 (Ctrl-C) or 143 (SIGTERM) if this command was
interrupted, which ends the program.";

const SEND_EXIT_STATUS: &str = "\
Exit status: 0 every request was answered (be it with an error: the lines say), 1 one was not, or the host
could not be reached, 2 the command line was wrong.";

const AFTER_HELP: &str = "\
Try:
  frith demo
  frith init
  frith up &
  frith status
  frith tools
  frith tools file
  frith call run_command '{\"command\":\"uname -a\"}'
  frith run -- python3 -c 'print(6 * 7)'
  frith audit tail && frith audit verify
  frith doctor
  echo '{\"type\":\"ping\",\"id\":\"1\"}' | frith send -
  frith types tool/call/req
  echo '{\"type\":\"ping\",\"id\":5}' | frith check      # finds that an id must be a string
  frith id new me && frith manifest init --id me && frith manifest verify agent-manifest.json

README.md and docs/ of the project say more, `frith COMMAND --help` all about a command.

Exit status: 0 all is well, 1 something was found wrong or could not be reached, 2 the command line was
wrong, 130 or 143 it was interrupted; a node that was told to stop has 0, `frith run` that of its
program.";

fn main() -> ExitCode {
    // Before anything else: this process may be one that guards what an agent runs, or runs its query.
    sandbox::enter_if_asked();
    a2e_caps::toolkits::enter_if_asked();
    // Where everybody is given huge pages, an idle node would use a fraction of each. A kernel that knows
    // none needs no telling.
    let _ = rustix::thread::disable_transparent_huge_pages(true);
    let arguments = Arguments::parse();
    let outcome = match arguments.command {
        Some(Command::Demo(options)) => demo::run(&options, arguments.json),
        Some(Command::Init(options)) => init::run(&options, arguments.json),
        Some(Command::Up(options)) => up::run(&options, arguments.json),
        Some(Command::Status(options)) => status::run(&options, arguments.json),
        Some(Command::Stdio(options)) => stdio::run(&options),
        #[cfg(feature = "mcp")]
        Some(Command::Mcp(options)) => mcp::run(&options, arguments.json),
        #[cfg(not(feature = "mcp"))]
        Some(Command::Mcp { .. }) => Err(anyhow::anyhow!(
            "`frith mcp` is a command that {}",
            a2e_caps::FULL_BUILD
        )),
        Some(Command::Ping(host)) => agent::ping(&host, arguments.json),
        Some(Command::Caps(host)) => agent::caps(&host, arguments.json),
        Some(Command::Tools(host)) => agent::tools(&host, arguments.json),
        Some(Command::Call(call)) => agent::call(&call, arguments.json),
        Some(Command::Toolkits(options)) => toolkits::run(&options, arguments.json),
        Some(Command::Memory(options)) => memory::run(&options, arguments.json),
        Some(Command::Chain(options)) => chain::run(&options, arguments.json),
        Some(Command::Run(options)) => run::run(&options),
        Some(Command::Learn(options)) => learn::run(&options, arguments.json),
        Some(Command::Plan(options)) => plan::run(&options, arguments.json),
        Some(Command::Env(options)) => env::run(&options, arguments.json),
        Some(Command::Skill(options)) => skill::run(&options, arguments.json),
        Some(Command::Agents(options)) => agents::run(&options, arguments.json),
        Some(Command::Doctor(options)) => doctor::run(&options, arguments.json),
        Some(Command::Bench(options)) => bench::run(&options, arguments.json),
        Some(Command::Send(options)) => send::run(&options),
        Some(Command::Token(options)) => token::run(&options, arguments.json),
        Some(Command::Approvals(options)) => approvals::run(&options, arguments.json),
        Some(Command::Approve(options)) => approvals::approve(&options, arguments.json),
        Some(Command::Deny(options)) => approvals::deny(&options, arguments.json),
        Some(Command::Policy(options)) => policy::run(&options, arguments.json),
        Some(Command::Config(options)) => config::run(&options, arguments.json),
        Some(Command::Audit(options)) => audit::run(&options, arguments.json),
        Some(Command::Store(options)) => database::run(&options, arguments.json),
        Some(Command::Types(options)) => types::run(&options, arguments.json),
        Some(Command::Check(options)) => check::run(&options, arguments.json),
        Some(Command::Id(options)) => id::run(&options, arguments.json),
        Some(Command::Manifest(options)) => manifest::run(&options, arguments.json),
        Some(Command::Resolve(options)) => resolve::run(&options, arguments.json),
        Some(Command::Endorse(options)) => endorse::run(&options),
        Some(Command::Peer(options)) => peer::run(&options, arguments.json),
        Some(Command::Trust(options)) => trust::run(&options, arguments.json),
        Some(Command::Completions(options)) => manual::completions(&options, Arguments::command()),
        Some(Command::Man(options)) => manual::man(&options, Arguments::command()),
        None => help(),
    };
    match outcome {
        Ok(Outcome::Good) => ExitCode::SUCCESS,
        Ok(Outcome::Bad) => ExitCode::from(1),
        Ok(Outcome::Exit(code)) => ExitCode::from(code),
        Ok(Outcome::WrongArguments(message)) => {
            tell!("frith: {}", screen::message(message));
            ExitCode::from(2)
        }
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            let text = hint::for_people(&format!("{error:#}"));
            tell!("frith: {}", screen::message(text));
            if let Some(hint) = hint::of_file(&error).or_else(|| hint::of_host(&error)) {
                tell!("{}", screen::message(hint));
            }
            match error.downcast_ref::<Interrupted>() {
                Some(interrupted) => ExitCode::from(interrupted.exit_code()),
                None => ExitCode::from(1),
            }
        }
    }
}

fn help() -> anyhow::Result<Outcome> {
    Arguments::command().print_long_help()?;
    Ok(Outcome::Good)
}

/// Whether the reader of our output has seen enough, as `head` has; that is no error.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<std::io::Error>()
        .is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}

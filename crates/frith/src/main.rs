//! Frith: one runtime for an agent's environment (A2E) and for its peers (A2A).
#![expect(
    clippy::print_stderr,
    reason = "this is the command line; libraries never print"
)]

mod check;
mod nearest;
mod types;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

/// One runtime for an AI agent's two relationships: with its environment (A2E: tools, memory,
/// processes, environments and more, as typed NDJSON) and with other agents (A2A trust protocol:
/// DID identity, signed manifests, agreed policy, audited intents).
#[derive(Debug, Parser)]
#[command(name = "frith", version, after_help = AFTER_HELP)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,

    /// Write JSON for programs instead of text for people
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the messages of the A2E protocol, or show one of them
    #[command(after_help = EXIT_STATUS)]
    Types(types::Arguments),
    /// Check A2E messages: one JSON object per line, from a file or standard input
    #[command(after_help = EXIT_STATUS)]
    Check(check::Arguments),
}

/// How a command ended.
enum Outcome {
    /// All is well.
    Good,
    /// Something was found wrong, and said.
    Bad,
    /// The command line asks for what does not exist.
    WrongArguments(String),
}

const EXIT_STATUS: &str = "\
Exit status: 0 all is well, 1 something was found wrong or could not be read, 2 the command line was
wrong.";

const AFTER_HELP: &str = "\
Frith is young: today it has the complete A2E wire format and these two commands. The host, the
client and the node that talks to other agents come next (see README.md).

Try:
  frith types
  frith types tool/call/req
  echo '{\"type\":\"ping\",\"id\":5}' | frith check      # finds that an id must be a string

Exit status: 0 all is well, 1 something was found wrong or could not be read, 2 the command line was
wrong.";

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let outcome = match arguments.command {
        Some(Command::Types(options)) => types::run(&options, arguments.json),
        Some(Command::Check(options)) => check::run(&options, arguments.json),
        None => help(),
    };
    match outcome {
        Ok(Outcome::Good) => ExitCode::SUCCESS,
        Ok(Outcome::Bad) => ExitCode::from(1),
        Ok(Outcome::WrongArguments(message)) => {
            eprintln!("frith: {message}");
            ExitCode::from(2)
        }
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("frith: {error:#}");
            ExitCode::from(1)
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

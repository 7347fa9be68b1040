//! The gates of this workspace. `cargo xtask` lists them.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "this is a command line"
)]

mod bench;
mod conformance;
mod dist;
mod full;
mod fuzz;
mod npm;
mod python;
mod step;
mod test;
mod tools;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask COMMAND

  test                      what every push must pass
  full                      what an issue must pass: each feature alone, the long tests, live fuzzing,
                            benchmarks
  conformance               write docs/conformance.md: the tests of each statement of the documents
  fuzz [TARGET] [SECONDS]   fuzz one target or all, 60 seconds each unless told
  bench [SUITE]             measure against the peers and the bare limit: wire, identity, policy,
                            audit, store, memory, learn, mcp, tools, chain, env, a2e, a2a,
                            a2a-load, bridge
  dist [PROGRAM]            an archive of the program with completions, pages and the systemd unit,
                            its SHA-256 and install.sh, installed and tried where nothing else is;
                            of the release build unless a program is given";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match words.as_slice() {
        ["test"] => test::run(),
        ["full"] => full::run(),
        ["conformance"] => conformance::run(),
        ["fuzz", rest @ ..] => fuzz::run(rest),
        ["bench", rest @ ..] => bench::run(rest),
        ["dist", rest @ ..] => dist::run(rest),
        [] | ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            Ok(())
        }
        [unknown, ..] => {
            eprintln!("xtask: there is no `{unknown}`, or it takes no such words\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("xtask: {message}");
            ExitCode::from(1)
        }
    }
}

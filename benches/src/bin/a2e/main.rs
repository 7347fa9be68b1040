//! An A2E host end to end, over every transport, beside the bare limits and MCP.
//!
//! usage: a2e [--smoke] [--only TRANSPORT] [--out FOLDER] [--peers FOLDER] [--python PROGRAM SCRIPT]
//!
//! Everything runs in turns, several times, in one run; what counts is the ratio of two medians.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "this is a report"
)]

mod clients;
mod contest;
mod http;
mod idle;
mod lines;
mod load;
mod pin;
mod plot;
mod report;
mod servers;
mod websocket;

use std::fs;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use benches::Effort;

use contest::{Contest, Transport};
use idle::Extent;
use pin::{Cpus, Pinning};
use report::Outcome;
use servers::Programs;

/// How much to measure.
struct Plan {
    effort: Effort,
    extent: Extent,
}

struct Arguments {
    plan: Plan,
    programs: Programs,
    /// The one transport to measure.
    only: Option<Transport>,
    out: Option<PathBuf>,
}

const FULL: Plan = Plan {
    effort: Effort {
        rounds: 15,
        slice: Duration::from_millis(60),
    },
    extent: Extent {
        sessions: 10_000,
        starts: 21,
    },
};

const SMOKE: Plan = Plan {
    effort: Effort {
        rounds: 1,
        slice: Duration::from_millis(5),
    },
    extent: Extent {
        sessions: 20,
        starts: 1,
    },
};

fn main() -> ExitCode {
    match arguments().and_then(|arguments| run(&arguments)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("a2e: {error}");
            ExitCode::FAILURE
        }
    }
}

fn arguments() -> io::Result<Arguments> {
    const USAGE: &str = "usage: a2e [--smoke] [--only TRANSPORT] [--out FOLDER] [--peers FOLDER] [--python PROGRAM SCRIPT]";
    let program = std::env::current_exe()?;
    let mut arguments = Arguments {
        plan: FULL,
        programs: Programs {
            own: program.parent().map(PathBuf::from).unwrap_or_default(),
            peers: None,
            python: None,
        },
        only: None,
        out: None,
    };
    let mut words = std::env::args().skip(1);
    let wrong = || io::Error::other(USAGE);
    while let Some(word) = words.next() {
        if word == "--only" {
            let name = words.next().unwrap_or_default();
            arguments.only = Some(Transport::named(&name).ok_or_else(wrong)?);
            continue;
        }
        let mut path = || words.next().map(PathBuf::from).ok_or_else(wrong);
        match word.as_str() {
            "--smoke" => arguments.plan = SMOKE,
            "--out" => arguments.out = Some(path()?),
            "--peers" => arguments.programs.peers = Some(path()?),
            "--python" => arguments.programs.python = Some((path()?, path()?)),
            _ => return Err(wrong()),
        }
    }
    if !arguments.programs.own.join("frith").exists() {
        let folder = arguments.programs.own.display();
        return Err(io::Error::other(format!(
            "there is no frith in {folder}; run `cargo build --package frith` in the same profile"
        )));
    }
    Ok(arguments)
}

fn run(arguments: &Arguments) -> io::Result<()> {
    let Arguments {
        plan,
        programs,
        only,
        out,
    } = arguments;
    let cpus = Cpus::of_this_process()?;
    let mut outcomes = Vec::new();
    let mut missed = 0;
    for pinning in Pinning::ALL {
        cpus.be_server()?;
        let mut contest = Contest::start(programs)?;
        if let Some(only) = only {
            contest.keep(*only);
        }
        if let Err(error) = cpus.be_client(pinning) {
            println!("\n{}: left out, {error}", pinning.name());
            continue;
        }
        for _ in 0..plan.effort.rounds {
            contest.round(plan.effort.slice)?;
        }
        let outcome = Outcome::new(pinning, &contest.contestants);
        let (table, more) = outcome.table();
        println!("{table}");
        missed += more;
        outcomes.push(outcome);
    }
    cpus.be_free()?;
    if only.is_some() {
        return Ok(());
    }
    let figures = idle::measure(programs, plan.extent)?;
    let (table, more) = report::idle_table(&figures);
    println!("{table}");
    println!("{} targets missed (!)", missed + more);
    if let Some(out) = out {
        fs::create_dir_all(out)?;
        fs::write(out.join("a2e.svg"), plot::svg(&outcomes))?;
        let json = report::to_json(&outcomes, &figures);
        fs::write(out.join("a2e.json"), format!("{json:#}\n"))?;
        println!("see {}/a2e.svg and a2e.json", out.display());
    }
    Ok(())
}

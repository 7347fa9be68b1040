//! An A2E host end to end, over every transport, beside the bare limits and MCP.
//!
//! usage: a2e [--smoke] [--only TRANSPORT] [--out FOLDER] [--peers FOLDER] [--python PROGRAM SCRIPT]
//!
//! Everything is started several times and runs in turns, in one run; what counts is the median of the ratios of neighbours.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "this is a report"
)]

mod contest;
mod http;
mod idle;
mod lines;
mod load;
mod plot;
mod report;
mod servers;
mod websocket;

use std::fs;
use std::io;
use std::process::ExitCode;

use benches::arguments::Arguments;
use benches::pin::{Cpus, Pinning};
use benches::{Heats, report as shared};

use contest::{Contest, Transport};
use idle::Extent;
use report::Outcome;

/// How much to measure.
struct Plan {
    heats: Heats,
    extent: Extent,
}

const FULL: Plan = Plan {
    heats: Heats::FULL,
    extent: Extent {
        sessions: 10_000,
        starts: 21,
    },
};

const SMOKE: Plan = Plan {
    heats: Heats::SMOKE,
    extent: Extent {
        sessions: 20,
        starts: 1,
    },
};

fn main() -> ExitCode {
    match Arguments::read("a2e").and_then(|arguments| run(&arguments)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("a2e: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> io::Result<()> {
    let Arguments {
        smoke,
        programs,
        only,
        out,
    } = arguments;
    let plan = if *smoke { SMOKE } else { FULL };
    let only = match only {
        None => None,
        Some(name) => Some(
            Transport::named(name)
                .ok_or_else(|| io::Error::other(format!("there is no transport `{name}`")))?,
        ),
    };
    let cpus = Cpus::of_this_process()?;
    let mut outcomes = Vec::new();
    let mut missed = 0;
    for pinning in Pinning::ALL {
        if let Err(error) = cpus.be_client(pinning) {
            println!("\n{}: left out, {error}", pinning.name());
            continue;
        }
        let mut scores = Vec::new();
        for _ in 0..plan.heats.heats {
            let mut contest = Contest::start(programs, (&cpus, pinning), only)?;
            contest.turns.run(plan.heats.each)?;
            contest.turns.add_to(&mut scores);
        }
        let outcome = Outcome::new(pinning, &scores);
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
    let (table, more) = shared::figures("at rest", &figures);
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

//! A2A end to end, over every transport, beside bare axum, the floor of signatures, and two SDKs of
//! Google's protocol.
//!
//! usage: a2a [--smoke] [--only TRANSPORT] [--out FOLDER] [--peers FOLDER] [--python PROGRAM FOLDER]
//!
//! Everything is started several times and runs in turns, in one run; what counts is the median of the ratios of neighbours. Each
//! contestant is a server and a client of its own, in processes of their own. Ours are a node as
//! `frith up` starts it and the client of another, both with an audit log at the default `sync`. The
//! floor sends messages of the same sizes over the same TLS, with as many signatures and strict
//! verifications.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "this is a report"
)]

mod checks;
mod contest;
mod idle;
mod node;
mod report;

use std::fs;
use std::io;
use std::process::ExitCode;

use benches::arguments::Arguments;
use benches::pin::{Cpus, Pinning};
use benches::{Effort, Heats, report as shared};

use contest::{Contest, Transport};
use report::Outcome;

/// How much to measure.
struct Plan {
    heats: Heats,
    /// Sessions that are open at once.
    sessions: usize,
    checks: Effort,
}

const FULL: Plan = Plan {
    heats: Heats::FULL,
    sessions: 2000,
    checks: Effort::FULL,
};

const SMOKE: Plan = Plan {
    heats: Heats::SMOKE,
    sessions: 10,
    checks: Effort::SMOKE,
};

fn main() -> ExitCode {
    match Arguments::read("a2a").and_then(|arguments| run(&arguments)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("a2a: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> io::Result<()> {
    let plan = if arguments.smoke { SMOKE } else { FULL };
    let only = match &arguments.only {
        None => None,
        Some(name) => Some(Transport::named(name)?),
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
        let mut sizes = String::new();
        for _ in 0..plan.heats.heats {
            let mut contest = Contest::start(&arguments.programs, (&cpus, pinning), only)?;
            contest.turns.run(plan.heats.each)?;
            contest.turns.add_to(&mut scores);
            sizes = contest.sizes;
        }
        let outcome = Outcome::new(pinning, sizes, &scores);
        let (table, more) = outcome.table();
        println!("{table}");
        missed += more;
        outcomes.push(outcome);
    }
    cpus.be_free()?;
    if only.is_some() {
        return Ok(());
    }
    let mut figures = idle::measure(&arguments.programs, plan.sessions)?;
    figures.extend(checks::measure(plan.checks)?);
    let (table, more) = shared::figures("at rest, and one check", &figures);
    println!("{table}");
    println!("{} targets missed (!)", missed + more);
    if let Some(out) = &arguments.out {
        fs::create_dir_all(out)?;
        let json = report::to_json(&outcomes, &figures);
        fs::write(out.join("a2a.json"), format!("{json:#}\n"))?;
        println!("see {}/a2a.json", out.display());
    }
    Ok(())
}

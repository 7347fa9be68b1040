//! Environments end to end: a step beside a call of the echo tool over the same transport, many steps
//! at once, and Gymnasium and OpenEnv beside them.
//!
//! usage: env [--smoke] [--out FOLDER] [--python PROGRAM SCRIPT]
//!
//! Everything runs in turns, several times, in one run; what counts is the ratio of two medians.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "this is a report"
)]

use std::fs;
use std::io;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Duration;

use benches::arguments::{Arguments, Programs};
use benches::client::{Client, Slice};
use benches::node::Node;
use benches::pin::{Cpus, Pinning};
use benches::report::{Medians, short, whole};
use serde_json::{Value, json};

/// Without the audit log: what a record costs is measured elsewhere.
const CONFIGURATION: &str = "\
audit: false
a2a: false
plugins: [{name: demo, type: demo}, {name: env, type: env}]
server: {listen: '127.0.0.1:0', tcp: '127.0.0.1:0'}
telemetry: {log: warn}
";
const IN_FLIGHT: [usize; 3] = [1, 16, 64];
const BATCH: usize = 1000;
/// Batches in flight: as many as a session may have, so that neither side waits for the other.
const BATCHES: usize = 4;
/// What a batch must reach, in steps a second.
const BATCH_TARGET: f64 = 500_000.0;
/// How many times as many steps a second as OpenEnv there must be, each at its best.
const OPENENV_TARGET: f64 = 20.0;

/// Something that is measured.
struct Contestant {
    name: String,
    client: Client,
    in_flight: usize,
    /// Steps of one call.
    steps: f64,
    slices: Vec<Slice>,
}

impl Contestant {
    /// For how long it has its turn. A batch is many steps: in the time of a step's turn there are
    /// too few of them to tell their rate from how they begin and end.
    fn slice(&self, of_steps: Duration) -> Duration {
        match self.steps > 1.0 {
            true => of_steps.saturating_mul(4),
            false => of_steps,
        }
    }
}

fn main() -> ExitCode {
    match Arguments::read("env").and_then(|arguments| run(&arguments)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("env: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> io::Result<()> {
    let (rounds, slice) = match arguments.smoke {
        true => (1, Duration::from_millis(5)),
        false => (15, Duration::from_millis(100)),
    };
    let cpus = Cpus::of_this_process()?;
    let mut reports = Vec::new();
    for pinning in Pinning::ALL {
        cpus.be_server()?;
        let node = Node::start(&arguments.programs.own.join("frith"), CONFIGURATION)?;
        if let Err(error) = cpus.be_client(pinning) {
            println!("\n{}: left out, {error}", pinning.name());
            continue;
        }
        let mut all = contestants(&arguments.programs, &node, &cpus)?;
        for _ in 0..rounds {
            for it in &mut all {
                it.slices
                    .push(it.client.tell(it.in_flight, it.slice(slice))?);
            }
        }
        reports.push(report(pinning, &all));
    }
    cpus.be_free()?;
    if let Some(out) = &arguments.out {
        fs::create_dir_all(out)?;
        fs::write(out.join("env.json"), format!("{:#}\n", json!(reports)))?;
        println!("see {}/env.json", out.display());
    }
    Ok(())
}

fn contestants(programs: &Programs, node: &Node, cpus: &Cpus) -> io::Result<Vec<Contestant>> {
    let config = tempfile::NamedTempFile::with_suffix(".yaml")?;
    fs::write(config.path(), CONFIGURATION)?;
    let stdio = format!(
        "cmd:{}{} stdio --config {}",
        cpus.server_words(),
        programs.own.join("frith").display(),
        config.path().display()
    );
    let http = format!("http://{}", node.endpoint("http", "http://")?);
    let tcp = format!("tcp:{}", node.endpoint("tcp", "tcp:")?);
    let token = node.token()?;
    let ways = [
        ("stdio", &stdio, ""),
        ("TCP", &tcp, &*token),
        ("HTTP", &http, &*token),
    ];
    let mut all = Vec::new();
    let mut add = |name: String, command: &mut Command, in_flight, steps| {
        let client = Client::start(command)?;
        all.push(Contestant {
            name,
            client,
            in_flight,
            steps,
            slices: Vec::new(),
        });
        io::Result::Ok(())
    };
    for (way, address, token) in ways {
        for in_flight in IN_FLIGHT {
            for (what, program) in [("echo", "a2e_client"), ("step", "env_client")] {
                let mut command = Command::new(programs.own.join(program));
                let name = format!("{way} {what}, {in_flight} in flight");
                add(name, command.arg(address).arg(token), in_flight, 1.0)?;
            }
        }
        let mut command = Command::new(programs.own.join("env_client"));
        command.arg(address).arg(token).arg(BATCH.to_string());
        add(
            format!("{way} batch of {BATCH}"),
            &mut command,
            BATCHES,
            BATCH as f64,
        )?;
    }
    if let Some((python, script)) = &programs.python {
        add(
            "Gymnasium in process".into(),
            &mut peer(python, script, "gymnasium"),
            1,
            1.0,
        )?;
        for in_flight in [1, 16] {
            let name = format!("OpenEnv step, {in_flight} in flight");
            add(name, &mut peer(python, script, "openenv"), in_flight, 1.0)?;
        }
    }
    // Those that read the configuration have read it when they answer for the first time.
    for it in &mut all {
        it.client.tell(it.in_flight, Duration::ZERO)?;
    }
    Ok(all)
}

fn peer(python: &Path, script: &Path, what: &str) -> Command {
    let mut command = Command::new(python);
    command.arg(script).arg(what);
    command
}

fn report(pinning: Pinning, all: &[Contestant]) -> Value {
    println!(
        "\n{:34} {:>10} {:>9} {:>9}",
        pinning.name(),
        "steps/s",
        "p50 µs",
        "ratio"
    );
    let rate = |name: &str| {
        let found = all.iter().find(|it| it.name == name)?;
        Some(Medians::of(&found.slices).rate * found.steps)
    };
    let mut rows = Vec::new();
    let mut missed = 0;
    for it in all {
        let medians = Medians::of(&it.slices);
        let steps = medians.rate * it.steps;
        let beside = rate(&it.name.replace("step", "echo")).filter(|_| it.name.contains("step,"));
        let ratio = beside.map(|beside| steps / beside);
        let p50 = medians.latency.map(|(half, _)| half * 1e6);
        println!(
            "{:34} {:>10} {:>9} {:>9}",
            it.name,
            whole(Some(steps)),
            short(p50),
            short(ratio)
        );
        rows.push(
            json!({"name": it.name, "steps_per_second": steps, "p50_us": p50, "to_echo": ratio}),
        );
    }
    let mut hold = |name: &str, value: Option<f64>, least: f64| {
        let Some(value) = value else { return };
        let mark = if value < least { " !" } else { "" };
        missed += usize::from(value < least);
        println!("{name:34} {value:>10.1} at least {least}{mark}");
    };
    for way in ["stdio", "TCP"] {
        let batch = rate(&format!("{way} batch of {BATCH}"));
        hold(&format!("{way} batch, steps/s"), batch, BATCH_TARGET);
        let best = |steps: &str| {
            let rates = IN_FLIGHT.map(|count| rate(&format!("{steps}, {count} in flight")));
            rates.into_iter().flatten().max_by(f64::total_cmp)
        };
        let (ours, theirs) = (format!("{way} step"), "OpenEnv step");
        let times = best(&ours)
            .zip(best(theirs))
            .map(|(ours, theirs)| ours / theirs);
        hold(
            &format!("{ours}s to OpenEnv's, times"),
            times,
            OPENENV_TARGET,
        );
        let single = |steps: &str| rate(&format!("{steps}, 1 in flight"));
        if let Some((ours_single, theirs)) = single(&ours).zip(single(theirs)) {
            let times = ours_single / theirs;
            println!("{:34} {times:>10.1}", format!("{ours} one by one, times"));
        }
    }
    println!("{missed} targets missed (!)");
    json!({"pinning": pinning.name(), "rows": rows})
}

//! What programs are put to work with: the benchmarks that start nodes, and an agent that uses the rest.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{ChildStdin, ChildStdout, Command, Stdio};

use crate::bench;
use crate::step::capture;

/// The benchmarks, each with a node and its clients.
const BENCHMARKS: [&str; 4] = ["a2e", "a2a", "env", "bridge"];

/// How often each request of the agent is made.
const ROUNDS: usize = 500;

/// What an agent asks for, over and over. `@` is the number of the round.
const REQUESTS: [&str; 10] = [
    r#""type":"tool/call/req","tool_name":"write_file","arguments":{"path":"@.txt","content":"one\ntwo\nthree @\n"}"#,
    r#""type":"tool/call/req","tool_name":"read_file","arguments":{"path":"@.txt"}"#,
    r#""type":"tool/call/req","tool_name":"edit_file","arguments":{"path":"@.txt","old_text":"two","new_text":"four"}"#,
    r#""type":"tool/call/req","tool_name":"grep","arguments":{"pattern":"four","path":"@.txt"}"#,
    r#""type":"tool/call/req","tool_name":"glob","arguments":{"pattern":"@.*"}"#,
    r#""type":"tool/list/req","query":"find text in files""#,
    r#""type":"memory/store/req","entries":[{"key":"k@","content":"the grey fox number @ runs through the wood","tier":"working","tags":["fox"]}]"#,
    r#""type":"memory/retrieve/req","query":"fox wood @","limit":5"#,
    r#""type":"memory/retrieve/req","keys":["k@"]"#,
    r#""type":"chain/req","entry_node":"a","nodes":[{"node_id":"a","kind":"tool","name":"current_time","input":{},"next_node":"b"},{"node_id":"b","kind":"tool","name":"echo","input":{"text":"@"}}]"#,
];

const HANDSHAKE: &str = r#""type":"handshake/req","agent_caps":["tools","memory","chains","env"]"#;

/// The last line of what a node says when it is up.
const IS_UP: &str = "Ctrl-C stops it.";

/// Puts all programs of a folder to work; each process leaves its counts in another.
pub(super) fn all(programs: &Path, counts: &Path) -> Result<(), String> {
    let file = counts.join("%m-%p.profraw");
    start_twice(programs, &file)?;
    bench::programs(&[&BENCHMARKS[..], &["limit"]].concat())?;
    for name in BENCHMARKS {
        println!("practising with {name}");
        let mut practice = bench::program(name);
        practice.arg("--own").arg(programs);
        let ran = capture(practice.env("LLVM_PROFILE_FILE", &file));
        if !ran.success {
            return Err(format!("{name}: {}", ran.text));
        }
    }
    println!("practising as an agent");
    let data = counts.join("data");
    let failed = |error: std::io::Error| format!("frith stdio: {error}");
    fs::create_dir_all(&data).map_err(failed)?;
    let mut child = Command::new(programs.join("frith"))
        .args(["stdio", "--data"])
        .arg(&data)
        // Away from configurations.
        .current_dir(&data)
        .env("LLVM_PROFILE_FILE", &file)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    let pipes = child.stdin.take().zip(child.stdout.take());
    let (input, output) = pipes.ok_or("frith stdio: no pipes")?;
    let mut agent = Agent {
        input,
        output: BufReader::new(output),
        asked: 0,
    };
    let answered = agent.practise();
    // It ends when nobody can ask it anything more.
    drop(agent);
    child.wait().map_err(failed)?;
    answered.map_err(failed)?;
    // What it wrote is no counts.
    fs::remove_dir_all(&data).map_err(failed)
}

/// Starts a node as it is by default and stops it, for the first time and again.
fn start_twice(programs: &Path, file: &Path) -> Result<(), String> {
    println!("practising to start");
    let data = file.with_file_name("data");
    for _ in 0..2 {
        let mut frith = Command::new(programs.join("frith"));
        start(frith.env("LLVM_PROFILE_FILE", file), &data)?;
    }
    // What it wrote is no counts.
    fs::remove_dir_all(&data).map_err(|error| format!("{}: {error}", data.display()))
}

/// Starts a node as it is by default, by a program or by a debugger, which then says `pid` and its number, and stops it.
pub(super) fn start(program: &mut Command, data: &Path) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("frith up: {error}");
    fs::create_dir_all(data).map_err(failed)?;
    program.args(["up", "--listen", "127.0.0.1:0"]);
    program.args(["--a2a-listen", "127.0.0.1:0", "--data"]);
    // Away from configurations.
    program.arg(data).current_dir(data).stdout(Stdio::piped());
    let mut child = program.spawn().map_err(failed)?;
    let mut node = child.id().to_string();
    let output = child.stdout.take().ok_or("frith up: no pipe")?;
    let mut lines = BufReader::new(output).lines().map_while(Result::ok);
    let is_up = lines.any(|line| {
        if let Some(number) = line.strip_prefix("pid ") {
            number.clone_into(&mut node);
        }
        line == IS_UP
    });
    let stopped = capture(Command::new("kill").arg(node));
    if !is_up || !stopped.success {
        child.kill().map_err(failed)?;
    }
    let ended = child.wait().map_err(failed)?;
    match is_up && stopped.success && ended.success() {
        true => Ok(()),
        false => Err(format!("frith up did not start and stop: {ended}")),
    }
}

/// An agent that asks one thing after another.
struct Agent {
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    asked: usize,
}

impl Agent {
    fn practise(&mut self) -> std::io::Result<()> {
        self.ask(HANDSHAKE)?;
        for round in 0..ROUNDS {
            for request in REQUESTS {
                self.ask(&request.replace('@', &round.to_string()))?;
            }
        }
        Ok(())
    }

    /// Asks, and waits for the answer, which must be none of failure: that would be practised instead.
    fn ask(&mut self, request: &str) -> std::io::Result<()> {
        self.asked += 1;
        let id = format!("practice-{}", self.asked);
        writeln!(self.input, r#"{{"id":"{id}",{request}}}"#)?;
        let answers_it = format!(r#""req_id":"{id}""#);
        loop {
            let mut line = String::new();
            if self.output.read_line(&mut line)? == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
            if line.contains(r#""type":"error""#) || line.contains(r#""success":false"#) {
                return Err(std::io::Error::other(format!("{request}: {line}")));
            }
            if line.contains(&answers_it) && !line.contains("/event\"") {
                return Ok(());
            }
        }
    }
}

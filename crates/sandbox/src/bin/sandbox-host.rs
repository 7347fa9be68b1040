//! A host with one command: what the tests drive, and a way to try a profile by hand.
//!
//! `sandbox-host [option value]... -- program [argument]...` runs a program and says on standard
//! error how it ended; `sandbox-host [option value]... doctor` tries every guard.

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use sandbox::{
    Child, Command, Exit, Input, Launcher, MemoryLevel, Network, Profile, Settings, Size,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt, stdin};

fn main() -> ExitCode {
    sandbox::enter_if_asked();
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let result = match runtime {
        Ok(runtime) => {
            let result = runtime.block_on(run(&arguments));
            // Whoever waits for input would keep it.
            runtime.shutdown_background();
            result
        }
        Err(error) => Err(error.to_string()),
    };
    match result {
        Ok(text) => {
            say(&format!("sandbox: {text}"));
            ExitCode::SUCCESS
        }
        Err(text) => {
            say(&format!("sandbox: error: {text}"));
            ExitCode::FAILURE
        }
    }
}

/// What was asked for.
struct Options {
    script: Option<String>,
    /// Whether the command is to get a sandbox that has waited for it.
    waited: bool,
    settings: Option<Settings>,
    profile: Profile,
    command: Command,
}

async fn run(arguments: &[OsString]) -> Result<String, String> {
    let options = Options::parse(arguments)?;
    let launcher = match options.settings {
        Some(settings) => Launcher::new(settings),
        None => Launcher::none(),
    };
    let launcher = launcher.map_err(|error| error.to_string())?;
    if options.command.program.is_empty() {
        return Ok(doctor(&launcher).await);
    }
    if let Some(script) = &options.script {
        return play(script, &launcher, &options.command, &options.profile).await;
    }
    let waiting = match options.waited {
        true => Some(wait(&launcher, &options.profile).await?),
        false => None,
    };
    let child = launcher.spawn(&options.command, &options.profile).await;
    let child = child.map_err(|error| error.to_string())?;
    if waiting.is_some_and(|waiting| !waiting.contains(&child.pid())) {
        return Err("the command has a new sandbox".into());
    }
    Ok(attend(child).await.to_string())
}

impl Options {
    fn parse(arguments: &[OsString]) -> Result<Self, String> {
        let mut options = Self {
            script: None,
            waited: false,
            settings: Some(Settings::default()),
            profile: Profile::default(),
            command: Command::new(""),
        };
        let mut rest = arguments.iter();
        while let Some(name) = rest.next() {
            if name == "doctor" {
                return Ok(options);
            }
            if name == "--" {
                let program = rest.next().ok_or("a program is missing")?;
                options.command.program = program.clone();
                options.command.args = rest.cloned().collect();
                return Ok(options);
            }
            let name = name.to_string_lossy();
            let value = rest.next().ok_or_else(|| format!("{name} needs a value"))?;
            options.set(&name, value)?;
        }
        Err("-- and a program are missing".into())
    }

    fn set(&mut self, name: &str, value: &OsString) -> Result<(), String> {
        let limits = &mut self.profile.limits;
        let text = value.to_string_lossy();
        let number = || text.parse::<u64>().map_err(|_| format!("{name} {text}?"));
        match name {
            "--read" => self.profile.readable.push(value.into()),
            "--write" => self.profile.writable.push(value.into()),
            "--memory" => limits.memory = number()?,
            "--cpu-seconds" => limits.cpu_seconds = number()?,
            "--processes" => limits.processes = number()?,
            "--open-files" => limits.open_files = number()?,
            "--file-bytes" => limits.file_bytes = number()?,
            "--tmp-bytes" => limits.tmp_bytes = number()?,
            "--output-bytes" => limits.output_bytes = number()?,
            "--wall-ms" => limits.wall_time = Duration::from_millis(number()?),
            "--script" => self.script = Some(text.into_owned()),
            "--uid" => self.profile.uid = u32::try_from(number()?).ok(),
            "--cwd" => self.command.cwd = value.into(),
            "--env" => {
                let (name, value) = text.split_once('=').unwrap_or((&text, ""));
                self.command.env.push((name.into(), value.into()));
            }
            _ => return self.set_word(name, &text),
        }
        Ok(())
    }

    fn set_word(&mut self, name: &str, word: &str) -> Result<(), String> {
        let size = Size {
            rows: 24,
            columns: 80,
        };
        match (name, word) {
            ("--network", "none") => self.profile.network = Network::None,
            ("--network", "loopback") => self.profile.network = Network::Loopback,
            ("--network", "all") => self.profile.network = Network::All,
            ("--stdin", "null") => self.command.stdin = Input::Null,
            ("--stdin", "pipe") => self.command.stdin = Input::Pipe,
            ("--stdin", "terminal") => self.command.stdin = Input::Terminal(size),
            ("--sandbox", "none") => self.settings = None,
            ("--waited", "yes") => self.waited = true,
            _ => return self.set_setting(name, word),
        }
        Ok(())
    }

    fn set_setting(&mut self, name: &str, word: &str) -> Result<(), String> {
        let wrong = || format!("{name} {word}?");
        let settings = self.settings.as_mut().ok_or_else(wrong)?;
        match (name, word) {
            ("--level", "process") => settings.memory = MemoryLevel::Process,
            ("--level", "tree") => settings.memory = MemoryLevel::Tree,
            ("--hide", path) => settings.hidden.push(path.into()),
            ("--landlock", level) => settings.landlock = level.parse().map_err(|_| wrong())?,
            _ => return Err(wrong()),
        }
        Ok(())
    }
}

/// Gives a command this program's input and output until it ends.
async fn attend(mut child: Child) -> Exit {
    if let Some(mut input) = child.stdin.take() {
        tokio::spawn(async move {
            let mut bytes = [0; 4096];
            while let Ok(got) = stdin().read(&mut bytes).await {
                let some = bytes.get(..got).unwrap_or_default();
                if got == 0 || input.write_all(some).await.is_err() {
                    break;
                }
            }
        });
    }
    let mut stdout = child.stdout.take();
    let mut stderr = child.stderr.take();
    let copied = async {
        if let Some(output) = &mut stdout {
            let _ = tokio::io::copy(output, &mut tokio::io::stdout()).await;
        }
    };
    let errors = async {
        if let Some(output) = &mut stderr {
            let _ = tokio::io::copy(output, &mut tokio::io::stderr()).await;
        }
    };
    tokio::join!(copied, errors);
    child.wait().await
}

/// Does what a script says, word by word, with the command that was started last. How the commands
/// ended that were waited for.
async fn play(
    script: &str,
    launcher: &Launcher,
    command: &Command,
    profile: &Profile,
) -> Result<String, String> {
    let mut children: Vec<Child> = Vec::new();
    let mut exits = Vec::new();
    for word in script.split_whitespace() {
        if word == "spawn" {
            let child = launcher.spawn(command, profile).await;
            children.push(child.map_err(|error| error.to_string())?);
            continue;
        }
        if let Some(count) = word.strip_prefix("together:") {
            let count = count.parse().map_err(|_| word.to_owned())?;
            exits.push(together(count, launcher, command, profile).await?);
            continue;
        }
        if word == "bereave" {
            bereave();
            continue;
        }
        let Some(child) = children.last_mut() else {
            continue;
        };
        match word.split_once(':').unwrap_or((word, "")) {
            // One line of it: it is as far as it wants to be.
            ("line", _) => line(child).await,
            ("signal", number) => {
                let number = number.parse().map_err(|_| word.to_owned())?;
                // One that has ended needs no signal.
                let _ = child.signal(number);
            }
            ("kill", _) => child.kill_tree(),
            ("wait", _) => exits.push(child.wait().await.to_string()),
            ("drop", _) => drop(children.pop()),
            ("ready", count) => {
                ready(child.pid(), count.parse().unwrap_or(FIRST_READY)).await;
            }
            // Until this program is killed.
            ("stay", _) => std::future::pending().await,
            _ => return Err(word.to_owned()),
        }
    }
    Ok(exits.join(", "))
}

/// Runs so many at a time. How many of them ended well.
async fn together(
    count: usize,
    launcher: &Launcher,
    command: &Command,
    profile: &Profile,
) -> Result<String, String> {
    let mut all = tokio::task::JoinSet::new();
    for _ in 0..count {
        let (launcher, command, profile) = (launcher.clone(), command.clone(), profile.clone());
        all.spawn(async move {
            let mut child = launcher.spawn(&command, &profile).await?;
            Ok::<_, sandbox::Error>(child.wait().await.is_success())
        });
    }
    let mut well = 0_usize;
    while let Some(result) = all.join_next().await {
        let result = result.map_err(|error| error.to_string())?;
        well = well.saturating_add(result.map_err(|error| error.to_string())?.into());
    }
    Ok(format!("{well} of {count} ended well"))
}

/// Runs a command, so that others have sandboxes that wait for them. The supervisors of these.
async fn wait(launcher: &Launcher, profile: &Profile) -> Result<Vec<u32>, String> {
    let first = launcher.spawn(&Command::new("true"), profile).await;
    let mut first = first.map_err(|error| error.to_string())?;
    first.wait().await;
    Ok(ready(first.pid(), FIRST_READY).await)
}

/// When two sandboxes wait for commands, the first of them can be had.
const FIRST_READY: usize = 2;

/// Waits until so many sandboxes wait for commands. They are children of the keeper, as is the
/// supervisor of a command that has just ended.
async fn ready(but: u32, count: usize) -> Vec<u32> {
    loop {
        let keepers = children("self");
        let waiting = keepers
            .iter()
            .flat_map(|keeper| children(&keeper.to_string()));
        let waiting: Vec<u32> = waiting.filter(|number| *number != but).collect();
        if waiting.len() >= count {
            return waiting;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Kills the keeper, and waits until what it has forked has ended with it.
fn bereave() {
    for keeper in children("self") {
        let forked = children(&keeper.to_string());
        let ends: Vec<_> = forked
            .into_iter()
            .filter_map(|it| pidfd_open(pid(it)?, PidfdFlags::empty()).ok())
            .collect();
        let _ = pid(keeper).map(|keeper| kill_process(keeper, Signal::KILL));
        for end in ends {
            let _ = poll(&mut [PollFd::new(&end, PollFlags::IN)], None);
        }
    }
}

fn pid(number: u32) -> Option<Pid> {
    Pid::from_raw(i32::try_from(number).ok()?)
}

/// What a process has started.
fn children(process: &str) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task"));
    let texts = tasks.into_iter().flatten().flatten();
    let texts = texts.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    texts
        .flat_map(|text| {
            let numbers = text.split_whitespace().map(str::parse);
            numbers.flatten().collect::<Vec<u32>>()
        })
        .collect()
}

/// Passes one line of output on.
async fn line(child: &mut Child) {
    let Some(output) = &mut child.stdout else {
        return;
    };
    let mut byte = [0];
    while let Ok(1) = output.read(&mut byte).await {
        let _ = std::io::stdout().write_all(&byte);
        if byte == *b"\n" {
            break;
        }
    }
    let _ = std::io::stdout().flush();
}

/// One line for each guard.
async fn doctor(launcher: &Launcher) -> String {
    for report in sandbox::doctor::report(launcher).await {
        say(&format!("{}: {:?}", report.guard, report.proof));
    }
    "that is all".into()
}

fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

//! Where the scenes are played: a directory, two nodes, commands that run and what they print.

use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::{Instant, sleep, timeout};

use super::recording::Recording;
use crate::screen::{self, WIDTH, plain};

/// How long a command may take.
const LONGEST: Duration = Duration::from_secs(60);
/// How long a node may take to end in order, and then to end at once.
const IN_ORDER: Duration = Duration::from_secs(3);
const AT_ONCE: Duration = Duration::from_secs(5);
/// Time to read what a command has printed.
const TO_READ: Duration = Duration::from_millis(800);
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);

pub(super) struct Settings<'s> {
    pub(super) is_fast: bool,
    pub(super) as_json: bool,
    pub(super) record: Option<&'s Path>,
}

pub(super) struct Stage {
    /// Everything is in here, and paths of commands begin here.
    folder: PathBuf,
    /// The variable `PATH`, on which `frith` is this program.
    path: OsString,
    nodes: Vec<Node>,
    scene: u8,
    /// What a later scene needs is prepared: nothing is shown.
    is_quiet: bool,
    is_fast: bool,
    as_json: bool,
    recording: Option<Recording>,
}

struct Node {
    name: &'static str,
    process: Child,
}

/// A command line, and what it must do; otherwise the demo fails.
pub(super) struct Step<'s> {
    line: &'s str,
    status: i32,
    prints: &'s [&'s str],
    never: Option<&'s str>,
    most: usize,
}

/// A command that runs, with the processes it has started. They end with it.
pub(super) struct Job {
    process: Child,
    out: Lines<BufReader<ChildStdout>>,
    text: String,
    /// Lines that it has printed.
    lines: usize,
}

impl<'s> Step<'s> {
    pub(super) const fn new(line: &'s str) -> Self {
        Self {
            line,
            status: 0,
            prints: &[],
            never: None,
            most: usize::MAX,
        }
    }

    /// It ends with this exit status instead of 0.
    pub(super) const fn ends(self, status: i32) -> Self {
        Self { status, ..self }
    }

    /// Each of these is in what it prints.
    pub(super) const fn prints(self, prints: &'s [&'s str]) -> Self {
        Self { prints, ..self }
    }

    /// This is not in what it prints.
    pub(super) const fn never(self, text: &'s str) -> Self {
        Self {
            never: Some(text),
            ..self
        }
    }

    /// No more lines of it are shown.
    pub(super) const fn at_most(self, most: usize) -> Self {
        Self { most, ..self }
    }

    /// Why it did not do what it should.
    fn problem(&self, status: Option<i32>, text: &str) -> Option<String> {
        let line = self.line;
        if status != Some(self.status) {
            let status = status.map_or_else(|| "a signal".to_owned(), |it| format!("status {it}"));
            let meant = self.status;
            return Some(format!("`{line}` ended with {status} instead of {meant}"));
        }
        if let Some(missing) = self.prints.iter().find(|it| !text.contains(**it)) {
            return Some(format!("`{line}` did not print {missing:?}"));
        }
        let never = self.never.filter(|it| text.contains(it));
        never.map(|found| format!("`{line}` printed {found:?}"))
    }
}

impl Job {
    /// The next line that it prints.
    async fn next_line(&mut self) -> Result<Option<String>> {
        let line = self.out.next_line().await?;
        if let Some(line) = &line {
            self.text.push_str(line);
            self.text.push('\n');
            self.lines += 1;
        }
        Ok(line)
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        if let Some(group) = id(&self.process) {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

/// The process id, unless the process has ended and was waited for.
fn id(process: &Child) -> Option<Pid> {
    Pid::from_raw(i32::try_from(process.id()?).ok()?)
}

impl Stage {
    pub(super) fn new(settings: &Settings<'_>) -> Result<Self> {
        let recording = settings.record.map(Recording::start).transpose()?;
        let mut random = [0; 4];
        getrandom::fill(&mut random).map_err(|error| anyhow::anyhow!("no randomness: {error}"))?;
        let name = format!("frith-demo-{:08x}", u32::from_ne_bytes(random));
        let folder = std::env::temp_dir().join(name);
        let cannot = || format!("cannot make {}", folder.display());
        let mut builder = DirBuilder::new();
        builder.mode(0o700).create(&folder).with_context(cannot)?;
        let programs = folder.join("bin");
        let program = std::env::current_exe().context("where is this program?")?;
        fs::create_dir(&programs).with_context(cannot)?;
        symlink(program, programs.join("frith")).with_context(cannot)?;
        let mut path = programs.into_os_string();
        if let Some(rest) = std::env::var_os("PATH") {
            path.push(":");
            path.push(rest);
        }
        Ok(Self {
            folder,
            path,
            nodes: Vec::new(),
            scene: 0,
            is_quiet: false,
            is_fast: settings.is_fast,
            as_json: settings.as_json,
            recording,
        })
    }

    /// Begins a scene.
    pub(super) async fn scene(&mut self, number: u8, title: &str, is_quiet: bool) -> Result<()> {
        self.scene = number;
        self.is_quiet = is_quiet;
        self.line(&format!("\n{number}. {title}"))?;
        self.line(&"-".repeat(WIDTH))
    }

    /// Says something about what comes.
    pub(super) async fn note(&mut self, text: &str) -> Result<()> {
        self.line(text)?;
        self.pause().await;
        Ok(())
    }

    /// Shows lines as they are, however long: they are to be pasted.
    pub(super) fn paste(&mut self, lines: &[String]) -> Result<()> {
        let text = lines.join("\n");
        self.report("", Some(0), &text, true)?;
        self.show(&format!("{text}\n"))
    }

    /// Writes a file.
    pub(super) fn write(&self, name: &str, text: &str) -> Result<()> {
        let path = self.folder.join(name);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    }

    /// Something that a node says of itself in `endpoints.json`, such as its `did`.
    pub(super) fn endpoint(&self, node: &str, name: &str) -> Result<String> {
        let path = self.folder.join(node).join("endpoints.json");
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let endpoints: Value = serde_json::from_str(&text)?;
        let found = endpoints.get(name).and_then(Value::as_str);
        let found = found.with_context(|| format!("{} has no `{name}`", path.display()))?;
        Ok(found.to_owned())
    }

    /// Runs a command to its end; returns what it has printed.
    pub(super) async fn run(&mut self, step: Step<'_>) -> Result<String> {
        self.typed(step.line, "")?;
        let job = self.spawn(step.line)?;
        self.end(job, &step).await
    }

    /// Starts a command, and goes on as soon as it prints a line with these words; returns that line.
    pub(super) async fn start(&mut self, step: &Step<'_>, words: &str) -> Result<(Job, String)> {
        self.typed(step.line, " &")?;
        let mut job = self.spawn(step.line)?;
        let found = timeout(LONGEST, self.follow(&mut job, step.most, Some(words)));
        let Some(line) = found.await.with_context(|| too_long(step.line))?? else {
            self.report(step.line, None, &job.text, false)?;
            bail!("`{}` did not print {words:?}", step.line);
        };
        self.pause().await;
        Ok((job, line))
    }

    /// Waits for the end of a command.
    pub(super) async fn end(&mut self, mut job: Job, step: &Step<'_>) -> Result<String> {
        let ended = timeout(LONGEST, async {
            self.follow(&mut job, step.most, None).await?;
            Ok::<_, anyhow::Error>(job.process.wait().await?)
        });
        let status = ended.await.with_context(|| too_long(step.line))??;
        let hidden = job.lines.saturating_sub(step.most);
        if hidden > 0 {
            self.line(&format!("… {hidden} more"))?;
        }
        let problem = step.problem(status.code(), &job.text);
        self.report(step.line, status.code(), &job.text, problem.is_none())?;
        if let Some(problem) = problem {
            bail!("{problem}");
        }
        self.pause().await;
        Ok(std::mem::take(&mut job.text))
    }

    /// Repeats a command without showing it until it has printed this.
    pub(super) async fn wait_for(&self, line: &str, text: &str) -> Result<()> {
        let look = async {
            loop {
                let mut job = self.spawn(line)?;
                while job.next_line().await?.is_some() {}
                job.process.wait().await?;
                if job.text.contains(text) {
                    return Ok(());
                }
                sleep(BETWEEN_LOOKS).await;
            }
        };
        timeout(LONGEST, look)
            .await
            .with_context(|| too_long(line))?
    }

    /// Starts a node, and waits until it is up.
    pub(super) async fn up(&mut self, name: &'static str) -> Result<()> {
        let line = format!("frith up --config {name}.yaml --data {name} > {name}.log 2>&1");
        self.typed(&line, " &")?;
        let start = Instant::now();
        let mut process = self.command(&format!("exec {line}")).spawn()?;
        let status = format!("frith status --wait --data {name}");
        let shown = Step::new(&status).prints(&["is up", "did:key:"]).at_most(3);
        let up = tokio::select! {
            up = self.run(shown) => up.map(|_| ()),
            _ = process.wait() => Err(anyhow::anyhow!("the node of {name} has ended")),
        };
        self.nodes.push(Node { name, process });
        if let Err(error) = up {
            let log = fs::read_to_string(self.folder.join(format!("{name}.log")));
            bail!("{error:#}\n{}", log.unwrap_or_default().trim_end());
        }
        let seconds = start.elapsed().as_secs_f64();
        self.note(&format!("# up {seconds:.1} s after its start"))
            .await
    }

    /// Ends a node as a crash would.
    pub(super) async fn crash(&mut self, name: &str) -> Result<()> {
        let Some(at) = self.nodes.iter().position(|node| node.name == name) else {
            bail!("there is no node of {name}");
        };
        let mut node = self.nodes.swap_remove(at);
        let process = node.process.id().unwrap_or_default();
        let killed = self.run(Step::new(&format!("kill -9 {process}"))).await;
        if killed.is_err() {
            self.nodes.push(node);
            return killed.map(|_| ());
        }
        node.process.wait().await?;
        Ok(())
    }

    /// Leaves all as it is, and says how to end it.
    pub(super) fn keep(mut self) -> Result<()> {
        self.is_quiet = false;
        let ids: Vec<String> = self
            .nodes
            .iter()
            .filter_map(|node| node.process.id())
            .map(|id| id.to_string())
            .collect();
        let folder = screen::quoted_path(&self.folder);
        let lines = [
            format!("\nThe nodes are still running. Their directory: cd {folder}"),
            format!("To stop them: kill {}", ids.join(" ")),
            format!("To remove everything after that: rm -r {folder}"),
        ];
        match self.as_json {
            true => self.put(&json!({"directory": self.folder, "processes": ids})),
            false => self.show(&format!("{}\n", lines.join("\n"))),
        }
    }

    /// Stops the nodes and removes all files.
    pub(super) async fn clean_up(self) -> Result<()> {
        let mut nodes = self.nodes.into_iter().map(|node| node.process);
        let (first, second) = (nodes.next(), nodes.next());
        tokio::join!(stop(first), stop(second));
        let cannot = || format!("cannot remove {}", self.folder.display());
        fs::remove_dir_all(&self.folder).with_context(cannot)
    }

    /// Shows what a command prints, until its end or a line with these words.
    async fn follow(
        &mut self,
        job: &mut Job,
        most: usize,
        words: Option<&str>,
    ) -> Result<Option<String>> {
        while let Some(line) = job.next_line().await? {
            if job.lines <= most {
                self.line(&plain(&line))?;
            }
            if words.is_some_and(|words| line.contains(words)) {
                return Ok(Some(line));
            }
        }
        Ok(None)
    }

    /// A shell with this line: what is shown is what runs.
    fn command(&self, line: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", line]);
        // What is configured for other nodes is not for these.
        for (name, _) in std::env::vars_os() {
            if name.as_encoded_bytes().starts_with(b"FRITH_") {
                command.env_remove(name);
            }
        }
        command.env_remove("RUST_LOG").env_remove("NOTIFY_SOCKET");
        command.env("PATH", &self.path).current_dir(&self.folder);
        // Ctrl-C ends this process, which ends all others.
        command.stdin(Stdio::null()).process_group(0);
        command
    }

    fn spawn(&self, line: &str) -> Result<Job> {
        let mut command = self.command(&format!("exec 2>&1; {line}"));
        let mut process = command
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot run `sh`")?;
        let out = process.stdout.take().context("no output")?;
        Ok(Job {
            process,
            out: BufReader::new(out).lines(),
            text: String::new(),
            lines: 0,
        })
    }

    /// Shows a command as it could be typed.
    fn typed(&mut self, line: &str, end: &str) -> Result<()> {
        let mut is_quoted = false;
        let is_space = |letter: char| {
            is_quoted ^= letter == '\'';
            letter == ' ' && !is_quoted
        };
        let lines = wrapped(line.split(is_space), WIDTH - "     & \\".len());
        self.show(&format!("$ {}{end}\n", lines.join(" \\\n    ")))
    }

    /// Shows a text, in as many lines as it needs.
    fn line(&mut self, text: &str) -> Result<()> {
        for line in text.split('\n') {
            let lines = wrapped(line.split(' '), WIDTH - 4);
            self.show(&format!("{}\n", lines.join("\n    ")))?;
        }
        Ok(())
    }

    fn show(&mut self, text: &str) -> Result<()> {
        if self.is_quiet || self.as_json {
            return Ok(());
        }
        if let Some(recording) = &mut self.recording {
            recording.add(text)?;
        }
        let mut out = std::io::stdout().lock();
        out.write_all(text.as_bytes())?;
        Ok(out.flush()?)
    }

    /// Says for programs what came of a step.
    fn report(&self, line: &str, status: Option<i32>, text: &str, is_ok: bool) -> Result<()> {
        match self.as_json && !self.is_quiet {
            true => self.put(&json!({
                "scene": self.scene, "command": line, "ok": is_ok, "status": status, "output": text,
            })),
            false => Ok(()),
        }
    }

    fn put(&self, value: &Value) -> Result<()> {
        crate::agent::print_json(value)
    }

    async fn pause(&self) {
        if !self.is_fast && !self.is_quiet {
            sleep(TO_READ).await;
        }
    }
}

/// Lines of words, no longer than this where the words allow it.
fn wrapped<'w>(words: impl Iterator<Item = &'w str>, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in words {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Has a node stop in order, or else at once.
async fn stop(process: Option<Child>) {
    let Some(mut process) = process else { return };
    for patience in [IN_ORDER, AT_ONCE] {
        if let Some(id) = id(&process) {
            let _ = kill_process(id, Signal::TERM);
        }
        if timeout(patience, process.wait()).await.is_ok() {
            return;
        }
    }
    let _ = process.kill().await;
}

fn too_long(line: &str) -> String {
    format!("`{line}` takes more than {} s", LONGEST.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn step_fails_unless_everything_is_as_it_should() {
        let step = || Step::new("x").prints(&["a", "b"]).never("c");
        assert_eq!(step().problem(Some(0), "a b"), None);
        for (status, text, problem) in [
            (Some(1), "a b", "ended with status 1 instead of 0"),
            (None, "a b", "ended with a signal instead of 0"),
            (Some(0), "a", "did not print \"b\""),
            (Some(0), "a b c", "printed \"c\""),
        ] {
            let found = step().problem(status, text).unwrap();
            assert!(found.contains(problem), "{found}");
        }
        assert_eq!(step().ends(1).problem(Some(1), "a b"), None);
    }

    #[test]
    fn words_stay_whole() {
        let words = |text: &'static str| wrapped(text.split(' '), 9);
        assert_eq!(words("  a bc"), ["  a bc"]);
        assert_eq!(words("abcd efgh ij"), ["abcd efgh", "ij"]);
        assert_eq!(words("abcdefghijk l"), ["abcdefghijk", "l"]);
    }
}

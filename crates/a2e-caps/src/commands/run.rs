//! Running a command for a call of a tool.

use sandbox::{Command, Exit, Profile, Status, Why};
use serde_json::{Map, Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};

use crate::tool::{Call, Output, Progress, ToolFailure};
use crate::workplace::Workplace;

/// Bytes that are read, and told of, at once.
const CHUNK: usize = 16 * 1024;

/// What came of a command that has ended.
pub(crate) struct Ran {
    pub(crate) exit: Exit,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
}

/// What is told of a command while it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Told {
    /// All that it writes.
    All,
    /// Its errors only: the rest is the result.
    Errors,
}

/// Runs a command to its end, and makes a result of it.
///
/// # Errors
/// If it cannot be started. One that was started always has a result.
pub(crate) async fn run(
    workplace: &Workplace,
    command: &Command,
    profile: &Profile,
    stdin: String,
    call: &Call,
) -> Result<Output, ToolFailure> {
    let ran = execute(workplace, command, profile, stdin, (call, Told::All)).await?;
    ran.result()
}

/// Runs a command to its end. It is killed, with all it has started, when nobody waits any more: it
/// ends with this future.
///
/// # Errors
/// If it cannot be started, or the agent has as many as it may.
pub(crate) async fn execute(
    workplace: &Workplace,
    command: &Command,
    profile: &Profile,
    stdin: String,
    (call, told): (&Call, Told),
) -> Result<Ran, ToolFailure> {
    let _share = workplace.commands.take(&call.caller.agent)?;
    let child = workplace.launcher.spawn(command, profile).await;
    let mut child = child.map_err(|error| ToolFailure::new(error.to_string()))?;
    let (input, output, errors) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let write = async {
        if let Some(mut input) = input {
            // One that does not read all of it need not.
            let _ = input.write_all(stdin.as_bytes()).await;
        }
    };
    let progress = &call.progress;
    let ((), stdout, stderr) = tokio::join!(
        write,
        read(output, "info", (told == Told::All).then_some(progress)),
        read(errors, "error", Some(progress))
    );
    Ok(Ran {
        exit: child.wait().await,
        stdout,
        stderr,
    })
}

/// Reads all of a stream and tells of it as it comes.
async fn read(
    stream: Option<impl AsyncRead + Unpin>,
    level: &str,
    progress: Option<&Progress>,
) -> Vec<u8> {
    let mut all = Vec::new();
    let Some(mut stream) = stream else {
        return all;
    };
    loop {
        let start = all.len();
        all.reserve(CHUNK);
        // One that can no longer be read has ended.
        if stream.read_buf(&mut all).await.unwrap_or_default() == 0 {
            return all;
        }
        let new = all.get(start..).unwrap_or_default();
        if let Some(progress) = progress {
            progress.log(level, &String::from_utf8_lossy(new)).await;
        }
    }
}

impl Ran {
    /// Its exit code and what it wrote.
    pub(crate) fn result(&self) -> Result<Output, ToolFailure> {
        let code = match self.exit.status {
            Status::Code(code) => code,
            Status::Signal(signal) => signal.saturating_neg(),
        };
        let mut data = Map::new();
        data.insert("exit_code".into(), json!(code));
        data.insert(
            "stdout".into(),
            json!(String::from_utf8_lossy(&self.stdout)),
        );
        data.insert(
            "stderr".into(),
            json!(String::from_utf8_lossy(&self.stderr)),
        );
        let ended_by = self.exit.why.map(limit);
        if let Some(word) = ended_by {
            data.insert("ended_by".into(), json!(word));
        }
        let error = match (ended_by, self.exit.status) {
            (Some(word), _) => Some(format!("the command was ended: {word}")),
            (None, Status::Code(0)) => None,
            (None, Status::Code(code)) => Some(format!("the command ended with exit code {code}")),
            (None, Status::Signal(signal)) => {
                Some(format!("the command was ended by signal {signal}"))
            }
        };
        Ok(Output {
            error,
            truncated: self.exit.why == Some(Why::OutputLimit),
            ..Output::new(&Value::Object(data))?
        })
    }
}

/// What a command ran into, for agents.
pub(crate) const fn limit(why: Why) -> &'static str {
    match why {
        Why::Timeout => "timeout",
        Why::OutputLimit => "output_limit",
        Why::Memory => "out_of_memory",
        Why::CpuTime => "cpu_time",
        Why::FileSize => "file_size",
        Why::SystemCall => "forbidden_system_call",
        Why::Killed => "killed",
    }
}

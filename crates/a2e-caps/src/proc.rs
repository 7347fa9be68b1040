//! The capability `proc`: programs that run in the sandbox for as long as their session wants.
//!
//! A process is its session's: nobody else sees it, and it ends with it. Its output comes as events of
//! the request that started it, line by line, after the response to that request.

mod output;
mod process;
mod signal;
mod table;

use std::borrow::Cow;
use std::ffi::OsString;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use a2e_runtime::{BoxFuture, Context, Failure, Outcome, Plugin, Serves, Session};
use a2e_wire::messages::proc::{
    ProcKillRequest, ProcKillResponse, ProcResizeRequest, ProcResizeResponse, ProcSpawnRequest,
    ProcSpawnResponse, ProcStatusRequest, ProcStatusResponse, ProcStatusValue, ProcStdinMode,
    ProcWriteRequest, ProcWriteResponse,
};
use a2e_wire::wire::ToStatic;
use a2e_wire::{Body, Capability, Message, ProcId, Raw, Tag, Timestamp};
use sandbox::{Command, Input, Size};

use crate::placement::{Placement, placed};
use crate::workplace::Workplace;

use output::Running;
use process::Process;
use table::Table;

pub use process::MAX_LISTED_COMMAND;

/// What processes may be.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where the plugin stands.
    pub placement: Placement,
    /// Where they run.
    pub workplace: Arc<Workplace>,
    /// The words that may stand first in a command; without a list, any.
    pub allowed: Option<Vec<String>>,
    /// The variables that may be set, beside the size of a terminal; without a list, none if there is
    /// one of commands, and else any.
    pub allowed_env: Option<Vec<String>>,
    /// How many may run in one session at a time.
    pub max_running: usize,
}

/// The plugin.
#[derive(Debug)]
pub struct Procs {
    settings: Settings,
}

/// Words in a command.
pub const MAX_WORDS: usize = 1024;
/// Bytes of a command and its environment.
pub const MAX_BYTES: usize = 128 * 1024;
/// How many run in one session at a time, if nothing else is said.
pub const MAX_RUNNING: usize = 16;

/// Variables with the size of a terminal: numbers, and nothing of what runs follows from them.
const SIZE: [&str; 2] = ["LINES", "COLUMNS"];

/// How long the answer to a signal waits for the process to end by it.
const AFTER_SIGNAL: Duration = Duration::from_millis(250);

impl Procs {
    /// A plugin for such processes.
    #[must_use]
    pub const fn new(settings: Settings) -> Self {
        Self { settings }
    }

    async fn spawn(
        &self,
        request: ProcSpawnRequest<'static>,
        context: Context,
    ) -> ProcSpawnResponse<'static> {
        match self.start(request, &context).await {
            Ok(process) => ProcSpawnResponse {
                proc_id: process.id.clone(),
                ok: true,
                pid: process.pid.into(),
                error: Cow::Borrowed(""),
            },
            Err(error) => ProcSpawnResponse {
                error,
                ..ProcSpawnResponse::new()
            },
        }
    }

    async fn start(
        &self,
        request: ProcSpawnRequest<'static>,
        context: &Context,
    ) -> Result<Arc<Process>, Cow<'static, str>> {
        let command = self.command(&request)?;
        let table = context.session().state::<Table>();
        // Its place is taken before it runs, so that many at once are not too many.
        let place = table.place(self.settings.max_running).ok_or("proc_limit")?;
        // So many of all the agent's sessions.
        let agent = context.identity().agent.as_str().into();
        let share = self.settings.workplace.commands.take(&agent);
        let share = share.map_err(|_| "proc_limit")?;
        let mut profile = self.settings.workplace.profile.clone();
        if let Some(seconds) = u64::try_from(request.timeout).ok().filter(|it| *it > 0) {
            let asked = Duration::from_secs(seconds);
            profile.limits.wall_time = profile.limits.wall_time.min(asked);
        }
        let spawned = self
            .settings
            .workplace
            .launcher
            .spawn(&command, &profile)
            .await;
        let mut child = spawned.map_err(|error| error.to_string())?;
        let process = Arc::new(Process::new(
            fresh_id()?,
            &request.cmd,
            now(),
            &mut child,
            command.stdin,
        ));
        if context.keep_stream().await.is_err() {
            return Err("the session is over".into());
        }
        table.insert(context.session(), place, Arc::clone(&process));
        let running = Running {
            child,
            share: Some(share),
        };
        // Asked for now, while the request runs: it is told to whoever has asked.
        let over = context.over().clone();
        let (follows, context) = (Arc::clone(&process), context.clone());
        tokio::spawn(async move {
            // The response has gone out when the request is over, and events come after it.
            over.cancelled().await;
            output::follow(running, follows, context).await;
        });
        Ok(process)
    }

    /// What is to be run, if it may be.
    fn command(&self, request: &ProcSpawnRequest<'_>) -> Result<Command, Cow<'static, str>> {
        let [program, args @ ..] = request.cmd.as_slice() else {
            return Err("`cmd` is empty; it needs a program, and then its arguments".into());
        };
        let program = self.program(program)?;
        self.check_env(request)?;
        let words = request.cmd.iter().map(|word| word.len());
        let variables = request
            .env
            .iter()
            .map(|(name, value)| name.len() + value.len());
        if request.cmd.len() > MAX_WORDS || words.chain(variables).sum::<usize>() > MAX_BYTES {
            return Err("the command and its environment are too long".into());
        }
        let env = request.env.iter();
        Ok(Command {
            program,
            args: args.iter().map(|word| (**word).into()).collect(),
            cwd: self.settings.workplace.cwd(&request.cwd)?,
            env: env
                .map(|(name, value)| (name.into(), (**value).into()))
                .collect(),
            stdin: input(request)?,
        })
    }

    /// What is run for the first word of a command. With a list of commands it is the program that the
    /// operator means: neither `PATH` nor the folder it starts in makes it another.
    fn program(&self, word: &str) -> Result<OsString, Cow<'static, str>> {
        let Some(allowed) = &self.settings.allowed else {
            return Ok(word.into());
        };
        let shown: String = word.chars().take(64).collect();
        if !allowed.iter().any(|allowed| allowed == word) {
            return Err(format!("`{shown}` is not among the allowed commands").into());
        }
        match self.settings.workplace.find(word) {
            Some(path) => Ok(path.into()),
            None => Err(format!(
                "there is no `{shown}` in {}; the operator can name it by its absolute path in \
                 `allowed_commands`",
                sandbox::PATH
            )
            .into()),
        }
    }

    /// Refuses variables that may not be set: many a program runs what one of them names.
    fn check_env(&self, request: &ProcSpawnRequest<'_>) -> Result<(), Cow<'static, str>> {
        let allowed = match (&self.settings.allowed_env, &self.settings.allowed) {
            (Some(names), _) => names.as_slice(),
            (None, Some(_)) => &[],
            (None, None) => return Ok(()),
        };
        let is_allowed = |name: &str| SIZE.contains(&name) || allowed.iter().any(|it| it == name);
        let mut names = request.env.iter().map(|(name, _)| name);
        match names.find(|name| !is_allowed(name)) {
            None => Ok(()),
            Some(name) => {
                let shown: String = name.chars().take(64).collect();
                Err(format!(
                    "`env` may not set `{shown}` here, since it could have an allowed command run \
                     another; the operator can name it in `allowed_env`"
                )
                .into())
            }
        }
    }

    async fn write(
        &self,
        request: ProcWriteRequest<'static>,
        session: &Session,
    ) -> ProcWriteResponse<'static> {
        let found = session.state::<Table>().find(&request.proc_id);
        let (pid, outcome) = match &found {
            Some(process) => (
                process.pid.into(),
                process.write(request.data.as_bytes(), request.eof).await,
            ),
            None => (0, Err("there is no such process in this session".into())),
        };
        ProcWriteResponse {
            proc_id: request.proc_id,
            ok: outcome.is_ok(),
            pid,
            error: outcome.err().unwrap_or_default(),
        }
    }

    async fn kill(
        &self,
        request: ProcKillRequest<'static>,
        session: &Session,
    ) -> ProcKillResponse<'static> {
        let Some(process) = session.state::<Table>().find(&request.proc_id) else {
            return ProcKillResponse {
                ok: false,
                state: ProcStatusValue::NotFound,
            };
        };
        let ok = match signal::number(request.signal.as_str()) {
            Some(signal) => process.signal(signal),
            None => false,
        };
        if ok {
            // Most end by it at once, and whoever asks wants to know.
            let _ = tokio::time::timeout(AFTER_SIGNAL, process.ended()).await;
        }
        ProcKillResponse {
            ok,
            state: process.state().status,
        }
    }

    fn status(
        &self,
        request: ProcStatusRequest<'static>,
        session: &Session,
    ) -> ProcStatusResponse<'static> {
        let table = session.state::<Table>();
        if request.proc_id.is_empty() {
            return ProcStatusResponse {
                procs: Some(table.all().iter().map(|it| it.listed()).collect()),
                ..ProcStatusResponse::new(
                    request.proc_id,
                    ProcStatusValue::Other("ok".into()),
                    "".into(),
                )
            };
        }
        match table.find(&request.proc_id) {
            Some(process) => {
                let state = process.state();
                ProcStatusResponse {
                    exit_code: state.code,
                    pid: Some(process.pid.into()),
                    ..ProcStatusResponse::new(request.proc_id, state.status, state.error)
                }
            }
            None => ProcStatusResponse::new(
                request.proc_id,
                ProcStatusValue::NotFound,
                "there is no such process in this session".into(),
            ),
        }
    }
}

impl Plugin for Procs {
    placed!(settings.placement);

    fn capability(&self) -> Option<Capability<'static>> {
        Some(Capability::Proc)
    }

    fn serves(&self) -> Serves {
        Serves::Tags(vec![
            Tag::ProcSpawnRequest,
            Tag::ProcWriteRequest,
            Tag::ProcKillRequest,
            Tag::ProcStatusRequest,
            Tag::ProcResizeRequest,
        ])
    }

    fn handle(
        &self,
        request: Box<Message<'static>>,
        context: Context,
    ) -> BoxFuture<'_, Result<Outcome, Failure>> {
        Box::pin(async move {
            let session = Arc::clone(context.session());
            #[expect(clippy::wildcard_enum_match_arm, reason = "nothing else is served")]
            Ok(match request.body {
                Body::ProcSpawnRequest(request) => {
                    Outcome::answer(self.spawn(request, context).await)
                }
                Body::ProcWriteRequest(request) => {
                    Outcome::answer(self.write(request, &session).await)
                }
                Body::ProcKillRequest(request) => {
                    Outcome::answer(self.kill(request, &session).await)
                }
                Body::ProcStatusRequest(request) => Outcome::answer(self.status(request, &session)),
                Body::ProcResizeRequest(request) => Outcome::answer(resize(request, &session)),
                _ => Outcome::Pass,
            })
        })
    }

    fn save(&self, session: &Session) -> Option<Raw<'static>> {
        session.state::<Table>().save()
    }

    fn restore(&self, session: &Session, state: Option<&Raw<'_>>) {
        if let Some(state) = state {
            session.state::<Table>().restore(state);
        }
    }

    fn clear(&self, session: &Session) {
        if let Some(table) = session.existing::<Table>() {
            table.kill_all();
        }
    }
}

/// Changes the size of a terminal.
fn resize(request: ProcResizeRequest<'static>, session: &Session) -> ProcResizeResponse<'static> {
    let resized = match (u16::try_from(request.rows), u16::try_from(request.cols)) {
        (Ok(rows @ 1..), Ok(columns @ 1..)) => {
            match session.state::<Table>().find(&request.proc_id) {
                Some(process) => process.resize(Size { rows, columns }),
                None => Err("there is no such process in this session".into()),
            }
        }
        _ => Err("`rows` and `cols` must be numbers from 1 to 65535".into()),
    };
    ProcResizeResponse {
        proc_id: request.proc_id,
        ok: resized.is_ok(),
        error: resized.err().unwrap_or_default(),
    }
}

/// What a process has as its input. The size of a terminal comes as programs know it, in `LINES` and
/// `COLUMNS`.
fn input(request: &ProcSpawnRequest<'_>) -> Result<Input, Cow<'static, str>> {
    match &request.stdin_mode {
        ProcStdinMode::Pipe => Ok(Input::Pipe),
        ProcStdinMode::Null => Ok(Input::Null),
        ProcStdinMode::Other(mode) if mode == "pty" => {
            let number = |name: &str, default| {
                let mut variables = request.env.iter();
                let found = variables.find(|(variable, _)| **variable == *name);
                found.map_or(Ok(default), |(_, value)| value.parse::<u16>())
            };
            match (number("LINES", 24), number("COLUMNS", 80)) {
                (Ok(rows @ 1..), Ok(columns @ 1..)) => Ok(Input::Terminal(Size { rows, columns })),
                _ => Err("`LINES` and `COLUMNS` must be numbers from 1 to 65535".into()),
            }
        }
        ProcStdinMode::Other(mode) => {
            let mode: String = mode.chars().take(64).collect();
            Err(format!("`stdin_mode` must be pipe, null or pty, not `{mode}`").into())
        }
    }
}

fn fresh_id() -> Result<ProcId<'static>, Cow<'static, str>> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(|_| "the system gives no random bytes")?;
    let id = format!("p-{}", hex::encode(bytes));
    Ok(ProcId::from(id).to_static())
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let seconds = since.unwrap_or_default().as_secs_f64();
    Timestamp::from_unix_seconds(seconds).unwrap_or_default()
}

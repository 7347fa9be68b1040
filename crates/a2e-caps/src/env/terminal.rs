//! The environment `terminal`: a real shell in a terminal of its own, inside the sandbox.
//!
//! Actions are keystrokes and commands, what is seen is the screen, and what it is worth says a
//! command of the reset's options.

mod typing;

use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use a2e_runtime::BoxFuture;
use a2e_wire::Object;
use a2e_wire::messages::env::EnvPushEventType;
use sandbox::{Child, Command, Input, Output, Size, Status, Stdin};
use serde::Deserialize;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use super::environment::{Action, Change, EnvError, Environment, Opened, Opening, Spaces, World};
use super::pusher::{Push, Pusher};
use super::screen::{MAX_LETTERS, Screen};
use crate::shares::Share;
use crate::workplace::Workplace;

pub use typing::MAX_KEYS;
use typing::{MAX_WAIT, WAIT, typing};

/// The environment.
#[derive(Debug)]
pub struct Terminal {
    workplace: Arc<Workplace>,
    spaces: Spaces,
}

/// Terminals that one session may have.
pub const MAX_TERMINALS: usize = 8;
/// Rows and columns of a screen.
const SIZES: (std::ops::RangeInclusive<u16>, std::ops::RangeInclusive<u16>) = (1..=200, 1..=400);
/// Letters of the largest screen, and its line breaks.
const MAX_SCREEN: usize = 200 * (400 * MAX_LETTERS + 1);
/// A screen is at rest when nothing was written for so long.
const REST: Duration = Duration::from_millis(80);
/// How long setting up and checking may take.
const CHECK: Duration = Duration::from_secs(60);

#[derive(Deserialize)]
#[serde(default)]
struct Options {
    rows: u16,
    cols: u16,
    cwd: String,
    setup: Option<String>,
    check: Option<String>,
    push: bool,
}

/// Where programs of an episode run, and for whom.
struct Site {
    agent: Arc<str>,
    workplace: Arc<Workplace>,
    cwd: PathBuf,
}

/// A shell that runs.
struct Shell {
    site: Site,
    check: Option<String>,
    stdin: Stdin,
    seen: Arc<Seen>,
    /// Reads the screen and has the shell; both end with the episode.
    _reader: AbortOnDropHandle<()>,
    /// It is one of the programs that the agent may have.
    _share: Share,
    _pushes: Option<AbortOnDropHandle<()>>,
}

/// The screen, and word of its changes.
struct Seen {
    screen: Mutex<Screen>,
    /// How often something was written, and whether the shell has ended.
    changes: watch::Sender<(u64, bool)>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            rows: 24,
            cols: 80,
            cwd: String::new(),
            setup: None,
            check: None,
            push: false,
        }
    }
}

impl Terminal {
    /// Terminals at that place.
    #[must_use]
    pub fn new(workplace: Arc<Workplace>) -> Self {
        let action = json!({
            "type": "object",
            "properties": {
                "action": {"type": "string", "maxLength": MAX_KEYS,
                    "description": "Keys as they are typed; a line ends with \\n"},
                "command": {"type": "string", "maxLength": MAX_KEYS,
                    "description": "A line for the shell; the step ends when the shell is ready again"},
                "wait_seconds": {"type": "number", "minimum": 0, "maximum": MAX_WAIT.as_secs(),
                    "description": "How long to wait for that; 5 unless given"},
            },
            "anyOf": [{"required": ["action"]}, {"required": ["command"]}],
        });
        let state = json!({
            "type": "object",
            "properties": {
                "screen": {"type": "string", "maxLength": MAX_SCREEN},
                "cursor_row": {"type": "integer", "minimum": 0, "maximum": SIZES.0.end() - 1},
                "cursor_col": {"type": "integer", "minimum": 0, "maximum": SIZES.1.end() - 1},
                "exit_code": {"type": "integer", "minimum": -1, "maximum": 255,
                    "description": "Of the last command; -1 before the first"},
                "exited": {"type": "integer", "minimum": 0, "maximum": 1},
            },
            "required": ["screen", "cursor_row", "cursor_col", "exit_code", "exited"],
        });
        Self {
            workplace,
            spaces: Spaces::new(&action, &state),
        }
    }

    async fn begin(&self, opening: Opening) -> Result<Opened, EnvError> {
        let options: Options = opening.read()?;
        let size = Size {
            rows: options.rows,
            columns: options.cols,
        };
        if !SIZES.0.contains(&size.rows) || !SIZES.1.contains(&size.columns) {
            let text = "`options.rows` is from 1 to 200 and `options.cols` from 1 to 400";
            return Err(EnvError::Wrong(text.to_owned()));
        }
        let site = Site {
            agent: opening.agent,
            workplace: Arc::clone(&self.workplace),
            cwd: self.workplace.cwd(&options.cwd).map_err(EnvError::Wrong)?,
        };
        if let Some(setup) = &options.setup
            && !site.succeeds(setup).await?
        {
            let text = "`options.setup` did not succeed";
            return Err(EnvError::Failed(text.to_owned()));
        }
        let mut shell = Shell::start(site, size, options.check).await?;
        shell.settle(Wait::Prompt(0), WAIT).await;
        if options.push {
            let pushing = push_changes(Arc::clone(&shell.seen), opening.pusher);
            shell._pushes = Some(AbortOnDropHandle::new(tokio::spawn(pushing)));
        }
        Ok(Opened {
            state: shell.seen.state(),
            world: Box::new(shell),
        })
    }
}

impl Environment for Terminal {
    fn name(&self) -> &str {
        "terminal"
    }

    fn description(&self) -> &str {
        "A shell in a terminal, in the sandbox: keys and commands, the screen, a check for the reward"
    }

    fn spaces(&self) -> &Spaces {
        &self.spaces
    }

    fn max_episodes(&self) -> usize {
        MAX_TERMINALS
    }

    fn open(&self, opening: Opening) -> BoxFuture<'_, Result<Opened, EnvError>> {
        Box::pin(self.begin(opening))
    }
}

/// What a step waits for.
#[derive(Debug, Clone, Copy)]
enum Wait {
    /// The shell is ready more often than it was.
    Prompt(u64),
    /// Nothing more is written.
    Rest,
}

impl Shell {
    async fn start(site: Site, size: Size, check: Option<String>) -> Result<Self, EnvError> {
        let share = site.share()?;
        let command = Command {
            cwd: site.cwd.clone(),
            env: vec![
                ("TERM".into(), "xterm".into()),
                // The mark before the prompt is for the screen: the shell is ready, and how the last
                // command ended.
                ("PS1".into(), "\u{1b}]7777;$?\u{7}$ ".into()),
                ("PS2".into(), "> ".into()),
            ],
            stdin: Input::Terminal(size),
            ..Command::new("sh").arg("-i")
        };
        let failed = |error: sandbox::Error| EnvError::Failed(error.to_string());
        let Workplace {
            launcher, profile, ..
        } = &*site.workplace;
        let mut child = launcher.spawn(&command, profile).await.map_err(failed)?;
        let (Some(stdin), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(EnvError::Failed("the shell has no terminal".to_owned()));
        };
        let seen = Arc::new(Seen {
            screen: Mutex::new(Screen::new(size.rows.into(), size.columns.into())),
            changes: watch::Sender::new((0, false)),
        });
        let reading = read(child, output, Arc::clone(&seen));
        Ok(Self {
            site,
            check,
            stdin,
            seen,
            _reader: AbortOnDropHandle::new(tokio::spawn(reading)),
            _share: share,
            _pushes: None,
        })
    }

    async fn act(&mut self, action: &Action) -> Result<Change, EnvError> {
        let typing = typing(action)?;
        let prompts = self.seen.lock().prompts;
        if !self.seen.has_ended() {
            let written = self.stdin.write_all(typing.keys.as_bytes());
            let written = timeout(typing.wait.max(WAIT), written).await;
            if !matches!(written, Ok(Ok(()))) && !self.seen.has_ended() {
                let text = "the shell does not read what is typed";
                return Err(EnvError::Failed(text.to_owned()));
            }
            let wait = match typing.is_command {
                true => Wait::Prompt(prompts),
                false => Wait::Rest,
            };
            self.settle(wait, typing.wait).await;
        }
        let is_solved = match &self.check {
            Some(check) => self.site.succeeds(check).await?,
            None => false,
        };
        Ok(Change {
            state: self.seen.state(),
            reward: f64::from(u8::from(is_solved)),
            done: is_solved || self.seen.has_ended(),
        })
    }

    /// Waits for the screen, for so long at most.
    async fn settle(&self, wait: Wait, most: Duration) {
        let mut changes = self.seen.changes.subscribe();
        let settled = async {
            loop {
                let ready = match wait {
                    Wait::Prompt(before) => self.seen.lock().prompts > before,
                    Wait::Rest => false,
                };
                if ready || self.seen.has_ended() {
                    return;
                }
                let changed = match wait {
                    Wait::Prompt(_) => changes.changed().await.is_ok(),
                    Wait::Rest => timeout(REST, changes.changed()).await.is_ok(),
                };
                if !changed {
                    return;
                }
            }
        };
        // What is not at rest by then is seen as it is.
        let _ = timeout(most, settled).await;
    }
}

impl World for Shell {
    fn step<'a>(&'a mut self, action: &'a Action) -> BoxFuture<'a, Result<Change, EnvError>> {
        Box::pin(self.act(action))
    }

    fn look(&mut self) -> Option<Object<'static>> {
        Some(self.seen.state())
    }

    fn text(&self) -> Option<String> {
        Some(self.seen.lock().text())
    }
}

impl Seen {
    fn lock(&self) -> MutexGuard<'_, Screen> {
        self.screen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn has_ended(&self) -> bool {
        self.changes.borrow().1
    }

    fn state(&self) -> Object<'static> {
        let screen = self.lock();
        let (row, column) = screen.cursor();
        let state = json!({
            "screen": screen.text(),
            "cursor_row": row,
            "cursor_col": column,
            "exit_code": screen.exit_code.unwrap_or(-1),
            "exited": u8::from(self.has_ended()),
        });
        Object::from_serialize(&state).unwrap_or_default()
    }
}

/// Puts what a shell writes on its screen, until it ends.
async fn read(mut child: Child, mut output: Output, seen: Arc<Seen>) {
    let mut bytes = vec![0; 16 * 1024];
    // One that can no longer be read has ended.
    while let Ok(size @ 1..) = output.read(&mut bytes).await {
        seen.lock().write(bytes.get(..size).unwrap_or_default());
        seen.changes
            .send_modify(|(count, _)| *count = count.wrapping_add(1));
    }
    child.kill_tree();
    child.wait().await;
    seen.changes.send_modify(|(_, ended)| *ended = true);
}

/// Tells the agent of changes once the screen is at rest.
async fn push_changes(seen: Arc<Seen>, pusher: Pusher) {
    let mut changes = seen.changes.subscribe();
    while changes.changed().await.is_ok() {
        while timeout(REST, changes.changed())
            .await
            .is_ok_and(|it| it.is_ok())
        {}
        let terminal = seen.has_ended();
        let push = Push {
            event: EnvPushEventType::Observation,
            reason: Cow::Borrowed("the screen has changed"),
            delta: seen.state(),
            reward: None,
            terminal,
        };
        if pusher.push(push).await.is_err() || terminal {
            return;
        }
    }
}

impl Site {
    /// One of the programs that the agent may have at a time.
    fn share(&self) -> Result<Share, EnvError> {
        let share = self.workplace.commands.take(&self.agent);
        share.map_err(|error| EnvError::Failed(error.to_string()))
    }

    /// Whether a command of the options succeeds.
    async fn succeeds(&self, text: &str) -> Result<bool, EnvError> {
        let _share = self.share()?;
        let command = Command {
            cwd: self.cwd.clone(),
            ..Command::new("sh").arg("-c").arg(text)
        };
        let mut profile = self.workplace.profile.clone();
        profile.limits.wall_time = profile.limits.wall_time.min(CHECK);
        let spawned = self.workplace.launcher.spawn(&command, &profile).await;
        let mut child = spawned.map_err(|error| EnvError::Failed(error.to_string()))?;
        let (mut out, mut err) = (child.stdout.take(), child.stderr.take());
        // What it writes is read and forgotten, or it might wait for ever.
        tokio::join!(drain(&mut out), drain(&mut err));
        Ok(child.wait().await.status == Status::Code(0))
    }
}

async fn drain(output: &mut Option<Output>) {
    if let Some(output) = output {
        let _ = tokio::io::copy(output, &mut tokio::io::sink()).await;
    }
}

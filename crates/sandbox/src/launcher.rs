//! Starting commands.

use std::ffi::{OsStr, OsString};
use std::fs::Permissions;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use rustix::process::{getegid, geteuid};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::cgroup::{Cgroups, Group};
use crate::channel::{receive, send_message};
use crate::child::{Held, Started};
use crate::plan::{Confinement, Identity, Plan};
use crate::profile::{MIN_MEMORY, MIN_OPEN_FILES};
use crate::report::{Fault, Report};
use crate::settings::MemoryLevel;
use crate::streams::{Ends, Streams};
use crate::uids::Uids;
use crate::{Child, Command, Error, Guard, Input, Profile, Settings, layout, stage, thread};

/// How long a supervisor may take to read its plan, or to try the guards. It takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(30);
/// Variables that make the loader run foreign code in whatever is started.
const LOADER: [&str; 2] = ["LD_PRELOAD", "LD_AUDIT"];
/// What a command has in its environment if nothing else is said.
const ENVIRONMENT: [(&str, &str); 3] = [
    ("PATH", "/usr/local/bin:/usr/bin:/bin"),
    ("HOME", "/tmp"),
    ("TMPDIR", "/tmp"),
];

/// Starts commands, each in a sandbox of its own. Clones are the same launcher.
#[derive(Debug, Clone)]
pub struct Launcher(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    supervisor: PathBuf,
    /// Nothing for `sandbox: none`.
    guards: Option<Guards>,
}

#[derive(Debug)]
struct Guards {
    settings: Settings,
    uids: Arc<Uids>,
    cgroups: Option<Cgroups>,
}

impl Launcher {
    /// A launcher with every guard, after trying them all.
    ///
    /// # Errors
    /// [`Error::Guard`] names what this machine does not give, and the setting that asks for it.
    pub fn new(settings: Settings) -> Result<Self, Error> {
        let cgroups = match settings.memory {
            MemoryLevel::Process => None,
            MemoryLevel::Tree => Some(Cgroups::find().map_err(|why| Error::Guard {
                guard: Guard::Cgroup,
                why: why.to_string(),
            })?),
        };
        let launcher = Self(Arc::new(Inner {
            supervisor: supervisor(settings.supervisor.clone())?,
            guards: Some(Guards {
                uids: Arc::new(Uids::new(settings.uids.clone(), std::process::id())),
                settings,
                cgroups,
            }),
        }));
        launcher.try_guards()?;
        Ok(launcher)
    }

    /// A launcher without any guard, for `sandbox: none`. Commands have all rights of the host, and
    /// trees of processes are killed as far as they can be found.
    ///
    /// # Errors
    /// [`Error::NotPrepared`] if this program cannot be a supervisor.
    pub fn none() -> Result<Self, Error> {
        Ok(Self(Arc::new(Inner {
            supervisor: supervisor(None)?,
            guards: None,
        })))
    }

    /// Starts a command. It runs until it ends, is killed, or the [`Child`] is dropped.
    ///
    /// # Errors
    /// If the profile or the command cannot be, or a guard could not be put up.
    pub async fn spawn(&self, command: &Command, profile: &Profile) -> Result<Child, Error> {
        let runtime = Handle::try_current().map_err(|_| Error::NoRuntime)?;
        let (plan, held) = self.plan(command, profile)?;
        let ends = Ends::open(command.stdin)?;
        let start = Start {
            supervisor: self.0.supervisor.clone(),
            plan: plan.encode(),
            input: ends.input,
            output: match command.stdin {
                Input::Terminal(_) => Stdio::null,
                Input::Null | Input::Pipe => Stdio::piped,
            },
        };
        let (answer, started) = oneshot::channel();
        let streams = ends.streams;
        thread::run(move || {
            // If nobody waits for it any more it is dropped, and so ends.
            let _ = answer.send(start.begin(&runtime, streams));
        })?;
        let started = started.await.map_err(|_| Error::Lost)??;
        let mut child = Child::new(started, held, profile.limits.output_bytes);
        child.begun().await.map_err(|fault| match fault {
            Some((what, why)) => error(what, why, command),
            None => Error::Lost,
        })?;
        Ok(child)
    }

    /// Makes a folder one that commands of different users can work in together. Only root needs
    /// that: the commands of any other user are all that user's.
    ///
    /// # Errors
    /// If the folder cannot be given to their group.
    pub fn share(&self, folder: &Path) -> io::Result<()> {
        match &self.0.guards {
            Some(guards) if geteuid().is_root() => {
                std::os::unix::fs::chown(folder, None, Some(guards.settings.group))?;
                // What is made in it belongs to the group too.
                std::fs::set_permissions(folder, Permissions::from_mode(0o2770))
            }
            _ => Ok(()),
        }
    }

    /// The settings of its guards; none for `sandbox: none`.
    pub fn settings(&self) -> Option<&Settings> {
        self.0.guards.as_ref().map(|guards| &guards.settings)
    }

    /// Puts every guard up around nothing.
    fn try_guards(&self) -> Result<(), Error> {
        let command = Command::new("");
        let (mut plan, held) = self.plan(&command, &Profile::default())?;
        plan.program = None;
        let start = Start {
            supervisor: self.0.supervisor.clone(),
            plan: plan.encode(),
            input: None,
            output: Stdio::null,
        };
        let (answer, report) = mpsc::channel();
        thread::run(move || {
            let _ = answer.send(start.try_out());
        })?;
        let report = report.recv().map_err(|_| Error::Lost)?;
        drop(held);
        match report.map_err(|why| Error::io("start the supervisor", why))? {
            Some(Report::Failed { what, why }) => Err(error(what, why, &command)),
            Some(Report::Started) => Ok(()),
            Some(Report::Ended(_) | Report::TimedOut) | None => Err(Error::Lost),
        }
    }

    fn plan(&self, command: &Command, profile: &Profile) -> Result<(Plan, Held), Error> {
        let mut held = Held::default();
        let confinement = match &self.0.guards {
            Some(guards) => Some(guards.confine(profile, &mut held)?),
            None => None,
        };
        let plan = Plan {
            confinement,
            program: Some(command.program.clone()),
            args: command.args.clone(),
            env: environment(&command.env)?,
            cwd: command.cwd.clone(),
            terminal: matches!(command.stdin, Input::Terminal(_)),
            wall_time: profile.limits.wall_time,
        };
        Ok((plan, held))
    }
}

impl Guards {
    fn confine(&self, profile: &Profile, held: &mut Held) -> Result<Confinement, Error> {
        let limits = &profile.limits;
        for (name, value, least) in [
            ("memory", limits.memory, MIN_MEMORY),
            ("open_files", limits.open_files, MIN_OPEN_FILES),
            ("processes", limits.processes, 1),
        ] {
            if value < least {
                return Err(Error::Limit { name, value, least });
            }
        }
        let identity = match geteuid() {
            root if root.is_root() => {
                let lease = self.uids.lease(profile.uid)?;
                let uid = lease.uid;
                held.lease = Some(lease);
                Identity::Dropped {
                    uid,
                    gid: self.settings.group,
                }
            }
            user => Identity::Mapped {
                uid: user.as_raw(),
                gid: getegid().as_raw(),
            },
        };
        let group = self.group(limits.memory)?;
        let cgroup = group.as_ref().map(|group| group.path.clone());
        held.group = group;
        Ok(Confinement {
            identity,
            network: profile.network,
            mounts: layout::mounts(profile, &self.settings.hidden)?,
            limits: limits.clone(),
            memory: self.settings.memory,
            landlock: self.settings.landlock,
            cgroup,
        })
    }

    fn group(&self, memory: u64) -> Result<Option<Group>, Error> {
        let group = self.cgroups.as_ref().map(|groups| groups.make(memory));
        group.transpose().map_err(|why| Error::Guard {
            guard: Guard::Cgroup,
            why: why.to_string(),
        })
    }
}

/// What the thread needs to start a supervisor.
struct Start {
    supervisor: PathBuf,
    plan: Vec<u8>,
    input: Option<OwnedFd>,
    output: fn() -> Stdio,
}

impl Start {
    fn command(&self, theirs: UnixStream) -> std::process::Command {
        let mut command = std::process::Command::new(&self.supervisor);
        command
            .arg0(stage::SUPERVISOR)
            .env_clear()
            .envs([stage::FRUGAL]);
        command.current_dir("/").stdin(OwnedFd::from(theirs));
        command.stdout((self.output)()).stderr((self.output)());
        command
    }

    fn begin(&self, runtime: &Handle, streams: Streams) -> Result<Started, Error> {
        let failed = |why: io::Error| Error::io("start the supervisor", why);
        let _inside = runtime.enter();
        let (ours, theirs) = UnixStream::pair().map_err(failed)?;
        let mut command = tokio::process::Command::from(self.command(theirs));
        let mut process = command.spawn().map_err(failed)?;
        drop(command);
        ours.set_write_timeout(Some(PATIENCE)).map_err(failed)?;
        // A supervisor that has ended is noticed when it is waited for.
        let _ = send_message(&ours, &self.plan, self.input.as_ref().map(AsFd::as_fd));
        ours.set_nonblocking(true).map_err(failed)?;
        let streams = streams.with(process.stdout.take(), process.stderr.take());
        Ok(Started {
            process,
            socket: tokio::net::UnixStream::from_std(ours).map_err(failed)?,
            streams,
        })
    }

    fn try_out(&self) -> io::Result<Option<Report>> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_read_timeout(Some(PATIENCE))?;
        let mut command = self.command(theirs);
        let mut process = command.spawn()?;
        drop(command);
        send_message(&ours, &self.plan, None)?;
        let report = receive(&ours);
        drop(ours);
        process.wait()?;
        report?
            .map(|(report, _)| Report::decode(&report))
            .transpose()
    }
}

/// The program that is started as supervisor: this one, unless another is named.
fn supervisor(named: Option<PathBuf>) -> Result<PathBuf, Error> {
    match named {
        Some(path) => Ok(path),
        None if stage::prepared() => Ok(stage::MYSELF.into()),
        None => Err(Error::NotPrepared),
    }
}

/// What is in the environment of a command.
fn environment(given: &[(OsString, OsString)]) -> Result<Vec<(OsString, OsString)>, Error> {
    for (name, value) in given {
        let has = |text: &OsStr, byte| text.as_encoded_bytes().contains(&byte);
        let why = if LOADER.iter().any(|loader| name == loader) {
            "it would have the loader run foreign code"
        } else if name.is_empty() || has(name, b'=') || has(name, 0) || has(value, 0) {
            "it is not a variable"
        } else {
            continue;
        };
        let name = name.clone();
        return Err(Error::Environment { name, why });
    }
    let mut all = given.to_vec();
    for (name, value) in ENVIRONMENT {
        if !given.iter().any(|(given, _)| given == name) {
            all.push((name.into(), value.into()));
        }
    }
    Ok(all)
}

/// What a stage reports, for the caller.
fn error(what: Fault, why: String, command: &Command) -> Error {
    match what {
        Fault::Guard(guard) => Error::Guard { guard, why },
        Fault::Program => Error::NotStarted {
            program: command.program.clone(),
            why,
        },
        Fault::Folder => Error::Folder {
            path: command.cwd.clone(),
            why,
        },
    }
}

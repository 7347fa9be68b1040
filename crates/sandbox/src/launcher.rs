//! Starting commands.

use std::ffi::{OsStr, OsString};
use std::fs::Permissions;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc;

use rustix::process::{getegid, geteuid};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::cgroup::{Cgroups, Group};
use crate::child::Held;
use crate::plan::{Confinement, Identity, Plan};
use crate::profile::{MIN_MEMORY, MIN_OPEN_FILES};
use crate::report::{Fault, Report};
use crate::settings::MemoryLevel;
use crate::streams::Ends;
use crate::supervisor::{Start, Supervisor};
use crate::uids::Uids;
use crate::{Child, Command, Error, Guard, Input, Profile, Settings, layout, stage, thread, warm};

/// Variables that make the loader run foreign code in whatever is started.
const LOADER: [&str; 2] = ["LD_PRELOAD", "LD_AUDIT"];
/// Where programs are looked for by name, if the environment of a command says nothing else.
pub const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// What a command has in its environment if nothing else is said.
const ENVIRONMENT: [(&str, &str); 3] = [("PATH", PATH), ("HOME", "/tmp"), ("TMPDIR", "/tmp")];

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
        let launcher = Self::untried(settings)?;
        launcher.try_guards()?;
        Ok(launcher)
    }

    /// A launcher with every guard. Each command is started with all of them or not at all;
    /// [`Launcher::try_guards`] tells before the first one.
    ///
    /// # Errors
    /// [`Error::NotPrepared`] if this program cannot be a supervisor, [`Error::Guard`] if there are no
    /// control groups and the settings ask for them.
    pub fn untried(settings: Settings) -> Result<Self, Error> {
        let cgroups = match settings.memory {
            MemoryLevel::Process => None,
            MemoryLevel::Tree => Some(Cgroups::find().map_err(|why| Error::Guard {
                guard: Guard::Cgroup,
                why: why.to_string(),
            })?),
        };
        Ok(Self(Arc::new(Inner {
            supervisor: supervisor(settings.supervisor.clone())?,
            guards: Some(Guards {
                uids: Arc::new(Uids::new(settings.uids.clone(), std::process::id())),
                settings,
                cgroups,
            }),
        })))
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
        Handle::try_current().map_err(|_| Error::NoRuntime)?;
        let (start, plan, held) = self.plan(command, profile)?;
        let ends = Ends::open(command.stdin)?;
        let failed = |why: io::Error| Error::io("start the supervisor", why);
        let supervisor = match warm::take(&start) {
            Some(waiting) => waiting,
            None => cold(start.clone()).await?.map_err(failed)?,
        };
        let started = supervisor.begin(&plan, ends.input, ends.streams).await;
        let started = started.map_err(failed)?;
        let mut child = Child::new(started, held, profile.limits.output_bytes);
        child.begun().await.map_err(|fault| match fault {
            Some((what, why)) => error(what, why, command),
            None => Error::Lost,
        })?;
        // Only now, so as not to be in the way of this one.
        if start.can_wait() {
            thread::run(move || warm::refill(&start))?;
        }
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

    /// The same for a folder that others work in too, with all that is in it, or for a file: it is given
    /// to the group, which may do with it what its owner may. Links are left alone, and what has several
    /// names, since one of them may lie elsewhere.
    ///
    /// # Errors
    /// If something cannot be given to the group.
    pub fn share_all(&self, path: &Path) -> io::Result<()> {
        let Some(guards) = self.0.guards.as_ref().filter(|_| geteuid().is_root()) else {
            return Ok(());
        };
        let found = path.symlink_metadata()?;
        let is_plain = found.is_file() && found.nlink() == 1;
        if !found.is_dir() && !is_plain {
            return Ok(());
        }
        std::os::unix::fs::lchown(path, None, Some(guards.settings.group))?;
        let mode = found.mode() & 0o7777;
        // What is made in a folder belongs to the group too.
        let of_folder = if found.is_dir() { 0o2070 } else { 0 };
        let mode = mode | ((mode & 0o700) >> 3) | of_folder;
        std::fs::set_permissions(path, Permissions::from_mode(mode))?;
        if found.is_dir() {
            for entry in std::fs::read_dir(path)? {
                self.share_all(&entry?.path())?;
            }
        }
        Ok(())
    }

    /// The settings of its guards; none for `sandbox: none`.
    pub fn settings(&self) -> Option<&Settings> {
        self.0.guards.as_ref().map(|guards| &guards.settings)
    }

    /// Puts every guard up around nothing. Takes some milliseconds, and blocks.
    ///
    /// # Errors
    /// [`Error::Guard`] names what this machine does not give, and the setting that asks for it.
    pub fn try_guards(&self) -> Result<(), Error> {
        if self.0.guards.is_none() {
            return Ok(());
        }
        let command = Command::new("");
        let (start, mut plan, held) = self.plan(&command, &Profile::default())?;
        plan.program = None;
        let (answer, report) = mpsc::channel();
        thread::run(move || {
            let _ = answer.send(start.start().and_then(|it| it.try_out(&plan)));
        })?;
        let report = report.recv().map_err(|_| Error::Lost)?;
        drop(held);
        match report.map_err(|why| Error::io("start the supervisor", why))? {
            Some(Report::Failed { what, why }) => Err(error(what, why, &command)),
            Some(Report::Started) => Ok(()),
            Some(Report::Ended(_) | Report::TimedOut | Report::Over) | None => Err(Error::Lost),
        }
    }

    fn plan(&self, command: &Command, profile: &Profile) -> Result<(Start, Plan, Held), Error> {
        let mut held = Held::default();
        let confinement = match &self.0.guards {
            Some(guards) => Some(guards.confine(profile, &mut held)?),
            None => None,
        };
        let start = Start {
            program: self.0.supervisor.clone(),
            ground: confinement
                .as_ref()
                .map(|it| it.ground(held.group.as_ref())),
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
        Ok((start, plan, held))
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
        held.group = self.group(limits.memory)?;
        Ok(Confinement {
            identity,
            network: profile.network,
            mounts: layout::mounts(profile, &self.settings.hidden, &self.settings.shown)?,
            limits: limits.clone(),
            memory: self.settings.memory,
            landlock: self.settings.landlock,
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

/// Has a supervisor started.
async fn cold(start: Start) -> Result<io::Result<Supervisor>, Error> {
    let (answer, started) = oneshot::channel();
    thread::run(move || {
        // If nobody waits for it any more it is dropped, and so ends.
        if let Err(Ok(unwanted)) = answer.send(start.start()) {
            Supervisor::dismiss(unwanted);
        }
    })?;
    started.await.map_err(|_| Error::Lost)
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

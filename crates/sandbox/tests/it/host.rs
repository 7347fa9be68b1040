//! Starting a host, as root and as a plain user.

use std::ffi::{OsStr, OsString};
use std::fs::{self, Permissions};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, geteuid, pidfd_open};
use tempfile::TempDir;

/// A user without any rights.
const NOBODY: u32 = 65534;

/// Whom a host runs as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum User {
    Root,
    Plain,
}

/// A host to be started, with a folder of its own.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) user: User,
    pub(crate) home: TempDir,
    program: PathBuf,
    options: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
}

/// What a host said.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    /// How the command ended, or why it did not start.
    pub(crate) end: String,
}

/// Runs a test as root and as a plain user.
pub(crate) fn each(test: impl Fn(Host)) {
    as_root(&test);
    as_plain_user(test);
}

/// Runs a test as root, if this is root.
pub(crate) fn as_root(test: impl Fn(Host)) {
    match geteuid().is_root() {
        true => test(Host::new(User::Root)),
        false => eprintln!("skipped as root: the tests are not run by root"),
    }
}

pub(crate) fn as_plain_user(test: impl Fn(Host)) {
    test(Host::new(User::Plain));
}

impl Host {
    fn new(user: User) -> Self {
        let home = tempfile::tempdir().unwrap();
        fs::set_permissions(home.path(), Permissions::from_mode(0o755)).unwrap();
        let mut program = PathBuf::from(env!("CARGO_BIN_EXE_sandbox-host"));
        if user == User::Plain && geteuid().is_root() {
            chown(home.path(), Some(NOBODY), Some(NOBODY)).unwrap();
            if !open_to_all(&program) {
                let copy = home.path().join("sandbox-host");
                fs::copy(&program, &copy).unwrap();
                program = copy;
            }
        }
        Self {
            user,
            home,
            program,
            options: Vec::new(),
            environment: Vec::new(),
        }
    }

    /// The host, which also makes attempts to break out.
    pub(crate) fn program(&self) -> &Path {
        &self.program
    }

    pub(crate) fn option(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.options.push(name.into());
        self.options.push(value.as_ref().into());
        self
    }

    pub(crate) fn environment(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// A folder that every user may change.
    pub(crate) fn shared_folder(&self, name: &str) -> PathBuf {
        let folder = self.home.path().join(name);
        fs::create_dir(&folder).unwrap();
        fs::set_permissions(&folder, Permissions::from_mode(0o777)).unwrap();
        folder
    }

    /// A file that every user may change.
    pub(crate) fn shared_file(&self, name: &str, text: &str) -> PathBuf {
        let file = self.home.path().join(name);
        fs::write(&file, text).unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o666)).unwrap();
        file
    }

    /// Runs a command to its end.
    pub(crate) fn run<A: AsRef<OsStr>>(&self, command: impl IntoIterator<Item = A>) -> Said {
        Said::of(&mut self.command(command))
    }

    /// The host with a command, to be started.
    pub(crate) fn command<A: AsRef<OsStr>>(&self, command: impl IntoIterator<Item = A>) -> Command {
        self.command_with(&[], command)
    }

    /// The same with more options.
    pub(crate) fn command_with<A: AsRef<OsStr>>(
        &self,
        options: &[&str],
        command: impl IntoIterator<Item = A>,
    ) -> Command {
        let mut host = Command::new(&self.program);
        host.args(&self.options).args(options);
        host.arg("--").args(command);
        self.as_user(&mut host);
        host
    }

    /// The host that tries every guard.
    pub(crate) fn doctor(&self) -> Command {
        let mut host = Command::new(&self.program);
        host.args(&self.options).arg("doctor");
        self.as_user(&mut host);
        host
    }

    /// Makes any program run as the host's user.
    pub(crate) fn as_user(&self, host: &mut Command) {
        host.envs(self.environment.iter().cloned());
        host.stdin(Stdio::null()).current_dir("/");
        if self.user == User::Plain && geteuid().is_root() {
            host.uid(NOBODY).gid(NOBODY);
        }
    }

    /// Makes an attempt to break out. What it says, and how it ended.
    pub(crate) fn attempt<A: AsRef<OsStr>>(
        &self,
        name: &str,
        arguments: impl IntoIterator<Item = A>,
    ) -> Said {
        let program = self.program.to_str().unwrap();
        let mut command: Vec<OsString> = [program, "sandbox-attempt", name].map(Into::into).into();
        command.extend(arguments.into_iter().map(|it| it.as_ref().to_owned()));
        Said::of(&mut self.command_with(&["--read", program], command))
    }

    /// Makes an attempt that must fail. How it failed.
    #[track_caller]
    pub(crate) fn held<A: AsRef<OsStr>>(
        &self,
        name: &str,
        arguments: impl IntoIterator<Item = A>,
    ) -> String {
        let said = self.attempt(name, arguments);
        let how = said.stdout.strip_prefix("held: ");
        let ended = said.end == "exited with code 0";
        let Some(how) = how.filter(|_| ended) else {
            panic!("{name} as {:?}: {said:?}", self.user);
        };
        how.trim_end().to_owned()
    }

    /// Does something that is no attempt at all under this profile.
    #[track_caller]
    pub(crate) fn possible<A: AsRef<OsStr>>(
        &self,
        name: &str,
        arguments: impl IntoIterator<Item = A>,
    ) {
        let said = self.attempt(name, arguments);
        let broken = said.stdout.starts_with("broken: ") && said.end == "exited with code 1";
        assert!(broken, "{name} as {:?}: {said:?}", self.user);
    }
}

impl Said {
    /// Runs a host to its end.
    pub(crate) fn of(host: &mut Command) -> Self {
        let output = host.output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        let stderr = text(output.stderr);
        let end = stderr.lines().rfind(|line| line.starts_with("sandbox: "));
        let Some(end) = end else {
            panic!("the host ended without a word: {} {stderr}", output.status);
        };
        Self {
            stdout: text(output.stdout),
            end: end.trim_start_matches("sandbox: ").to_owned(),
            stderr,
        }
    }
}

/// A number that is in the arguments of no other process.
pub(crate) fn marker() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("3{:07}{number:03}", std::process::id())
}

/// The processes that have this argument.
pub(crate) fn marked(marker: &str) -> Vec<OwnedFd> {
    let argument = |bytes: &[u8]| {
        let mut arguments = bytes.split(|byte| *byte == 0);
        // A shell has it in its script, and is as good.
        arguments.any(|it| {
            it.windows(marker.len())
                .any(|part| part == marker.as_bytes())
        })
    };
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let numbers = entries.filter_map(|entry| {
        let number: i32 = entry.file_name().to_str()?.parse().ok()?;
        let line = fs::read(entry.path().join("cmdline")).ok()?;
        // A host that is starting the next supervisor is there twice for a moment.
        let program = line.split(|byte| *byte == 0).next();
        let is_host = program.is_some_and(|it| it.ends_with(b"sandbox-host"));
        (!is_host && argument(&line)).then_some(number)
    });
    numbers
        .filter_map(Pid::from_raw)
        .filter_map(|pid| pidfd_open(pid, PidfdFlags::empty()).ok())
        .collect()
}

/// Waits until these processes have ended.
#[track_caller]
pub(crate) fn ended(processes: &[OwnedFd]) {
    let patience = Timespec {
        tv_sec: 20,
        tv_nsec: 0,
    };
    for process in processes {
        let ready = poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&patience)).unwrap();
        assert_eq!(ready, 1, "a process lives on");
    }
}

/// Waits until every process has ended that has this argument, those included that it has started
/// while they were looked for.
#[track_caller]
pub(crate) fn all_ended(marker: &str) {
    const ROUNDS: usize = 100;
    for _ in 0..ROUNDS {
        let left = marked(marker);
        if left.is_empty() {
            return;
        }
        ended(&left);
    }
    panic!("processes go on to be started");
}

/// Whether every user can run this program.
fn open_to_all(program: &Path) -> bool {
    program
        .ancestors()
        .all(|path| fs::metadata(path).is_ok_and(|it| it.permissions().mode() & 0o005 == 0o005))
}

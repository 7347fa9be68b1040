//! Which guards are up on this machine, each proven by an attempt to get past it.

use std::ffi::OsString;
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::{Pid, Signal, geteuid, kill_process};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::settings::MemoryLevel;
use crate::{Child, Command, Guard, Input, Launcher, Limits, Profile, Why, attempt};

/// What there is to say about one guard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuardReport {
    /// Which.
    pub guard: Guard,
    /// Whether it is around every command.
    pub active: bool,
    /// What came of the attempt to get past it.
    pub proof: Proof,
    /// What it means to have it.
    pub meaning: &'static str,
    /// How to get it where it is missing.
    pub remedy: &'static str,
}

/// What came of an attempt to get past a guard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Proof {
    /// It failed, in this way.
    Held(String),
    /// It went through: the guard is not to be relied on.
    Broken(String),
    /// There was none, for this reason.
    NotTried(String),
}

/// Memory that attempts may use; one of them uses it up.
const MEMORY: u64 = 64 << 20;
/// MiB of page tables that a process with so little memory may have, and a bit.
const MOST_TABLES: u64 = 130;
/// The limits that attempts run into.
const PROCESSES: u64 = 8;
const OPEN_FILES: u64 = 32;
/// Files of the host that are no part of a profile.
const OUTSIDE: [&str; 4] = ["/etc/passwd", "/etc/shadow", "/etc/hostname", "/sys"];
/// Files of `/proc` that describe the kernel.
const MASKED: [&str; 6] = [
    "/proc/config.gz",
    "/proc/kallsyms",
    "/proc/keys",
    "/proc/cmdline",
    "/proc/modules",
    "/proc/bus",
];
/// How long one attempt may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// Tries to get past every guard of a launcher, from inside.
///
/// It needs a tokio runtime, as [`Launcher::spawn`] does.
pub async fn report(launcher: &Launcher) -> Vec<GuardReport> {
    let mut reports = Vec::with_capacity(Guard::ALL.len());
    for guard in Guard::ALL {
        let proof = match launcher.settings() {
            None => Proof::NotTried("`sandbox: none` is written down".into()),
            Some(_) => prove(launcher, guard).await,
        };
        reports.push(GuardReport {
            guard,
            active: matches!(proof, Proof::Held(_)),
            proof,
            meaning: meaning(guard),
            remedy: guard.remedy(),
        });
    }
    reports
}

async fn prove(launcher: &Launcher, guard: Guard) -> Proof {
    match guard {
        Guard::DeathSignal => match death_signal(launcher).await {
            Ok(how) => Proof::Held(how),
            Err(how) => Proof::Broken(how),
        },
        Guard::PidNamespace => {
            let own = std::process::id().to_string().into();
            let kill = run(launcher, "kill", &[own]).await;
            let see = run(launcher, "see-processes", &[]).await;
            both(both(kill, see), run(launcher, "orphan", &[]).await)
        }
        Guard::NetworkNamespace => network(launcher).await,
        Guard::UserNamespace | Guard::Uid | Guard::Cgroup => by_user(launcher, guard).await,
        Guard::Limits => {
            let processes = PROCESSES.to_string().into();
            let files = OPEN_FILES.to_string().into();
            let processes = run(launcher, "processes", &[processes]).await;
            let files = run(launcher, "open-files", &[files]).await;
            let tmp = [OsString::from("/tmp"), MEMORY.to_string().into()];
            let proof = both(both(processes, files), run(launcher, "fill", &tmp).await);
            both(proof, memory(launcher).await)
        }
        Guard::Descriptors => run(launcher, "descriptors", &[]).await,
        Guard::MountNamespace => {
            let outside = run(launcher, "read", &OUTSIDE.map(Into::into)).await;
            let masked = run(launcher, "read", &MASKED.map(Into::into)).await;
            both(both(outside, masked), run(launcher, "mounts", &[]).await)
        }
        Guard::IpcNamespace => {
            let host = std::fs::read_link("/proc/self/ns/ipc").unwrap_or_default();
            run(launcher, "namespace", &["ipc".into(), host.into()]).await
        }
        Guard::Capabilities => run(launcher, "privileges", &[]).await,
        Guard::NoNewPrivileges => run(launcher, "new-privileges", &[]).await,
        Guard::Landlock => {
            // Of these nothing else would keep a command.
            let own = ["/proc/self/comm", "/proc/self/oom_score_adj"];
            let own = run(launcher, "write", &own.map(Into::into)).await;
            let outside = ["/usr/attempt", "/attempt", "/etc/attempt"];
            both(own, run(launcher, "write", &outside.map(Into::into)).await)
        }
        Guard::Seccomp => {
            let calls = run(launcher, "system-calls", &[]).await;
            let calls = both(calls, run(launcher, "ptrace", &[]).await);
            both(calls, run(launcher, "sockets", &[]).await)
        }
    }
}

/// The guards that one kind of host has and the other does not.
async fn by_user(launcher: &Launcher, guard: Guard) -> Proof {
    let Some(settings) = launcher.settings() else {
        return Proof::NotTried("there is no sandbox".into());
    };
    match (guard, geteuid().is_root()) {
        (Guard::Uid, true) => {
            let ends = [settings.uids.start, settings.uids.end];
            run(launcher, "user", &ends.map(|end| end.to_string().into())).await
        }
        (Guard::Uid, false) => Proof::NotTried("only root can give commands another user".into()),
        (Guard::UserNamespace, true) => Proof::NotTried("root needs none".into()),
        (Guard::Cgroup, _) if settings.memory == MemoryLevel::Process => {
            Proof::NotTried("`memory_of: process` counts each process by itself".into())
        }
        (Guard::Cgroup, _) => out_of_memory(launcher).await,
        _ => run(launcher, "privileges", &[]).await,
    }
}

/// Every way to more memory than a process may have; a tree is tried with its cgroup.
async fn memory(launcher: &Launcher) -> Proof {
    let level = launcher.settings().map(|settings| settings.memory);
    if level != Some(MemoryLevel::Process) {
        return Proof::Held("memory is counted for the tree".into());
    }
    let much = MEMORY.to_string().into();
    let stack = MEMORY.saturating_mul(2).to_string().into();
    let proof = both(
        run(launcher, "memory", &[much]).await,
        run(launcher, "stack", &[stack]).await,
    );
    if !Path::new(attempt::PERL).exists() {
        let untried = format!("without {} the rest is not tried", attempt::PERL);
        return both(proof, Proof::Held(untried));
    }
    let tables = MOST_TABLES.to_string().into();
    let proof = both(proof, run(launcher, "grows-down", &[]).await);
    both(proof, run(launcher, "sparse", &[tables]).await)
}

/// Tries to reach what listens here for just that.
async fn network(launcher: &Launcher) -> Proof {
    let name = format!("frith-doctor-{}", std::process::id());
    let listen = || -> std::io::Result<_> {
        let tcp = TcpListener::bind("127.0.0.1:0")?;
        let udp = UdpSocket::bind("127.0.0.1:0")?;
        let unix = SocketAddr::from_abstract_name(&name)?;
        Ok((tcp, udp, UnixListener::bind_addr(&unix)?))
    };
    let Ok((tcp, udp, unix)) = listen() else {
        return Proof::NotTried("nothing can listen on the loopback device here".into());
    };
    let address = |result: std::io::Result<std::net::SocketAddr>| {
        result.map(|it| it.to_string()).unwrap_or_default().into()
    };
    let proof = both(
        run(launcher, "tcp", &[address(tcp.local_addr())]).await,
        run(launcher, "udp", &[address(udp.local_addr())]).await,
    );
    let proof = both(
        proof,
        run(launcher, "abstract-socket", &[name.into()]).await,
    );
    drop(unix);
    proof
}

/// Makes one attempt.
async fn run(launcher: &Launcher, name: &str, arguments: &[OsString]) -> Proof {
    match begin(launcher, name, arguments, Input::Null).await {
        Ok(child) => finish(child).await,
        Err(why) => Proof::Broken(why),
    }
}

async fn begin(
    launcher: &Launcher,
    name: &str,
    arguments: &[OsString],
    stdin: Input,
) -> Result<Child, String> {
    let program = program(launcher).map_err(|why| why.to_string())?;
    let mut profile = Profile {
        limits: Limits {
            memory: MEMORY,
            processes: PROCESSES,
            open_files: OPEN_FILES,
            tmp_bytes: MEMORY / 4,
            wall_time: PATIENCE,
            ..Limits::default()
        },
        ..Profile::default()
    };
    profile.readable.push(program.clone());
    let command = Command {
        stdin,
        ..attempt::command(program.as_os_str(), name, arguments)
    };
    let child = launcher.spawn(&command, &profile).await;
    child.map_err(|why| why.to_string())
}

/// Where the program that makes the attempts is.
fn program(launcher: &Launcher) -> std::io::Result<PathBuf> {
    let named = launcher.settings().and_then(|it| it.supervisor.clone());
    named.map_or_else(std::env::current_exe, Ok)
}

async fn finish(mut child: Child) -> Proof {
    let mut said = String::new();
    if let Some(mut output) = child.stdout.take() {
        let _ = output.read_to_string(&mut said).await;
    }
    let exit = child.wait().await;
    match said.strip_prefix(attempt::HELD) {
        Some(how) if exit.is_success() => Proof::Held(how.trim_end().to_owned()),
        _ => Proof::Broken(format!("{}({exit})", said.trim_end())),
    }
}

/// Kills a supervisor, and sees whether all that it supervised ends.
async fn death_signal(launcher: &Launcher) -> Result<String, String> {
    let mut child = begin(launcher, "idle", &[], Input::Pipe).await?;
    let pid = i32::try_from(child.pid()).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or("the supervisor has no number")?;
    kill_process(pid, Signal::KILL).map_err(|why| why.to_string())?;
    // Its input has no reader any more, and its output ends, when nobody is left.
    let mut left = Vec::new();
    if let Some(mut output) = child.stdout.take() {
        let read = tokio::time::timeout(PATIENCE, output.read_to_end(&mut left)).await;
        read.map_err(|_| "the command lives on without its supervisor")?
            .map_err(|why| why.to_string())?;
    }
    if let Some(mut input) = child.stdin.take() {
        // The first process may end a moment after the command.
        let unread = async {
            while input.write_all(b"?").await.is_ok() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let unread = tokio::time::timeout(PATIENCE, unread).await;
        unread.map_err(|_| "the command lives on without its supervisor")?;
    }
    child.wait().await;
    Ok("the command ended with its supervisor".into())
}

/// Uses more memory than there is for the tree, and sees whether the kernel ends it.
async fn out_of_memory(launcher: &Launcher) -> Proof {
    let most = MEMORY.saturating_mul(4).to_string().into();
    match begin(launcher, "memory", &[most], Input::Null).await {
        Err(why) => Proof::Broken(why),
        Ok(mut child) => match child.wait().await {
            exit if exit.why == Some(Why::Memory) => Proof::Held(exit.to_string()),
            _ => finish(child).await,
        },
    }
}

/// Holds only if both hold.
fn both(one: Proof, other: Proof) -> Proof {
    match (one, other) {
        (Proof::Held(one), Proof::Held(other)) => Proof::Held(format!("{one}; {other}")),
        (Proof::Held(_), other) => other,
        (one, _) => one,
    }
}

const fn meaning(guard: Guard) -> &'static str {
    match guard {
        Guard::DeathSignal => "commands end with frith, even if it is killed",
        Guard::Descriptors => "commands have no open file or socket of frith",
        Guard::UserNamespace => "the other namespaces are there without being root",
        Guard::PidNamespace => {
            "commands see and signal only their own processes, and all of these end together; \
             without it trees are killed as far as they are found"
        }
        Guard::MountNamespace => "commands see only the files of their profile",
        Guard::NetworkNamespace => "commands reach nobody over IP or abstract Unix sockets",
        Guard::IpcNamespace => "commands have no shared memory and queues of others",
        Guard::Uid => "commands have no right of anybody, and their processes are counted",
        Guard::Capabilities => "commands have no special rights",
        Guard::NoNewPrivileges => "no program gives commands more rights, nor a look into others",
        Guard::Landlock => {
            "commands write only where their profile says, and use no TCP without it"
        }
        Guard::Seccomp => "commands have only the system calls and sockets that programs need",
        Guard::Limits => "commands cannot use up processes, files, memory, processor and disk",
        Guard::Cgroup => "memory is counted for all processes of a command together",
    }
}

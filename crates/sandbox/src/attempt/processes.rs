//! Attempts on processes, memory and rights.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::sched::{CloneFlags, unshare};
use nix::sys::ptrace;
use rustix::process::{Pid, Signal, getuid, kill_process, test_kill_process};

use super::{ASKED, Outcome, again, all, must_fail, number, text};

/// Signalling these processes of the host, and the first process here.
pub(super) fn kill(arguments: &[OsString]) -> Outcome {
    let host = all((0..arguments.len()).map(|place| {
        let number = number(arguments, place);
        let pid = i32::try_from(number).ok().and_then(Pid::from_raw);
        // Only whether it could: if the guards do not hold, the host is to say so.
        let result = pid.map_or(Err(rustix::io::Errno::SRCH), test_kill_process);
        must_fail(format!("signalling {number}"), result)
    }));
    let Outcome::Held(how) = host else {
        return host;
    };
    // The kernel keeps this signal from the first process of a namespace; if not, all ends here.
    let _ = kill_process(Pid::INIT, Signal::KILL);
    match Path::new("/proc/1").exists() {
        true => Outcome::Held(format!("{how}; the first process lives")),
        false => Outcome::Broken("the first process was killed".into()),
    }
}

/// Seeing a process that is not of this sandbox.
pub(super) fn see(_: &[OsString]) -> Outcome {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Outcome::Broken("there is no /proc".into());
    };
    let numbers = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    match numbers.collect::<Vec<_>>().as_slice() {
        [1, 2] => Outcome::Held("only the first process and this one are to be seen".into()),
        numbers => Outcome::Broken(format!("processes {numbers:?} are to be seen")),
    }
}

/// Tracing the first process and these, and looking into the memory of the first.
pub(super) fn trace(arguments: &[OsString]) -> Outcome {
    let given = (0..arguments.len()).map(|place| number(arguments, place));
    let traced = [1].into_iter().chain(given).map(|number| {
        let pid = nix::unistd::Pid::from_raw(i32::try_from(number).unwrap_or(i32::MAX));
        must_fail(format!("tracing {number}"), ptrace::attach(pid))
    });
    let looked = ["mem", "environ", "maps", "fd/0", "root/"].map(|name| {
        let what = format!("opening /proc/1/{name}");
        must_fail(what, File::open(format!("/proc/1/{name}")))
    });
    all(traced.chain(looked))
}

/// Having more than so many processes at a time.
pub(super) fn many(arguments: &[OsString]) -> Outcome {
    let most = number(arguments, 0);
    let mut children = Children(Vec::new());
    for count in 1..=most {
        match again("idle", &[], Stdio::null()) {
            Ok(child) => children.0.push(child),
            Err(why) => return Outcome::Held(format!("{count} processes, then: {why}")),
        }
    }
    Outcome::Broken(format!("{} processes run", most.saturating_add(1)))
}

/// Children that end with this.
struct Children(Vec<Child>);

impl Drop for Children {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Does nothing until it is killed.
pub(super) fn idle(_: &[OsString]) -> Outcome {
    loop {
        std::thread::park_timeout(Duration::from_secs(3600));
    }
}

/// Leaving a grandchild behind that has a session of its own and holds the output.
pub(super) fn orphan(_: &[OsString]) -> Outcome {
    // The shell ends at once, and with it the parent of what it has started.
    let script = "trap '' TERM HUP INT; setsid \"$0\" \"$1\" idle & exit 0";
    let shell = std::env::current_exe().and_then(|program| {
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", script]).arg(program).arg(ASKED);
        shell.process_group(0).status()
    });
    match shell {
        Ok(status) if status.success() => Outcome::Held("a grandchild was left behind".into()),
        Ok(status) => Outcome::Broken(format!("the shell failed: {status}")),
        Err(why) => Outcome::Broken(format!("there is no shell: {why}")),
    }
}

/// Crashing, and leaving a dump of memory behind.
pub(super) fn core_dump(_: &[OsString]) -> Outcome {
    let files = || fs::read_dir("/tmp").map(|entries| entries.count());
    // Where the program itself is below /tmp there is a folder already.
    let before = files().unwrap_or_default();
    let crash = Command::new("/bin/sh")
        .args(["-c", "kill -SEGV $$"])
        .current_dir("/tmp")
        .status();
    match (crash, files()) {
        (Ok(status), Ok(left)) if left == before && !status.core_dumped() => {
            Outcome::Held(format!("{status}, and nothing is left"))
        }
        (crash, left) => Outcome::Broken(format!("{crash:?}, files: {before}, then {left:?}")),
    }
}

/// Having rights: capabilities, other users, mounts, namespaces.
pub(super) fn privileges(_: &[OsString]) -> Outcome {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let sets = ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"];
    let kept = status.lines().find(|line| {
        let (name, value) = line.split_once(':').unwrap_or_default();
        sets.contains(&name) && !value.trim().trim_matches('0').is_empty()
    });
    if let Some(kept) = kept {
        return Outcome::Broken(format!("capabilities are left: {kept}"));
    }
    let root = rustix::process::Uid::ROOT;
    all([
        must_fail("becoming root", rustix::thread::set_thread_uid(root)),
        must_fail("a new user namespace", unshare(CloneFlags::CLONE_NEWUSER)),
        must_fail("a new mount namespace", unshare(CloneFlags::CLONE_NEWNS)),
        must_fail("mounting", rustix::mount::mount_bind("/usr", "/tmp")),
        must_fail("a new host name", rustix::system::sethostname(b"attempt")),
    ])
}

/// Being in the host's namespace of a kind (first argument), which the kernel calls so (second).
pub(super) fn namespace(arguments: &[OsString]) -> Outcome {
    let kind = text(arguments, 0).display();
    match fs::read_link(format!("/proc/self/ns/{kind}")) {
        Ok(own) if own != *text(arguments, 1) => {
            Outcome::Held(format!("{} is not the host's", own.display()))
        }
        other => Outcome::Broken(format!("the {kind} namespace is {other:?}")),
    }
}

/// Making it possible again for programs to give rights.
pub(super) fn new_privileges(_: &[OsString]) -> Outcome {
    must_fail(
        "switching no_new_privs off",
        rustix::thread::set_no_new_privs(false),
    )
}

/// System calls that only the kernel's own tools need.
pub(super) fn system_calls(_: &[OsString]) -> Outcome {
    let secure = rustix::thread::secure_computing_mode();
    let filtered = matches!(secure, Ok(rustix::thread::SecureComputingMode::Filter));
    if !filtered {
        return Outcome::Broken(format!("no filter is in force: {secure:?}"));
    }
    let flags = rustix::mount::FsOpenFlags::empty();
    all([
        must_fail("fsopen", rustix::mount::fsopen("tmpfs", flags)),
        must_fail("ptrace", ptrace::traceme()),
        must_fail("pivot_root", rustix::process::pivot_root("/", "/")),
    ])
}

/// A program that would run as root (first argument) says who it is.
pub(super) fn setuid(arguments: &[OsString]) -> Outcome {
    let mut said = String::new();
    let ran = Command::new(text(arguments, 0))
        .arg("-u")
        .stdout(Stdio::piped())
        .spawn()
        .and_then(|mut child| {
            if let Some(output) = &mut child.stdout {
                output.read_to_string(&mut said)?;
            }
            child.wait()
        });
    match ran {
        Err(why) => Outcome::Held(format!("it does not run: {why}")),
        Ok(_) if said.trim() == getuid().as_raw().to_string() => {
            Outcome::Held(format!("it runs as {}", said.trim()))
        }
        Ok(_) => Outcome::Broken(format!("it runs as {}", said.trim())),
    }
}

/// Being a user of this range (first and second argument), which root is never part of.
pub(super) fn user(arguments: &[OsString]) -> Outcome {
    let uid = getuid().as_raw();
    let range = number(arguments, 0)..number(arguments, 1);
    match uid != 0 && range.contains(&uid.into()) {
        true => Outcome::Held(format!("user {uid}")),
        false => Outcome::Broken(format!("user {uid} is not in {range:?}")),
    }
}

/// Having this variable of the host in the environment.
pub(super) fn environment(arguments: &[OsString]) -> Outcome {
    let name = text(arguments, 0);
    match std::env::var_os(name) {
        None => Outcome::Held(format!("{} is not set", name.display())),
        Some(_) => Outcome::Broken(format!("{} is set", name.display())),
    }
}

//! Attempts to break out, made from inside: by `frith doctor` and by the tests.
//!
//! Each is a program of its own inside a sandbox: this one, started with [`ASKED`] and the name of
//! the attempt. It says on one line whether the guards held, and how it noticed.

mod files;
mod memory;
mod network;
mod processes;

use std::ffi::{OsStr, OsString};
use std::fmt::Display;
use std::io::Write;
use std::process::{Child, Stdio};

use crate::Command;

pub(crate) use memory::PERL;

/// The argument with which the program is started to make an attempt.
pub(crate) const ASKED: &str = "sandbox-attempt";

/// How the line begins that says that the guards held.
pub(crate) const HELD: &str = "held: ";
const BROKEN: &str = "broken: ";

/// What came of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Outcome {
    /// It failed, in this way.
    Held(String),
    /// It was possible.
    Broken(String),
}

/// An attempt takes the arguments after its name.
type Attempt = fn(&[OsString]) -> Outcome;

const ATTEMPTS: &[(&str, Attempt)] = &[
    ("abstract-socket", network::abstract_socket),
    ("core-dump", processes::core_dump),
    ("deep", memory::deep),
    ("descriptors", files::descriptors),
    ("environment", processes::environment),
    ("fill", files::fill),
    ("grows-down", memory::grows_down),
    ("idle", processes::idle),
    ("kill", processes::kill),
    ("memory", memory::much),
    ("mounts", files::mounts),
    ("namespace", processes::namespace),
    ("new-privileges", processes::new_privileges),
    ("open-files", files::open_files),
    ("orphan", processes::orphan),
    ("own-loopback", network::own_loopback),
    ("privileges", processes::privileges),
    ("processes", processes::many),
    ("ptrace", processes::trace),
    ("read", files::read),
    ("see-processes", processes::see),
    ("setuid", processes::setuid),
    ("shared-memory", memory::shared),
    ("sockets", network::sockets),
    ("sparse", memory::sparse),
    ("stack", memory::stack),
    ("swap-links", files::swap_links),
    ("system-calls", processes::system_calls),
    ("tcp", network::tcp),
    ("udp", network::udp),
    ("unix-socket", network::unix_socket),
    ("user", processes::user),
    ("write", files::write),
];

/// The command that makes an attempt, if this program is at that path inside.
pub(crate) fn command(program: &OsStr, name: &str, arguments: &[OsString]) -> Command {
    Command::new(program)
        .args([ASKED, name])
        .args(arguments.iter().cloned())
}

/// Makes an attempt; the exit code is zero if the guards held.
pub(crate) fn run(name: &str, arguments: &[OsString]) -> i32 {
    let attempt = ATTEMPTS.iter().find(|(known, _)| *known == name);
    let outcome = match attempt {
        None => Outcome::Broken(format!("there is no attempt {name}")),
        // They are not harmless where nothing holds them.
        Some(_) if !rustix::thread::no_new_privs().unwrap_or_default() => {
            Outcome::Broken("there is no sandbox around this".into())
        }
        Some((_, attempt)) => attempt(arguments),
    };
    let (line, code) = match outcome {
        Outcome::Held(how) => (format!("{HELD}{how}\n"), 0),
        Outcome::Broken(how) => (format!("{BROKEN}{how}\n"), 1),
    };
    match std::io::stdout().write_all(line.as_bytes()) {
        Ok(()) => code,
        Err(_) => 1,
    }
}

/// The guards held if this failed.
fn must_fail<T, E: Display>(what: impl Display, result: Result<T, E>) -> Outcome {
    match result {
        Ok(_) => Outcome::Broken(format!("{what} is possible")),
        Err(why) => Outcome::Held(format!("{what}: {why}")),
    }
}

/// The first that was possible, or all that failed.
fn all(outcomes: impl IntoIterator<Item = Outcome>) -> Outcome {
    let mut held = Vec::new();
    for outcome in outcomes {
        match outcome {
            Outcome::Held(how) => held.push(how),
            Outcome::Broken(_) => return outcome,
        }
    }
    Outcome::Held(held.join("; "))
}

/// The number at this place among the arguments.
fn number(arguments: &[OsString], place: usize) -> u64 {
    let text = arguments.get(place).and_then(|text| text.to_str());
    text.and_then(|text| text.parse().ok()).unwrap_or_default()
}

/// The text at this place among the arguments.
fn text(arguments: &[OsString], place: usize) -> &OsStr {
    arguments
        .get(place)
        .map(OsString::as_os_str)
        .unwrap_or_default()
}

/// This program again, for another attempt.
fn again(name: &str, arguments: &[OsString], output: Stdio) -> std::io::Result<Child> {
    std::process::Command::new(std::env::current_exe()?)
        .args([ASKED, name])
        .args(arguments)
        .stdout(output)
        .spawn()
}

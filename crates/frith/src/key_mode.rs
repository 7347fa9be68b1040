//! A terminal that gives keys as they are pressed, and does not show them.

use std::io::{IsTerminal, Stdin};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::getpgrp;
use rustix::termios::{
    LocalModes, OptionalActions, QueueSelector, Termios, tcflush, tcgetattr, tcgetpgrp, tcsetattr,
};

/// Standard input in this mode; dropped, the terminal is as it was.
pub(crate) struct KeyMode {
    terminal: Stdin,
    before: Termios,
}

/// What Ctrl-C does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CtrlC {
    /// It is a key.
    Key,
    /// It interrupts the program.
    Interrupts,
}

/// How long one waits for a key before one looks around.
const WAIT: Duration = Duration::from_millis(200);

impl KeyMode {
    /// None if standard input is no terminal, or one of another program in the foreground.
    pub(crate) fn enter(ctrl_c: CtrlC) -> Option<Self> {
        let terminal = std::io::stdin();
        if !terminal.is_terminal() || is_in_background(&terminal) {
            return None;
        }
        let before = tcgetattr(&terminal).ok()?;
        let mut by_key = before.clone();
        by_key
            .local_modes
            .remove(LocalModes::ICANON | LocalModes::ECHO);
        if ctrl_c == CtrlC::Key {
            by_key.local_modes.remove(LocalModes::ISIG);
        }
        tcsetattr(&terminal, OptionalActions::Now, &by_key).ok()?;
        Some(Self { terminal, before })
    }

    /// Forgets what was typed until now.
    pub(crate) fn discard(&self) {
        let _ = tcflush(&self.terminal, QueueSelector::IFlush);
    }

    /// The keys that are typed within a moment; none if there are none, or if the program is not in the
    /// foreground any more.
    pub(crate) async fn next(&self) -> String {
        let read = tokio::task::spawn_blocking(|| {
            let terminal = std::io::stdin();
            let wait = Timespec::try_from(WAIT).ok()?;
            if is_in_background(&terminal) {
                // To read would stop the program.
                std::thread::sleep(WAIT);
                return None;
            }
            let mut ready = [PollFd::new(&terminal, PollFlags::IN)];
            if poll(&mut ready, Some(&wait)).ok()? == 0 {
                return None;
            }
            let mut bytes = [0; 64];
            let size = rustix::io::read(&terminal, &mut bytes[..]).ok()?;
            // A terminal that is gone gives nothing at once, each time.
            if size == 0 {
                std::thread::sleep(WAIT);
            }
            let read = bytes.get(..size).unwrap_or_default();
            Some(String::from_utf8_lossy(read).into_owned())
        });
        read.await.ok().flatten().unwrap_or_default()
    }
}

impl Drop for KeyMode {
    fn drop(&mut self) {
        if !is_in_background(&self.terminal) {
            let _ = tcsetattr(&self.terminal, OptionalActions::Now, &self.before);
        }
    }
}

/// Whether another program has the terminal. Where nobody has it there is no job control.
fn is_in_background(terminal: &Stdin) -> bool {
    tcgetpgrp(terminal).is_ok_and(|group| group != getpgrp())
}

//! A terminal to run commands at, as a person does.

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

/// A command at a terminal.
pub(crate) struct AtTerminal {
    process: Child,
    terminal: File,
    seen: String,
}

impl AtTerminal {
    /// Runs `frith` at a terminal of that many columns.
    pub(crate) fn start(folder: &Path, columns: u16, arguments: &[&str]) -> Self {
        let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&terminal).unwrap();
        unlockpt(&terminal).unwrap();
        let size = Winsize {
            ws_row: 24,
            ws_col: columns,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&terminal, size).unwrap();
        let name = ptsname(&terminal, Vec::new()).unwrap();
        let end = || {
            let mut options = File::options();
            let opened = options.read(true).write(true).open(name.to_str().unwrap());
            opened.unwrap()
        };
        let process = Command::new(env!("CARGO_BIN_EXE_frith"))
            .args(arguments)
            .current_dir(folder)
            .env("XDG_DATA_HOME", folder)
            .stdin(end())
            .stdout(end())
            .stderr(end())
            .spawn()
            .unwrap();
        Self {
            process,
            terminal: terminal.into(),
            seen: String::new(),
        }
    }

    /// Waits until something is there to be read, and gives all that came until then.
    pub(crate) fn until(&mut self, text: &str) -> String {
        loop {
            if let Some(at) = self.seen.find(text) {
                let rest = self.seen.split_off(at + text.len());
                return std::mem::replace(&mut self.seen, rest);
            }
            assert!(self.read(), "`{text}` is not in `{}`", self.seen);
        }
    }

    pub(crate) fn press(&mut self, keys: &str) {
        self.terminal.write_all(keys.as_bytes()).unwrap();
    }

    /// Whether the terminal gives whole lines and shows what is typed, as it does by itself.
    pub(crate) fn is_plain(&self) -> bool {
        let modes = tcgetattr(&self.terminal).unwrap().local_modes;
        modes.contains(LocalModes::ICANON | LocalModes::ECHO)
    }

    /// Waits for its end; whether that was a good one, and the terminal is as it was.
    pub(crate) fn ends_plain(mut self) -> bool {
        // The other end of the terminal stays open for a moment longer than the command.
        let status = self.process.wait().unwrap();
        status.success() && self.is_plain()
    }

    /// Waits for its end: how it ended, and what was not yet read.
    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        while self.read() {}
        let status = self.process.wait().unwrap();
        (status.code(), std::mem::take(&mut self.seen))
    }

    /// Reads some; whether there was any.
    fn read(&mut self) -> bool {
        let mut bytes = [0; 4096];
        // Where nobody has the terminal open any more reading is an error.
        let size = self.terminal.read(&mut bytes).unwrap_or_default();
        self.seen.push_str(&String::from_utf8_lossy(&bytes[..size]));
        size > 0
    }
}

impl Drop for AtTerminal {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

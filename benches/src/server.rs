//! Programs that are measured, each in a process of its own.

use std::fs;
use std::io::{self, BufRead, BufReader};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// A running program; it ends with this.
#[derive(Debug)]
pub struct Server(Child);

/// What a process takes of the machine.
#[derive(Debug)]
pub struct Usage {
    /// Its memory in KiB, with pages of the program that the system has mapped.
    pub resident: f64,
    /// What of it is its own.
    pub own: f64,
    /// Its threads.
    pub threads: f64,
}

/// How long a program may take to end.
const PATIENCE: Duration = Duration::from_secs(5);

impl Drop for Server {
    /// It is asked to end before it is made to, so that it can remove what it made.
    fn drop(&mut self) {
        if matches!(self.0.try_wait(), Ok(None)) {
            let _ = kill_process(Pid::from_child(&self.0), Signal::TERM);
        }
        self.wait();
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Server {
    /// Starts a program that speaks over its standard input and output.
    ///
    /// # Errors
    /// If it does not start.
    pub fn piped(command: &mut Command) -> io::Result<(Self, ChildStdout, ChildStdin)> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| io::Error::other(format!("{command:?}: {error}")))?;
        let pipes = child.stdout.take().zip(child.stdin.take());
        let (output, input) = pipes.ok_or_else(|| io::Error::other("no pipes"))?;
        Ok((Self(child), output, input))
    }

    /// Waits until it has ended, but not for ever.
    pub fn wait(&mut self) {
        let began = Instant::now();
        while matches!(self.0.try_wait(), Ok(None)) && began.elapsed() < PATIENCE {
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Starts a program that prints where it listens.
    ///
    /// # Errors
    /// If it does not start, or prints nothing.
    pub fn listening(command: &mut Command) -> io::Result<(Self, String)> {
        let (server, output, _) = Self::piped(command)?;
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        match line.trim() {
            "" => Err(io::Error::other(format!("{command:?} did not start"))),
            address => Ok((server, address.to_owned())),
        }
    }

    /// What it takes of the machine now.
    ///
    /// # Errors
    /// If the system does not say.
    pub fn usage(&self) -> io::Result<Usage> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.0.id()))?;
        let number = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let word = line.and_then(|line| line.split_whitespace().next());
            word.and_then(|word| word.parse::<f64>().ok())
                .ok_or_else(|| io::Error::other(format!("no {name} in /proc")))
        };
        Ok(Usage {
            resident: number("VmRSS:")?,
            own: number("RssAnon:")?,
            threads: number("Threads:")?,
        })
    }
}

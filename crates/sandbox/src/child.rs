//! A command that runs.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::net::UnixStream;
use tokio::runtime;

use crate::cgroup::Group;
use crate::channel::{HEADER, frame, length};
use crate::exit::Status;
use crate::report::{Fault, Report, Request};
use crate::streams::{Output, Stdin, Streams, resize};
use crate::supervisor::Process;
use crate::uids::Lease;
use crate::{Exit, Size, Why};

/// A command that runs. Dropping it kills the command and all it has started.
#[derive(Debug)]
pub struct Child {
    /// Its input, if that is not nothing.
    pub stdin: Option<Stdin>,
    /// Its output; of a terminal, all of it.
    pub stdout: Option<Output>,
    /// Its errors, if it has no terminal.
    pub stderr: Option<Output>,
    control: Arc<Control>,
    /// The supervisor, until it has ended.
    process: Option<Process>,
    pid: u32,
    /// What was read of the next report.
    received: Vec<u8>,
    ended: Option<Status>,
    timed_out: bool,
    exit: Option<Exit>,
    held: Held,
}

/// Signals a command from elsewhere than where its [`Child`] is.
#[derive(Debug, Clone)]
pub struct Handle(Arc<Control>);

/// What a command has for as long as it runs.
#[derive(Debug, Default)]
pub(crate) struct Held {
    pub(crate) group: Option<Group>,
    pub(crate) lease: Option<Lease>,
}

/// A supervisor that was started.
#[derive(Debug)]
pub(crate) struct Started {
    pub(crate) process: Process,
    pub(crate) socket: UnixStream,
    pub(crate) streams: Streams,
}

/// The way to the supervisor.
#[derive(Debug)]
pub(crate) struct Control {
    socket: UnixStream,
    /// Its terminal, if it has one.
    terminal: Option<OwnedFd>,
    output_left: AtomicU64,
    flooded: AtomicBool,
}

impl Child {
    pub(crate) fn new(started: Started, held: Held, output_bytes: u64) -> Self {
        let streams = started.streams;
        let control = Arc::new(Control {
            socket: started.socket,
            terminal: streams.terminal,
            output_left: AtomicU64::new(output_bytes),
            flooded: AtomicBool::new(false),
        });
        let output = |source| Output::new(source, Arc::clone(&control));
        Self {
            stdin: streams.stdin,
            stdout: streams.stdout.map(output),
            stderr: streams.stderr.map(output),
            control,
            pid: started.process.id(),
            process: Some(started.process),
            received: Vec::new(),
            ended: None,
            timed_out: false,
            exit: None,
            held,
        }
    }

    /// Waits until the command runs.
    pub(crate) async fn begun(&mut self) -> Result<(), Option<(Fault, String)>> {
        match self.next_report().await {
            Ok(Some(Report::Started)) => Ok(()),
            Ok(Some(Report::Failed { what, why })) => Err(Some((what, why))),
            Ok(Some(Report::Ended(_) | Report::TimedOut | Report::Over) | None) | Err(_) => {
                Err(None)
            }
        }
    }

    /// Waits until the command and all it has started have ended. It may be called again.
    ///
    /// Output that nobody reads can keep a command from ending, and that it was too much is found by
    /// reading it: whoever wants its output reads that to the end first.
    pub async fn wait(&mut self) -> Exit {
        if let Some(exit) = self.exit {
            return exit;
        }
        let over = loop {
            match self.next_report().await {
                Ok(Some(Report::Ended(status))) => self.ended = Some(status),
                Ok(Some(Report::TimedOut)) => self.timed_out = true,
                Ok(Some(Report::Started | Report::Failed { .. })) => {}
                Ok(Some(Report::Over)) => break true,
                Ok(None) | Err(_) => break false,
            }
        };
        if let Some(process) = self.process.as_ref().filter(|_| !over) {
            // The supervisor is no more; what it has left ends with it.
            process.ended().await;
        }
        let exit = self.judge();
        self.exit = Some(exit);
        self.retire();
        exit
    }

    /// Lets go of what it has when its supervisor has ended.
    fn retire(&mut self) {
        let Some(process) = self.process.take() else {
            return;
        };
        let held = std::mem::take(&mut self.held);
        if let Ok(runtime) = runtime::Handle::try_current() {
            runtime.spawn(async move {
                process.ended().await;
                drop(held);
            });
        }
    }

    /// Tells the programs on its terminal a new size.
    ///
    /// # Errors
    /// If it has no terminal.
    pub fn resize(&self, size: Size) -> io::Result<()> {
        self.control.resize(size)
    }

    /// Sends a signal to the command and its process group.
    ///
    /// # Errors
    /// If the command has ended.
    pub fn signal(&self, signal: i32) -> io::Result<()> {
        self.control.send(Request::Signal(signal))
    }

    /// Kills the command and all it has started. [`wait`](Self::wait) says when that is done.
    pub fn kill_tree(&self) {
        self.control.kill();
    }

    /// To signal it from elsewhere.
    pub fn handle(&self) -> Handle {
        Handle(Arc::clone(&self.control))
    }

    /// The process at the root of the tree, as the host sees it: its supervisor.
    pub const fn pid(&self) -> u32 {
        self.pid
    }

    fn judge(&self) -> Exit {
        if self.timed_out {
            return Exit::killed(Why::Timeout);
        }
        if self.control.is_flooded() {
            return Exit::killed(Why::OutputLimit);
        }
        let killed = matches!(self.ended, None | Some(Status::Signal(nix::libc::SIGKILL)));
        if killed && self.held.group.as_ref().is_some_and(Group::ran_out) {
            return Exit::killed(Why::Memory);
        }
        self.ended.map_or(Exit::killed(Why::Killed), Exit::of)
    }

    /// The next report, or nothing after the last. Can be given up and called again.
    async fn next_report(&mut self) -> io::Result<Option<Report>> {
        loop {
            if let Some((header, rest)) = self.received.split_first_chunk::<HEADER>() {
                let length = length(*header)?;
                if let Some(message) = rest.get(..length) {
                    let report = Report::decode(message)?;
                    self.received.drain(..HEADER.saturating_add(length));
                    return Ok(Some(report));
                }
            }
            self.control.socket.readable().await?;
            match self.control.socket.try_read_buf(&mut self.received) {
                Ok(0) => return Ok(None),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if self.process.is_some() {
            self.control.kill();
            self.retire();
        }
    }
}

impl Handle {
    /// Tells the programs on its terminal a new size.
    ///
    /// # Errors
    /// If it has no terminal.
    pub fn resize(&self, size: Size) -> io::Result<()> {
        self.0.resize(size)
    }

    /// Sends a signal to the command and its process group.
    ///
    /// # Errors
    /// If the command has ended.
    pub fn signal(&self, signal: i32) -> io::Result<()> {
        self.0.send(Request::Signal(signal))
    }

    /// Kills the command and all it has started.
    pub fn kill_tree(&self) {
        self.0.kill();
    }
}

impl Control {
    /// How much of so much output may be seen. Kills the command if that is not all.
    pub(crate) fn count_output(&self, got: usize) -> usize {
        let got_bytes = u64::try_from(got).unwrap_or(u64::MAX);
        let take = |left: u64| Some(left.saturating_sub(got_bytes));
        let left = self
            .output_left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take)
            .unwrap_or_default();
        match usize::try_from(left) {
            Ok(left) if left < got => {
                self.flooded.store(true, Ordering::Relaxed);
                self.kill();
                left
            }
            _ => got,
        }
    }

    pub(crate) fn is_flooded(&self) -> bool {
        self.flooded.load(Ordering::Relaxed)
    }

    fn resize(&self, size: Size) -> io::Result<()> {
        let terminal = self.terminal.as_ref();
        let terminal = terminal.ok_or_else(|| io::Error::other("the command has no terminal"))?;
        Ok(resize(terminal, size)?)
    }

    fn send(&self, request: Request) -> io::Result<()> {
        let message = frame(&request.encode())?;
        let sent = self.socket.try_write(&message)?;
        // So few bytes go at once, or the other side does not read.
        match sent == message.len() {
            true => Ok(()),
            false => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    /// Kills the tree: the supervisor does so when asked, and when nobody is there to ask.
    fn kill(&self) {
        if self.send(Request::Kill).is_err() {
            let _ = rustix::net::shutdown(self.socket.as_fd(), rustix::net::Shutdown::Both);
        }
    }
}

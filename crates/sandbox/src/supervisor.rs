//! A supervisor, as the host has it: one that waits for its plan, and one that has a command.

use std::io::{self, PipeReader};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use tokio::net::unix::pipe;

use crate::channel::{frame, receive, send_message, send_some};
use crate::child::Started;
use crate::keeper;
use crate::plan::{Ground, Plan};
use crate::report::Report;
use crate::streams::Streams;

/// What a supervisor is started with, before there is a command for it. Two with the same are as good
/// as each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Start {
    /// The program that becomes the keeper.
    pub(crate) program: PathBuf,
    /// Nothing for `sandbox: none`.
    pub(crate) ground: Option<Ground>,
}

/// A supervisor that waits for its plan. It goes as far as it can without.
#[derive(Debug)]
pub(crate) struct Supervisor {
    process: Forked,
    socket: UnixStream,
    stdout: PipeReader,
    stderr: PipeReader,
}

/// A process that its keeper has forked, and waits for.
#[derive(Debug)]
pub(crate) struct Forked {
    pub(crate) id: u32,
    /// Can be read when it has ended.
    pub(crate) end: OwnedFd,
}

/// The process of a supervisor that has its plan.
#[derive(Debug)]
pub(crate) struct Process {
    id: u32,
    /// Can be read when it has ended.
    end: pipe::Receiver,
}

impl Start {
    /// Starts a supervisor. Only to be called by the thread that is there for it.
    pub(crate) fn start(&self) -> io::Result<Supervisor> {
        let (process, ours) = keeper::fork(&self.program)?;
        let (stdout, to_stdout) = io::pipe()?;
        let (stderr, to_stderr) = io::pipe()?;
        // A supervisor that has ended is noticed when something is expected of it.
        let ground = Ground::encode(self.ground.as_ref());
        let _ = send_message(&ours, &ground, Some(to_stdout.as_fd()));
        let _ = send_message(&ours, &[], Some(to_stderr.as_fd()));
        Ok(Supervisor {
            process,
            socket: ours,
            stdout,
            stderr,
        })
    }

    /// Whether one can be started ahead. A group is made for each command.
    pub(crate) fn can_wait(&self) -> bool {
        let ground = self.ground.as_ref();
        ground.is_some_and(|ground| ground.cgroup.is_none())
    }
}

impl Supervisor {
    /// Gives it its plan, and the command's end of its input.
    pub(crate) async fn begin(
        self,
        plan: &Plan,
        input: Option<OwnedFd>,
        streams: Streams,
    ) -> io::Result<Started> {
        let stdout = Some(OwnedFd::from(self.stdout));
        let stderr = Some(OwnedFd::from(self.stderr));
        let process = Process {
            id: self.process.id,
            // To the runtime anything that can be waited for is as good as a pipe.
            end: pipe::Receiver::from_owned_fd_unchecked(self.process.end)?,
        };
        self.socket.set_nonblocking(true)?;
        let socket = tokio::net::UnixStream::from_std(self.socket)?;
        let streams = match plan.terminal {
            true => streams,
            false => streams.with(stdout, stderr)?,
        };
        let framed = frame(&plan.encode())?;
        // A supervisor that has ended is noticed when it is asked how it is getting on.
        let descriptor = input.as_ref().map(AsFd::as_fd);
        let sent = send_some(socket.as_fd(), &framed, descriptor).unwrap_or(framed.len());
        let mut rest = framed.get(sent..).unwrap_or_default();
        while !rest.is_empty() {
            socket.writable().await?;
            match socket.try_write(rest) {
                Ok(sent) => rest = rest.get(sent..).unwrap_or_default(),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => break,
            }
        }
        Ok(Started {
            process,
            socket,
            streams,
        })
    }

    /// Gives it a plan without a command, and waits for what it says to that.
    pub(crate) fn try_out(self, plan: &Plan) -> io::Result<Option<Report>> {
        let report = send_message(&self.socket, &plan.encode(), None)
            .and_then(|()| receive(&self.socket))
            .and_then(|said| said.map(|(report, _)| Report::decode(&report)).transpose());
        self.dismiss();
        report
    }

    pub(crate) fn has_ended(&self) -> bool {
        let at_once = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let mut end = [PollFd::new(&self.process.end, PollFlags::IN)];
        poll(&mut end, Some(&at_once)) != Ok(0)
    }

    /// Has it end, and waits for that.
    pub(crate) fn dismiss(self) {
        drop(self.socket);
        while let Err(Errno::INTR) =
            poll(&mut [PollFd::new(&self.process.end, PollFlags::IN)], None)
        {}
    }
}

impl Process {
    pub(crate) const fn id(&self) -> u32 {
        self.id
    }

    /// Waits until it has ended. Can be given up and called again.
    pub(crate) async fn ended(&self) {
        // An error of the runtime is that it is about to end, and then this does too.
        let _ = self.end.readable().await;
    }
}

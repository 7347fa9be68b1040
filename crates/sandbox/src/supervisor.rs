//! A supervisor, as the host has it: one that waits for its plan, and one that has a command.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{self, Stdio};
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tokio::net::unix::pipe;

use crate::channel::{frame, receive, send_message, send_some};
use crate::child::Started;
use crate::plan::{Ground, Plan};
use crate::report::Report;
use crate::streams::Streams;
use crate::{stage, thread};

/// How long a supervisor may take over one message while nothing but the thread waits. It takes
/// milliseconds.
const PATIENCE: Duration = Duration::from_secs(30);

/// What a supervisor is started with, before there is a command for it. Two with the same are as good
/// as each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Start {
    /// The program that becomes the supervisor.
    pub(crate) program: PathBuf,
    /// Nothing for `sandbox: none`.
    pub(crate) ground: Option<Ground>,
}

/// A supervisor that waits for its plan. It goes as far as it can without.
#[derive(Debug)]
pub(crate) struct Supervisor {
    process: process::Child,
    socket: UnixStream,
}

/// The process of a supervisor that has its plan.
#[derive(Debug)]
pub(crate) struct Process {
    /// Nothing once it has been waited for.
    child: Option<process::Child>,
    /// Can be read when it has ended.
    end: pipe::Receiver,
}

impl Start {
    /// Starts a supervisor. Only to be called by the thread that is there for it.
    pub(crate) fn start(&self) -> io::Result<Supervisor> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_write_timeout(Some(PATIENCE))?;
        ours.set_read_timeout(Some(PATIENCE))?;
        let process = process::Command::new(&self.program)
            .arg0(stage::SUPERVISOR)
            .env_clear()
            .envs([stage::FRUGAL])
            .current_dir("/")
            .stdin(OwnedFd::from(theirs))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        // A supervisor that has ended is noticed when something is expected of it.
        let _ = send_message(&ours, &Ground::encode(self.ground.as_ref()), None);
        Ok(Supervisor {
            process,
            socket: ours,
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
        mut self,
        plan: &Plan,
        input: Option<OwnedFd>,
        streams: Streams,
    ) -> io::Result<Started> {
        let stdout = self.process.stdout.take().map(OwnedFd::from);
        let stderr = self.process.stderr.take().map(OwnedFd::from);
        let process = Process::new(self.process)?;
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

    /// Has it end, and waits for that.
    pub(crate) fn dismiss(mut self) {
        drop(self.socket);
        // It cannot fail: nobody else waits for a child of this process.
        let _ = self.process.wait();
    }
}

impl Process {
    /// Needs a tokio runtime around it.
    fn new(child: process::Child) -> io::Result<Self> {
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let end = pid.ok_or(Errno::SRCH);
        let end = end.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()));
        // To the runtime anything that can be waited for is as good as a pipe.
        let end = end.map_err(io::Error::from);
        match end.and_then(pipe::Receiver::from_owned_fd_unchecked) {
            Ok(end) => Ok(Self {
                child: Some(child),
                end,
            }),
            Err(error) => {
                reap(child);
                Err(error)
            }
        }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.as_ref().map_or(0, process::Child::id)
    }

    /// Waits until it has ended. Can be given up and called again.
    pub(crate) async fn ended(&mut self) {
        while let Some(child) = &mut self.child {
            match child.try_wait() {
                // Then it has been waited for, and nobody knows by whom.
                Ok(Some(_)) | Err(_) => self.child = None,
                // An error of the runtime is that it is about to end, and then this does too.
                Ok(None) => {
                    if self.end.readable().await.is_err() {
                        return;
                    }
                }
            }
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(child) = self.child.take() {
            reap(child);
        }
    }
}

/// Has one waited for whose socket is closed, or about to be, and which therefore ends.
fn reap(mut child: process::Child) {
    // Without a thread this process is about to end too.
    let _ = thread::run(move || {
        let _ = child.wait();
    });
}

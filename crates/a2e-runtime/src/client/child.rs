//! A host that is started for one connection.

use std::io;
use std::os::fd::AsFd;
use std::process::Stdio;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustix::pipe::fcntl_setpipe_size;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::Join;
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::link::{Lines, Output, StreamLink, Transport};
use crate::plugin::BoxFuture;

/// A child process, one message a line on its standard input and output. Its standard error is ours,
/// so it never waits for a reader. It has a process group of its own, and all of that ends with it.
pub(super) struct ChildLink {
    stream: Option<StreamLink<Join<ChildStdout, ChildStdin>>>,
    child: Option<Running>,
    stopping: Option<BoxFuture<'static, ()>>,
}

/// A child with its group; whatever happens, the group ends.
struct Running {
    child: Child,
    group: Option<Pid>,
}

/// What the pipes hold, if the system lets them: with less, a long line is passed on in pieces, and
/// each costs both sides a wake-up.
const PIPE: usize = 1024 * 1024;

/// From the end of its input to the first signal.
const AFTER_EOF: Duration = Duration::from_secs(3);

/// From the first signal to the last.
const AFTER_TERM: Duration = Duration::from_secs(2);

impl ChildLink {
    /// Starts a program with its arguments.
    pub(super) fn start(words: &[String]) -> io::Result<Self> {
        let Some((program, arguments)) = words.split_first() else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(io::Error::other(
                "the program has no standard input and output",
            ));
        };
        for pipe in [input.as_fd(), output.as_fd()] {
            // It works with less, too.
            let _ = fcntl_setpipe_size(pipe, PIPE);
        }
        let id = child.id().and_then(|id| i32::try_from(id).ok());
        Ok(Self {
            stream: Some(StreamLink::new(tokio::io::join(output, input))),
            child: Some(Running {
                group: id.and_then(Pid::from_raw),
                child,
            }),
            stopping: None,
        })
    }
}

impl Running {
    fn signal(&self, signal: Signal) {
        if let Some(group) = self.group {
            // Gone already is what we want.
            let _ = kill_process_group(group, signal);
        }
    }

    /// Whether it ends within that time.
    async fn ends_within(&mut self, time: Duration) -> bool {
        tokio::time::timeout(time, self.child.wait()).await.is_ok()
    }

    /// Its input is closed: waits for its end, then asks for it, then forces it.
    async fn stop(mut self) {
        if !self.ends_within(AFTER_EOF).await {
            self.signal(Signal::TERM);
            self.ends_within(AFTER_TERM).await;
        }
        // Also what the child has started and left behind.
        self.signal(Signal::KILL);
        let _ = self.child.wait().await;
        self.group = None;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

impl Transport for ChildLink {
    fn poll_write(
        &mut self,
        context: &mut Context<'_>,
        output: &mut Output,
    ) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Some(stream) => stream.poll_write(context, output),
            None => Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
        }
    }

    fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        lines: &mut dyn Lines,
    ) -> Poll<io::Result<bool>> {
        match &mut self.stream {
            Some(stream) => stream.poll_read(context, lines),
            None => Poll::Ready(Ok(false)),
        }
    }

    fn poll_close(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream = None;
        if let Some(child) = self.child.take() {
            self.stopping = Some(Box::pin(child.stop()));
        }
        if let Some(stopping) = &mut self.stopping {
            ready!(stopping.as_mut().poll(context));
            self.stopping = None;
        }
        Poll::Ready(Ok(()))
    }
}

//! `frith stdio`: a host for the process that started this one.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::pin::Pin;
use std::task::{Context as Waiting, Poll};

use a2e_runtime::Source;
use anyhow::{Context, Result};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;

use crate::Outcome;
use crate::data::DataArguments;
use crate::own;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The configuration file; without it, the rules of frith.yaml or frith.toml in this folder, and nothing else of it
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    #[command(flatten)]
    data: DataArguments,
}

/// Serves standard input and output until the parent closes them. The parent is trusted by what it
/// is: it could do everything this process can.
pub(crate) fn run(arguments: &Arguments) -> Result<Outcome> {
    let chosen = match &arguments.config {
        Some(file) => own::Chosen::Named(file.clone()),
        None => own::Chosen::Here,
    };
    // One connection needs one thread; what computes long brings its own.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start")?;
    let served = runtime.block_on(async {
        let input = input().context("cannot read standard input")?;
        let output = output().context("cannot write standard output")?;
        let parent = tokio::io::join(input, output);
        let host = own::host(chosen, &arguments.data).await?;
        let served = host.serve(parent, Source::Own).await;
        served.context("the parent's side broke")
    });
    // Reading a standard input that is no pipe blocks a thread; do not wait for it.
    runtime.shutdown_background();
    served.map(|()| Outcome::Good)
}

/// Standard input. Pipes and sockets, which parents use, are waited for without a thread: that is
/// three times as fast as tokio's own standard input.
pub(crate) enum Input {
    Pipe(pipe::Receiver),
    Socket(UnixStream),
    Other(tokio::io::Stdin),
}

/// Standard output, likewise.
pub(crate) enum Output {
    Pipe(pipe::Sender),
    Socket(UnixStream),
    Other(tokio::io::Stdout),
}

pub(crate) fn input() -> io::Result<Input> {
    let own = || io::stdin().as_fd().try_clone_to_owned();
    if let Ok(pipe) = pipe::Receiver::from_owned_fd(own()?) {
        return Ok(Input::Pipe(pipe));
    }
    Ok(socket(own()?).map_or_else(|_| Input::Other(tokio::io::stdin()), Input::Socket))
}

pub(crate) fn output() -> io::Result<Output> {
    let own = || io::stdout().as_fd().try_clone_to_owned();
    if let Ok(pipe) = pipe::Sender::from_owned_fd(own()?) {
        return Ok(Output::Pipe(pipe));
    }
    Ok(socket(own()?).map_or_else(|_| Output::Other(tokio::io::stdout()), Output::Socket))
}

/// A socket pair, as Node makes for its children.
fn socket(fd: OwnedFd) -> io::Result<UnixStream> {
    let stream = std::os::unix::net::UnixStream::from(fd);
    // Fails if it is no Unix socket.
    stream.local_addr()?;
    stream.set_nonblocking(true)?;
    UnixStream::from_std(stream)
}

impl AsyncRead for Input {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Waiting<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Pipe(pipe) => Pin::new(pipe).poll_read(cx, buffer),
            Self::Socket(socket) => Pin::new(socket).poll_read(cx, buffer),
            Self::Other(other) => Pin::new(other).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Output {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Waiting<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Pipe(pipe) => Pin::new(pipe).poll_write(cx, bytes),
            Self::Socket(socket) => Pin::new(socket).poll_write(cx, bytes),
            Self::Other(other) => Pin::new(other).poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Waiting<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Pipe(pipe) => Pin::new(pipe).poll_flush(cx),
            Self::Socket(socket) => Pin::new(socket).poll_flush(cx),
            Self::Other(other) => Pin::new(other).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Waiting<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Pipe(pipe) => Pin::new(pipe).poll_shutdown(cx),
            Self::Socket(socket) => Pin::new(socket).poll_shutdown(cx),
            Self::Other(other) => Pin::new(other).poll_shutdown(cx),
        }
    }
}

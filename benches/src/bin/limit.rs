//! The bare limit of NDJSON: a loop around a read, typed messages in and out, and a write.
//!
//! usage: limit stdio | tcp | unix PATH
//!
//! Over sockets it prints where it listens and serves one connection after another.
#![expect(clippy::print_stdout, reason = "whoever starts it waits for this")]

use std::io;
use std::os::fd::AsFd;

use benches::echo;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::unix::pipe;
use tokio::net::{TcpListener, UnixListener};

fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        match words.as_slice() {
            ["stdio"] => {
                let input = io::stdin().as_fd().try_clone_to_owned()?;
                let output = io::stdout().as_fd().try_clone_to_owned()?;
                let input = pipe::Receiver::from_owned_fd(input)?;
                serve(input, pipe::Sender::from_owned_fd(output)?).await
            }
            ["tcp"] => {
                let listener = TcpListener::bind("127.0.0.1:0").await?;
                println!("{}", listener.local_addr()?);
                loop {
                    let (stream, _) = listener.accept().await?;
                    stream.set_nodelay(true)?;
                    let (input, output) = stream.into_split();
                    serve(input, output).await?;
                }
            }
            ["unix", path] => {
                let listener = UnixListener::bind(path)?;
                println!("{path}");
                loop {
                    let (input, output) = listener.accept().await?.0.into_split();
                    serve(input, output).await?;
                }
            }
            _ => Err(io::Error::other("usage: limit stdio | tcp | unix PATH")),
        }
    })
}

/// Answers all whole lines of what one read gave with one write.
async fn serve(
    mut input: impl AsyncRead + Unpin,
    mut output: impl AsyncWrite + Unpin,
) -> io::Result<()> {
    let mut buffer = Vec::with_capacity(64 * 1024);
    let mut answers = Vec::with_capacity(64 * 1024);
    let mut eid = 0;
    while input.read_buf(&mut buffer).await? > 0 {
        let mut start = 0;
        for end in memchr::memchr_iter(b'\n', &buffer) {
            let line = buffer.get(start..end).unwrap_or_default();
            eid += 1;
            echo::answer(line, eid, &mut answers)?;
            answers.push(b'\n');
            start = end + 1;
        }
        buffer.drain(..start);
        output.write_all(&answers).await?;
        answers.clear();
    }
    Ok(())
}

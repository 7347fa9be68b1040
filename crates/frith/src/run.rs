//! `frith run`: a program in the sandbox of a node, as if it ran here.

use std::io::{self, Read, Write};

use a2e_runtime::{Client, ClientError, Handler};
use a2e_wire::messages::proc::{
    ProcReadEvent, ProcSpawnRequest, ProcStatusRequest, ProcStdinMode, ProcStreamType,
    ProcWriteRequest,
};
use a2e_wire::{Body, ProcId};
use anyhow::{Context, Result, bail};
use serde_json::Value;
use tokio::sync::mpsc;

use crate::Outcome;
use crate::agent::block_on;
use crate::connect;
use crate::screen::plain;

#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Arguments {
    /// The folder to start in, below the workspace
    #[arg(
        long,
        default_value = "",
        hide_default_value = true,
        value_name = "DIR"
    )]
    cwd: String,

    /// Seconds after which it is killed; without it, what the node allows
    #[arg(long, default_value_t = 0, hide_default_value = true)]
    timeout: u32,

    /// Do not pass on standard input
    #[arg(long)]
    no_stdin: bool,

    #[command(flatten)]
    host: connect::Arguments,

    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// Bytes of standard input that are passed on at once.
const CHUNK: usize = 16 * 1024;

pub(crate) fn run(arguments: &Arguments) -> Result<Outcome> {
    block_on(async {
        let connection = arguments.host.connect_elsewhere(&["proc"]).await?;
        let (events, mut heard) = mpsc::unbounded_channel();
        let client = &connection.client;
        client.register_push_handler(
            "proc/read/event",
            Handler::new(move |message| {
                if let Body::ProcReadEvent(event) = message.body {
                    let _ = events.send(event);
                }
            }),
        );
        let spawned = client.request(request(arguments)).await;
        let spawned = spawned.context("cannot run it")?;
        if !spawned.ok {
            bail!("cannot run it: {}", spawned.error);
        }
        let is_its = |event: &ProcReadEvent<'_>| {
            event.proc_id.is_empty() || event.proc_id == spawned.proc_id
        };
        let mut input = (!arguments.no_stdin).then(standard_input);
        let mut code = loop {
            tokio::select! {
                // What came before the end is shown first.
                biased;
                event = heard.recv() => match event {
                    Some(event) if is_its(&event) => {
                        if let Some(code) = show(&event)? {
                            break code;
                        }
                    }
                    Some(_) => {}
                    None => return Err(cut_off()),
                },
                text = next(&mut input) => {
                    let text = match text.transpose() {
                        Ok(text) => text,
                        Err(error) => {
                            // Ends the session, and with it the program.
                            connection.close().await;
                            return Err(error).context("cannot pass on standard input");
                        }
                    };
                    if text.is_none() {
                        input = None;
                    }
                    write(client, &spawned.proc_id, text).await;
                }
                () = client.closed() => return Err(cut_off()),
            }
        };
        let status = client
            .request(ProcStatusRequest {
                proc_id: spawned.proc_id.clone(),
            })
            .await;
        // On some hosts the exit overtakes the last output.
        while let Ok(event) = heard.try_recv() {
            if is_its(&event)
                && let Some(later) = show(&event)?
            {
                code = later;
            }
        }
        connection.close().await;
        if let Ok(status) = status
            && status.status.as_str() == "killed"
        {
            tell!("frith: killed: {}", plain(&status.error));
        }
        Ok(Outcome::Exit(exit_code(code)))
    })
}

/// The request that starts the program.
fn request(arguments: &Arguments) -> ProcSpawnRequest<'static> {
    let words = arguments.command.iter();
    ProcSpawnRequest {
        cmd: words.map(|word| word.clone().into()).collect(),
        cwd: arguments.cwd.clone().into(),
        stdin_mode: match arguments.no_stdin {
            true => ProcStdinMode::Null,
            false => ProcStdinMode::Pipe,
        },
        timeout: arguments.timeout.into(),
        ..ProcSpawnRequest::new()
    }
}

/// The host is gone, and nobody knows what became of the program.
fn cut_off() -> anyhow::Error {
    anyhow::Error::new(ClientError::Closed).context("nothing more is heard of the program")
}

/// Shows what came; the exit code, if that is it. One that was killed has a code as after SIGKILL, until
/// its own comes.
fn show(event: &ProcReadEvent<'_>) -> Result<Option<i64>> {
    let data: Value = event.data.0.raw().deserialize().unwrap_or_default();
    if let Some(code) = data["code"].as_i64() {
        return Ok(Some(code));
    }
    if event.stream_type == ProcStreamType::Killed {
        return Ok(Some(-9));
    }
    let text = data["text"].as_str().unwrap_or_default();
    match event.stream_type {
        ProcStreamType::Stderr => io::stderr().write_all(text.as_bytes())?,
        ProcStreamType::Stdout | ProcStreamType::Killed | ProcStreamType::Other(_) => {
            let mut out = io::stdout().lock();
            out.write_all(text.as_bytes())?;
            out.flush()?;
        }
    }
    Ok(None)
}

/// Standard input as text, read by a thread of its own: it cannot be waited for otherwise.
pub(crate) fn standard_input() -> mpsc::Receiver<io::Result<String>> {
    let (pieces, input) = mpsc::channel(4);
    std::thread::spawn(move || {
        let mut text = TextReader::new(io::stdin().lock());
        while let Some(piece) = text.next_piece().transpose() {
            let is_last = piece.is_err();
            if pieces.blocking_send(piece).is_err() || is_last {
                return;
            }
        }
    });
    input
}

/// Reads UTF-8 in pieces that end between two characters.
struct TextReader<R> {
    input: R,
    /// The first bytes of a character that is not complete yet.
    incomplete: Vec<u8>,
}

impl<R: Read> TextReader<R> {
    const fn new(input: R) -> Self {
        Self {
            input,
            incomplete: Vec::new(),
        }
    }

    /// Returns the next piece, `None` at the end.
    ///
    /// # Errors
    /// If the input cannot be read, or is not UTF-8.
    fn next_piece(&mut self) -> io::Result<Option<String>> {
        let not_text = || {
            let text = "standard input is not UTF-8 text, and A2E carries text only; encode it, \
                        e.g. `base64 FILE | frith run -- sh -c 'base64 -d | COMMAND'`";
            io::Error::new(io::ErrorKind::InvalidData, text)
        };
        loop {
            let mut bytes = std::mem::take(&mut self.incomplete);
            let before = bytes.len();
            bytes.resize(before.saturating_add(CHUNK), 0);
            let read = self.input.read(bytes.split_at_mut(before).1)?;
            bytes.truncate(before.saturating_add(read));
            if read == 0 {
                return match bytes.is_empty() {
                    true => Ok(None),
                    false => Err(not_text()),
                };
            }
            let error = match String::from_utf8(bytes) {
                Ok(text) => return Ok(Some(text)),
                Err(error) => error,
            };
            if error.utf8_error().error_len().is_some() {
                return Err(not_text());
            }
            let complete = error.utf8_error().valid_up_to();
            let mut bytes = error.into_bytes();
            self.incomplete = bytes.split_off(complete);
            if let Some(text) = String::from_utf8(bytes).ok().filter(|it| !it.is_empty()) {
                return Ok(Some(text));
            }
        }
    }
}

/// The next piece of input; nothing at its end, which comes once.
async fn next(
    input: &mut Option<mpsc::Receiver<io::Result<String>>>,
) -> Option<io::Result<String>> {
    match input {
        Some(input) => input.recv().await,
        None => std::future::pending().await,
    }
}

async fn write(client: &Client, process: &ProcId<'static>, text: Option<String>) {
    let request = ProcWriteRequest {
        proc_id: process.clone(),
        eof: text.is_none(),
        data: text.unwrap_or_default().into(),
    };
    // A program that reads no input need not be told of it.
    let _ = client.request(request).await;
}

/// The code as a shell has it: a signal counts from 128.
fn exit_code(code: i64) -> u8 {
    let code = if code < 0 { 128 - code } else { code };
    u8::try_from(code).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reader that gives so many bytes at once.
    struct Slow<'a>(&'a [u8], usize);

    impl Read for Slow<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let size = self.1.min(self.0.len()).min(buffer.len());
            self.0.split_off(..size).unwrap().read(buffer)
        }
    }

    fn read(bytes: &[u8], at_once: usize) -> io::Result<String> {
        let (mut text, mut all) = (TextReader::new(Slow(bytes, at_once)), String::new());
        while let Some(piece) = text.next_piece()? {
            assert!(!piece.is_empty());
            all.push_str(&piece);
        }
        Ok(all)
    }

    #[test]
    fn characters_are_not_cut_wherever_reads_end() {
        let text = "é€𝄞a".repeat(20_000);
        for size in [1, 3, 4096, CHUNK, CHUNK + 1] {
            assert_eq!(read(text.as_bytes(), size).unwrap(), text, "{size}");
        }
    }

    #[test]
    fn what_is_not_text_is_an_error() {
        for bytes in [
            b"\xff\xfe".as_slice(),
            b"text \xc3",
            b"\xc3(",
            b"\xed\xa0\x80",
        ] {
            let error = read(bytes, 1).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        }
    }
}

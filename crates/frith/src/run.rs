//! `frith run`: a program in the sandbox of a node, as if it ran here.

use std::io::{Read, Write};

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
        client.on(
            "proc/read/event",
            Handler::new(move |message| {
                if let Body::ProcReadEvent(event) = message.body {
                    let _ = events.send(event);
                }
            }),
        );
        let request = ProcSpawnRequest {
            cmd: arguments
                .command
                .iter()
                .map(|word| word.clone().into())
                .collect(),
            cwd: arguments.cwd.clone().into(),
            stdin_mode: match arguments.no_stdin {
                true => ProcStdinMode::Null,
                false => ProcStdinMode::Pipe,
            },
            timeout: arguments.timeout.into(),
            ..ProcSpawnRequest::new()
        };
        let spawned = client.request(request).await.context("cannot run it")?;
        if !spawned.ok {
            bail!("cannot run it: {}", spawned.error);
        }
        let mut input = (!arguments.no_stdin).then(standard_input);
        let code = loop {
            tokio::select! {
                // What came before the end is shown first.
                biased;
                event = heard.recv() => match event.map(|event| show(&event)) {
                    Some(Ok(Some(code))) => break code,
                    Some(Ok(None)) => {}
                    Some(Err(error)) => return Err(error),
                    None => return Err(cut_off()),
                },
                bytes = next(&mut input) => {
                    if bytes.is_none() {
                        input = None;
                    }
                    write(client, &spawned.proc_id, bytes).await;
                }
                () = client.closed() => return Err(cut_off()),
            }
        };
        let status = client
            .request(ProcStatusRequest {
                proc_id: spawned.proc_id.clone(),
            })
            .await;
        connection.close().await;
        if let Ok(status) = status
            && status.status.as_str() == "killed"
        {
            tell!("frith: killed: {}", plain(&status.error));
        }
        Ok(Outcome::Exit(exit_code(code)))
    })
}

/// The host is gone, and nobody knows what became of the program.
fn cut_off() -> anyhow::Error {
    anyhow::Error::new(ClientError::Closed).context("nothing more is heard of the program")
}

/// Shows what came; the exit code, if that is it.
fn show(event: &ProcReadEvent<'_>) -> Result<Option<i64>> {
    let data: Value = event.data.0.raw().deserialize().unwrap_or_default();
    if let Some(code) = data["code"].as_i64() {
        return Ok(Some(code));
    }
    let text = data["text"].as_str().unwrap_or_default();
    match event.stream_type {
        ProcStreamType::Stderr => std::io::stderr().write_all(text.as_bytes())?,
        ProcStreamType::Stdout | ProcStreamType::Killed | ProcStreamType::Other(_) => {
            let mut out = std::io::stdout().lock();
            out.write_all(text.as_bytes())?;
            out.flush()?;
        }
    }
    Ok(None)
}

/// Standard input, read by a thread of its own: it cannot be waited for otherwise.
pub(crate) fn standard_input() -> mpsc::Receiver<String> {
    let (pieces, input) = mpsc::channel(4);
    std::thread::spawn(move || {
        let mut buffer = vec![0; CHUNK];
        let mut stdin = std::io::stdin().lock();
        while let Ok(size @ 1..) = stdin.read(&mut buffer) {
            let read = buffer.get(..size).unwrap_or_default();
            let text = String::from_utf8_lossy(read).into_owned();
            if pieces.blocking_send(text).is_err() {
                return;
            }
        }
    });
    input
}

/// The next piece of input; nothing at its end, which comes once.
async fn next(input: &mut Option<mpsc::Receiver<String>>) -> Option<String> {
    match input {
        Some(input) => input.recv().await,
        None => std::future::pending().await,
    }
}

async fn write(client: &Client, process: &ProcId<'static>, bytes: Option<String>) {
    let request = ProcWriteRequest {
        proc_id: process.clone(),
        eof: bytes.is_none(),
        data: bytes.unwrap_or_default().into(),
    };
    // A program that reads no input need not be told of it.
    let _ = client.request(request).await;
}

/// The code as a shell has it: a signal counts from 128.
fn exit_code(code: i64) -> u8 {
    let code = if code < 0 { 128 - code } else { code };
    u8::try_from(code).unwrap_or(u8::MAX)
}

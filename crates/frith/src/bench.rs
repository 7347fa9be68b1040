//! `frith bench`: what this machine reaches, beside the bare limit of the same moment.
//!
//! A short look for whoever wonders whether something is wrong. `cargo xtask bench` measures properly.

use std::time::{Duration, Instant};

use a2e_runtime::config::Config;
use a2e_runtime::demo::Demo;
use a2e_runtime::{AgentConfig, Calling, Client, Handler, Host, Open, Source};
use anyhow::{Context, Result};
use sandbox::{Command, Profile};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;

use crate::Outcome;
use crate::agent::{block_on, print, print_json};
use crate::capabilities;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// How long each measurement takes
    #[arg(long, value_name = "MILLISECONDS", default_value_t = 500, value_parser = clap::value_parser!(u64).range(1..=60_000))]
    time: u64,
}

/// A figure and its limit: microseconds for one.
struct Row {
    name: &'static str,
    ours: f64,
    limit: &'static str,
    bare: f64,
}

/// What is asked, again and again.
const TEXT: &str = "The quick brown fox jumps over the lazy dog";

/// What is in the way of a pipe inside a process.
const BUFFER: usize = 64 * 1024;

pub(crate) fn run(arguments: &Arguments, as_json: bool) -> Result<Outcome> {
    let time = Duration::from_millis(arguments.time);
    let rows = block_on(async {
        let mut rows = Vec::new();
        let (ours, theirs) = tokio::io::duplex(BUFFER);
        let (bare, other) = tokio::io::duplex(BUFFER);
        rows.push(Row {
            name: "a tool call, in process",
            ours: calls(ours, theirs, time).await?,
            limit: "a line there and back",
            bare: lines(bare, other, time).await?,
        });
        let (ours, theirs) = UnixStream::pair()?;
        let (bare, other) = UnixStream::pair()?;
        rows.push(Row {
            name: "a tool call, Unix socket",
            ours: calls(ours, theirs, time).await?,
            limit: "a line there and back",
            bare: lines(bare, other, time).await?,
        });
        rows.push(Row {
            name: "a command in the sandbox",
            ours: sandboxed(time).await?,
            limit: "the same without one",
            bare: plain(time).await?,
        });
        Ok(rows)
    })?;
    match as_json {
        true => print_json(&rows.iter().map(as_value).collect::<Vec<_>>())?,
        false => rows.iter().try_for_each(show)?,
    }
    if cfg!(debug_assertions) && !as_json {
        print(&"\nThis is a debug build: a release build is several times as fast.")?;
    }
    Ok(Outcome::Good)
}

fn as_value(row: &Row) -> Value {
    json!({
        "name": row.name,
        "microseconds": row.ours,
        "limit": row.limit,
        "limit_microseconds": row.bare,
        "ratio": row.ours / row.bare,
    })
}

fn show(row: &Row) -> Result<()> {
    print(&format!(
        "{:26} {:10.1} us   {:22} {:10.1} us   {:6.1}x",
        row.name,
        row.ours,
        row.limit,
        row.bare,
        row.ours / row.bare
    ))
}

/// The microseconds that one of many takes.
async fn each<E>(time: Duration, mut one: impl AsyncFnMut() -> Result<(), E>) -> Result<f64, E> {
    // The first is not like the others.
    one().await?;
    let began = Instant::now();
    let mut count = 0_u32;
    while began.elapsed() < time {
        one().await?;
        count = count.saturating_add(1);
    }
    Ok(began.elapsed().as_secs_f64() * 1e6 / f64::from(count.max(1)))
}

/// Calls of a tool that does nothing.
async fn calls<S>(ours: S, theirs: S, time: Duration) -> Result<f64>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let host = Host::builder().authenticator(Open).plugin(Demo::default());
    let host = host.build();
    tokio::spawn(async move { host.serve(theirs, Source::Own).await });
    let config = AgentConfig {
        wanted: vec!["tools".into()],
        ..AgentConfig::default()
    };
    let client = Client::connect(ours, config, Handler::none()).await?;
    let arguments = json!({"text": TEXT});
    let took = each(time, async || {
        let tools = client.tools();
        tools
            .call("echo", &arguments, Calling::default())
            .await
            .map(drop)
    });
    Ok(took.await?)
}

/// Lines of about the same length, to somebody who sends them back.
async fn lines<S>(ours: S, theirs: S, time: Duration) -> Result<f64>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    tokio::spawn(async move {
        let (mut read, mut write) = tokio::io::split(theirs);
        tokio::io::copy(&mut read, &mut write).await
    });
    let (read, mut write) = tokio::io::split(ours);
    let mut read = BufReader::new(read);
    let message = json!({"type": "tool/call/req", "id": "1", "tool_name": "echo", "arguments": {"text": TEXT}});
    let line = format!("{message}\n");
    let mut answer = String::new();
    let took = each(time, async || {
        write.write_all(line.as_bytes()).await?;
        answer.clear();
        read.read_line(&mut answer).await.map(drop)
    });
    Ok(took.await?)
}

async fn sandboxed(time: Duration) -> Result<f64> {
    let launcher = capabilities::launcher(&Config::default(), None)?;
    let (command, profile) = (Command::new("true"), Profile::default());
    let took = each(time, async || {
        let mut child = launcher.spawn(&command, &profile).await?;
        child.wait().await;
        Ok::<_, sandbox::Error>(())
    });
    Ok(took.await?)
}

async fn plain(time: Duration) -> Result<f64> {
    let took = each(time, async || {
        let ended = tokio::process::Command::new("true").status().await;
        ended.map(drop)
    });
    took.await.context("cannot run `true`")
}

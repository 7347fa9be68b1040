//! `frith send`: lines to a host as they are, and what comes back.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use a2e_runtime::{AgentConfig, RawLink};
use a2e_wire::{Capability, Enumeration, MessageKind, Sender, Tag, looks_like_request};
use anyhow::{Context, Result, anyhow, bail};
use serde_json::{Value, json};
use tokio::io::{AsyncBufRead, AsyncBufReadExt, BufReader};

use crate::hint::TokenFrom;
use crate::{Outcome, agent, connect, screen};

#[derive(Debug, clap::Args)]
pub(crate) struct SendArguments {
    /// The lines, one message each; `-` for standard input
    file: PathBuf,

    /// Seconds to wait for answers after the last line
    #[arg(long, default_value_t = 30)]
    timeout: u32,

    #[command(flatten)]
    host: connect::Arguments,
}

/// What is still to be answered.
#[derive(Debug, Default)]
struct Open {
    /// Requests with an id.
    requests: BTreeSet<String>,
    /// Lines that only an error without a request's id can answer.
    nameless: usize,
}

pub(crate) fn run(arguments: &SendArguments) -> Result<Outcome> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let outcome = runtime.block_on(send(arguments));
    // Reading standard input blocks a thread; do not wait for it.
    runtime.shutdown_background();
    outcome
}

async fn send(arguments: &SendArguments) -> Result<Outcome> {
    let file = arguments.file.display();
    let input: Box<dyn AsyncBufRead + Unpin> = match arguments.file.as_os_str() == "-" {
        true => Box::new(BufReader::new(tokio::io::stdin())),
        false => {
            let text = std::fs::read(&arguments.file);
            Box::new(std::io::Cursor::new(
                text.with_context(|| format!("cannot read {file}"))?,
            ))
        }
    };
    let mut lines = input.split(b'\n');
    let mut open = Open::default();
    let (link, config, token_from) = arguments.host.link().await?;
    let mut link = RawLink::new(link);
    let Some(first) = next_line(&mut lines).await? else {
        bail!("there is no message in {file}");
    };
    if kind(&first) != Some("handshake/req".into()) {
        shake_hands(&mut link, &config, &token_from).await?;
    }
    open.sent(&first);
    link.push(&first);
    exchange(&mut link, &mut lines, &mut open, arguments.timeout).await?;
    let unanswered = open.len();
    // The host may be slow to end; all that was to be seen has been seen.
    let _ = tokio::time::timeout(Duration::from_secs(10), shut_down(link)).await;
    match unanswered {
        0 => Ok(Outcome::Good),
        1 => bail!("a request was not answered"),
        many => bail!("{many} requests were not answered"),
    }
}

/// Sends lines and prints answers, until both have ended.
async fn exchange(
    link: &mut RawLink,
    lines: &mut tokio::io::Split<Box<dyn AsyncBufRead + Unpin>>,
    open: &mut Open,
    timeout: u32,
) -> Result<()> {
    let wait = Duration::from_secs(timeout.into());
    let mut more = true;
    let mut deadline = std::pin::pin!(tokio::time::sleep(wait));
    while more || open.len() > 0 {
        tokio::select! {
            line = next_line(lines), if more => match line? {
                Some(line) => {
                    open.sent(&line);
                    link.push(&line);
                    deadline.as_mut().reset(tokio::time::Instant::now() + wait);
                }
                None => more = false,
            },
            answer = link.next() => match answer.map_err(failed)? {
                Some(line) => {
                    open.answered(&line);
                    agent::print(&screen::json(&String::from_utf8_lossy(&line)))?;
                }
                None => return Ok(()),
            },
            () = &mut deadline, if !more => return Ok(()),
        }
    }
    Ok(())
}

/// Ends the session with all that it started, and then the connection.
async fn shut_down(mut link: RawLink) -> std::io::Result<()> {
    link.push(br#"{"a2e":"1.0","type":"shutdown","timeout":0}"#);
    // A host closes the connection when the session has ended; some programs that are none do not.
    let end = async { while let Ok(Some(_)) = link.next().await {} };
    let _ = tokio::time::timeout(Duration::from_secs(1), end).await;
    link.close().await
}

/// The next line that is not blank.
async fn next_line(
    lines: &mut tokio::io::Split<Box<dyn AsyncBufRead + Unpin>>,
) -> Result<Option<Vec<u8>>> {
    loop {
        match lines
            .next_segment()
            .await
            .context("cannot read the lines")?
        {
            Some(line) if line.trim_ascii().is_empty() => {}
            Some(line) => return Ok(Some(line.strip_suffix(b"\r").unwrap_or(&line).to_vec())),
            None => return Ok(None),
        }
    }
}

async fn shake_hands(
    link: &mut RawLink,
    config: &AgentConfig,
    token_from: &TokenFrom,
) -> Result<()> {
    let Enumeration { values, .. } = Capability::ENUMERATION;
    let request = json!({
        "a2e": "1.0", "version": "1.0", "type": "handshake/req", "id": "frith-send",
        "agent_id": config.agent_id.as_str(), "agent_caps": values,
        "auth_token": config.auth_token,
    });
    link.push(request.to_string().as_bytes());
    let answer = tokio::time::timeout(config.handshake, link.next())
        .await
        .context("the host did not answer the handshake in time")?
        .map_err(failed)?
        .context("the host closed the connection before the handshake")?;
    let answer: Value = serde_json::from_slice(&answer).context("the host does not speak A2E")?;
    if answer["ok"] != true {
        let reason = answer["reason"]
            .as_str()
            .or_else(|| answer["code"].as_str());
        let hint = match reason {
            Some("auth_failed") => format!("\n{}", token_from.hint()),
            _ => String::new(),
        };
        let reason = reason.unwrap_or("it did not say why");
        bail!("the host refused the handshake: {reason}{hint}");
    }
    Ok(())
}

/// Not the same as a reader of our output who has seen enough, though it may be the same error.
fn failed(error: std::io::Error) -> anyhow::Error {
    anyhow!("the connection to the host failed: {error}")
}

/// The type of a message, as it is spelled.
fn kind(line: &[u8]) -> Option<String> {
    let message: Value = serde_json::from_slice(line).ok()?;
    message["type"].as_str().map(Into::into)
}

impl Open {
    fn len(&self) -> usize {
        self.requests.len().saturating_add(self.nameless)
    }

    fn sent(&mut self, line: &[u8]) {
        let message: Value = serde_json::from_slice(line).unwrap_or_default();
        let name = message["type"].as_str().unwrap_or_default();
        let answered = match Tag::parse(name, Sender::Agent) {
            Some(tag) => tag.kind() == MessageKind::Request,
            None => looks_like_request(name),
        };
        match message["id"].as_str() {
            _ if !answered => {}
            Some(id) if !id.is_empty() => drop(self.requests.insert(id.into())),
            _ => self.nameless = self.nameless.saturating_add(1),
        }
    }

    fn answered(&mut self, line: &[u8]) {
        let message: Value = serde_json::from_slice(line).unwrap_or_default();
        let name = message["type"].as_str().unwrap_or_default();
        let is_answer = match Tag::parse(name, Sender::Host) {
            Some(tag) => tag.kind() == MessageKind::Response,
            None => name.ends_with("/resp"),
        };
        match message["req_id"].as_str() {
            _ if !is_answer => {}
            Some(id) if !id.is_empty() => drop(self.requests.remove(id)),
            _ => self.nameless = self.nameless.saturating_sub(1),
        }
    }
}

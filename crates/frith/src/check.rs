//! `frith check`: are these lines A2E messages?

use std::fs::File;
use std::io::{Read, Write};
use std::path::PathBuf;

use a2e_wire::{DecodeError, Decoder, ErrorCode, Framer, LineTooLong, Sender, Timestamp};
use anyhow::{Context, Result};
use serde_json::json;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// A file with one JSON object per line; `-` or nothing is standard input
    #[arg(value_name = "FILE", default_value = "-")]
    file: PathBuf,

    /// Longest line to take, in bytes
    #[arg(long, default_value_t = a2e_wire::MAX_LINE)]
    max_line: usize,
}

/// What has been seen so far.
#[derive(Debug, Default)]
struct Report {
    messages: usize,
    wrong: usize,
    unknown: usize,
}

pub(crate) fn run(arguments: &Arguments, as_json: bool) -> Result<bool> {
    let mut input: Box<dyn Read> = match arguments.file.to_str() {
        Some("-") => Box::new(std::io::stdin().lock()),
        _ => {
            let file = File::open(&arguments.file);
            Box::new(file.with_context(|| format!("cannot read {}", arguments.file.display()))?)
        }
    };
    let mut out = std::io::stdout().lock();
    let mut framer = Framer::new(arguments.max_line);
    let mut decoder = Decoder::default();
    let mut report = Report::default();
    let mut chunk = vec![0; 64 * 1024];
    loop {
        let size = input.read(&mut chunk).context("cannot read the input")?;
        if size == 0 {
            break;
        }
        let mut lines = framer.feed(chunk.get(..size).unwrap_or_default());
        while let Some(line) = lines.next() {
            report.line(&mut out, &mut decoder, line, as_json)?;
        }
    }
    if let Some(line) = framer.finish() {
        report.line(&mut out, &mut decoder, line, as_json)?;
    }
    report.end(&mut out, as_json)
}

impl Report {
    fn line(
        &mut self,
        out: &mut impl Write,
        decoder: &mut Decoder,
        line: Result<&[u8], LineTooLong>,
        as_json: bool,
    ) -> Result<()> {
        self.messages += 1;
        let (code, text) = match line.map(|line| decode(decoder, line)) {
            Ok(Ok(known)) => {
                self.unknown += usize::from(!known);
                return Ok(());
            }
            Ok(Err(error)) => (error.code.clone(), error.to_string()),
            Err(too_long) => (ErrorCode::InvalidMessage, too_long.to_string()),
        };
        self.wrong += 1;
        let number = self.messages;
        if as_json {
            let found = json!({"message": number, "code": code.as_str(), "error": text});
            writeln!(out, "{found}")?;
        } else {
            writeln!(out, "message {number}: {code}: {text}")?;
        }
        Ok(())
    }

    fn end(&self, out: &mut impl Write, as_json: bool) -> Result<bool> {
        let Self {
            messages,
            wrong,
            unknown,
        } = self;
        if as_json {
            writeln!(
                out,
                "{}",
                json!({"messages": messages, "wrong": wrong, "unknown_types": unknown})
            )?;
        } else {
            let extra = match unknown {
                0 => String::new(),
                some => format!(", {some} of a type that the catalogue does not have"),
            };
            writeln!(out, "{messages} messages, {wrong} wrong{extra}")?;
        }
        Ok(*wrong == 0)
    }
}

/// Reads a message of either side; says whether its type is known.
fn decode(decoder: &mut Decoder, line: &[u8]) -> Result<bool, DecodeError> {
    let frame = decoder.frame(line, Sender::Agent, Timestamp::default())?;
    let by_agent = frame
        .tag()
        .is_none_or(|tag| tag.may_be_sent_by(Sender::Agent));
    let sender = if by_agent {
        Sender::Agent
    } else {
        Sender::Host
    };
    let message = decoder.decode(line, sender, Timestamp::default())?;
    Ok(message.body.tag().is_some())
}

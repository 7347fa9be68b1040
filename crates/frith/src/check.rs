//! `frith check`: are these lines A2E messages?

use std::fs::File;
use std::io::{Read, Write};
use std::path::PathBuf;

use a2e_runtime::nearest;
use a2e_wire::{
    Body, DecodeError, Decoder, ErrorCode, Framer, LineTooLong, Message, Sender, Tag, Timestamp,
};
use anyhow::{Context, Result};
use serde_json::{Map, Value, json};

use crate::screen::plain;
use crate::{Outcome, is_broken_pipe};

/// Every line must be a message. Types and fields that the catalogue does not have are legal; they
/// are only noted, since they are often misspelled.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// A file with one JSON object per line; `-` or nothing is standard input
    #[arg(value_name = "FILE", default_value = "-")]
    file: PathBuf,

    /// Who sent the messages; without it each is taken as sent by who may send its type
    #[arg(long, value_enum)]
    from: Option<From>,

    /// Longest line to take, in bytes
    #[arg(long, default_value_t = a2e_wire::MAX_LINE as u64, value_parser = clap::value_parser!(u64).range(1..))]
    max_line: u64,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum From {
    Agent,
    Host,
}

/// What has been seen so far.
struct Report<W> {
    out: W,
    as_json: bool,
    from: Option<Sender>,
    decoder: Decoder,
    messages: usize,
    wrong: usize,
}

pub(crate) fn run(arguments: &Arguments, as_json: bool) -> Result<Outcome> {
    let mut report = Report {
        out: std::io::stdout().lock(),
        as_json,
        from: arguments.from.map(|from| match from {
            From::Agent => Sender::Agent,
            From::Host => Sender::Host,
        }),
        decoder: Decoder::default(),
        messages: 0,
        wrong: 0,
    };
    match report.read(arguments) {
        // A reader that has seen enough, such as `head`, is no error.
        Err(error) if is_broken_pipe(&error) => {}
        other => other?,
    }
    Ok(match report.wrong {
        0 if report.messages > 0 => Outcome::Good,
        _ => Outcome::Bad,
    })
}

impl<W: Write> Report<W> {
    fn read(&mut self, arguments: &Arguments) -> Result<()> {
        let name = arguments.file.display();
        let mut input: Box<dyn Read> = match arguments.file.to_str() {
            Some("-") => Box::new(std::io::stdin().lock()),
            _ => Box::new(
                File::open(&arguments.file).with_context(|| format!("cannot read {name}"))?,
            ),
        };
        let max_line = usize::try_from(arguments.max_line).unwrap_or(usize::MAX);
        let mut framer = Framer::new(max_line);
        let mut chunk = vec![0; 64 * 1024];
        loop {
            let size = input
                .read(&mut chunk)
                .with_context(|| format!("cannot read {name}"))?;
            if size == 0 {
                break;
            }
            let mut lines = framer.feed(&chunk[..size]);
            // The line and its number are both the framer's.
            while let Some(line) = lines.next().map(|line| line.map(<[u8]>::to_vec)) {
                self.line(lines.line_number(), line)?;
            }
        }
        if let Some(line) = framer.finish().map(|line| line.map(<[u8]>::to_vec)) {
            self.line(framer.line_number(), line)?;
        }
        self.summary()
    }

    fn line(&mut self, number: u64, line: Result<Vec<u8>, LineTooLong>) -> Result<()> {
        self.messages += 1;
        let line = match line {
            Ok(line) => line,
            Err(error) => {
                let text = format!("{error}; --max-line takes longer ones");
                return self.say(number, &ErrorCode::InvalidMessage, &text);
            }
        };
        match decode(&mut self.decoder, &line, self.from) {
            Ok(message) => {
                let notes = notes(&message, &line);
                notes.iter().try_for_each(|note| self.note(number, note))
            }
            Err(error) => self.say(number, &error.code, &error.to_string()),
        }
    }

    fn say(&mut self, number: u64, code: &ErrorCode<'_>, text: &str) -> Result<()> {
        self.wrong += 1;
        match self.as_json {
            true => writeln!(
                self.out,
                "{}",
                json!({"line": number, "code": code.as_str(), "error": text})
            )?,
            false => writeln!(self.out, "line {number}: {code}: {}", plain(text))?,
        }
        Ok(())
    }

    fn note(&mut self, number: u64, text: &str) -> Result<()> {
        match self.as_json {
            true => writeln!(self.out, "{}", json!({"line": number, "note": text}))?,
            false => writeln!(self.out, "line {number}: note: {}", plain(text))?,
        }
        Ok(())
    }

    fn summary(&mut self) -> Result<()> {
        let (messages, wrong) = (self.messages, self.wrong);
        match (self.as_json, messages) {
            (true, _) => writeln!(
                self.out,
                "{}",
                json!({"messages": messages, "wrong": wrong})
            )?,
            (false, 0) => writeln!(self.out, "there is no message in the input")?,
            (false, 1) => writeln!(self.out, "1 message, {wrong} wrong")?,
            (false, _) => writeln!(self.out, "{messages} messages, {wrong} wrong")?,
        }
        Ok(())
    }
}

fn decode<'a>(
    decoder: &mut Decoder,
    line: &'a [u8],
    from: Option<Sender>,
) -> Result<Message<'a>, DecodeError> {
    let sender = match from {
        Some(sender) => sender,
        None => {
            let frame = decoder.frame(line, Sender::Agent, Timestamp::default())?;
            let exact = Tag::ALL
                .iter()
                .find(|tag| tag.as_str() == frame.type_name());
            match exact {
                Some(tag) if !tag.may_be_sent_by(Sender::Agent) => Sender::Host,
                _ => Sender::Agent,
            }
        }
    };
    decoder.decode(line, sender, Timestamp::default())
}

/// What a host accepts, but the specification does not have.
fn notes(message: &Message<'_>, line: &[u8]) -> Vec<String> {
    let members: Map<String, Value> = serde_json::from_slice(line).unwrap_or_default();
    let mut notes = missing_base_members(&members);
    let Some(tag) = message.body.tag() else {
        if let Body::Unknown(unknown) = &message.body {
            let near = nearest(&unknown.type_name, Tag::ALL.iter().map(|tag| tag.as_str()));
            notes.push(unknown_word("type", &unknown.type_name, near));
        }
        return notes;
    };
    let shape = tag.shape();
    let mut known = vec!["a2e", "version", "type", "id", "ts", "req_id", "eid"];
    for field in &shape.fields {
        known.push(field.name);
        known.extend(field.mirror);
        known.extend(field.aliases);
    }
    let unknown = members.keys().filter(|name| !known.contains(&&***name));
    notes.extend(unknown.map(|name| {
        let note = unknown_word("field", name, nearest(name, known.iter().copied()));
        format!("{}: {note}", tag.as_str())
    }));
    notes
}

/// The members of the base schema that a message lacks; of any type.
fn missing_base_members(members: &Map<String, Value>) -> Vec<String> {
    let lacks = |name: &&str| {
        let stands_for = if *name == "a2e" { "version" } else { name };
        !members.contains_key(*name) && !members.contains_key(stands_for)
    };
    let missing = ["a2e", "id", "ts"].into_iter().filter(lacks);
    missing
        .map(|name| format!("`{name}` is missing, which every message has"))
        .collect()
}

fn unknown_word(what: &str, word: &str, near: Option<&str>) -> String {
    let word: String = word.chars().take(64).collect();
    match near {
        Some(near) => format!("{what} `{word}` is not in the catalogue; did you mean `{near}`?"),
        None => format!("{what} `{word}` is not in the catalogue"),
    }
}

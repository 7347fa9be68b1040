//! `frith types`: the catalogue of messages, for people and programs.

use std::io::Write;

use a2e_wire::record::Field;
use a2e_wire::{Direction, MessageKind, Sender, Tag};
use anyhow::{Context, Result};
use serde_json::{Value, json};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// A message type such as `tool/call/req`; without it, all are listed
    #[arg(value_name = "TYPE")]
    type_name: Option<String>,
}

pub(crate) fn run(arguments: &Arguments, as_json: bool) -> Result<bool> {
    let mut out = std::io::stdout().lock();
    match &arguments.type_name {
        Some(name) => {
            let tag = find(name)?;
            match as_json {
                true => writeln!(out, "{:#}", describe(tag))?,
                false => show(&mut out, tag)?,
            }
        }
        None if as_json => {
            let all: Vec<Value> = Tag::ALL.iter().map(|tag| describe(*tag)).collect();
            writeln!(out, "{:#}", Value::from(all))?;
        }
        None => list(&mut out)?,
    }
    Ok(true)
}

fn find(name: &str) -> Result<Tag> {
    [Sender::Agent, Sender::Host]
        .into_iter()
        .find_map(|sender| Tag::parse(name, sender))
        .with_context(|| match nearest(name) {
            Some(near) => format!("there is no message type `{name}`; did you mean `{near}`?"),
            None => format!("there is no message type `{name}`; `frith types` lists all"),
        })
}

/// The type that shares the most of its parts with a wrong name.
fn nearest(name: &str) -> Option<&'static str> {
    let lower = name.to_ascii_lowercase();
    let score = |tag: &Tag| {
        let known = tag.as_str().to_ascii_lowercase();
        let shared = lower
            .split(['/', '_'])
            .filter(|part| known.split(['/', '_']).any(|other| other == *part))
            .count();
        (shared, usize::MAX - known.len().abs_diff(lower.len()))
    };
    Tag::ALL
        .iter()
        .max_by_key(|tag| score(tag))
        .filter(|tag| score(tag).0 > 0)
        .map(|tag| tag.as_str())
}

fn list(out: &mut impl Write) -> Result<()> {
    let width = Tag::ALL
        .iter()
        .map(|tag| tag.as_str().len())
        .max()
        .unwrap_or_default();
    for tag in Tag::ALL {
        let answer = tag.response().map_or(String::new(), |response| {
            format!("-> {}", response.as_str())
        });
        let line = format!(
            "{:width$}  {:13} {:9} {:12} {answer}",
            tag.as_str(),
            direction(*tag),
            kind(*tag),
            capability(*tag).unwrap_or_default(),
        );
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

fn show(out: &mut impl Write, tag: Tag) -> Result<()> {
    writeln!(out, "{}  ({}, {})", tag.as_str(), kind(tag), direction(tag))?;
    if let Some(capability) = capability(tag) {
        writeln!(out, "  needs the capability `{capability}`")?;
    }
    if let Some(response) = tag.response() {
        writeln!(out, "  is answered by {}", response.as_str())?;
    }
    if !tag.aliases().is_empty() {
        writeln!(out, "  is also taken as {}", tag.aliases().join(", "))?;
    }
    writeln!(
        out,
        "  fields beside a2e, version, type, id, ts{}:",
        match tag.carries_req_id() {
            true => ", req_id",
            false => "",
        }
    )?;
    let shape = tag.shape();
    if shape.fields.is_empty() {
        writeln!(out, "    none")?;
    }
    for field in &shape.fields {
        writeln!(
            out,
            "    {:18} {:28} {}",
            field.name,
            field.wire_type,
            presence(field)
        )?;
    }
    Ok(())
}

fn presence(field: &Field) -> String {
    match (field.default, field.sparse) {
        (_, true) => "left out when there is nothing to say".into(),
        (Some(default), _) if default.starts_with('(') => "made by the sender".into(),
        (Some(default), _) => format!("default {default}"),
        (None, _) => "required".into(),
    }
}

fn describe(tag: Tag) -> Value {
    let fields = tag.shape().fields.into_iter().map(|field| {
        json!({
            "name": field.name,
            "type": field.wire_type,
            "enum": field.enumeration,
            "required": field.default.is_none() && !field.sparse,
            "default": field.default.and_then(|text| serde_json::from_str::<Value>(text).ok()),
        })
    });
    json!({
        "type": tag.as_str(),
        "from": direction(tag),
        "kind": kind(tag),
        "namespace": tag.namespace().as_str(),
        "capability": capability(tag),
        "response": tag.response().map(Tag::as_str),
        "accepted_spellings": tag.aliases(),
        "carries_req_id": tag.carries_req_id(),
        "fields": fields.collect::<Vec<_>>(),
    })
}

fn direction(tag: Tag) -> &'static str {
    match tag.direction() {
        Direction::AgentToHost => "agent to host",
        Direction::HostToAgent => "host to agent",
        Direction::Both => "both ways",
    }
}

fn kind(tag: Tag) -> &'static str {
    match tag.kind() {
        MessageKind::Request => "request",
        MessageKind::Response => "response",
        MessageKind::Event => "event",
        MessageKind::Push => "push",
        MessageKind::Notice => "notice",
    }
}

fn capability(tag: Tag) -> Option<String> {
    tag.namespace()
        .capability()
        .map(|capability| capability.to_string())
}

//! `frith types`: the catalogue of messages, for people and programs.

use std::io::Write;

use a2e_runtime::nearest;
use a2e_wire::catalogue::{Struct, enumerations, structs};
use a2e_wire::record::{Default, Field, Shape};
use a2e_wire::{Direction, Enumeration, MessageKind, Sender, Tag};
use anyhow::Result;
use serde_json::{Value, json};

use crate::Outcome;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// A message type such as `tool/call/req`, or the name of a nested object or enumeration such
    /// as `ToolDefinition`; without it, all messages are listed
    #[arg(value_name = "TYPE")]
    name: Option<String>,
}

/// What a name stands for.
enum Found {
    Message(Tag),
    Struct(Struct),
    Enumeration(Enumeration),
}

pub(crate) fn run(arguments: &Arguments, as_json: bool) -> Result<Outcome> {
    let mut out = std::io::stdout().lock();
    let Some(name) = &arguments.name else {
        list(&mut out, Tag::ALL.iter().copied(), as_json)?;
        return Ok(Outcome::Good);
    };
    match find(name) {
        Some(Found::Message(tag)) if as_json => writeln!(out, "{:#}", message_json(tag))?,
        Some(Found::Message(tag)) => show_message(&mut out, tag)?,
        Some(Found::Struct(object)) if as_json => {
            writeln!(
                out,
                "{:#}",
                json!({"name": object.name, "fields": fields_json(&object.shape)})
            )?;
        }
        Some(Found::Struct(object)) => {
            writeln!(out, "{}  (nested object)", object.name)?;
            show_fields(&mut out, &object.shape)?;
        }
        Some(Found::Enumeration(known)) if as_json => {
            writeln!(
                out,
                "{:#}",
                json!({"name": known.name, "values": known.values})
            )?;
        }
        Some(Found::Enumeration(known)) => {
            writeln!(
                out,
                "{}  (enumeration; other values are kept as they come)",
                known.name
            )?;
            writeln!(out, "  {}", known.values.join(", "))?;
        }
        None => return Ok(missing(name)),
    }
    Ok(Outcome::Good)
}

fn find(name: &str) -> Option<Found> {
    let alias = || Tag::ALL.iter().find(|tag| tag.aliases().contains(&name));
    if let Some(tag) = Tag::ALL
        .iter()
        .find(|tag| tag.as_str() == name)
        .or_else(alias)
    {
        return Some(Found::Message(*tag));
    }
    let mut objects = structs().into_iter();
    if let Some(object) = objects.find(|object| object.name.eq_ignore_ascii_case(name)) {
        return Some(Found::Struct(object));
    }
    let mut known = enumerations().into_iter();
    let found = known.find(|known| known.name.eq_ignore_ascii_case(name))?;
    Some(Found::Enumeration(found))
}

/// Says what there is instead of an unknown name.
fn missing(name: &str) -> Outcome {
    let prefix = format!("{}/", name.trim_end_matches('/'));
    let family: Vec<&str> = Tag::ALL
        .iter()
        .map(|tag| tag.as_str())
        .filter(|tag| tag.starts_with(&prefix))
        .collect();
    let hint = if !family.is_empty() {
        format!("there are {}", family.join(", "))
    } else if let Some(near) = nearest(name, Tag::ALL.iter().map(|tag| tag.as_str())) {
        format!("did you mean `{near}`?")
    } else {
        "`frith types` lists all".into()
    };
    Outcome::WrongArguments(format!("there is no message type `{name}`; {hint}"))
}

fn list(out: &mut impl Write, tags: impl Iterator<Item = Tag>, as_json: bool) -> Result<()> {
    if as_json {
        let all: Vec<Value> = tags.map(message_json).collect();
        writeln!(out, "{:#}", Value::from(all))?;
        return Ok(());
    }
    let width = Tag::ALL
        .iter()
        .map(|tag| tag.as_str().len())
        .max()
        .unwrap_or_default();
    for tag in tags {
        let answer = tag
            .response()
            .map(|response| format!("-> {}", response.as_str()));
        let line = format!(
            "{:width$}  {:13} {:9} {:12} {}",
            tag.as_str(),
            direction(tag),
            kind(tag),
            capability(tag).unwrap_or_default(),
            answer.unwrap_or_default(),
        );
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

fn show_message(out: &mut impl Write, tag: Tag) -> Result<()> {
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
    let req_id = if tag.carries_req_id() { ", req_id" } else { "" };
    // What a host sends is numbered, so that an agent can say what it has.
    let eid = if tag.may_be_sent_by(Sender::Host) {
        ", eid"
    } else {
        ""
    };
    writeln!(
        out,
        "  has a2e, version, type, id, ts{req_id}{eid} as every such message, and:"
    )?;
    show_fields(out, &tag.shape())
}

fn show_fields(out: &mut impl Write, shape: &Shape) -> Result<()> {
    if shape.fields.is_empty() {
        writeln!(out, "    no other fields")?;
    }
    for field in &shape.fields {
        let wire_type = field.enumeration.unwrap_or(&field.wire_type);
        writeln!(out, "    {:18} {wire_type:28} {}", field.name, notes(field))?;
    }
    if shape.keeps_others {
        writeln!(out, "    other members are kept")?;
    }
    Ok(())
}

/// Whether a field must be there, and by what other names it goes.
fn notes(field: &Field) -> String {
    let mut notes = match (field.default, field.sparse) {
        (_, true) => "left out when there is nothing to say".into(),
        (Some(Default::Made(_)), _) => "made by the sender".into(),
        (Some(Default::Literal(default)), _) => format!("default {default}"),
        (None, _) => "required".into(),
    };
    if let Some(mirror) = field.mirror {
        notes += &format!("; also written as {mirror}");
    }
    if !field.aliases.is_empty() {
        notes += &format!("; also read as {}", field.aliases.join(", "));
    }
    notes
}

fn message_json(tag: Tag) -> Value {
    json!({
        "type": tag.as_str(),
        "from": direction(tag),
        "kind": kind(tag),
        "namespace": tag.namespace().as_str(),
        "capability": capability(tag),
        "response": tag.response().map(Tag::as_str),
        "accepted_spellings": tag.aliases(),
        "carries_req_id": tag.carries_req_id(),
        "carries_eid": tag.may_be_sent_by(Sender::Host),
        "fields": fields_json(&tag.shape()),
    })
}

fn fields_json(shape: &Shape) -> Value {
    let field = |field: &Field| {
        let mut object = json!({
            "name": field.name,
            "type": field.wire_type,
            "enum": field.enumeration,
            "required": field.default.is_none() && !field.sparse,
            "sparse": field.sparse,
            "also_written_as": field.mirror,
            "also_read_as": field.aliases,
        });
        match field.default {
            Some(Default::Literal(literal)) => {
                object["default"] = serde_json::from_str(literal).unwrap_or_default();
            }
            Some(Default::Made(name)) => object["made_by_sender"] = name.into(),
            None => {}
        }
        object
    };
    shape.fields.iter().map(field).collect()
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

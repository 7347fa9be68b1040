//! The parameters of an operation.

use serde_json::Value;

use super::document::Document;
use super::operation::{MAX_PARAMETERS, Operation};
use super::style::{Style, Writing};
use crate::http::{Kept, headers};

/// A parameter.
#[derive(Debug)]
pub(super) struct Parameter<'d> {
    pub(super) name: &'d str,
    /// What the tool calls it.
    pub(super) argument: String,
    pub(super) place: Place,
    pub(super) writing: Writing,
    pub(super) required: bool,
    pub(super) schema: Option<&'d Value>,
    pub(super) description: &'d str,
    pub(super) deprecated: bool,
}

/// Where it goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    Path,
    Query,
    Header,
    Cookie,
}

/// The argument that is the body.
pub(super) const BODY: &str = "body";

/// The parameters of an operation and of its path, those of the path first.
pub(super) fn parameters<'d>(
    document: &'d Document,
    operation: &Operation<'d>,
) -> Result<Vec<Parameter<'d>>, String> {
    let list = |value: &'d Value| {
        let list = value.get("parameters").and_then(Value::as_array);
        list.into_iter().flatten()
    };
    let mut all: Vec<Parameter<'d>> = Vec::new();
    for value in list(operation.item).chain(list(operation.value)) {
        let Some(parameter) = parameter(document.resolve(value)?)? else {
            continue;
        };
        // An operation's own stands for that of its path.
        all.retain(|known| (known.name, known.place) != (parameter.name, parameter.place));
        all.push(parameter);
    }
    if all.len() > MAX_PARAMETERS {
        return Err(format!("it has more than {MAX_PARAMETERS} parameters"));
    }
    all.sort_by_key(|parameter| parameter.place);
    name_arguments(&mut all, operation.value.get("requestBody").is_some());
    Ok(all)
}

/// The first of several with one name has it; others have their place before it.
fn name_arguments(all: &mut [Parameter<'_>], has_body: bool) {
    let mut taken: Vec<String> = has_body.then(|| BODY.to_owned()).into_iter().collect();
    for parameter in all {
        let mut argument = parameter.name.to_owned();
        while taken.contains(&argument) {
            argument = format!("{}_{argument}", parameter.place.name());
        }
        taken.push(argument.clone());
        parameter.argument = argument;
    }
}

fn parameter(value: &Value) -> Result<Option<Parameter<'_>>, String> {
    let text = |key: &str| value.get(key).and_then(Value::as_str);
    let (Some(name), Some(place)) = (text("name"), text("in")) else {
        return Err("a parameter has no `name` or no `in`".to_owned());
    };
    let bad = |what: &str| format!("the parameter `{name}`: {what}");
    let place = match place {
        "path" => Place::Path,
        "query" => Place::Query,
        "header" => Place::Header,
        "cookie" => Place::Cookie,
        _ => return Err(bad("its `in` is none of path, query, header and cookie")),
    };
    let ours = ["accept", "content-type", "authorization"];
    let is_ours = ours.iter().any(|it| name.eq_ignore_ascii_case(it));
    if place == Place::Header && is_ours {
        // The specification says so.
        return Ok(None);
    }
    if place == Place::Header {
        let alone = [(name.to_owned(), String::new())].into();
        headers(&alone).map_err(|problem| bad(&problem))?;
    }
    let is = |key: &str| value.get(key) == Some(&Value::Bool(true));
    let content = value.get("content").and_then(Value::as_object);
    let content = content.and_then(|content| content.values().next());
    Ok(Some(Parameter {
        name,
        argument: String::new(),
        place,
        writing: writing(value, place, content.is_some()).map_err(|problem| bad(&problem))?,
        required: is("required") || place == Place::Path,
        schema: value.get("schema").or_else(|| content?.get("schema")),
        description: text("description").unwrap_or_default(),
        deprecated: is("deprecated"),
    }))
}

fn writing(value: &Value, place: Place, has_content: bool) -> Result<Writing, String> {
    let usual = match place {
        Place::Path | Place::Header => Style::Simple,
        Place::Query | Place::Cookie => Style::Form,
    };
    let style = match value.get("style").and_then(Value::as_str) {
        _ if has_content => Style::Json,
        None => usual,
        Some(name) => Style::parse(name).ok_or("its `style` is none")?,
    };
    let fits = match style {
        Style::Json => true,
        Style::Simple => matches!(place, Place::Path | Place::Header),
        Style::Label | Style::Matrix => place == Place::Path,
        Style::Form => matches!(place, Place::Query | Place::Cookie),
        Style::SpaceDelimited | Style::PipeDelimited | Style::DeepObject => place == Place::Query,
    };
    if !fits {
        return Err("its `style` is not one for where it stands".to_owned());
    }
    let explode = value.get("explode").and_then(Value::as_bool);
    let reserved = value.get("allowReserved") == Some(&Value::Bool(true));
    Ok(Writing {
        style,
        explode: explode.unwrap_or(matches!(style, Style::Form | Style::DeepObject)),
        kept: match reserved && place == Place::Query {
            true => Kept::Reserved,
            false => Kept::Unreserved,
        },
    })
}

impl Place {
    const fn name(self) -> &'static str {
        match self {
            Self::Path => "path",
            Self::Query => "query",
            Self::Header => "header",
            Self::Cookie => "cookie",
        }
    }
}

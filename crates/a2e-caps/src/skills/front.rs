//! What a skill says of itself: YAML between two lines `---`, before its instructions.

use serde_json::{Map, Value, json};

use crate::scripts::simple;

/// Bytes of what a skill says of itself.
pub const MAX_FRONT: usize = 64 * 1024;

/// Bytes of a name, and of a description of the form of Agent Skills.
pub const MAX_NAME: usize = 64;
/// Bytes of a description.
pub const MAX_DESCRIPTION: usize = 1024;

/// No schema is that deep.
const MAX_DEPTH: usize = 32;

/// Turns of a model, and seconds, that a skill can ask for.
const MAX_NUMBER: i64 = 1_000_000;

/// How a skill is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// `SKILL.md`, as Agent Skills have it.
    Agent,
    /// `skill.md`, as A2E hosts have it.
    Plain,
}

/// What a skill says of itself.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Front {
    pub(super) name: String,
    pub(super) version: String,
    pub(super) description: String,
    pub(super) triggers: Vec<String>,
    /// Tools that it cannot do without.
    pub(super) tools: Vec<String>,
    /// Tools that it may use where there are such.
    pub(super) allowed: Vec<String>,
    pub(super) toolkits: Vec<String>,
    pub(super) category: Option<String>,
    pub(super) tags: Vec<String>,
    pub(super) icon: Option<String>,
    pub(super) when_to_use: String,
    pub(super) argument_hint: String,
    pub(super) arguments: Option<Vec<String>>,
    pub(super) input: Value,
    pub(super) output: Value,
    pub(super) max_turns: Option<i64>,
    pub(super) timeout_seconds: Option<i64>,
    /// The file of it that is run instead of following its instructions.
    pub(super) run: Option<String>,
    pub(super) metadata: Map<String, Value>,
}

/// Reads a skill: what it says of itself, and its instructions. `folder` is what it is called unless
/// it says so itself.
///
/// # Errors
/// What is wrong, and what it must look like.
pub(super) fn read<'t>(
    form: Form,
    folder: &str,
    text: &'t str,
) -> Result<(Front, &'t str), String> {
    let (front_text, body) = split(text)?;
    let keys = match front_text {
        Some(front) => Keys(parse(front)?),
        None if form == Form::Agent => {
            return Err("it must begin with a line `---`, `name:` and `description:`".to_owned());
        }
        None => Keys(Map::new()),
    };
    let mut front = keys.front(folder)?;
    if let Some(version) = front_text.and_then(written_version) {
        front.version = version;
    }
    check(form, folder, &front, &keys)?;
    Ok((front, body))
}

/// Takes the front matter off.
fn split(text: &str) -> Result<(Option<&str>, &str), String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let begins = |text: &str| text.lines().next().is_some_and(|it| it.trim_end() == "---");
    if !begins(text) {
        return Ok((None, text));
    }
    let rest = text.split_once('\n').map_or("", |(_, rest)| rest);
    let mut at = 0_usize;
    for line in rest.split_inclusive('\n') {
        let end = at.saturating_add(line.len());
        if line.trim_end() == "---" {
            let (front, body) = (rest.get(..at), rest.get(end..));
            let body = body.unwrap_or_default();
            return Ok((front, body.strip_prefix('\n').unwrap_or(body)));
        }
        at = end;
    }
    Err("what it says of itself has no end: a second line `---` is missing".to_owned())
}

fn parse(front: &str) -> Result<Map<String, Value>, String> {
    if front.len() > MAX_FRONT {
        return Err(format!(
            "what it says of itself has more than {MAX_FRONT} bytes"
        ));
    }
    if front.trim().is_empty() {
        return Ok(Map::new());
    }
    let mut budget = serde_saphyr::Budget::default();
    budget.max_depth = MAX_DEPTH;
    let options = serde_saphyr::options! {
        budget: Some(budget),
        strict_booleans: true,
        with_snippet: false,
    };
    serde_saphyr::from_str_with_options(front, options)
        .map_err(|error| format!("what it says of itself: {error}"))
}

/// Returns a version as it is written: as a number 1.10 would be 1.1.
fn written_version(front: &str) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Written {
        version: Option<String>,
    }
    let options = serde_saphyr::options! { with_snippet: false };
    let written = serde_saphyr::from_str_with_options::<Written>(front, options);
    let version = written.ok()?.version?;
    Some(version.trim().to_owned())
}

/// The keys of a front matter. Those that nobody knows are left alone: others may.
struct Keys(Map<String, Value>);

impl Keys {
    fn front(&self, folder: &str) -> Result<Front, String> {
        let text = |name: &str| Ok::<_, String>(self.text(name)?.unwrap_or_default());
        let mut metadata = match self.0.get("metadata") {
            None | Some(Value::Null) => Map::new(),
            Some(Value::Object(metadata)) => metadata.clone(),
            Some(_) => return Err("`metadata` must be keys and values".to_owned()),
        };
        for (name, key) in [
            ("license", "license"),
            ("compatibility", "compatibility"),
            ("user-invocable", "user_invocable"),
        ] {
            if let Some(value) = self.0.get(name).filter(|value| !value.is_null()) {
                metadata.insert(key.to_owned(), value.clone());
            }
        }
        let arguments = self.words("arguments")?;
        Ok(Front {
            name: self.text("name")?.unwrap_or_else(|| folder.to_owned()),
            version: self.text("version")?.unwrap_or_else(|| "1.0.0".to_owned()),
            description: text("description")?,
            triggers: self.words("triggers")?,
            tools: self.words("tools")?,
            allowed: self.allowed()?,
            toolkits: self.words("toolkits")?,
            category: self.text("category")?,
            tags: self.words("tags")?,
            icon: self.text("icon")?,
            when_to_use: text("when_to_use")?,
            argument_hint: match self.text("argument_hint")? {
                Some(hint) => hint,
                None => text("argument-hint")?,
            },
            input: self.schema("inputs", &arguments)?,
            output: self.schema("outputs", &[])?,
            arguments: (!arguments.is_empty()).then_some(arguments),
            max_turns: self.number("max_turns")?,
            timeout_seconds: self.number("timeout_seconds")?,
            run: self.text("run")?,
            metadata,
        })
    }

    /// A text; also a number or a yes or no, which YAML makes of some texts.
    fn text(&self, name: &str) -> Result<Option<String>, String> {
        match self.0.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.trim().to_owned())),
            Some(value @ (Value::Number(_) | Value::Bool(_))) => Ok(Some(value.to_string())),
            Some(Value::Array(_) | Value::Object(_)) => Err(format!("`{name}` must be a text")),
        }
    }

    fn number(&self, name: &str) -> Result<Option<i64>, String> {
        match self.0.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => {
                let number = value.as_i64().filter(|it| (1..=MAX_NUMBER).contains(it));
                number.map(Some).ok_or_else(|| {
                    format!("`{name}` must be a whole number from 1 to {MAX_NUMBER}")
                })
            }
        }
    }

    /// Words: a list, whose items may be sections with a `name`, or a text with commas.
    fn words(&self, name: &str) -> Result<Vec<String>, String> {
        let wrong = || format!("`{name}` must be a list of texts");
        match self.0.get(name) {
            None | Some(Value::Null) => Ok(Vec::new()),
            Some(Value::String(text)) => Ok(parts(text, |letter| letter == ',')),
            Some(Value::Array(list)) => {
                let word = |item: &Value| {
                    let item = item.get("name").unwrap_or(item);
                    item.as_str().map(|it| it.trim().to_owned())
                };
                let words: Option<Vec<String>> = list.iter().map(word).collect();
                words.ok_or_else(wrong)
            }
            Some(_) => Err(wrong()),
        }
    }

    /// `allowed-tools`: a list, or a text with spaces or commas, as `Bash(git add:*) Read`.
    fn allowed(&self) -> Result<Vec<String>, String> {
        match self.0.get("allowed-tools") {
            Some(Value::String(text)) => {
                let mut depth = 0_usize;
                Ok(parts(text, |letter| {
                    match letter {
                        '(' => depth = depth.saturating_add(1),
                        ')' => depth = depth.saturating_sub(1),
                        _ => {}
                    }
                    depth == 0 && (letter == ',' || letter.is_whitespace())
                }))
            }
            _ => self.words("allowed-tools"),
        }
    }

    /// What goes in or comes out: one schema for all, or by name a schema, a line as
    /// `string? What it is`, or what it is; or a list of names or of sections with a `name`.
    fn schema(&self, key: &str, names: &[String]) -> Result<Value, String> {
        let mut members = Map::new();
        let mut required = Vec::new();
        match self.0.get(key) {
            None | Some(Value::Null) => {
                for name in names {
                    members.insert(name.clone(), json!({}));
                }
            }
            Some(Value::Object(all)) => {
                let is_whole = all.get("type") == Some(&Value::from("object"));
                if is_whole && all.get("properties").is_some_and(Value::is_object) {
                    return Ok(Value::Object(all.clone()));
                }
                for (name, said) in all {
                    let (schema, is_needed) = member(said);
                    if is_needed {
                        required.push(name.clone());
                    }
                    members.insert(name.clone(), schema);
                }
            }
            Some(Value::Array(list)) => {
                for said in list {
                    let name = said.get("name").unwrap_or(said).as_str();
                    let name = name.ok_or_else(|| format!("each of `{key}` needs a `name`"))?;
                    let (schema, is_needed) = match said.is_string() {
                        true => (json!({}), false),
                        false => member(said),
                    };
                    if is_needed {
                        required.push(name.to_owned());
                    }
                    members.insert(name.to_owned(), schema);
                }
            }
            Some(_) => return Err(format!("`{key}` must be keys and values, or a list")),
        }
        if members.is_empty() {
            return Ok(Value::Null);
        }
        required.sort();
        Ok(json!({"type": "object", "properties": members, "required": required}))
    }
}

/// The schema of one member, and whether it must be there.
fn member(said: &Value) -> (Value, bool) {
    match said {
        Value::String(line) => simple(line).unwrap_or_else(|| {
            let schema = json!({"type": "string", "description": line});
            (schema, false)
        }),
        Value::Object(schema) => {
            let mut schema = schema.clone();
            schema.remove("name");
            // A schema says what is required of its own members, and that is a list.
            let is_needed = schema.get("required") == Some(&Value::Bool(true));
            if schema.get("required").is_some_and(Value::is_boolean) {
                schema.remove("required");
            }
            (Value::Object(schema), is_needed)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => (json!({}), false),
    }
}

fn parts(text: &str, is_between: impl FnMut(char) -> bool) -> Vec<String> {
    let parts = text.split(is_between).map(str::trim);
    let parts = parts.filter(|part| !part.is_empty());
    parts.map(str::to_owned).collect()
}

/// What Agent Skills must say; other skills must have a name that can be written.
fn check(form: Form, folder: &str, front: &Front, keys: &Keys) -> Result<(), String> {
    let name = &front.name;
    let is_bad = |letter: char| letter.is_control() || letter == '/';
    if name.is_empty() || name.len() > MAX_NAME || name.contains(is_bad) {
        return Err(format!(
            "`name` must have 1 to {MAX_NAME} bytes, without `/`"
        ));
    }
    if front.description.len() > MAX_DESCRIPTION {
        return Err(format!(
            "`description` has more than {MAX_DESCRIPTION} bytes"
        ));
    }
    if form == Form::Plain {
        return Ok(());
    }
    if !keys.0.contains_key("name") || front.description.is_empty() {
        return Err("it must say its `name:` and its `description:`".to_owned());
    }
    let is_plain = |it: u8| it.is_ascii_lowercase() || it.is_ascii_digit() || it == b'-';
    let is_good = name.bytes().all(is_plain) && !name.starts_with('-') && !name.ends_with('-');
    if !is_good || name.contains("--") {
        return Err("`name` must be small letters, digits and single hyphens".to_owned());
    }
    match name == folder {
        true => Ok(()),
        false => Err(format!("`name` must be that of its folder, `{folder}`")),
    }
}

#[cfg(test)]
mod tests;

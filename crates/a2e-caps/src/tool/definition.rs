//! What a tool says of itself.

use std::borrow::Cow;
use std::sync::Arc;

use a2e_wire::Object;
use a2e_wire::messages::tool::ToolDefinition;
use a2e_wire::wire::encoded_size;
use canonical::Digest;
use serde_json::{Value, json};

use super::content::Content;
use super::parameters::{is_told_in_full, parameters};
use super::schema::{Schema, SchemaError};

/// A tool as it is listed, searched for, checked and pinned.
#[derive(Debug, Clone)]
pub struct Definition {
    name: String,
    description: String,
    input: Arc<Schema>,
    output: Option<Arc<Schema>>,
    tags: Vec<String>,
    version: String,
    toolkit: Option<String>,
    read_only: bool,
    idempotent: bool,
    volatile: bool,
    streaming: bool,
    defer_loading: bool,
}

/// Why something is no definition.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DefinitionError {
    /// Its name cannot be used.
    #[error(
        "`{0}` cannot be the name of a tool: 1 to {MAX_NAME} bytes without white space and control characters"
    )]
    Name(String),
    /// It has too much to say.
    #[error("the description of `{name}` has {size} bytes, more than {MAX_DESCRIPTION}")]
    Description {
        /// Whose.
        name: String,
        /// How long it is.
        size: usize,
    },
    /// One of its schemas cannot be used.
    #[error("the {which} schema of `{name}`: {error}")]
    Schema {
        /// Whose.
        name: String,
        /// `input` or `output`.
        which: &'static str,
        /// What is wrong with it.
        error: SchemaError,
    },
    /// Arguments are always an object.
    #[error("the input schema of `{0}` must have `\"type\": \"object\"`")]
    NotAnObject(String),
}

/// The longest name of a tool, in bytes.
pub const MAX_NAME: usize = 256;

/// The longest description of a tool, in bytes.
pub const MAX_DESCRIPTION: usize = 64 * 1024;

impl Definition {
    /// A tool that takes arguments of this schema. It counts as one that changes something, until
    /// [said otherwise](Self::read_only).
    ///
    /// # Errors
    /// If the name, the description or the schema cannot be used.
    pub fn new(
        name: impl Into<String>,
        description: impl Into<String>,
        input: &Value,
    ) -> Result<Self, DefinitionError> {
        let (name, description) = named(name.into(), description.into(), input)?;
        let schema = compile(&name, "input", input)?;
        Ok(Self::with(name, description, schema))
    }

    /// The same for a tool that is part of this program: its schema is made ready when it is first
    /// used.
    ///
    /// # Errors
    /// If the name or the description cannot be used.
    pub(crate) fn own(
        name: impl Into<String>,
        description: impl Into<String>,
        input: &Value,
    ) -> Result<Self, DefinitionError> {
        let (name, description) = named(name.into(), description.into(), input)?;
        Ok(Self::with(name, description, Schema::own(input)))
    }

    fn with(name: String, description: String, input: Arc<Schema>) -> Self {
        Self {
            name,
            description,
            input,
            output: None,
            tags: Vec::new(),
            version: "1.0.0".into(),
            toolkit: None,
            read_only: false,
            idempotent: false,
            volatile: false,
            streaming: false,
            defer_loading: false,
        }
    }

    /// Results are of this schema.
    ///
    /// # Errors
    /// If it cannot be used.
    pub fn output(mut self, schema: &Value) -> Result<Self, DefinitionError> {
        self.output = Some(compile(&self.name, "output", schema)?);
        Ok(self)
    }

    /// The same for a tool that is part of this program.
    pub(crate) fn own_output(mut self, schema: &Value) -> Self {
        self.output = Some(Schema::own(schema));
        self
    }

    /// These words lead to it.
    #[must_use]
    pub fn tags<T: Into<String>>(mut self, tags: impl IntoIterator<Item = T>) -> Self {
        self.tags = tags.into_iter().map(Into::into).collect();
        self
    }

    /// It is this version of it.
    #[must_use]
    pub fn version(mut self, version: impl Into<String>) -> Self {
        self.version = version.into();
        self
    }

    /// It belongs to this toolkit.
    #[must_use]
    pub fn toolkit(mut self, toolkit: impl Into<String>) -> Self {
        self.toolkit = Some(toolkit.into());
        self
    }

    /// The same tool by another name, of which it may speak in other words. The name must do.
    pub(crate) fn renamed(mut self, name: String, description: String) -> Self {
        self.name = name;
        self.description = description;
        self
    }

    /// It changes nothing; so it may be called again, and what it gave may be given again.
    #[must_use]
    pub const fn read_only(mut self) -> Self {
        self.read_only = true;
        self.idempotent = true;
        self
    }

    /// Calling it again changes nothing more.
    #[must_use]
    pub const fn idempotent(mut self) -> Self {
        self.idempotent = true;
        self
    }

    /// What it gives depends on more than its arguments and other tools (files, the clock), so it is
    /// never given again.
    #[must_use]
    pub const fn volatile(mut self) -> Self {
        self.volatile = true;
        self
    }

    /// It tells how it gets on.
    #[must_use]
    pub const fn streaming(mut self) -> Self {
        self.streaming = true;
        self
    }

    /// It is not listed, but found by a search that asks for such.
    #[must_use]
    pub const fn deferred(mut self) -> Self {
        self.defer_loading = true;
        self
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it does.
    #[must_use]
    pub fn description(&self) -> &str {
        &self.description
    }

    /// What arguments must fit.
    #[must_use]
    pub fn input_schema(&self) -> &Schema {
        &self.input
    }

    /// What results must fit.
    #[must_use]
    pub fn output_schema(&self) -> Option<&Schema> {
        self.output.as_deref()
    }

    /// The words that lead to it.
    #[must_use]
    pub fn all_tags(&self) -> &[String] {
        &self.tags
    }

    /// Whether it is only found by a search.
    #[must_use]
    pub const fn is_deferred(&self) -> bool {
        self.defer_loading
    }

    /// Whether it changes nothing.
    #[must_use]
    pub const fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// Whether what it gave once may be given again.
    #[must_use]
    pub const fn is_cacheable(&self) -> bool {
        self.read_only && self.idempotent && !self.volatile
    }

    /// Whether it may have changed what other tools give.
    #[must_use]
    pub const fn changes_others(&self) -> bool {
        !(self.read_only && self.idempotent)
    }

    /// The hash of all it says.
    #[must_use]
    pub fn hash(&self) -> Digest {
        Digest::of(self.pinned_text(None).as_bytes())
    }

    /// All it says, and what runs where that can change too. Members are sorted, so their order does
    /// not count.
    #[must_use]
    pub fn pinned_text(&self, content: Option<&Content>) -> String {
        let mut all = json!({
            "name": self.name,
            "description": self.description,
            "input_schema": self.input.value(),
            "output_schema": self.output.as_ref().map(|schema| schema.value()),
            "tags": self.tags,
            "version": self.version,
            "toolkit": self.toolkit,
            "read_only": self.read_only,
            "idempotent": self.idempotent,
            "volatile": self.volatile,
            "streaming": self.streaming,
            "defer_loading": self.defer_loading,
        });
        if let (Some(content), Value::Object(all)) = (content, &mut all) {
            all.insert("content".into(), content.to_value());
        }
        all.to_string()
    }

    /// Bytes that it has in a list.
    #[must_use]
    pub fn listed_size(&self) -> usize {
        encoded_size(&self.to_wire())
    }

    /// The definition as it is listed. The whole schema goes along where parameters cannot say all.
    #[must_use]
    pub fn to_wire(&self) -> ToolDefinition<'static> {
        let owned = |text: &String| Cow::Owned(text.clone());
        let input = self.input.value();
        let output = self.output.as_ref().map(|schema| schema.value());
        let in_full = (!is_told_in_full(input)).then(|| Object::from_serialize(input).ok());
        ToolDefinition {
            input_parameters: parameters(input),
            output_parameters: output.map(parameters).unwrap_or_default(),
            streaming: self.streaming,
            idempotent: self.idempotent,
            tags: self.tags.iter().map(owned).collect(),
            version: owned(&self.version),
            toolkit: self.toolkit.as_ref().map(owned),
            defer_loading: self.defer_loading,
            input_schema: in_full.flatten(),
            ..ToolDefinition::new(owned(&self.name), owned(&self.description))
        }
    }
}

/// A name and a description that can be used, of a tool that takes an object.
fn named(
    name: String,
    description: String,
    input: &Value,
) -> Result<(String, String), DefinitionError> {
    let is_bad = |letter: char| letter.is_whitespace() || letter.is_control();
    if name.is_empty() || name.len() > MAX_NAME || name.contains(is_bad) {
        let shown = name.chars().take(64).filter(|letter| !letter.is_control());
        return Err(DefinitionError::Name(shown.collect()));
    }
    let size = description.len();
    if size > MAX_DESCRIPTION {
        return Err(DefinitionError::Description { name, size });
    }
    match input.get("type") == Some(&Value::from("object")) {
        true => Ok((name, description)),
        false => Err(DefinitionError::NotAnObject(name)),
    }
}

fn compile(
    name: &str,
    which: &'static str,
    schema: &Value,
) -> Result<Arc<Schema>, DefinitionError> {
    Schema::compile(schema).map_err(|error| DefinitionError::Schema {
        name: name.to_owned(),
        which,
        error,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object() -> Value {
        json!({"type": "object"})
    }

    #[test]
    fn names_and_descriptions_have_limits() {
        let named = |name: &str| Definition::new(name, "", &object());
        assert!(named(&"n".repeat(MAX_NAME)).is_ok());
        for bad in ["", "a b", "a\u{7}", &"n".repeat(MAX_NAME + 1)] {
            assert!(matches!(named(bad), Err(DefinitionError::Name(_))), "{bad}");
        }
        let said = |size: usize| Definition::new("n", "d".repeat(size), &object());
        assert!(said(MAX_DESCRIPTION).is_ok());
        assert!(said(MAX_DESCRIPTION + 1).is_err());
    }

    #[test]
    fn arguments_are_an_object() {
        let not = Definition::new("n", "", &json!({"type": "string"}));
        assert_eq!(not.unwrap_err(), DefinitionError::NotAnObject("n".into()));
    }

    #[test]
    fn every_change_changes_the_hash_and_the_order_of_members_does_not() {
        let schema = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        let of = |text: &str| Definition::new("n", "d", &schema(text)).unwrap();
        let one = of(r#"{"type":"object","properties":{"a":{"type":"string"},"b":{}}}"#);
        let same = of(r#"{"properties":{"b":{},"a":{"type":"string"}},"type":"object"}"#);
        assert_eq!(one.hash(), same.hash());
        for other in [
            one.clone().tags(["x"]),
            one.clone().version("1.0.1"),
            one.clone().toolkit("k"),
            one.clone().read_only(),
            one.clone().idempotent(),
            one.clone().volatile(),
            one.clone().streaming(),
            one.clone().deferred(),
            one.clone().output(&json!({})).unwrap(),
            of(r#"{"type":"object","properties":{"a":{"type":"string"},"b":{"title":"t"}}}"#),
            Definition::new("n", "d.", one.input_schema().value()).unwrap(),
            Definition::new("m", "d", one.input_schema().value()).unwrap(),
        ] {
            assert_ne!(one.hash(), other.hash(), "{other:?}");
        }
    }
}

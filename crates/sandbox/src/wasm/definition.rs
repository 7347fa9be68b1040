//! What a component says of itself.

use wasmtime::component::Val;

/// What a component says of itself: the record of `wit/tool.wit`, not looked into yet.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Definition {
    /// What it does.
    pub description: String,
    /// A JSON Schema, if it is one: what it takes.
    pub input_schema: String,
    /// A JSON Schema, if it is one: what it gives.
    pub output_schema: Option<String>,
    /// Words that lead to it.
    pub tags: Vec<String>,
    /// Its version.
    pub version: String,
    /// Whether it changes nothing.
    pub read_only: bool,
    /// Whether calling it again changes nothing more.
    pub idempotent: bool,
}

/// How many fields the record has.
const FIELDS: usize = 7;

impl Definition {
    /// Reads the record; nothing if it is another.
    pub(super) fn read(value: Val) -> Option<Self> {
        let Val::Record(fields) = value else {
            return None;
        };
        let mut definition = Self::default();
        // A record of another form has other fields, or fewer.
        let mut known = 0_usize;
        for (name, value) in fields {
            let slots = &mut definition;
            match (&*name, value) {
                ("description", Val::String(text)) => slots.description = text,
                ("input-schema", Val::String(text)) => slots.input_schema = text,
                ("output-schema", Val::Option(None)) => {}
                ("output-schema", Val::Option(Some(value))) => {
                    slots.output_schema = Some(text(*value)?);
                }
                ("tags", Val::List(tags)) => {
                    slots.tags = tags.into_iter().map(text).collect::<Option<_>>()?;
                }
                ("version", Val::String(text)) => slots.version = text,
                ("read-only", Val::Bool(yes)) => slots.read_only = yes,
                ("idempotent", Val::Bool(yes)) => slots.idempotent = yes,
                _ => return None,
            }
            known = known.saturating_add(1);
        }
        (known == FIELDS).then_some(definition)
    }
}

fn text(value: Val) -> Option<String> {
    let Val::String(text) = value else {
        return None;
    };
    Some(text)
}

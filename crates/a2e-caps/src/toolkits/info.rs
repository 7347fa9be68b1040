//! What a toolkit says of itself.

use std::borrow::Cow;
use std::sync::Arc;

use a2e_wire::Object;
use a2e_wire::messages::toolkit::ToolkitDefinition;
use serde_json::Value;

use crate::tool::{Schema, SchemaError};

/// A toolkit as it is listed.
#[derive(Debug, Clone)]
pub struct Info {
    /// Its name.
    pub name: String,
    /// What people call it.
    pub alias: String,
    /// What it is for.
    pub description: String,
    /// The kind it is of.
    pub category: String,
    /// Words that lead to it.
    pub tags: Vec<String>,
    /// What a configuration must fit.
    pub schema: Arc<Schema>,
    /// The tools it can have. A configuration may leave some out.
    pub tools: Vec<String>,
}

impl Info {
    /// A toolkit with these tools, for configurations of this schema.
    ///
    /// # Errors
    /// If the schema cannot be used.
    pub fn new(name: &str, schema: &Value, tools: &[&str]) -> Result<Self, SchemaError> {
        let schema = Schema::compile(schema)?;
        Ok(Self::with(name, schema, tools))
    }

    /// The same for a toolkit that is part of this program.
    pub(super) fn own(name: &str, schema: &Value, tools: &[&str]) -> Self {
        Self::with(name, Schema::own(schema), tools)
    }

    fn with(name: &str, schema: Arc<Schema>, tools: &[&str]) -> Self {
        Self {
            name: name.to_owned(),
            alias: String::new(),
            description: String::new(),
            category: String::new(),
            tags: Vec::new(),
            schema,
            tools: tools.iter().map(|&tool| tool.to_owned()).collect(),
        }
    }

    /// Whether it is of a kind, if one is given, and has all of these tags.
    pub(super) fn fits(&self, kind: &str, tags: &[Cow<'_, str>]) -> bool {
        let same = |a: &str, b: &str| a.to_lowercase() == b.to_lowercase();
        let has = |wanted: &Cow<'_, str>| self.tags.iter().any(|tag| same(tag, wanted));
        (kind.is_empty() || same(&self.category, kind)) && tags.iter().all(has)
    }

    pub(super) fn to_wire(&self, tools: &[String], configured: bool) -> ToolkitDefinition<'static> {
        let owned = |text: &String| Cow::Owned(text.clone());
        ToolkitDefinition {
            alias: owned(&self.alias),
            description: owned(&self.description),
            category: owned(&self.category),
            tags: self.tags.iter().map(owned).collect(),
            schema: Object::from_serialize(self.schema.value()).unwrap_or_default(),
            configured,
            ..ToolkitDefinition::new(owned(&self.name), tools.iter().map(owned).collect())
        }
    }
}

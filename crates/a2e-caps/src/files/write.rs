//! `write_file`.

use serde::Deserialize;
use serde_json::json;

use super::Roots;
use super::replace::{Parents, Replaced, replace};
use crate::tool::{Call, Definition, DefinitionError, Output, ToolFailure};

#[derive(Deserialize)]
struct Asked {
    path: String,
    content: String,
    #[serde(default)]
    create_parents: bool,
}

pub(super) fn definition() -> Result<Definition, DefinitionError> {
    let schema = json!({
        "type": "object", "additionalProperties": false, "required": ["path", "content"],
        "properties": {
            "path": {"type": "string", "description": "The file to write"},
            "content": {"type": "string", "description": "All that is to be in it"},
            "create_parents": {"type": "boolean", "description": "Make the folders on the way"},
        },
    });
    let text = "Writes a whole file, in place of what was there. It is replaced at once or not at \
                all. edit_file changes a part of a file";
    Ok(Definition::own("write_file", text, &schema)?.tags(["file", "write"]))
}

pub(super) fn run(roots: &Roots, call: &Call) -> Result<Output, ToolFailure> {
    let asked: Asked = call.arguments.read()?;
    let place = roots.locate(&asked.path)?;
    let parents = match asked.create_parents {
        true => Parents::Make,
        false => Parents::Must,
    };
    let replaced = replace(roots, &place, asked.content.as_bytes(), parents, None)?;
    Output::new(&json!({
        "path": place.shown,
        "bytes": asked.content.len(),
        "created": replaced == Replaced::Created,
    }))
}

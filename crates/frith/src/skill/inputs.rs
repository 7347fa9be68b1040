//! What a skill takes: for people who read it, and for a text that is to be one of its inputs.

use a2e_wire::messages::skill::SkillDefinition;
use serde_json::{Map, Value};

/// Something that a skill takes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Input {
    pub(super) name: String,
    pub(super) kind: String,
    pub(super) is_required: bool,
    pub(super) description: String,
}

/// What a skill takes that has no inputs of its own.
pub(super) const ARGS: &str = "args";

/// The inputs of a skill: those it needs first, in the order in which it says so.
pub(super) fn inputs(skill: &SkillDefinition<'_>) -> Vec<Input> {
    let schema: Value = skill.input_schema.raw().deserialize().unwrap_or_default();
    listed(&schema)
}

fn listed(schema: &Value) -> Vec<Input> {
    let required: Vec<&str> = schema["required"]
        .as_array()
        .map_or_else(Vec::new, |names| {
            names.iter().filter_map(Value::as_str).collect()
        });
    let none = Map::new();
    let properties = schema["properties"].as_object().unwrap_or(&none);
    let place = |name: &str| required.iter().position(|it| *it == name);
    let mut inputs: Vec<Input> = properties
        .iter()
        .map(|(name, told)| Input {
            name: name.clone(),
            kind: told["type"].as_str().unwrap_or("any").to_owned(),
            is_required: place(name).is_some(),
            description: told["description"].as_str().unwrap_or_default().to_owned(),
        })
        .collect();
    inputs.sort_by_key(|input| place(&input.name).unwrap_or(usize::MAX));
    inputs
}

/// The input that a text is meant for: `args`, the only one, or the first that is needed.
pub(super) fn for_text(inputs: &[Input]) -> Option<&str> {
    let takes_text = |input: &&Input| matches!(&*input.kind, "string" | "any");
    let named = inputs.iter().find(|input| input.name == ARGS);
    let needed = || inputs.iter().find(|it| it.is_required && takes_text(it));
    let only = || match inputs {
        [input] => Some(input).filter(takes_text),
        _ => None,
    };
    let found = named.or_else(only).or_else(needed);
    found.map(|input| &*input.name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn meant(schema: &Value) -> Option<String> {
        for_text(&listed(schema)).map(str::to_owned)
    }

    #[test]
    fn a_text_is_the_input_that_is_meant() {
        let text = json!({"type": "string"});
        let number = json!({"type": "number"});
        for (properties, required, expected) in [
            (json!({"args": text, "b": text}), json!(["b"]), Some("args")),
            (json!({"topic": text}), json!([]), Some("topic")),
            (json!({"a": text, "z": text}), json!(["z", "a"]), Some("z")),
            (
                json!({"n": number, "z": text}),
                json!(["n", "z"]),
                Some("z"),
            ),
            (json!({"n": number}), json!(["n"]), None),
            (json!({"a": text, "b": text}), json!([]), None),
            (json!({}), json!([]), None),
        ] {
            let schema = json!({"properties": properties, "required": required});
            assert_eq!(meant(&schema).as_deref(), expected, "{schema}");
        }
    }

    #[test]
    fn needed_inputs_come_first() {
        let schema = json!({"required": ["z"], "properties": {
            "a": {"type": "integer"}, "z": {"type": "string", "description": "What"}}});
        let names: Vec<String> = listed(&schema).into_iter().map(|it| it.name).collect();
        assert_eq!(names, ["z", "a"]);
        assert_eq!(listed(&json!({"properties": 7})), []);
    }
}

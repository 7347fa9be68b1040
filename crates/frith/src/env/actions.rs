//! What somebody types, as an action.

use serde_json::{Value, json};

/// The actions of an environment, as far as a keyboard has them.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Actions {
    verbs: Vec<String>,
    /// The least and the greatest number, where actions are numbered.
    numbers: Option<(i64, i64)>,
    /// Whether an action is a text.
    is_text: bool,
}

impl Actions {
    /// Those that a schema has.
    pub(super) fn of(schema: &Value) -> Self {
        let properties = &schema["properties"];
        let verbs = ["type", "action_type"].iter().find_map(|name| {
            let verbs = properties[name]["enum"].as_array()?;
            let texts = verbs
                .iter()
                .filter_map(Value::as_str)
                .map(ToOwned::to_owned);
            Some(texts.collect())
        });
        let action = &properties["action"];
        let bound = |name: &str| action[name].as_i64();
        let is = |kind: &str| action["type"] == kind;
        Self {
            verbs: verbs.unwrap_or_default(),
            numbers: bound("minimum")
                .zip(bound("maximum"))
                .filter(|_| is("integer")),
            is_text: is("string"),
        }
    }

    /// Whether one key is enough for an action.
    pub(super) fn fit_keys(&self) -> bool {
        !self.is_text && (!self.verbs.is_empty() || self.numbers.is_some())
    }

    /// The action that a text means: a JSON object, a name or the beginning of one, a number, or
    /// whatever JSON value an action may be.
    pub(super) fn read(&self, text: &str) -> Option<Value> {
        if self.is_text {
            return Some(json!({ "action": format!("{text}\n") }));
        }
        let value: Option<Value> = serde_json::from_str(text).ok();
        if let Some(object @ Value::Object(_)) = value {
            return Some(object);
        }
        let mut begun = self.verbs.iter().filter(|verb| verb.starts_with(text));
        let exact = self.verbs.iter().find(|verb| *verb == text);
        let only = begun.next().filter(|_| begun.next().is_none());
        if let Some(verb) = exact.or(only) {
            return Some(json!({ "type": verb }));
        }
        match (&value?, self.numbers) {
            (Value::Number(number), Some((least, greatest))) => {
                let number = number.as_i64()?;
                let fits = (least..=greatest).contains(&number);
                fits.then(|| json!({ "action": number }))
            }
            (Value::String(_), _) => None,
            (value, _) => Some(json!({ "action": value })),
        }
    }

    /// What may be typed, in a line.
    pub(super) fn help(&self) -> String {
        let mut ways = Vec::new();
        if !self.verbs.is_empty() {
            ways.push(self.verbs.join(", "));
        }
        if let Some((least, greatest)) = self.numbers {
            ways.push(format!("a number from {least} to {greatest}"));
        }
        ways.push("a JSON object".to_owned());
        format!("an action is {}", ways.join(", or "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_numbers_and_json_are_actions() {
        let actions = Actions::of(&json!({"properties": {
            "type": {"enum": ["up", "right", "down", "left", "lefter"]},
            "action": {"type": "integer", "minimum": 0, "maximum": 3},
        }}));
        assert!(actions.fit_keys());
        for (text, expected) in [
            ("up", Some(json!({"type": "up"}))),
            ("u", Some(json!({"type": "up"}))),
            ("left", Some(json!({"type": "left"}))),
            ("l", None),
            ("3", Some(json!({"action": 3}))),
            ("4", None),
            ("1.5", None),
            (r#"{"type": "fly"}"#, Some(json!({"type": "fly"}))),
            ("fly", None),
        ] {
            assert_eq!(actions.read(text), expected, "{text}");
        }
    }

    #[test]
    fn other_spaces_take_values_and_texts() {
        let real = Actions::of(&json!({"properties": {"action": {"type": "array"}}}));
        assert!(!real.fit_keys());
        assert_eq!(real.read("[0.5]"), Some(json!({"action": [0.5]})));
        let text = Actions::of(&json!({"properties": {"action": {"type": "string"}}}));
        assert_eq!(text.read("ls -l"), Some(json!({"action": "ls -l\n"})));
    }
}

//! Secrets that requests carry, and that no answer may carry back.

use std::fmt;

use serde_json::Value;

use super::encode::{Kept, encode};

/// Secrets in all the forms in which a server might repeat them.
#[derive(Clone, Default)]
pub(crate) struct Hidden {
    has_any: bool,
    forms: Vec<String>,
}

/// What is shorter stands in too many texts by chance.
const SHORTEST: usize = 4;

/// What stands in the place of a secret.
const INSTEAD: &str = "[secret]";

impl Hidden {
    /// Hides one more.
    pub(crate) fn add(&mut self, secret: &str) {
        self.has_any = true;
        let as_json = Value::from(secret).to_string();
        let as_json = as_json.get(1..as_json.len().saturating_sub(1));
        for form in [
            secret.to_owned(),
            as_json.unwrap_or_default().to_owned(),
            encode(secret, Kept::Unreserved),
        ] {
            if form.len() >= SHORTEST && !self.forms.contains(&form) {
                self.forms.push(form);
            }
        }
        // The longest first: one may be a part of another.
        self.forms.sort_by_key(|form| std::cmp::Reverse(form.len()));
    }

    /// Whether there is anything to hide.
    pub(crate) const fn has_any(&self) -> bool {
        self.has_any
    }

    /// Whether a text shows one of them.
    pub(super) fn is_in(&self, text: &str) -> bool {
        self.forms.iter().any(|secret| text.contains(secret))
    }

    /// A text without the secrets.
    pub(super) fn hide(&self, text: String) -> String {
        let hide = |text: String, secret: &String| match text.contains(secret) {
            true => text.replace(secret, INSTEAD),
            false => text,
        };
        self.forms.iter().fold(text, hide)
    }

    /// The same for all texts in a value, however they were escaped.
    pub(super) fn hide_in(&self, value: Value) -> Value {
        match value {
            _ if self.forms.is_empty() => value,
            Value::String(text) => Value::String(self.hide(text)),
            Value::Array(list) => list.into_iter().map(|it| self.hide_in(it)).collect(),
            Value::Object(members) => {
                let hide = |(name, value)| (self.hide(name), self.hide_in(value));
                Value::Object(members.into_iter().map(hide).collect())
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => value,
        }
    }
}

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hidden(…)")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn no_form_of_it_comes_back() {
        let mut hidden = Hidden::default();
        hidden.add("pass\"word/1");
        hidden.add("pass");
        for text in [
            "pass\"word/1",
            r#"{"a":"pass\"word/1"}"#,
            "?k=pass%22word%2F1&x",
            "pass",
        ] {
            assert!(hidden.is_in(text));
            let shown = hidden.hide(text.to_owned());
            let is_hidden = !shown.contains("pass") && shown.contains(INSTEAD);
            assert!(is_hidden, "{shown}");
        }
        let value: Value = serde_json::from_str(r#"{"p\u0061ss": ["p\u0061ss", 1]}"#).unwrap();
        assert_eq!(hidden.hide_in(value), json!({INSTEAD: [INSTEAD, 1]}));
        assert_eq!(format!("{hidden:?}"), "Hidden(…)");
    }

    #[test]
    fn what_is_too_short_is_in_every_text() {
        let mut hidden = Hidden::default();
        assert!(!hidden.has_any());
        hidden.add("abc");
        assert!(hidden.has_any() && !hidden.is_in("abc"));
        hidden.add("abcd");
        assert_eq!(hidden.hide("abcabcd".into()), "abc[secret]");
    }
}

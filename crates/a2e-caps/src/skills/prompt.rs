//! Instructions with arguments in their places.

use serde_json::{Map, Value};

use crate::template::text;

/// Bytes of a prompt.
pub const MAX_PROMPT: usize = 1 << 20;

/// Characters of a prompt that are shown in an event.
const PREVIEW: usize = 500;

/// Puts each argument where `{name}` stands. Other braces stay as they are: instructions have code in
/// them. What an argument says is never looked at again.
///
/// # Errors
/// If that is too long.
pub(super) fn fill(body: &str, arguments: &Map<String, Value>) -> Result<String, String> {
    let (mut filled, mut rest) = (String::new(), body);
    while let Some((before, after)) = rest.split_once('{') {
        filled.push_str(before);
        let place = after.split_once('}');
        let value = place.and_then(|(name, behind)| Some((arguments.get(name)?, behind)));
        match value {
            Some((value, behind)) => {
                filled.push_str(&text(value));
                rest = behind;
            }
            None => {
                filled.push('{');
                rest = after;
            }
        }
        if filled.len() > MAX_PROMPT {
            break;
        }
    }
    filled.push_str(rest);
    match filled.len() <= MAX_PROMPT {
        true => Ok(filled),
        false => Err(format!("the prompt has more than {MAX_PROMPT} bytes")),
    }
}

/// As much of a prompt as is shown.
pub(super) fn preview(prompt: &str) -> String {
    prompt.chars().take(PREVIEW).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn filled(body: &str, arguments: Value) -> String {
        fill(body, arguments.as_object().unwrap()).unwrap()
    }

    #[test]
    fn what_is_given_is_put_in_its_place_once() {
        let arguments = json!({"topic": "{args} {x", "args": 7, "list": [1, "a"]});
        assert_eq!(
            filled(
                "On {topic}: {args}, {list}. fn main() { {other} } {",
                arguments
            ),
            "On {args} {x: 7, [1,\"a\"]. fn main() { {other} } {"
        );
        assert_eq!(filled("{a}{a}", json!({"a": "é"})), "éé");
        assert_eq!(filled("{{a}}", json!({"a": 1})), "{1}");
    }

    #[test]
    fn a_prompt_has_a_size() {
        let of = |size: usize| fill("{a}", json!({"a": "x".repeat(size)}).as_object().unwrap());
        assert_eq!(of(MAX_PROMPT).unwrap().len(), MAX_PROMPT);
        assert!(of(MAX_PROMPT + 1).is_err());
        assert!(
            fill(
                &"{a}".repeat(1000),
                json!({"a": "x".repeat(2000)}).as_object().unwrap()
            )
            .is_err()
        );
    }

    #[test]
    fn a_preview_ends_between_letters() {
        assert_eq!(preview(&"é".repeat(600)), "é".repeat(500));
    }
}

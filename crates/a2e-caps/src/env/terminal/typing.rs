//! What is typed into a terminal.

use std::time::Duration;

use serde::Deserialize;

use super::super::environment::{Action, EnvError};

/// Bytes of one action.
pub const MAX_KEYS: usize = 16 * 1024;
/// How long a step waits for the screen to come to rest, or a command to end.
pub(super) const WAIT: Duration = Duration::from_secs(5);
pub(super) const MAX_WAIT: Duration = Duration::from_secs(120);

/// An action: keys as they are, or a line for the shell.
#[derive(Deserialize)]
struct Asked {
    action_type: Option<String>,
    #[serde(rename = "type")]
    kind: Option<String>,
    action: Option<String>,
    keys: Option<String>,
    command: Option<String>,
    wait_seconds: Option<f64>,
    payload: Option<Payload>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Payload {
    Parts {
        keys: Option<String>,
        command: Option<String>,
        wait_seconds: Option<f64>,
    },
    /// `[]`, which some agents send for nothing.
    Other(serde::de::IgnoredAny),
}

/// What is to be typed, and what is waited for then.
#[derive(Debug, PartialEq)]
pub(super) struct Typing {
    pub(super) keys: String,
    pub(super) is_command: bool,
    pub(super) wait: Duration,
}

/// Reads an action.
pub(super) fn typing(action: &Action) -> Result<Typing, EnvError> {
    let asked: Asked = action.read()?;
    let (keys, command, wait) = match asked.payload {
        Some(Payload::Parts {
            keys,
            command,
            wait_seconds,
        }) => (keys, command, wait_seconds),
        Some(Payload::Other(_)) | None => (None, None, None),
    };
    let keys = asked.action.or(asked.keys).or(keys);
    let command = asked.command.or(command);
    let verb = asked.action_type.or(asked.kind);
    let (keys, is_command) = match (verb.as_deref(), keys, command) {
        (None | Some("command"), None, Some(command)) => (format!("{command}\n"), true),
        (None | Some("keys"), Some(keys), None) => (keys, false),
        _ => {
            let text = "an action is {\"action\": KEYS} or {\"command\": LINE}, with \
                        `wait_seconds` if need be";
            return Err(EnvError::Wrong(text.to_owned()));
        }
    };
    if keys.len() > MAX_KEYS {
        let text = format!("an action has at most {MAX_KEYS} bytes of keys");
        return Err(EnvError::Wrong(text));
    }
    let wait = match asked.wait_seconds.or(wait).map(Duration::try_from_secs_f64) {
        None => WAIT,
        Some(Ok(wait)) if wait <= MAX_WAIT => wait,
        Some(_) => {
            let text = format!("`wait_seconds` is from 0 to {}", MAX_WAIT.as_secs());
            return Err(EnvError::Wrong(text));
        }
    };
    Ok(Typing {
        keys,
        is_command,
        wait,
    })
}

#[cfg(test)]
mod tests {
    use a2e_wire::Object;
    use a2e_wire::wire::ToStatic;

    use super::*;

    fn typed(text: &str) -> Option<(String, bool, u64)> {
        let action = Action::new(Object::parse(text).unwrap().to_static());
        let typed = typing(&action).ok()?;
        Some((typed.keys, typed.is_command, typed.wait.as_secs()))
    }

    #[test]
    fn keys_and_commands() {
        let is = |keys: &str, is_command, wait| Some((keys.to_owned(), is_command, wait));
        for (text, expected) in [
            (r#"{"action":"ls\n"}"#, is("ls\n", false, 5)),
            (r#"{"command":"ls"}"#, is("ls\n", true, 5)),
            (
                r#"{"type":"command","payload":{"command":"ls","wait_seconds":9}}"#,
                is("ls\n", true, 9),
            ),
            (
                r#"{"action_type":"keys","payload":{"keys":"\u0003"}}"#,
                is("\u{3}", false, 5),
            ),
            (
                r#"{"command":"ls","wait_seconds":120}"#,
                is("ls\n", true, 120),
            ),
            (r#"{"command":"ls","wait_seconds":120.5}"#, None),
            (r#"{"command":"ls","wait_seconds":-1}"#, None),
            (r#"{"action":"a","command":"b"}"#, None),
            (r#"{"type":"fly","action":"a"}"#, None),
            (r#"{"payload":[]}"#, None),
        ] {
            assert_eq!(typed(text), expected, "{text}");
        }
    }

    #[test]
    fn an_action_has_so_many_keys() {
        let keys = |count: usize| typed(&format!(r#"{{"action":"{}"}}"#, "x".repeat(count)));
        assert!(keys(MAX_KEYS).is_some());
        assert_eq!(keys(MAX_KEYS + 1), None);
    }
}

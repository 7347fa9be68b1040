//! A pending call as the operator reads it: all of it, and what matters first.

use a2e_runtime::operator::HeldCall;
use serde_json::{Map, Value};

use crate::diff::diff;
use crate::screen::{json, plain};

/// How edits name what is there and what is to be there.
const EDITS: [(&str, &str); 3] = [
    ("old_text", "new_text"),
    ("oldText", "newText"),
    ("old_string", "new_string"),
];

/// The lines to show of a call. Everything in it is there; what was not understood as JSON.
pub(crate) fn details(call: &HeldCall) -> Vec<String> {
    let mut shown: Value = serde_json::from_str(&call.shown).unwrap_or_default();
    let mut lines = vec![format!(
        "agent {}, rule {}",
        plain(&call.agent),
        plain(shown["rule"].as_str().unwrap_or_default())
    )];
    let resolved = shown["resolved"].take();
    let mut request = shown["request"].take();
    let name = ["tool_name", "name", "env_name", "toolkit_name"];
    let name = name.iter().find_map(|member| request[*member].as_str());
    lines.push(match (request["type"].as_str(), name) {
        (Some(kind), Some(name)) => format!("{} {}", plain(kind), plain(name)),
        (kind, _) => plain(kind.unwrap_or_default()),
    });
    let rest = match request["arguments"].as_object_mut() {
        Some(arguments) => {
            command(arguments, &resolved, &mut lines);
            edits(arguments, &mut lines);
            &request
        }
        None => {
            program(&request, &mut lines);
            &request
        }
    };
    as_json("the request", rest, &mut lines);
    if !resolved.is_null() {
        as_json("stands for", &resolved, &mut lines);
    }
    lines
}

/// A command line, with the folder that it starts in and the network that it has.
fn command(arguments: &mut Map<String, Value>, resolved: &Value, lines: &mut Vec<String>) {
    let Some(member) = ["command", "code"]
        .iter()
        .find(|it| arguments.get(**it).is_some_and(Value::is_string))
    else {
        return;
    };
    for text in take(arguments, member).lines() {
        lines.push(format!("  $ {}", plain(text)));
    }
    let configured = &resolved["configuration"];
    let given = arguments
        .get("cwd")
        .and_then(Value::as_str)
        .filter(|cwd| !cwd.is_empty());
    match (configured["directory"].as_str(), given) {
        (Some(directory), Some(cwd)) => {
            lines.push(format!(
                "  directory {} in {}",
                plain(cwd),
                plain(directory)
            ));
        }
        (Some(directory), None) => lines.push(format!("  directory {}", plain(directory))),
        (None, Some(cwd)) => lines.push(format!("  directory {}", plain(cwd))),
        (None, None) => {}
    }
    if let Some(network) = configured["network"].as_str() {
        lines.push(format!("  network {}", plain(network)));
    }
}

/// The words of a program that a request starts.
fn program(request: &Value, lines: &mut Vec<String>) {
    let Some(words) = request["cmd"].as_array() else {
        return;
    };
    let words = words
        .iter()
        .filter_map(Value::as_str)
        .map(crate::screen::quoted);
    lines.push(format!("  $ {}", words.collect::<Vec<_>>().join(" ")));
    if let Some(cwd) = request["cwd"].as_str().filter(|cwd| !cwd.is_empty()) {
        lines.push(format!("  directory {}", plain(cwd)));
    }
}

/// Edits of a file, and what is written into one.
fn edits(arguments: &mut Map<String, Value>, lines: &mut Vec<String>) {
    if let Some(path) = arguments.get("path").and_then(Value::as_str) {
        lines.push(format!("  file {}", plain(path)));
    }
    change(arguments, lines);
    let each = arguments.get_mut("edits").and_then(Value::as_array_mut);
    for edit in each.into_iter().flatten().filter_map(Value::as_object_mut) {
        change(edit, lines);
    }
    let is_written = arguments.contains_key("path");
    if is_written && arguments.get("content").is_some_and(Value::is_string) {
        compare("", &take(arguments, "content"), lines);
    }
}

/// An edit: what is there, and what is to be there.
fn change(edit: &mut Map<String, Value>, lines: &mut Vec<String>) {
    let is_text = |member: &str| edit.get(member).is_some_and(Value::is_string);
    let found = EDITS.iter().find(|(old, new)| is_text(old) && is_text(new));
    if let Some((old, new)) = found {
        let (old, new) = (take(edit, old), take(edit, new));
        compare(&old, &new, lines);
    }
}

fn compare(old: &str, new: &str, lines: &mut Vec<String>) {
    let marked = diff(old, new)
        .into_iter()
        .map(|line| format!("  {}", line.marked()));
    lines.extend(marked);
}

/// Takes a text out of an object; a mark stays that it was shown.
fn take(object: &mut Map<String, Value>, member: &str) -> String {
    let text = object.insert(member.to_owned(), Value::from("(above)"));
    match text {
        Some(Value::String(text)) => text,
        _ => String::new(),
    }
}

fn as_json(title: &str, value: &Value, lines: &mut Vec<String>) {
    lines.push(title.to_owned());
    let text = serde_json::to_string_pretty(value).unwrap_or_default();
    // The line breaks are those of the form; in texts they are escaped.
    lines.extend(text.lines().map(|line| format!("  {}", json(line))));
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(request: &Value, resolved: &Value) -> String {
        let shown = json!({"rule": "ask", "request": request, "resolved": resolved});
        let call = HeldCall {
            id: "1".to_owned(),
            agent: "a\u{1b}[2J".to_owned(),
            since: 0,
            until: 0,
            shown: shown.to_string(),
            verdict: "waiting".to_owned(),
            reason: String::new(),
            awaited: true,
        };
        details(&call).join("\n")
    }

    #[test]
    fn edit_is_shown_as_a_diff() {
        let edit = json!({"type": "tool/call/req", "tool_name": "edit_file", "arguments":
            {"path": "a\u{202e}b", "old_text": "one\ntwo", "new_text": "one\n\u{1b}[31mthree", "n": 1}});
        let text = of(&edit, &Value::Null);
        let expected = "agent a\\u{1b}[2J, rule ask\ntool/call/req edit_file\n  file a\\u{202e}b\n    one\n  \
                        - two\n  + \\u{1b}[31mthree\nthe request\n";
        assert!(text.starts_with(expected), "{text}");
        assert!(text.contains("\"n\": 1"), "{text}");
        assert!(
            !text.contains('\u{1b}') && !text.contains('\u{202e}'),
            "{text}"
        );
        let several = json!({"type": "tool/call/req", "tool_name": "fs__edit_file", "arguments":
            {"path": "x", "edits": [{"oldText": "a", "newText": "b"}, {"oldText": "c", "newText": "d"}]}});
        let text = of(&several, &Value::Null);
        assert!(text.contains("  - a\n  + b\n  - c\n  + d\n"), "{text}");
    }

    #[test]
    fn command_is_shown_with_directory_and_network() {
        let call = json!({"type": "tool/call/req", "tool_name": "run_command", "arguments":
            {"command": "make\nmake install", "cwd": "src"}});
        let resolved = json!({"configuration": {"directory": "/w", "network": "none"}});
        let text = of(&call, &resolved);
        let expected =
            "  $ make\n  $ make install\n  directory src in /w\n  network none\nthe request\n";
        assert!(text.contains(expected), "{text}");
        assert!(text.contains("stands for"), "{text}");
        let spawn = json!({"type": "proc/spawn/req", "cmd": ["ls", "a b"], "cwd": "x"});
        let text = of(&spawn, &Value::Null);
        assert!(text.contains("  $ ls 'a b'\n  directory x\n"), "{text}");
    }
}

//! MCP servers that other programs are told of, in a folder and of a user. Their files are only read.

use std::path::{Path, PathBuf};

use a2e_runtime::config::is_server_name;
use serde_json::{Map, Value, json};

use crate::keystore::read;

/// A server that somebody has written down.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Candidate {
    pub(crate) name: String,
    /// The file that it stands in.
    pub(crate) from: String,
    /// The folder that its paths begin in.
    pub(crate) folder: PathBuf,
    /// Whether that file lies in the project, and may be somebody else's.
    pub(crate) is_of_project: bool,
    /// As the configuration has it, but for what it may reach.
    pub(crate) entry: Map<String, Value>,
}

/// What was found, and what of it cannot be used.
#[derive(Debug, Default)]
pub(crate) struct Candidates {
    pub(crate) servers: Vec<Candidate>,
    pub(crate) left_out: Vec<String>,
}

/// Nobody writes more by hand.
const MAX_FILE: usize = 1024 * 1024;

/// Files of a folder, each with the key that has its servers.
const OF_FOLDER: [(&str, &str); 3] = [
    (".mcp.json", "mcpServers"),
    (".cursor/mcp.json", "mcpServers"),
    (".vscode/mcp.json", "servers"),
];

/// The same of a user: Claude Desktop, Cursor, VS Code, Codex, Zed.
const OF_USER: [(&str, &str); 5] = [
    (".config/Claude/claude_desktop_config.json", "mcpServers"),
    (".cursor/mcp.json", "mcpServers"),
    (".config/Code/User/mcp.json", "servers"),
    (".codex/config.toml", "mcp_servers"),
    (".config/zed/settings.json", "context_servers"),
];

impl Candidates {
    /// Looks; nothing that is found can fail, it is only left out.
    pub(crate) fn look(folder: &Path, home: Option<&Path>) -> Self {
        let mut found = Self::default();
        let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
        for (name, key) in OF_FOLDER {
            found.file(name, &folder.join(name), key, (&folder, true));
        }
        for (name, key) in OF_USER {
            if let Some(home) = home.filter(|home| **home != *folder) {
                found.file(&format!("~/{name}"), &home.join(name), key, (home, false));
            }
        }
        found
    }

    fn file(&mut self, name: &str, path: &Path, key: &str, (folder, is_of_project): (&Path, bool)) {
        if !path.exists() {
            return;
        }
        let servers = text(path).and_then(|text| servers(&text, path, key));
        let servers = match servers {
            Ok(servers) => servers,
            Err(why) => return self.left_out.push(format!("{name}: {why}")),
        };
        for (server, told) in servers {
            if self.servers.iter().any(|known| known.name == server) {
                // Programs of one user mostly have the same.
                continue;
            }
            match candidate(&server, &told, folder) {
                Ok(Some(entry)) => self.servers.push(Candidate {
                    name: server,
                    from: name.to_owned(),
                    folder: folder.to_owned(),
                    is_of_project,
                    entry,
                }),
                Ok(None) => {}
                Err(why) => self.left_out.push(format!("{name}: `{server}` {why}")),
            }
        }
    }
}

/// A server as the configuration has it; nothing if it is this program.
fn candidate(
    name: &str,
    told: &Value,
    folder: &Path,
) -> Result<Option<Map<String, Value>>, String> {
    if !is_server_name(name) {
        return Err("has a name that tools cannot have in theirs".to_owned());
    }
    let is = |key: &str, value: bool| told.get(key) == Some(&Value::Bool(value));
    if is("disabled", true) || is("enabled", false) {
        return Err("is disabled there".to_owned());
    }
    // Zed has the program and its arguments below `command`, too.
    let inner = told.get("command").filter(|it| it.is_object());
    let text = |key: &str| told.get(key).and_then(Value::as_str);
    let program = match inner {
        Some(inner) => inner.get("path").and_then(Value::as_str),
        None => text("command"),
    };
    let within = inner.unwrap_or(told);
    let expand = |text: &str| expand(text, folder, &|name| std::env::var(name).ok());
    let mut entry = Map::new();
    if let Some(program) = program {
        let mut words = vec![expand(program)?];
        for word in within
            .get("args")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            words.push(expand(
                &plain_text(word).ok_or("has an argument that is no text")?,
            )?);
        }
        if is_this_program(&words) {
            return Ok(None);
        }
        entry.insert("command".to_owned(), json!(words));
        if let Some(cwd) = text("cwd") {
            entry.insert("cwd".to_owned(), json!(folder.join(expand(cwd)?)));
        }
    } else if let Some(url) = text("url").or_else(|| text("serverUrl")) {
        entry.insert("url".to_owned(), json!(expand(url)?));
        match text("type").or_else(|| text("transport")) {
            Some("sse") => drop(entry.insert("transport".to_owned(), json!("sse"))),
            Some("http" | "streamable-http" | "streamableHttp") | None => {}
            Some(other) => return Err(format!("has a type that is not known: `{other}`")),
        }
    } else {
        return Err("has neither `command` nor `url`".to_owned());
    }
    for (theirs, ours) in [
        ("env", "env"),
        ("headers", "headers"),
        ("http_headers", "headers"),
    ] {
        let pairs = within.get(theirs).and_then(Value::as_object);
        let mut secrets = Map::new();
        for (key, value) in pairs.into_iter().flatten() {
            let value = plain_text(value).ok_or("has a value that is no text")?;
            secrets.insert(key.clone(), json!(secret(&value, &expand)?));
        }
        secrets.retain(|_, value| value.as_str() != Some(""));
        if !secrets.is_empty() {
            entry.insert(ours.to_owned(), Value::Object(secrets));
        }
    }
    Ok(Some(entry))
}

/// Whether it is this node that another program is told of.
fn is_this_program(words: &[String]) -> bool {
    let is_frith = |word: &String| Path::new(word).file_name().is_some_and(|it| it == "frith");
    words.first().is_some_and(is_frith) && words.get(1).is_some_and(|it| it == "mcp")
}

/// What editors have names for: no secrets.
const OF_EDITORS: [&str; 4] = [
    "workspaceFolder",
    "workspaceRoot",
    "userHome",
    "pathSeparator",
];

/// A value as the configuration takes it: one that stands in the environment stays there.
fn secret(value: &str, expand: &dyn Fn(&str) -> Result<String, String>) -> Result<String, String> {
    if value.starts_with("file:") {
        // The configuration would read that file.
        return Err("has a value that begins with `file:`".to_owned());
    }
    let name = value.strip_prefix("${").and_then(|it| it.strip_suffix('}'));
    let name = name.map(|it| it.strip_prefix("env:").unwrap_or(it));
    let is_name = |it: &&str| {
        let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        !it.is_empty() && it.bytes().all(is_letter) && !OF_EDITORS.contains(it)
    };
    match name.filter(is_name) {
        Some(name) => Ok(format!("${{{name}}}")),
        None => expand(value),
    }
}

/// A text with what the names of editors, `${HOME}` and the defaults of variables that are not set stand
/// for. The value of another variable is nothing to be written down.
fn expand(
    text: &str,
    folder: &Path,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<String, String> {
    let (mut out, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once("${") {
        let (name, after) = after.split_once('}').ok_or("has a `${` without a `}`")?;
        out.push_str(before);
        let (name, default) = match name.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (name, None),
        };
        let value = match name {
            "workspaceFolder" | "workspaceRoot" => Some(folder.display().to_string()),
            "userHome" => variable("HOME"),
            "pathSeparator" | "/" => Some("/".to_owned()),
            _ if name.starts_with("input:") => {
                return Err(format!(
                    "asks for `{name}`; write it down as `${{NAME}}` instead"
                ));
            }
            _ => match name.strip_prefix("env:").unwrap_or(name) {
                "HOME" => variable("HOME"),
                name if variable(name).is_none() && default.is_some() => None,
                name => {
                    return Err(format!(
                        "has the variable {name} in a text, where it would be written down with its \
                         value; as a value of `env` or `headers`, write it as `${{{name}}}` alone"
                    ));
                }
            },
        };
        let value = value.or_else(|| default.map(str::to_owned));
        out.push_str(&value.ok_or_else(|| format!("names {name}, which is not set"))?);
        rest = after;
    }
    out.push_str(rest);
    Ok(out)
}

/// A text, number or boolean as a program gets it.
fn plain_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

fn text(path: &Path) -> Result<String, String> {
    let bytes = read(path, MAX_FILE).map_err(|error| format!("{error:#}"))?;
    if bytes.len() > MAX_FILE {
        return Err("it is larger than 1 MiB".to_owned());
    }
    String::from_utf8(bytes).map_err(|error| error.to_string())
}

/// The servers of a file, in the order of their names.
fn servers(text: &str, path: &Path, key: &str) -> Result<Map<String, Value>, String> {
    let all: Value = match path.extension() {
        Some(extension) if extension == "toml" => a2e_runtime::config::toml_as_json(text)?,
        _ => serde_json::from_str(&without_comments(text))
            .map_err(|error| format!("it is no JSON: {error}"))?,
    };
    match all.get(key) {
        Some(Value::Object(servers)) => Ok(servers.clone()),
        Some(_) => Err(format!("`{key}` is no section")),
        // It is a file for this alone.
        None if path.ends_with(".mcp.json") => Err(format!("it has no `{key}`")),
        None => Ok(Map::new()),
    }
}

/// JSON as editors write it: without comments, and commas behind the last.
fn without_comments(text: &str) -> String {
    let (mut out, mut letters) = (String::new(), text.chars().peekable());
    let mut in_text = false;
    while let Some(letter) = letters.next() {
        match (in_text, letter, letters.peek().copied()) {
            (true, '\\', _) => {
                out.push(letter);
                out.extend(letters.next());
                continue;
            }
            (_, '"', _) => in_text = !in_text,
            (false, '/', Some('/')) => {
                while letters.next_if(|it| *it != '\n').is_some() {}
                continue;
            }
            (false, '/', Some('*')) => {
                letters.next();
                while let Some(letter) = letters.next() {
                    if letter == '*' && letters.next_if_eq(&'/').is_some() {
                        break;
                    }
                }
                continue;
            }
            (false, '}' | ']', _) => {
                let kept = out.trim_end().len();
                if out.get(..kept).is_some_and(|it| it.ends_with(',')) {
                    out.truncate(kept - 1);
                }
            }
            _ => {}
        }
        out.push(letter);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the environment has is written down by its name alone, and no file is read for another.
    #[test]
    fn no_value_of_the_environment_is_written_down() {
        let variable = |name: &str| (name == "KEY" || name == "HOME").then(|| "/v".to_owned());
        let expand = |text: &str| expand(text, Path::new("/p"), &variable);
        assert_eq!(expand("${workspaceFolder}/${HOME}"), Ok("/p//v".to_owned()));
        assert_eq!(expand("${NONE:-d}"), Ok("d".to_owned()));
        for text in ["x${KEY}", "${env:KEY}", "${KEY:-d}", "${NONE}"] {
            let why = expand(text).unwrap_err();
            assert!(why.contains("}` alone"), "{why}");
        }
        assert_eq!(secret("${env:KEY}", &expand), Ok("${KEY}".to_owned()));
        assert_eq!(secret("${workspaceFolder}", &expand), Ok("/p".to_owned()));
        let why = secret("Bearer ${KEY}", &expand).unwrap_err();
        assert!(why.contains("write it as `${KEY}` alone"), "{why}");
        assert!(secret("file:/etc/passwd", &expand).is_err());
    }

    #[test]
    fn the_files_of_other_programs_are_read() {
        let root = tempfile::tempdir().unwrap();
        let (home, folder) = (root.path().join("home"), root.path().join("project"));
        let write = |path: PathBuf, text: &str| {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write(
            folder.join(".mcp.json"),
            r#"{"mcpServers": {"a": {"command": "npx", "args": ["-y", 1, "${X_NOT_SET:-d}"], "env": {"K": "${K}", "N": ""}},
                "own": {"command": "/opt/frith", "args": ["mcp"]}, "off": {"command": "x", "disabled": true}, "odd": {}}}"#,
        );
        write(
            folder.join(".vscode/mcp.json"),
            "{// mine\n\"servers\": {\"b\": {\"type\": \"http\", \"url\": \"https://x/\\\"//\", /* y */ \"headers\": {\"A\": \"b\"},},\n\
             \"c\": {\"command\": \"${workspaceFolder}/c\", \"cwd\": \"sub\"}, \"d\": {\"command\": \"x\", \"env\": {\"K\": \"${input:k}\"}}}}",
        );
        write(
            home.join(".codex/config.toml"),
            "[mcp_servers.a]\ncommand = \"other\"\n[mcp_servers.e]\ncommand = \"e\"\nargs = [\"x\"]\n",
        );
        write(
            home.join(".config/zed/settings.json"),
            r#"{"context_servers": {"f": {"command": {"path": "f", "args": ["y"], "env": {"Z": "1"}}}}}"#,
        );
        write(home.join(".cursor/mcp.json"), "{");
        let found = Candidates::look(&folder, Some(&home));
        let all: Vec<_> = found
            .servers
            .iter()
            .map(|it| (it.name.as_str(), it.from.as_str(), json!(it.entry)))
            .collect();
        let c = folder.join("c");
        let expected = [
            (
                "a",
                ".mcp.json",
                json!({"command": ["npx", "-y", "1", "d"], "env": {"K": "${K}"}}),
            ),
            (
                "b",
                ".vscode/mcp.json",
                json!({"url": "https://x/\"//", "headers": {"A": "b"}}),
            ),
            (
                "c",
                ".vscode/mcp.json",
                json!({"command": [c], "cwd": folder.join("sub")}),
            ),
            ("e", "~/.codex/config.toml", json!({"command": ["e", "x"]})),
            (
                "f",
                "~/.config/zed/settings.json",
                json!({"command": ["f", "y"], "env": {"Z": "1"}}),
            ),
        ];
        assert_eq!(all, expected);
        let left = found.left_out.join("\n");
        for part in [
            ".mcp.json: `off` is disabled there",
            ".mcp.json: `odd` has neither `command` nor `url`",
            ".vscode/mcp.json: `d` asks for `input:k`",
            "~/.cursor/mcp.json: it is no JSON",
        ] {
            assert!(left.contains(part), "{part} in {left}");
        }
        assert_eq!(found.left_out.len(), 4, "{left}");
    }
}

//! Servers of the Model Context Protocol: keys of a plugin of the type `mcp`.

mod oauth;

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use super::read::{Field, Section};
use super::sections::{DAY, MIB, Reader, set, set_some};
use super::{Network, Surroundings};
use crate::secret::Secret;

pub use oauth::{McpGrant, McpOAuth};

/// MCP servers that agents use through this host.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Mcp {
    /// The servers.
    pub servers: Vec<McpServer>,
    /// The files that servers were read from.
    pub imported: Vec<PathBuf>,
    /// What stands in those files and is not used.
    pub left_out: Vec<LeftOut>,
    /// Hosts that servers may be at although their addresses are not public.
    pub private_hosts: Vec<String>,
}

/// A server of a `.mcp.json` that is not used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    /// What it is called there.
    pub name: String,
    /// Which file that is, and why not.
    pub why: String,
}

/// How an MCP server is reached, and what of it is let through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpServer {
    /// Its name, which its tools have before theirs.
    pub name: String,
    /// The name that it is listed with, if that is another one.
    pub title: Option<String>,
    /// Where it is.
    pub place: McpPlace,
    /// How long a request may take without progress.
    pub timeout: Duration,
    /// Whether it is connected to again when it goes.
    pub auto_reconnect: bool,
    /// The tools that are let through, by their own names; all if there are none here.
    pub tools: Vec<String>,
    /// The resources that are, by name or address.
    pub resources: Vec<String>,
    /// The folders that it is told to work in, if not all that it can reach.
    pub roots: Option<Vec<PathBuf>>,
}

/// Where an MCP server is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum McpPlace {
    /// A program that is started for this, in the sandbox.
    Command(McpCommand),
    /// Streamable HTTP.
    Http(McpUrl),
    /// The older way over HTTP, with server-sent events.
    Sse(McpUrl),
}

/// A program that is an MCP server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpCommand {
    /// The program and its arguments.
    pub words: Vec<String>,
    /// The folder it starts in; the workspace unless given.
    pub cwd: Option<PathBuf>,
    /// The folder of the file that names it, in which it starts instead if the sandbox shows it that.
    pub beside: Option<PathBuf>,
    /// Its variables.
    pub env: Vec<(String, Secret)>,
    /// What it can reach.
    pub network: Network,
    /// What it may read beside what all programs may.
    pub readable: Vec<PathBuf>,
    /// What it may change beside that.
    pub writable: Vec<PathBuf>,
    /// Bytes of memory it may have, if not what all programs may.
    pub memory: Option<u64>,
}

/// An MCP server that runs somewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpUrl {
    /// Where.
    pub url: String,
    /// Headers of each request.
    pub headers: Vec<(String, Secret)>,
    /// What is said where it wants a login.
    pub oauth: McpOAuth,
}

/// How long a request may take, unless told otherwise.
const TIMEOUT: Duration = Duration::from_secs(300);

/// Nobody writes more by hand.
const MAX_IMPORT: u64 = 1024 * 1024;

impl McpServer {
    /// A server of which all is let through.
    #[must_use]
    pub const fn new(name: String, place: McpPlace) -> Self {
        Self {
            name,
            title: None,
            place,
            timeout: TIMEOUT,
            auto_reconnect: true,
            tools: Vec::new(),
            resources: Vec::new(),
            roots: None,
        }
    }
}

impl McpUrl {
    /// A server that is told nothing of whoever asks.
    #[must_use]
    pub fn new(url: String) -> Self {
        Self {
            url,
            headers: Vec::new(),
            oauth: McpOAuth::default(),
        }
    }
}

impl McpCommand {
    /// A program with no rights but those that all programs have.
    #[must_use]
    pub const fn new(words: Vec<String>) -> Self {
        Self {
            words,
            cwd: None,
            beside: None,
            env: Vec::new(),
            network: Network::None,
            readable: Vec::new(),
            writable: Vec::new(),
            memory: None,
        }
    }
}

impl Mcp {
    /// Adds the servers of a file. Each name has one server: an entry under `servers` (`own`)
    /// overrides an imported one, and of several files the first counts.
    fn add_imported(
        &mut self,
        file: &Path,
        own: &[String],
        (servers, mut left_out): (Vec<McpServer>, Vec<LeftOut>),
    ) {
        let file = file.display();
        left_out.retain(|one| !own.contains(&one.name));
        self.left_out.append(&mut left_out);
        for server in servers {
            let name = &server.name;
            let why = if own.contains(name) {
                format!("{file}: `{name}` is overridden by the entry of this name under `servers`")
            } else if self.servers.iter().any(|known| known.name == *name) {
                format!(
                    "{file}: `{name}` is overridden by the server of this name in an earlier file"
                )
            } else {
                self.servers.push(server);
                continue;
            };
            let name = server.name;
            self.left_out.push(LeftOut { name, why });
        }
    }
}

impl Reader<'_> {
    pub(super) fn mcp(&self, section: &mut Section<'_>) -> Mcp {
        let mut mcp = Mcp::default();
        set(&mut mcp.servers, section.field("servers"), |it| {
            let servers = it.entries()?;
            Some(
                servers
                    .filter_map(|(name, it)| self.mcp_server(name, &it))
                    .collect(),
            )
        });
        if let Some(field) = section.field("import") {
            let own: Vec<String> = mcp.servers.iter().map(|it| it.name.clone()).collect();
            let files = match field.is_text() {
                true => self.path(&field).map(|path| vec![path]),
                false => field
                    .list()
                    .map(|list| list.filter_map(|it| self.path(&it)).collect()),
            };
            for file in files.into_iter().flatten() {
                match import(&file, self.surroundings) {
                    Ok(imported) => mcp.add_imported(&file, &own, imported),
                    Err(text) => drop(field.wrong::<()>(&text)),
                }
                mcp.imported.push(file);
            }
        }
        set(
            &mut mcp.private_hosts,
            section.field("private_hosts"),
            |it| it.words(),
        );
        mcp
    }

    fn mcp_server(&self, name: &str, field: &Field<'_>) -> Option<McpServer> {
        if !is_name(name) {
            return field.wrong(NAME);
        }
        let mut section = field.section()?;
        let (command, url) = (section.field("command"), section.field("url"));
        let place = match (command, url) {
            (Some(command), None) => {
                let words = match command.is_text() {
                    true => vec![command.word()?],
                    false => command.words()?,
                };
                McpPlace::Command(self.mcp_command(words, &mut section)?)
            }
            (None, Some(url)) => {
                let mut at = McpUrl::new(url.word()?);
                set(&mut at.headers, section.field("headers"), |it| {
                    self.secrets(it)
                });
                set(&mut at.oauth, section.field("oauth"), |it| {
                    self.mcp_oauth(it)
                });
                let mut is_sse = false;
                set(&mut is_sse, section.field("transport"), |it| {
                    it.choice(&[("http", false), ("sse", true)])
                });
                match is_sse {
                    true => McpPlace::Sse(at),
                    false => McpPlace::Http(at),
                }
            }
            _ => return field.wrong("needs either `command` or `url`"),
        };
        let mut server = McpServer::new(name.to_owned(), place);
        set(
            &mut server.timeout,
            section.field("timeout_seconds"),
            |it| it.seconds(1..=DAY),
        );
        set(
            &mut server.auto_reconnect,
            section.field("auto_reconnect"),
            |it| it.boolean(),
        );
        set(&mut server.tools, section.field("tools"), |it| it.words());
        set(&mut server.resources, section.field("resources"), |it| {
            it.words()
        });
        set_some(&mut server.roots, section.field("roots"), |it| {
            Some(it.list()?.filter_map(|it| self.path(&it)).collect())
        });
        section.finish();
        Some(server)
    }

    fn mcp_command(&self, mut words: Vec<String>, section: &mut Section<'_>) -> Option<McpCommand> {
        if let Some(more) = section.field("args") {
            words.extend(more.words()?);
        }
        let mut command = McpCommand::new(words);
        set_some(&mut command.cwd, section.field("cwd"), |it| self.path(it));
        set(&mut command.env, section.field("env"), |it| {
            self.secrets(it)
        });
        set(&mut command.network, section.field("network"), |it| {
            it.choice(&[
                ("none", Network::None),
                ("loopback", Network::Loopback),
                ("all", Network::All),
            ])
        });
        for (name, slot) in [
            ("readable", &mut command.readable),
            ("writable", &mut command.writable),
        ] {
            set(slot, section.field(name), |it| {
                Some(it.list()?.filter_map(|it| self.path(&it)).collect())
            });
        }
        set_some(&mut command.memory, section.field("memory"), |it| {
            u64::try_from(it.integer(16 * MIB..=i64::MAX)?).ok()
        });
        Some(command)
    }

    pub(super) fn secrets(&self, field: &Field<'_>) -> Option<Vec<(String, Secret)>> {
        let entries = field.entries()?;
        let secrets = entries.filter_map(|(name, it)| Some((name.to_owned(), self.secret(&it)?)));
        Some(secrets.collect())
    }
}

const NAME: &str = "must have a name of 1 to 64 letters, digits, `-`, `.` and single `_`, not of signs alone: its tools have it in theirs";

/// Whether tools can have it before their names, and it can be told from them.
#[must_use]
pub fn is_name(name: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let is_word = name.bytes().any(|byte| byte.is_ascii_alphanumeric());
    is_word && name.len() <= 64 && name.bytes().all(is_letter) && !name.contains("__")
}

/// Reads the servers of a `.mcp.json`, as other programs write it. One that cannot be used hurts no
/// other: the file is not the operator's alone.
fn import(
    file: &Path,
    surroundings: &Surroundings<'_>,
) -> Result<(Vec<McpServer>, Vec<LeftOut>), String> {
    let shown = file.display();
    let cannot =
        |error: &dyn std::fmt::Display| format!("names {shown}, which cannot be read: {error}");
    let size = std::fs::metadata(file)
        .map_err(|error| cannot(&error))?
        .len();
    if size > MAX_IMPORT {
        return Err(cannot(&format!("it has more than {MAX_IMPORT} bytes")));
    }
    let text = std::fs::read_to_string(file).map_err(|error| cannot(&error))?;
    let json: Value = serde_json::from_str(&text).map_err(|error| cannot(&error))?;
    let servers = json.get("mcpServers").or_else(|| json.get("servers"));
    let servers = servers.and_then(Value::as_object);
    let servers = servers.ok_or_else(|| cannot(&"it has no `mcpServers`"))?;
    let file_path = std::path::absolute(file).map_err(|error| cannot(&error))?;
    let folder = file_path.parent().unwrap_or(&file_path).to_owned();
    let (mut good, mut left_out) = (Vec::new(), Vec::new());
    for (name, entry) in servers {
        let server = match is_name(name) {
            true if entry.get("disabled") == Some(&Value::Bool(true)) => {
                Err("is disabled there".to_owned())
            }
            true => imported(name, entry, &folder, surroundings),
            false => Err(NAME.to_owned()),
        };
        match server {
            Ok(server) => good.push(server),
            Err(text) => left_out.push(LeftOut {
                name: name.clone(),
                why: format!("{shown}: `{name}` {text}"),
            }),
        }
    }
    Ok((good, left_out))
}

fn imported(
    name: &str,
    entry: &Value,
    folder: &Path,
    surroundings: &Surroundings<'_>,
) -> Result<McpServer, String> {
    let text = |name: &str| entry.get(name).and_then(Value::as_str);
    let expand = |text: &str| expand(text, surroundings);
    let pairs = |name: &str| -> Result<Vec<(String, Secret)>, String> {
        let members = entry.get(name).and_then(Value::as_object);
        let pair = |(name, value): (&String, &Value)| {
            let value = plain_text(value).ok_or("has a value that is no text")?;
            Ok((name.clone(), Secret::new(expand(&value)?)))
        };
        members.into_iter().flatten().map(pair).collect()
    };
    let place = if let Some(program) = text("command") {
        let mut words = vec![expand(program)?];
        let args = entry.get("args").and_then(Value::as_array);
        for argument in args.into_iter().flatten() {
            let argument = plain_text(argument).ok_or("has an argument that is no text")?;
            words.push(expand(&argument)?);
        }
        let mut command = McpCommand::new(words);
        command.env = pairs("env")?;
        let cwd = text("cwd").map(expand).transpose()?;
        command.cwd = cwd.map(|cwd| folder.join(cwd));
        command.beside = Some(folder.to_owned());
        McpPlace::Command(command)
    } else if let Some(url) = text("url") {
        let at = McpUrl {
            headers: pairs("headers")?,
            ..McpUrl::new(expand(url)?)
        };
        match text("type").or_else(|| text("transport")) {
            Some("sse") => McpPlace::Sse(at),
            Some("http" | "streamable-http" | "streamableHttp") | None => McpPlace::Http(at),
            Some(other) => return Err(format!("has a type that is not known: `{other}`")),
        }
    } else {
        return Err("has neither `command` nor `url`".to_owned());
    };
    Ok(McpServer::new(name.to_owned(), place))
}

/// A text, number or boolean as a program gets it.
fn plain_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// A text with `${NAME}` and `${NAME:-else}` in it, filled in.
fn expand(text: &str, surroundings: &Surroundings<'_>) -> Result<String, String> {
    let (mut filled, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once("${") {
        filled.push_str(before);
        let (name, behind) = after.split_once('}').ok_or("has a `${` without its `}`")?;
        let (name, other) = match name.split_once(":-") {
            Some((name, other)) => (name, Some(other.to_owned())),
            None => (name, None),
        };
        let value = (surroundings.variable)(name).or(other);
        let unset = || format!("names the environment variable {name}, which is not set");
        filled.push_str(&value.ok_or_else(unset)?);
        rest = behind;
    }
    filled.push_str(rest);
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn surroundings<'a>(variable: &'a dyn Fn(&str) -> Option<String>) -> Surroundings<'a> {
        Surroundings {
            folder: Path::new("/"),
            variable,
        }
    }

    #[test]
    fn servers_of_other_programs_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(".mcp.json");
        let text = r#"{"mcpServers": {
            "git": {"command": "uvx", "args": ["mcp-server-git", "--repo=${DIR:-.}"], "env": {"KEY": "${KEY}"}},
            "docs": {"type": "http", "url": "https://docs.example/mcp", "headers": {"Authorization": "Bearer ${KEY}"}},
            "old": {"type": "sse", "url": "https://old.example/sse"}
        }}"#;
        std::fs::write(&file, text).unwrap();
        let variable = |name: &str| (name == "KEY").then(|| "k".to_owned());
        let (servers, left_out) = import(&file, &surroundings(&variable)).unwrap();
        assert!(left_out.is_empty(), "{left_out:?}");
        let of = |name: &str| servers.iter().find(|server| server.name == name).unwrap();
        let McpPlace::Command(git) = &of("git").place else {
            panic!("{servers:?}")
        };
        assert_eq!(git.words, ["uvx", "mcp-server-git", "--repo=."]);
        assert_eq!(git.env, [("KEY".to_owned(), Secret::new("k"))]);
        assert_eq!(git.beside.as_deref(), Some(folder.path()));
        let McpPlace::Http(docs) = &of("docs").place else {
            panic!("{servers:?}")
        };
        assert_eq!(docs.headers[0].1.reveal(), "Bearer k");
        assert!(matches!(&of("old").place, McpPlace::Sse(at) if at.url.ends_with("/sse")));
    }

    #[test]
    fn configured_server_overrides_imported_ones_and_the_first_file_counts() {
        let url = |text: &str| McpPlace::Http(McpUrl::new(text.to_owned()));
        let server = |name: &str, text: &str| McpServer::new(name.to_owned(), url(text));
        let mut mcp = Mcp {
            servers: vec![server("a", "own")],
            ..Mcp::default()
        };
        let own = ["a".to_owned()];
        let broken = LeftOut {
            name: "a".to_owned(),
            why: "broken".to_owned(),
        };
        let first = vec![server("b", "first")];
        mcp.add_imported(Path::new("one"), &own, (first, vec![broken]));
        let second = vec![server("a", "second"), server("b", "second")];
        mcp.add_imported(Path::new("two"), &own, (second, Vec::new()));
        assert_eq!(mcp.servers, [server("a", "own"), server("b", "first")]);
        let told: Vec<&str> = mcp.left_out.iter().map(|it| it.why.as_str()).collect();
        assert_eq!(
            told,
            [
                "two: `a` is overridden by the entry of this name under `servers`",
                "two: `b` is overridden by the server of this name in an earlier file",
            ]
        );
    }

    #[test]
    fn members_of_imported_servers_mean_what_other_programs_take_them_for() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(".mcp.json");
        let text = r#"{"mcpServers": {
            "off": {"command": "x", "disabled": true},
            "on": {"command": "x", "disabled": false, "args": ["--port", 8080, "--fast", true],
                "env": {"PORT": 8080, "FAST": true}, "cwd": "${DIR}/src"},
            "rooted": {"command": "x", "cwd": "/srv"},
            "wrong": {"command": "x", "args": [["--port"]]}
        }}"#;
        std::fs::write(&file, text).unwrap();
        let variable = |name: &str| (name == "DIR").then(|| "app".to_owned());
        let (servers, left_out) = import(&file, &surroundings(&variable)).unwrap();
        let command = |name: &str| {
            let server = servers.iter().find(|server| server.name == name).unwrap();
            match &server.place {
                McpPlace::Command(command) => command,
                other @ (McpPlace::Http(_) | McpPlace::Sse(_)) => panic!("{other:?}"),
            }
        };
        let on = command("on");
        assert_eq!(on.words, ["x", "--port", "8080", "--fast", "true"]);
        assert_eq!(on.env[1], ("PORT".to_owned(), Secret::new("8080")));
        assert_eq!(on.cwd, Some(folder.path().join("app/src")));
        assert_eq!(command("rooted").cwd.as_deref(), Some(Path::new("/srv")));
        let why: Vec<&str> = left_out.iter().map(|it| &*it.why).collect();
        assert_eq!((servers.len(), why.len()), (2, 2), "{why:?}");
        assert!(why[0].ends_with("`off` is disabled there"), "{why:?}");
        assert!(why[1].contains("an argument that is no text"), "{why:?}");
    }

    #[test]
    fn what_is_wrong_with_an_import_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let nothing = |_: &str| None;
        for (text, wrong) in [
            ("{", "cannot be read"),
            ("{}", "mcpServers"),
            (r#"{"mcpServers": {"a__b": {"command": "x"}}}"#, "name"),
            (r#"{"mcpServers": {"a": {}}}"#, "neither"),
            (
                r#"{"mcpServers": {"a": {"url": "u", "type": "ws"}}}"#,
                "not known",
            ),
            (
                r#"{"mcpServers": {"a": {"command": "${X}"}}}"#,
                "X, which is not set",
            ),
            (r#"{"mcpServers": {"a": {"command": "${X"}}}"#, "without"),
        ] {
            let file = folder.path().join("mcp.json");
            std::fs::write(&file, text).unwrap();
            let said = match import(&file, &surroundings(&nothing)) {
                Ok((_, left_out)) => left_out.into_iter().map(|it| it.why).collect(),
                Err(said) => said,
            };
            assert!(said.contains(wrong), "{text}: {said}");
        }
        let file = folder.path().join("mcp.json");
        std::fs::write(&file, r#"{"mcpServers": {"a": {}, "b": {"command": "x"}}}"#).unwrap();
        let (good, left_out) = import(&file, &surroundings(&nothing)).unwrap();
        assert_eq!((good.len(), left_out.len()), (1, 1));
        let long = "x".repeat(64);
        assert!(is_name(&long) && !is_name(&format!("{long}x")) && !is_name(""));
    }
}

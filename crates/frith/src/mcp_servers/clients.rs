//! `frith mcp config`: what other programs need to use this node as an MCP server.

use std::fs;
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use a2e_runtime::DataDir;
use anyhow::{Context, Result, bail};
use base::Durability;
use serde_json::{Map, Value, json};

use crate::Outcome;
use crate::agent::{print, print_json};
use crate::diff::{Line, diff};
use crate::screen::{plain, shown};

/// A program that uses MCP servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Client {
    /// Claude Code, in this folder (`.mcp.json`)
    Claude,
    /// Cursor, in this folder (`.cursor/mcp.json`)
    Cursor,
    /// VS Code, in this folder (`.vscode/mcp.json`)
    Vscode,
    /// Codex, for this user (`~/.codex/config.toml`)
    Codex,
    /// Zed, for this user (`~/.config/zed/settings.json`)
    Zed,
}

/// What the node is called there.
const NAME: &str = "frith";

impl Client {
    fn file(self) -> Result<PathBuf> {
        let of_user = |path: &str| {
            let home = std::env::var_os("HOME").context("HOME is not set")?;
            Ok(Path::new(&home).join(path))
        };
        Ok(match self {
            Self::Claude => ".mcp.json".into(),
            Self::Cursor => ".cursor/mcp.json".into(),
            Self::Vscode => ".vscode/mcp.json".into(),
            Self::Codex => return of_user(".codex/config.toml"),
            Self::Zed => return of_user(".config/zed/settings.json"),
        })
    }

    /// The key in its file that has all servers.
    const fn key(self) -> &'static str {
        match self {
            Self::Claude | Self::Cursor => "mcpServers",
            Self::Vscode => "servers",
            Self::Codex => "mcp_servers",
            Self::Zed => "context_servers",
        }
    }

    /// What belongs into its file, alone.
    fn snippet(self, words: &[String]) -> Result<String> {
        let (program, arguments) = words.split_first().context("no program")?;
        let mut entry = json!({"command": program, "args": arguments});
        if self == Self::Vscode {
            entry["type"] = json!("stdio");
        }
        Ok(match self {
            // JSON texts and lists of them are TOML.
            Self::Codex => format!(
                "[{}.{NAME}]\ncommand = {}\nargs = {}\n",
                self.key(),
                entry["command"],
                entry["args"]
            ),
            Self::Claude | Self::Cursor | Self::Vscode | Self::Zed => {
                let all = json!({self.key(): {NAME: entry}});
                format!("{}\n", serde_json::to_string_pretty(&all)?)
            }
        })
    }

    /// The file with it.
    fn with_snippet(self, before: &str, snippet: &str, file: &Path) -> Result<String> {
        if before.trim().is_empty() {
            return Ok(snippet.to_owned());
        }
        let by_hand = || {
            format!(
                "{} is not changed: write into it by hand what `frith mcp config` prints",
                shown(file)
            )
        };
        if self == Self::Codex {
            if before.contains(&format!("[{}.{NAME}]", self.key())) {
                bail!("{}; it has a server `{NAME}` already", by_hand());
            }
            let gap = if before.ends_with('\n') { "\n" } else { "\n\n" };
            return Ok(format!("{before}{gap}{snippet}"));
        }
        // A file with comments would lose them.
        let mut all: Map<String, Value> = serde_json::from_str(before).with_context(by_hand)?;
        let own: Value = serde_json::from_str(snippet)?;
        let servers = all.entry(self.key()).or_insert_with(|| json!({}));
        let servers = servers.as_object_mut().with_context(by_hand)?;
        servers.insert(NAME.to_owned(), own[self.key()][NAME].clone());
        Ok(format!("{}\n", serde_json::to_string_pretty(&all)?))
    }
}

/// What starts this program as an MCP server of the node with this data directory.
fn words(dir: &DataDir) -> Result<Vec<String>> {
    let program = std::env::current_exe().context("cannot find this program")?;
    let data = std::path::absolute(dir.path())?;
    let mut words = vec![program.display().to_string(), "mcp".to_owned()];
    if DataDir::of_user().is_ok_and(|usual| usual.path() != data) {
        words.extend(["--data".to_owned(), data.display().to_string()]);
    }
    Ok(words)
}

pub(crate) fn config(client: Client, write: bool, dir: &DataDir, as_json: bool) -> Result<Outcome> {
    let (file, snippet) = (client.file()?, client.snippet(&words(dir)?)?);
    if as_json && !write {
        print_json(&json!({"file": file, "snippet": snippet}))?;
        return Ok(Outcome::Good);
    }
    if !write {
        tell!("# {}", shown(&file));
        print(&snippet.trim_end())?;
        return Ok(Outcome::Good);
    }
    let before = match fs::read_to_string(&file) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
        Err(error) => {
            return Err(error).with_context(|| format!("cannot read {}", shown(&file)));
        }
    };
    let now = client.with_snippet(&before, &snippet, &file)?;
    replace(&file, &now).with_context(|| format!("cannot write {}", shown(&file)))?;
    if as_json {
        print_json(&json!({"file": file, "snippet": snippet}))?;
        return Ok(Outcome::Good);
    }
    for line in diff(&before, &now) {
        print(&match line {
            Line::Same(text) => format!("  {}", plain(text)),
            Line::Removed(text) => format!("- {}", plain(text)),
            Line::Added(text) => format!("+ {}", plain(text)),
        })?;
    }
    print(&format!("wrote {}", shown(&file)))?;
    Ok(Outcome::Good)
}

/// Puts a text in the place of a file, whole or not at all; links stay.
pub(super) fn replace(file: &Path, text: &str) -> std::io::Result<()> {
    let file = file.canonicalize().unwrap_or_else(|_| file.to_owned());
    let folder = match file.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    fs::create_dir_all(folder)?;
    let old = fs::metadata(&file).map(|old| old.permissions().mode() & 0o777);
    let mode = old.unwrap_or(base::PRIVATE);
    base::replace_file(&file, mode, Durability::Durable, |to| {
        to.write_all(text.as_bytes())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words() -> Vec<String> {
        ["/opt/frith", "mcp"].map(str::to_owned).to_vec()
    }

    #[test]
    fn what_else_is_in_a_file_stays() {
        let file = Path::new("f");
        for (client, before) in [
            (
                Client::Claude,
                r#"{"mcpServers": {"a": {"command": "x"}}, "b": 1}"#,
            ),
            (Client::Cursor, "{}"),
            (Client::Vscode, r#"{"servers": {}, "inputs": []}"#),
            (
                Client::Zed,
                r#"{"theme": "One", "context_servers": {"frith": {}}}"#,
            ),
        ] {
            let snippet = client.snippet(&words()).unwrap();
            let now = client.with_snippet(before, &snippet, file).unwrap();
            let mut now: Value = serde_json::from_str(&now).unwrap();
            let servers = now[client.key()].as_object_mut().unwrap();
            let own = servers.remove(NAME).unwrap();
            assert_eq!(own["command"], "/opt/frith");
            assert_eq!(own["args"], json!(["mcp"]));
            let mut before: Value = serde_json::from_str(before).unwrap();
            let all = before.as_object_mut().unwrap();
            let known = all.entry(client.key()).or_insert_with(|| json!({}));
            known.as_object_mut().unwrap().remove(NAME);
            assert_eq!(now, before);
        }
        let snippet = Client::Codex.snippet(&words()).unwrap();
        assert_eq!(
            snippet,
            "[mcp_servers.frith]\ncommand = \"/opt/frith\"\nargs = [\"mcp\"]\n"
        );
        let now = Client::Codex.with_snippet("# mine\nx = 1\n", &snippet, file);
        assert_eq!(now.unwrap(), format!("# mine\nx = 1\n\n{snippet}"));
    }

    #[test]
    fn a_file_with_comments_is_left_alone() {
        let snippet = Client::Zed.snippet(&words()).unwrap();
        let with_comment = Client::Zed.with_snippet("// mine\n{}", &snippet, Path::new("f"));
        assert!(with_comment.unwrap_err().to_string().contains("by hand"));
        let snippet = Client::Codex.snippet(&words()).unwrap();
        let twice = Client::Codex.with_snippet(&snippet, &snippet, Path::new("f"));
        assert!(twice.unwrap_err().to_string().contains("already"));
    }
}

//! What a folder has that a node could use.

use std::path::Path;

use a2e_runtime::config::Imported;
use anyhow::bail;
use serde_json::{Map, Value, json};

use crate::keystore::read;

/// What was found.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Keys for the configuration.
    pub(super) kept: Map<String, Value>,
    /// What of it is in the configuration.
    pub(super) imported: Vec<String>,
    /// What is not, and why.
    pub(super) left_out: Vec<String>,
}

/// Nobody writes more by hand.
const MAX_FILE: usize = 1024 * 1024;

/// Of more entries of a folder nobody is told.
const MAX_ENTRIES: usize = 1000;

/// The plugins of a node that is told of none. A configuration that names one names all it wants.
const BUILT_IN: [&str; 11] = [
    "tools",
    "toolkits",
    "memory",
    "planning",
    "learning",
    "chains",
    "skills",
    "multi_agent",
    "env",
    "proc",
    "demo",
];

/// Where skills lie.
const SKILLS: [&str; 3] = ["skills", ".claude/skills", ".agents/skills"];

impl Found {
    /// Looks; nothing that is found there can fail, it is only left out.
    pub(super) fn look(folder: &Path) -> Self {
        let mut found = Self::default();
        found.a2e(folder);
        found.mcp(folder);
        for place in SKILLS {
            found.skills(folder, place);
        }
        found
    }

    /// The configuration of another A2E host.
    fn a2e(&mut self, folder: &Path) {
        const NAME: &str = "config.yaml";
        let Some(text) = self.text(folder, NAME) else {
            return;
        };
        let imported = match Imported::from_python(&text, folder) {
            Ok(imported) => imported,
            Err(problem) => return self.left_out.push(format!("{NAME}: {}", problem.text)),
        };
        // Many programs have a file of that name.
        let is_one = ["host_id", "plugins"]
            .iter()
            .any(|key| imported.kept.contains_key(*key));
        if !is_one {
            let text = format!("{NAME}: it is no configuration of an A2E host");
            return self.left_out.push(text);
        }
        if let Err(problems) = imported.check(folder) {
            let told = problems
                .iter()
                .map(|problem| format!("{NAME}: {}", problem.text));
            return self.left_out.extend(told);
        }
        self.left_out
            .extend(imported.left_out.iter().map(|problem| match problem.at {
                Some(at) => format!("{NAME}:{}:{}: {}", at.line, at.column, problem.text),
                None => format!("{NAME}: {}", problem.text),
            }));
        let keys: Vec<&str> = imported.kept.keys().map(String::as_str).collect();
        self.imported.push(format!("{NAME}: {}", keys.join(", ")));
        self.kept = imported.kept;
    }

    /// Servers of the Model Context Protocol, which stay in the file they are in.
    fn mcp(&mut self, folder: &Path) {
        const NAME: &str = ".mcp.json";
        let Some(text) = self.text(folder, NAME) else {
            return;
        };
        let names: Vec<String> = match serde_json::from_str::<Value>(&text) {
            Ok(value) => match value["mcpServers"].as_object() {
                Some(servers) => servers.keys().cloned().collect(),
                None => {
                    return self
                        .left_out
                        .push(format!("{NAME}: it has no `mcpServers`"));
                }
            },
            Err(error) => {
                let text = format!("{NAME}: it is no JSON: {error}");
                return self.left_out.push(text);
            }
        };
        let mut kept = self.kept.clone();
        let plugins = kept.entry("plugins").or_insert_with(built_in);
        if let Some(plugins) = plugins.as_array_mut() {
            plugins.push(json!({"name": "mcp", "type": "mcp", "import": NAME}));
        }
        let with_servers = Imported {
            kept,
            left_out: Vec::new(),
        };
        if let Err(problems) = with_servers.check(folder) {
            let told = problems
                .iter()
                .map(|problem| format!("{NAME}: {}", problem.text));
            return self.left_out.extend(told);
        }
        self.kept = with_servers.kept;
        self.imported.push(format!(
            "{NAME}: {} (in the sandbox, without a network; docs/mcp.md says how to give them one)",
            names.join(", ")
        ));
    }

    /// Folders with a `SKILL.md`.
    fn skills(&mut self, folder: &Path, place: &str) {
        let Ok(entries) = std::fs::read_dir(folder.join(place)) else {
            return;
        };
        let skills = entries.take(MAX_ENTRIES).flatten();
        let skills = skills.filter(|entry| entry.path().join("SKILL.md").is_file());
        let mut names: Vec<String> = skills
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect();
        names.sort_unstable();
        let told = names.iter().map(|name| {
            format!("{place}/{name}: served if `folders: [{place}]` is in a plugin of `type: skills` (docs/skills.md)")
        });
        self.left_out.extend(told);
    }

    /// A file that need not be there.
    fn text(&mut self, folder: &Path, name: &str) -> Option<String> {
        let path = folder.join(name);
        if !path.exists() {
            return None;
        }
        let text = read(&path, MAX_FILE).and_then(|bytes| match bytes.len() > MAX_FILE {
            true => bail!("it is larger than 1 MiB"),
            false => Ok(String::from_utf8(bytes)?),
        });
        match text {
            Ok(text) => Some(text),
            Err(error) => {
                self.left_out.push(format!("{name}: {error:#}"));
                None
            }
        }
    }
}

fn built_in() -> Value {
    let plugin = |name| json!({"name": name, "type": name});
    BUILT_IN.into_iter().map(plugin).collect()
}

//! What a folder has that a node could use.

use std::path::Path;

use a2e_caps::skills::Checked;
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
        found.skills(folder);
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

    /// Folders with skills. Those that are broken hurt no other.
    fn skills(&mut self, folder: &Path) {
        let mut places = Vec::new();
        let mut told = Vec::new();
        for place in SKILLS {
            let checked = a2e_caps::skills::check(&folder.join(place));
            let (broken, good): (Vec<Checked>, Vec<Checked>) =
                checked.into_iter().partition(|it| it.problem.is_some());
            if !good.is_empty() {
                let names: Vec<&str> = good.iter().map(|it| it.name.as_str()).collect();
                told.push(format!("{place}: {}", names.join(", ")));
                places.push(place);
            }
            let problem = |it: Checked| {
                let problem = it.problem.unwrap_or_default();
                format!("{place}/{}: {problem}", it.path)
            };
            self.left_out.extend(broken.into_iter().map(problem));
        }
        let plugin = json!({"name": "skills", "type": "skills", "folders": places});
        if !places.is_empty() && self.add(folder, &places.join(", "), &plugin) {
            self.imported.append(&mut told);
        }
    }

    /// Adds a plugin, in the place of the one of its type that is there; says whether that is good.
    fn add(&mut self, folder: &Path, what: &str, plugin: &Value) -> bool {
        let mut kept = self.kept.clone();
        let plugins = kept.entry("plugins").or_insert_with(built_in);
        if let Some(plugins) = plugins.as_array_mut() {
            plugins.retain(|known| known["type"] != plugin["type"]);
            plugins.push(plugin.clone());
        }
        let with_it = Imported {
            kept,
            left_out: Vec::new(),
        };
        if let Err(problems) = with_it.check(folder) {
            let told = problems
                .iter()
                .map(|problem| format!("{what}: {}", problem.text));
            self.left_out.extend(told);
            return false;
        }
        self.kept = with_it.kept;
        true
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

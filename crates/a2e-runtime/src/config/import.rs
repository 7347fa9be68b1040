//! A configuration of the Python A2E host, as far as it has a meaning here.
//!
//! It has the same names for the same things. What the reader has no use for is taken out, mistake by
//! mistake, until it is content; each is told to the user with its place.

use std::path::Path;

use serde_json::{Map, Value};

use super::tree::{Entry, Kind, Location, Node};
use super::{Config, Overrides, Problem, Surroundings, block, sections, yaml};

/// What became of a foreign configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct Imported {
    /// What has a meaning here, under the keys of this configuration; secrets as they were written.
    pub kept: Map<String, Value>,
    /// What has none, with its place there and why.
    pub left_out: Vec<Problem>,
}

/// More mistakes than this are another kind of file.
const MOST: usize = 1000;

impl Imported {
    /// Takes what can be used from the text of a `config.yaml`.
    ///
    /// # Errors
    /// If it is no YAML, or no section.
    pub fn from_python(text: &str, folder: &Path) -> Result<Self, Problem> {
        let mut tree = yaml::parse(text)?;
        if !matches!(tree.kind, Kind::Table(_) | Kind::Null) {
            return Err(Problem {
                at: Some(tree.at),
                text: "a configuration has keys and values".to_owned(),
            });
        }
        translate(&mut tree);
        let mut left_out: Vec<Problem> = Vec::new();
        let surroundings = Surroundings {
            folder,
            // What is not set now may be set when the node starts.
            variable: &|_| Some("set".to_owned()),
        };
        while let Err(problems) = sections::config(&tree, &surroundings) {
            let before = left_out.len();
            for problem in problems {
                if problem.at.is_some_and(|at| remove(&mut tree, at)) {
                    left_out.push(problem);
                }
            }
            if left_out.len() == before || before > MOST {
                return Err(Problem {
                    at: None,
                    text: "this is no configuration of an A2E host".to_owned(),
                });
            }
        }
        left_out.sort_by_key(|problem| problem.at);
        let kept = match tree.json() {
            Some(Value::Object(kept)) => kept,
            _ => Map::new(),
        };
        let kept = kept.into_iter().filter(|(_, value)| !value.is_null());
        Ok(Self {
            kept: kept.collect(),
            left_out,
        })
    }

    /// Whether what was kept also goes together.
    ///
    /// # Errors
    /// What does not.
    pub fn check(&self, folder: &Path) -> Result<(), Vec<Problem>> {
        let text = Value::Object(self.kept.clone()).to_string();
        let surroundings = Surroundings {
            folder,
            variable: &|_| Some("set".to_owned()),
        };
        let overrides = Overrides::default();
        Config::parse(&text, super::Format::Yaml, &overrides, &surroundings).map(|_| ())
    }
}

/// What stands in another form there: `host` and `port` of the server, and the keys of a plugin under
/// `config`.
fn translate(tree: &mut Node) {
    let Kind::Table(entries) = &mut tree.kind else {
        return;
    };
    for entry in entries {
        match (entry.name.as_str(), &mut entry.value.kind) {
            ("server", Kind::Table(server)) => address(server),
            ("plugins", Kind::List(plugins)) => plugins.iter_mut().for_each(lift),
            _ => {}
        }
    }
}

fn address(server: &mut Vec<Entry>) {
    let find = |name: &str| server.iter().position(|entry| entry.name == name);
    let host = find("host").and_then(|index| server.get(index));
    let port = find("port").and_then(|index| server.get(index));
    let host = match host.map(|entry| &entry.value.kind) {
        Some(Kind::Text(host)) => host.clone(),
        _ => "127.0.0.1".to_owned(),
    };
    let Some((at, &Kind::Integer(port))) = port.map(|entry| (entry.at, &entry.value.kind)) else {
        return;
    };
    let host = match host.contains(':') {
        true => format!("[{host}]"),
        false => host,
    };
    server.retain(|entry| !matches!(entry.name.as_str(), "host" | "port"));
    server.push(Entry {
        name: "listen".to_owned(),
        at,
        value: Node {
            at,
            kind: Kind::Text(format!("{host}:{port}")),
            literal: None,
        },
    });
}

fn lift(plugin: &mut Node) {
    let Kind::Table(entries) = &mut plugin.kind else {
        return;
    };
    let Some(index) = entries.iter().position(|entry| entry.name == "config") else {
        return;
    };
    let mut config = entries.remove(index);
    let rest = match &mut config.value.kind {
        Kind::Null => return,
        Kind::Table(inner) => {
            let is_new = |entry: &Entry| !entries.iter().any(|other| other.name == entry.name);
            let (new, known): (Vec<Entry>, Vec<Entry>) =
                std::mem::take(inner).into_iter().partition(is_new);
            *inner = known;
            entries.extend(new);
            !inner.is_empty()
        }
        Kind::Bool(_)
        | Kind::Integer(_)
        | Kind::Real(_)
        | Kind::Text(_)
        | Kind::Date
        | Kind::List(_) => true,
    };
    // What cannot be lifted stays, as a key that has no meaning here.
    if rest {
        entries.push(config);
    }
}

/// Takes out what stands at a place; says whether there was something.
fn remove(node: &mut Node, at: Location) -> bool {
    match &mut node.kind {
        Kind::Table(entries) => {
            let before = entries.len();
            // The inner first: a section may begin where its first key does.
            let inside = entries.iter_mut().any(|entry| remove(&mut entry.value, at));
            if !inside {
                entries.retain(|entry| entry.at != at && entry.value.at != at);
            }
            inside || entries.len() < before
        }
        Kind::List(list) => {
            let before = list.len();
            let inside = list.iter_mut().any(|element| remove(element, at));
            if !inside {
                list.retain(|element| element.at != at);
            }
            inside || list.len() < before
        }
        Kind::Null
        | Kind::Bool(_)
        | Kind::Integer(_)
        | Kind::Real(_)
        | Kind::Text(_)
        | Kind::Date => false,
    }
}

/// What was kept, as YAML: a line for each key, and for each plugin.
impl std::fmt::Display for Imported {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        block::members(f, &self.kept, 0)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const PYTHON: &str = "\
host_id: my-env
transport: http
server:
  host: 0.0.0.0
  port: 9000
  workers: 4
auth_token: ${A2E_TOKEN}
audit: true
snapshot_store: redis
snapshot_mode: hybrid
global_limits:
  max_line: 4096
  max_tokens: 5
plugins:
  - name: memory
    type: memory
    priority: 10
    exclusive: true
    config:
      working_limit: 50
      vector_db: chroma
  - name: gym
    type: gymnasium
    enabled: true
logging: {level: DEBUG}
";

    fn import(text: &str) -> Imported {
        Imported::from_python(text, Path::new("/etc")).unwrap()
    }

    #[test]
    fn what_has_a_meaning_is_kept_and_the_rest_is_told() {
        let imported = import(PYTHON);
        assert_eq!(
            Value::Object(imported.kept.clone()),
            json!({
                "host_id": "my-env",
                "transport": "http",
                "server": {"listen": "0.0.0.0:9000"},
                "auth_token": "${A2E_TOKEN}",
                "audit": true,
                "snapshot_mode": "hybrid",
                "global_limits": {"max_line": 4096},
                "plugins": [{
                    "name": "memory", "type": "memory", "priority": 10, "exclusive": true,
                    "working_limit": 50,
                }],
            })
        );
        let left: Vec<String> = imported
            .left_out
            .iter()
            .map(|problem| {
                let line = problem.at.unwrap().line;
                format!("{line}: {}", problem.text.split(';').next().unwrap())
            })
            .collect();
        for told in [
            "6: unknown key `workers` in `server`",
            "9: `snapshot_store` must be one of memory, file",
            "13: unknown key `max_tokens` in `global_limits`",
            "21: unknown key `vector_db` in `plugins[0]`",
            "25: unknown key `logging`",
        ] {
            assert!(left.iter().any(|line| line == told), "{told} in {left:#?}");
        }
        assert!(
            left.iter().any(|line| line.contains("`plugins[1].type`")),
            "{left:#?}"
        );
        assert_eq!(imported.check(Path::new("/etc")), Ok(()));
    }

    #[test]
    fn what_cannot_be_lifted_is_told() {
        let plugins = "plugins:\n  - {name: a, type: demo, config: {name: b, priority: 3}}\n  \
                       - {name: c, type: demo, config: [x]}\n  \
                       - {name: d, type: demo, config: }\n";
        let imported = import(plugins);
        assert_eq!(
            Value::Object(imported.kept),
            json!({"plugins": [
                {"name": "a", "type": "demo", "priority": 3},
                {"name": "c", "type": "demo"},
                {"name": "d", "type": "demo"},
            ]})
        );
        let lines: Vec<u32> = imported
            .left_out
            .iter()
            .map(|problem| {
                let text = &problem.text;
                assert!(text.starts_with("unknown key `config` in"), "{text}");
                problem.at.unwrap().line
            })
            .collect();
        assert_eq!(lines, [2, 3]);
    }

    #[test]
    fn what_is_written_reads_the_same() {
        let imported = import(PYTHON);
        assert_eq!(import(&imported.to_string()).kept, imported.kept);
    }

    #[test]
    fn it_is_written_in_blocks() {
        let kept =
            json!({"a": {"b": [1, {"c": "x y", "d": []}, [true, "true"]]}, "e": {}, "f g": "h"});
        let imported = Imported {
            kept: kept.as_object().unwrap().clone(),
            left_out: Vec::new(),
        };
        let text = imported.to_string();
        let lines = [
            "a:",
            "  b:",
            "    - 1",
            "    - c: \"x y\"",
            "      d: []",
            "    -",
            "      - true",
            "      - \"true\"",
            "e: {}",
            "\"f g\": h",
        ];
        assert_eq!(text.lines().collect::<Vec<_>>(), lines);
        let read: Value = serde_saphyr::from_str(&text).unwrap();
        assert_eq!(read, kept);
    }

    #[test]
    fn other_files_are_none() {
        let none = |text: &str| Imported::from_python(text, Path::new(""));
        assert!(none("- a\n- b\n").is_err());
        assert!(none("a: [").is_err());
        assert_eq!(none("").unwrap().kept, Map::new());
        // Everything in it is foreign.
        let imported = none("services: {web: {image: x}}\n").unwrap();
        assert_eq!(imported.kept, Map::new());
        assert_eq!(imported.left_out.len(), 1);
    }
}

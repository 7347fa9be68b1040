//! What is said beside the file, in the environment and on the command line: single keys, which are
//! stronger than the file.

use std::ffi::OsString;

use super::Problem;
use super::tree::{Entry, Kind, Location, Node};
use super::yaml;

/// Variables with this in front are keys of the configuration. The names of those that the command
/// line has of its own (`FRITH_DATA`) have one underscore there.
const PREFIX: &str = "FRITH__";

/// Keys that are said beside the file; later ones are stronger.
#[derive(Clone, Default)]
pub struct Overrides(Vec<Setting>);

#[derive(Clone)]
struct Setting {
    /// Who says it, as a mistake names it.
    source: String,
    /// The key, with the sections it is in.
    path: Vec<String>,
    value: String,
}

/// Values may be secrets.
impl std::fmt::Debug for Overrides {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let sources = self.0.iter().map(|setting| &setting.source);
        f.debug_list().entries(sources).finish()
    }
}

impl Overrides {
    /// What some variables say: `FRITH__SERVER__LISTEN` is the key `server.listen`. Others are left
    /// alone.
    ///
    /// # Errors
    /// If one has no key in its name, or is not UTF-8.
    pub fn from_variables(
        variables: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Result<Self, String> {
        let mut settings = Vec::new();
        for (name, value) in variables {
            if !name.as_encoded_bytes().starts_with(PREFIX.as_bytes()) {
                continue;
            }
            // Its value may be a secret.
            let (Some(name), Some(value)) = (name.to_str(), value.to_str()) else {
                return Err(format!(
                    "the environment variable {} is not UTF-8",
                    name.display()
                ));
            };
            let key = name.strip_prefix(PREFIX).unwrap_or_default();
            let path: Vec<String> = key.split("__").map(str::to_ascii_lowercase).collect();
            if path.iter().any(String::is_empty) {
                return Err(format!(
                    "the environment variable {name} names no key; {PREFIX}SERVER__LISTEN is \
                     `server.listen`"
                ));
            }
            let source = format!("the environment variable {name}");
            settings.push(Setting {
                source,
                path,
                value: value.to_owned(),
            });
        }
        // The environment has no order; so a section goes before its keys.
        settings.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(Self(settings))
    }

    /// Adds `KEY=VALUE` of the command line, such as `server.listen=127.0.0.1:0`.
    ///
    /// # Errors
    /// If it is something else.
    pub fn set(&mut self, text: &str) -> Result<(), String> {
        let parts = text.split_once('=');
        let parts = parts.map(|(key, value)| (key.trim(), value));
        let Some((key, value)) = parts.filter(|(key, _)| !key.split('.').any(str::is_empty)) else {
            return Err("must be KEY=VALUE, such as server.listen=127.0.0.1:0".to_owned());
        };
        self.0.push(Setting {
            source: format!("--set {key}"),
            path: key.split('.').map(str::to_owned).collect(),
            value: value.to_owned(),
        });
        Ok(())
    }

    /// Puts everything in its place in a tree.
    pub(super) fn lay_over(&self, tree: &mut Node) -> Result<(), Vec<Problem>> {
        let mut problems = Vec::new();
        for (index, setting) in self.0.iter().enumerate() {
            let at = beside(index);
            let laid = value(&setting.value, at).and_then(|value| {
                let place = place(tree, &setting.path, at)?;
                *place = value;
                Ok(())
            });
            if let Err(text) = laid {
                let text = format!("{}: {text}", setting.source);
                problems.push(Problem { at: None, text });
            }
        }
        match problems.is_empty() {
            true => Ok(()),
            false => Err(problems),
        }
    }

    /// Says who is to blame for mistakes that are not in the file.
    pub(super) fn name_sources(&self, problems: Vec<Problem>) -> Vec<Problem> {
        let name = |problem: Problem| {
            let setting = problem.at.filter(|at| at.line == 0);
            let setting = setting.and_then(|at| self.0.get(at.column as usize));
            match setting {
                None => problem,
                Some(Setting { source, .. }) => Problem {
                    at: None,
                    text: format!("{source}: {}", problem.text),
                },
            }
        };
        problems.into_iter().map(name).collect()
    }
}

/// The place of a setting: files have no line 0.
fn beside(index: usize) -> Location {
    Location {
        line: 0,
        column: u32::try_from(index).unwrap_or(u32::MAX),
    }
}

/// What a text stands for: a truth, a number, a list or section as YAML has it in one line, a text in
/// quotes, and whatever else there is is itself.
fn value(text: &str, at: Location) -> Result<Node, String> {
    let is_number = text.starts_with(|first: char| first.is_ascii_digit() || "+-.".contains(first))
        && text.parse::<f64>().is_ok();
    let is_more = text.starts_with(['[', '{', '"', '\'']);
    if !(is_number || is_more || matches!(text, "true" | "false")) {
        return Ok(Node {
            at,
            kind: Kind::Text(text.to_owned()),
            literal: None,
        });
    }
    let mut node = yaml::parse(text).map_err(|problem| problem.text)?;
    move_to(&mut node, at);
    node.literal = (!is_more).then(|| text.to_owned());
    Ok(node)
}

fn move_to(node: &mut Node, at: Location) {
    node.at = at;
    match &mut node.kind {
        Kind::List(list) => list.iter_mut().for_each(|node| move_to(node, at)),
        Kind::Table(entries) => entries.iter_mut().for_each(|entry| {
            entry.at = at;
            move_to(&mut entry.value, at);
        }),
        Kind::Null
        | Kind::Bool(_)
        | Kind::Integer(_)
        | Kind::Real(_)
        | Kind::Text(_)
        | Kind::Date => {}
    }
}

/// Where a key stands, or comes to stand.
fn place<'a>(tree: &'a mut Node, path: &[String], at: Location) -> Result<&'a mut Node, String> {
    let mut node = tree;
    let mut above = String::new();
    for name in path {
        if matches!(node.kind, Kind::Null) {
            node.kind = Kind::Table(Vec::new());
        }
        let found = node.kind.describe();
        let Kind::Table(entries) = &mut node.kind else {
            return Err(format!(
                "`{above}` is {found} in the file, which has no keys"
            ));
        };
        let index = match entries.iter().position(|entry| entry.name == *name) {
            Some(index) => index,
            None => {
                let value = Node {
                    at,
                    kind: Kind::Null,
                    literal: None,
                };
                let name = name.clone();
                entries.push(Entry { name, at, value });
                entries.len().saturating_sub(1)
            }
        };
        above = super::read::join(&above, name);
        let entry = entries.get_mut(index);
        node = &mut entry.ok_or("that key is nowhere")?.value;
    }
    Ok(node)
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;
    use std::path::Path;

    use super::super::{Config, Format, Secret, Surroundings};
    use super::*;

    fn environment(pairs: &[(&str, &str)]) -> Overrides {
        let owned = |(name, value): &(&str, &str)| (name.into(), value.into());
        Overrides::from_variables(pairs.iter().map(owned)).unwrap()
    }

    fn read(file: &str, format: Format, overrides: &Overrides) -> Result<Config, String> {
        let surroundings = Surroundings {
            folder: Path::new(""),
            variable: &|_| None,
        };
        Config::parse(file, format, overrides, &surroundings).map_err(|problems| {
            let texts = problems.iter().map(|problem| match problem.at {
                Some(at) => format!("{}:{}: {}", at.line, at.column, problem.text),
                None => problem.text.clone(),
            });
            texts.collect::<Vec<_>>().join("\n")
        })
    }

    #[test]
    fn flags_are_stronger_than_the_environment_than_the_file_than_defaults() {
        let files = [
            ("host_id: file\nserver: {names: [f]}\n", Format::Yaml),
            ("host_id = \"file\"\nserver.names = [\"f\"]\n", Format::Toml),
        ];
        for (file, format) in files {
            let mut overrides = environment(&[
                ("FRITH__SERVER__LISTEN", "127.0.0.1:1"),
                ("FRITH__GLOBAL_LIMITS__MAX_LINE", "4096"),
                ("FRITH__SERVER__ORIGINS", "['https://a.example']"),
                ("FRITH__TELEMETRY", "{log_format: json}"),
                ("FRITH__TELEMETRY__LOG", "debug"),
                ("FRITH_DATA", "elsewhere"),
                ("HOME", "/root"),
            ]);
            overrides.set("server.listen=127.0.0.1:2").unwrap();
            overrides.set("a2a=false").unwrap();
            let config = read(file, format, &overrides).unwrap();
            assert_eq!(config.host_id, "file");
            assert_eq!(config.server.names, ["f"]);
            assert_eq!(config.server.listen.port(), 2);
            assert_eq!(config.server.origins, ["https://a.example"]);
            assert_eq!(config.global_limits.max_line, 4096);
            assert_eq!(config.telemetry.log, "debug");
            assert_eq!(config.telemetry.log_format, super::super::LogFormat::Json);
            assert!(!config.a2a.enabled);
            assert_eq!(config.snapshot_store, Config::default().snapshot_store);
        }
    }

    /// The environment has no quotes, so a key that takes text takes digits and truths as they are.
    #[test]
    fn keys_that_take_text_take_any_scalar() {
        let given = [
            ("FRITH__AUTH_TOKEN", "01234567"),
            ("FRITH__HOST_ID", "true"),
            ("FRITH__AUDIT", "false"),
        ];
        let config = read("", Format::Yaml, &environment(&given)).unwrap();
        let token = config.auth_token.as_ref().map(Secret::reveal);
        assert_eq!((token, &*config.host_id), (Some("01234567"), "true"));
    }

    #[test]
    fn mistakes_name_who_made_them() {
        let cases = [
            (
                "FRITH__HOST_IT",
                "x",
                "unknown key `host_it`; did you mean `host_id`?",
            ),
            (
                "FRITH__SERVER__LISTN",
                "x",
                "unknown key `listn` in `server`; did you mean `listen`?",
            ),
            (
                "FRITH__GLOBAL_LIMITS__MAX_LINE",
                "1",
                "`global_limits.max_line` must be a whole number from 1024 to 67108864, not 1",
            ),
            (
                "FRITH__HOST_ID",
                "[7]",
                "`host_id` must be text, not a list",
            ),
            (
                "FRITH__AUDIT__SYNC",
                "commit",
                "`audit` is a boolean in the file, which has no keys",
            ),
            ("FRITH__PLUGINS", "[{name: a}]", "`plugins[0]` lacks `type`"),
        ];
        for (name, value, text) in cases {
            let found = read(
                "audit: true\n",
                Format::Yaml,
                &environment(&[(name, value)]),
            );
            let wanted = format!("the environment variable {name}: {text}");
            assert_eq!(found.unwrap_err(), wanted, "{name}");
        }
        let mut overrides = Overrides::default();
        overrides.set("server.listen=[").unwrap();
        let found = read("", Format::Yaml, &overrides).unwrap_err();
        assert!(
            found.starts_with("--set server.listen: this is not YAML"),
            "{found}"
        );
        // The file keeps its own places.
        let found = read(
            "hots_id: 1\n",
            Format::Yaml,
            &environment(&[("FRITH__HOST_ID", "a")]),
        );
        assert!(found.unwrap_err().starts_with("1:1: unknown key"));
    }

    #[test]
    fn what_names_no_key() {
        for text in ["", "a", "=x", "a..b=x", ".a=x"] {
            assert!(Overrides::default().set(text).is_err(), "{text}");
        }
        for name in ["FRITH__", "FRITH__A____B"] {
            let pair = (name.into(), OsString::new());
            assert!(Overrides::from_variables([pair]).is_err(), "{name}");
        }
    }

    /// Passed over, it would leave the default in its place.
    #[test]
    fn variables_that_are_not_utf_8_are_refused() {
        let broken = || OsString::from_vec(b"hunter2\xff".to_vec());
        let found = Overrides::from_variables([("FRITH__AUTH_TOKEN".into(), broken())]);
        let wanted = "the environment variable FRITH__AUTH_TOKEN is not UTF-8";
        assert_eq!(found.unwrap_err(), wanted);
        let others = [("HOME".into(), broken()), (broken(), "x".into())];
        assert!(Overrides::from_variables(others).is_ok());
    }

    #[test]
    fn values_are_not_shown() {
        let overrides = environment(&[("FRITH__AUTH_TOKEN", "{hunter2")]);
        assert!(!format!("{overrides:?}").contains("hunter2"));
        let found = read("", Format::Yaml, &overrides).unwrap_err();
        assert!(!found.contains("hunter2"), "{found}");
        let quoted = environment(&[("FRITH__AUTH_TOKEN", "'123'")]);
        let config = read("", Format::Yaml, &quoted).unwrap();
        assert_eq!(config.auth_token.unwrap().reveal(), "123");
    }
}

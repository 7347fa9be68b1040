//! How servers come into a configuration, and out of it: `frith mcp add` and `remove`, and what
//! `frith init` does with those that it finds.

use std::path::{Path, PathBuf};

use a2e_runtime::DataDir;
use a2e_runtime::config::{
    Config, PluginKind, in_comments, is_server_name, put_server, remove_server, without_comments_of,
};
use anyhow::{Context, Result, anyhow, bail};
use serde_json::{Map, Value, json};

use super::clients::replace;
use super::{Adopted, Candidate, Consent, State, Trials};
use crate::Outcome;
use crate::agent::{print, print_json};
use crate::capabilities::Capabilities;
use crate::config::apply_if_running;
use crate::screen::{count, plain, shown};

/// A server that is named on the command line.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// What it is to be called; its tools have it before theirs
    server: String,

    /// Where it is, if it runs elsewhere
    #[arg(long, value_name = "ADDRESS", conflicts_with = "command")]
    url: Option<String>,

    /// A variable of its environment; `NAME=${NAME}` leaves the value in the environment of the node
    #[arg(long, value_name = "NAME=VALUE")]
    env: Vec<String>,

    /// The configuration; without it, frith.yaml in this folder
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Start it and let it have what its command line names, without a question
    #[arg(long)]
    yes: bool,

    /// The program and its arguments
    #[arg(last = true, required_unless_present = "url")]
    command: Vec<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Removal {
    /// Its name in the configuration
    server: String,

    /// The configuration; without it, frith.yaml in this folder
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// A configuration and where it stands.
struct Written {
    file: PathBuf,
    text: String,
    config: Config,
}

impl Written {
    fn open(named: Option<&Path>) -> Result<Self> {
        let folder = std::env::current_dir()?;
        let file = match named {
            Some(file) => file.to_owned(),
            None => Config::find(&folder)?.context(
                "there is no frith.yaml in this folder; `frith init` makes one, --config names one",
            )?,
        };
        if file.extension().is_some_and(|it| it == "toml") {
            bail!("{} is TOML, which is changed by hand", shown(&file));
        }
        let text = std::fs::read_to_string(&file);
        let text = text.with_context(|| format!("cannot read {}", shown(&file)))?;
        let config = Config::load(&file)?;
        Ok(Self { file, text, config })
    }
}

pub(crate) async fn add(arguments: &Arguments, data: &DataDir, as_json: bool) -> Result<Outcome> {
    let name = &arguments.server;
    if !is_server_name(name) {
        let text =
            format!("`{name}` is no name for a server: letters, digits, `-`, `.`, single `_`");
        return Ok(Outcome::WrongArguments(text));
    }
    let written = Written::open(arguments.config.as_deref())?;
    if names(&written.config).contains(&name.as_str()) {
        bail!(
            "{} has a server `{name}`; `frith mcp remove {name}` takes it away",
            shown(&written.file)
        );
    }
    let mut entry = Map::new();
    match &arguments.url {
        Some(url) => entry.insert("url".to_owned(), json!(url)),
        None => entry.insert("command".to_owned(), json!(arguments.command)),
    };
    if !arguments.env.is_empty() {
        let mut env = Map::new();
        for pair in &arguments.env {
            let (name, value) = pair.split_once('=').context("--env takes NAME=VALUE")?;
            env.insert(name.to_owned(), json!(value));
        }
        entry.insert("env".to_owned(), Value::Object(env));
    }
    let consent = Consent::of(arguments.yes);
    if consent == Consent::Missing {
        bail!("nobody is there to ask; --yes says that `{name}` may be started");
    }
    data.make()?;
    let trials = Trials::new(&written.config, &written.file, data, consent)?;
    let candidate = Candidate {
        name: name.clone(),
        from: "command line".to_owned(),
        folder: std::env::current_dir()?,
        is_of_project: false,
        entry,
    };
    let adopted = vec![trials.adopt(candidate).await];
    let text = with_servers(&written.text, &adopted)?;
    let is_used = adopted.iter().any(is_used);
    if is_used {
        save(&written.file, &text, data)?;
    }
    if as_json {
        print_json(&json!({"file": written.file, "server": adopted.first()}))?;
    } else {
        show(
            &adopted,
            is_used.then_some((written.file.as_path(), text.as_str())),
        )?;
    }
    if !is_used {
        tell!("{} is as it was", shown(&written.file));
        return Ok(Outcome::Bad);
    }
    apply_if_running(data).await
}

pub(crate) async fn remove(arguments: &Removal, data: &DataDir, as_json: bool) -> Result<Outcome> {
    let written = Written::open(arguments.config.as_deref())?;
    let name = &arguments.server;
    let Some(text) = remove_server(&written.text, name).map_err(|text| anyhow!(text))? else {
        let file = shown(&written.file);
        match names(&written.config).contains(&name.as_str()) {
            true => bail!("`{name}` stands in a file that {file} imports; take it out there"),
            false => bail!("{file} has no server `{name}`"),
        }
    };
    save(&written.file, &text, data)?;
    match as_json {
        true => print_json(&json!({"file": written.file, "server": name}))?,
        false => print(&format!(
            "removed {} from {}",
            plain(name),
            shown(&written.file)
        ))?,
    }
    apply_if_running(data).await
}

/// Tries what was found and is not in a configuration yet. Gives the configuration with it.
///
/// # Errors
/// If nothing can be tried, or the configuration cannot be changed.
pub(crate) async fn adopt_all(
    (file, text): (&Path, &str),
    found: Vec<Candidate>,
    data: &DataDir,
    consent: Consent,
) -> Result<(String, Vec<Adopted>)> {
    let folder = file.parent().unwrap_or_else(|| Path::new("."));
    let folder = std::path::absolute(folder)?;
    let config = Config::of_text(text, &folder)?;
    let known = names(&config);
    let mut new = found;
    new.retain(|candidate| !known.contains(&candidate.name.as_str()));
    if new.is_empty() {
        return Ok((text.to_owned(), Vec::new()));
    }
    let trials = Trials::new(&config, file, data, consent)?;
    let mut adopted = Vec::new();
    for candidate in new {
        adopted.push(trials.adopt(candidate).await);
    }
    let text = with_servers(text, &adopted)?;
    check(file, &text, data)?;
    Ok((text, adopted))
}

/// The names of the servers that a configuration has.
fn names(config: &Config) -> Vec<&str> {
    let plugins = config.plugins.iter().filter_map(|plugin| {
        let PluginKind::Mcp(mcp) = &plugin.kind else {
            return None;
        };
        Some(mcp)
    });
    let servers = config
        .mcp
        .iter()
        .chain(plugins)
        .flat_map(|mcp| &mcp.servers);
    servers.map(|server| server.name.as_str()).collect()
}

/// Whether a server is written down to be used: it works, or runs elsewhere, where it may work later, and
/// it is the user who has named it.
fn is_used(adopted: &Adopted) -> bool {
    match adopted.state {
        State::Works { .. } => true,
        State::Fails { .. } => adopted.entry.contains_key("url") && !adopted.is_of_project,
        State::NotStarted => false,
    }
}

const NOT_USED: &str =
    "\n# MCP servers that are not used; `frith init` tries them again, or take the `# ` away.\n";

/// A configuration with these: those that are not used in comments.
fn with_servers(text: &str, adopted: &[Adopted]) -> Result<String> {
    let mut text = text.to_owned();
    for one in adopted {
        text = without_comments_of(&text, &one.name);
    }
    // Each is put before the others.
    for one in adopted.iter().rev().filter(|one| is_used(one)) {
        let put = put_server(&text, &one.name, &Value::Object(one.entry.clone()));
        text = put.map_err(|text| anyhow!(text))?;
    }
    let mut others = adopted.iter().filter(|one| !is_used(one)).peekable();
    if others.peek().is_some() && !text.contains(NOT_USED.trim()) {
        text.push_str(NOT_USED);
        let has_section = text
            .lines()
            .any(|line| line.trim_end() == "mcp:" || line.contains("type: mcp"));
        if !has_section {
            text.push_str("# mcp:\n#   servers:\n");
        }
    }
    for one in others {
        text.push_str(&in_comments(&one.name, &Value::Object(one.entry.clone())));
    }
    Ok(text)
}

/// Writes a configuration, if a node takes it.
pub(crate) fn save(file: &Path, text: &str, data: &DataDir) -> Result<()> {
    check(file, text, data)?;
    replace(file, text).with_context(|| format!("cannot write {}", shown(file)))
}

/// Whether a node would take a configuration.
fn check(file: &Path, text: &str, data: &DataDir) -> Result<()> {
    let folder = file.parent().filter(|it| *it != Path::new(""));
    let folder = std::path::absolute(folder.unwrap_or_else(|| Path::new(".")))?;
    let config = Config::of_text(text, &folder)?;
    Capabilities::new(&config, Some(file), data).map(drop)
}

/// Says what became of servers.
pub(crate) fn show(adopted: &[Adopted], at: Option<(&Path, &str)>) -> Result<()> {
    for one in adopted {
        let name = plain(&one.name);
        let granted = match one.granted.is_empty() {
            true => String::new(),
            false => format!("; it may {}", plain(one.granted.join(", "))),
        };
        match &one.state {
            State::Works { tools, .. } => {
                let tools = count(u64::try_from(tools.len()).unwrap_or(0), "tool", "tools");
                print(&format!("  {name} works: {tools}{granted}"))?;
            }
            State::NotStarted => print(&format!(
                "  {name} was not started, since nobody said that it may be: {}",
                place(one, at)
            ))?,
            State::Fails { why, stderr } => {
                print(&format!("  {name} does not work: {}{granted}", plain(why)))?;
                for line in stderr {
                    print(&format!("      {}", plain(line)))?;
                }
                print(&format!("    {}", place(one, at)))?;
            }
        }
        for missing in &one.missing {
            print(&format!("    nobody let it {}", plain(missing)))?;
        }
        if !one.lines.is_empty() {
            let lines = one.lines.join("`, `");
            print(&format!(
                "    to let it, write below {name}: `{}`",
                plain(lines)
            ))?;
        }
    }
    Ok(())
}

/// Where a server stands in a configuration.
fn place(one: &Adopted, at: Option<(&Path, &str)>) -> String {
    let Some((file, text)) = at else {
        return "it is not written down".to_owned();
    };
    let key = format!("{}:", one.name);
    let is_it = |line: &str| {
        let line = line.trim_start_matches(['#', ' ']);
        line.trim_matches('"').starts_with(&key)
    };
    match text.lines().position(is_it) {
        Some(index) if is_used(one) => format!("{}:{}", shown(file), index + 1),
        Some(index) => format!("{}:{}, in comments", shown(file), index + 1),
        None => shown(file),
    }
}

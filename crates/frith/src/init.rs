//! `frith init`: a first configuration for a folder, with what is found there.

mod found;

use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use a2a_net::tls::DevelopmentCa;
use a2e_runtime::config::{Config, Identity, Imported};
use a2e_runtime::{DataDir, TokenStore};
use anyhow::{Context, Result, bail};
use serde_json::{Map, Value, json};

use crate::Outcome;
#[cfg(feature = "mcp")]
use crate::agent::block_on;
use crate::agent::{print, print_json};
#[cfg(feature = "mcp")]
use crate::config::apply_if_running;
use crate::data::DataArguments;
#[cfg(feature = "mcp")]
use crate::mcp_servers::{Adopted, Candidates, Consent, add};
use crate::node;
use crate::screen::{plain, quoted_path};
use found::Found;

/// A node needs none of this: `frith up` works without.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The folder
    #[arg(value_name = "FOLDER", default_value = ".")]
    folder: PathBuf,

    /// Start the MCP servers that are found, each in the sandbox, and let them have what their command lines name
    #[arg(long)]
    yes: bool,

    #[command(flatten)]
    data: DataArguments,
}

/// What a node has of its own.
struct Own {
    did: String,
    token: PathBuf,
    ca: PathBuf,
}

const FILE: &str = "frith.yaml";

pub(crate) fn run(arguments: &Arguments, as_json: bool) -> Result<Outcome> {
    let folder = &arguments.folder;
    if let Some(file) = Config::find(folder)? {
        return add_servers(arguments, &file, as_json);
    }
    if !folder.is_dir() {
        bail!(
            "{} is no folder; make it first, or name another",
            folder.display()
        );
    }
    let found = Found::look(folder);
    // First what may fail because of others: a file that is written is in the way of a second try.
    let own = own(&arguments.data.dir()?)?;
    let file = folder.join(FILE);
    let text = text(&found.kept);
    let (text, servers) = with_servers(arguments, (&file, &text))?;
    write(&file, &text)?;
    let left_out = [found.left_out.as_slice(), &servers.left_out].concat();
    match as_json {
        true => print_json(&json!({
            "file": file,
            "did": own.did,
            "token_file": own.token,
            "ca": own.ca,
            "imported": found.imported,
            "left_out": left_out,
            "servers": servers.to_json(),
        }))?,
        false => {
            show(&file, &own, &found)?;
            servers.show(&file, &text)?;
            print(&format_args!("\nNext: {}", next(arguments)?))?;
        }
    }
    Ok(Outcome::Good)
}

/// Adds the MCP servers that are found to a configuration that is there.
fn add_servers(arguments: &Arguments, file: &Path, as_json: bool) -> Result<Outcome> {
    let before = std::fs::read_to_string(file);
    let before = before.with_context(|| format!("cannot read {}", file.display()))?;
    Config::load(file)?;
    let (text, servers) = match file.extension() {
        // It is changed by hand.
        Some(extension) if extension == "toml" => (before.clone(), Servers::default()),
        _ => with_servers(arguments, (file, &before))?,
    };
    let is_changed = text != before;
    if is_changed {
        servers.save(arguments, file, &text)?;
    }
    if as_json {
        print_json(&json!({
            "file": file,
            "servers": servers.to_json(),
            "left_out": servers.left_out,
        }))?;
    } else {
        servers.show(file, &text)?;
    }
    if is_changed {
        return servers.apply(arguments);
    }
    tell!(
        "{} is there already, and nothing was changed; `frith config check` looks at it",
        plain(file.display())
    );
    Ok(Outcome::Good)
}

/// The MCP servers that were found, and what became of them.
#[derive(Debug, Default)]
struct Servers {
    #[cfg(feature = "mcp")]
    adopted: Vec<Adopted>,
    left_out: Vec<String>,
}

/// A configuration with the MCP servers of the folder and of the user, as far as they work.
#[cfg(feature = "mcp")]
fn with_servers(arguments: &Arguments, written: (&Path, &str)) -> Result<(String, Servers)> {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let found = Candidates::look(&arguments.folder, home.as_deref());
    let data = arguments.data.dir()?;
    data.make()?;
    let consent = Consent::of(arguments.yes);
    let adopted = block_on(add::adopt_all(written, found.servers, &data, consent));
    let (text, adopted) = adopted?;
    let left_out = found.left_out;
    Ok((text, Servers { adopted, left_out }))
}

/// This program uses none.
#[cfg(not(feature = "mcp"))]
fn with_servers(_: &Arguments, (_, text): (&Path, &str)) -> Result<(String, Servers)> {
    Ok((text.to_owned(), Servers::default()))
}

#[cfg(feature = "mcp")]
impl Servers {
    fn to_json(&self) -> Value {
        json!(self.adopted)
    }

    fn show(&self, file: &Path, text: &str) -> Result<()> {
        if !self.adopted.is_empty() {
            print(&"\nMCP servers:")?;
        }
        add::show(&self.adopted, Some((file, text)))?;
        let mut left_out = self.left_out.iter();
        left_out.try_for_each(|line| print(&format_args!("  left out: {}", plain(line))))
    }

    fn save(&self, arguments: &Arguments, file: &Path, text: &str) -> Result<()> {
        add::save(file, text, &arguments.data.dir()?)
    }

    fn apply(&self, arguments: &Arguments) -> Result<Outcome> {
        block_on(apply_if_running(&arguments.data.dir()?))
    }
}

#[cfg(not(feature = "mcp"))]
impl Servers {
    fn to_json(&self) -> Value {
        json!([])
    }

    fn show(&self, _: &Path, _: &str) -> Result<()> {
        Ok(())
    }

    fn save(&self, _: &Arguments, _: &Path, _: &str) -> Result<()> {
        Ok(())
    }

    fn apply(&self, _: &Arguments) -> Result<Outcome> {
        Ok(Outcome::Good)
    }
}

fn show(file: &Path, own: &Own, found: &Found) -> Result<()> {
    print(&format_args!("wrote  {}", plain(file.display())))?;
    print(&format_args!("did    {}", own.did))?;
    print(&format_args!("token  {}", plain(own.token.display())))?;
    print(&format_args!("ca     {}", plain(own.ca.display())))?;
    for (title, lines) in [
        ("\nImported:", &found.imported),
        ("\nLeft out, or not ready yet:", &found.left_out),
    ] {
        if !lines.is_empty() {
            print(&title)?;
        }
        let mut lines = lines.iter();
        lines.try_for_each(|line| print(&format_args!("  {}", plain(line))))?;
    }
    Ok(())
}

/// The command that starts the node with this folder and this data directory.
fn next(arguments: &Arguments) -> Result<String> {
    let mut command = "frith up".to_owned();
    if arguments.data.is_named() {
        let data = arguments.data.dir()?;
        write!(command, " --data {}", quoted_path(data.path()))?;
    }
    if arguments.folder != Path::new(".") {
        let folder = quoted_path(&arguments.folder);
        command = format!("cd {folder} && {command}");
    }
    Ok(command)
}

/// The identity, the token and the certificates that a node would make at its first start.
fn own(data: &DataDir) -> Result<Own> {
    let claim = data.claim()?;
    TokenStore::open(&claim, None)?;
    let identity = node::NodeIdentity::new(&Identity::default(), data).open()?;
    let ca = data.development_ca();
    DevelopmentCa::open(&ca)?;
    Ok(Own {
        did: identity.identity.did().to_string(),
        token: data.token(),
        ca,
    })
}

/// Nobody else reads it: there may be a token in it.
fn write(file: &Path, text: &str) -> Result<()> {
    let open = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(file);
    let written = open.and_then(|mut file| file.write_all(text.as_bytes()));
    written.with_context(|| format!("cannot write {}", file.display()))
}

/// What a first configuration asks for beside the defaults: somebody who has just begun sees what his
/// agents write before they do.
const RULES: &str =
    "policy: {rules: [{id: ask, name: [write_file, edit_file], action: require_approval}]}";

/// The keys that a newcomer may want, each with what it is for and its default.
const KEYS: [(&str, &str, &str); 7] = [
    ("host_id", "What the node calls itself.", "host_id: frith"),
    (
        "server",
        "Where agents find it, over HTTP and WebSocket.",
        "server: {listen: \"127.0.0.1:8765\"}",
    ),
    (
        "workspace",
        "The folder that agents work in; else one in the data directory. This file must not lie in it.",
        "workspace: work",
    ),
    (
        "plugins",
        "What serves requests; without it, everything that is built in.",
        "plugins: [{name: tools, type: tools}]",
    ),
    (
        "policy",
        "What agents may do: the first rule that matches a call says allow, deny or hold (until `frith approve`).",
        RULES,
    ),
    (
        "audit",
        "The record of what they did; it goes to the disk every so often, or at each `commit`.",
        "audit: {sync: 100ms, keep_days: 90}",
    ),
    (
        "a2a",
        "Where other agents find the node; `false` speaks with none.",
        "a2a: {listen: \"127.0.0.1:8443\"}",
    ),
];

/// A configuration with what was kept; the rest are defaults, in comments.
fn text(kept: &Map<String, Value>) -> String {
    let mut text = "\
# The configuration of a Frith node. All keys may be left out; `frith config schema` has every key,
# and `frith config check` finds mistakes. A node that runs takes a changed file as far as it allows
# nothing new; `frith config apply` has it take all of it.\n"
        .to_owned();
    for (key, what, default) in KEYS {
        // Writing to a text cannot fail.
        let _ = write!(text, "\n# {what}\n");
        match kept.get(key) {
            Some(value) => text.push_str(&yaml(key, value)),
            None if default == RULES => {
                let _ = writeln!(text, "{RULES}");
            }
            None => {
                let _ = writeln!(text, "# {default}");
            }
        }
    }
    let others = kept
        .iter()
        .filter(|(key, _)| !KEYS.iter().any(|known| known.0 == *key));
    for (index, (key, value)) in others.enumerate() {
        if index == 0 {
            text.push_str("\n# What else was found.\n");
        }
        text.push_str(&yaml(key, value));
    }
    text
}

fn yaml(key: &str, value: &Value) -> String {
    let one = Imported {
        kept: Map::from_iter([(key.to_owned(), value.clone())]),
        left_out: Vec::new(),
    };
    one.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both as it is and with every comment taken for what it shows.
    #[test]
    fn what_is_written_is_a_configuration() {
        let folder = tempfile::tempdir().unwrap();
        let kept = json!({"host_id": "x", "plugins": [{"name": "d", "type": "demo"}], "transport": "http"});
        let nothing = text(&Map::new());
        let shown: String = KEYS
            .iter()
            .map(|(_, _, default)| format!("{default}\n"))
            .collect();
        for text in [text(kept.as_object().unwrap()), nothing, shown] {
            let file = folder.path().join("a.yaml");
            std::fs::write(&file, &text).unwrap();
            Config::load(&file).unwrap_or_else(|error| panic!("{error}\n{text}"));
        }
    }
}

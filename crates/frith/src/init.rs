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
use crate::agent::{print, print_json};
use crate::data::DataArguments;
use crate::node;
use crate::screen::{plain, quoted_path};
use found::Found;

/// A node needs none of this: `frith up` works without.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The folder
    #[arg(value_name = "FOLDER", default_value = ".")]
    folder: PathBuf,

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
        bail!(
            "{} is there already, and nothing was changed; `frith config check` looks at it",
            file.display()
        );
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
    write(&file, &text(&found.kept))?;
    match as_json {
        true => print_json(&json!({
            "file": file,
            "did": own.did,
            "token_file": own.token,
            "ca": own.ca,
            "imported": found.imported,
            "left_out": found.left_out,
        }))?,
        false => {
            show(&file, &own, &found)?;
            print(&format_args!("\nNext: {}", next(arguments)?))?;
        }
    }
    Ok(Outcome::Good)
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

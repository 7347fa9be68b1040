//! What `git` is run with. Nothing that an agent gives can become an option.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use serde::Deserialize;
use serde_json::{Value, json};

/// What is asked of a repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    Status,
    Log,
    Diff,
    Show,
}

/// What an agent gives, as far as an action takes it.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Asked {
    revision: Option<String>,
    to: Option<String>,
    path: Option<String>,
    #[serde(default)]
    staged: bool,
    max_count: Option<u32>,
}

/// The environment of `git`: only the repository says how it is to work, nothing is asked for, and
/// nothing is fetched.
pub(super) const ENVIRONMENT: [(&str, &str); 5] = [
    ("GIT_CONFIG_NOSYSTEM", "1"),
    ("GIT_CONFIG_GLOBAL", "/dev/null"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_NO_LAZY_FETCH", "1"),
    ("LC_ALL", "C.UTF-8"),
];

/// What comes before every action.
const ALWAYS: [&str; 3] = ["--no-pager", "--no-optional-locks", "--literal-pathspecs"];

/// What a repository does not decide. The workspace may belong to another user than the sandbox has,
/// which `git` would mind; most others keep a repository from having programs run.
const SETTINGS: [&str; 22] = [
    "safe.directory=*",
    "color.ui=never",
    // Stronger than that one.
    "color.diff=never",
    "color.status=never",
    // A result is text in UTF-8, in whatever encoding the commits are.
    "i18n.logOutputEncoding=UTF-8",
    "core.quotePath=false",
    "core.askPass=false",
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "core.sshCommand=false",
    "credential.helper=",
    // A form that asks for a signature to be checked has the program for that run.
    "format.pretty=medium",
    "log.showSignature=false",
    "gpg.program=false",
    "gpg.openpgp.program=false",
    "gpg.x509.program=false",
    "gpg.ssh.program=false",
    "gpg.ssh.defaultKeyCommand=false",
    "protocol.allow=never",
    // In a submodule `git` runs again, with the settings of that.
    "diff.submodule=short",
    "diff.ignoreSubmodules=all",
    "status.submoduleSummary=false",
];

/// The most filters that a repository may have.
const MAX_FILTERS: usize = 64;

/// Commits that a log has unless asked for more or fewer, and at most.
const COMMITS: (u32, u32) = (20, 1000);

impl Action {
    pub(super) const ALL: [Self; 4] = [Self::Status, Self::Log, Self::Diff, Self::Show];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Status => "git_status",
            Self::Log => "git_log",
            Self::Diff => "git_diff",
            Self::Show => "git_show",
        }
    }

    pub(super) const fn text(self) -> &'static str {
        match self {
            Self::Status => "Shows the branch of the repository and which files have changed",
            Self::Log => "Lists commits of the repository, the newest first",
            Self::Diff => {
                "Shows what has changed: in the files since they were staged, what is staged, since \
                 a revision, or between two"
            }
            Self::Show => "Shows a commit with its changes, or a file as it was (`REVISION:PATH`)",
        }
    }

    pub(super) fn schema(self) -> Value {
        // It begins with nothing that an option begins with, and has no line breaks.
        let revision = |text: &str| {
            json!({"type": "string", "maxLength": 256, "description": text,
                "pattern": "^[^\\u0000-\\u001f-][^\\u0000-\\u001f]*$"})
        };
        let path = json!({"type": "string", "minLength": 1, "maxLength": 4096,
            "pattern": "^[^\\u0000]*$", "description": "Only what is in this file or folder"});
        let (usual, most) = COMMITS;
        let (properties, required) = match self {
            Self::Status => (json!({ "path": path }), json!([])),
            Self::Log => (
                json!({
                    "revision": revision("Where to begin, or `A..B`; HEAD unless given"),
                    "path": path,
                    "max_count": {"type": "integer", "minimum": 1, "maximum": most,
                        "description": format!("How many; {usual} unless given")},
                }),
                json!([]),
            ),
            Self::Diff => (
                json!({
                    "revision": revision("Since when"),
                    "to": revision("Until when; the files as they are unless given"),
                    "staged": {"type": "boolean", "description": "What is staged"},
                    "path": path,
                }),
                json!([]),
            ),
            Self::Show => (
                json!({"revision": revision("What to show"), "path": path}),
                json!(["revision"]),
            ),
        };
        // Only a comparison has `to`.
        json!({"type": "object", "additionalProperties": false, "required": required,
            "properties": properties, "dependentRequired": {"to": ["revision"]}})
    }

    pub(super) fn arguments(self, asked: &Asked) -> Vec<String> {
        let mut all = before();
        let mut add = |words: &[&str]| all.extend(words.iter().map(|&word| word.to_owned()));
        match self {
            Self::Status => add(&[
                "status",
                "--short",
                "--branch",
                "--untracked-files=all",
                "--ignore-submodules=all",
            ]),
            Self::Log => {
                let count = asked.max_count.unwrap_or(COMMITS.0);
                add(&["log", "--date=iso-strict", &format!("--max-count={count}")]);
            }
            Self::Diff => {
                let still = "--ignore-submodules=all";
                add(&["diff", "--no-ext-diff", "--no-textconv", still]);
                if asked.staged {
                    add(&["--cached"]);
                }
            }
            Self::Show => {
                let date = "--date=iso-strict";
                add(&["show", "--no-ext-diff", "--no-textconv", date]);
            }
        }
        if let Some(revision) = &asked.revision {
            add(&["--end-of-options", revision]);
            if let Some(to) = &asked.to {
                add(&[to]);
            }
        }
        add(&["--"]);
        if let Some(path) = &asked.path {
            add(&[path]);
        }
        all
    }
}

fn before() -> Vec<String> {
    let mut all: Vec<String> = ALWAYS.map(str::to_owned).into();
    all.extend(SETTINGS.iter().flat_map(|it| ["-c".into(), (*it).into()]));
    all
}

/// Asks which filters a repository has. Programs convert files for it, and no single setting switches
/// them off.
pub(super) fn filters() -> Vec<String> {
    let asked = ["config", "--includes", "-z", "--name-only"];
    let mut all = before();
    all.extend(asked.map(str::to_owned));
    all.extend(["--get-regexp", r"^filter\."].map(str::to_owned));
    all
}

/// The variables that switch off the filters of such a list; none if there are too many.
pub(super) fn without(filters: &[u8]) -> Option<Vec<(OsString, OsString)>> {
    // `filter.NAME.KEY`, where the name may have dots.
    let names = filters.split(|byte| *byte == 0).filter_map(|key| {
        let end = key.iter().rposition(|byte| *byte == b'.')?;
        key.get(..end)
    });
    let names: BTreeSet<&[u8]> = names.collect();
    if names.len() > MAX_FILTERS {
        return None;
    }
    let off = [
        ("process", ""),
        ("clean", ""),
        ("smudge", ""),
        ("required", "false"),
    ];
    let settings = names.iter().flat_map(|name| {
        off.map(|(key, value)| {
            let mut all = name.to_vec();
            all.extend([b".", key.as_bytes()].concat());
            (OsString::from_vec(all), value)
        })
    });
    let mut env: Vec<(OsString, OsString)> = Vec::new();
    for (place, (key, value)) in settings.enumerate() {
        env.push((format!("GIT_CONFIG_KEY_{place}").into(), key));
        env.push((format!("GIT_CONFIG_VALUE_{place}").into(), value.into()));
    }
    let count = names.len().saturating_mul(off.len());
    env.push(("GIT_CONFIG_COUNT".into(), count.to_string().into()));
    Some(env)
}

#[cfg(test)]
mod hostile;
#[cfg(test)]
mod tests;

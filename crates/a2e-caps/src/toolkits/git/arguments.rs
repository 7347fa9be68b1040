//! What `git` is run with. Nothing that an agent gives can become an option.

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

/// What comes before every action. The workspace belongs to another user than the sandbox has, which
/// `git` would mind; the other settings keep a repository from having programs run.
const ALWAYS: [&str; 13] = [
    "--no-pager",
    "--no-optional-locks",
    "--literal-pathspecs",
    "-c",
    "safe.directory=*",
    "-c",
    "core.fsmonitor=false",
    "-c",
    "color.ui=never",
    "-c",
    "core.quotePath=false",
    "-c",
    "log.showSignature=false",
];

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
                "pattern": "^[A-Za-z0-9@_.:/^][^\\u0000-\\u001f]*$"})
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
        let mut all: Vec<String> = ALWAYS.map(str::to_owned).into();
        let mut add = |words: &[&str]| all.extend(words.iter().map(|&word| word.to_owned()));
        match self {
            Self::Status => add(&["status", "--short", "--branch", "--untracked-files=all"]),
            Self::Log => {
                let count = asked.max_count.unwrap_or(COMMITS.0);
                add(&["log", "--date=iso-strict", &format!("--max-count={count}")]);
            }
            Self::Diff => {
                add(&["diff", "--no-ext-diff", "--no-textconv"]);
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

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::Command;

    use super::*;
    use crate::tool::Schema;

    /// `git` as the sandbox would run it.
    fn git(folder: &Path, action: Action, asked: Value) -> (bool, String) {
        let asked: Asked = serde_json::from_value(asked).unwrap();
        let output = Command::new("git")
            .args(action.arguments(&asked))
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .envs(ENVIRONMENT)
            .current_dir(folder)
            .output()
            .unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8(text).unwrap())
    }

    fn repository() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let run = |arguments: &[&str]| {
            let author = ["-c", "user.name=Ada", "-c", "user.email=ada@example.com"];
            let done = Command::new("git")
                .args(author)
                .args(arguments)
                .envs(ENVIRONMENT)
                .current_dir(&folder)
                .output()
                .unwrap();
            assert!(done.status.success(), "{done:?}");
        };
        run(&["init", "--quiet", "--initial-branch=main"]);
        for (text, message) in [("one\n", "First"), ("two\n", "Second")] {
            std::fs::write(folder.path().join("a.txt"), text).unwrap();
            run(&["add", "."]);
            run(&["commit", "--quiet", "-m", message]);
        }
        std::fs::write(folder.path().join("a.txt"), "three\n").unwrap();
        folder
    }

    #[test]
    fn a_real_repository_answers() {
        let folder = repository();
        let shows = |action, asked: Value, expected: &[&str], not: &str| {
            let (done, text) = git(folder.path(), action, asked);
            assert!(done, "{text}");
            for part in expected {
                assert!(text.contains(part), "{part} in {text}");
            }
            assert!(not.is_empty() || !text.contains(not), "{not} in {text}");
        };
        shows(Action::Status, json!({}), &["## main", " M a.txt"], "");
        shows(Action::Status, json!({"path": "b"}), &["## main"], "a.txt");
        shows(Action::Log, json!({}), &["First", "Second"], "");
        shows(Action::Log, json!({"max_count": 1}), &["Second"], "First");
        shows(
            Action::Log,
            json!({"revision": "HEAD~1"}),
            &["First"],
            "Second",
        );
        shows(Action::Diff, json!({}), &["-two", "+three"], "");
        shows(Action::Diff, json!({"staged": true}), &[], "three");
        let both = json!({"revision": "HEAD~1", "to": "HEAD", "path": "a.txt"});
        shows(Action::Diff, both, &["-one", "+two"], "three");
        shows(
            Action::Show,
            json!({"revision": "HEAD"}),
            &["Second", "+two"],
            "",
        );
        shows(
            Action::Show,
            json!({"revision": "HEAD~1:a.txt"}),
            &["one"],
            "First",
        );
    }

    /// Whatever slips through the schema is still no option.
    #[test]
    fn nothing_becomes_an_option() {
        let folder = repository();
        let leak = folder.path().join("leak");
        let option = format!("--output={}", leak.display());
        for action in [Action::Log, Action::Diff, Action::Show] {
            for asked in [
                json!({"revision": option}),
                json!({"revision": "HEAD", "to": option}),
                json!({"revision": "HEAD", "path": option}),
            ] {
                git(folder.path(), action, asked.clone());
                assert!(!leak.exists(), "{action:?} {asked}");
            }
            let schema = Schema::compile(&action.schema()).unwrap();
            let fits = |value: Value| {
                let raw = a2e_wire::Raw::from_serialize(&value).unwrap();
                schema.check(&raw).is_ok()
            };
            assert!(fits(json!({"revision": "HEAD~3", "path": "--x"})));
            assert!(!fits(json!({"revision": "--output=x"})));
            assert!(!fits(json!({"revision": ""})));
            assert!(!fits(json!({"revision": "a\nb"})));
            assert!(fits(json!({"revision": "a".repeat(256)})));
            assert!(!fits(json!({"revision": "a".repeat(257)})));
        }
    }

    /// A repository's own settings run nothing.
    #[test]
    fn a_repository_starts_no_programs() {
        let folder = repository();
        let leak = folder.path().join("leak");
        let program = format!("touch {}", leak.display());
        let config = folder.path().join(".git/config");
        let mut text = std::fs::read_to_string(&config).unwrap();
        text += &format!(
            "[core]\n\tfsmonitor = {program}\n\tpager = {program}\n[diff]\n\texternal = {program}\n\
             [diff \"x\"]\n\ttextconv = {program}\n\tcommand = {program}\n"
        );
        std::fs::write(&config, text).unwrap();
        std::fs::write(folder.path().join(".gitattributes"), "*.txt diff=x\n").unwrap();
        for action in Action::ALL {
            let (done, text) = git(folder.path(), action, json!({"revision": "HEAD"}));
            assert!(done || action == Action::Status, "{text}");
            assert!(!leak.exists(), "{action:?}");
        }
    }
}

//! Repositories whose settings have programs run. Each does, for whoever looks at it as usual, and none
//! does for the toolkit.

use std::fs::{self, OpenOptions, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::json;
use tempfile::TempDir;

use super::tests::{git, own, repository};
use super::{Action, ENVIRONMENT};

/// A repository, and what its programs leave behind.
struct Hostile {
    folder: TempDir,
    home: TempDir,
}

impl Hostile {
    fn new() -> Self {
        let (folder, home) = (repository(), tempfile::tempdir().unwrap());
        let program = home.path().join("program");
        let leak = home.path().join("leak");
        fs::write(&program, format!("#!/bin/sh\ntouch {}\n", leak.display())).unwrap();
        fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
        Self { folder, home }
    }

    fn program(&self) -> String {
        self.home.path().join("program").display().to_string()
    }

    fn set(&self, name: &str, value: &str) {
        own(self.folder.path(), &["config", name, value]);
    }

    fn put(&self, name: &str, text: &str) {
        let file = OpenOptions::new()
            .append(true)
            .create(true)
            .open(self.folder.path().join(name));
        file.unwrap().write_all(text.as_bytes()).unwrap();
    }

    /// Whether a program has run since this was asked.
    fn has_run(&self) -> bool {
        fs::remove_file(self.home.path().join("leak")).is_ok()
    }

    /// It runs programs for whoever looks at it in this way, and not for the toolkit.
    fn tame(&self, usual: &[&str]) {
        let look = Command::new("git")
            .args(usual)
            .envs(ENVIRONMENT)
            .current_dir(&self.folder)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        look.unwrap();
        assert!(self.has_run(), "{usual:?} is harmless");
        for action in Action::ALL {
            let asked = match action {
                Action::Status => json!({}),
                Action::Log | Action::Diff | Action::Show => json!({"revision": "HEAD"}),
            };
            let (done, text) = git(self.folder.path(), action, asked);
            assert!(done, "{action:?} after {usual:?}: {text}");
            assert!(!self.has_run(), "{action:?} after {usual:?}");
        }
    }
}

/// Says that a file may have changed, and nothing about its size, so that `git` looks into it.
fn touch(path: &Path) {
    fs::write(path, "TWO\n").unwrap();
}

#[test]
fn file_monitors() {
    let hostile = Hostile::new();
    hostile.set("core.fsmonitor", &hostile.program());
    hostile.tame(&["status"]);
}

#[test]
fn filters() {
    for key in ["clean", "process"] {
        let hostile = Hostile::new();
        hostile.set(&format!("filter.a.b c.{key}"), &hostile.program());
        hostile.put(".git/info/attributes", "*.txt filter=a.b\n");
        hostile.set(&format!("filter.a.b.{key}"), &hostile.program());
        hostile.set("filter.a.b.required", "true");
        touch(&hostile.folder.path().join("a.txt"));
        hostile.tame(&["status"]);
    }
}

#[test]
fn filters_of_included_settings() {
    let hostile = Hostile::new();
    hostile.put(".gitattributes", "*.txt filter=x\n");
    let more = format!("[filter \"x\"]\n\tclean = {}\n", hostile.program());
    hostile.put(".git/more", &more);
    hostile.set("include.path", "more");
    touch(&hostile.folder.path().join("a.txt"));
    hostile.tame(&["status"]);
}

#[test]
fn hooks() {
    let hostile = Hostile::new();
    fs::create_dir_all(hostile.folder.path().join(".git/hooks")).unwrap();
    let hook = hostile.folder.path().join(".git/hooks/post-index-change");
    fs::copy(hostile.program(), &hook).unwrap();
    // The same as it was, at another time: what is known of it is written down again.
    fs::write(hostile.folder.path().join("a.txt"), "two\n").unwrap();
    hostile.tame(&["status"]);
}

#[test]
fn programs_that_compare() {
    let hostile = Hostile::new();
    hostile.set("diff.external", &hostile.program());
    hostile.tame(&["diff"]);
    for key in ["command", "textconv"] {
        let hostile = Hostile::new();
        hostile.set(&format!("diff.x.{key}"), &hostile.program());
        hostile.put(".gitattributes", "*.txt diff=x\n");
        hostile.tame(&["diff"]);
    }
}

/// A commit that says it is signed, in a repository whose form of a log has that checked.
#[test]
fn signatures() {
    for signed in [
        "-----BEGIN PGP SIGNATURE-----",
        "-----BEGIN SSH SIGNATURE-----",
    ] {
        let hostile = Hostile::new();
        let folder = hostile.folder.path();
        let commit = own(folder, &["cat-file", "commit", "HEAD"]);
        let (head, text) = commit.split_once("\n\n").unwrap();
        let end = signed.replace("BEGIN", "END");
        let commit = format!("{head}\ngpgsig {signed}\n \n aGVsbG8=\n {end}\n\n{text}");
        let file = hostile.home.path().join("commit");
        fs::write(&file, commit).unwrap();
        let name = own(
            folder,
            &[
                "hash-object",
                "-t",
                "commit",
                "-w",
                &file.display().to_string(),
            ],
        );
        own(folder, &["update-ref", "HEAD", name.trim()]);
        hostile.set("gpg.program", &hostile.program());
        hostile.set("gpg.ssh.program", &hostile.program());
        hostile.set("gpg.ssh.allowedSignersFile", "/dev/null");
        hostile.set("format.pretty", "%G?");
        hostile.set("log.showSignature", "true");
        hostile.tame(&["log"]);
    }
}

/// `git` looks into repositories inside a repository by running again there.
#[test]
fn repositories_inside() {
    let hostile = Hostile::new();
    let inner = hostile.folder.path().join("inner");
    fs::create_dir(&inner).unwrap();
    own(&inner, &["init", "--quiet", "--initial-branch=main"]);
    own(
        &inner,
        &["commit", "--quiet", "--allow-empty", "-m", "Inner"],
    );
    own(hostile.folder.path(), &["add", "inner"]);
    own(&inner, &["config", "core.fsmonitor", &hostile.program()]);
    hostile.set("diff.submodule", "log");
    hostile.set("status.submoduleSummary", "true");
    hostile.set("diff.ignoreSubmodules", "none");
    hostile.tame(&["status"]);
}

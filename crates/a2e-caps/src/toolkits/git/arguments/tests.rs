use std::path::Path;
use std::process::Command;

use super::*;
use crate::tool::Schema;

fn program(folder: &Path, arguments: Vec<String>) -> Command {
    let mut program = Command::new("git");
    program
        .args(arguments)
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .envs(ENVIRONMENT)
        .current_dir(folder);
    program
}

/// `git` as the sandbox would run it.
pub(super) fn git(folder: &Path, action: Action, asked: Value) -> (bool, String) {
    let asked: Asked = serde_json::from_value(asked).unwrap();
    let listed = program(folder, filters()).output().unwrap();
    let output = program(folder, action.arguments(&asked))
        .envs(without(&listed.stdout).unwrap())
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(text).unwrap())
}

/// `git` as whoever owns a repository runs it. What it says.
pub(super) fn own(folder: &Path, arguments: &[&str]) -> String {
    let author = ["-c", "user.name=Ada", "-c", "user.email=ada@example.com"];
    let done = Command::new("git")
        .args(author)
        .args(arguments)
        .envs(ENVIRONMENT)
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(done.status.success(), "{done:?}");
    String::from_utf8(done.stdout).unwrap()
}

pub(super) fn repository() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| own(folder.path(), arguments);
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

/// Colors are no part of a result, and its text is UTF-8 whatever the commits are written in.
#[test]
fn settings_of_a_repository_change_no_text() {
    let folder = repository();
    let run = |arguments: &[&str]| own(folder.path(), arguments);
    for (name, value) in [
        ("color.ui", "always"),
        ("color.diff", "always"),
        ("color.status", "always"),
        ("i18n.commitEncoding", "ISO-8859-1"),
    ] {
        run(&["config", name, value]);
    }
    let message = folder.path().join("message");
    std::fs::write(&message, b"Gr\xfc\xdfe").unwrap();
    run(&["add", "a.txt"]);
    run(&[
        "commit",
        "--quiet",
        "--file",
        &message.display().to_string(),
    ]);
    std::fs::write(folder.path().join("a.txt"), "four\n").unwrap();
    for (action, asked, expected) in [
        (Action::Status, json!({}), " M a.txt"),
        (Action::Log, json!({}), "Grüße"),
        (Action::Diff, json!({}), "\n+four"),
        (Action::Show, json!({"revision": "HEAD"}), "Grüße"),
    ] {
        let (done, text) = git(folder.path(), action, asked);
        assert!(done && text.contains(expected), "{text}");
        assert!(!text.contains('\u{1b}'), "{text}");
    }
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
        assert!(fits(json!({"revision": "größe"})));
        assert!(fits(json!({"revision": "#7-fix"})));
        assert!(!fits(json!({"revision": "-x"})));
        assert!(!fits(json!({"revision": "\u{2028}\n"})));
        assert!(!fits(json!({"revision": "--output=x"})));
        assert!(!fits(json!({"revision": ""})));
        assert!(!fits(json!({"revision": "a\nb"})));
        assert!(fits(json!({"revision": "a".repeat(256)})));
        assert!(!fits(json!({"revision": "a".repeat(257)})));
    }
}

/// The workspace is root's where the node is, and what runs in the sandbox is not.
#[test]
fn a_repository_of_another_user_answers() {
    let folder = repository();
    let stranger = Some(12_345);
    if std::os::unix::fs::chown(folder.path(), stranger, stranger).is_err() {
        return; // only root can give files away
    }
    std::os::unix::fs::chown(folder.path().join(".git"), stranger, stranger).unwrap();
    let minds = Command::new("git")
        .args(["log"])
        .envs(ENVIRONMENT)
        .current_dir(&folder)
        .output()
        .unwrap();
    assert!(String::from_utf8_lossy(&minds.stderr).contains("dubious ownership"));
    for action in Action::ALL {
        let (done, text) = git(folder.path(), action, json!({"revision": "HEAD"}));
        assert!(done || action == Action::Status, "{text}");
        assert!(!text.contains("dubious ownership"), "{text}");
    }
}

#[test]
fn filters_have_a_limit() {
    let listed = |count: usize| {
        let all =
            (0..count).map(|number| format!("filter.a.{number}.clean\0filter.a.{number}.x\0"));
        all.collect::<String>()
    };
    let off = without(listed(MAX_FILTERS).as_bytes()).unwrap();
    assert_eq!(
        off.last().unwrap().1,
        (MAX_FILTERS * 4).to_string().as_str()
    );
    assert!(without(listed(MAX_FILTERS + 1).as_bytes()).is_none());
    assert_eq!(without(b"").unwrap().len(), 1);
}

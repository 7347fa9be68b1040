//! Completions and pages, as shells and `man` use them.

use std::process::Command;

use crate::frith;

/// What bash offers for the beginning of a word.
fn offered(line: &[&str]) -> String {
    let (status, script, _) = frith(&["completions", "bash"], "");
    assert_eq!(status, 0);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("frith.bash");
    std::fs::write(&file, script).unwrap();
    let last = line.len() - 1;
    let asks = format!(
        "source {}; COMP_WORDS=({}); COMP_CWORD={last}; _frith frith '{}' '{}'; echo \"${{COMPREPLY[*]}}\"",
        file.display(),
        line.join(" "),
        line[last],
        line[last - 1],
    );
    let output = Command::new("bash").args(["-c", &asks]).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && error.is_empty(), "{error}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn bash_completes_commands_and_options() {
    assert_eq!(offered(&["frith", "stat"]).trim(), "status");
    assert_eq!(offered(&["frith", "config", "sch"]).trim(), "schema");
    assert!(offered(&["frith", "up", "--a2a"]).contains("--a2a-listen"));
    for shell in ["zsh", "fish", "elvish", "powershell"] {
        let (status, out, _) = frith(&["completions", shell], "");
        assert_eq!(status, 0);
        assert!(out.contains("status"), "{shell}");
    }
}

#[test]
fn there_is_a_page_for_each_command() {
    let (status, out, _) = frith(&["man"], "");
    assert_eq!(status, 0);
    assert!(out.contains(".TH frith 1"), "{out}");
    let (status, out, _) = frith(&["man", "audit", "verify"], "");
    assert_eq!(status, 0);
    assert!(out.contains(".TH frith-audit-verify 1"), "{out}");
    let (status, _, error) = frith(&["man", "none"], "");
    assert_eq!(status, 2);
    assert!(error.contains("there is no command `none`"), "{error}");
    let folder = tempfile::tempdir().unwrap();
    let pages = folder.path().join("man1");
    let (status, _, error) = frith(&["man", "--folder", pages.to_str().unwrap()], "");
    assert_eq!(status, 0, "{error}");
    for page in ["frith.1", "frith-up.1", "frith-audit-verify.1"] {
        let text = std::fs::read_to_string(pages.join(page)).unwrap();
        assert!(text.contains(".SH SYNOPSIS"), "{page}");
    }
    let (status, _, error) = frith(&["man", "--folder", "/dev/null/man1"], "");
    assert_eq!(status, 1);
    assert!(error.contains("cannot write the pages"), "{error}");
}

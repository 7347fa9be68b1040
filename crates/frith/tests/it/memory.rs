//! `frith memory`, on a node that runs.

use std::path::Path;

use serde_json::Value;

use crate::frith;
use crate::node::Node;
use crate::terminal::AtTerminal;

fn memory(node: &Node, arguments: &[&str], input: &str) -> (i32, String, String) {
    let data = node.data();
    let data = ["--data", data.to_str().unwrap()];
    frith(&[&["memory"], arguments, &data].concat(), input)
}

/// What a command says that works.
fn said(node: &Node, arguments: &[&str]) -> String {
    let (status, out, error) = memory(node, arguments, "");
    assert_eq!(status, 0, "{arguments:?}: {error}");
    out
}

fn start(folder: &Path) -> Node {
    Node::start(folder, "plugins: [{name: memory, type: memory}]\n")
}

#[test]
fn what_is_put_is_found_after_a_crash() {
    let folder = tempfile::tempdir().unwrap();
    let node = start(folder.path());
    said(
        &node,
        &["put", "pet", "a dog called Rex", "--tag", "family"],
    );
    said(
        &node,
        &[
            "put",
            r#"{"user": 1}"#,
            r#"{"tea": "green"}"#,
            "--tier",
            "semantic",
        ],
    );
    let (status, _, error) = memory(&node, &["put", "note", "-"], "from outside\n");
    assert_eq!(status, 0, "{error}");
    let node = start(&node.crash());
    let out = said(&node, &["search", "what is my dog called"]);
    assert!(
        out.contains("episodic pet  a dog called Rex  [family]\n"),
        "{out}"
    );
    assert!(out.ends_with("1 of 1\n"), "{out}");
    let out = said(&node, &["search", "--json", "tea"]);
    let found: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (&found[0]["key"]["user"], &found[0]["tier"]),
        (&1.into(), &"semantic".into())
    );
    let out = said(&node, &["get", "note"]);
    assert!(out.contains("\"content\": \"from outside\""), "{out}");
    assert_eq!(said(&node, &["search", "zebra"]), "nothing fits\n");
    let (status, _, error) = memory(&node, &["get", "none"], "");
    assert_eq!(status, 1);
    assert!(error.contains("nothing has the key none"), "{error}");
    let out = said(&node, &["stats"]);
    assert!(out.contains("episodic          2 entries"), "{out}");
    assert_eq!(
        said(&node, &["stats", "--namespace", "other", "--json"])
            .matches(":0")
            .count(),
        6
    );
    assert_eq!(said(&node, &["forget", "--tag", "family"]), "forgot 1\n");
    assert_eq!(said(&node, &["search", "dog"]), "nothing fits\n");
    let (status, ..) = memory(&node, &["forget"], "");
    assert_eq!(status, 2);
    let out = said(&node, &["forget", "--tier", "semantic", "--all", "--json"]);
    assert_eq!(out, "{\"deleted\":1}\n");
}

#[test]
fn a_copy_goes_out_and_in() {
    let folder = tempfile::tempdir().unwrap();
    let node = start(folder.path());
    let lines: String = (0..1200)
        .map(|number| format!("{{\"key\": {{\"n\": {number}}}, \"content\": \"line {number}\"}}\n"))
        .collect();
    let (status, _, error) = memory(&node, &["import", "-"], &lines);
    assert_eq!((status, error.as_str()), (0, "remembered 1200 entries\n"));
    let file = folder.path().join("copy.jsonl");
    let file = file.to_str().unwrap();
    let (status, _, error) = memory(&node, &["export", file], "");
    assert_eq!((status, error.as_str()), (0, "wrote 1200 entries\n"));
    let first = std::fs::read_to_string(file).unwrap();
    assert_eq!(first.lines().count(), 1200);
    // What is there stays there.
    let (status, _, error) = memory(&node, &["export", file], "");
    assert_eq!(status, 1);
    assert!(error.contains("name another file"), "{error}");
    let (status, out, _) = memory(&node, &["export", "-"], "");
    assert_eq!((status, out == first), (0, true));
    let into = ["import", file, "--namespace", "other", "--tier", "semantic"];
    let (status, _, error) = memory(&node, &into, "");
    assert_eq!((status, error.as_str()), (0, "remembered 1200 entries\n"));
    let found = said(
        &node,
        &["search", "line 777", "--namespace", "other", "--limit", "1"],
    );
    assert!(found.contains("{\"n\":777}  line 777"), "{found}");
    // What cannot be read is named, and the rest is there.
    let mixed = "{\"key\": \"a\", \"content\": 1}\nnonsense\n{\"content\": 1}\n";
    let (status, _, error) = memory(&node, &["import", "-"], mixed);
    assert_eq!(status, 1, "{error}");
    assert!(error.starts_with("line 2: "), "{error}");
    assert!(
        error.contains("\nline 3: ") && error.contains("remembered 1 entry\n"),
        "{error}"
    );
    assert!(
        error.ends_with("2 entries could not be remembered\n"),
        "{error}"
    );
}

/// At a terminal one sees how far it is; of both tiers together, not of one after the other.
#[test]
fn a_copy_shows_how_far_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let node = start(folder.path());
    let data = node.data();
    let data = data.to_str().unwrap();
    let lines: String = (0..1200)
        .map(|number| {
            let tier = if number < 1000 {
                "episodic"
            } else {
                "semantic"
            };
            format!("{{\"key\": \"{number:04}\", \"content\": 1, \"tier\": \"{tier}\"}}\n")
        })
        .collect();
    std::fs::write(folder.path().join("in.jsonl"), lines).unwrap();
    let import = ["memory", "import", "in.jsonl", "--data", data];
    let mut import = AtTerminal::start(folder.path(), 80, &import);
    let bar = import.until("500 of 1200 entries");
    assert!(
        bar.ends_with("[############..................] 500 of 1200 entries"),
        "{bar}"
    );
    import.until("1200 of 1200 entries");
    let (status, rest) = import.end();
    // The bar goes when it is done.
    assert_eq!(
        (status, &*rest),
        (Some(0), "\u{1b}[K\r\u{1b}[Kremembered 1200 entries\r\n")
    );
    let export = ["memory", "export", "out.jsonl", "--data", data];
    let mut export = AtTerminal::start(folder.path(), 80, &export);
    export.until("1000 of 1200 entries");
    export.until("] 1200 of 1200 entries");
    let (status, rest) = export.end();
    assert!(
        status == Some(0) && rest.contains("wrote 1200 entries"),
        "{rest}"
    );
}

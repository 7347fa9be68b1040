//! How much the file tools tell: at their limits and past them.

use std::fs;
use std::path::Path;

use a2e_caps::files::{Access, MAX_LISTED, MAX_MATCHES, MAX_SEARCHED_LINE, MAX_TOLD_BYTES, Roots};
use a2e_caps::tool::{Call, Caller, Output, Progress};
use a2e_wire::{Raw, wire::ToStatic};
use serde_json::{Value, json};
use tempfile::tempdir;
use tokio_util::sync::CancellationToken;

/// What a tool itself gives, before the plugin cuts it to size; nothing if its schema refuses the
/// arguments.
async fn told(folder: &Path, name: &str, arguments: Value) -> Option<(Value, Output)> {
    let roots = Roots::one(folder, Access::ReadOnly).unwrap();
    let tools = a2e_caps::files::tools(roots).unwrap();
    let tool = tools.iter().find(|tool| tool.definition().name() == name);
    let tool = tool.unwrap();
    let raw = Raw::from_serialize(&arguments).unwrap().to_static();
    let arguments = tool.definition().input_schema().arguments(raw).ok()?;
    let call = Call {
        arguments,
        caller: Caller {
            agent: "a".into(),
            session: "s".into(),
        },
        progress: Progress::default(),
        over: CancellationToken::new(),
    };
    let output = tool.call(call).await.unwrap();
    Some((output.data.deserialize().unwrap(), output))
}

fn length(list: &Value) -> usize {
    list.as_array().unwrap().len()
}

#[tokio::test]
async fn list_dir_lists_so_many() {
    let folder = tempdir().unwrap();
    let add = |number: usize| fs::write(folder.path().join(number.to_string()), "").unwrap();
    (0..MAX_LISTED).for_each(add);
    let list = || told(folder.path(), "list_dir", json!({"limit": MAX_LISTED}));
    let (data, output) = list().await.unwrap();
    assert_eq!(
        (length(&data["entries"]), output.truncated),
        (MAX_LISTED, false)
    );
    add(MAX_LISTED);
    let (data, output) = list().await.unwrap();
    assert_eq!(
        (length(&data["entries"]), output.truncated),
        (MAX_LISTED, true)
    );
    assert_eq!(data["truncated"], true);
    let more = json!({"limit": MAX_LISTED + 1});
    assert!(told(folder.path(), "list_dir", more).await.is_none());
}

#[tokio::test]
async fn grep_finds_so_many() {
    let folder = tempdir().unwrap();
    let file = folder.path().join("a.txt");
    let grep = |limit: usize| {
        let arguments = json!({"pattern": "x", "limit": limit});
        told(folder.path(), "grep", arguments)
    };
    for (lines, truncated) in [(MAX_MATCHES, false), (MAX_MATCHES + 1, true)] {
        fs::write(&file, "x\n".repeat(lines)).unwrap();
        let (data, output) = grep(MAX_MATCHES).await.unwrap();
        assert_eq!(
            (length(&data["matches"]), output.truncated),
            (MAX_MATCHES, truncated)
        );
        assert_eq!(data["truncated"], truncated);
    }
    assert!(grep(MAX_MATCHES + 1).await.is_none());
}

/// A line that does not fit into what a search may have in memory ends the search of its file, which
/// is said; other files are searched.
#[tokio::test]
async fn grep_reports_lines_that_are_too_long() {
    let folder = tempdir().unwrap();
    let write = |name: &str, text: String| fs::write(folder.path().join(name), text).unwrap();
    write(
        "long",
        format!("x\n{}\nx\n", "y".repeat(2 * MAX_SEARCHED_LINE)),
    );
    write("short", "x\n".to_owned());
    write("fits", format!("{}x\n", "y".repeat(MAX_SEARCHED_LINE / 2)));
    for path in ["", "long"] {
        let arguments = json!({"pattern": "x$", "path": path});
        let (data, output) = told(folder.path(), "grep", arguments).await.unwrap();
        let found = if path.is_empty() { 3 } else { 1 };
        assert_eq!(length(&data["matches"]), found, "{data}");
        assert_eq!(data["long_lines"], json!({"count": 1, "paths": ["long"]}));
        assert!(output.truncated && output.summary.is_some());
    }
    let arguments = json!({"pattern": "x$", "path": "short"});
    let (data, output) = told(folder.path(), "grep", arguments).await.unwrap();
    assert!(
        data.get("long_lines").is_none() && !output.truncated,
        "{data}"
    );
}

#[tokio::test]
async fn grep_tells_so_many_bytes() {
    let folder = tempdir().unwrap();
    let lines = format!("{}x\n", "y".repeat(450)).repeat(MAX_MATCHES + 100);
    fs::write(folder.path().join("a"), lines).unwrap();
    let arguments = json!({"pattern": "x$", "limit": MAX_MATCHES, "context": 20});
    let (data, output) = told(folder.path(), "grep", arguments).await.unwrap();
    let size = data.to_string().len();
    assert!(
        (MAX_TOLD_BYTES / 2..=MAX_TOLD_BYTES * 2).contains(&size),
        "{size}"
    );
    assert_eq!((&data["truncated"], output.truncated), (&json!(true), true));
}

/// Of a folder with more than is listed, the first are.
#[tokio::test]
async fn list_dir_lists_the_first_of_many() {
    let folder = tempdir().unwrap();
    for number in 0..3000 {
        fs::write(folder.path().join(format!("{number:04}")), "").unwrap();
    }
    let arguments = json!({"limit": 3});
    let (data, _) = told(folder.path(), "list_dir", arguments).await.unwrap();
    let names: Vec<&str> = data["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["path"].as_str().unwrap())
        .collect();
    assert_eq!(
        (names.as_slice(), &data["truncated"]),
        (["0000", "0001", "0002"].as_slice(), &json!(true))
    );
    let arguments = json!({"pattern": "*", "limit": 3});
    let (data, _) = told(folder.path(), "glob", arguments).await.unwrap();
    assert_eq!(
        (&data["paths"], &data["count"]),
        (&json!(["0000", "0001", "0002"]), &json!(3000))
    );
}

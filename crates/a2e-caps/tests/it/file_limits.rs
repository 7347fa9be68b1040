//! How much the file tools tell: at their limits and past them.

use std::fs;
use std::path::Path;

use a2e_caps::files::{Access, MAX_LISTED, MAX_MATCHES, Roots};
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

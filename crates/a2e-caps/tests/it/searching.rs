//! `glob` and `grep`, as an agent uses them.

use std::fs;
use std::os::unix::fs::symlink;

use a2e_caps::files::{Access, Roots};
use a2e_caps::tool::{Call, Caller, Progress};
use a2e_wire::Raw;
use serde_json::{Value, json};
use tempfile::tempdir;
use tokio_util::sync::CancellationToken;

use crate::support::{call, on_files, refused};

fn tree(folder: &std::path::Path) {
    for (path, text) in [
        (".gitignore", "*.log\n/target\n!keep.log\n"),
        ("a.rs", "fn needle() {}\n"),
        ("b.log", "needle\n"),
        ("keep.log", "needle\n"),
        (".hidden/c.rs", "needle\n"),
        ("src/.ignore", "generated\n!b.log\n"),
        ("src/b.log", "needle\n"),
        ("src/d.rs", "one\nNeedle two\nthree needle\n"),
        ("src/generated/e.rs", "needle\n"),
        ("target/f.rs", "needle\n"),
    ] {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    fs::write(folder.join("binary"), b"needle\0needle").unwrap();
    symlink("a.rs", folder.join("link.rs")).unwrap();
    symlink("..", folder.join("src/up")).unwrap();
}

#[tokio::test]
async fn files_are_found_by_pattern() {
    let folder = tempdir().unwrap();
    tree(folder.path());
    let client = on_files(folder.path()).await;
    let glob = async |arguments: Value| {
        let found = call(&client, "glob", arguments).await;
        found["paths"]
            .as_array()
            .unwrap()
            .iter()
            .map(|path| path.as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(glob(json!({"pattern": "*.rs"})).await, ["a.rs", "src/d.rs"]);
    assert_eq!(
        glob(json!({"pattern": "*.log"})).await,
        ["keep.log", "src/b.log"]
    );
    assert_eq!(glob(json!({"pattern": "src/**/*.rs"})).await, ["src/d.rs"]);
    assert_eq!(
        glob(json!({"pattern": "*.rs", "path": "src"})).await,
        ["src/d.rs"]
    );
    // What is asked for by name is looked in, though it is ignored.
    assert_eq!(
        glob(json!({"pattern": "*", "path": "target"})).await,
        ["target/f.rs"]
    );
    let all = glob(json!({"pattern": "*.{rs,log}", "all": true})).await;
    assert_eq!(all.len(), 8, "{all:?}");
    let some = call(&client, "glob", json!({"pattern": "*.rs", "limit": 1})).await;
    assert_eq!(
        some,
        json!({"paths": ["a.rs"], "count": 2, "truncated": true})
    );
    refused(&client, "glob", json!({"pattern": "{"})).await;
}

#[tokio::test]
async fn text_is_found_by_pattern() {
    let folder = tempdir().unwrap();
    tree(folder.path());
    let client = on_files(folder.path()).await;
    let grep = |arguments: Value| call(&client, "grep", arguments);
    let found = grep(json!({"pattern": "needle", "glob": "*.rs"})).await;
    let first = json!({"path": "a.rs", "line": 1, "text": "fn needle() {}"});
    let second = json!({"path": "src/d.rs", "line": 3, "text": "three needle"});
    assert_eq!(
        found,
        json!({"matches": [first, second], "file_count": 2, "truncated": false})
    );
    let files = grep(json!({"pattern": "needle", "mode": "files_with_matches"})).await;
    assert_eq!(
        files["files"],
        json!(["a.rs", "keep.log", "src/b.log", "src/d.rs"])
    );
    let counts =
        grep(json!({"pattern": "NEEDLE", "ignore_case": true, "mode": "count", "path": "src"}))
            .await;
    let expected = json!([{"path": "src/b.log", "count": 1}, {"path": "src/d.rs", "count": 2}]);
    assert_eq!(counts["counts"], expected);
    let around = grep(json!({"pattern": "two", "context": 1, "path": "src/d.rs"})).await;
    let line = json!({"path": "src/d.rs", "line": 2, "text": "Needle two", "before": ["one"], "after": ["three needle"]});
    assert_eq!(around["matches"], json!([line]));
    let literal = grep(json!({"pattern": "needle()", "literal": true})).await;
    assert_eq!(literal["file_count"], 1);
    let error = refused(&client, "grep", json!({"pattern": "needle("})).await;
    assert!(error.message.contains("literal"), "{}", error.message);
    // A few letters must not fill the memory.
    refused(
        &client,
        "grep",
        json!({"pattern": "(((a{100}){100}){100}){100}"}),
    )
    .await;
    let all = grep(json!({"pattern": "needle", "mode": "files_with_matches", "all": true})).await;
    assert_eq!(all["file_count"], 8, "{all}");
}

/// To compile such a glob by itself panics.
#[tokio::test]
async fn globs_and_expressions_past_their_bounds_are_refused() {
    let folder = tempdir().unwrap();
    tree(folder.path());
    let client = on_files(folder.path()).await;
    let nested = |depth: usize| format!("{}a.rs{}", "{".repeat(depth), "}".repeat(depth));
    let long = |size: usize| "a".repeat(size);
    let grep = |glob: String| json!({"pattern": "needle", "glob": glob});
    let glob = |pattern: String| json!({ "pattern": pattern });
    for (pattern, why) in [
        (nested(249), "it has 249 `{`, more than 100"),
        (nested(101), "it has 101 `{`, more than 100"),
        (long(4097), "it has 4097 bytes, more than 4096"),
    ] {
        let error = refused(&client, "glob", glob(pattern.clone())).await;
        assert_eq!(error.message, format!("not a pattern: {why}"));
        let error = refused(&client, "grep", grep(pattern)).await;
        assert_eq!(error.message, format!("not a pattern: {why}"));
    }
    let found = call(&client, "glob", glob(nested(100))).await;
    assert_eq!(found["paths"], json!(["a.rs"]));
    let found = call(&client, "grep", grep(nested(100))).await;
    assert_eq!(found["file_count"], 1);
    assert_eq!(call(&client, "glob", glob(long(4096))).await["count"], 0);
    for literal in [false, true] {
        let search = |pattern: String| json!({"pattern": pattern, "literal": literal});
        let error = refused(&client, "grep", search(long(4097))).await;
        let why = "it has 4097 bytes, more than 4096";
        assert!(error.message.contains(why), "{}", error.message);
        let found = call(&client, "grep", search(long(4096))).await;
        assert_eq!(found["file_count"], 0);
    }
}

#[tokio::test]
async fn a_search_ends_at_its_limit() {
    let folder = tempdir().unwrap();
    for number in 0..300 {
        fs::write(
            folder.path().join(format!("{number}.txt")),
            "needle\nneedle\n",
        )
        .unwrap();
    }
    let client = on_files(folder.path()).await;
    for (mode, list, exactly) in [
        ("content", "matches", 600),
        ("files_with_matches", "files", 300),
        ("count", "counts", 300),
    ] {
        for (limit, told, truncated) in
            [(exactly, exactly, false), (exactly - 1, exactly - 1, true)]
        {
            let found = call(
                &client,
                "grep",
                json!({"pattern": "needle", "mode": mode, "limit": limit}),
            )
            .await;
            // All of it may be an artifact by now; what counts is that it was cut.
            if let Some(list) = found[list].as_array() {
                assert_eq!(
                    (list.len(), &found["truncated"]),
                    (told, &json!(truncated)),
                    "{mode}"
                );
            }
        }
    }
}

/// Cancelling reaches what runs on threads of its own.
#[tokio::test]
async fn what_nobody_waits_for_ends() {
    let folder = tempdir().unwrap();
    tree(folder.path());
    let over = CancellationToken::new();
    over.cancel();
    for tool in
        a2e_caps::files::tools(Roots::one(folder.path(), Access::ReadOnly).unwrap()).unwrap()
    {
        let definition = tool.definition();
        let arguments = match definition.name() {
            "glob" | "grep" => json!({"pattern": "x"}),
            "list_dir" => json!({}),
            _ => continue,
        };
        let arguments = Raw::from_serialize(&arguments).unwrap();
        let call = Call {
            arguments: definition.input_schema().arguments(arguments).unwrap(),
            caller: Caller {
                agent: "a".into(),
                session: "s".into(),
            },
            progress: Progress::default(),
            over: over.clone(),
        };
        let error = tool.call(call).await.unwrap_err();
        assert!(error.to_string().contains("nobody waits"), "{error}");
    }
}

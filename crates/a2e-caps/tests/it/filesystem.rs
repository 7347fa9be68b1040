//! The toolkit `filesystem`.

use std::fs;

use serde_json::json;

use crate::toolkits::{agent, bundled, call, configure, filesystem, host, refused, workspace};
use crate::vault::store;

#[tokio::test]
async fn filesystem_has_its_folders_and_no_others() {
    let folder = workspace();
    let host = host(vec![filesystem(folder.path())], &store()).await;
    let mut ada = agent(&host, "ada").await;
    let config = json!({"roots": {"d": {"path": "docs"}, "s": {"path": "src",
        "access": "read_write"}}});
    let response = configure(&mut ada, "filesystem", config).await;
    assert_eq!(response["status"], "ok", "{response}");
    let tools: Vec<String> = bundled(&mut ada).await.into_iter().map(|it| it.0).collect();
    let all = [
        "fs_read_file",
        "fs_list_dir",
        "fs_glob",
        "fs_grep",
        "fs_write_file",
        "fs_edit_file",
    ];
    assert_eq!(tools, all);
    assert_eq!(response["toolkit"]["tools"], json!(all));
    let read = call(&mut ada, "fs_read_file", json!({"path": "d/a.txt"})).await;
    assert!(read.to_string().contains("hello"), "{read}");
    let write = |path: &str| json!({"path": path, "content": "x"});
    call(&mut ada, "fs_write_file", write("s/b.txt")).await;
    assert_eq!(fs::read(folder.path().join("src/b.txt")).unwrap(), b"x");
    let error = refused(&mut ada, "fs_write_file", write("d/b.txt")).await;
    assert_eq!(error["detail"]["reason"], "read_only");
    for path in ["d/../src/b.txt", "/etc/passwd", "other/x"] {
        refused(&mut ada, "fs_read_file", json!({ "path": path })).await;
    }
    // Advice names the tools that it has.
    let error = refused(&mut ada, "fs_read_file", json!({"path": "d/gone"})).await;
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("; fs_list_dir lists"), "{message}");
    // With folders only for reading there is nothing that writes.
    let config = json!({"roots": {"d": {"path": "docs"}}});
    let response = configure(&mut ada, "filesystem", config).await;
    assert_eq!(response["toolkit"]["tools"], json!(all[..4]));
}

#[tokio::test]
async fn filesystem_folders_lie_below_the_workspace() {
    let folder = workspace();
    std::os::unix::fs::symlink("/etc", folder.path().join("etc")).unwrap();
    let host = host(vec![filesystem(folder.path())], &store()).await;
    let mut ada = agent(&host, "ada").await;
    for path in ["..", "/etc", "etc", "docs/../..", "docs/a.txt", "missing"] {
        let config = json!({"roots": {"r": {"path": path}}});
        let response = configure(&mut ada, "filesystem", config).await;
        assert_eq!(response["status"], "error", "{path}");
        let message = response["message"].as_str().unwrap();
        assert!(
            message.contains("`roots`") && message.contains("`r`"),
            "{message}"
        );
    }
    let roots = |count: usize| {
        let roots = (0..count).map(|at| (format!("r{at}"), json!({"path": "."})));
        json!({"roots": roots.collect::<serde_json::Map<_, _>>()})
    };
    for (count, status) in [(0, "error"), (1, "ok"), (32, "ok"), (33, "error")] {
        let response = configure(&mut ada, "filesystem", roots(count)).await;
        assert_eq!(response["status"], status, "{count}");
    }
    let bad = json!({"roots": {"a/b": {"path": "docs"}}});
    assert_eq!(
        configure(&mut ada, "filesystem", bad).await["status"],
        "error"
    );
}

//! Nothing leads out of the roots, whatever lies in them and whoever changes it meanwhile.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use a2e_caps::files::{MAX_DEPTH, MAX_PATH};
use a2e_runtime::{Calling, Client};
use a2e_wire::ErrorCode;
use serde_json::{Value, json};
use tempfile::{TempDir, tempdir};

use crate::support::{call, on_files, refused};

const SECRET: &str = "s3cret-outside";

/// A root beside a folder with a secret.
struct Ground {
    all: TempDir,
}

impl Ground {
    fn new() -> Self {
        let all = tempdir().unwrap();
        for folder in ["root", "outside"] {
            fs::create_dir(all.path().join(folder)).unwrap();
        }
        fs::write(all.path().join("outside/secret"), SECRET).unwrap();
        Self { all }
    }

    fn root(&self) -> PathBuf {
        self.all.path().join("root")
    }

    fn outside(&self) -> PathBuf {
        self.all.path().join("outside")
    }

    async fn client(&self) -> Client {
        on_files(&self.root()).await
    }
}

#[tokio::test]
async fn paths_that_lead_out_are_denied() {
    let ground = Ground::new();
    symlink(ground.outside(), ground.root().join("absolute")).unwrap();
    symlink("../outside", ground.root().join("relative")).unwrap();
    symlink("../outside/secret", ground.root().join("file")).unwrap();
    symlink("/proc/self/root", ground.root().join("magic")).unwrap();
    fs::create_dir(ground.root().join("inner")).unwrap();
    let client = ground.client().await;
    let outside = ground.outside().join("secret");
    for path in [
        "../outside/secret",
        "inner/../../outside/secret",
        "absolute/secret",
        "relative/secret",
        "file",
        "magic/etc/passwd",
        outside.to_str().unwrap(),
        "/etc/passwd",
        "..",
    ] {
        for (tool, arguments) in [
            ("read_file", json!({"path": path})),
            ("write_file", json!({"path": path, "content": "x"})),
            (
                "write_file",
                json!({"path": path, "content": "x", "create_parents": true}),
            ),
            (
                "edit_file",
                json!({"path": path, "old_text": "s", "new_text": "x"}),
            ),
            ("list_dir", json!({"path": path})),
            ("glob", json!({"path": path, "pattern": "*"})),
            ("grep", json!({"path": path, "pattern": "s3cret"})),
        ] {
            let error = refused(&client, tool, arguments).await;
            assert!(
                !error.message.contains(SECRET),
                "{tool} {path}: {}",
                error.message
            );
            let is_denied = error.code == ErrorCode::ToolDenied;
            assert!(
                is_denied || error.code == ErrorCode::ToolError,
                "{tool} {path}: {error:?}"
            );
        }
    }
    let denied = refused(&client, "read_file", json!({"path": "../outside/secret"})).await;
    assert_eq!(denied.code, ErrorCode::ToolDenied);
    let detail: Value = denied.detail.raw().deserialize().unwrap();
    assert_eq!(detail["reason"], "outside_roots");
    assert_eq!(fs::read_to_string(outside).unwrap(), SECRET);
    assert_eq!(fs::read_dir(ground.outside()).unwrap().count(), 1);
}

/// A `..` that stays below is nobody's business.
#[tokio::test]
async fn paths_that_stay_inside_are_fine() {
    let ground = Ground::new();
    fs::create_dir_all(ground.root().join("a/b")).unwrap();
    fs::write(ground.root().join("x"), "fine").unwrap();
    symlink("../../x", ground.root().join("a/b/link")).unwrap();
    let client = ground.client().await;
    for path in ["a/../x", "a/b/../../x", "./x", "a/b/link", "a//./b/link"] {
        let read = call(&client, "read_file", json!({ "path": path })).await;
        assert_eq!(read["content"], "fine", "{path}");
    }
}

/// Trees are walked without following links, so none leads out or round in circles.
#[tokio::test]
async fn links_are_not_walked() {
    let ground = Ground::new();
    symlink(ground.outside(), ground.root().join("out")).unwrap();
    symlink(".", ground.root().join("circle")).unwrap();
    fs::write(ground.root().join("x"), "s3cret inside").unwrap();
    let client = ground.client().await;
    let found = call(&client, "grep", json!({"pattern": "s3cret", "all": true})).await;
    assert_eq!(found["matches"].as_array().unwrap().len(), 1);
    let found = call(&client, "glob", json!({"pattern": "**", "all": true})).await;
    assert_eq!(found["paths"], json!(["x"]));
    let listed = call(&client, "list_dir", json!({"depth": 10})).await;
    assert_eq!(listed["entries"].as_array().unwrap().len(), 3);
}

/// What is neither a file nor a folder is left alone, and keeps nobody waiting.
#[tokio::test]
async fn pipes_and_devices_keep_nobody_waiting() {
    let ground = Ground::new();
    let pipe = ground.root().join("pipe");
    let made = std::process::Command::new("mkfifo")
        .arg(&pipe)
        .status()
        .unwrap();
    assert!(made.success());
    for (name, target) in [("d", "pipe"), ("e", "/dev/zero")] {
        let folder = ground.root().join(name);
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("x"), "needle").unwrap();
        match name {
            "d" => drop(fs::rename(&pipe, folder.join(".gitignore"))),
            _ => symlink(target, folder.join(".gitignore")).unwrap(),
        }
    }
    let client = ground.client().await;
    let found = call(&client, "grep", json!({"pattern": "needle"})).await;
    assert_eq!(found["file_count"], 2);
    let error = refused(&client, "read_file", json!({"path": "d/.gitignore"})).await;
    assert!(error.message.contains("left alone"), "{}", error.message);
    let write = json!({"path": "d/.gitignore", "content": "x"});
    assert!(
        refused(&client, "write_file", write)
            .await
            .message
            .contains("left alone")
    );
}

/// An ignore file that is too large does not count.
#[tokio::test]
async fn ignore_files_have_a_size() {
    let ground = Ground::new();
    fs::write(ground.root().join("x"), "needle").unwrap();
    let client = ground.client().await;
    for (size, files) in [(64 * 1024, 0), (64 * 1024 + 1, 1)] {
        let rules = format!("x\n#{}", "-".repeat(size - 3));
        fs::write(ground.root().join(".gitignore"), rules).unwrap();
        let found = call(&client, "grep", json!({"pattern": "needle"})).await;
        assert_eq!(found["file_count"], files, "{size}");
    }
}

#[tokio::test]
async fn paths_have_a_length() {
    let ground = Ground::new();
    let client = ground.client().await;
    let of = |bytes: usize| json!({"path": "a/".repeat(bytes / 2)});
    let error = refused(&client, "read_file", of(MAX_PATH)).await;
    assert!(!error.message.contains("at most"), "{}", error.message);
    let error = refused(&client, "read_file", of(MAX_PATH + 2)).await;
    assert!(error.message.contains("at most"), "{}", error.message);
    let zero = refused(&client, "read_file", json!({"path": "a\u{0}b"})).await;
    assert!(zero.message.contains("zero"), "{}", zero.message);
}

/// A tree that is deeper than anybody needs is searched as far as the limit.
#[tokio::test]
async fn trees_have_a_depth() {
    let ground = Ground::new();
    let mut folder = ground.root();
    for depth in 0..=MAX_DEPTH + 1 {
        fs::write(folder.join("x"), format!("needle {depth}")).unwrap();
        folder.push("d");
        fs::create_dir(&folder).unwrap();
    }
    let client = ground.client().await;
    let search = json!({"pattern": "needle", "mode": "files_with_matches", "limit": 1000});
    let found = call(&client, "grep", search).await;
    assert_eq!(found["file_count"], MAX_DEPTH + 1);
}

/// Somebody who swaps a folder for a link that leads out, again and again, while files are used.
struct Swapper {
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<u64>>,
}

impl Swapper {
    fn start(root: &Path, outside: &Path) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, root, outside) = (Arc::clone(&stop), root.to_owned(), outside.to_owned());
        let thread = std::thread::spawn(move || {
            let (there, aside) = (root.join("swap"), root.join(".aside"));
            let link = root.join(".link");
            let mut swaps = 0;
            while !stopped.load(Ordering::Relaxed) {
                fs::rename(&there, &aside).unwrap();
                symlink(&outside, &link).unwrap();
                fs::rename(&link, &there).unwrap();
                fs::remove_file(&there).unwrap();
                fs::rename(&aside, &there).unwrap();
                swaps += 1;
            }
            swaps
        });
        Self {
            stop,
            thread: Some(thread),
        }
    }

    fn stop(mut self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap()
    }
}

/// Threat: a symbolic link that is put in the way between a check and the use.
#[tokio::test(flavor = "multi_thread")]
async fn swapped_links_lead_nowhere() {
    let ground = Ground::new();
    let inside = ground.root().join("swap");
    fs::create_dir(&inside).unwrap();
    fs::write(inside.join("secret"), "inside").unwrap();
    let client = ground.client().await;
    let swapper = Swapper::start(&ground.root(), &ground.outside());
    let mut reads = 0;
    for round in 0..80 {
        for (tool, arguments) in [
            ("read_file", json!({"path": "swap/secret"})),
            ("read_file", json!({"path": "swap/../swap/secret"})),
            ("grep", json!({"pattern": ".", "all": true})),
            ("glob", json!({"pattern": "swap/*", "all": true})),
            ("list_dir", json!({"path": "swap"})),
            (
                "write_file",
                json!({"path": "swap/secret", "content": "inside"}),
            ),
            (
                "write_file",
                json!({"path": format!("swap/new{round}"), "content": "inside"}),
            ),
            (
                "edit_file",
                json!({"path": "swap/secret", "old_text": "inside", "new_text": "inside "}),
            ),
        ] {
            let outcome = client
                .tools()
                .call(tool, &arguments, Calling::default())
                .await;
            if let Ok(result) = outcome {
                let data = result.data.unwrap();
                assert!(!data.as_str().contains("s3cret"), "{tool}: {data}");
                reads += 1;
            }
        }
    }
    assert!(swapper.stop() > 0 && reads > 0);
    let left: Vec<_> = fs::read_dir(ground.outside())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(left, ["secret"]);
    assert_eq!(
        fs::read_to_string(ground.outside().join("secret")).unwrap(),
        SECRET
    );
}

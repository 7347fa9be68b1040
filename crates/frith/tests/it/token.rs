//! `frith token`, against the operator's socket of a node.

use std::path::Path;
use std::sync::Arc;

use a2e_runtime::operator::{Operations, Server};
use a2e_runtime::{DataDir, TokenStore};
use tokio_util::sync::CancellationToken;

use crate::frith;

/// What a running node has of this: its tokens and the operator's socket.
struct Node {
    folder: tempfile::TempDir,
    /// Without it the node is dead.
    runtime: tokio::runtime::Runtime,
}

impl Node {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let claim = DataDir::new(folder.path()).claim().unwrap();
        let tokens = Arc::new(TokenStore::open(&claim, None).unwrap());
        runtime.block_on(async {
            let operations = Operations::new().with_tokens(
                &tokens,
                &a2e_runtime::Host::builder().build(),
                |_| Ok(Vec::new()),
            );
            let server = Server::bind(&claim, operations).unwrap();
            tokio::spawn(server.run(CancellationToken::new()));
        });
        Self { folder, runtime }
    }

    fn token(&self, arguments: &[&str]) -> (i32, String, String) {
        token(self.folder.path(), arguments)
    }
}

fn token(data: &Path, arguments: &[&str]) -> (i32, String, String) {
    let data = data.to_str().unwrap();
    frith(&[&["token"], arguments, &["--data", data]].concat(), "")
}

#[test]
fn a_token_is_made_listed_and_revoked() {
    let node = Node::start();
    let (status, made, note) = node.token(&["new", "ada", "--label", "her laptop"]);
    assert_eq!(status, 0, "{note}");
    assert!(
        made.starts_with("frith_") && made.lines().count() == 1,
        "{made}"
    );
    assert!(note.contains("not shown again"), "{note}");
    let (_, list, _) = node.token(&["list"]);
    let lines: Vec<&str> = list.lines().collect();
    assert_eq!(lines.len(), 2, "{list}");
    assert!(lines[0].starts_with("default  tok_file "), "{list}");
    assert!(lines[1].starts_with("ada      tok_"), "{list}");
    assert!(lines[1].ends_with("just now        her laptop"), "{list}");
    assert!(!list.contains(made.trim()), "{list}");
    let (status, out, _) = node.token(&["revoke", "ada"]);
    assert_eq!(status, 0);
    assert!(out.starts_with("revoked tok_"), "{out}");
    let (_, out, _) = node.token(&["revoke", "default"]);
    assert!(out.contains("a new token of `default` is in "), "{out}");
    let (status, _, error) = node.token(&["revoke", "ada"]);
    assert_eq!(status, 1);
    assert!(
        error.contains("no agent and no token `ada`; `frith token list`"),
        "{error}"
    );
    let (status, _, error) = node.token(&["new", "a b"]);
    assert_eq!(status, 1);
    assert!(error.contains("cannot be the name of an agent"), "{error}");
}

#[test]
fn programs_get_json() {
    let node = Node::start();
    let json = |arguments: &[&str]| -> serde_json::Value {
        let (status, out, error) = node.token(&[arguments, &["--json"]].concat());
        assert_eq!(status, 0, "{error}");
        serde_json::from_str(&out).unwrap()
    };
    let made = json(&["new", "ada"]);
    let list = json(&["list"]);
    assert_eq!(list[1]["id"], made["id"]);
    assert_eq!(list[1]["agent"], "ada");
    assert!(list[1]["created"].is_u64(), "{list}");
    let revoked = json(&["revoke", made["id"].as_str().unwrap()]);
    assert_eq!(revoked["ids"][0], made["id"]);
}

#[test]
fn without_a_node_it_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let (status, _, error) = token(folder.path(), &["list"]);
    assert_eq!(status, 1);
    let data = folder.path().display();
    let expected =
        format!("frith: no node is running on {data}; start one with `frith up --data {data}`\n");
    assert_eq!(error, expected);
    // A node that was killed leaves its socket behind.
    let Node { folder, runtime } = Node::start();
    drop(runtime);
    let (status, _, error) = token(folder.path(), &["list"]);
    assert_eq!(status, 1);
    assert!(error.contains("no node is running"), "{error}");
}

//! A node that runs on this machine, and commands that find it.

use crate::frith;
use crate::node::Node;

#[test]
fn commands_find_the_node_of_a_data_directory() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(folder.path(), "{}");
    let data = node.data();
    let ask = |arguments: &[&str], input: &str| {
        frith(
            &[arguments, &["--data", data.to_str().unwrap()]].concat(),
            input,
        )
    };
    let (status, out, error) = ask(&["tools"], "");
    assert_eq!((status, out.lines().count()), (0, 10), "{error}");
    let (status, out, error) = ask(&["send", "-"], r#"{"type":"ping","id":"1"}"#);
    assert_eq!(status, 0, "{error}");
    assert!(out.contains("\"pong\""), "{out}");
    for kind in ["http", "ws", "unix"] {
        let host = node.at(kind);
        let call = ["call", "echo", r#"{"x":1}"#, "--json", "--host", host];
        let (status, out, error) = frith(&[&call[..], &["--token", &node.token]].concat(), "");
        assert_eq!(status, 0, "{host}: {error}");
        assert!(out.contains("\"x\":1"), "{out}");
        let (status, _, error) = frith(&[&call[..], &["--token", "wrong"]].concat(), "");
        assert_eq!(status, 1);
        assert!(error.contains("auth_failed"), "{error}");
    }
}

#[test]
fn a_data_directory_without_a_node() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().to_str().unwrap();
    let (status, _, error) = frith(&["ping", "--data", data], "");
    assert_eq!(status, 1);
    assert!(error.contains("no node runs there"), "{error}");
}

//! A node that is somebody else than the default: `identity` in its configuration.

use std::fs;

use serde_json::Value;

use crate::node::Node;
use crate::{frith, frith_in};

#[test]
fn a_node_acts_as_the_identity_that_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("passphrase"), "open sesame\n").unwrap();
    let data = folder.join("data");
    let data = data.to_str().unwrap();
    let file = folder.join("passphrase");
    let new = ["id", "new", "web", "--encrypt", "--passphrase-file"];
    let new = [
        &new[..],
        &[file.to_str().unwrap(), "--data", data, "--json"],
    ]
    .concat();
    let (status, out, error) = frith(&new, "");
    assert_eq!(status, 0, "{error}");
    let made: Value = serde_json::from_str(&out).unwrap();
    let config = "identity: {name: web, passphrase: 'file:passphrase'}\n";
    let mut node = Node::start(folder, config);
    assert_eq!(made["did"], node.at("did"));
    node.signal("-TERM");
    assert_eq!(node.wait(), Some(0));
    // What it signed is its own.
    let verify = ["audit", "verify", "--id", "web", "--data", data];
    let (status, out, error) = frith(&verify, "");
    assert_eq!(status, 0, "{out}{error}");
    for (config, hint) in [
        ("identity: {name: web}\n", "`identity.passphrase`"),
        (
            "identity: {name: other}\n",
            "`frith id new other` makes one",
        ),
    ] {
        fs::write(folder.join("frith.yaml"), config).unwrap();
        let up = ["up", "--listen", "127.0.0.1:0", "--data", data];
        let (status, _, error) = frith_in(folder, &up, "");
        assert_eq!(status, 1);
        assert!(error.contains(hint), "{error}");
    }
}

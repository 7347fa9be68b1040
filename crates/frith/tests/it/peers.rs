//! `frith peer` and `frith trust`, with a node and without one.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::{Value, json};

use crate::frith;
use crate::identity::User;
use crate::node::Node;

const ALICE: &str = "did:key:z6MktwupdmLXVVqTzCw4i46r4uGyosGXRnR3XjN4Zq7oMMsw";
/// The same key as the base specification's pseudo-code spells it.
const BARE: &str = "did:key:zFVen3X669xLzsi6N2V91DoiyzHzg1uAgqiT8jZ9nS96Z";
const KEY: &str = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo";
const HASH: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
const URL: &str = "https://127.0.0.1:9443/a2a/handshake";

fn refused(user: &User, arguments: &[&str], status: i32, why: &str) {
    let (found, out, error) = user.run(arguments);
    assert_eq!(found, status, "{arguments:?}: {out}{error}");
    assert!(error.contains(why), "{arguments:?}: {error}");
}

#[test]
fn an_agent_is_remembered_by_its_address_and_its_did() {
    let user = User::new();
    assert!(
        user.ok(&["peer", "list"])
            .contains("no agent is remembered")
    );
    assert!(!user.path("data").exists(), "looking makes nothing");
    fs::create_dir(user.path("data")).unwrap();
    let out = user.ok(&[
        "peer",
        "add",
        "alice",
        "https://127.0.0.1:9443",
        "--did",
        BARE,
    ]);
    assert!(
        out.contains(&format!("added alice: {ALICE} at {URL}")),
        "{out}"
    );
    assert!(out.contains("no manifest is pinned"), "{out}");
    let mode = fs::metadata(user.path("data/trust.json")).unwrap();
    assert_eq!(mode.permissions().mode() & 0o7777, 0o600);
    let list = user.json(&["peer", "list"]);
    assert_eq!(
        list,
        json!([{"name": "alice", "url": URL, "did": ALICE, "manifest_hash": null, "signed_at": null,
            "blocked": false}])
    );
    let add = ["peer", "add", "alice", URL, "--did", ALICE];
    refused(&user, &add, 1, "there is a peer `alice` already");
    let add = ["peer", "add", "a b", URL, "--did", ALICE];
    refused(&user, &add, 1, "is no name");
    let add = ["peer", "add", "bob", "http://x/y", "--did", ALICE];
    refused(&user, &add, 1, "it must begin with https://");
    let add = ["peer", "add", "bob", URL, "--did", "did:key:z6Mk"];
    refused(&user, &add, 2, "--did: `did:key:z6Mk` cannot be used");
    refused(
        &user,
        &["peer", "add", "bob", URL],
        2,
        "no node is running that could ask there",
    );
    refused(
        &user,
        &["peer", "remove", "bob"],
        1,
        "`frith peer list` shows",
    );
    user.ok(&["peer", "remove", "alice"]);
    assert_eq!(user.json(&["peer", "list"]), json!([]));
}

#[test]
fn a_manifest_is_verified_and_pinned() {
    let user = User::new();
    user.ok(&["id", "new"]);
    user.ok(&["manifest", "init", "--endpoint", "https://127.0.0.1:9443"]);
    let file = "agent-manifest.json";
    let manifest = user.read(file);
    let add = [
        "peer",
        "add",
        "me",
        "https://127.0.0.1:9443",
        "--manifest",
        file,
    ];
    let added = user.json(&add);
    assert_eq!(added["did"], manifest["agent_did"]);
    let verified = user.json(&["manifest", "verify", file]);
    assert_eq!(added["manifest_hash"], verified["manifest_hash"]);
    let list = user.json(&["peer", "list"]);
    assert_eq!(list[0]["manifest_hash"], verified["manifest_hash"]);
    assert!(list[0]["signed_at"].is_i64(), "{list}");
    assert!(user.ok(&["peer", "list"]).contains("pinned  sha256:"));
    let pins = user.json(&["trust", "pins"]);
    assert_eq!(
        (&pins[0]["did"], &pins[0]["peer"]),
        (&manifest["agent_did"], &json!("me"))
    );
    // An address that its agent does not name, somebody else's manifest, one that was changed.
    let add = [
        "peer",
        "add",
        "x",
        "https://127.0.0.1:1",
        "--manifest",
        file,
    ];
    refused(
        &user,
        &add,
        2,
        "it lists https://127.0.0.1:9443/a2a/handshake",
    );
    let add = ["peer", "add", "x", URL, "--manifest", file, "--did", ALICE];
    refused(&user, &add, 1, "INVALID_MANIFEST");
    let mut changed = manifest;
    changed["agent_id"] = json!("other");
    user.write("changed.json", &changed);
    let add = ["peer", "add", "x", URL, "--manifest", "changed.json"];
    refused(&user, &add, 1, "INVALID_MANIFEST");
    user.ok(&["peer", "remove", "me"]);
    assert_eq!(user.json(&["trust", "pins"]), json!([]));
}

#[test]
fn what_the_operator_says_of_trust() {
    let user = User::with_data();
    let nothing = json!({"anchors": [], "pins": [], "blocked": []});
    assert_eq!(user.json(&["trust", "list"]), nothing);
    user.ok(&[
        "trust",
        "anchors",
        "add",
        "acme",
        ALICE,
        "--key",
        KEY,
        "--min-level",
        "delegated",
    ]);
    user.ok(&[
        "trust",
        "pins",
        "add",
        "did:web:Example.com",
        "--manifest",
        HASH,
        "--key",
        HASH,
    ]);
    user.ok(&["trust", "block", BARE, "--reason", "it sends nonsense"]);
    let list = user.json(&["trust", "list"]);
    assert_eq!(
        list["anchors"],
        json!([{"name": "acme", "did": ALICE, "public_key": KEY, "min_trust_level": "delegated",
            "configured": false}])
    );
    let pin = &list["pins"][0];
    assert_eq!(pin["did"], "did:web:example.com", "by its one name");
    assert_eq!(
        (&pin["manifest"], &pin["keys"]),
        (&json!(HASH), &json!([HASH]))
    );
    assert_eq!(list["blocked"][0]["did"], ALICE, "by its one name");
    assert!(list["blocked"][0]["since"].is_u64(), "{list}");
    let text = user.ok(&["trust", "list"]);
    assert!(
        text.contains(&format!(
            "anchor   acme  {ALICE}  from delegated on  key {KEY}"
        )),
        "{text}"
    );
    assert!(
        text.contains(&format!("blocked  {ALICE}  it sends nonsense")),
        "{text}"
    );
    assert_eq!(user.ok(&["trust", "anchors"]).lines().count(), 1);
    user.ok(&["trust", "anchors", "remove", "acme"]);
    user.ok(&["trust", "pins", "remove", "did:web:example.com"]);
    user.ok(&["trust", "unblock", ALICE]);
    assert_eq!(user.json(&["trust", "list"]), nothing);
}

/// Each says what to do instead.
#[test]
fn what_cannot_be_said_of_trust() {
    let user = User::with_data();
    for (arguments, status, why) in [
        (
            &["trust", "block", "mallory"][..],
            2,
            "there is no peer `mallory`",
        ),
        (
            &["trust", "block", ALICE, "--reason", "a\u{1b}b"],
            1,
            "no control characters",
        ),
        (
            &["trust", "unblock", "did:web:a.example.com"],
            1,
            "`frith trust list` shows",
        ),
        (
            &["trust", "pins", "add", ALICE],
            2,
            "--manifest HASH, --key HASH",
        ),
        (
            &["trust", "pins", "add", ALICE, "--manifest", "sha256:0"],
            2,
            "--manifest",
        ),
        (
            &["trust", "pins", "remove", ALICE],
            1,
            "`frith trust pins list` shows",
        ),
        (
            &["trust", "anchors", "add", "x", ALICE, "--key", "AA"],
            2,
            "--key: a public key is 32 bytes",
        ),
        (
            &["trust", "anchors", "add", "x", ALICE, "--min-level", "best"],
            2,
            "self, delegated or verified",
        ),
        (
            &["trust", "anchors", "remove", "x"],
            1,
            "`frith trust anchors list` shows",
        ),
    ] {
        refused(&user, arguments, status, why);
    }
}

#[test]
fn a_damaged_book_is_not_read_as_an_empty_one() {
    let user = User::with_data();
    user.ok(&["trust", "block", ALICE]);
    let file = user.path("data/trust.json");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace("blocked", "blokced")).unwrap();
    refused(
        &user,
        &["trust", "list"],
        1,
        "trust.json is damaged; put back a copy",
    );
    fs::write(&file, text).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    refused(&user, &["trust", "list"], 1, "run `chmod 600");
}

fn ask(data: &Path, arguments: &[&str]) -> (i32, String, String) {
    let data = data.to_str().unwrap();
    frith(&[arguments, &["--data", data]].concat(), "")
}

fn listed(data: &Path) -> Value {
    let (status, out, error) = ask(data, &["trust", "list", "--json"]);
    assert_eq!(status, 0, "{error}");
    serde_json::from_str(&out).unwrap()
}

/// A node that runs does it itself, keeps it beyond its death and puts it on record.
#[test]
fn a_running_node_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let config = "trust: {blocked: ['did:web:evil.example.com']}\n";
    let node = Node::start(folder.path(), config);
    let data = node.data();
    let (status, _, error) = ask(&data, &["trust", "block", ALICE]);
    assert_eq!(status, 0, "{error}");
    let (status, _, error) = ask(
        &data,
        &["peer", "add", "bob", URL, "--did", "did:web:b.example.com"],
    );
    assert_eq!(status, 0, "{error}");
    let (status, _, error) = ask(&data, &["peer", "add", "bob", URL, "--did", ALICE]);
    assert_eq!(status, 1);
    assert!(error.contains("there is a peer `bob` already"), "{error}");
    node.crash();

    let node = Node::start(folder.path(), config);
    let blocked = |list: &Value| -> Vec<(String, bool)> {
        let rows = list["blocked"].as_array().unwrap().iter();
        let row = |row: &Value| {
            (
                row["did"].as_str().unwrap().to_owned(),
                row["configured"] == true,
            )
        };
        rows.map(row).collect()
    };
    let evil = ("did:web:evil.example.com".to_owned(), true);
    assert_eq!(blocked(&listed(&data)), [evil, (ALICE.to_owned(), false)]);
    let (_, out, _) = ask(&data, &["trust", "list"]);
    assert!(
        out.contains("blocked  did:web:evil.example.com  (configuration)"),
        "{out}"
    );
    let (_, out, _) = ask(&data, &["peer", "list"]);
    assert!(out.contains("bob  did:web:b.example.com"), "{out}");
    let (_, out, _) = ask(&data, &["audit", "tail", "--json"]);
    assert!(
        out.contains("trust.block") && out.contains("peer.add"),
        "{out}"
    );

    // The configuration is the operator's word too, once he applies it.
    let write = |text: &str| fs::write(folder.path().join("frith.yaml"), text).unwrap();
    write("trust: {blocked: ['did:web:worse.example.com']}\n");
    let (status, _, error) = ask(&data, &["config", "apply"]);
    assert_eq!(status, 0, "{error}");
    let worse = ("did:web:worse.example.com".to_owned(), true);
    assert_eq!(
        blocked(&listed(&data)),
        [worse.clone(), (ALICE.to_owned(), false)]
    );
    // A file alone blocks more, and never fewer.
    write("trust: {blocked: ['did:web:worst.example.com']}\n");
    node.signal("-HUP");
    let worst = ("did:web:worst.example.com".to_owned(), true);
    while blocked(&listed(&data)) != [worse.clone(), worst.clone(), (ALICE.to_owned(), false)] {}
}

/// A command does not say that something is done which the configuration undoes.
#[test]
fn what_the_configuration_says_is_right() {
    let folder = tempfile::tempdir().unwrap();
    let config = format!(
        "trust: {{blocked: ['{ALICE}'], anchors: {{acme: {{did: '{ALICE}'}}}}, pins: [{{did: '{ALICE}', \
         manifest: '{HASH}'}}]}}\n"
    );
    let node = Node::start(folder.path(), &config);
    let data = node.data();
    let before = listed(&data);
    for (add, remove, section) in [
        (
            ["block", ALICE].as_slice(),
            ["unblock", ALICE].as_slice(),
            "trust.blocked",
        ),
        (
            &["anchors", "add", "acme", ALICE],
            &["anchors", "remove", "acme"],
            "trust.anchors",
        ),
        (
            &["pins", "add", ALICE, "--manifest", HASH],
            &["pins", "remove", ALICE],
            "trust.pins",
        ),
    ] {
        let trust = |arguments: &[&str]| ask(&data, &[&["trust"], arguments].concat());
        let is_told =
            |error: &str| error.contains(&format!("`{section}` of the configuration has"));
        let (status, _, error) = trust(remove);
        assert!(status == 1 && is_told(&error), "{remove:?}: {error}");
        let (status, _, error) = trust(add);
        assert!(status == 0 && is_told(&error), "{add:?}: {error}");
        assert_ne!(listed(&data), before);
        let (status, out, error) = trust(remove);
        assert!(status == 1 && is_told(&error), "{remove:?}: {out}{error}");
        assert_eq!(listed(&data), before);
    }
    ask(&data, &["peer", "add", "alice", URL, "--did", ALICE]);
    let (_, _, error) = ask(&data, &["peer", "call", "alice", "frith.ping"]);
    assert!(
        error.contains("`trust.blocked` of the configuration"),
        "{error}"
    );
}

#[test]
fn a_configuration_with_a_wrong_did_starts_no_node() {
    let user = User::new();
    let config = "trust: {anchors: {acme: {did: 'did:key:z6Mk'}}}\n";
    fs::write(user.path("frith.yaml"), config).unwrap();
    let up = [
        "up",
        "--listen",
        "127.0.0.1:0",
        "--a2a-listen",
        "127.0.0.1:0",
    ];
    refused(&user, &up, 1, "`trust.anchors.acme` of the configuration");
}

/// A command that changes something refuses a data directory that does not exist: it may be mistyped, and
/// what is written there holds for no node.
#[test]
fn data_directory_that_does_not_exist_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing");
    for words in [
        &["trust", "block", ALICE][..],
        &["trust", "unblock", ALICE],
        &["trust", "anchors", "add", "acme", ALICE],
        &["trust", "anchors", "remove", "acme"],
        &["trust", "pins", "add", ALICE, "--manifest", HASH],
        &["trust", "pins", "remove", ALICE],
        &["peer", "add", "alice", URL, "--did", ALICE],
        &["peer", "remove", "alice"],
        &["peer", "sessions"],
        &["token", "new", "ada"],
        &["token", "list"],
        &["token", "revoke", "ada"],
        &["approvals"],
        &["approve", "x"],
        &["agents", "list"],
        &["config", "apply"],
        &["status"],
    ] {
        let (status, out, error) = ask(&missing, words);
        assert_eq!(status, 1, "{words:?}: {out}");
        // Those that only a running node can do name that.
        let missing_text = missing.display();
        let says = match words[0] {
            "trust" => format!("there is no data directory {missing_text}"),
            "peer" if words[1] != "sessions" => {
                format!("there is no data directory {missing_text}")
            }
            _ => format!("no node is running on {missing_text}"),
        };
        assert!(error.contains(&says), "{words:?}: {error}");
        assert!(!missing.exists(), "{words:?}");
    }
    // One that is there is used, and what is said without a node holds when one starts.
    let data = folder.path().join("data");
    fs::create_dir(&data).unwrap();
    let (status, out, _) = ask(&data, &["trust", "block", ALICE]);
    assert_eq!(status, 0);
    assert_eq!(
        out,
        format!("blocked {ALICE}\nno node is running here; it holds when one starts\n")
    );
    assert!(out.lines().all(|line| line.chars().count() <= 80), "{out}");
}

/// A certificate that is not trusted is named as such, with what to do about it.
#[test]
fn certificate_that_is_not_trusted_is_named() {
    let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
    let made = rcgen::generate_simple_self_signed(names).unwrap();
    for folder in &folders {
        fs::write(folder.path().join("cert.pem"), made.cert.pem()).unwrap();
    }
    let key = made.signing_key.serialize_pem();
    fs::write(folders[0].path().join("key.pem"), key).unwrap();
    let tls = "a2a: {listen: '127.0.0.1:0', tls: {certificate: cert.pem, key: key.pem}}\n";
    let other = Node::start(folders[0].path(), tls);
    let (url, did) = (other.at("a2a"), other.at("did"));
    let config = "a2a: {listen: '127.0.0.1:0'}\n";
    let node = Node::start(folders[1].path(), config);
    let data = node.data();
    let (status, _, error) = ask(&data, &["peer", "add", "bob", url]);
    assert_eq!(status, 1, "{error}");
    let said = error.contains("is not trusted here") && error.contains("a2a.tls.roots");
    assert!(said, "{error}");
    let (status, _, error) = ask(&data, &["peer", "add", "bob", url, "--did", did]);
    assert_eq!(status, 0, "{error}");
    for words in [
        &["peer", "probe", "bob"][..],
        &["peer", "call", "bob", "frith.ping"],
    ] {
        let (status, out, error) = ask(&data, words);
        assert_eq!(status, 1, "{words:?}: {out}{error}");
        let all = format!("{out}{error}");
        let said = all.contains("its certificate is not trusted here");
        assert!(said && all.contains("a2a.tls.roots"), "{words:?}: {all}");
    }
    node.crash();
    let trusting = "a2a: {listen: '127.0.0.1:0', tls: {roots: [cert.pem]}}\n";
    let node = Node::start(folders[1].path(), trusting);
    let (status, out, error) = ask(&node.data(), &["peer", "probe", "bob"]);
    assert_eq!(status, 0, "{out}{error}");
}

//! `frith id`, `manifest`, `resolve`, `endorse`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;

/// A user with a data directory and a folder of their own.
struct User {
    home: TempDir,
}

impl User {
    fn new() -> Self {
        Self {
            home: TempDir::new().unwrap(),
        }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_frith"));
        command
            .args(arguments)
            .current_dir(self.home.path())
            .env("FRITH_DATA", self.home.path().join("data"))
            .env_remove("FRITH_PASSPHRASE");
        command
    }

    /// Exit status, standard output, standard error.
    fn run(&self, arguments: &[&str]) -> (i32, String, String) {
        outcome(&mut self.command(arguments))
    }

    /// Standard output of what must succeed.
    fn ok(&self, arguments: &[&str]) -> String {
        let (status, out, error) = self.run(arguments);
        assert_eq!(status, 0, "{arguments:?}: {out}{error}");
        out
    }

    fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.ok(&[arguments, &["--json"]].concat())).unwrap()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    fn read(&self, name: &str) -> Value {
        serde_json::from_slice(&fs::read(self.path(name)).unwrap()).unwrap()
    }

    fn write(&self, name: &str, value: &Value) {
        fs::write(self.path(name), value.to_string()).unwrap();
    }

    fn kid(&self, name: &str, index: usize) -> String {
        let shown = self.json(&["id", "show", name]);
        shown["keys"][index]["kid"].as_str().unwrap().to_owned()
    }
}

fn outcome(command: &mut Command) -> (i32, String, String) {
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (
        output.status.code().unwrap(),
        text(output.stdout),
        text(output.stderr),
    )
}

/// What an independent check says of a manifest.
fn foreign(file: &Path) -> (i32, String, String) {
    let script = testkit::workspace().join("conformance/a2a_identity.py");
    outcome(
        Command::new(testkit::python())
            .arg(script)
            .arg("manifest")
            .arg(file),
    )
}

#[test]
fn an_identity_is_made_shown_and_listed() {
    let user = User::new();
    assert!(
        user.ok(&["id", "list"])
            .contains("`frith id new` makes one")
    );
    let made = user.json(&["id", "new"]);
    let did = made["did"].as_str().unwrap();
    assert!(did.starts_with("did:key:z6Mk"));
    assert_eq!(user.json(&["id", "show"]), made);
    user.ok(&["id", "new", "web", "--did", "did:web:Agent.example.com/x"]);
    let listed = user.json(&["id", "list"]);
    assert_eq!(listed[0], json!({"name": "default", "did": did}));
    assert_eq!(listed[1]["did"], "did:web:agent.example.com:x");
    assert!(user.ok(&["id", "show"]).contains("signs"));
}

#[test]
fn secrets_are_for_the_owner_alone_and_never_shown() {
    let user = User::new();
    user.ok(&["id", "new"]);
    let folder = user.path("data/identity/default");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&folder), 0o700);
    let kid = user.kid("default", 0);
    let secret = folder.join(format!("{kid}.pem"));
    assert_eq!(mode(&secret), 0o600);
    let pem = fs::read_to_string(&secret).unwrap();
    let body = pem.lines().nth(1).unwrap();
    for command in [
        &["id", "show"][..],
        &["id", "show", "--json"],
        &["id", "export"],
        &["manifest", "init"],
    ] {
        assert!(!user.ok(command).contains(body));
    }
    assert_eq!(user.ok(&["id", "export", "--secret", &kid]), pem);
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o640)).unwrap();
    let (status, _, error) = user.run(&["manifest", "init", "--force"]);
    assert_eq!(status, 1);
    assert!(error.contains("chmod 600"), "{error}");
}

#[test]
fn a_passphrase_locks_the_key() {
    let user = User::new();
    let (status, _, error) = user.run(&["id", "new", "--encrypt"]);
    assert_eq!(status, 1);
    assert!(
        error.contains("--passphrase-file FILE or set FRITH_PASSPHRASE"),
        "{error}"
    );
    fs::write(user.path("pass"), "correct horse\n").unwrap();
    user.ok(&["id", "new", "--encrypt", "--passphrase-file", "pass"]);
    assert!(
        user.ok(&["id", "export", "--secret", &user.kid("default", 0)])
            .starts_with("-----BEGIN ENCRYPTED")
    );
    let (status, _, error) = user.run(&["manifest", "init"]);
    assert_eq!(
        (status, error.contains("the key is encrypted")),
        (1, true),
        "{error}"
    );
    user.ok(&["manifest", "init", "--passphrase-file", "pass"]);
    let mut wrong = user.command(&["manifest", "sign", "agent-manifest.json"]);
    let (status, _, error) = outcome(wrong.env("FRITH_PASSPHRASE", "horse"));
    assert_eq!(
        (status, error.contains("wrong passphrase")),
        (1, true),
        "{error}"
    );
    let mut right = user.command(&["manifest", "sign", "agent-manifest.json"]);
    assert_eq!(outcome(right.env("FRITH_PASSPHRASE", "correct horse")).0, 0);
}

#[test]
fn a_key_moves_to_another_machine() {
    let (one, two) = (User::new(), User::new());
    let made = one.json(&["id", "new"]);
    let pem = one.ok(&["id", "export", "--secret", &one.kid("default", 0)]);
    fs::write(two.path("key.pem"), pem).unwrap();
    assert_eq!(two.json(&["id", "import", "key.pem"])["did"], made["did"]);
    let (status, _, error) = two.run(&["id", "import", "key.pem"]);
    assert_eq!((status, error.contains("already")), (1, true), "{error}");
    fs::write(two.path("key.pem"), "nonsense").unwrap();
    let (status, _, error) = two.run(&["id", "import", "key.pem", "other"]);
    assert_eq!(
        (status, error.contains("not a private key in PEM")),
        (1, true),
        "{error}"
    );
}

#[test]
fn keys_rotate_and_are_revoked() {
    let user = User::new();
    user.ok(&["id", "new", "--did", "did:web:agent.example.com"]);
    user.ok(&["manifest", "init"]);
    let before = user.read("agent-manifest.json");
    assert!(user.ok(&["id", "rotate"]).contains("signs in 60 min"));
    assert_eq!(user.run(&["id", "rotate"]).0, 1, "one at a time");
    user.ok(&["manifest", "sign", "agent-manifest.json"]);
    let after = user.read("agent-manifest.json");
    assert_eq!(after["public_keys"].as_array().unwrap().len(), 2);
    assert_ne!(before["manifest_hash"], after["manifest_hash"]);
    let (first, second) = (user.kid("default", 0), user.kid("default", 1));
    user.ok(&["id", "revoke", &first]);
    assert!(
        !user
            .path(&format!("data/identity/default/{first}.pem"))
            .exists()
    );
    user.ok(&["manifest", "sign", "agent-manifest.json"]);
    fs::write(user.path("did.json"), user.ok(&["id", "export"])).unwrap();
    let verified = user.json(&[
        "manifest",
        "verify",
        "agent-manifest.json",
        "--document",
        "did.json",
    ]);
    assert_eq!(verified["kid"], json!(second));
    let (status, _, error) = user.run(&["id", "revoke", "nobody"]);
    assert_eq!(
        (status, error.contains("`frith id show default` lists them")),
        (2, true),
        "{error}"
    );
    let (status, _, error) = user.run(&["id", "revoke", &second]);
    assert_eq!(
        (status, error.contains("rotate first")),
        (1, true),
        "{error}"
    );
}

/// What is done: an independent check of a manifest agrees.
#[test]
fn a_manifest_verifies_here_and_elsewhere() {
    let user = User::new();
    user.ok(&["id", "new"]);
    user.ok(&[
        "manifest",
        "init",
        "--agent-id",
        "translator",
        "--capability",
        "nlp.translate.v1",
        "--endpoint",
        "https://agent.example.com",
    ]);
    let verified = user.json(&["manifest", "verify", "agent-manifest.json"]);
    assert_eq!(
        (&verified["valid"], &verified["profile"]),
        (&json!(true), &json!(true))
    );
    let file = user.path("agent-manifest.json");
    let (status, out, _) = foreign(&file);
    assert_eq!((status, out.as_str()), (0, "valid\n"));
    let manifest = user.read("agent-manifest.json");
    assert_eq!(
        manifest["endpoints"][1]["url"],
        "https://agent.example.com/a2a/request"
    );
    // Signing again what did not change keeps its hash.
    user.ok(&["manifest", "sign", "agent-manifest.json"]);
    assert_eq!(
        user.read("agent-manifest.json")["manifest_hash"],
        manifest["manifest_hash"]
    );
    assert_eq!(foreign(&file).0, 0);
    assert!(
        user.ok(&["manifest", "show", "agent-manifest.json"])
            .contains("nlp.translate.v1")
    );
    let hash = manifest["manifest_hash"].as_str().unwrap();
    user.ok(&["manifest", "verify", "agent-manifest.json", "--pin", hash]);
    assert_eq!(
        user.run(&["manifest", "init"]).0,
        1,
        "nothing is overwritten"
    );
}

const INVALID: &str = "INVALID_MANIFEST (manifest_invalid)";
const UNVERIFIED: &str = "UNVERIFIED_AGENT (verification_failed)";

/// The ways of the vectors `jws_reject`: each refused here with its code, and elsewhere.
#[test]
fn a_manipulated_signature_is_refused() {
    let user = User::new();
    user.ok(&["id", "new"]);
    user.ok(&["manifest", "init"]);
    let good = user.read("agent-manifest.json");
    let jws = good["manifest_signature"].as_str().unwrap().to_owned();
    let parts: Vec<&str> = jws.split('.').collect();
    let kid = good["public_keys"][0]["kid"].as_str().unwrap();
    let header = |text: String| {
        format!(
            "{}.{}.{}",
            canonical::base64url::encode(text.as_bytes()),
            parts[1],
            parts[2]
        )
    };
    let with_typ = |rest: &str| {
        header(format!(
            r#"{{{rest}"kid":"{kid}","typ":"a2a-manifest+jws"}}"#
        ))
    };
    let (last, other) = jws.split_at(jws.len() - 1);
    let trailing = format!("{last}{}", if other == "B" { "C" } else { "B" });
    for (why, signature, code) in [
        ("padding", format!("{jws}="), INVALID),
        ("trailing bits", trailing, INVALID),
        (
            "detached payload",
            format!("{}..{}", parts[0], parts[2]),
            INVALID,
        ),
        (
            "empty signature",
            format!("{}.{}.", parts[0], parts[1]),
            INVALID,
        ),
        ("alg none", with_typ(r#""alg":"none","#), INVALID),
        ("alg HS256", with_typ(r#""alg":"HS256","#), INVALID),
        (
            "crit",
            with_typ(r#""alg":"EdDSA","crit":["b64"],"b64":false,"#),
            INVALID,
        ),
        (
            "jwk",
            with_typ(r#""alg":"EdDSA","jwk":{"kty":"OKP"},"#),
            INVALID,
        ),
        (
            "duplicate member",
            with_typ(r#""alg":"EdDSA","alg":"EdDSA","#),
            INVALID,
        ),
        (
            "wrong typ",
            header(format!(
                r#"{{"alg":"EdDSA","kid":"{kid}","typ":"a2a-request+jws"}}"#
            )),
            INVALID,
        ),
        (
            "unknown kid",
            header(r#"{"alg":"EdDSA","kid":"other","typ":"a2a-manifest+jws"}"#.into()),
            UNVERIFIED,
        ),
        (
            "another signature",
            format!("{}.{}.{}", parts[0], parts[1], "A".repeat(86)),
            UNVERIFIED,
        ),
        (
            "S not reduced",
            format!("{}.{}.{}", parts[0], parts[1], unreduced(parts[2])),
            UNVERIFIED,
        ),
    ] {
        let mut changed = good.clone();
        changed["manifest_signature"] = json!(signature);
        refused(&user, &changed, code, why);
    }
}

/// The content changed after it was signed.
#[test]
fn a_manipulated_manifest_is_refused() {
    let user = User::new();
    user.ok(&["id", "new"]);
    user.ok(&["manifest", "init"]);
    let good = user.read("agent-manifest.json");
    for (name, value, code) in [
        ("agent_id", json!("other"), INVALID),
        ("unheard_of", json!(1), INVALID),
        (
            "expires_at",
            json!(1),
            "INVALID_MANIFEST (manifest_expired)",
        ),
        ("manifest_version", json!("2.0"), INVALID),
        (
            "agent_did",
            json!("did:key:z6Mkon3Necd6NkkyfoGoHxid2znGc59LU3K7mubaRcFbLfLX"),
            UNVERIFIED,
        ),
        (
            "manifest_hash",
            json!(format!("sha256:{}", "0".repeat(64))),
            INVALID,
        ),
        ("public_keys", json!([]), INVALID),
        (
            "endpoints",
            json!([{"type": "handshake", "url": "http://a.example.com"}]),
            INVALID,
        ),
    ] {
        let mut changed = good.clone();
        changed[name] = value;
        refused(&user, &changed, code, name);
    }
}

/// The same signature with the group order added to S.
fn unreduced(signature: &str) -> String {
    let mut bytes = canonical::base64url::decode(signature).unwrap();
    let order = [
        0xed, 0xd3, 0xf5, 0x5c, 0x1a, 0x63, 0x12, 0x58, 0xd6, 0x9c, 0xf7, 0xa2, 0xde, 0xf9, 0xde,
        0x14, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10_u8,
    ];
    let mut carry = 0_u16;
    for (byte, add) in bytes[32..].iter_mut().zip(order) {
        let sum = u16::from(*byte) + u16::from(add) + carry;
        *byte = u8::try_from(sum & 0xff).unwrap();
        carry = sum >> 8;
    }
    canonical::base64url::encode(&bytes)
}

fn refused(user: &User, manifest: &Value, code: &str, why: &str) {
    user.write("changed.json", manifest);
    let (status, out, _) = user.run(&["manifest", "verify", "changed.json"]);
    assert_eq!(status, 1, "{why}: {out}");
    assert!(
        out.starts_with(&format!("changed.json: {code}: ")),
        "{why}: {out}"
    );
    assert_eq!(out.lines().count(), 1, "one line: {out}");
    // Changes that a library forgives are left to ours.
    if !["padding", "trailing bits"].contains(&why) {
        assert_eq!(foreign(&user.path("changed.json")).0, 1, "{why}");
    }
}

#[test]
fn verify_says_what_it_needs() {
    let user = User::new();
    user.ok(&["id", "new", "--did", "did:web:agent.example.com:x"]);
    user.ok(&["manifest", "init"]);
    let (status, _, error) = user.run(&["manifest", "verify", "agent-manifest.json"]);
    assert_eq!(status, 2);
    assert!(
        error.contains("https://agent.example.com/.well-known/did.json"),
        "{error}"
    );
    let (status, _, error) = user.run(&["manifest", "verify", "agent-manifest.json", "--pin", "x"]);
    assert_eq!(
        (status, error.contains("--pin must be")),
        (2, true),
        "{error}"
    );
    let (status, out, _) = user.run(&[
        "manifest",
        "verify",
        "agent-manifest.json",
        "--did",
        "did:github:a/b",
    ]);
    assert_eq!(
        (status, out.contains("`agent_did` is not the DID sought")),
        (1, true),
        "{out}"
    );
    fs::write(user.path("broken.json"), "{\"a\":1,\"a\":2}").unwrap();
    let (status, out, _) = user.run(&["manifest", "verify", "broken.json"]);
    assert_eq!(
        (status, out.contains("duplicate member name")),
        (1, true),
        "{out}"
    );
    let (status, _, error) = user.run(&["manifest", "verify", "nowhere.json"]);
    assert_eq!(
        (status, error.contains("cannot read nowhere.json")),
        (1, true),
        "{error}"
    );
    let (status, _, error) = user.run(&["manifest", "init", "--id", "nobody", "--out", "x.json"]);
    assert_eq!(
        (status, error.contains("`frith id new nobody` makes one")),
        (1, true),
        "{error}"
    );
}

#[test]
fn resolve_shows_keys_or_the_plan() {
    let user = User::new();
    let did = "did:key:z6Mkon3Necd6NkkyfoGoHxid2znGc59LU3K7mubaRcFbLfLX";
    assert!(
        user.ok(&["resolve", did])
            .contains("iojj3XQJ8ZX9UtstPLpdcspnCb8dlBIb83SIAbQPb1w")
    );
    let plan = user.json(&["resolve", "did:web:agent.example.com:x"]);
    let urls: Vec<&str> = plan["plan"]
        .as_array()
        .unwrap()
        .iter()
        .map(|step| step["url"].as_str().unwrap())
        .collect();
    assert_eq!(
        urls,
        [
            "https://agent.example.com/.well-known/did.json",
            "https://agent.example.com/x/did.json",
            "https://agent.example.com/.well-known/agent-manifest.json",
        ]
    );
    assert!(
        user.ok(&["resolve", "did:github:a/b"])
            .contains("https://api.github.com/repos/a/b")
    );
    assert_eq!(user.run(&["resolve", "did:web:127.0.0.1"]).0, 2);
    assert_eq!(user.run(&["resolve", "did:ion:x"]).0, 2);
}

#[test]
fn resolve_takes_answers_from_files() {
    let user = User::new();
    user.ok(&["id", "new", "--did", "did:web:agent.example.com:x"]);
    user.ok(&["manifest", "init"]);
    fs::write(user.path("did.json"), user.ok(&["id", "export"])).unwrap();
    let first = "https://agent.example.com/.well-known/did.json=did.json";
    let second = "https://agent.example.com/.well-known/agent-manifest.json=agent-manifest.json";
    let did = "did:web:agent.example.com:x";
    let open = user.json(&["resolve", did, "--answer", first]);
    assert_eq!(open["plan"].as_array().unwrap().len(), 1);
    let done = user.json(&["resolve", did, "--answer", first, "--answer", second]);
    assert_eq!(
        (
            &done["manifest"],
            done["root_keys"].as_array().unwrap().len()
        ),
        (&json!(true), 1)
    );
    for file in ["did.json", "agent-manifest.json"] {
        assert_eq!(user.json(&["resolve", file])["did"], did);
    }
    user.write("did.json", &json!({"id": did}));
    let (status, out, _) = user.run(&["resolve", did, "--answer", first]);
    assert_eq!(
        (status, out.contains("UNVERIFIED_AGENT")),
        (1, true),
        "{out}"
    );
}

#[test]
fn an_endorsement_is_made_and_carried() {
    let (agent, anchor) = (User::new(), User::new());
    agent.ok(&["id", "new"]);
    agent.ok(&["manifest", "init"]);
    anchor.ok(&["id", "new"]);
    fs::copy(agent.path("agent-manifest.json"), anchor.path("agent.json")).unwrap();
    let entry: Value = serde_json::from_str(&anchor.ok(&[
        "endorse",
        "agent.json",
        "--days",
        "30",
        "--capability",
        "nlp.a.v1",
    ]))
    .unwrap();
    assert_eq!(entry["issuer"], anchor.json(&["id", "show"])["did"]);
    assert_eq!(entry["trust_level"], "verified");
    let mut manifest = agent.read("agent-manifest.json");
    manifest["trust_chain"] = json!([entry]);
    agent.write("agent-manifest.json", &manifest);
    assert_eq!(
        agent.run(&["manifest", "verify", "agent-manifest.json"]).0,
        1,
        "not signed yet"
    );
    agent.ok(&["manifest", "sign", "agent-manifest.json"]);
    agent.ok(&["manifest", "verify", "agent-manifest.json"]);
    assert!(
        agent
            .ok(&["manifest", "show", "agent-manifest.json"])
            .contains("endorsed by")
    );
    let did = agent.json(&["id", "show"])["did"]
        .as_str()
        .unwrap()
        .to_owned();
    anchor.ok(&["endorse", &did, "--level", "delegated"]);
    assert_eq!(
        agent.run(&["endorse", &did]).0,
        2,
        "nobody vouches for themselves"
    );
    let (status, _, error) = anchor.run(&["endorse", "did:web:agent.example.com"]);
    assert_eq!(
        (status, error.contains("give the manifest's file")),
        (2, true),
        "{error}"
    );
    manifest["agent_id"] = json!("forged");
    anchor.write("agent.json", &manifest);
    assert_eq!(
        anchor.run(&["endorse", "agent.json"]).0,
        1,
        "a forged manifest is not endorsed"
    );
}

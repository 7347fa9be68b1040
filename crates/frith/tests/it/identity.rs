//! `frith id`, `resolve`, `endorse`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;

/// A user with a data directory and a folder of their own.
pub(crate) struct User {
    home: TempDir,
}

impl User {
    pub(crate) fn new() -> Self {
        Self {
            home: TempDir::new().unwrap(),
        }
    }

    /// One that has an empty data directory.
    pub(crate) fn with_data() -> Self {
        let user = Self::new();
        fs::create_dir(user.path("data")).unwrap();
        user
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_frith"));
        command
            .args(arguments)
            .current_dir(self.home.path())
            .env("FRITH_DATA", self.home.path().join("data"))
            .env_remove("FRITH_PASSPHRASE");
        command
    }

    /// Exit status, standard output, standard error.
    pub(crate) fn run(&self, arguments: &[&str]) -> (i32, String, String) {
        outcome(&mut self.command(arguments))
    }

    /// Standard output of what must succeed.
    pub(crate) fn ok(&self, arguments: &[&str]) -> String {
        let (status, out, error) = self.run(arguments);
        assert_eq!(status, 0, "{arguments:?}: {out}{error}");
        out
    }

    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.ok(&[arguments, &["--json"]].concat())).unwrap()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    pub(crate) fn read(&self, name: &str) -> Value {
        serde_json::from_slice(&fs::read(self.path(name)).unwrap()).unwrap()
    }

    pub(crate) fn write(&self, name: &str, value: &Value) {
        fs::write(self.path(name), value.to_string()).unwrap();
    }

    fn kid(&self, name: &str, index: usize) -> String {
        let shown = self.json(&["id", "show", name]);
        shown["keys"][index]["kid"].as_str().unwrap().to_owned()
    }
}

pub(crate) fn outcome(command: &mut Command) -> (i32, String, String) {
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (
        output.status.code().unwrap(),
        text(output.stdout),
        text(output.stderr),
    )
}

/// Proves A-4-1.
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
    assert_ne!(before["published_at"], after["published_at"]);
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

/// What is fetched from the place of a did:github must have signed itself; of a did:web, with a key of
/// its document.
#[test]
fn resolve_refuses_a_manifest_that_the_root_keys_did_not_sign() {
    let (agent, forger) = (User::new(), User::new());
    let did = "did:web:agent.example.com";
    for user in [&agent, &forger] {
        user.ok(&["id", "new", "--did", did]);
        user.ok(&["manifest", "init"]);
    }
    fs::write(agent.path("did.json"), agent.ok(&["id", "export"])).unwrap();
    fs::copy(
        forger.path("agent-manifest.json"),
        agent.path("forged.json"),
    )
    .unwrap();
    let first = "https://agent.example.com/.well-known/did.json=did.json";
    let resolve = |file: &str| {
        let second = format!("https://agent.example.com/.well-known/agent-manifest.json={file}");
        agent.run(&["resolve", did, "--answer", first, "--answer", &second])
    };
    assert_eq!(resolve("agent-manifest.json").0, 0);
    let (status, out, _) = resolve("forged.json");
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

#[test]
fn an_identity_that_is_damaged_hides_no_other() {
    let user = User::new();
    user.ok(&["id", "new", "good"]);
    let folder = user.path("data/identity/bad");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("identity.json"), "{").unwrap();
    let (status, out, error) = user.run(&["id", "list"]);
    assert_eq!((status, out.lines().count()), (1, 1), "{out}{error}");
    assert!(out.starts_with("good "), "{out}");
    assert!(error.contains("identity.json is damaged"), "{error}");
    let (status, out, _) = user.run(&["id", "list", "--json"]);
    let listed: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((status, listed[0]["did"].clone()), (1, Value::Null));
    assert_eq!(listed[1]["name"], "good");
}

#[test]
fn a_secret_is_exported_as_json_too() {
    let user = User::new();
    user.ok(&["id", "new"]);
    let kid = user.kid("default", 0);
    let pem = user.ok(&["id", "export", "--secret", &kid]);
    let exported = user.json(&["id", "export", "--secret", &kid]);
    assert_eq!(exported, json!({"kid": kid, "pem": pem}));
}

/// Standard output of `endorse` goes into a file: nothing but an entry is written there.
#[test]
fn a_refused_endorsement_writes_no_entry() {
    let user = User::new();
    user.ok(&["id", "new", "alice"]);
    user.ok(&["id", "new", "anchor"]);
    user.ok(&["manifest", "init", "--id", "alice"]);
    let mut manifest = user.read("agent-manifest.json");
    manifest["agent_id"] = json!("mallory");
    user.write("forged.json", &manifest);
    let (status, out, error) = user.run(&["endorse", "forged.json", "--id", "anchor"]);
    assert_eq!((status, out.as_str()), (1, ""));
    assert!(error.contains("forged.json: INVALID_MANIFEST"), "{error}");
}

/// A key that is locked with the beginning of a passphrase would be opened by others, too.
#[test]
fn a_passphrase_that_is_too_long_is_refused() {
    let user = User::new();
    for (length, expected) in [(8192, 0), (8193, 1)] {
        fs::write(user.path("pass"), "p".repeat(length)).unwrap();
        let name = format!("n{length}");
        let new = ["id", "new", &name, "--encrypt", "--passphrase-file", "pass"];
        let (status, _, error) = user.run(&new);
        assert_eq!(status, expected, "{error}");
        assert_eq!(
            error.contains("more than 8192 bytes"),
            expected == 1,
            "{error}"
        );
    }
}

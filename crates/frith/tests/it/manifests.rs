//! `frith manifest`, checked here and by an independent program.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::identity::{User, outcome};

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

/// What is done: an independent check of a manifest agrees.
/// Proves A-4-16, A-4-17, A-4-19.
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
    let signed = user.json(&["manifest", "sign", "agent-manifest.json"]);
    assert_eq!(signed["manifest_hash"], verified["manifest_hash"]);
    assert_eq!(
        user.read("agent-manifest.json")["published_at"],
        manifest["published_at"]
    );
    assert_eq!(foreign(&file).0, 0);
    assert!(
        user.ok(&["manifest", "show", "agent-manifest.json"])
            .contains("nlp.translate.v1")
    );
    // Nothing is added to what is signed but the signature.
    assert_eq!(manifest.get("manifest_hash"), None);
    let hash = verified["manifest_hash"].as_str().unwrap();
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
/// Proves A-4-20.
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

/// The keys of a did:github are those of the manifest at its own place: a file that says otherwise is
/// neither valid nor endorsed.
#[test]
fn a_forged_manifest_of_a_did_github_is_neither_valid_nor_endorsed() {
    let (agent, forger) = (User::new(), User::new());
    for user in [&agent, &forger] {
        user.ok(&["id", "new", "--did", "did:github:owner/agent"]);
        user.ok(&["manifest", "init"]);
    }
    let anchor = User::new();
    anchor.ok(&["id", "new"]);
    for (user, name) in [(&agent, "published.json"), (&forger, "forged.json")] {
        fs::copy(user.path("agent-manifest.json"), anchor.path(name)).unwrap();
    }
    let published = ["--document", "published.json"];
    for command in [["manifest", "verify"].as_slice(), &["endorse"]] {
        let run = |file: &str, more: &[&str]| anchor.run(&[command, &[file], more].concat());
        let (status, _, error) = run("published.json", &[]);
        let place =
            "https://raw.githubusercontent.com/owner/agent/main/.well-known/agent-manifest.json";
        assert_eq!((status, error.contains(place)), (2, true), "{error}");
        let (status, out, error) = run("published.json", &published);
        assert_eq!(status, 0, "{out}{error}");
        let (status, out, error) = run("forged.json", &published);
        let said = format!("{out}{error}");
        assert_eq!(
            (status, said.contains("UNVERIFIED_AGENT")),
            (1, true),
            "{said}"
        );
        assert!(!out.contains("signature\":"), "{out}");
    }
}

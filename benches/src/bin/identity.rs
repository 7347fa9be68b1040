//! A2A identity against the bare primitives: Ed25519, SHA-256, and `serde_json` into a tree.
#![expect(clippy::print_stdout, reason = "this is a report")]

use std::hint::black_box;

use a2a_identity::{
    Did, DidKey, Key, KeySet, KeyStatus, MAX_AGE, ManifestCheck, Peer, Pins, RootKeys, Signed,
    SigningKey, sign, sign_manifest, verify_manifest,
};
use a2a_wire::{Count, Digest, Kid, RequestPayload, SessionId, UnixSeconds};
use benches::{Contestant, Effort, compare};
use canonical::{Object, Value, base64url};
use ed25519_dalek::Signer as _;
use serde_json::json;
use sha2::{Digest as _, Sha256};

/// The allocator of the product, for all contestants.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const SEED: [u8; 32] = [1; 32];
const NOW: UnixSeconds = UnixSeconds(1_770_000_000);

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match words.as_slice() {
        [] => report(Effort::FULL),
        ["--smoke"] => report(Effort::SMOKE),
        _ => {
            println!("usage: identity [--smoke]");
            Ok(())
        }
    };
    if let Err(error) = outcome {
        println!("{error}");
    }
}

fn report(effort: Effort) -> Result<(), Box<dyn std::error::Error>> {
    println!(
        "{:34} {:>12} {:>12} {:>7} {:>7}",
        "", "bare", "ours", "ratio", "at most"
    );
    signing(effort)?;
    for (name, size) in [("1 KiB", 1024), ("64 KiB", 64 * 1024)] {
        signed_message(name, size, effort)?;
    }
    for (name, size) in [("1 KiB", 1024), ("64 KiB", 64 * 1024)] {
        trees(name, size, effort)?;
    }
    manifest(effort)
}

/// A message of about this size: half texts, half structured data, its members in the order in which
/// a program writes them rather than that of the canonical form.
fn message(size: usize) -> Vec<u8> {
    let row = |n| format!(r#"{{"id":{n},"name":"row of data","score":12,"ok":true,"tags":["a"]}}"#);
    let rows: Vec<String> = (0..size / 2 / 62).map(row).collect();
    let text = "The quick brown fox jumps over the lazy dog. ".repeat(size / 2 / 45);
    let session = "QEFCQ0RFRkdISUpLTE1OT1BRUlNUVVZXWFlaW1xdXl8";
    let request = "7f1c0e0a-9a3b-4d7e-8f00-0123456789ab";
    let inputs = format!(r#"{{"text":"{text}","rows":[{}]}}"#, rows.join(","));
    let intent = format!(r#"{{"goal":"translate","domain":"nlp","inputs":{inputs}}}"#);
    format!(
        r#"{{"type":"request","session_id":"{session}","request_id":"{request}","intent":{intent}}}"#
    )
    .into_bytes()
}

fn object(value: &serde_json::Value) -> Result<Object<'static>, Box<dyn std::error::Error>> {
    let value = Value::from_serialize(value)?;
    Ok(value.as_object().cloned().unwrap_or_default())
}

fn keys(kid: &Kid, key: &SigningKey) -> Result<KeySet, Box<dyn std::error::Error>> {
    Ok(KeySet::new(vec![Key {
        kid: kid.clone(),
        key: key.verifying_key(),
        status: KeyStatus::Active,
        expires_at: None,
    }])?)
}

/// Signing a payload as sessions do, against signing the same bytes by the primitive alone.
fn signing(effort: Effort) -> Result<(), Box<dyn std::error::Error>> {
    let (key, kid) = (SigningKey::from_seed(&SEED), "sig-1".parse::<Kid>()?);
    let did = Did::Key(DidKey::new(key.verifying_key()));
    let payload = RequestPayload {
        issuer: did.to_text(),
        audience: did.to_text(),
        timestamp: Some(NOW),
        session_id: Some(SessionId::of(&SEED)),
        request_id: Some("7f1c0e0a-9a3b-4d7e-8f00-0123456789ab".parse()?),
        seq: Count::new(7),
        message_hash: Some(Digest::of(b"")),
    };
    let jws = sign(&payload, &kid, &key);
    let (input, _) = jws.rsplit_once('.').unwrap_or_default();
    let bare = ed25519_dalek::SigningKey::from_bytes(&SEED);
    let times = compare(
        &mut [
            Contestant::new("bare", || bare.sign(black_box(input).as_bytes())),
            Contestant::new("ours", || sign(black_box(&payload), &kid, &key)),
        ],
        effort,
    );
    row("sign a request", &times, None);
    verifying("verify a request", &jws, Some(1.15), effort)
}

/// Verifying a JWS whose payload is a message, as baseline peers sign it.
fn signed_message(
    name: &str,
    size: usize,
    effort: Effort,
) -> Result<(), Box<dyn std::error::Error>> {
    let header = br#"{"alg":"EdDSA","kid":"sig-1","typ":"a2a-request+jws"}"#;
    let payload = message(size);
    let input = [base64url::encode(header), base64url::encode(&payload)].join(".");
    let signature = ed25519_dalek::SigningKey::from_bytes(&SEED).sign(input.as_bytes());
    let jws = format!("{input}.{}", base64url::encode(&signature.to_bytes()));
    let target = (size == 1024).then_some(1.15);
    verifying(&format!("verify {name}"), &jws, target, effort)
}

/// Verifying a JWS against the bare check of the same bytes.
fn verifying(
    name: &str,
    jws: &str,
    target: Option<f64>,
    effort: Effort,
) -> Result<(), Box<dyn std::error::Error>> {
    let (key, kid) = (SigningKey::from_seed(&SEED), "sig-1".parse::<Kid>()?);
    let bare = ed25519_dalek::SigningKey::from_bytes(&SEED);
    let (input, _) = jws.rsplit_once('.').unwrap_or_default();
    let (public, signature) = (bare.verifying_key(), bare.sign(input.as_bytes()));
    let keys = keys(&kid, &key)?;
    let ours = |jws: &str| {
        let limit = a2a_wire::limits::JWS_PAYLOAD;
        Signed::<RequestPayload>::parse_within(jws, Peer::Profile, limit)
            .and_then(|signed| signed.verify(&keys, NOW))
            .map(drop)
    };
    ours(jws)?;
    let times = compare(
        &mut [
            Contestant::new("bare", || {
                public
                    .verify_strict(black_box(input).as_bytes(), &signature)
                    .is_ok()
            }),
            Contestant::new("ours", || ours(black_box(jws)).is_ok()),
        ],
        effort,
    );
    row(name, &times, target);
    Ok(())
}

/// Strict parsing against `serde_json`, and canonical form with its hash against the hash alone.
fn trees(name: &str, size: usize, effort: Effort) -> Result<(), Box<dyn std::error::Error>> {
    let text = message(size);
    let times = compare(
        &mut [
            Contestant::new("serde_json", || {
                serde_json::from_slice::<serde_json::Value>(black_box(&text)).is_ok()
            }),
            Contestant::new("ours", || Value::parse(black_box(&text)).is_ok()),
        ],
        effort,
    );
    row(&format!("strict parse {name}"), &times, Some(1.5));
    let tree = Value::parse(&text)?;
    let canonical = tree.to_canonical();
    let times = compare(
        &mut [
            Contestant::new("sha256", || Sha256::digest(black_box(&canonical))),
            Contestant::new("ours", || black_box(&tree).digest()),
        ],
        effort,
    );
    row(&format!("JCS and SHA-256 {name}"), &times, Some(3.0));
    Ok(())
}

fn manifest(effort: Effort) -> Result<(), Box<dyn std::error::Error>> {
    let (key, kid) = (SigningKey::from_seed(&SEED), "sig-1".parse::<Kid>()?);
    let did = Did::Key(DidKey::new(key.verifying_key()));
    let public = base64url::encode(&key.verifying_key().to_bytes());
    let mut tree = object(&json!({
        "manifest_version": "1.0",
        "agent_did": did.to_string(),
        "agent_id": "bench",
        "public_keys": [{"kid": "sig-1", "kty": "EC", "alg": "EdDSA", "use": "sig", "key": public}],
        "endpoints": [{"type": "handshake", "url": "https://a.example.com/a2a/handshake", "transport": "http"}],
        "capabilities": ["nlp.translate.v1", "nlp.summarize.v1"],
        "policy": {"rate_limit": 1000, "rate_period": 3600, "data_retention": "24h"},
    }))?;
    sign_manifest(&mut tree, &kid, &key, NOW)?;
    let text = serde_json::to_vec(&Value::Object(tree.clone()))?;
    let jws = tree.get("manifest_signature").and_then(Value::as_str);
    let (input, _) = jws.and_then(|jws| jws.rsplit_once('.')).unwrap_or_default();
    let bare = ed25519_dalek::SigningKey::from_bytes(&SEED);
    let (signature, verifier) = (bare.sign(input.as_bytes()), bare.verifying_key());
    let root = RootKeys::DidKey(key.verifying_key());
    let pins = Pins::default();
    let check = ManifestCheck {
        did: &did,
        root: &root,
        now: NOW,
        peer: Peer::Profile,
        max_age: MAX_AGE,
        last: None,
        pins: &pins,
    };
    let times = compare(
        &mut [
            Contestant::new("bare", || {
                verifier
                    .verify_strict(black_box(input).as_bytes(), &signature)
                    .is_ok()
            }),
            Contestant::new("ours", || verify_manifest(black_box(&text), &check).is_ok()),
        ],
        effort,
    );
    row("verify manifest", &times, None);
    Ok(())
}

/// One line: how many times as long as the bare primitive, and how many at most.
fn row(name: &str, times: &[f64], target: Option<f64>) {
    let [bare, ours] = times else { return };
    let micro = |seconds: f64| format!("{:.3} us", seconds * 1e6);
    let target = target.map_or(String::new(), |target| format!("{target:6.2}x"));
    println!(
        "{name:34} {:>12} {:>12} {:6.2}x {target:>7}",
        micro(*bare),
        micro(*ours),
        ours / bare
    );
}

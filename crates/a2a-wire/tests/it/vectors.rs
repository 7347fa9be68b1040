//! Profile §1, §2, §10.6: hashes of the vectors.

use a2a_wire::{
    Kind, Manifest, Message, NOT_HASHED, Nonce, Policy, Read, Received, StreamChain, Transcript,
    session_commitment,
};
use canonical::{Digest, Value};

use crate::{messages, section};

fn tree(value: &serde_json::Value) -> Value<'static> {
    Value::from_serialize(value).unwrap()
}

fn digest(value: &serde_json::Value) -> Digest {
    value.as_str().unwrap().parse().unwrap()
}

#[test]
fn every_message_is_read_and_written_back() {
    let mut kinds = Vec::new();
    for message in messages() {
        let received = Received::from_tree(tree(&message)).unwrap();
        let written = Value::Object(received.message().to_object());
        assert_eq!(written.digest(), tree(&message).digest(), "{message}");
        kinds.push(received.message().kind());
    }
    kinds.sort();
    kinds.dedup();
    assert_eq!(kinds, Kind::ALL);
}

/// Proves A-9-9.
#[test]
fn manifest_hashes() {
    for side in ["client", "server"] {
        let case = &section("manifest")[side];
        let document = tree(&case["document"]);
        let object = document.as_object().unwrap();
        assert_eq!(
            object.digest_without(NOT_HASHED),
            digest(&case["manifest_hash"])
        );
        let manifest = Manifest::read(&document).unwrap();
        assert_eq!(
            Value::Object(manifest.to_object()).digest(),
            document.digest()
        );
    }
}

/// Proves A-9-9.
#[test]
fn policy_hash() {
    let case = section("policy");
    let policy = Policy::read(&tree(&case["document"])).unwrap();
    assert_eq!(policy.hash(), digest(&case["policy_hash"]));
    let canonical = Value::Object(policy.tree().clone()).to_canonical();
    assert_eq!(canonical, case["canonical"].as_str().unwrap().as_bytes());
}

#[test]
fn transcript_and_commitment() {
    let case = section("handshake");
    let mut transcript = Transcript::default();
    assert_eq!(*transcript.state(), digest(&case["T0"]));
    let messages = case["messages"].as_array().unwrap();
    for (message, expected) in messages.iter().zip(case["transcript"].as_array().unwrap()) {
        let received = Received::from_tree(tree(message)).unwrap();
        assert_eq!(received.message().kind().as_str(), expected["type"]);
        let hash = transcript.hash_with(&received.hash());
        assert_eq!(hash, digest(&expected["th"]));
        transcript.add_received(&received);
        assert_eq!(*transcript.state(), digest(&expected["T"]));
    }
    let nonce = |name: &str| case[name].as_str().unwrap().parse::<Nonce>().unwrap();
    assert_eq!(
        session_commitment(
            &nonce("nonce_a"),
            &nonce("nonce_b"),
            &digest(&section("policy")["policy_hash"])
        ),
        digest(&case["session_commitment"])
    );
}

#[test]
fn message_hashes() {
    for name in ["request", "response", "error"] {
        let case = &section("session")[name];
        let received = Received::from_tree(tree(&case["message"])).unwrap();
        assert_eq!(received.hash(), digest(&case["message_hash"]));
    }
}

#[test]
fn stream_chain() {
    let case = section("stream");
    let mut chain = StreamChain::new(&digest(&case["request_hash"]));
    for step in case["chain"].as_array().unwrap() {
        if let Some(data) = step.get("data") {
            chain.add(&tree(data));
        }
        assert_eq!(*chain.state(), digest(&step["chain"]));
    }
}

/// Threat 57: a hop may reorder, indent and escape a message; it is the same message.
#[test]
fn threat_57_a_message_written_differently_is_the_same() {
    for message in messages() {
        let received = Received::from_tree(tree(&message)).unwrap();
        let escaped: String = serde_json::to_string_pretty(&message)
            .unwrap()
            .chars()
            .map(|letter| match letter {
                'a' => "\\u0061".into(),
                'é' => "\\u00e9".into(),
                other => other.to_string(),
            })
            .collect();
        let again = Received::parse(escaped.as_bytes(), usize::MAX).unwrap();
        assert_eq!(again.hash(), received.hash());
        assert_eq!(again.message(), received.message());
    }
}

/// Threat 65: members that nobody knows are accepted, and change the hash.
#[test]
fn threat_65_unknown_members_are_hashed() {
    for mut message in messages() {
        let before = Received::from_tree(tree(&message)).unwrap();
        message["unheard_of"] = serde_json::json!({"deep": [1, null]});
        let with = Received::from_tree(tree(&message)).unwrap();
        message["unheard_of"]["deep"][0] = 2.into();
        let altered = Received::from_tree(tree(&message)).unwrap();
        assert_eq!(with.message(), before.message());
        assert_ne!(with.hash(), before.hash());
        assert_ne!(with.hash(), altered.hash());
    }
}

/// Threat 66: names outside ASCII, also beyond the basic plane, sort as UTF-16.
#[test]
fn threat_66_names_beyond_ascii() {
    let request = section("session")["request"]["message"].clone();
    let text = serde_json::to_string(&request).unwrap().replacen(
        "\"n\":1",
        "\"\u{fb33}\":2,\"\u{1f600}\":1,\"\u{7f}\":\"\u{7f}\"",
        1,
    );
    let received = Received::parse(text.as_bytes(), usize::MAX).unwrap();
    let Message::Request(request) = received.message() else {
        panic!("a request");
    };
    let canonical = request.intent.as_ref().unwrap().to_canonical();
    let canonical = String::from_utf8(canonical).unwrap();
    let inputs = "\"text\":\"Hello é😀\",\"\u{7f}\":\"\u{7f}\",\"\u{1f600}\":1,\"\u{fb33}\":2}";
    assert!(canonical.contains(inputs), "{canonical}");
}

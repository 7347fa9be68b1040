//! Profile §4: DID documents of did:web, in both shapes.

use a2a_identity::{Did, DidDocument, DocumentError, KeySetError};
use serde_json::{Value, json};

use crate::{did_key, jwk, key};

const DID: &str = "did:web:a.example.com:x";

fn read(document: &Value) -> Result<DidDocument, DocumentError> {
    let did: Did = DID.parse().unwrap();
    DidDocument::read(document.to_string().as_bytes(), &did)
}

fn multibase(seed: u8) -> String {
    did_key(seed).to_string().replace("did:key:", "")
}

fn method(name: &str, seed: u8) -> Value {
    json!({"id": format!("{DID}#{name}"), "type": "Multikey", "controller": DID,
        "publicKeyMultibase": multibase(seed)})
}

fn w3c() -> Value {
    json!({
        "@context": ["https://www.w3.org/ns/did/v1"],
        "id": DID,
        "verificationMethod": [
            method("a", 1),
            {"id": "#b", "type": "Ed25519VerificationKey2020", "controller": DID,
                "publicKeyMultibase": multibase(2)},
            {"id": format!("{DID}#c"), "type": "JsonWebKey2020", "controller": DID,
                "publicKeyJwk": {"kty": "OKP", "crv": "Ed25519", "x": jwk("", 3)["key"]}},
            method("unused", 4),
            {"id": format!("{DID}#old"), "type": "RsaVerificationKey2018", "controller": DID},
        ],
        "authentication": [format!("{DID}#a"), "#b", format!("{DID}#old"), "#nobody"],
        "assertionMethod": ["#c", "#a", method("embedded", 5)],
        "keyAgreement": ["#unused"],
        "service": [
            {"id": "#s", "type": "A2AHandshake", "serviceEndpoint": "https://a.example.com/h"},
            {"id": "#m", "type": "A2AManifest", "serviceEndpoint": "https://a.example.com/m.json"},
            {"id": "#l", "type": "LinkedDomains", "serviceEndpoint": ["https://b.example.com"]},
        ],
    })
}

#[test]
fn the_shape_of_w3c() {
    let document = read(&w3c()).unwrap();
    let names: Vec<&str> = document.keys.iter().map(|key| key.kid.as_str()).collect();
    assert_eq!(names, ["a", "b", "c", "embedded"]);
    assert_eq!(document.keys.get("c").unwrap().key, key(3).verifying_key());
    assert_eq!(
        document.endpoints[0].url.as_str(),
        "https://a.example.com/h"
    );
    assert_eq!(
        document.manifest_url.as_deref(),
        Some("https://a.example.com/m.json")
    );
    assert!(!document.is_manifest);
}

/// Profile §4: "Other entries are ignored; none left = failure." Keys of other kinds are usual in
/// documents that serve more than A2A.
#[test]
fn keys_of_other_kinds_are_passed_over() {
    let x25519 = json!("z6LSkzxVagBX8fzFegos93GjWVSkdeQbkmEuxsQL5nw78pKu");
    let p256 = json!("zDnaerx9CtbPJ1q36T5Ln5wYt3MQYeGRG5ehnPAmxcf5mDZpv");
    for other in [
        json!({"type": "Multikey", "publicKeyMultibase": x25519}),
        json!({"type": "Multikey", "publicKeyMultibase": p256}),
        json!({"type": "JsonWebKey", "publicKeyJwk": {"kty": "EC", "crv": "P-256", "x": "AA"}}),
        json!({"type": "JsonWebKey2020", "publicKeyJwk": {"kty": "RSA", "n": "AA", "e": "AQAB"}}),
        json!({"type": "EcdsaSecp256k1VerificationKey2019"}),
    ] {
        let mut entry = other.clone();
        (entry["id"], entry["controller"]) = (json!("#other"), json!(DID));
        let mut document = w3c();
        let entries = document["authentication"].as_array_mut().unwrap();
        entries.push(entry.clone());
        let names: Vec<String> = read(&document)
            .unwrap()
            .keys
            .iter()
            .map(|key| key.kid.to_string())
            .collect();
        assert!(!names.contains(&"other".to_owned()), "{other}");
        assert_eq!(names.len(), 4, "{other}");
        document["authentication"] = json!([entry]);
        document["assertionMethod"] = json!([]);
        assert_eq!(
            read(&document),
            Err(DocumentError::Keys(KeySetError::Empty)),
            "{other}"
        );
    }
}

/// Proves A-4-5.
#[test]
fn the_shape_of_the_base_specification() {
    let document = json!({
        "agent_did": "did:web:A.example.com/x",
        "public_keys": [{"kid": "k", "key": jwk("", 1)["key"], "alg": "EdDSA"}],
        "endpoints": [{"type": "handshake", "url": "https://a.example.com/a2a/handshake"}],
    });
    let read = read(&document).unwrap();
    assert_eq!(read.keys.get("k").unwrap().key, key(1).verifying_key());
    assert_eq!(read.endpoints.len(), 1);
}

#[test]
fn threat_79_documents_that_prove_nothing() {
    let changed = |change: &dyn Fn(&mut Value)| {
        let mut document = w3c();
        change(&mut document);
        read(&document)
    };
    let nobody = Err(DocumentError::Keys(KeySetError::Empty));
    assert_eq!(
        changed(&|d| d["id"] = json!("did:web:b.example.com")),
        nobody,
        "not even a good one"
    );
    let other = changed(&|d| {
        *d = serde_json::from_str(&d.to_string().replace("a.example", "b.example")).unwrap()
    });
    assert_eq!(other, Err(DocumentError::OtherDid));
    assert_eq!(
        changed(&|d| d["agent_did"] = json!("did:web:b.example.com")),
        Err(DocumentError::NoDid)
    );
    assert_eq!(changed(&|d| d["id"] = json!(7)), Err(DocumentError::NoDid));
    assert_eq!(
        changed(&|d| drop(d.as_object_mut().unwrap().remove("id"))),
        Err(DocumentError::NoDid)
    );
    let only_agreement = changed(&|d| {
        d["authentication"] = json!([]);
        d["assertionMethod"] = json!("#a");
    });
    assert_eq!(only_agreement, nobody);
    let foreign = changed(&|d| {
        for method in d["verificationMethod"].as_array_mut().unwrap() {
            method["controller"] = json!("did:web:b.example.com");
        }
        d["assertionMethod"] = json!([]);
    });
    assert_eq!(foreign, nobody);
    let foreign_name = changed(&|d| {
        d["verificationMethod"][0]["id"] = json!("did:web:b.example.com#a");
        d["authentication"] = json!(["did:web:b.example.com#a"]);
        d["assertionMethod"] = json!([]);
    });
    assert_eq!(foreign_name, nobody);
    // What says it is an Ed25519 key must be one.
    assert!(
        changed(&|d| {
            d["verificationMethod"][0]["type"] = json!("Ed25519VerificationKey2020");
            d["verificationMethod"][0]["publicKeyMultibase"] =
                json!("z6LSkzxVagBX8fzFegos93GjWVSkdeQbkmEuxsQL5nw78pKu");
        })
        .is_err()
    );
    assert!(
        changed(&|d| d["verificationMethod"][0]["publicKeyMultibase"] = json!("z6Mk111")).is_err()
    );
    assert!(
        changed(&|d| d["verificationMethod"][2]["publicKeyJwk"]["d"] = json!("secret")).is_err()
    );
    assert!(
        changed(&|d| d["verificationMethod"][1]["publicKeyMultibase"] = json!(multibase(1)))
            .is_err(),
        "one key under two names"
    );
    assert!(
        changed(&|d| d["assertionMethod"][2]["id"] = json!("#a")).is_err(),
        "one name for two keys"
    );
    assert!(
        changed(&|d| d["verificationMethod"][3]["id"] = json!("#a")).is_err(),
        "a name that means two keys"
    );
    assert_eq!(
        changed(&|d| d["service"][1]["serviceEndpoint"] = json!("https://b.example.com/m.json")),
        Err(DocumentError::ForeignManifest)
    );
    assert!(
        changed(&|d| d["service"][1]["serviceEndpoint"] = json!("http://a.example.com/m.json"))
            .is_err()
    );
}

/// Profile §1: 64 KiB, at the limit and one past it.
#[test]
fn threat_80_the_size_of_a_document() {
    let padded = |size: usize| {
        let mut document = w3c();
        document["x"] = json!("");
        let length = document.to_string().len();
        document["x"] = json!("x".repeat(size - length));
        read(&document)
    };
    assert!(padded(64 * 1024).is_ok());
    assert!(matches!(padded(64 * 1024 + 1), Err(DocumentError::Wire(_))));
    let did: Did = DID.parse().unwrap();
    for bytes in [
        b"<html></html>".as_slice(),
        b"",
        b"[]",
        b"null",
        b"\x1f\x8b\x08",
    ] {
        assert!(DidDocument::read(bytes, &did).is_err());
    }
}

/// As many references and methods as fit: each is looked at once.
#[test]
fn a_document_full_of_references() {
    let mut document = w3c();
    let reference = format!("{DID}#a");
    document["authentication"] = json!(vec![reference; 1500]);
    let methods = document["verificationMethod"].as_array_mut().unwrap();
    methods.extend((0..100).map(|n| json!({"id": format!("{DID}#x{n}")})));
    assert_eq!(read(&document).unwrap().keys.iter().count(), 3);
    document["authentication"] = json!(
        (1..=11)
            .map(|n| method(&format!("m{n}"), n))
            .collect::<Vec<_>>()
    );
    assert_eq!(
        read(&document),
        Err(DocumentError::Keys(KeySetError::TooMany(11)))
    );
}

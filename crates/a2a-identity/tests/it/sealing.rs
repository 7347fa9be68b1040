//! Profile §9, vectors `encryption` and `session`, threats 41 and 114.

use a2a_identity::NoRandomness;
use a2a_identity::seal::{
    CannotOpen, CannotSeal, Channel, EphemeralKey, MAX_COUNTER, NoSecret, Role,
};
use a2a_wire::{Digest, Key32, KeyAgreement, KeyExchange, Kind};
use canonical::{Object, Value};
use serde_json::json;

use crate::{section, tree};

fn ephemeral(byte: u8) -> EphemeralKey {
    let mut random = |bytes: &mut [u8]| -> Result<(), NoRandomness> {
        bytes.fill(byte);
        Ok(())
    };
    EphemeralKey::generate(&mut random).unwrap()
}

fn salt() -> Digest {
    section("encryption")["salt_T6"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap()
}

/// Both ends of the session of the vectors.
fn channels(salt: &Digest) -> (Channel, Channel) {
    let (client, server) = (ephemeral(0x11), ephemeral(0x22));
    let (for_server, for_client) = (client.public(), server.public());
    (
        client.agree(&for_client, salt, Role::Client).unwrap(),
        server.agree(&for_server, salt, Role::Server).unwrap(),
    )
}

fn text(object: &Object<'_>) -> String {
    String::from_utf8(Value::Object(object.clone()).to_canonical()).unwrap()
}

#[test]
fn public_halves_of_the_vectors() {
    let case = section("encryption");
    assert_eq!(
        ephemeral(0x11).public().key.as_str(),
        case["client_kx"]["key"]
    );
    assert_eq!(
        ephemeral(0x22).public().key.as_str(),
        case["server_kx"]["key"]
    );
}

/// The sealed messages of the vectors are made byte for byte, which the derived keys, the nonce and
/// the associated data must be right for; and each is opened by the other end.
/// Proves A-9-10.
#[test]
fn sealed_messages_of_the_vectors() {
    let (client, server) = channels(&salt());
    let session = section("session");
    for (plain, sealed, kind, from, to) in [
        (
            "request",
            "encrypted_request",
            Kind::Request,
            &client,
            &server,
        ),
        (
            "response",
            "encrypted_response",
            Kind::Response,
            &server,
            &client,
        ),
    ] {
        let message = tree(&session[plain]["message"]);
        let expected = tree(&session[sealed]["message"]);
        let made = from.seal(kind, &message, 1).unwrap();
        assert_eq!(text(&made), text(&expected));
        let opened = to.open(&expected).unwrap();
        assert_eq!(text(&opened), text(&message));
    }
}

#[test]
fn threat_114_whatever_is_changed_does_not_open() {
    let (client, server) = channels(&salt());
    let session = section("session");
    let good = session["encrypted_response"]["message"].clone();
    let open = |change: &dyn Fn(&mut serde_json::Value)| {
        let mut message = good.clone();
        change(&mut message);
        client.open(&tree(&message)).map(drop)
    };
    assert_eq!(open(&|_| {}), Ok(()));
    let ct = good["enc"]["ct"].as_str().unwrap().to_owned();
    for (name, wrong) in [
        ("status", json!("failure")),
        ("request_id", json!("7f1c0e0a-9a3b-4d7e-8f00-0123456789ac")),
        ("session_id", json!("QEFCQ0RFRkdISUpLTE1OTw")),
        ("type", json!("request")),
        ("result", json!({})),
        ("unheard_of", json!(1)),
        ("enc", json!({"n": 2, "ct": ct})),
        ("enc", json!({"n": 0, "ct": ct})),
        ("enc", json!({"n": 1.5, "ct": ct})),
        ("enc", json!({"n": 1, "ct": ct, "x": 1})),
        ("enc", json!({"n": 1, "ct": ""})),
        ("enc", json!({"n": 1, "ct": format!("{ct}=")})),
        ("enc", json!({"n": 1, "ct": ct.replacen('A', "B", 1)})),
        ("enc", json!({"n": 1, "ct": &ct[..ct.len() - 4]})),
        ("enc", json!(1)),
    ] {
        assert_eq!(
            open(&|m| m[name] = wrong.clone()),
            Err(CannotOpen),
            "{name} {wrong}"
        );
    }
    assert_eq!(
        open(&|m| drop(m.as_object_mut().unwrap().remove("enc"))),
        Err(CannotOpen)
    );
    // A ciphertext of one's own, echoed as an answer; and one of another session.
    let own = tree(&session["encrypted_request"]["message"]);
    assert_eq!(client.open(&own), Err(CannotOpen));
    let (_, other) = channels(&Digest::of(b"another session"));
    assert_eq!(other.open(&own), Err(CannotOpen));
    assert!(server.open(&own).is_ok());
}

/// A hidden member may not stand outside too: the sealing end is malicious here.
#[test]
fn threat_114_hidden_and_visible_at_once() {
    let (client, server) = channels(&salt());
    // `status` is clear in a response but hidden in a request: seal it as a request.
    let message =
        json!({"type": "request", "session_id": "s", "request_id": "r", "status": "hidden"});
    let mut sealed = client.seal(Kind::Request, &tree(&message), 1).unwrap();
    assert!(server.open(&sealed).is_ok());
    sealed.insert("status", Value::String("visible".into()));
    assert_eq!(
        server.open(&sealed),
        Err(CannotOpen),
        "the associated data says so already"
    );
}

#[test]
fn what_is_never_sealed() {
    let (client, _) = channels(&salt());
    let message = tree(&json!({"type": "hello"}));
    assert_eq!(client.seal(Kind::Hello, &message, 1), Err(CannotSeal));
    let request = tree(&section("session")["request"]["message"]);
    assert_eq!(client.seal(Kind::Request, &request, 0), Err(CannotSeal));
    assert!(client.seal(Kind::Request, &request, MAX_COUNTER).is_ok());
    assert_eq!(
        client.seal(Kind::Request, &request, MAX_COUNTER + 1),
        Err(CannotSeal)
    );
    let twice = tree(&section("session")["encrypted_request"]["message"]);
    assert_eq!(client.seal(Kind::Request, &twice, 2), Err(CannotSeal));
}

/// RFC 7748 §6.1 and the points of low order: all give nothing but zeros.
#[test]
fn threat_41_points_of_low_order() {
    let mut one = [0; 32];
    one[0] = 1;
    let hex = |text: &str| -> [u8; 32] { hex::decode(text).unwrap().try_into().unwrap() };
    for point in [
        [0; 32],
        one,
        hex("e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800"),
        hex("5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157"),
        hex("ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f"),
        hex("edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f"),
        hex("eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f"),
    ] {
        let theirs = KeyExchange {
            alg: KeyAgreement::X25519,
            key: Key32::of(&point),
        };
        let outcome = ephemeral(0x11).agree(&theirs, &salt(), Role::Client);
        assert_eq!(outcome.map(drop), Err(NoSecret));
    }
}

#[test]
fn secrets_show_nothing_of_themselves() {
    assert_eq!(format!("{:?}", ephemeral(1)), "EphemeralKey(..)");
    assert_eq!(format!("{:?}", channels(&salt()).0), "Channel(..)");
}

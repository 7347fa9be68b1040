//! What an attacker can make of the messages it has seen.

use a2a_identity::sign;
use a2a_wire::{FieldError, Kind, Payload, Place, Read, Received, Transcript, Write, message_hash};
use canonical::{Digest, Value, base64url};
use serde_json::json;

use super::machines::{ATTACKER, CLIENT, NOW, did, jwk, key, manifest_hash, tree};

/// Any payload, signed for the place of this number in [`Place::ALL`].
struct Raw<const N: usize>(Value<'static>);

impl<const N: usize> Read for Raw<N> {
    fn read(value: &Value<'_>) -> Result<Self, FieldError> {
        Ok(Self(value.to_static()))
    }
}

impl<const N: usize> Write for Raw<N> {
    fn write(&self) -> Value<'static> {
        self.0.clone()
    }
}

impl<const N: usize> Payload for Raw<N> {
    const PLACE: Place = Place::ALL[N];
}

fn forge<const N: usize>(payload: &serde_json::Value) -> serde_json::Value {
    let payload = Raw::<N>(Value::Object(tree(payload)));
    json!(sign(&payload, &"k".parse().unwrap(), &key(ATTACKER)))
}

/// The attacker's signature, for the place that a kind of message has.
fn forge_for(kind: Kind, payload: &serde_json::Value) -> serde_json::Value {
    match kind.place() {
        Some(Place::Challenge) => forge::<1>(payload),
        Some(Place::Proof) => forge::<2>(payload),
        Some(Place::Policy) => forge::<3>(payload),
        Some(Place::Accept) => forge::<4>(payload),
        _ => forge::<5>(payload),
    }
}

fn payload(jws: &serde_json::Value) -> serde_json::Value {
    let part = jws.as_str().unwrap().split('.').nth(1).unwrap();
    serde_json::from_slice(&base64url::decode(part).unwrap()).unwrap()
}

struct Seen {
    kind: Kind,
    value: serde_json::Value,
}

fn read(messages: &[&[u8]]) -> Vec<Seen> {
    let read = |bytes: &&[u8]| Seen {
        kind: Received::parse(bytes, 1 << 20).unwrap().message().kind(),
        value: serde_json::from_slice(bytes).unwrap(),
    };
    messages.iter().map(read).collect()
}

fn text(value: &serde_json::Value) -> Vec<u8> {
    Value::Object(tree(value)).to_canonical()
}

/// Every message with one change: a member that a hop might like to be another, a member or a
/// signature of another message, or the attacker's own signature.
pub(super) fn edits(messages: &[&[u8]]) -> Vec<Vec<u8>> {
    let seen = read(messages);
    let mut made = Vec::new();
    for message in &seen {
        let mut push = |change: &dyn Fn(&mut serde_json::Value)| {
            let mut value = message.value.clone();
            change(&mut value);
            if value != message.value {
                made.push(text(&value));
            }
        };
        match message.kind {
            Kind::Hello => {
                push(&|it| it["user_agent"] = json!("other"));
                push(&|it| it["public_keys"] = json!([jwk(ATTACKER)]));
                push(&|it| drop(it["extensions"].as_object_mut().unwrap().remove("profile")));
                push(&|it| it["agent_did"] = json!(did(ATTACKER).to_string()));
            }
            Kind::Challenge => {
                push(&|it| it["public_keys"] = json!([jwk(ATTACKER)]));
                push(&|it| it["policy_hash"] = json!(Digest::of(b"other").to_string()));
                push(&|it| drop(it.as_object_mut().unwrap().remove("extensions")));
                push(&|it| it["server_did"] = json!(did(ATTACKER).to_string()));
            }
            Kind::Proof => push(&|it| it["agent_did"] = json!(did(ATTACKER).to_string())),
            Kind::Policy => push(&|it| {
                it["policy"]["rate_limit"] = json!(1);
                it["policy_hash"] = json!(tree(&it["policy"]).digest_without(&[]).to_string());
            }),
            Kind::AcceptPolicy => {
                push(&|it| it["policy_hash"] = json!(Digest::of(b"other").to_string()));
            }
            Kind::Session => {
                push(&|it| it["session_id"] = json!(base64url::encode(&[7; 32])));
                push(&|it| it["expires_at"] = json!(it["created_at"].as_i64().unwrap() + 5));
                push(&|it| drop(it.as_object_mut().unwrap().remove("session_jws")));
            }
            Kind::Request | Kind::Response | Kind::Error => {}
            Kind::Cancel | Kind::Close | Kind::ResponseChunk => {}
        }
        push(&|it| it["unknown"] = json!(1));
        if let Some(member) = message.kind.place().map(Place::member) {
            push(&|it| it[member] = forge_for(message.kind, &payload(&it[member])));
        }
        // Members and signatures of the other messages it has seen.
        for other in &seen {
            for member in ["nonce", "nonce_b", "session_id", "policy_signature"] {
                if let Some(value) = other.value.get(member) {
                    push(&|it| {
                        if it.get(member).is_some() {
                            it[member] = value.clone();
                        }
                    });
                }
            }
            for member in ["proof_jws", "acceptance_jws", "session_jws"] {
                if let (Some(value), true) = (other.value.get(member), other.kind == message.kind) {
                    push(&|it| it[member] = value.clone());
                }
            }
        }
    }
    made.sort_unstable();
    made.dedup();
    made
}

/// What the attacker says as an agent in its own right: as a server that repeats the genuine
/// server's nonce to a client of its own, all the way to SESSION.
pub(super) fn own_messages(messages: &[&[u8]]) -> Vec<Vec<u8>> {
    let seen = read(messages);
    let mut made = Vec::new();
    let of = |kind| seen.iter().filter(move |it| it.kind == kind);
    for hello in of(Kind::Hello) {
        for challenge in of(Kind::Challenge) {
            made.extend(as_server(hello, challenge, &seen));
        }
    }
    made
}

fn as_server(hello: &Seen, genuine: &Seen, seen: &[Seen]) -> Vec<Vec<u8>> {
    let mut transcript = Transcript::default();
    let add = |transcript: &mut Transcript, value: &serde_json::Value| {
        let text = text(value);
        transcript.add_received(&Received::parse(&text, 1 << 20).unwrap());
    };
    add(&mut transcript, &hello.value);
    let mut challenge = genuine.value.clone();
    challenge["server_did"] = json!(did(ATTACKER).to_string());
    challenge["public_keys"] = json!([jwk(ATTACKER)]);
    challenge["manifest_hash"] = json!(manifest_hash(ATTACKER));
    let signed = |transcript: &Transcript,
                  kind,
                  message: &mut serde_json::Value,
                  more: serde_json::Value| {
        let hash = transcript.hash_with(&message_hash(kind, &tree(message)));
        let mut payload = json!({
            "issuer": did(ATTACKER).to_string(), "audience": did(CLIENT).to_string(),
            "timestamp": NOW.unix.0, "policy_hash": genuine.value["policy_hash"],
            "nonce_a": hello.value["nonce"], "nonce_b": genuine.value["nonce_b"],
            "server_manifest_hash": manifest_hash(ATTACKER),
            "client_manifest_hash": hello.value["manifest_hash"],
            "transcript_hash": hash.to_string(),
        });
        for (name, value) in more.as_object().unwrap() {
            payload[name] = value.clone();
        }
        message[kind.place().unwrap().member()] = forge_for(kind, &payload);
    };
    signed(&transcript, Kind::Challenge, &mut challenge, json!({}));
    let mut made = vec![text(&challenge)];
    add(&mut transcript, &challenge);
    // The client answers to the attacker, who has the genuine policy if the server sent it.
    let to_attacker = |kind: Kind, member: &str| -> Vec<&serde_json::Value> {
        let fits = |it: &&Seen| {
            it.kind == kind && payload(&it.value[member])["audience"] == did(ATTACKER).to_string()
        };
        seen.iter().filter(fits).map(|it| &it.value).collect()
    };
    let policies = seen.iter().filter(|it| it.kind == Kind::Policy);
    let Some(policy) = policies.map(|it| &it.value).next() else {
        return made;
    };
    for proof in to_attacker(Kind::Proof, "proof_jws") {
        let mut transcript = transcript.clone();
        add(&mut transcript, proof);
        let mut policy = policy.clone();
        signed(&transcript, Kind::Policy, &mut policy, json!({}));
        made.push(text(&policy));
        add(&mut transcript, &policy);
        for accept in to_attacker(Kind::AcceptPolicy, "acceptance_jws") {
            let mut transcript = transcript.clone();
            add(&mut transcript, accept);
            made.push(session(accept, &|message, more| {
                signed(&transcript, Kind::Session, message, more);
            }));
        }
    }
    made
}

/// SESSION in the attacker's name.
fn session(
    accept: &serde_json::Value,
    sign: &dyn Fn(&mut serde_json::Value, serde_json::Value),
) -> Vec<u8> {
    let (id, created) = (base64url::encode(&[9; 32]), NOW.unix.0);
    let mut message = json!({
        "type": "session", "session_id": id, "server_did": did(ATTACKER).to_string(),
        "created_at": created, "expires_at": created + 60, "message_count": 0,
        "public_keys": [jwk(ATTACKER)],
    });
    let commitment = payload(&accept["acceptance_jws"])["session_commitment"].clone();
    let more = json!({"session_id": id, "created_at": created, "expires_at": created + 60,
        "session_commitment": commitment});
    sign(&mut message, more);
    text(&message)
}

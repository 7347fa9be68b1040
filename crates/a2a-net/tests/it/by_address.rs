//! A did:key that is known by its address alone: its manifest is where it is itself (profile §5, §8.3).

use std::sync::atomic::{AtomicUsize, Ordering};

use a2a_identity::{Answer as Fetched, Pins};
use a2a_net::*;
use a2a_wire::ErrorCode;
use canonical::{Digest, Object, Value};
use serde_json::json;

use crate::support::*;

/// The key that a server has added to its own.
const ADDED: u8 = 60;

/// Its manifest then; the key of its DID signs it.
fn rotated(at: i64) -> Object<'static> {
    manifest_with(SERVER, at, |draft| {
        draft["public_keys"] = json!([jwk("k", SERVER), jwk("n", ADDED)]);
    })
}

/// A server, and a client that knows where it is and nothing else of it.
struct Met {
    server: Server,
    client: Client<InMemory>,
    node: Node,
    link: InMemory,
}

impl Met {
    async fn new(identity: Identity) -> Self {
        let made = Made {
            identity,
            ..Made::of(SERVER)
        };
        let settings = ServerSettings::new().unwrap();
        let server = Server::start(made.node().await.home, settings);
        let link = InMemory::open(&server).await;
        let node = Made::of(CLIENT).node().await;
        let settings = ClientSettings::default();
        let home = std::sync::Arc::clone(&node.home);
        let client = Client::new(home, settings, link.couriers(), link.guard());
        client.set_address(&did(SERVER), format!("https://{HOST}/a2a/handshake"));
        Self {
            server,
            client,
            node,
            link,
        }
    }

    /// One that signs with the key it has added.
    async fn rotated() -> Self {
        let identity = Identity::new(rotated(UNIX - 100), "n".parse().unwrap(), key(ADDED));
        Self::new(identity.unwrap()).await
    }

    fn shows(&self, manifest: Object<'static>) {
        let bytes = Value::Object(manifest).to_canonical();
        self.node.spy.publish(MANIFEST_URL, Fetched::Body(bytes));
    }

    /// A handshake, and why it failed.
    async fn shake(&self) -> Result<(), ErrorCode> {
        let introduced = self.client.introduce(&did(SERVER), Encrypt::AsAgreed).await;
        introduced.map(drop).map_err(|(_, error)| error.code())
    }
}

#[tokio::test(start_paused = true)]
async fn keys_that_a_did_key_has_added_are_its_own() {
    let met = Met::rotated().await;
    met.shows(rotated(UNIX - 100));
    assert_eq!(met.shake().await, Ok(()));
    assert_eq!(met.shake().await, Ok(()));
    assert_eq!(met.node.spy.asked(), [MANIFEST_URL], "it holds for an hour");
    tokio::time::advance(std::time::Duration::from_secs(3601)).await;
    assert_eq!(met.shake().await, Ok(()));
    assert_eq!(met.node.spy.count(), 2);
}

/// Only the key that the DID is says which others are.
#[tokio::test]
async fn nobody_else_says_which_keys_are_its_own() {
    let mut forged = rotated(UNIX - 100);
    a2a_identity::sign_manifest(
        &mut forged,
        &"n".parse().unwrap(),
        &key(ADDED),
        a2a_wire::UnixSeconds(UNIX - 100),
    )
    .unwrap();
    let met = Met::rotated().await;
    met.shows(forged);
    assert_eq!(met.shake().await, Err(ErrorCode::UnverifiedAgent));
    // A manifest that does not list the key, and none at all.
    let met = Met::rotated().await;
    met.shows(manifest(SERVER));
    assert_eq!(met.shake().await, Err(ErrorCode::InvalidManifest));
    let met = Met::rotated().await;
    assert_eq!(met.shake().await, Err(ErrorCode::UnverifiedAgent));
}

/// What it says of itself may change, and what it said before is not believed again.
#[tokio::test(start_paused = true)]
async fn a_newer_manifest_is_taken_and_an_older_one_is_not() {
    let met = Met::new(identity(SERVER)).await;
    met.shows(manifest(SERVER));
    assert_eq!(met.shake().await, Ok(()));
    let identity = Identity::new(rotated(UNIX - 50), "n".parse().unwrap(), key(ADDED));
    met.server.set_identity(identity.unwrap());
    met.shows(rotated(UNIX - 50));
    assert_eq!(met.shake().await, Ok(()), "it was looked at again");
    met.server.set_identity(crate::support::identity(SERVER));
    met.shows(manifest(SERVER));
    tokio::time::advance(std::time::Duration::from_secs(61)).await;
    assert_eq!(met.shake().await, Err(ErrorCode::InvalidManifest));
}

/// It has named its manifest, and publishes another before the client has fetched it: the next handshake
/// names that one.
#[tokio::test]
async fn manifest_replaced_during_a_handshake_is_taken_by_the_next() {
    let met = Met::new(identity(SERVER)).await;
    met.shows(rotated(UNIX - 50));
    let server = met.server.clone();
    let messages = AtomicUsize::new(0);
    // The server has answered HELLO, and the client has given up.
    met.link.intercept(move |_, _| {
        if messages.fetch_add(1, Ordering::Relaxed) == 1 {
            let identity = Identity::new(rotated(UNIX - 50), "n".parse().unwrap(), key(ADDED));
            server.set_identity(identity.unwrap());
        }
        None
    });
    assert_eq!(met.shake().await, Ok(()));
}

/// A server without a manifest is the key that it is; trouble with the network is no such server.
#[tokio::test]
async fn a_server_need_not_show_a_manifest() {
    for (answer, expected) in [
        (Fetched::Status(404), Ok(())),
        (Fetched::Status(403), Ok(())),
        (Fetched::Status(503), Err(ErrorCode::UnverifiedAgent)),
        (Fetched::Unreachable, Err(ErrorCode::ServiceUnavailable)),
    ] {
        let met = Met::new(identity(SERVER)).await;
        met.node.spy.publish(MANIFEST_URL, answer.clone());
        assert_eq!(met.shake().await, expected, "{answer:?}");
    }
}

/// A pin holds as soon as the operator says so, whatever was found out before it.
#[tokio::test]
async fn a_pin_holds_for_what_is_cached() {
    let met = Met::new(identity(SERVER)).await;
    let shown = manifest(SERVER);
    let hash = shown.digest_without(a2a_wire::NOT_HASHED);
    met.shows(shown);
    assert_eq!(met.shake().await, Ok(()));
    let operator = Server::start(
        std::sync::Arc::clone(&met.node.home),
        ServerSettings::new().unwrap(),
    );
    for (pinned, expected) in [
        (Digest::of(b"another"), Err(ErrorCode::InvalidManifest)),
        (hash, Ok(())),
    ] {
        let pins = Pins {
            manifest: Some(pinned),
            keys: Vec::new(),
        };
        operator.set_rules(Rules {
            pins: [(did(SERVER).to_string(), pins)].into(),
            ..Rules::default()
        });
        assert_eq!(met.shake().await, expected);
    }
}

//! Audit records of handshakes that come to no session.

use std::time::Duration;

use a2a_net::transport::Place;
use a2a_session::Own;
use serde_json::json;

use crate::hand::*;
use crate::support::*;

/// The client with a manifest of this content, signed then.
fn client(name: &str, at: i64) -> Own {
    let manifest = manifest_with(CLIENT, at, |draft| draft["name"] = json!(name));
    Own::new(manifest, "k".parse().unwrap(), key(CLIENT)).unwrap()
}

fn text(records: &[serde_json::Value], wanted: &str) -> usize {
    let records = records.iter().map(ToString::to_string);
    records.filter(|record| record.contains(wanted)).count()
}

/// A newer manifest is accepted between PROOF and ACCEPT_POLICY of a handshake with an older one.
#[tokio::test]
async fn a_rollback_found_when_the_session_begins_is_recorded() {
    let world = World::<InMemory>::new().await;
    let (server, standing) = (&world.server, world.client_home.standing());
    let mut deliver =
        async |server: &a2a_net::Server, message| send(server, Place::Handshake, message).await;
    let clock = clock();
    let old = (client("old", UNIX - 200), &clock);
    let (next, policy) = prove(server, standing, old, &mut deliver).await;
    let (_, accept) = next.handle_message(clock.now(), &policy).unwrap();
    Hand::of(server, standing, client("new", UNIX - 100)).await;
    let answer = send(server, Place::Handshake, accept).await;
    assert_eq!(code_of(&answer), "INVALID_MANIFEST");
    let handshakes = world.served("handshake");
    assert_eq!(handshakes.len(), 2, "{handshakes:?}");
    assert_eq!(text(&handshakes[1..], "a newer manifest was accepted"), 1);
    assert_eq!(text(&handshakes[1..], &did(CLIENT).to_string()), 1);
    assert_eq!((server.half_open(), server.sessions().len()), (0, 1));
}

/// Of a client that was verified it is a record, of others a count by source.
#[tokio::test(start_paused = true)]
async fn handshakes_that_expire_are_recorded() {
    let world = World::<InMemory>::new().await;
    let (server, standing) = (&world.server, world.client_home.standing());
    let mut deliver =
        async |server: &a2a_net::Server, message| send(server, Place::Handshake, message).await;
    let clock = clock();
    prove(server, standing, (own(), &clock), &mut deliver).await;
    send(server, Place::Handshake, hello(own())).await;
    assert_eq!(server.half_open(), 2);
    while server.half_open() > 0 {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let handshakes = world.served("handshake");
    assert_eq!(text(&handshakes, "HANDSHAKE_TIMEOUT"), 1, "{handshakes:?}");
    assert_eq!(text(&handshakes, &did(CLIENT).to_string()), 1);
    world.close_logs();
    let counted = world.served("rejections");
    let cause = "the client did not finish the handshake in time";
    assert_eq!(text(&counted, cause), 1, "{counted:?}");
}

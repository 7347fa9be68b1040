//! Document 004 (A2A protocol): what other tests leave out.

use a2a_wire::{ErrorCode, Reason};
use serde_json::json;

use crate::adversary::{PROOF, edit, refused, resign};
use crate::support::{CLIENT, UNIX, World, sent};

/// §5, CHALLENGE, "Client Processing": "Verify timestamp is recent".
/// Proves A-5-11.
#[test]
fn challenge_with_an_old_timestamp_is_refused() {
    for (skew, is_recent) in [(-301, false), (-300, true), (300, true), (301, false)] {
        let mut world = World::new();
        let (client, hello) = world.begin(CLIENT);
        let challenge = sent(world.serve(&hello));
        let changed = edit(&challenge, |it| it["timestamp"] = json!(UNIX + skew));
        let aborted = world.challenged(client, &changed).unwrap_err();
        // A recent one is refused for its signature, which is looked at next.
        let (code, reason) = match is_recent {
            true => (ErrorCode::UnverifiedAgent, Reason::VerificationFailed),
            false => (ErrorCode::HandshakeFailed, Reason::TimestampSkew),
        };
        assert_eq!(aborted.failure.code, code, "{skew}");
        assert_eq!(aborted.failure.reason, Some(reason), "{skew}");
    }
}

/// §5, PROOF, "Server Processing": "Confirm manifest hashes".
/// Proves A-5-18.
#[test]
fn proof_with_another_manifest_hash_is_refused() {
    for name in ["server_manifest_hash", "client_manifest_hash"] {
        let mut world = World::new();
        let (client, hello) = world.begin(CLIENT);
        let challenge = sent(world.serve(&hello));
        let (_, proof) = world.challenged(client, &challenge).unwrap();
        let other = a2a_wire::Digest::of(b"another manifest").to_string();
        let changed = resign::<PROOF>(&proof, CLIENT, |it| it[name] = json!(other));
        let code = ErrorCode::HandshakeFailed;
        refused(&mut world, &changed, code, Reason::HashMismatch);
        assert_eq!(world.server.half_open(), 0);
    }
}

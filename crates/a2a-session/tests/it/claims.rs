//! Messages that are worked on at once: what one has claimed nobody else gets, and no limit is
//! exceeded meanwhile (profile §8.2, §8.5; threats 11, 13, 14, 35, 38).

use a2a_session::*;
use a2a_wire::{ErrorCode, Reason};

use crate::adversary::refusal;
use crate::support::{CLIENT, World, did, established, limits, sent, text, tree};

impl World {
    fn read<'m>(&mut self, message: &'m [u8]) -> Arriving<'m> {
        Arriving::read(message, &mut self.random).unwrap()
    }

    fn claim<'a>(&mut self, arriving: &'a Arriving<'a>) -> Result<Claim<'a>, Box<Refused>> {
        self.server.claim(self.now(), self.source, arriving)
    }

    fn work(&mut self, claim: Claim<'_>) -> Worked {
        claim.work(self.now(), &self.book, &mut self.random)
    }

    fn settle(&mut self, claim: Claim<'_>) -> Result<Reply, Box<Refused>> {
        let worked = self.work(claim);
        self.server.settle(self.now(), worked)
    }

    fn proof(&mut self, seed: u8) -> (Box<ExpectPolicy>, Vec<u8>) {
        let (client, hello) = self.begin(seed);
        let challenge = sent(self.serve(&hello));
        self.challenged(client, &challenge).unwrap()
    }

    fn accept(&mut self, seed: u8) -> (Box<ExpectSession>, Vec<u8>) {
        let (client, proof) = self.proof(seed);
        let policy = sent(self.serve(&proof));
        client.handle_message(self.now(), &policy).unwrap()
    }
}

/// Nothing is left of a claim that another message makes.
fn is_too_late(claimed: Result<Claim<'_>, Box<Refused>>) {
    let failure = claimed.unwrap_err().failure;
    assert_eq!(failure.code, ErrorCode::HandshakeTimeout);
}

#[test]
fn threat_11_a_nonce_that_is_being_answered() {
    let mut world = World::new();
    let (client, hello) = world.begin(CLIENT);
    let (first, second) = (world.read(&hello), world.read(&hello));
    let claim = world.claim(&first).unwrap();
    assert_eq!(world.server.half_open(), 1);
    let refused = world.claim(&second).unwrap_err();
    assert_eq!(refused.failure.code, ErrorCode::ReplayDetected);
    assert_eq!(refused.failure.reason, Some(Reason::NonceReused));
    let challenge = sent(world.settle(claim));
    // The first is unharmed.
    let (_, proof) = world.challenged(client, &challenge).unwrap();
    sent(world.serve(&proof));
}

#[test]
fn threats_13_14_a_proof_and_an_acceptance_are_claimed_once() {
    let mut world = World::new();
    let (client, proof) = world.proof(CLIENT);
    let (first, second) = (world.read(&proof), world.read(&proof));
    let claim = world.claim(&first).unwrap();
    is_too_late(world.claim(&second));
    let policy = sent(world.settle(claim));
    is_too_late(world.claim(&second));
    let (client, accept) = client.handle_message(world.now(), &policy).unwrap();
    let (first, second) = (world.read(&accept), world.read(&accept));
    let claim = world.claim(&first).unwrap();
    is_too_late(world.claim(&second));
    assert_eq!((world.server.half_open(), world.server.sessions()), (1, 0));
    let (_, session) = established(world.settle(claim));
    assert_eq!((world.server.half_open(), world.server.sessions()), (0, 1));
    is_too_late(world.claim(&second));
    client.handle_message(world.now(), &session).unwrap();
}

/// At the limit, and one past it, while nobody has been answered.
#[test]
fn threat_35_places_are_taken_before_anything_is_worked_on() {
    let mut world = World::with(|config| config.limits.half_open = limits(2, 2, 0));
    let hellos: Vec<_> = (0..3).map(|_| world.begin(CLIENT).1).collect();
    let read: Vec<_> = hellos.iter().map(|hello| world.read(hello)).collect();
    let first = world.claim(&read[0]).unwrap();
    let second = world.claim(&read[1]).unwrap();
    let refused = world.claim(&read[2]).unwrap_err();
    assert_eq!(refused.failure.code, ErrorCode::ServiceUnavailable);
    // One that fails gives its place back.
    world.book.blocked.insert(did(CLIENT).to_string());
    let refused = refusal(world.settle(first));
    assert_eq!(refused.failure.code, ErrorCode::UnverifiedAgent);
    assert_eq!(world.server.half_open(), 1);
    world.book.blocked.clear();
    let third = world.claim(&read[2]).unwrap();
    sent(world.settle(second));
    sent(world.settle(third));
    assert_eq!(world.server.half_open(), 2);
}

/// Everybody is verified before anybody gets a session.
#[test]
fn threat_38_acceptances_at_once() {
    let mut world = World::with(|config| {
        config.limits.hello_rate = policy::Rate::new(1_000_000, 1).unwrap();
    });
    let stated = tree(&serde_json::json!({"max_concurrent_sessions": 3}));
    let policy = policy::Policy::read(&stated, 1 << 26).unwrap();
    world.book.policy = policy.complete().unwrap();
    let messages: Vec<_> = (0..5).map(|_| world.accept(CLIENT).1).collect();
    let read: Vec<_> = messages.iter().map(|it| world.read(it)).collect();
    let mut worked = Vec::new();
    for arriving in &read {
        let claim = world.claim(arriving).unwrap();
        worked.push(world.work(claim));
    }
    let now = world.now();
    let settled: Vec<_> = worked
        .into_iter()
        .map(|worked| world.server.settle(now, worked))
        .collect();
    assert!(settled[..3].iter().all(Result::is_ok));
    for refused in settled.into_iter().skip(3) {
        let failure = refusal(refused).failure;
        assert_eq!(failure.code, ErrorCode::RateLimitExceeded);
    }
    assert_eq!((world.server.half_open(), world.server.sessions()), (0, 3));
}

/// Time goes on while signatures are checked.
#[test]
fn threat_32_what_takes_too_long_to_work_on() {
    let mut world = World::new();
    let (_, hello) = world.begin(CLIENT);
    let hello = world.read(&hello);
    let claim = world.claim(&hello).unwrap();
    let worked = world.work(claim);
    world.wait(20);
    let late = world.server.settle(world.now(), worked);
    assert_eq!(refusal(late).failure.code, ErrorCode::HandshakeTimeout);

    let (_, accept) = world.accept(CLIENT);
    let accept = world.read(&accept);
    let claim = world.claim(&accept).unwrap();
    let worked = world.work(claim);
    world.wait(15);
    let late = world.server.settle(world.now(), worked);
    assert_eq!(refusal(late).failure.code, ErrorCode::HandshakeTimeout);
    assert_eq!((world.server.half_open(), world.server.sessions()), (0, 0));
    world.is_well();
}

/// Threat 26: a client that gives up while its PROOF is looked at has no handshake any more.
#[test]
fn threat_26_given_up_meanwhile() {
    let mut world = World::new();
    let (_, hello) = world.begin(CLIENT);
    let challenge = sent(world.serve(&hello));
    let nonce_b = crate::support::json(&challenge)["nonce_b"].clone();
    world.server.handle_timeout(world.now());
    let (client, hello) = world.begin(CLIENT);
    let other = sent(world.serve(&hello));
    let (_, proof) = world.challenged(client, &other).unwrap();
    let proof = world.read(&proof);
    let claim = world.claim(&proof).unwrap();
    let give_up = |nonce_b: &serde_json::Value| {
        text(
            &serde_json::json!({"type": "error", "error_code": "POLICY_VIOLATION",
            "error_message": "no", "extensions": {"nonce_b": nonce_b}}),
        )
    };
    // Another handshake is another.
    assert!(matches!(
        world.serve(&give_up(&nonce_b)),
        Ok(Reply::GivenUp(_))
    ));
    assert_eq!(world.server.half_open(), 1);
    let nonce_b = crate::support::json(&other)["nonce_b"].clone();
    assert!(matches!(
        world.serve(&give_up(&nonce_b)),
        Ok(Reply::GivenUp(_))
    ));
    assert_eq!(world.server.half_open(), 0);
    let late = world.settle(claim);
    assert_eq!(refusal(late).failure.code, ErrorCode::HandshakeTimeout);
    assert_eq!(world.server.half_open(), 0);
}

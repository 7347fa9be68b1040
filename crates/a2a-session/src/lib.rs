//! What an A2A message means in the state a handshake or session is in, for both ends.
//!
//! A handshake has a type for each state, and a transition consumes it: a client goes
//! [`ExpectChallenge`] → [`CheckServer`] → [`ExpectPolicy`] → [`ExpectSession`] → [`Established`]; a
//! [`Server`] keeps the states of all its handshakes, found by what only the client can know and
//! taken out once. [`Established`] holds the evidence ([`PeerVerified`], [`ProofValid`],
//! [`PolicyAccepted`]) that only a handshake makes. A session is a [`ClientSession`] or a
//! [`ServerSession`]; [`Agents`] is what the sessions of one agent share.
//!
//! It is sans-IO: bytes, time and randomness go in; bytes, answers and records come out. Whom a DID
//! belongs to must be found out elsewhere: a machine says what it [`Need`]s, after a valid signature
//! only, and goes on with what was [`Found`]. It writes no records: every decision comes with what
//! to put on record ([`Record`], [`Refused`]).
//!
//! It is deliberately without transports, retries and handlers, and it has no cryptography of its
//! own: that is `a2a-identity`.
//!
//! Reading order: `config`, [`failure`](Failure), `own`, `sources`, `replay`; `handshake/vetting`,
//! `handshake/hello`, `handshake/proof`, `handshake/claim`, `handshake/server`, `handshake/client`;
//! `session/checks`, `session/server`, `session/server/admit`, `session/server/answer`,
//! `session/client`.
//!
//! ```
//! use std::net::{IpAddr, Ipv4Addr};
//! use std::sync::Arc;
//! # use std::time::Duration;
//! # use a2a_identity::{Did, DidKey, NoRandomness, Pins, RootKeys, Seen, SigningKey, sign_manifest};
//! use a2a_session::{ClientConfig, ExpectChallenge, Facts, Found, Now, Reply, Server, ServerConfig, ServerStep};
//! # use a2a_session::{Baseline, Directory, Own};
//! # use canonical::{Object, Value};
//! # struct Nobody;
//! # impl Directory for Nobody {
//! #     fn is_blocked(&self, _: &Did) -> bool { false }
//! #     fn policy_for(&self, _: &Did) -> policy::EffectivePolicy { policy::EffectivePolicy::default() }
//! #     fn pins(&self, _: &Did) -> Pins { Pins::default() }
//! #     fn last_seen(&self, _: &Did) -> Option<Seen> { None }
//! #     fn baseline(&self, _: &Did) -> Baseline { Baseline::Refuse }
//! #     fn spoke_profile(&self, _: &Did) -> bool { false }
//! #     fn saw_nonce(&self, _: &Did, _: &str) -> bool { false }
//! # }
//! # let url = "https://bob.example.com/a2a/handshake";
//! # let now = Now { monotonic: Duration::ZERO, unix: a2a_wire::UnixSeconds(1_770_000_000) };
//! # let own = |seed: u8| {
//! #     let key = SigningKey::from_seed(&[seed; 32]);
//! #     let bytes = canonical::base64url::encode(&key.verifying_key().to_bytes());
//! #     let did = DidKey::new(key.verifying_key());
//! #     let text = format!(r#"{{"manifest_version":"1.0","agent_did":"{did}","agent_id":"a",
//! #         "public_keys":[{{"kid":"k","key":"{bytes}"}}],
//! #         "endpoints":[{{"type":"handshake","url":"{url}"}}]}}"#);
//! #     let Ok(Value::Object(tree)) = Value::parse(text.as_bytes()) else { panic!() };
//! #     let mut tree = tree.into_owned();
//! #     sign_manifest(&mut tree, &"k".parse().unwrap(), &key, now.unix).unwrap();
//! #     Arc::new(Own::new(tree, "k".parse().unwrap(), key).unwrap())
//! # };
//! # let (alice, bob) = (own(1), own(2));
//! # let mut last = 0;
//! # let mut random = move |bytes: &mut [u8]| -> Result<(), NoRandomness> {
//! #     bytes.iter_mut().for_each(|byte| { last += 1; *byte = last; });
//! #     Ok(())
//! # };
//! # let directory = Nobody;
//! let source = IpAddr::V4(Ipv4Addr::LOCALHOST).into();
//! let config = Arc::new(ClientConfig::new(bob.did().clone(), url)?);
//! # let root = RootKeys::DidKey(SigningKey::from_seed(&[2; 32]).verifying_key());
//! let mut server = Server::new(bob, ServerConfig::new()?);
//! let (client, hello) = ExpectChallenge::begin(alice, config, now, &mut random)?;
//! let reply = server.handle_message(now, source, &hello, &directory, &mut random);
//! # let challenge = match reply { Ok(Reply::Send(message)) => message, other => panic!("{other:?}") };
//! // The client must find out who the server is before it signs anything.
//! let Ok(ServerStep::Resolve(check)) = client.handle_message(now, &challenge, &directory) else {
//!     panic!("nobody has told it");
//! };
//! let facts = Facts { endpoints: Vec::new(), root, manifest: None };
//! let Ok(ServerStep::Proven { next, message }) = check.handle_found(now, Found::Peer(Ok(facts))) else {
//!     panic!("it is the server");
//! };
//! let reply = server.handle_message(now, source, &message, &directory, &mut random);
//! # let offer = match reply { Ok(Reply::Send(message)) => message, other => panic!("{other:?}") };
//! let (next, message) = next.handle_message(now, &offer).map_err(|aborted| aborted.failure)?;
//! let reply = server.handle_message(now, source, &message, &directory, &mut random);
//! let Ok(Reply::Established { session, message, .. }) = reply else {
//!     panic!("the client has agreed");
//! };
//! let client = next.handle_message(now, &message).map_err(|aborted| aborted.failure)?;
//! assert_eq!(client.transcript(), session.transcript());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![warn(clippy::indexing_slicing)]
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

mod config;
mod failure;
#[doc(hidden)]
pub mod fuzzing;
mod handshake;
mod now;
mod own;
mod replay;
mod session;
mod sources;

pub use config::{
    Baseline, ClientConfig, Directory, Method, RequireManifest, Sealing, ServerConfig,
    ServerLimits, SessionLimits, ShowManifest, TrustRules, times,
};
pub use failure::{Binding, Failure};
pub use handshake::claim::{Arriving, Claim, Worked};
pub use handshake::client::{
    Aborted, CheckServer, ExpectChallenge, ExpectPolicy, ExpectSession, ServerStep,
};
pub use handshake::evidence::{Established, PeerVerified, PolicyAccepted, ProofValid};
pub use handshake::reply::{Proving, Refused, Reply};
pub use handshake::server::Server;
pub use handshake::slots::SessionSlot;
pub use handshake::table::Lapsed;
pub use handshake::vetting::{ClaimedIdentity, Facts, Found, Freshness, Need};
pub use now::Now;
pub use own::{Own, OwnError};
pub use replay::{Full, Memory, Stale, WINDOW, Window};
pub use session::agents::{AgentLimits, Agents};
pub use session::client::{ANSWER, CallError, ClientEvent, ClientSession, Dropped, Outgoing};
pub use session::incoming::Incoming;
pub use session::record::{Check, Checks, Record};
pub use session::requests::Token;
pub use session::server::{
    Answer, ChunkError, EndReason, Ended, Handled, Host, Look, NotRunning, Refusal, ServerSession,
    Signed, Start,
};
pub use session::works::{Work, WorkId, WorkLimits};
pub use sources::{Holder, Source, Sources};

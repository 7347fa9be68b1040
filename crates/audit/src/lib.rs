//! The tamper-evident record of what agents did: one chain of records for both protocols (A2A
//! profile §13), and the thread that writes it.
//!
//! A record says what happened, and is chained to the one before it by its hash. Every so often
//! the node signs where the chain stands. So whoever has the files and the node's public key can
//! prove that nothing was changed, removed or slipped in ([`verify_folder`]), and is told the first
//! record that is not as it was written. Bodies and addresses can be erased, and old records
//! dropped, without breaking the chain ([`Log::purge`]).
//!
//! A record is with the kernel before whoever waits for it is answered ([`Pending`]); one that
//! cannot be written is an error, at once if that is known ([`Log::reserve`], before the thing
//! happens that is to be recorded).
//!
//! It is deliberately without cryptography beyond SHA-256: who signs ([`Signer`]) and who knows the
//! keys ([`KeyCheck`]) come from outside, and so do time and randomness, and who knows of the log if
//! the folder is emptied ([`Remembered`]). It decides nothing about requests, and has no place for
//! payload data.
//!
//! Reading order: the pure part is `body` (what a record says), `line` (its one spelling), `keep`
//! (records of the log about itself), `checkpoint`, [`verify`](verify()), `fault`, `rejections`; the
//! files are `folder`, `regular`, `entry`, `recover`, `ahead` and `purge`; the writer is `log` (the handle), `queue`,
//! `pending`, `writer`, `syncer`.
//!
//! ```
//! use audit::{Body, Checkpoint, Event, KeyCheck, Log, NotSigned, Parts, Record, Refusal, Settings};
//! use audit::{Signer, UnixMillis, verify_folder};
//!
//! /// Stands for the node's key; a real one makes a JWS.
//! struct Key;
//!
//! impl Signer for Key {
//!     fn sign(&self, it: &Checkpoint) -> Result<String, NotSigned> {
//!         Ok(format!("{}|{}|{}|{}", it.log_id, it.seq, it.head_hash, it.timestamp))
//!     }
//! }
//!
//! impl KeyCheck for Key {
//!     fn check(&self, jws: &str) -> Result<Checkpoint, Refusal> {
//!         let invalid = || Refusal::Invalid("not a checkpoint".into());
//!         let words: Vec<&str> = jws.split('|').collect();
//!         let [log_id, seq, hash, time] = words[..] else { return Err(invalid()) };
//!         Ok(Checkpoint {
//!             log_id: log_id.into(),
//!             seq: seq.parse().map_err(|_| invalid())?,
//!             head_hash: hash.parse().map_err(|_| invalid())?,
//!             timestamp: time.parse().map_err(|_| invalid())?,
//!         })
//!     }
//! }
//!
//! let home = tempfile::tempdir()?;
//! let log = Log::open(home.path(), Settings::default(), Parts {
//!     signer: Box::new(Key),
//!     keys: Box::new(Key),
//!     random: Box::new(|bytes: &mut [u8]| Ok(bytes.fill(7))), // a program passes the system's
//!     clock: Box::new(|| UnixMillis(1_770_000_000_000)),
//!     alarm: Box::new(|alarm| eprintln!("{alarm}")),
//! })?;
//! let record = Record {
//!     event: Event::Request,
//!     body: Body { agent: Some("default"), name: Some("echo"), ..Body::default() },
//! };
//! let receipt = log.append(&record)?.wait()?; // or .await
//! log.close();
//!
//! let report = verify_folder(home.path(), &Key)?;
//! assert!(report.is_intact() && report.unsigned == 0);
//!
//! let segment = &audit::segments(home.path())?[0];
//! let text = std::fs::read_to_string(&segment.path)?.replace("echo", "ecco");
//! std::fs::write(&segment.path, text)?;
//! let report = verify_folder(home.path(), &Key)?;
//! assert_eq!(report.faults[0].seq, Some(receipt.seq));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![warn(clippy::indexing_slicing)]

mod ahead;
mod body;
mod checkpoint;
mod disk;
mod entry;
mod error;
mod fault;
mod folder;
#[doc(hidden)]
pub mod fuzzing;
mod keep;
mod line;
mod lock;
mod log;
mod pending;
mod purge;
mod queue;
mod random;
mod recover;
mod regular;
mod rejections;
mod remembered;
mod settings;
mod syncer;
mod text;
mod time;
mod verify;
mod writer;

pub use body::{
    Binding, Body, Check, DidText, Event, MAX_BODY, MAX_DID, MAX_TEXT, PolicyChecks, Record,
    Verdict, session_hash,
};
pub use checkpoint::{Checkpoint, KeyCheck, MAX_CHECKPOINT, NotSigned, Refusal, Signer};
pub use entry::{Entry, Follower, Stats};
pub use error::Error;
pub use fault::{Fault, FaultKind, Place};
pub use folder::{Lines, Segment, checkpoints, segments, verify_folder};
pub use keep::PurgeKind;
pub use line::{Link, MAX_LINE};
pub use log::{Log, Permit};
pub use pending::{Pending, Receipt};
pub use purge::{Purge, Purged, Retention};
pub use random::{NoRandomness, Randomness};
pub use rejections::{Rejected, Rejections};
pub use remembered::Remembered;
pub use settings::{Alarm, NotASync, Parts, Settings, SyncWhen};
pub use text::printable;
pub use time::{Clock, UnixMillis};
pub use verify::{End, Found, Gap, Head, RecordedPurge, Report, Source, verify};

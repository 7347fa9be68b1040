//! The tamper-evident record.
#![warn(clippy::indexing_slicing)]

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
mod rejections;
mod settings;
mod syncer;
mod text;
mod time;
mod verify;
mod writer;

pub use body::{
    Binding, Body, Check, DidText, Event, MAX_BODY, MAX_DID, MAX_TEXT, PolicyChecks, Record, Verdict,
    session_hash,
};
pub use checkpoint::{Checkpoint, KeyCheck, MAX_CHECKPOINT, NotSigned, Refusal, Signer};
pub use entry::{Entry, Stats, last_lines};
pub use error::Error;
pub use fault::{Fault, FaultKind, Place};
pub use folder::{Lines, Segment, segments, verify_folder};
pub use line::{Link, MAX_LINE};
pub use log::{Log, Permit};
pub use pending::{Pending, Receipt};
pub use purge::{Purge, Purged, Retention};
pub use random::{NoRandomness, Randomness};
pub use rejections::{Rejected, Rejections};
pub use settings::{Alarm, NotASync, Parts, Settings, SyncWhen};
pub use time::{Clock, UnixMillis};
pub use verify::{End, Found, Gap, Head, Report, Source, verify};

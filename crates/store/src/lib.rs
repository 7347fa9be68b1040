//! What outlives a request, and most of it the process: narrow traits, named for their use, each in
//! memory and in one SQLite file.
//!
//! - [`Results`]: answers to requests that may be sent again
//! - [`Snapshots`]: records of a session
//! - [`ReplayIds`]: ids that may be used once
//! - [`RateBuckets`]: how far rates are used up
//! - [`HeldCalls`] and [`Approvals`]: calls that wait for the operator, from both sides
//! - [`Pins`]: what was approved and must not change unseen
//! - [`Memories`]: what agents remember, found by key, label and words
//! - [`Chains`]: what runs for an agent in several steps, and how far it is
//! - [`Learning`]: what is learned from, and what was learned
//! - [`Plans`]: tasks in columns, and what became of them
//! - [`Secrets`]: sealed by a [`Cipher`] before they get here
//!
//! A [`Store`] gives them out for an owner: `store.for_agent(&agent).results()` reaches the results
//! of that agent, and there is no argument by which it could reach those of another.
//!
//! Operations give a [`Pending`], which settles when what was written survives the death of the
//! process ([`SyncMode`] is about the death of the machine). It is a future that needs no runtime;
//! code that is not async [waits](Pending::wait). Time is an argument: in milliseconds since 1970,
//! or, where it decides whether something is done again, as [`Uptime`].
//!
//! It is deliberately no place for any data: it answers what a trait asks and no other query, and has no
//! protocol types, no
//! cryptography and no clock here. The audit chain is not here either: that is a file of its own,
//! which nothing ever changes.
//!
//! Reading order: `scope` (whose data it is), one trait such as `results` (its two implementations
//! are with it), `sqlite` and in it `writer`. To add a trait: a file like `replay_ids.rs`, its
//! schema in `sqlite/migrations.rs`, a line each in `sqlite/meter.rs`, [`Backend`] and its two
//! implementations, and a file of contract tests that run against both.
//!
//! ```
//! use store::{AgentId, Begun, Hash, Limits, Memory, Store, Uptime};
//!
//! # fn main() -> Result<(), store::Error> {
//! let store = Store::new(Memory::new(Limits::default()));
//! let results = store.for_agent(&AgentId::new("ada")?).results();
//! let (now, hash) = (Uptime(5000), Hash([7; 32]));
//!
//! assert_eq!(results.begin(now, "request-1", hash).wait()?, Begun::New);
//! results.finish(now, "request-1", Some(b"42".to_vec())).wait()?;
//! assert_eq!(results.begin(now, "request-1", hash).wait()?, Begun::Finished);
//! assert_eq!(results.result(now, "request-1").wait()?, Some(b"42".to_vec()));
//! # Ok(())
//! # }
//! ```

mod approvals;
mod chains;
mod error;
mod key;
mod learning;
mod limits;
mod memories;
mod memory;
mod pending;
mod pins;
mod plans;
mod rate_buckets;
mod replay_ids;
mod results;
mod scope;
mod secrets;
mod snapshots;
mod sqlite;
#[doc(hidden)]
pub mod statements;
mod value;

pub use approvals::{
    Approval, Approvals, Call, Caller, Held, HeldCalls, MAX_LISTED, MAX_REASON, Verdict,
};
pub use chains::{Chain, ChainHead, ChainState, ChainView, Chains};
pub use error::Error;
pub use key::{Passphrase, StoreKey};
pub use learning::{Component, Learning, MAX_SAMPLES_BYTES, Refinement, Sample, SampleKind};
pub use limits::{Limit, Limits, MAX_NAME, MAX_TASK_LIST, json_length};
pub use memories::{
    Entry, EntryNumber, Forgotten, Found, MAX_COUNTED, MAX_FOUND, MAX_FOUND_BYTES, MAX_KEY,
    MAX_KEYS, MAX_QUERY, MAX_TAG, MAX_TAGS, Memories, Near, NewEntry, Overflow, Rooms, Text, Tier,
    TierSize, Unread, Unwanted, Vectors, Wanted,
};
pub use memory::Memory;
pub use pending::{Pending, Promise, wait};
pub use pins::{Advanced, Compared, Pin, PinKind, Pins};
pub use plans::{
    Author, Change, Changed, MAX_CHANGES_BYTES, NewTask, Plan, Plans, Task, TaskChange,
};
pub use rate_buckets::{Bucket, RateBuckets};
pub use replay_ids::{ReplayIds, Use};
pub use results::{Begun, Results};
pub use scope::{AgentId, Backend, Owner, Scope, SessionId, Store, Swept};
pub use secrets::{Cipher, SealedValues, Secrets, Vault};
pub use snapshots::Snapshots;
pub use sqlite::{
    Backup, Existing, Figures, Integrity, NotASyncMode, Options, Report, Restored, Sqlite,
    SyncMode, TableUse, backup, check,
};
pub use value::{Hash, Moment, UnixMillis, Uptime};

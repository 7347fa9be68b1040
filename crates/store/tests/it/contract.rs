//! What every back end must do. Each file is the contract of one trait; `subject.rs` names the back
//! ends it runs against.

mod approvals;
mod chains;
mod learning;
mod memories;
mod memories_found;
mod memories_room;
mod pins;
mod plans;
mod rate_buckets;
mod replay_ids;
mod results;
mod scopes;
mod secrets;
mod snapshots;
mod sweep;
mod vectors;

pub(crate) use chains::journal;
pub(crate) use learning::{component, experience, newest, refinement};
pub(crate) use memories::{entry, session};
pub(crate) use plans::{by, plan, task};
pub(crate) use secrets::cipher;

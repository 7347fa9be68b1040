//! What several crates need alike: quotas, byte budgets and bounded tables that stay fair, a limit for
//! messages of the log that repeat, and files that are replaced whole.
//!
//! Everything that a peer can fill is limited three ways: in all, for each holder, and with a
//! reserve that only known holders use. [`Quota`] counts, [`Budget`] counts bytes and gives them
//! back by itself, and [`Table`] keeps entries and evicts the right one when it is full.
//!
//! A *holder* is who an amount is counted for. Identities that anybody can make for free are no
//! holders: count a stranger by its network source, and a known agent by its name.
//!
//! The crate has no clock, no randomness and no asynchronous code, and no I/O but [`replace_file`].
#![cfg_attr(
    not(test),
    warn(clippy::indexing_slicing, clippy::arithmetic_side_effects)
)]

mod atomic_file;
mod budget;
mod log_limit;
mod quota;
mod table;

pub use atomic_file::{Durability, PRIVATE, TEMPORARY, replace_file, sync_folder};
pub use budget::{Budget, Charge};
pub use log_limit::{LeftOut, LogLimit};
pub use quota::{Class, Exceeded, Limits, Quota};
pub use table::Table;

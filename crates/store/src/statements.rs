//! The SQL of some operations, so that the benchmark can run the same statements without us.

pub use crate::learning::ADD_SAMPLE;
pub use crate::memories::statements::{
    BY_KEY as MEMORY_BY_KEY, INSERT as MEMORY_INSERT, LATEST_MATCHING as MEMORY_MATCHING,
};
pub use crate::pins::FIND as FIND_PIN;
pub use crate::snapshots::{
    ADD_PART as SNAPSHOT_ADD_PART, FIND as SNAPSHOT_FIND, GROW as SNAPSHOT_GROW,
    READ as SNAPSHOT_READ,
};
pub use crate::sqlite::USAGE;

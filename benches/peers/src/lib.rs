//! What several peers have in common.

pub mod tls;

//! The launcher against those who want out: each attempt as root and as a plain user.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "helpers of tests fail as tests do, and say what they leave out"
)]

mod commands;
mod doctor;
mod files;
mod host;
mod lifetime;
mod limits;
mod network;
mod processes;
mod rights;
mod waiting;
#[cfg(feature = "wasm")]
mod wasm;

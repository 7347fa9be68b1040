//! The log as its users have it, against the profile's vectors and the threats by their numbers.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests fail as tests do"
)]

mod appending;
mod evidence;
mod foreign;
mod full_disk;
mod hostile;
mod kill;
mod opening;
mod properties;
mod purging;
mod reading;
mod remembering;
mod support;
mod tampering;
mod vectors;

#[test]
fn corpus_of_audit_file() {
    testkit::replay("audit_file", audit::fuzzing::audit_file);
}

//! `cargo xtask full`: what an issue must pass before it is called done.

use crate::step::{Tally, cargo};
use crate::tools::HACK;
use crate::{bench, fuzz, test};

/// Seconds of live fuzzing for each target.
const FUZZ_SECONDS: u64 = 600;

pub(crate) fn run() -> Result<(), String> {
    test::run()?;
    HACK.ensure()?;
    let mut tally = Tally::default();
    tally.step(
        "each feature alone",
        &mut cargo("hack check --workspace --each-feature --all-targets"),
    );
    tally.close()?;
    fuzz::all(FUZZ_SECONDS)?;
    bench::run(&[])?;
    bench::run(&["a2a-load"])
}

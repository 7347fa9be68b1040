//! `cargo xtask full`: what an issue must pass before it is called done.

use crate::step::{Tally, cargo};
use crate::tools::HACK;
use crate::{bench, dist, fuzz, test};

/// Tests that take too long for every day.
const MILLION: &str = "test(/a_million_entries/)";
const PEAK: &str = "test(/peak_memory_of_the_largest/)";
const DONE_ONCE: &str = "test(/done_once::/)";
const REGISTRIES: &str = "test(/servers_of_the_registries/)";

pub(crate) fn run() -> Result<(), String> {
    test::run()?;
    HACK.ensure()?;
    let mut tally = Tally::default();
    tally.step(
        "each feature alone",
        &mut cargo("hack check --workspace --each-feature --all-targets"),
    );
    tally.step(
        "a million entries",
        cargo("nextest run --release --package store --run-ignored only").args(["-E", MILLION]),
    );
    tally.step(
        "peak memory of the largest amounts",
        cargo("nextest run --release --package frith --test it --run-ignored only")
            .args(["-E", PEAK]),
    );
    tally.step(
        "every way in which work ends",
        cargo("nextest run --workspace --all-features --locked --run-ignored only")
            .args(["-E", DONE_ONCE]),
    );
    tally.check(
        "release archive: size, same bytes",
        dist::release().map(drop),
    );
    tally.step(
        "MCP servers from npm and PyPI",
        cargo("nextest run --package frith --all-features --locked --run-ignored only")
            .args(["-E", REGISTRIES]),
    );
    tally.close()?;
    fuzz::run(&[])?;
    bench::run(&[])?;
    bench::run(&["a2a-load"])
}

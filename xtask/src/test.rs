//! `cargo xtask test`: what every push must pass.

use std::process::Command;

use crate::step::{Tally, cargo};
use crate::tools::{DENY, NEXTEST, ensure_debian};
use crate::{npm, python};

/// Tests with a step of their own, so that the report names them.
const LAYERING: &str = "binary(layering)";
const CORPUS: &str = "test(/corpus_of_/)";

pub(crate) fn run() -> Result<(), String> {
    NEXTEST.ensure()?;
    DENY.ensure()?;
    python::ensure()?;
    npm::ensure()?;
    ensure_debian("faketime", "--version", "faketime")?;
    ensure_debian("mkfs.ext4", "-V", "e2fsprogs")?;
    println!("this takes a few minutes on a fresh machine; each step prints when it ends");
    let mut tally = Tally::default();
    tally.step("format (mend: cargo fmt)", &mut cargo("fmt --all --check"));
    tally.step(
        "format of fuzz targets",
        &mut cargo("fmt --manifest-path fuzz/Cargo.toml --check"),
    );
    tally.step(
        "format of benchmark peers",
        &mut cargo("fmt --manifest-path benches/peers/Cargo.toml --check"),
    );
    tally.step(
        "clippy",
        &mut cargo("clippy --workspace --all-targets --all-features --locked -- -Dwarnings"),
    );
    tally.step(
        "tests",
        &mut nextest(&format!("not {LAYERING} and not {CORPUS}")),
    );
    tally.step("layering", &mut nextest(LAYERING));
    tally.step("fuzz corpora", &mut nextest(CORPUS));
    tally.step(
        "examples in the documents",
        &mut cargo("test --workspace --all-features --locked --doc"),
    );
    tally.step(
        "documents",
        cargo("doc --workspace --all-features --locked --no-deps --document-private-items")
            .env("RUSTDOCFLAGS", "-Dwarnings"),
    );
    tally.step(
        "dependencies",
        &mut cargo("deny --all-features check bans licenses sources"),
    );
    tally.close()
}

fn nextest(filter: &str) -> Command {
    let mut command = cargo("nextest run --workspace --all-features --locked --no-fail-fast");
    command.args(["--status-level", "fail", "-E", filter]);
    command
}

//! `cargo xtask test`: what every push must pass.

use crate::step::{Tally, cargo};
use crate::tools::{DENY, NEXTEST};

/// Tests with a step of their own, so that the report names them.
const LAYERING: &str = "binary(layering)";
const CORPUS: &str = "test(/corpus/)";

pub(crate) fn run() -> Result<(), String> {
    NEXTEST.ensure()?;
    DENY.ensure()?;
    let mut tally = Tally::default();
    tally.step("format", &mut cargo(&["fmt", "--all", "--check"]));
    tally.step(
        "format of fuzz targets",
        &mut cargo(&["fmt", "--manifest-path", "fuzz/Cargo.toml", "--check"]),
    );
    tally.step(
        "clippy",
        &mut cargo(&[
            "clippy",
            "--workspace",
            "--all-targets",
            "--all-features",
            "--locked",
            "--",
            "-Dwarnings",
        ]),
    );
    tally.step(
        "tests",
        &mut nextest(&format!("not {LAYERING} and not {CORPUS}")),
    );
    tally.step("layering", &mut nextest(LAYERING));
    tally.step("fuzz corpora", &mut nextest(CORPUS));
    tally.step(
        "examples in the documents",
        &mut cargo(&["test", "--workspace", "--all-features", "--locked", "--doc"]),
    );
    tally.step(
        "documents",
        cargo(&[
            "doc",
            "--workspace",
            "--all-features",
            "--locked",
            "--no-deps",
        ])
        .env("RUSTDOCFLAGS", "-Dwarnings"),
    );
    tally.step(
        "dependencies",
        &mut cargo(&[
            "deny",
            "--all-features",
            "check",
            "bans",
            "licenses",
            "sources",
        ]),
    );
    tally.step(
        "benchmarks run",
        &mut cargo(&[
            "run",
            "--locked",
            "--package",
            "benches",
            "--bin",
            "wire",
            "--",
            "--smoke",
        ]),
    );
    tally.close()
}

fn nextest(filter: &str) -> std::process::Command {
    cargo(&[
        "nextest",
        "run",
        "--workspace",
        "--all-features",
        "--locked",
        "--no-fail-fast",
        "--status-level",
        "fail",
        "-E",
        filter,
    ])
}

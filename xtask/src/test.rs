//! `cargo xtask test`: what every push must pass.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use crate::step::{Tally, cargo};
use crate::tools::{DENY, NEXTEST, ensure_debian};
use crate::{dist, npm, python};

/// Tests with a step of their own, so that the report names them.
const ALL: &str = "--workspace --all-features";
const LAYERING: &str = "binary(layering)";
const CORPUS: &str = "test(/corpus_of_/)";
/// Tests of the program that a newcomer builds, with the default features.
const NEWCOMER: &str = "test(/^(default_build|demo|readme)::/)";

pub(crate) fn run() -> Result<(), String> {
    NEXTEST.ensure()?;
    DENY.ensure()?;
    python::ensure()?;
    npm::ensure()?;
    ensure_debian("faketime", "--version", "faketime")?;
    ensure_debian("mkfs.ext4", "-V", "e2fsprogs")?;
    println!("this takes a few minutes on a fresh machine; each step prints when it ends");
    let mut tally = Tally::default();
    let temporary = TempDir::new()?;
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
        temporary.of(&mut nextest(
            ALL,
            &format!("not {LAYERING} and not {CORPUS} and not {NEWCOMER}"),
        )),
    );
    tally.step("layering", temporary.of(&mut nextest(ALL, LAYERING)));
    tally.step("fuzz corpora", temporary.of(&mut nextest(ALL, CORPUS)));
    tally.step(
        "README, demo (default features)",
        temporary.of(&mut nextest("--package frith", NEWCOMER)),
    );
    // With the program that the last tests have built.
    tally.check("archive, installed where nothing else is", dist::debug());
    tally.step(
        "examples in the documents",
        temporary.of(&mut cargo("test --workspace --all-features --locked --doc")),
    );
    tally.check("no temporary files are left", temporary.check());
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

fn nextest(what: &str, filter: &str) -> Command {
    let mut command = cargo("nextest run --locked --no-fail-fast");
    command.args(what.split(' '));
    command.args(["--status-level", "fail", "-E", filter]);
    command
}

/// The temporary directory of the tests: files in it after the tests were left behind by them.
struct TempDir(PathBuf);

impl TempDir {
    fn new() -> Result<Self, String> {
        let path = std::env::temp_dir().join(format!("frith-tests-{}", std::process::id()));
        // Some tests run programs as another user.
        let made = fs::create_dir(&path)
            .and_then(|()| fs::set_permissions(&path, Permissions::from_mode(0o755)));
        match made {
            Ok(()) => Ok(Self(path)),
            Err(error) => Err(format!("{}: {error}", path.display())),
        }
    }

    /// Makes a command use it.
    fn of<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        command.env("TMPDIR", &self.0)
    }

    fn check(&self) -> Result<(), String> {
        let entries = fs::read_dir(&self.0).map_err(|error| error.to_string())?;
        let left: Vec<_> = entries.flatten().map(|entry| entry.file_name()).collect();
        match left.as_slice() {
            [] => Ok(()),
            [first, ..] => Err(format!(
                "the tests have left {} entries in the temporary directory, such as {}",
                left.len(),
                first.display()
            )),
        }
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

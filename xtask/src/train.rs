//! `cargo xtask train`: release programs that know what they mostly do.
//!
//! They are built to count what they do, put to work for some minutes, and built again with those counts
//! (LLVM's profile-guided optimization): what is done often is inlined, laid out and kept together, and
//! what is done once lies elsewhere. Most of what a small message costs is to fetch code, so that is worth
//! more than any change of it (docs/decisions.md has the figures).

mod practice;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::step::{capture, cargo, show, workspace};
use crate::tools::debian;

/// Built together and alike both times: what was counted is found again by names that depend on that.
const PROGRAMS: &str = "build --quiet --locked --release --package frith --package benches \
    --no-default-features --bin frith --bin a2a_client --bin a2e_client --bin env_client";

/// More processes than there are.
const KEEP_ALL: &str = "--temporal-profile-trace-reservoir-size=1000";

/// Which features the product is to have.
#[derive(Debug, Clone, Copy)]
enum Features {
    Default,
    /// For who has less time: those take longer to build than all the rest.
    None,
}

/// Programs of one kind.
#[derive(Debug)]
struct Training {
    features: Features,
    host: String,
    /// Where everything is that comes of it.
    folder: PathBuf,
}

pub(crate) fn run(words: &[&str]) -> Result<(), String> {
    let training = match words {
        [] => Training::of(Features::Default)?,
        ["--no-default-features"] => Training::of(Features::None)?,
        _ => return Err("usage: cargo xtask train [--no-default-features]".to_owned()),
    };
    training.count()?;
    let programs = training.build()?;
    println!("the trained programs are in {}", programs.display());
    Ok(())
}

/// The folder with trained programs, built from what is there now. What was counted with earlier code is good
/// for all of it that was not changed since.
pub(crate) fn programs() -> Result<PathBuf, String> {
    let training = Training::of(Features::Default)?;
    if !training.profile().exists() {
        training.count()?;
    }
    training.build()
}

impl Training {
    fn of(features: Features) -> Result<Self, String> {
        let name = match features {
            Features::Default => "trained",
            Features::None => "trained-small",
        };
        Ok(Self {
            features,
            host: rustc("host")?,
            folder: workspace().join("target").join(name),
        })
    }

    fn profile(&self) -> PathBuf {
        self.folder.join("profile")
    }

    /// Counts what the programs do.
    fn count(&self) -> Result<(), String> {
        let profdata = profdata()?;
        let counts = self.folder.join("counts");
        println!("building programs that count what they do");
        let programs = self.build_with(
            "counting",
            &[
                &format!("-Cprofile-generate={}", counts.display()),
                // When each function was first called, too.
                "-Cllvm-args=-pgo-temporal-instrumentation",
            ],
        )?;
        let _ = fs::remove_dir_all(&counts);
        practice::all(&programs, &counts)?;
        // Cargo sees the name of the profile and not what is in it.
        let _ = fs::remove_dir_all(self.folder.join("built"));
        let mut merge = Command::new(profdata);
        // A command that was killed has written half of its counts; the others are good. What was called first
        // is kept of all of them, not of some.
        merge.args(["merge", "--failure-mode=all", KEEP_ALL, "-o"]);
        let merged = capture(merge.arg(self.profile()).arg(&counts));
        let _ = fs::remove_dir_all(&counts);
        match merged.success {
            true => Ok(()),
            false => Err(format!(
                "the counts cannot be put together: {}",
                merged.text
            )),
        }
    }

    /// Builds the programs for what was counted.
    fn build(&self) -> Result<PathBuf, String> {
        println!("building programs for what they mostly do");
        let profile = self.profile();
        let profile = profile.display();
        let counted = format!("-Cprofile-use={profile}");
        // Functions that are called together lie together: a program has in memory what it called, by whole
        // neighbourhoods.
        let order = [
            "-Clink-arg=-Wl,--bp-startup-sort=function",
            "-Clink-arg=-Xlinker",
            &format!("-Clink-arg=--irpgo-profile={profile}"),
        ];
        // Elsewhere the compiler takes the machine's linker, which may know no such thing.
        match self.host.starts_with("x86_64") {
            true => self.build_with("built", &[&[&*counted], &order[..]].concat()),
            false => self.build_with("built", &[&counted]),
        }
    }

    /// Builds all programs into a folder of their own. The target is named, so that the flags are for the programs
    /// alone and not for what builds them.
    fn build_with(&self, name: &str, flags: &[&str]) -> Result<PathBuf, String> {
        let target = self.folder.join(name);
        let mut command = cargo(PROGRAMS);
        if let Features::Default = self.features {
            command.args(["--features", "frith/default"]);
        }
        command.args(["--target", &self.host, "--target-dir"]);
        let flags = flags.join("\u{1f}");
        show(command.arg(&target).env("CARGO_ENCODED_RUSTFLAGS", flags))?;
        Ok(target.join(&self.host).join("release"))
    }
}

/// What the compiler says of itself.
fn rustc(what: &str) -> Result<String, String> {
    let said = capture(Command::new("rustc").arg("-vV")).text;
    let mut lines = said.lines();
    let found = lines.find_map(|line| line.strip_prefix(what)?.strip_prefix(": "));
    let found = found.map(ToOwned::to_owned);
    found.ok_or_else(|| format!("`rustc -vV` does not say its {what}: {said}"))
}

/// What puts counts together; it must be of the compiler's LLVM.
fn profdata() -> Result<PathBuf, String> {
    let version = rustc("LLVM version")?;
    let major = version.split('.').next().unwrap_or_default();
    let program = PathBuf::from(format!("/usr/bin/llvm-profdata-{major}"));
    if !Path::exists(&program) {
        debian(&format!("llvm-{major}"))?;
    }
    Ok(program)
}

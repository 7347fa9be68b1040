//! `cargo xtask train`: release programs that know what they mostly do.
//!
//! They are built to count what they do, put to work for some minutes, and built again with those counts
//! (LLVM's profile-guided optimization): what is done often is inlined, laid out and kept together, and
//! what is done once lies elsewhere. Most of what a small message costs is to fetch code, so that is worth
//! more than any change of it (docs/decisions.md has the figures).

mod first_calls;
mod practice;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::step::{capture, cargo, show, workspace};
use crate::tools::debian;

/// Built together and alike both times: what was counted is found again by names that depend on that.
const PROGRAMS: &str = "build --quiet --locked --release --package frith --package benches \
    --no-default-features --bin frith --bin a2a_client --bin a2e_client --bin env_client";

/// The ciphers in C are only laid out by what was counted, not compiled for it: code that must take the same time
/// for every secret is not to be told which way it mostly goes.
const UNCOUNTED: &str = "-fno-profile-instr-use";

/// More processes than there are.
const KEEP_ALL: &str = "--temporal-profile-trace-reservoir-size=1000";

/// Which features the product is to have.
#[derive(Debug, Clone, Copy)]
enum Features {
    Default,
    /// For who has less time: those take longer to build than all the rest.
    None,
}

/// How programs are built.
#[derive(Debug)]
struct Flags {
    rust: Vec<String>,
    /// For SQLite, the allocator and the ciphers.
    c: String,
    /// For the ciphers instead, if they are to differ.
    ciphers: Option<&'static str>,
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
    if !training.is_counted() {
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

    /// What a start calls of the standard library.
    fn first_calls(&self) -> PathBuf {
        self.folder.join("first-calls")
    }

    fn is_counted(&self) -> bool {
        self.profile().exists() && (!self.is_ordered() || self.first_calls().exists())
    }

    /// Whether the linker is told where to put functions. Elsewhere the compiler takes the machine's linker, which may
    /// know no such thing.
    fn is_ordered(&self) -> bool {
        self.host.starts_with("x86_64")
    }

    /// Counts what the programs do.
    fn count(&self) -> Result<(), String> {
        let profdata = llvm("llvm", "llvm-profdata")?;
        let counts = self.folder.join("counts");
        println!("building programs that count what they do");
        let programs = self.build_with(
            "counting",
            &Flags {
                rust: vec![
                    format!("-Cprofile-generate={}", counts.display()),
                    // When each function was first called, too.
                    "-Cllvm-args=-pgo-temporal-instrumentation".to_owned(),
                ],
                c: "-fprofile-generate -mllvm -pgo-temporal-instrumentation".to_owned(),
                ciphers: None,
            },
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
        if !merged.success {
            let text = merged.text;
            return Err(format!("the counts cannot be put together: {text}"));
        }
        if !self.is_ordered() {
            return Ok(());
        }
        let frith = programs.join("frith");
        first_calls::write(&frith, &self.folder.join("first"), &self.first_calls())
    }

    /// Builds the programs for what was counted.
    fn build(&self) -> Result<PathBuf, String> {
        println!("building programs for what they mostly do");
        let profile = self.profile();
        let profile = profile.display();
        let first_calls = self.first_calls();
        let mut rust = vec![format!("-Cprofile-use={profile}")];
        if self.is_ordered() {
            rust.extend([
                // Functions that are called together lie together: a program has in memory what it called, by
                // whole neighbourhoods.
                "-Clink-arg=-Wl,--bp-startup-sort=function".to_owned(),
                "-Clink-arg=-Xlinker".to_owned(),
                format!("-Clink-arg=--irpgo-profile={profile}"),
                // Those of which nothing is counted come first. Programs that do not have them all are none the worse.
                "-Clink-arg=-Xlinker".to_owned(),
                format!(
                    "-Clink-arg=--symbol-ordering-file={}",
                    first_calls.display()
                ),
                "-Clink-arg=-Wl,--no-warn-symbol-ordering".to_owned(),
                // Where a pointer is to be filled in takes a bit instead of 24 bytes.
                "-Clink-arg=-Wl,-z,pack-relative-relocs".to_owned(),
            ]);
        }
        let flags = Flags {
            rust,
            c: format!("'-fprofile-use={profile}'"),
            ciphers: Some(UNCOUNTED),
        };
        let programs = self.build_with("built", &flags)?;
        check_ciphers(&programs.join("build"))?;
        Ok(programs)
    }

    /// Builds all programs into a folder of their own. The target is named, so that the flags of Rust are for the
    /// programs alone and not for what builds them, which has no parts in C.
    fn build_with(&self, name: &str, flags: &Flags) -> Result<PathBuf, String> {
        let target = self.folder.join(name);
        let mut command = cargo(PROGRAMS);
        if let Features::Default = self.features {
            command.args(["--features", "frith/default"]);
        }
        command.args(["--target", &self.host, "--target-dir"]);
        command.arg(&target);
        command.env("CARGO_ENCODED_RUSTFLAGS", flags.rust.join("\u{1f}"));
        // In this spelling, which aws-lc's build replaces with flags of its own; others it would add to.
        let host = self.host.replace('-', "_");
        command.env(format!("CC_{host}"), llvm("clang", "clang")?);
        command.env(format!("CFLAGS_{host}"), &flags.c);
        for other in ["CFLAGS", "HOST_CFLAGS", "TARGET_CFLAGS"] {
            command.env_remove(other);
        }
        // A path may have spaces.
        command.env("CC_SHELL_ESCAPED_FLAGS", "1");
        if let Some(ciphers) = flags.ciphers {
            command.env("AWS_LC_SYS_CFLAGS", ciphers);
        }
        show(&mut command)?;
        Ok(target.join(&self.host).join("release"))
    }
}

/// That the ciphers were not compiled for what was counted: then none of their functions is marked as hot.
fn check_ciphers(builds: &Path) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", builds.display());
    let mut checked = 0;
    for build in fs::read_dir(builds).map_err(failed)? {
        let out = build.map_err(failed)?.path().join("out");
        let is_cipher = |file: &Path| {
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with("libaws_lc") && name.ends_with("_crypto.a")
        };
        // Most have none.
        let files = fs::read_dir(out).into_iter().flatten().flatten();
        for file in files.map(|file| file.path()).filter(|file| is_cipher(file)) {
            let bytes = fs::read(&file).map_err(failed)?;
            let mark = b".text.hot.";
            if bytes.windows(mark.len()).any(|part| part == mark) {
                return Err(format!(
                    "{} was compiled for what was counted; ciphers must not be",
                    file.display()
                ));
            }
            checked += 1;
        }
    }
    match checked {
        0 => Err(format!("no ciphers in {}", builds.display())),
        _ => Ok(()),
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

/// A tool of the compiler's own LLVM: others cannot read what it counts.
fn llvm(package: &str, tool: &str) -> Result<PathBuf, String> {
    let version = rustc("LLVM version")?;
    let major = version.split('.').next().unwrap_or_default();
    let program = PathBuf::from(format!("/usr/bin/{tool}-{major}"));
    if !Path::exists(&program) {
        debian(&format!("{package}-{major}"))?;
    }
    Ok(program)
}

//! `cargo xtask fuzz`: live fuzzing, and what it found kept in the corpora.

use std::fs;
use std::process::Command;

use crate::step::{capture, cargo, workspace};
use crate::tools::FUZZ;

const SECONDS: u64 = 60;

pub(crate) fn run(arguments: &[&str]) -> Result<(), String> {
    match arguments {
        [] => all(SECONDS),
        [target] => one(target, SECONDS),
        [target, seconds] => {
            let seconds = seconds
                .parse()
                .map_err(|_| format!("`{seconds}` is not a number of seconds"))?;
            one(target, seconds)
        }
        _ => Err("usage: cargo xtask fuzz [TARGET] [SECONDS]".into()),
    }
}

pub(crate) fn all(seconds: u64) -> Result<(), String> {
    targets().iter().try_for_each(|target| one(target, seconds))
}

/// The targets there are: the files of `fuzz/fuzz_targets`.
fn targets() -> Vec<String> {
    let files = fs::read_dir(workspace().join("fuzz/fuzz_targets"));
    let mut names: Vec<String> = files
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|file| Some(file.path().file_stem()?.to_string_lossy().into_owned()))
        .collect();
    names.sort();
    names
}

/// Fuzzes into a scratch corpus, then merges what reached new code into the kept one (short inputs,
/// one for each piece of code, so that the repository stays small).
fn one(target: &str, seconds: u64) -> Result<(), String> {
    let targets = targets();
    if !targets.iter().any(|known| known == target) {
        return Err(format!(
            "no fuzz target `{target}`; there are {}",
            targets.join(", ")
        ));
    }
    FUZZ.ensure()?;
    let kept = workspace().join("fuzz/corpus").join(target);
    let scratch = workspace().join("target/fuzz-corpus").join(target);
    fs::create_dir_all(&scratch).map_err(|error| format!("{}: {error}", scratch.display()))?;
    let (kept, scratch) = (kept.display().to_string(), scratch.display().to_string());
    let run = capture(&mut fuzz(
        target,
        &[&scratch, &kept],
        &[
            &format!("-max_total_time={seconds}"),
            "-print_final_stats=1",
            "-max_len=65536",
        ],
    ));
    if !run.success {
        return Err(format!("{}\n{target} found something", run.text));
    }
    let merge = capture(&mut fuzz(
        target,
        &[&kept, &scratch],
        &["-merge=1", "-use_counters=0", "-max_len=256"],
    ));
    if !merge.success {
        return Err(format!(
            "{}\nmerging the corpus of {target} failed",
            merge.text
        ));
    }
    let files = fs::read_dir(&kept).map_or(0, Iterator::count);
    println!(
        "{target}: {} in {seconds} s, {files} files in the corpus",
        executions(&run.text)
    );
    Ok(())
}

fn fuzz(target: &str, corpora: &[&str], options: &[&str]) -> Command {
    let mut command = cargo(&format!("+nightly fuzz run {target}"));
    // The toolchain this program runs under must not decide for the nightly one.
    command.env_remove("RUSTUP_TOOLCHAIN").env_remove("CARGO");
    command.args(corpora).arg("--").args(options);
    command
}

fn executions(text: &str) -> String {
    text.lines()
        .find_map(|line| line.strip_prefix("stat::number_of_executed_units:"))
        .map_or_else(
            || "ran".into(),
            |count| format!("{} executions", count.trim()),
        )
}

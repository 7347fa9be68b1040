//! `cargo xtask bench`: release builds, side by side in one run.

mod a2e;
mod wire;

pub(crate) fn run(arguments: &[&str]) -> Result<(), String> {
    match arguments {
        [] => {
            wire::run()?;
            a2e::run()
        }
        ["wire"] => wire::run(),
        ["a2e"] => a2e::run(),
        _ => Err("usage: cargo xtask bench [wire | a2e]".into()),
    }
}

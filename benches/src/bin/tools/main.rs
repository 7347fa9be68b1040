//! The built-in tools beside what they could be replaced with, and what it costs to find a tool among
//! thousands, to start a program behind the sandbox, or to call a component.
#![expect(clippy::print_stdout, reason = "this is a report")]

mod files;
mod list;
mod spawn;
#[cfg(feature = "wasm")]
mod wasm;

use std::error::Error;

use a2e_caps::openapi::MAX_OPERATIONS;
use benches::Effort;

fn main() {
    sandbox::enter_if_asked();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match words.as_slice() {
        [] => all(Effort::FULL, 50_000, MAX_OPERATIONS),
        ["--list"] => list::report(Effort::FULL, MAX_OPERATIONS),
        ["--spawn"] => spawn::report(Effort::FULL),
        #[cfg(feature = "wasm")]
        ["--wasm"] => wasm::report(Effort::FULL),
        ["--smoke"] => all(Effort::SMOKE, 200, 50),
        _ => {
            println!("usage: tools [--list | --spawn | --wasm | --smoke]");
            Ok(())
        }
    };
    if let Err(error) = outcome {
        println!("{error}");
    }
}

fn all(effort: Effort, files: usize, operations: usize) -> Result<(), Box<dyn Error>> {
    files::report(effort, files)?;
    list::report(effort, operations)?;
    spawn::report(effort)?;
    #[cfg(feature = "wasm")]
    wasm::report(effort)?;
    Ok(())
}

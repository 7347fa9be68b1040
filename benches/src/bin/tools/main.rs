//! The built-in tools beside what they could be replaced with, and what it costs to start a program
//! behind the sandbox.
#![expect(clippy::print_stdout, reason = "this is a report")]

mod files;
mod spawn;

use benches::Effort;

fn main() {
    sandbox::enter_if_asked();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match words.as_slice() {
        [] => files::report(Effort::FULL, 50_000).and_then(|()| spawn::report(Effort::FULL)),
        ["--spawn"] => spawn::report(Effort::FULL),
        ["--smoke"] => {
            files::report(Effort::SMOKE, 200).and_then(|()| spawn::report(Effort::SMOKE))
        }
        _ => {
            println!("usage: tools [--spawn | --smoke]");
            Ok(())
        }
    };
    if let Err(error) = outcome {
        println!("{error}");
    }
}

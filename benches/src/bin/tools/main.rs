//! The built-in tools beside what they could be replaced with.
#![expect(clippy::print_stdout, reason = "this is a report")]

mod files;

use benches::Effort;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match words.as_slice() {
        [] => files::report(Effort::FULL, 50_000),
        ["--smoke"] => files::report(Effort::SMOKE, 200),
        _ => {
            println!("usage: tools [--smoke]");
            Ok(())
        }
    };
    if let Err(error) = outcome {
        println!("{error}");
    }
}

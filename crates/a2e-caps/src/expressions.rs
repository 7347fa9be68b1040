//! Globs and regular expressions that agents write, compiled within bounds.

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use grep_regex::{RegexMatcher, RegexMatcherBuilder};

/// The largest glob or regular expression, in bytes.
///
/// A class such as `\w` takes thousands of times its text before its compiled size is known.
pub(crate) const MAX_EXPRESSION: usize = 4096;

/// Braces of a glob; they are compiled by recursion.
pub(crate) const MAX_BRACES: usize = 100;

/// The largest compiled expression, in bytes.
const COMPILED: usize = 10 * 1024 * 1024;

/// What each thread that matches an expression remembers of it, in bytes for each direction: it is
/// filled by what is searched, and emptied when it is full.
const CACHE: usize = 512 * 1024;

/// Compiles a glob for paths, in which `*` does not match `/`.
///
/// # Errors
/// If it is too large or no glob.
pub(crate) fn glob(text: &str) -> Result<GlobSet, String> {
    check_size(text)?;
    let braces = text.matches('{').count();
    if braces > MAX_BRACES {
        return Err(format!("it has {braces} `{{`, more than {MAX_BRACES}"));
    }
    let glob = GlobBuilder::new(text).literal_separator(true).build();
    // A set of one: to compile a glob by itself panics where the regular expression that it becomes is
    // refused.
    glob.and_then(|glob| GlobSetBuilder::new().add(glob).build())
        .map_err(|error| error.to_string())
}

/// Compiles a regular expression that is matched line by line.
///
/// # Errors
/// If it is too large or no regular expression.
pub(crate) fn regex(
    text: &str,
    options: impl FnOnce(&mut RegexMatcherBuilder),
) -> Result<RegexMatcher, String> {
    check_size(text)?;
    let mut builder = RegexMatcherBuilder::new();
    builder
        .line_terminator(Some(b'\n'))
        .size_limit(COMPILED)
        .dfa_size_limit(CACHE);
    options(&mut builder);
    builder.build(text).map_err(|error| error.to_string())
}

fn check_size(text: &str) -> Result<(), String> {
    match text.len() {
        0..=MAX_EXPRESSION => Ok(()),
        size => Err(format!("it has {size} bytes, more than {MAX_EXPRESSION}")),
    }
}

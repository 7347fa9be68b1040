//! What to run.

use std::ffi::OsString;
use std::path::PathBuf;

/// A program to run, and with what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// The program: a path inside the sandbox, or a name to look for in its `PATH`.
    pub program: OsString,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// The folder it starts in, as the sandbox sees it.
    pub cwd: PathBuf,
    /// Its whole environment; nothing is inherited. `PATH`, `HOME` and `TMPDIR` are added if they
    /// are not here.
    pub env: Vec<(OsString, OsString)>,
    /// Where its input comes from.
    pub stdin: Input,
}

/// Where the input of a command comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Input {
    /// Nowhere.
    #[default]
    Null,
    /// [`Child::stdin`](crate::Child).
    Pipe,
    /// A terminal of its own, for output as well.
    Terminal(Size),
}

/// The size of a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Lines.
    pub rows: u16,
    /// Characters in a line.
    pub columns: u16,
}

impl Command {
    /// A program without arguments, environment and input, in `/`.
    pub fn new(program: impl Into<OsString>) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
            cwd: PathBuf::from("/"),
            env: Vec::new(),
            stdin: Input::Null,
        }
    }

    /// With one more argument.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// With more arguments.
    #[must_use]
    pub fn args<A: Into<OsString>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }
}

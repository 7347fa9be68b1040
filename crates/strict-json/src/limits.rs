//! How much a text may ask of its reader.

/// Limits on one JSON text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Open arrays and objects at once; the outermost counts as one.
    pub depth: usize,
    /// Values of every kind in the whole text, containers included.
    pub values: usize,
    /// Which integers are taken.
    pub integers: Integers,
}

/// Which integers a reader takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Integers {
    /// Any; a 64-bit id of a foreign tool is a legal argument.
    Any,
    /// Only those within ±(2^53−1), which every JSON implementation reads alike.
    Exact,
}

impl Limits {
    /// The deepest nesting that can be asked for: readers recurse, and `serde_json` refuses to read
    /// what is nested deeper than 127.
    pub const MAX_DEPTH: usize = 127;
}

impl Default for Limits {
    /// The limits of an A2E message: as deep as an A2A one, but large.
    fn default() -> Self {
        Self {
            depth: 64,
            values: 1_000_000,
            integers: Integers::Any,
        }
    }
}

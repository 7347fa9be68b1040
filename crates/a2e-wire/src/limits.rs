//! What a peer may ask of the wire, unless configured otherwise.

/// The longest line that is taken, in bytes, not counting its end.
pub const MAX_LINE: usize = 8 * 1024 * 1024;

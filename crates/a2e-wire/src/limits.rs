//! What a peer may ask of the wire, unless configured otherwise.

use strict_json::Limits;

/// The longest line that is taken, in bytes, not counting its end.
pub const MAX_LINE: usize = 8 * 1024 * 1024;

/// The longest `id` or `req_id` that is taken, in bytes: answers carry it, and logs.
pub const MAX_ID: usize = 1024;

/// The most elements of one typed list or map: each takes many times its size on the wire.
pub const MAX_ELEMENTS: usize = 100_000;

/// Limits on free-form values that are made here: a message around them nests up to eight deeper
/// and must still be taken by a peer with the same limits.
pub const OWN_VALUES: Limits = Limits {
    depth: 56,
    values: 1_000_000,
    integers: strict_json::Integers::Any,
};

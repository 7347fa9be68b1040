//! Randomness comes from outside.

/// There is no randomness to be had; nothing that needs it may go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the system gives no random bytes")]
pub struct NoRandomness;

/// A source of random bytes fit for keys. A program passes the system's; a test its own.
pub trait Randomness {
    /// Fills the whole slice.
    ///
    /// # Errors
    /// If it cannot; the slice must not be used then.
    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), NoRandomness>;
}

impl<F: FnMut(&mut [u8]) -> Result<(), NoRandomness>> Randomness for F {
    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), NoRandomness> {
        self(bytes)
    }
}

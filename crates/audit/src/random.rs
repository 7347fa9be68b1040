//! Randomness comes from outside.

/// There is no randomness to be had; nothing that needs it may go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the system gives no random bytes")]
pub struct NoRandomness;

/// A source of random bytes fit for secrets. A program passes the system's; a test its own.
pub trait Randomness: Send {
    /// Fills the whole slice.
    ///
    /// # Errors
    /// If it cannot; the slice must not be used then.
    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), NoRandomness>;
}

impl<F: FnMut(&mut [u8]) -> Result<(), NoRandomness> + Send> Randomness for F {
    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), NoRandomness> {
        self(bytes)
    }
}

/// What keeps a hash from telling what was hashed.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Salt(pub(crate) [u8; 16]);

/// Salts, drawn many at a time: a call into the system costs more than the hash it protects.
pub(crate) struct Salts {
    source: Box<dyn Randomness>,
    drawn: [[u8; 16]; Self::AT_ONCE],
    left: usize,
}

impl Salts {
    const AT_ONCE: usize = 64;

    pub(crate) fn new(source: Box<dyn Randomness>) -> Self {
        Self {
            source,
            drawn: [[0; 16]; Self::AT_ONCE],
            left: 0,
        }
    }

    /// A salt that nobody had before.
    pub(crate) fn take(&mut self) -> Result<Salt, NoRandomness> {
        if self.left == 0 {
            self.source.fill(self.drawn.as_flattened_mut())?;
            self.left = Self::AT_ONCE;
        }
        self.left -= 1;
        let slot = self.drawn.get_mut(self.left).ok_or(NoRandomness)?;
        // What was used does not stay behind: a salt is erased with its record.
        Ok(Salt(std::mem::take(slot)))
    }

    /// Random bytes for something else.
    pub(crate) fn fill(&mut self, bytes: &mut [u8]) -> Result<(), NoRandomness> {
        self.source.fill(bytes)
    }
}

impl std::fmt::Debug for Salt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Salt(..)")
    }
}

impl std::fmt::Debug for Salts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Salts(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_salt_is_given_twice() {
        let mut next = 0_u8;
        let source = move |bytes: &mut [u8]| {
            for byte in bytes.as_chunks_mut::<16>().0 {
                next = next.wrapping_add(1);
                byte.fill(next);
            }
            Ok(())
        };
        let mut salts = Salts::new(Box::new(source));
        let mut seen: Vec<Salt> = (0..200).map(|_| salts.take().unwrap()).collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 200);
    }

    #[test]
    fn without_randomness_there_is_no_salt() {
        let mut salts = Salts::new(Box::new(|_: &mut [u8]| Err(NoRandomness)));
        assert_eq!(salts.take(), Err(NoRandomness));
        assert_eq!(salts.take(), Err(NoRandomness));
    }
}

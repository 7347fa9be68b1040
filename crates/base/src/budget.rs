//! Bytes that are given back when what they were counted for is dropped.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::{Class, Exceeded, Limits, Quota};

/// Bytes that holders keep in memory, counted together. Clones share one count.
#[derive(Debug, Clone)]
pub struct Budget<K: Ord + Clone>(Arc<Mutex<Quota<K>>>);

/// Bytes of a [`Budget`] that are in use; dropping it gives them back.
#[derive(Debug)]
pub struct Charge<K: Ord + Clone> {
    budget: Budget<K>,
    holder: K,
    class: Class,
    bytes: usize,
}

impl<K: Ord + Clone> Budget<K> {
    /// A budget of which nothing is used.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self(Arc::new(Mutex::new(Quota::new(limits))))
    }

    /// Counts bytes for a holder until the charge is dropped.
    ///
    /// # Errors
    /// Which limit they would exceed.
    pub fn charge(&self, holder: K, class: Class, bytes: usize) -> Result<Charge<K>, Exceeded> {
        self.0.lock().take(holder.clone(), class, bytes)?;
        Ok(Charge {
            budget: self.clone(),
            holder,
            class,
            bytes,
        })
    }

    /// Bytes that all holders use.
    #[must_use]
    pub fn used(&self) -> usize {
        self.0.lock().total()
    }
}

impl<K: Ord + Clone> Charge<K> {
    /// Counts another number of bytes in place of the one counted so far.
    ///
    /// # Errors
    /// Which limit they would exceed; then it stays as it was.
    pub fn resize(&mut self, bytes: usize) -> Result<(), Exceeded> {
        let mut quota = self.budget.0.lock();
        match bytes.checked_sub(self.bytes) {
            Some(more) => quota.take(self.holder.clone(), self.class, more)?,
            None => {
                let less = self.bytes.saturating_sub(bytes);
                quota.give_back(&self.holder, self.class, less);
            }
        }
        self.bytes = bytes;
        Ok(())
    }

    /// How many bytes are counted.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bytes
    }
}

impl<K: Ord + Clone> Drop for Charge<K> {
    fn drop(&mut self) {
        let mut quota = self.budget.0.lock();
        quota.give_back(&self.holder, self.class, self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropped_charges_are_given_back() {
        let budget = Budget::new(Limits {
            total: 10,
            per_holder: 8,
            reserved: 0,
        });
        let mut first = budget.charge("a", Class::Stranger, 6).unwrap();
        assert_eq!(first.resize(9), Err(Exceeded::Share));
        first.resize(8).unwrap();
        let refused = budget.charge("b", Class::Stranger, 3);
        assert_eq!(refused.err(), Some(Exceeded::Total));
        first.resize(2).unwrap();
        let second = budget.charge("b", Class::Stranger, 8).unwrap();
        assert_eq!((budget.used(), second.bytes()), (10, 8));
        drop((first, second));
        assert_eq!(budget.used(), 0);
    }
}

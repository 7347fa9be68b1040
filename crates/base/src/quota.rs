//! Counting what each holder has of something limited.

use std::collections::BTreeMap;

/// Whether a holder may use what is kept in reserve.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Nobody on this side knows it; its identity may have cost nothing.
    Stranger,
    /// The operator added or pinned it, or a trust anchor vouches for it.
    Known,
}

/// How much there may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Of all holders together.
    pub total: usize,
    /// Of one holder.
    pub per_holder: usize,
    /// The part of `total` that strangers cannot use.
    pub reserved: usize,
}

/// Why a quota gives no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Exceeded {
    /// The holder has as much as it may have.
    #[error("its share is used up")]
    Share,
    /// All holders together have as much as there may be.
    #[error("all places are taken")]
    Total,
}

/// How much each holder has of something limited.
///
/// ```
/// use base::{Class, Exceeded, Limits, Quota};
/// let mut quota = Quota::new(Limits { total: 10, per_holder: 6, reserved: 3 });
/// quota.take("a", Class::Stranger, 6).unwrap();
/// assert_eq!(quota.take("a", Class::Stranger, 1), Err(Exceeded::Share));
/// assert_eq!(quota.take("b", Class::Stranger, 2), Err(Exceeded::Total));
/// quota.take("c", Class::Known, 4).unwrap();
/// ```
#[derive(Debug, Clone)]
pub struct Quota<K> {
    limits: Limits,
    held: BTreeMap<(Class, K), usize>,
    strangers: usize,
    total: usize,
}

impl Limits {
    /// How much holders of this class may have together.
    const fn for_class(&self, class: Class) -> usize {
        match class {
            Class::Stranger => self.total.saturating_sub(self.reserved),
            Class::Known => self.total,
        }
    }
}

impl<K: Ord + Clone> Quota<K> {
    /// A quota of which nothing is taken.
    #[must_use]
    pub const fn new(limits: Limits) -> Self {
        Self {
            limits,
            held: BTreeMap::new(),
            strangers: 0,
            total: 0,
        }
    }

    /// Whether a holder may have this much more.
    ///
    /// # Errors
    /// Which limit it would exceed.
    pub fn check(&self, holder: &K, class: Class, amount: usize) -> Result<(), Exceeded> {
        if self.held(holder, class).saturating_add(amount) > self.limits.per_holder {
            return Err(Exceeded::Share);
        }
        let is_full = self.total.saturating_add(amount) > self.limits.total
            || (class == Class::Stranger
                && self.strangers.saturating_add(amount) > self.limits.for_class(class));
        match is_full {
            true => Err(Exceeded::Total),
            false => Ok(()),
        }
    }

    /// Counts this much more for a holder.
    ///
    /// # Errors
    /// Which limit it would exceed; then nothing is counted.
    pub fn take(&mut self, holder: K, class: Class, amount: usize) -> Result<(), Exceeded> {
        self.check(&holder, class, amount)?;
        if amount > 0 {
            let held = self.held.entry((class, holder)).or_default();
            *held = held.saturating_add(amount);
            self.total = self.total.saturating_add(amount);
            if class == Class::Stranger {
                self.strangers = self.strangers.saturating_add(amount);
            }
        }
        Ok(())
    }

    /// Counts this much less for a holder. The class is the one with which it was taken.
    pub fn give_back(&mut self, holder: &K, class: Class, amount: usize) {
        let key = (class, holder.clone());
        let Some(held) = self.held.get_mut(&key) else {
            return;
        };
        let returned = amount.min(*held);
        *held = held.saturating_sub(returned);
        if *held == 0 {
            self.held.remove(&key);
        }
        self.total = self.total.saturating_sub(returned);
        if class == Class::Stranger {
            self.strangers = self.strangers.saturating_sub(returned);
        }
    }

    /// How much a holder has.
    #[must_use]
    pub fn held(&self, holder: &K, class: Class) -> usize {
        let held = self.held.get(&(class, holder.clone()));
        held.copied().unwrap_or_default()
    }

    /// How much all holders have.
    #[must_use]
    pub const fn total(&self) -> usize {
        self.total
    }

    /// The limits.
    #[must_use]
    pub const fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Sets other limits. What exceeds them stays taken.
    pub const fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits {
        total: 4,
        per_holder: 2,
        reserved: 1,
    };

    #[test]
    fn each_limit_holds_at_the_limit_and_past_it() {
        let mut quota = Quota::new(LIMITS);
        quota.take(1, Class::Stranger, 2).unwrap();
        assert_eq!(quota.take(1, Class::Stranger, 1), Err(Exceeded::Share));
        quota.take(2, Class::Stranger, 1).unwrap();
        assert_eq!(quota.take(3, Class::Stranger, 1), Err(Exceeded::Total));
        quota.take(3, Class::Known, 1).unwrap();
        assert_eq!(quota.take(3, Class::Known, 1), Err(Exceeded::Total));
        assert_eq!(quota.total(), 4);
    }

    #[test]
    fn what_is_given_back_can_be_taken_again() {
        let mut quota = Quota::new(LIMITS);
        quota.take(1, Class::Stranger, 2).unwrap();
        quota.give_back(&1, Class::Stranger, 1);
        assert_eq!(quota.held(&1, Class::Stranger), 1);
        quota.give_back(&1, Class::Stranger, 9);
        quota.give_back(&7, Class::Known, 1);
        assert_eq!((quota.total(), quota.strangers), (0, 0));
        assert!(quota.held.is_empty());
    }

    #[test]
    fn lower_limits_refuse_more_and_keep_what_is_taken() {
        let mut quota = Quota::new(LIMITS);
        quota.take(1, Class::Known, 2).unwrap();
        quota.set_limits(Limits {
            per_holder: 1,
            ..LIMITS
        });
        assert_eq!(quota.held(&1, Class::Known), 2);
        assert_eq!(quota.take(1, Class::Known, 1), Err(Exceeded::Share));
        quota.give_back(&1, Class::Known, 2);
        quota.take(1, Class::Known, 1).unwrap();
    }

    #[test]
    fn amounts_that_overflow_are_refused() {
        let mut quota = Quota::new(LIMITS);
        quota.take(1, Class::Known, 1).unwrap();
        assert_eq!(
            quota.take(1, Class::Known, usize::MAX),
            Err(Exceeded::Share)
        );
    }
}

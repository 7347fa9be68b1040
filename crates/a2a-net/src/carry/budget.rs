//! Bytes of bodies that are not whole yet: in all, and of each source. Each body has its limit, but a
//! source may begin thousands of them at once.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use a2a_session::Source;

use super::limits::Limits;
use crate::standing::lock;

/// Counts bytes that are kept for bodies.
#[derive(Debug)]
pub(crate) struct Budget {
    most: usize,
    most_per_source: usize,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    all: usize,
    by_source: BTreeMap<Source, usize>,
}

/// What one body takes of it, until this is dropped.
#[derive(Debug)]
pub(super) struct Share {
    budget: Arc<Budget>,
    source: Source,
    bytes: usize,
}

impl Budget {
    pub(crate) fn new(limits: &Limits) -> Arc<Self> {
        Arc::new(Self {
            most: limits.unfinished_bytes,
            most_per_source: limits.unfinished_bytes_per_source,
            kept: Mutex::default(),
        })
    }

    /// Nothing yet, for a body of this source.
    pub(super) fn share(self: &Arc<Self>, source: IpAddr) -> Share {
        Share {
            budget: Arc::clone(self),
            source: source.into(),
            bytes: 0,
        }
    }
}

impl Share {
    /// Takes so many bytes more; `false` if there are no more.
    #[must_use]
    pub(super) fn grow(&mut self, bytes: usize) -> bool {
        let budget = &self.budget;
        let mut kept = lock(&budget.kept);
        let of_source = kept.by_source.get(&self.source).copied();
        let of_source = of_source.unwrap_or_default().saturating_add(bytes);
        let all = kept.all.saturating_add(bytes);
        if all > budget.most || of_source > budget.most_per_source {
            return false;
        }
        kept.all = all;
        kept.by_source.insert(self.source, of_source);
        self.bytes = self.bytes.saturating_add(bytes);
        true
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        if self.bytes == 0 {
            return;
        }
        let mut kept = lock(&self.budget.kept);
        kept.all = kept.all.saturating_sub(self.bytes);
        if let Some(bytes) = kept.by_source.get_mut(&self.source) {
            *bytes = bytes.saturating_sub(self.bytes);
            if *bytes == 0 {
                kept.by_source.remove(&self.source);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_and_all_have_a_limit_and_nothing_is_left_behind() {
        let budget = Budget::new(&Limits {
            unfinished_bytes: 10,
            unfinished_bytes_per_source: 6,
            ..Limits::default()
        });
        let share = |source: &str| budget.share(source.parse().unwrap());
        let (mut one, mut same) = (share("192.0.2.1"), share("::ffff:192.0.2.1"));
        assert!(one.grow(4) && same.grow(2));
        assert!(!same.grow(1) && !one.grow(1));
        let mut other = share("192.0.2.2");
        assert!(other.grow(4));
        assert!(!share("192.0.2.3").grow(1), "of all there are no more");
        drop(one);
        assert!(share("192.0.2.3").grow(4));
        assert!(same.grow(4) && !same.grow(1));
        drop((same, other));
        let kept = lock(&budget.kept);
        assert!(kept.all == 0 && kept.by_source.is_empty());
    }
}

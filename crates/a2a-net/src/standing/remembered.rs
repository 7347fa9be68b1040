//! Something by name, the oldest of which goes when there is no room.

use std::collections::{BTreeMap, BTreeSet};

use store::UnixMillis;

/// Values by name, each with the time it came.
#[derive(Debug)]
pub(super) struct Remembered<T> {
    capacity: usize,
    values: BTreeMap<String, (UnixMillis, T)>,
    order: BTreeSet<(UnixMillis, String)>,
}

impl<T> Remembered<T> {
    pub(super) const fn new(capacity: usize) -> Self {
        Self {
            capacity,
            values: BTreeMap::new(),
            order: BTreeSet::new(),
        }
    }

    /// Remembers a value in place of an older one; returns the name that had to go for it.
    pub(super) fn insert(&mut self, name: &str, at: UnixMillis, value: T) -> Option<String> {
        if let Some((before, _)) = self.values.insert(name.to_owned(), (at, value)) {
            self.order.remove(&(before, name.to_owned()));
        }
        self.order.insert((at, name.to_owned()));
        if self.values.len() <= self.capacity {
            return None;
        }
        let (_, oldest) = self.order.pop_first()?;
        self.values.remove(&oldest);
        Some(oldest)
    }

    pub(super) fn get(&self, name: &str) -> Option<&T> {
        self.values.get(name).map(|(_, value)| value)
    }

    pub(super) fn at(&self, name: &str) -> Option<UnixMillis> {
        self.values.get(name).map(|(at, _)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_goes_when_there_is_no_room() {
        let mut names = Remembered::new(2);
        assert_eq!(names.insert("a", UnixMillis(1), 1), None);
        assert_eq!(names.insert("b", UnixMillis(2), 2), None);
        // It is newer now than the other.
        assert_eq!(names.insert("a", UnixMillis(3), 3), None);
        assert_eq!(names.insert("c", UnixMillis(4), 4), Some("b".to_owned()));
        assert_eq!((names.get("a"), names.get("b")), (Some(&3), None));
        assert_eq!(names.at("c"), Some(UnixMillis(4)));
    }
}

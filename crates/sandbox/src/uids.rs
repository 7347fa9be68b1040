//! Which user ids commands have when the host is root.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::Error;

/// The user ids for commands.
#[derive(Debug)]
pub(crate) struct Uids {
    range: Range<u32>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Where to look for the next free one. Ids come round late, so that what one session has left
    /// behind is not soon another's.
    next: u32,
    /// How many commands run as whom.
    used: BTreeMap<u32, usize>,
}

/// A user id in use.
#[derive(Debug)]
pub(crate) struct Lease {
    uids: Arc<Uids>,
    pub(crate) uid: u32,
}

impl Uids {
    /// Hosts on one machine begin at different places, by a number that no two of them have at a
    /// time: the kernel counts processes by user, whoever has started them.
    pub(crate) fn new(range: Range<u32>, host: u32) -> Self {
        let places = u32::try_from(range.len()).unwrap_or(u32::MAX).max(1);
        let place = host.wrapping_mul(STRIDE) % places;
        let next = range.start.saturating_add(place);
        let used = BTreeMap::new();
        Self {
            range,
            state: Mutex::new(State { next, used }),
        }
    }

    /// This user id, or one that nobody has.
    pub(crate) fn lease(self: &Arc<Self>, wanted: Option<u32>) -> Result<Lease, Error> {
        let mut state = self.state();
        let uid = match wanted {
            Some(uid) if self.range.contains(&uid) && uid != 0 => uid,
            Some(uid) => return Err(Error::NotInRange(uid)),
            None => {
                let later = (state.next..self.range.end).chain(self.range.start..state.next);
                let free = later
                    .filter(|uid| *uid != 0)
                    .find(|uid| !state.used.contains_key(uid));
                let free = free.ok_or(Error::NoFreeUid)?;
                state.next = free.saturating_add(1);
                free
            }
        };
        let count = state.used.entry(uid).or_default();
        *count = count.saturating_add(1);
        Ok(Lease {
            uids: Arc::clone(self),
            uid,
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let mut state = self.uids.state();
        if let Some(count) = state.used.get_mut(&self.uid) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                state.used.remove(&self.uid);
            }
        }
    }
}

/// How far apart hosts begin whose numbers follow each other; odd, so that all places are used.
const STRIDE: u32 = 40_503;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_ids_are_given_in_turn_until_there_is_none() {
        let uids = Arc::new(Uids::new(10..12, 0));
        let first = uids.lease(None).unwrap();
        let second = uids.lease(None).unwrap();
        assert_eq!((first.uid, second.uid), (10, 11));
        assert_eq!(uids.lease(None).unwrap_err(), Error::NoFreeUid);
        drop(first);
        assert_eq!(uids.lease(None).unwrap().uid, 10);
        assert_eq!(uids.lease(None).unwrap().uid, 10);
        drop(second);
        assert_eq!(uids.lease(None).unwrap().uid, 11);
    }

    #[test]
    fn a_session_can_have_the_same_id_twice_and_nobody_else_then() {
        let uids = Arc::new(Uids::new(10..12, 0));
        let first = uids.lease(Some(10)).unwrap();
        let again = uids.lease(Some(10)).unwrap();
        drop(first);
        assert_eq!(uids.lease(None).unwrap().uid, 11);
        drop(again);
        assert_eq!(uids.lease(Some(9)).unwrap_err(), Error::NotInRange(9));
        assert_eq!(uids.lease(Some(12)).unwrap_err(), Error::NotInRange(12));
    }

    #[test]
    fn hosts_begin_at_different_places() {
        let first = |host| {
            let uids = Arc::new(Uids::new(1000..2000, host));
            uids.lease(None).unwrap().uid
        };
        assert_ne!(first(7), first(8));
        assert!((1000..2000).contains(&first(u32::MAX)));
    }

    #[test]
    fn nobody_is_root() {
        let uids = Arc::new(Uids::new(0..1, 0));
        assert_eq!(uids.lease(None).unwrap_err(), Error::NoFreeUid);
        assert_eq!(uids.lease(Some(0)).unwrap_err(), Error::NotInRange(0));
    }
}

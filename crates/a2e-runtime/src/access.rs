//! The access of identities to a host: what acts for one holds it, and ends when it is revoked.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::auth::Identity;

/// Whose access it is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct AccessHolder {
    /// The agent.
    pub agent: String,
    /// The DID it has proved, if it came in by one.
    pub did: Option<String>,
}

/// The access of one identity to a host. A session has it, and so has everything that goes on beside
/// the session's requests: each keeps a clone for as long as it acts for the identity, and ends when
/// the access is revoked ([`Host::revoke_access`](crate::Host::revoke_access)).
#[derive(Debug, Clone)]
pub struct Access {
    revoked: CancellationToken,
    /// A revocation waits until the last clone is dropped.
    _counted: TaskTrackerToken,
}

/// The identities that something acts for.
#[derive(Debug, Default)]
pub(crate) struct AccessTable(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    entries: HashMap<AccessHolder, Entry>,
    /// How often access was revoked.
    revocations: u64,
    /// With so many entries it is time to remove those that nothing acts for.
    prune_at: usize,
}

/// What all clones of one access share.
#[derive(Debug, Default)]
pub(crate) struct Entry {
    revoked: CancellationToken,
    clones: TaskTracker,
}

/// Fewer entries are not worth pruning.
const FEW: usize = 64;

impl AccessHolder {
    pub(crate) fn of(identity: &Identity) -> Self {
        Self {
            agent: identity.agent.clone(),
            did: identity.proven.as_ref().map(|proven| proven.did.clone()),
        }
    }
}

impl Access {
    /// Is cancelled when the access is revoked.
    #[must_use]
    pub const fn revoked(&self) -> &CancellationToken {
        &self.revoked
    }

    /// Whether the access was revoked.
    #[must_use]
    pub fn is_revoked(&self) -> bool {
        self.revoked.is_cancelled()
    }
}

impl AccessTable {
    /// The number of revocations: read before a credential is checked, for `enter_since`.
    pub(crate) fn revocations(&self) -> u64 {
        self.lock().revocations
    }

    /// The access of an identity.
    pub(crate) fn enter(&self, identity: &Identity) -> Access {
        self.lock().enter(identity)
    }

    /// The access of an identity whose credential was checked when there had been so many revocations.
    /// If there was another since, perhaps of this very credential, the access is revoked.
    pub(crate) fn enter_since(&self, identity: &Identity, revocations: u64) -> Access {
        let mut inner = self.lock();
        if inner.revocations == revocations {
            return inner.enter(identity);
        }
        let ended = Entry::default();
        ended.revoked.cancel();
        ended.access()
    }

    /// Revokes the access of these; each that enters from now on has a new one.
    pub(crate) fn revoke(&self, is_meant: impl Fn(&AccessHolder) -> bool) -> Vec<Entry> {
        let mut inner = self.lock();
        inner.revocations = inner.revocations.saturating_add(1);
        let revoked = inner.entries.extract_if(|holder, _| is_meant(holder));
        let revoked: Vec<Entry> = revoked.map(|(_, entry)| entry).collect();
        drop(inner);
        for entry in &revoked {
            entry.revoked.cancel();
            entry.clones.close();
        }
        revoked
    }

    /// How much acts for these.
    pub(crate) fn acting(&self, is_meant: impl Fn(&AccessHolder) -> bool) -> usize {
        let inner = self.lock();
        let meant = inner.entries.iter().filter(|(holder, _)| is_meant(holder));
        meant.map(|(_, entry)| entry.clones.len()).sum()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn enter(&mut self, identity: &Identity) -> Access {
        if self.entries.len() >= self.prune_at.max(FEW) {
            self.entries.retain(|_, entry| !entry.clones.is_empty());
            self.prune_at = self.entries.len().saturating_mul(2);
        }
        let holder = AccessHolder::of(identity);
        self.entries.entry(holder).or_default().access()
    }
}

impl Entry {
    fn access(&self) -> Access {
        Access {
            revoked: self.revoked.clone(),
            _counted: self.clones.token(),
        }
    }

    /// Waits until nothing has the access any more.
    pub(crate) async fn ended(&self) {
        self.clones.wait().await;
    }

    /// How much still has it.
    pub(crate) fn left(&self) -> usize {
        self.clones.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn access_is_revoked_with_all_its_clones_and_later_logins_have_a_new_one() {
        let table = AccessTable::default();
        let (ada, bob) = (Identity::named("ada"), Identity::named("bob"));
        let before = table.revocations();
        let (first, other) = (table.enter(&ada), table.enter(&bob));
        let clone = first.clone();
        assert_eq!(table.acting(|it| it.agent == "ada"), 2);
        let revoked = table.revoke(|it| it.agent == "ada");
        assert!(first.is_revoked() && clone.is_revoked() && !other.is_revoked());
        assert_eq!(revoked.iter().map(Entry::left).sum::<usize>(), 2);
        drop((first, clone));
        assert_eq!(revoked.iter().map(Entry::left).sum::<usize>(), 0);
        assert!(!table.enter(&ada).is_revoked());
        // It was checked before, and may be what was revoked.
        assert!(table.enter_since(&ada, before).is_revoked());
        assert!(!table.enter_since(&ada, table.revocations()).is_revoked());
    }

    #[test]
    fn identities_that_nothing_acts_for_are_forgotten() {
        let table = AccessTable::default();
        let kept = table.enter(&Identity::named("kept"));
        for number in 0..10 * FEW {
            drop(table.enter(&Identity::named(number.to_string())));
        }
        assert!(table.lock().entries.len() <= FEW + 1);
        assert_eq!(table.acting(|_| true), 1);
        drop(kept);
    }
}

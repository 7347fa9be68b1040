//! The access of identities to a host: what acts for one holds it, and ends when it is revoked.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

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
    /// Where the next revocation is noted.
    next_revocation: Revocations,
    /// With so many entries it is time to remove those that nothing acts for.
    prune_at: usize,
}

/// The revocations from a moment on, while a credential is checked: a list that grows at its end, and
/// whose beginning is dropped with the last login that began there.
#[derive(Debug, Clone, Default)]
pub(crate) struct Revocations(Arc<OnceLock<Revocation>>);

struct Revocation {
    is_meant: IsMeant,
    next: Revocations,
}

/// Which identities a revocation is about.
pub(crate) type IsMeant = Arc<dyn Fn(&AccessHolder) -> bool + Send + Sync>;

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
    /// The revocations from now on: taken before a credential is checked, for `enter_since`.
    pub(crate) fn revocations(&self) -> Revocations {
        self.lock().next_revocation.clone()
    }

    /// The access of an identity.
    pub(crate) fn enter(&self, identity: &Identity) -> Access {
        self.lock().enter(identity)
    }

    /// The access of an identity whose credential was checked during these revocations. It is revoked if
    /// one of them was about the identity: perhaps of this very credential.
    pub(crate) fn enter_since(&self, identity: &Identity, revocations: &Revocations) -> Access {
        let mut inner = self.lock();
        if !revocations.are_about(&AccessHolder::of(identity)) {
            return inner.enter(identity);
        }
        let ended = Entry::default();
        ended.revoked.cancel();
        ended.access()
    }

    /// Revokes the access of these; each that enters from now on has a new one.
    pub(crate) fn revoke(&self, is_meant: &IsMeant) -> Vec<Entry> {
        let mut inner = self.lock();
        let next = inner.next_revocation.add(is_meant);
        inner.next_revocation = next;
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

impl Revocations {
    /// Notes a revocation at the end; returns the new end.
    fn add(&self, is_meant: &IsMeant) -> Self {
        let revocation = self.0.get_or_init(|| Revocation {
            is_meant: Arc::clone(is_meant),
            next: Self::default(),
        });
        revocation.next.clone()
    }

    /// Whether one of them is about this identity.
    fn are_about(&self, holder: &AccessHolder) -> bool {
        let mut at = self;
        while let Some(revocation) = at.0.get() {
            if (revocation.is_meant)(holder) {
                return true;
            }
            at = &revocation.next;
        }
        false
    }
}

impl fmt::Debug for Revocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Revocation").finish_non_exhaustive()
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

    fn named(agent: &'static str) -> IsMeant {
        Arc::new(move |holder| holder.agent == agent)
    }

    #[test]
    fn access_is_revoked_with_all_its_clones_and_later_logins_have_a_new_one() {
        let table = AccessTable::default();
        let (ada, bob) = (Identity::named("ada"), Identity::named("bob"));
        let before = table.revocations();
        let (first, other) = (table.enter(&ada), table.enter(&bob));
        let clone = first.clone();
        assert_eq!(table.acting(|it| it.agent == "ada"), 2);
        let revoked = table.revoke(&named("ada"));
        assert!(first.is_revoked() && clone.is_revoked() && !other.is_revoked());
        assert_eq!(revoked.iter().map(Entry::left).sum::<usize>(), 2);
        drop((first, clone));
        assert_eq!(revoked.iter().map(Entry::left).sum::<usize>(), 0);
        assert!(!table.enter(&ada).is_revoked());
        // It was checked before, and may be what was revoked.
        assert!(table.enter_since(&ada, &before).is_revoked());
        assert!(!table.enter_since(&ada, &table.revocations()).is_revoked());
    }

    #[test]
    fn revocation_ends_logins_under_way_of_the_revoked_identity_only() {
        let table = AccessTable::default();
        let (ada, bob) = (Identity::named("ada"), Identity::named("bob"));
        let before = table.revocations();
        table.revoke(&named("eve"));
        let between = table.revocations();
        table.revoke(&named("ada"));
        table.revoke(&named("eve"));
        for (identity, since, is_revoked) in [
            (&ada, &before, true),
            (&ada, &between, true),
            (&ada, &table.revocations(), false),
            (&bob, &before, false),
        ] {
            let access = table.enter_since(identity, since);
            assert_eq!(access.is_revoked(), is_revoked, "{identity:?}");
        }
        // The list is dropped with the last login that needs it.
        let oldest = Arc::downgrade(&before.0);
        drop((before, between));
        assert_eq!(oldest.strong_count(), 0);
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

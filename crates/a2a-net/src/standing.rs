//! What the operator says about agents, and what the past says: the second outlives the process.

mod remembered;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use a2a_identity::{Did, FoldedManifest, GithubIds, Pins, Seen, VerifiedManifest};
use a2a_session::{Baseline, Binding, Directory, Failure, Memory, PeerVerified, times};
use a2a_wire::{Digest, ErrorCode, Reason, UnixSeconds};
use arc_swap::ArcSwap;
use policy::EffectivePolicy;
use store::{Advanced, Hash, PinKind, Store};

use self::remembered::Remembered;
use crate::Clock;

/// What the operator says about agents, by canonical DID.
#[derive(Debug, Clone, Default)]
pub struct Rules {
    /// Agents that are not served.
    pub blocked: BTreeSet<String>,
    /// Agents that the operator named: peers, trust anchors, agents with settings of their own.
    pub added: BTreeSet<String>,
    /// The policy for all agents that have none of their own.
    pub policy: EffectivePolicy,
    /// Policies of single agents.
    pub policies: BTreeMap<String, EffectivePolicy>,
    /// What was fixed for single agents.
    pub pins: BTreeMap<String, Pins>,
    /// How agents are served that speak the base specification alone.
    pub baseline: Baseline,
    /// The same for single agents.
    pub baselines: BTreeMap<String, Baseline>,
}

impl Rules {
    /// The policy for an agent.
    #[must_use]
    pub fn policy_for(&self, did: &str) -> &EffectivePolicy {
        self.policies.get(did).unwrap_or(&self.policy)
    }

    /// The largest request that any agent may send.
    pub(crate) fn largest_request(&self) -> u64 {
        let all = self.policies.values().chain([&self.policy]);
        let largest = all.map(EffectivePolicy::max_payload_size).max();
        largest.unwrap_or_default()
    }
}

/// The operator's rules and what is remembered of agents.
#[derive(Debug)]
pub struct Standing {
    rules: ArcSwap<Rules>,
    /// When they were changed last, if they were.
    changed: Mutex<Option<Duration>>,
    /// The manifests that were accepted last: an older one brings back keys that were given up.
    seen: Mutex<Remembered<Seen>>,
    /// The manifests that were new last, of agents that proved themselves, to know them again.
    known: Mutex<Remembered<Arc<FoldedManifest>>>,
    /// Who spoke the profile, and when last.
    profile: Mutex<Remembered<()>>,
    /// The nonces of servers, to a client.
    nonces: Mutex<Memory<Digest>>,
    store: Store,
    clock: Clock,
}

/// Agents of which something is remembered. Whoever has many names can make the oldest go, but no
/// room for more.
const AGENTS: usize = 50_000;
/// Agents whose manifests are kept; one has at most 64 KiB.
const KNOWN: usize = 256;
/// Nonces of servers.
const NONCES: usize = 262_144;
/// How long an agent that spoke the profile must go on doing so.
const PROFILE: Duration = Duration::from_secs(30 * 24 * 3600);
/// How old what is written of that may be, so that not every handshake writes.
const PROFILE_REWRITTEN: Duration = Duration::from_secs(24 * 3600);

impl Standing {
    /// Reads what is remembered.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn open(rules: Rules, store: &Store, clock: Clock) -> Result<Self, store::Error> {
        let mut seen = Remembered::new(AGENTS);
        for (name, pin) in store.pins(&PinKind::MANIFEST).list().await? {
            let Some(Hash(hash)) = pin.pinned else {
                continue;
            };
            let manifest = Seen {
                hash: Digest::from(hash),
                timestamp: UnixSeconds(pin.version),
            };
            seen.insert(&name, pin.at, manifest);
        }
        let mut profile = Remembered::new(AGENTS);
        for (name, pin) in store.pins(&PinKind::PROFILE).list().await? {
            profile.insert(&name, pin.at, ());
        }
        Ok(Self {
            rules: ArcSwap::from_pointee(rules),
            changed: Mutex::new(None),
            seen: Mutex::new(seen),
            known: Mutex::new(Remembered::new(KNOWN)),
            profile: Mutex::new(profile),
            nonces: Mutex::new(Memory::new(times::NONCE, NONCES)),
            store: store.clone(),
            clock,
        })
    }

    /// The operator's rules as they are now.
    #[must_use]
    pub fn rules(&self) -> Arc<Rules> {
        self.rules.load_full()
    }

    /// Goes on with other rules. What is running must be told too: [`Server::set_rules`](crate::Server::set_rules).
    pub(crate) fn set_rules(&self, rules: Rules) {
        *lock(&self.changed) = Some(self.clock.now().monotonic);
        self.rules.store(Arc::new(rules));
    }

    /// Whether the rules were changed since this moment.
    pub(crate) fn changed_since(&self, moment: Duration) -> bool {
        lock(&self.changed).is_some_and(|changed| changed >= moment)
    }

    /// Remembers an agent that was verified, durably.
    ///
    /// # Errors
    /// If its manifest is older than one that was accepted meanwhile, or nothing can be written.
    pub(crate) async fn remember(
        &self,
        peer: &PeerVerified,
        binding: Binding,
    ) -> Result<(), Failure> {
        let name = peer.did().to_string();
        if let Some(manifest) = peer.seen() {
            self.accepted(&name, manifest).await?;
        }
        match binding {
            Binding::Profile => self.spoke(&name, peer.manifest_hash()).await,
            Binding::Baseline => Ok(()),
        }
    }

    /// Remembers that a known agent has another manifest now, durably: who shows its last one brings
    /// back keys that it gave up.
    ///
    /// # Errors
    /// As [`Standing::remember`].
    pub(crate) async fn renew(
        &self,
        did: &Did,
        manifest: &VerifiedManifest,
    ) -> Result<(), Failure> {
        let last = self.last_seen(did);
        match last {
            Some(_) => self.accepted(&did.to_string(), manifest.seen(last)).await,
            None => Ok(()),
        }
    }

    /// Remembers the nonce of a server that a handshake was done with.
    pub(crate) fn remember_nonce(&self, server: &Did, nonce: &str) {
        let now = self.clock.now().monotonic;
        let mut nonces = lock(&self.nonces);
        if nonces.insert(now, nonce_key(server, nonce)).is_err() {
            nonces.forget_oldest();
            let _ = nonces.insert(now, nonce_key(server, nonce));
        }
    }

    /// The numbers under which a repository and its owner were first seen.
    pub(crate) async fn repository(&self, did: &Did) -> Result<Option<GithubIds>, store::Error> {
        let pin = self.store.pins(&PinKind::REPOSITORY);
        let pin = pin.get(&did.to_string()).await?;
        Ok(pin.and_then(|pin| pin.pinned).map(ids_of))
    }

    /// Remembers the numbers of a repository that was first seen now.
    pub(crate) async fn remember_repository(
        &self,
        did: &Did,
        ids: GithubIds,
    ) -> Result<(), store::Error> {
        let pins = self.store.pins(&PinKind::REPOSITORY);
        let now = self.clock.millis();
        pins.pin(now, &did.to_string(), hash_of(ids)).await
    }

    /// Forgets under which numbers a repository was seen, since the operator says so.
    ///
    /// # Errors
    /// If nothing can be written.
    pub async fn forget_repository(&self, did: &Did) -> Result<(), store::Error> {
        let pins = self.store.pins(&PinKind::REPOSITORY);
        pins.remove(&did.to_string()).await
    }

    async fn accepted(&self, name: &str, manifest: Seen) -> Result<(), Failure> {
        if lock(&self.seen).get(name) == Some(&manifest) {
            return Ok(());
        }
        let now = self.clock.millis();
        let pins = self.store.pins(&PinKind::MANIFEST);
        let hash = Hash(*manifest.hash.as_bytes());
        let advanced = pins.advance(now, name, hash, manifest.timestamp.0).await;
        if let Advanced::Rollback { .. } = advanced.map_err(|error| cannot_write(&error))? {
            let cause = "a newer manifest was accepted meanwhile";
            let failure = Failure::new(ErrorCode::InvalidManifest, cause);
            return Err(failure.because(Reason::ManifestRollback));
        }
        let gone = lock(&self.seen).insert(name, now, manifest);
        self.forget(&PinKind::MANIFEST, gone).await
    }

    async fn spoke(&self, name: &str, manifest: Digest) -> Result<(), Failure> {
        let now = self.clock.millis();
        let is_fresh = |at: store::UnixMillis| at > now.minus(PROFILE_REWRITTEN);
        if lock(&self.profile).at(name).is_some_and(is_fresh) {
            return Ok(());
        }
        let pins = self.store.pins(&PinKind::PROFILE);
        let written = pins.pin(now, name, Hash(*manifest.as_bytes())).await;
        written.map_err(|error| cannot_write(&error))?;
        let gone = lock(&self.profile).insert(name, now, ());
        self.forget(&PinKind::PROFILE, gone).await
    }

    async fn forget(&self, kind: &PinKind, gone: Option<String>) -> Result<(), Failure> {
        let Some(name) = gone else {
            return Ok(());
        };
        let removed = self.store.pins(kind).remove(&name).await;
        removed.map_err(|error| cannot_write(&error))
    }
}

impl Directory for Standing {
    fn is_blocked(&self, did: &Did) -> bool {
        let rules = self.rules.load();
        !rules.blocked.is_empty() && rules.blocked.contains(&did.to_string())
    }

    fn policy_for(&self, did: &Did) -> EffectivePolicy {
        self.rules.load().policy_for(&did.to_string()).clone()
    }

    fn pins(&self, did: &Did) -> Pins {
        let rules = self.rules.load();
        let pins = rules.pins.get(&did.to_string());
        pins.cloned().unwrap_or_default()
    }

    fn last_seen(&self, did: &Did) -> Option<Seen> {
        lock(&self.seen).get(&did.to_string()).copied()
    }

    fn baseline(&self, did: &Did) -> Baseline {
        let rules = self.rules.load();
        let own = rules.baselines.get(&did.to_string());
        own.copied().unwrap_or(rules.baseline)
    }

    fn spoke_profile(&self, did: &Did) -> bool {
        let since = self.clock.millis().minus(PROFILE);
        let at = lock(&self.profile).at(&did.to_string());
        at.is_some_and(|at| at > since)
    }

    fn saw_nonce(&self, did: &Did, nonce: &str) -> bool {
        let now = self.clock.now().monotonic;
        lock(&self.nonces).contains(now, &nonce_key(did, nonce))
    }

    fn is_known(&self, did: &Did) -> bool {
        let (rules, name) = (self.rules.load(), did.to_string());
        rules.added.contains(&name) || rules.pins.contains_key(&name)
    }

    fn known_manifest(&self, did: &Did) -> Option<Arc<FoldedManifest>> {
        lock(&self.known).get(&did.to_string()).cloned()
    }

    fn keep_manifest(&self, did: &Did, manifest: Arc<FoldedManifest>) {
        let (name, now) = (did.to_string(), self.clock.millis());
        let mut known = lock(&self.known);
        let is_known = known
            .get(&name)
            .is_some_and(|it| Arc::ptr_eq(it, &manifest));
        if !is_known {
            known.insert(&name, now, manifest);
        }
    }
}

pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn cannot_write(error: &store::Error) -> Failure {
    Failure::unavailable(format!(
        "what is known of the agent cannot be kept: {error}"
    ))
}

fn nonce_key(did: &Did, nonce: &str) -> Digest {
    Digest::of(format!("{did}|{nonce}").as_bytes())
}

/// Numbers as the 32 bytes that a pin has.
fn hash_of(ids: GithubIds) -> Hash {
    let mut bytes = [0; 32];
    let numbers = ids.repository.to_be_bytes().into_iter();
    let numbers = numbers.chain(ids.owner.to_be_bytes());
    bytes
        .iter_mut()
        .zip(numbers)
        .for_each(|(to, from)| *to = from);
    Hash(bytes)
}

fn ids_of(Hash(bytes): Hash) -> GithubIds {
    let number = |from: usize| {
        let part = bytes.iter().skip(from).take(8);
        part.fold(0_i64, |number, byte| (number << 8) | i64::from(*byte))
    };
    GithubIds {
        repository: number(0),
        owner: number(8),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_from_a_pin() {
        for (repository, owner) in [(0, 0), (1, 2), (i64::MAX, 7), (-1, i64::MIN)] {
            let ids = GithubIds { repository, owner };
            assert_eq!(ids_of(hash_of(ids)), ids);
        }
    }
}

//! What the operator says about agents, and what the past says: the second outlives the process.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use a2a_identity::{Did, GithubIds, ManifestSummary, Pins, Seen, VerifiedManifest};
use a2a_session::{Baseline, Binding, Directory, Failure, Holder, Memory, PeerVerified, times};
use a2a_wire::Digest;
use arc_swap::ArcSwap;
use base::{Class, Limits, Table};
use policy::EffectivePolicy;
use store::Store;

use crate::Clock;
use crate::peer_history::PeerHistory;

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

    /// Whether the operator knows an agent.
    fn is_known(&self, did: &str) -> bool {
        self.added.contains(did) || self.pins.contains_key(did)
    }

    /// Bytes that are read of a request: what the largest policy allows, and a little more, so that a
    /// request that is only a little too large gets a signed answer.
    pub(crate) fn request_bytes(&self) -> usize {
        let all = self.policies.values().chain([&self.policy]);
        let largest = all.map(EffectivePolicy::max_payload_size).max();
        let largest = usize::try_from(largest.unwrap_or_default());
        largest.unwrap_or(usize::MAX).saturating_add(SLACK)
    }
}

/// The operator's rules and what is remembered of agents.
#[derive(Debug)]
pub struct Standing {
    rules: ArcSwap<Rules>,
    /// When they were changed last, if they were.
    changed: Mutex<Option<Duration>>,
    history: PeerHistory,
    /// Manifests of agents that proved themselves, so that they need not be verified again.
    verified: Mutex<Table<Holder, String, Arc<ManifestSummary>>>,
    /// The nonces of servers, to a client.
    nonces: Mutex<Memory<Digest>>,
    clock: Clock,
}

/// Agents whose verified manifests are kept; one has at most 64 KiB.
const VERIFIED: Limits = Limits {
    total: 256,
    per_holder: 1,
    reserved: 64,
};
/// Bytes that a request may have beyond the largest policy.
const SLACK: usize = 64 * 1024;
/// Nonces of servers.
const NONCES: usize = 262_144;
/// How long an agent that spoke the profile must go on doing so.
const PROFILE: Duration = Duration::from_secs(30 * 24 * 3600);

impl Standing {
    /// Reads what is remembered.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn open(
        rules: Rules,
        store: &Store,
        limits: Limits,
        clock: Clock,
    ) -> Result<Self, store::Error> {
        let is_known = |did: &str| rules.is_known(did);
        let history = PeerHistory::open(store, limits, clock.millis(), is_known).await?;
        Ok(Self {
            rules: ArcSwap::from_pointee(rules),
            changed: Mutex::new(None),
            history,
            verified: Mutex::new(Table::new(VERIFIED)),
            nonces: Mutex::new(Memory::new(times::NONCE, NONCES)),
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
        self.trust_changed();
        self.rules.store(Arc::new(rules));
    }

    /// Remembers that rules or trust anchors are about to change: a handshake that is under way may
    /// have been checked with the earlier ones.
    pub(crate) fn trust_changed(&self) {
        *lock(&self.changed) = Some(self.clock.now().monotonic);
    }

    /// Whether rules or trust anchors were changed since this moment.
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
        holder: Holder,
        binding: Binding,
    ) -> Result<(), Failure> {
        let (now, did) = (self.clock.millis(), peer.did());
        if let Some(manifest) = peer.seen() {
            self.history
                .accept_manifest(now, did, holder, manifest)
                .await?;
        }
        match binding {
            Binding::Profile => {
                let manifest = peer.manifest_hash();
                self.history
                    .speaks_profile(now, did, holder, manifest)
                    .await
            }
            Binding::Baseline => Ok(()),
        }
    }

    /// Remembers that an agent has another manifest now than the one that was accepted, durably: an
    /// older one brings back keys that it gave up.
    ///
    /// # Errors
    /// As [`Standing::remember`].
    pub(crate) async fn renew(
        &self,
        did: &Did,
        manifest: &VerifiedManifest,
    ) -> Result<(), Failure> {
        let manifest = manifest.seen(self.last_seen(did));
        self.history
            .renew_manifest(self.clock.millis(), did, manifest)
            .await
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
    pub(crate) fn repository(&self, did: &Did) -> Option<GithubIds> {
        self.history.repository(did)
    }

    /// Remembers the numbers of a repository that was first seen now.
    pub(crate) async fn remember_repository(
        &self,
        did: &Did,
        ids: GithubIds,
    ) -> Result<(), store::Error> {
        let now = self.clock.millis();
        let holder = (Holder::of_did(did), self.class_of(did));
        self.history
            .remember_repository(now, did, holder, ids)
            .await
    }

    fn class_of(&self, did: &Did) -> Class {
        match self.is_known(did) {
            true => Class::Known,
            false => Class::Stranger,
        }
    }

    /// Forgets under which numbers a repository was seen, since the operator says so.
    ///
    /// # Errors
    /// If nothing can be written.
    pub async fn forget_repository(&self, did: &Did) -> Result<(), store::Error> {
        self.history.forget_repository(did).await
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
        self.history.manifest(did)
    }

    fn baseline(&self, did: &Did) -> Baseline {
        let rules = self.rules.load();
        let own = rules.baselines.get(&did.to_string());
        own.copied().unwrap_or(rules.baseline)
    }

    fn spoke_profile(&self, did: &Did) -> bool {
        let since = self.clock.millis().minus(PROFILE);
        let spoke = self.history.spoke_profile(did);
        spoke.is_some_and(|at| at > since)
    }

    fn saw_nonce(&self, did: &Did, nonce: &str) -> bool {
        let now = self.clock.now().monotonic;
        lock(&self.nonces).contains(now, &nonce_key(did, nonce))
    }

    fn is_known(&self, did: &Did) -> bool {
        self.rules.load().is_known(&did.to_string())
    }

    fn known_manifest(&self, did: &Did) -> Option<Arc<ManifestSummary>> {
        lock(&self.verified).get(&did.to_string()).cloned()
    }

    fn keep_manifest(&self, did: &Did, manifest: Arc<ManifestSummary>) {
        // One that finds no room is verified again the next time.
        let (holder, class) = (Holder::of_did(did), self.class_of(did));
        let _ = lock(&self.verified).insert(holder, class, did.to_string(), manifest);
    }
}

pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn nonce_key(did: &Did, nonce: &str) -> Digest {
    Digest::of(format!("{did}|{nonce}").as_bytes())
}

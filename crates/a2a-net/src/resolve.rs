//! Finding out whom a DID belongs to (profile §4): the plan of `a2a-identity`, carried out.
//!
//! One fetch at a time for each DID, whoever asks; what was learnt is kept as long as it holds, and
//! so is that nothing was. A fetch goes on when the one who asked has gone.

mod fetch;
mod guard;
mod place;
mod web;

pub use self::fetch::{Fetcher, Fetching};
pub use self::guard::{Addresses, Guard, Loopback, Names, NotReachable, Reach, SystemNames};
pub use self::place::manifest_url;
pub use self::web::{Connecting, Dial, Tcp, Web};

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use a2a_identity::{
    Answer, Cache, Did, Document, Fetch, Found as Way, Issuer, Lookup, ManifestRules, Peer, Pins,
    Resolution, ResolveError, Resolved, RootKeys, Step, VerifiedManifest, Want, time_to_live,
    verify_manifest,
};
use a2a_session::{Directory as _, Facts, Found, Freshness, Need};
use a2a_wire::{Manifest, limits, parse_document};
use tokio::sync::watch;
use tokio::task::JoinSet;

use self::place::Place;
use crate::Clock;
use crate::record::Recorder;
use crate::standing::{Standing, lock};

/// How long the keys of a DID document may be kept.
const DOCUMENT: Duration = Duration::from_secs(3600);
/// How long it is believed that a host shows no manifest.
const NOT_SHOWN: Duration = Duration::from_secs(60);

/// Finds out whom DIDs belong to.
#[derive(Clone)]
pub struct Resolver(Arc<Inner>);

struct Inner {
    fetcher: Arc<dyn Fetcher>,
    standing: Arc<Standing>,
    recorder: Recorder,
    clock: Clock,
    max_manifest_age: i64,
    keys: Mutex<Cache<Facts>>,
    manifests: Mutex<Cache<Facts>>,
    /// Counts fetches that are done, for those who wait for one.
    done: watch::Sender<u64>,
    /// Where the operator says that manifests are.
    places: Mutex<BTreeMap<String, String>>,
    refreshed: OnceLock<Refreshed>,
}

/// Who is told of a manifest that was fetched anew.
pub(crate) type Refreshed = Box<dyn Fn(&VerifiedManifest) + Send + Sync>;

impl Resolver {
    pub(crate) fn new(
        fetcher: Arc<dyn Fetcher>,
        standing: Arc<Standing>,
        recorder: Recorder,
        clock: Clock,
        max_manifest_age: i64,
    ) -> Self {
        Self(Arc::new(Inner {
            fetcher,
            standing,
            recorder,
            clock,
            max_manifest_age,
            keys: Mutex::new(Cache::new(Cache::<Facts>::CAPACITY)),
            manifests: Mutex::new(Cache::new(Cache::<Facts>::CAPACITY)),
            done: watch::channel(0).0,
            places: Mutex::new(BTreeMap::new()),
            refreshed: OnceLock::new(),
        }))
    }

    /// Where the manifest of an agent is, as the operator says: a did:key has no address of its own.
    pub fn set_place(&self, did: &Did, manifest_url: impl Into<String>) {
        lock(&self.0.places).insert(did.to_string(), manifest_url.into());
        self.forget(did);
    }

    /// Forgets where the manifest of an agent is, and what is cached of it.
    pub fn remove_place(&self, did: &Did) {
        lock(&self.0.places).remove(&did.to_string());
        self.forget(did);
    }

    /// Forgets what is cached of a DID.
    pub fn forget(&self, did: &Did) {
        lock(&self.0.keys).forget(did);
        lock(&self.0.manifests).forget(did);
    }

    /// What is known of a DID.
    ///
    /// # Errors
    /// Why it cannot be known.
    pub async fn facts(
        &self,
        did: &Did,
        want: Want,
        freshness: Freshness,
    ) -> Result<Facts, ResolveError> {
        self.facts_at(did, want, freshness, self.said_place(did))
            .await
    }

    /// The same, of an agent whose manifest is at this place.
    async fn facts_at(
        &self,
        did: &Did,
        want: Want,
        freshness: Freshness,
        place: Option<Place>,
    ) -> Result<Facts, ResolveError> {
        if let (Did::Key(key), None) = (did, &place) {
            return Ok(Facts {
                root: RootKeys::DidKey(key.key().clone()),
                manifest: None,
            });
        }
        let mut done = self.0.done.subscribe();
        let mut freshness = freshness;
        loop {
            let now = self.0.clock.now().monotonic;
            let lookup = {
                let mut cache = lock(self.0.cache(want));
                match freshness {
                    Freshness::Any => cache.look_up(did, now),
                    Freshness::Newer => cache.look_up_newer(did, now),
                }
            };
            match lookup {
                Lookup::Known(mut facts) => {
                    if facts.manifest.is_none() {
                        facts.manifest = self.0.fetched_manifest(did, now);
                    }
                    return Ok(facts);
                }
                Lookup::Failed(error) => return Err(error),
                Lookup::Wait => {}
                Lookup::Fetch => self.begin(did, want, place.clone()),
            }
            // What is under way is as new as can be.
            freshness = Freshness::Any;
            if done.changed().await.is_err() {
                return Err(ResolveError::Over);
            }
        }
    }

    /// Reads and verifies the manifest at a URL that the operator gave, whoever's it is.
    ///
    /// # Errors
    /// Why it is not believed.
    pub async fn manifest_at(&self, url: &str) -> Result<Box<VerifiedManifest>, ResolveError> {
        let unusable = || ResolveError::Unusable(url.to_owned());
        let answer = self.0.fetcher.fetch(url, Document::Manifest).await;
        let bytes = body(url, answer)?;
        let did = {
            let tree = parse_document(&bytes, limits::MANIFEST).map_err(|_| unusable())?;
            let tree = tree.as_object().ok_or_else(unusable)?;
            let manifest = Manifest::from_object(tree).map_err(|_| unusable())?;
            Did::parse(manifest.agent_did.as_str(), Peer::Baseline).map_err(|_| unusable())?
        };
        let facts = self.facts_at(&did, Want::Keys, Freshness::Newer, None);
        let root = facts.await?.root;
        let pins = self.0.standing.pins(&did);
        let check = self.0.rules(&did, &pins).check(&did, &root);
        Ok(Box::new(verify_manifest(&bytes, &check)?))
    }

    /// Finds out what a handshake needs, of the server at an endpoint if it is a client's.
    pub(crate) async fn find(&self, need: &Need, endpoint: Option<&str>) -> Found {
        match need {
            Need::Peer {
                did,
                want,
                freshness,
            } => {
                let place = self.said_place(did);
                let place = place.or_else(|| Place::on_host(did, endpoint?));
                Found::Peer(self.facts_at(did, *want, *freshness, place).await)
            }
            Need::Issuers(dids) => Found::Issuers(self.issuers(dids).await),
        }
    }

    /// Says who is to be told of manifests that are fetched anew; the first to say so is.
    pub(crate) fn tell(&self, refreshed: Refreshed) {
        let _ = self.0.refreshed.set(refreshed);
    }

    async fn issuers(&self, dids: &[Did]) -> BTreeMap<String, Issuer> {
        let mut tasks = JoinSet::new();
        for did in dids.iter().take(a2a_identity::MAX_RESOLUTIONS) {
            let (this, did) = (self.clone(), did.clone());
            tasks.spawn(async move {
                let facts = this.facts(&did, Want::Manifest, Freshness::Any).await;
                let manifest = facts.ok().and_then(|facts| facts.manifest);
                (
                    did.to_string(),
                    manifest.map_or(Issuer::Failed, Issuer::Known),
                )
            });
        }
        let mut found = BTreeMap::new();
        while let Some(issuer) = tasks.join_next().await {
            found.extend(issuer.ok());
        }
        found
    }

    fn said_place(&self, did: &Did) -> Option<Place> {
        let places = lock(&self.0.places);
        places.get(&did.to_string()).cloned().map(Place::Said)
    }

    /// Fetches in a task of its own, so that it ends whoever waits.
    fn begin(&self, did: &Did, want: Want, place: Option<Place>) {
        let task = Task {
            inner: Arc::clone(&self.0),
            did: did.clone(),
            want,
            outcome: Err(ResolveError::Unavailable(did.to_string())),
        };
        tokio::spawn(async move {
            let outcome = task.inner.resolve(&task.did, want, place).await;
            task.finish(outcome);
        });
    }
}

/// A fetch under way. However it ends, those who wait are told.
struct Task {
    inner: Arc<Inner>,
    did: Did,
    want: Want,
    outcome: Result<(Facts, Duration), ResolveError>,
}

impl Task {
    fn finish(mut self, outcome: Result<(Facts, Duration), ResolveError>) {
        self.outcome = outcome;
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        let now = self.inner.clock.now().monotonic;
        let outcome = self.outcome.clone();
        lock(self.inner.cache(self.want)).finish(&self.did, now, outcome);
        self.inner
            .done
            .send_modify(|count| *count = count.wrapping_add(1));
    }
}

impl Inner {
    const fn cache(&self, want: Want) -> &Mutex<Cache<Facts>> {
        match want {
            Want::Keys => &self.keys,
            Want::Manifest => &self.manifests,
        }
    }

    async fn resolve(
        &self,
        did: &Did,
        want: Want,
        place: Option<Place>,
    ) -> Result<(Facts, Duration), ResolveError> {
        let resolved = self.carry_out(did, want, place.is_some()).await?;
        if let Some(ids) = resolved.github {
            let kept = self.standing.remember_repository(did, ids).await;
            kept.map_err(|_| ResolveError::Unavailable(did.to_string()))?;
        }
        let pins = self.standing.pins(did);
        let rules = self.rules(did, &pins);
        let (root, published) = resolved.verify(&rules)?;
        let published = published.map(Box::new);
        // What is elsewhere counts only if it is not older than what is published.
        let last = published.as_ref().map(|it| it.newest_seen(rules.last));
        let rules = ManifestRules {
            last: last.or(rules.last),
            ..rules
        };
        let (bytes, way, keep_none) = match place {
            Some(Place::Said(url)) => {
                let answer = self.fetcher.fetch(&url, Document::Manifest).await;
                (Some(body(&url, answer)?), Way::ByOperator, DOCUMENT)
            }
            Some(Place::OfHost(url)) => {
                let answer = self.fetcher.fetch(&url, Document::Manifest).await;
                // A server that speaks the base specification alone need not show any.
                let bytes = match answer {
                    Answer::Status(400 | 401 | 403..=405 | 410) => None,
                    Answer::Body(_)
                    | Answer::Status(_)
                    | Answer::Redirect
                    | Answer::Unreachable
                    | Answer::Refused => Some(body(&url, answer)?),
                };
                (bytes, Way::ByDid, NOT_SHOWN)
            }
            None => (None, Way::ByDid, DOCUMENT),
        };
        let manifest = match bytes {
            Some(bytes) => Some(Box::new(verify_manifest(&bytes, &rules.check(did, &root))?)),
            None => published,
        };
        let now = self.clock.now().unix;
        let keep = manifest
            .as_ref()
            .map_or(keep_none, |manifest| time_to_live(manifest, way, now));
        if let Some(manifest) = &manifest {
            let kept = self.standing.renew(did, manifest).await;
            kept.map_err(|_| ResolveError::Unavailable(did.to_string()))?;
            self.recorder.manifest_refreshed(did, manifest.hash());
            if let Some(tell) = self.refreshed.get() {
                tell(manifest);
            }
        }
        let facts = Facts { root, manifest };
        Ok((facts, keep))
    }

    /// Carries out the plan. If the manifest is elsewhere, only the keys are looked for.
    async fn carry_out(
        &self,
        did: &Did,
        want: Want,
        has_place: bool,
    ) -> Result<Resolved, ResolveError> {
        let want = match has_place {
            true => Want::Keys,
            false => want,
        };
        let pinned = match did {
            Did::Github(_) => self.standing.repository(did).await,
            Did::Key(_) | Did::Web(_) => Ok(None),
        };
        let pinned = pinned.map_err(|_| ResolveError::Unavailable(did.to_string()))?;
        let (mut resolution, mut step) = Resolution::begin(did.clone(), want, pinned);
        loop {
            let Fetch { url, what } = match step {
                Step::Done(resolved) => return Ok(*resolved),
                Step::Failed(error) => return Err(error),
                Step::Fetch(fetch) => fetch,
            };
            let answer = self.fetcher.fetch(&url, what).await;
            step = resolution.answer(&url, answer);
        }
    }

    /// The manifest that was fetched for a DID, whose keys alone were asked for.
    fn fetched_manifest(&self, did: &Did, now: Duration) -> Option<Box<VerifiedManifest>> {
        let manifests = lock(&self.manifests);
        manifests
            .peek(did, now)
            .and_then(|facts| facts.manifest.clone())
    }

    fn rules<'a>(&self, did: &Did, pins: &'a Pins) -> ManifestRules<'a> {
        ManifestRules {
            now: self.clock.now().unix,
            // Whom it will be used for is not known here; the handshake asks for more.
            peer: Peer::Baseline,
            max_age: self.max_manifest_age,
            last: self.standing.last_seen(did),
            pins,
        }
    }
}

impl fmt::Debug for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Resolver")
    }
}

/// The body of an answer that must have one.
fn body(url: &str, answer: Answer) -> Result<Vec<u8>, ResolveError> {
    match answer {
        Answer::Body(bytes) => Ok(bytes),
        Answer::Status(404 | 410) => Err(ResolveError::NotFound(url.to_owned())),
        Answer::Unreachable => Err(ResolveError::Unavailable(url.to_owned())),
        Answer::Status(_) | Answer::Redirect | Answer::Refused => {
            Err(ResolveError::Unusable(url.to_owned()))
        }
    }
}

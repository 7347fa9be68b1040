//! Finding out whom a DID belongs to (profile §4): the plan of `a2a-identity`, carried out.
//!
//! One resolution at a time for each DID, however many wait for it; it ends when none does. What was
//! learnt is kept as long as it holds, and so is that nothing was. Everything is counted for who asks:
//! a stranger by its source, so that no source keeps others from being looked up.

mod fetch;
mod github;
mod guard;
mod in_flight;
mod place;
mod queue;
mod web;

pub use self::fetch::{Fetcher, Fetching};
pub use self::guard::{Addresses, Guard, Loopback, Names, NotReachable, Reach, SystemNames};
pub use self::place::manifest_url;
pub use self::queue::FetchLimits;
pub use self::web::{Connecting, Dial, Tcp, Web};

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use a2a_identity::{
    Answer, Cache, Did, Document, Fetch, Found as Way, Issuer, KeySet, Lookup, ManifestRules, Peer,
    Pins, Resolution, ResolveError, Resolved, RootKeys, Step, VerifiedManifest, Want, WebUrl,
    time_to_live, verify_manifest,
};
use a2a_session::{Directory as _, Facts, Found, Freshness, Holder, Need};
use a2a_wire::{Digest, Manifest, Read as _, limits, parse_document};
use base::Limits;
use futures_util::future::join_all;

use self::github::Github;
use self::in_flight::{InFlight, Joined, Query};
use self::place::Place;
use self::queue::{Permit, Queue};
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
    limits: ResolverLimits,
    state: Mutex<State>,
    queue: Arc<Queue>,
    github: Github,
    /// Where the operator says that manifests are.
    places: Mutex<BTreeMap<String, String>>,
    refreshed: OnceLock<Refreshed>,
}

/// What is known, and what is being found out.
struct State {
    keys: Cache<Holder, Facts>,
    manifests: Cache<Holder, Facts>,
    in_flight: InFlight,
    /// The number of the resolution that began last.
    last: u64,
}

/// How much may be looked up, and kept of it.
#[derive(Debug, Clone, Copy)]
pub struct ResolverLimits {
    /// Resolutions under way, with those that wait for a fetch.
    pub resolutions: Limits,
    /// Fetches at once.
    pub fetches: FetchLimits,
    /// How long a resolution may take.
    pub time: Duration,
    /// Agents whose keys, agents whose manifests and repositories whose owners are cached.
    pub cached: Limits,
    /// Questions to GitHub in an hour, whose a repository is. A known agent has a share as a source has.
    pub github: Limits,
}

impl ResolverLimits {
    /// The same with what GitHub allows who shows a token ([`Web::with_github_token`]).
    #[must_use]
    pub const fn with_github_token(mut self) -> Self {
        self.github = github::LIMITS_WITH_TOKEN;
        self
    }
}

impl Default for ResolverLimits {
    fn default() -> Self {
        Self {
            resolutions: Limits {
                total: 256,
                per_holder: 8,
                reserved: 64,
            },
            fetches: FetchLimits::default(),
            time: Duration::from_secs(20),
            cached: Limits {
                total: 10_000,
                per_holder: 1000,
                reserved: 2000,
            },
            github: github::LIMITS,
        }
    }
}

/// Who asks about an agent.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Asker<'a> {
    /// A peer, counted as this holder unless it is about an agent that the operator knows.
    Peer(Holder),
    /// This node; the server's endpoint, if one is at the other end.
    Node(Option<&'a str>),
}

/// Is called with the keys of an agent whose manifest was fetched anew.
pub(crate) type Refreshed = Box<dyn Fn(&Did, &KeySet) + Send + Sync>;

impl Resolver {
    pub(crate) fn new(
        fetcher: Arc<dyn Fetcher>,
        standing: Arc<Standing>,
        recorder: Recorder,
        clock: Clock,
        (max_manifest_age, limits): (i64, ResolverLimits),
    ) -> Self {
        Self(Arc::new(Inner {
            fetcher,
            standing,
            recorder,
            clock,
            max_manifest_age,
            limits,
            state: Mutex::new(State {
                keys: Cache::new(limits.cached),
                manifests: Cache::new(limits.cached),
                in_flight: InFlight::new(limits.resolutions),
                last: 0,
            }),
            queue: Queue::new(limits.fetches),
            github: Github::new(limits.github, limits.cached),
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
        self.0.github.forget(did);
        let mut state = lock(&self.0.state);
        state.keys.forget(did);
        state.manifests.forget(did);
    }

    /// What is known of a DID, for this node itself.
    ///
    /// # Errors
    /// Why it cannot be known.
    pub async fn facts(
        &self,
        did: &Did,
        want: Want,
        freshness: Freshness,
    ) -> Result<Facts, ResolveError> {
        let query = self.query(did, want, Asker::Node(None));
        self.answer(&query, freshness).await
    }

    /// What is known of an agent that has a session; the session's holder is counted.
    pub(crate) async fn session_facts(
        &self,
        did: &Did,
        holder: Holder,
        freshness: Freshness,
    ) -> Result<Facts, ResolveError> {
        let query = Query {
            is_kept: true,
            ..self.query(did, Want::Manifest, Asker::Peer(holder))
        };
        self.answer(&query, freshness).await
    }

    /// A question about an agent. One that the operator knows is counted for itself, whoever asks.
    fn query(&self, did: &Did, want: Want, asker: Asker<'_>) -> Query {
        let agent = Digest::of(did.to_string().as_bytes());
        let (place, holder) = match asker {
            Asker::Peer(holder) if !self.0.standing.is_known(did) => (None, holder),
            Asker::Peer(_) => (None, Holder::Agent(agent)),
            Asker::Node(endpoint) => {
                let place = endpoint.and_then(|endpoint| Place::on_host(did, endpoint));
                (place, Holder::Agent(agent))
            }
        };
        Query {
            did: did.clone(),
            want,
            place: self.said_place(did).or(place),
            holder,
            is_kept: false,
            shown: None,
        }
    }

    async fn answer(&self, query: &Query, freshness: Freshness) -> Result<Facts, ResolveError> {
        if let (Did::Key(key), None) = (&query.did, &query.place) {
            return Ok(Facts {
                endpoints: Vec::new(),
                root: RootKeys::DidKey(key.key().clone()),
                manifest: None,
            });
        }
        loop {
            let (running, is_ours) = match self.0.join(query, freshness)? {
                Joined::Cached(facts) => return Ok(*facts),
                Joined::Waits(running) => (running, false),
                Joined::Begins(running) => (running, true),
            };
            match running.outcome().await {
                Some(outcome) => return outcome,
                None if is_ours => return Err(ResolveError::Busy),
                // Another's gave way to more of the other's.
                None => {}
            }
        }
    }

    /// Reads and verifies the manifest at a URL that the operator gave, whoever's it is.
    ///
    /// # Errors
    /// Why it is not believed.
    pub async fn manifest_at(&self, url: &str) -> Result<Box<VerifiedManifest>, ResolveError> {
        let unusable = |cause: String| ResolveError::Unusable {
            url: url.to_owned(),
            cause,
        };
        let holder = Holder::Agent(Digest::of(url.as_bytes()));
        let answer = self.0.fetch(holder, url, Document::Manifest).await;
        let bytes = answer.into_body(url)?;
        let did = {
            let tree = parse_document(&bytes, limits::MANIFEST);
            let tree = tree.map_err(|error| unusable(error.to_string()))?;
            let manifest = Manifest::read(&tree);
            let manifest = manifest.map_err(|error| unusable(format!("no manifest: {error}")))?;
            let did = Did::parse(manifest.agent_did.as_str(), Peer::Baseline);
            did.map_err(|error| unusable(format!("`agent_did`: {error}")))?
        };
        let query = Query {
            place: None,
            ..self.query(&did, Want::Keys, Asker::Node(None))
        };
        let root = self.answer(&query, Freshness::Newer).await?.root;
        let pins = self.0.standing.pins(&did);
        let check = self.0.rules(&did, &pins).check(&did, &root);
        Ok(Box::new(verify_manifest(&bytes, &check)?))
    }

    /// Finds out what a handshake needs.
    pub(crate) async fn find(&self, need: &Need, asker: Asker<'_>) -> Found {
        match need {
            Need::Peer {
                did,
                want,
                freshness,
                shown,
            } => {
                let query = Query {
                    shown: shown.clone(),
                    ..self.query(did, *want, asker)
                };
                Found::Peer(self.answer(&query, *freshness).await)
            }
            Need::Issuers(dids) => Found::Issuers(self.issuers(dids, asker).await),
        }
    }

    /// Says who is to be told of manifests that are fetched anew; the first to say so is.
    pub(crate) fn tell(&self, refreshed: Refreshed) {
        let _ = self.0.refreshed.set(refreshed);
    }

    async fn issuers(&self, dids: &[Did], asker: Asker<'_>) -> BTreeMap<String, Issuer> {
        let dids = dids.iter().take(a2a_identity::MAX_RESOLUTIONS);
        let found = dids.map(async |did| {
            let query = self.query(did, Want::Manifest, asker);
            let facts = self.answer(&query, Freshness::Any).await;
            let issuer = facts.map_or(Issuer::Failed, |facts| {
                Issuer::resolved(&facts.root, facts.manifest)
            });
            (did.to_string(), issuer)
        });
        join_all(found).await.into_iter().collect()
    }

    fn said_place(&self, did: &Did) -> Option<Place> {
        let places = lock(&self.0.places);
        places.get(&did.to_string()).cloned().map(Place::Said)
    }
}

impl State {
    const fn cache(&mut self, want: Want) -> &mut Cache<Holder, Facts> {
        match want {
            Want::Keys => &mut self.keys,
            Want::Manifest => &mut self.manifests,
        }
    }

    fn look_up(&mut self, query: &Query, freshness: Freshness, now: Duration) -> Lookup<Facts> {
        let cache = self.cache(query.want);
        match freshness {
            Freshness::Any => cache.look_up(&query.did, now),
            Freshness::Newer => cache.look_up_newer(&query.did, now),
        }
    }
}

impl Inner {
    async fn resolve(&self, query: &Query) -> Result<(Facts, Duration), ResolveError> {
        let (did, holder) = (&query.did, query.holder);
        let resolved = self.carry_out(query).await?;
        let pins = self.standing.pins(did);
        let rules = self.rules(did, &pins);
        let (root, published) = resolved.verify(&rules)?;
        if let Some(ids) = resolved.github {
            let kept = self.standing.remember_repository(did, ids).await;
            kept.map_err(|_| ResolveError::Unavailable(did.to_string()))?;
        }
        let published = published.map(Box::new);
        // What is elsewhere counts only if it is not older than what is published.
        let last = published.as_ref().map(|it| it.newest_seen(rules.last));
        let rules = ManifestRules {
            last: last.or(rules.last),
            ..rules
        };
        let (bytes, way, keep_none) = match &query.place {
            Some(Place::Said(url)) => {
                let answer = self.fetch(holder, url, Document::Manifest).await;
                (Some(answer.into_body(url)?), Way::ByOperator, DOCUMENT)
            }
            Some(Place::OfHost(url)) => {
                let answer = self.fetch(holder, url, Document::Manifest).await;
                // A server that speaks the base specification alone need not show any.
                let bytes = match answer {
                    Answer::Status(400 | 401 | 403..=405 | 410) => None,
                    Answer::Body(_)
                    | Answer::Status(_)
                    | Answer::Redirect
                    | Answer::Unreachable
                    | Answer::Untrusted
                    | Answer::Refused => Some(answer.into_body(url)?),
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
            if let Some(tell) = self.refreshed.get()
                && let Some(keys) = root.agent_keys(None, Some(manifest))
            {
                tell(did, &keys);
            }
        }
        let facts = Facts {
            root,
            manifest,
            endpoints: resolved.endpoints,
        };
        Ok((facts, keep))
    }

    /// Carries out the plan. If the manifest is elsewhere, only the keys are looked for.
    async fn carry_out(&self, query: &Query) -> Result<Resolved, ResolveError> {
        let did = &query.did;
        let want = match query.place {
            Some(_) => Want::Keys,
            None => query.want,
        };
        let pinned = match did {
            Did::Github(_) => self.standing.repository(did),
            Did::Key(_) | Did::Web(_) => None,
        };
        let (mut resolution, mut step) = Resolution::begin(did.clone(), want, pinned);
        let mut turn = None;
        loop {
            let Fetch { url, what } = match step {
                Step::Done(resolved) => return Ok(*resolved),
                Step::Failed(error) => return Err(error),
                Step::Fetch(fetch) => fetch,
            };
            step = match did {
                Did::Github(github) if what == Document::Ownership => {
                    turn = None;
                    self.check_published(query, &resolution)?;
                    self.ask_owner(query, github, &mut resolution, &url).await?
                }
                Did::Key(_) | Did::Web(_) | Did::Github(_) => {
                    let fetched = self.fetch_in_turn(&mut turn, query.holder, &url, what);
                    resolution.answer(&url, fetched.await)
                }
            };
        }
    }

    /// Fetches one of several documents. Further ones of the same host are fetched at once, so that a
    /// resolution waits for its turn once.
    async fn fetch_in_turn(
        &self,
        turn: &mut Option<(String, Arc<Permit>)>,
        holder: Holder,
        url: &str,
        what: Document,
    ) -> Answer {
        let Ok(parsed) = WebUrl::parse(url) else {
            return Answer::Refused;
        };
        let host = parsed.host();
        let permit = match turn.take() {
            Some((of, permit)) if of == host => permit,
            other => {
                drop(other);
                Arc::new(self.queue.wait(holder, host).await)
            }
        };
        *turn = Some((host.to_owned(), Arc::clone(&permit)));
        self.fetch_now(permit, url, what).await
    }

    /// Fetches when it is its turn.
    async fn fetch(&self, holder: Holder, url: &str, what: Document) -> Answer {
        let Ok(parsed) = WebUrl::parse(url) else {
            return Answer::Refused;
        };
        let permit = self.queue.wait(holder, parsed.host()).await;
        self.fetch_now(Arc::new(permit), url, what).await
    }

    /// A fetch that has begun keeps its place until it ends, even if nothing waits for it any more:
    /// what it does, such as looking up a name, cannot be stopped at once.
    async fn fetch_now(&self, permit: Arc<Permit>, url: &str, what: Document) -> Answer {
        let (fetcher, url) = (Arc::clone(&self.fetcher), url.to_owned());
        let fetching = tokio::spawn(async move {
            let answer = fetcher.fetch(&url, what).await;
            drop(permit);
            answer
        });
        fetching.await.unwrap_or(Answer::Unreachable)
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

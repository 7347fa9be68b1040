//! The node among other agents: its A2A port, and the client that calls from here.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use a2a_identity::{Did, Peer as Speaks};
use a2a_net::book::{Pages, parse_did};
use a2a_net::courier::Reach as Taken;
use a2a_net::listen::{Exposure, Limits, Listeners};
use a2a_net::tls::{Certificate, ClientTls, DevelopmentCa, Roots};
use a2a_net::{
    Client, ClientSettings, Clock, Entropy, Guard, Home, Identity, Loopback, Parts, Posts, Reach,
    ResolverLimits, Rules, Server, ServerSettings, SystemNames, Web,
};
use a2a_session::{Method, RequireManifest, Sealing, TrustRules};
use a2e_runtime::config::{A2a, Baseline, Config, DidMethod, Encryption};
use a2e_runtime::{DataDir, HttpServer};
use anyhow::{Context, Result};
use policy::{EffectivePolicy, Rate};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::manifest::{Own, Place, own_identity};
use crate::book::{BookFile, level};
use crate::keystore::{Store, Stored};

/// What speaks with other agents.
pub(crate) struct Agents {
    pub(crate) client: Client<Posts>,
    pub(crate) server: Server,
    pub(crate) home: Arc<Home>,
    pub(crate) book: Arc<BookFile>,
    address: SocketAddr,
    place: Place,
    settings: Mutex<Settings>,
    stop: CancellationToken,
    serving: tokio::sync::Mutex<Option<JoinHandle<()>>>,
}

/// How long others may take to hear that a session is over.
const GOODBYE: Duration = Duration::from_secs(2);

/// What the node is made of, as far as other agents are concerned.
pub(super) struct Needs<'a> {
    pub(super) config: &'a Config,
    pub(super) data: &'a DataDir,
    pub(super) identity: &'a Stored,
    pub(super) identities: &'a Store,
    pub(super) store: store::Store,
    pub(super) log: Option<audit::Log>,
    pub(super) book: Arc<BookFile>,
    /// Connections of peers at once.
    pub(super) max_connections: usize,
}

/// What the configuration says of agents.
#[derive(Debug)]
struct Settings {
    policies: Policies,
    /// Where peers are.
    places: BTreeMap<String, String>,
}

/// What the configuration asks of agents: of all, and of single ones.
#[derive(Debug)]
pub(super) struct Policies {
    policy: EffectivePolicy,
    baseline: a2a_session::Baseline,
    /// By canonical DID.
    agents: BTreeMap<String, AgentPolicy>,
}

/// What the configuration asks of one agent in place of what it asks of all.
#[derive(Debug, Default)]
struct AgentPolicy {
    policy: Option<EffectivePolicy>,
    baseline: Option<a2a_session::Baseline>,
}

/// What TLS goes by.
struct Papers {
    certificate: Arc<Certificate>,
    client: ClientTls,
}

impl Agents {
    /// Starts the A2A port, if there is to be one.
    pub(super) async fn start(needs: Needs<'_>) -> Result<Option<Arc<Self>>> {
        let a2a = &needs.config.a2a;
        if !a2a.enabled {
            return Ok(None);
        }
        let listeners = Listeners::bind(&[a2a.listen]).await?;
        let exposure = listeners.exposure();
        let papers = tokio::task::spawn_blocking({
            let (a2a, data) = (a2a.clone(), needs.data.clone());
            move || papers(&a2a, &data, exposure)
        });
        let address = listeners.addresses().first().copied();
        let address = address.context("the A2A port has no address")?;
        let place = Place::of(a2a, address)?;
        let own = Own {
            config: needs.config,
            data: needs.data,
            identity: needs.identity,
            identities: needs.identities,
        };
        let identity = own_identity(own, &place)?;
        let Papers {
            certificate,
            client,
        } = papers.await??;
        let tls = listeners.tls(&certificate)?;
        let guard = Guard::new(reach(exposure), SystemNames);
        let web = Web::over(guard.clone(), &client);
        let resolver = ResolverLimits::default();
        let (web, resolver) = match &a2a.github_token {
            Some(token) => (
                web.with_github_token(token.reveal()),
                resolver.with_github_token(),
            ),
            None => (web, resolver),
        };
        let policies = Policies::read(a2a)?;
        let parts = Parts {
            identity,
            rules: policies.rules(&needs.book.books.pages()),
            trust: trust(needs.config, &needs.book.books.pages()),
            store: needs.store,
            log: needs.log,
            resolver,
            peer_history: a2a_net::peer_history::LIMITS,
            clock: Clock::system(),
            entropy: Entropy::system(),
        };
        let home = Home::open(parts, web).await?;
        let server = Server::start(Arc::clone(&home), server_settings(a2a)?);
        let couriers = Posts::new(client, Taken::default());
        let client = Client::new(Arc::clone(&home), client_settings(a2a), couriers, guard);
        let stop = CancellationToken::new();
        let limits = Limits {
            connections: needs.max_connections,
            connections_per_source: a2a.limits.connections_per_source,
            drain: needs.config.global_limits.drain,
            ..Limits::default()
        };
        tokio::spawn(watch(certificate, stop.clone()));
        let service = Arc::new(server.clone());
        let serving = tokio::spawn(listeners.serve(tls, service, limits, stop.clone()));
        let this = Arc::new(Self {
            client,
            server,
            home,
            book: needs.book,
            address,
            place,
            settings: Mutex::new(Settings {
                policies,
                places: BTreeMap::new(),
            }),
            stop,
            serving: tokio::sync::Mutex::new(Some(serving)),
        });
        this.book.activate(|pages| this.activate(pages));
        Ok(Some(this))
    }

    /// Has what is done with other agents counted in `/metrics`.
    pub(super) fn count_in(&self, http: &HttpServer) {
        let server = self.server.clone();
        http.set_more_metrics(move || server.metrics());
    }

    /// Where the port is.
    pub(super) fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// Puts what the books and the configuration say in force. To be called under the lock of
    /// [`BookFile`], so that the newest books are put in force last.
    pub(crate) fn activate(&self, pages: &Pages) {
        let settings = self.settings();
        let mut rules = settings.policies.rules(pages);
        rules.added.extend(settings.places.keys().cloned());
        let mut places: BTreeMap<String, String> = pages
            .peers()
            .map(|peer| (peer.did.to_string(), peer.url.clone()))
            .collect();
        // Where both speak, the configuration is right.
        places.extend(settings.places.clone());
        drop(settings);
        self.server.set_rules(rules);
        self.server.set_anchors(pages.anchors());
        self.client.set_addresses(places);
        self.client.trust_changed();
    }

    /// The sessions of other agents, but for those that are blocked: nothing is done in those.
    pub(crate) fn served(&self, pages: &Pages) -> BTreeSet<String> {
        let blocked = pages.blocked();
        let sessions = self.server.sessions().into_iter();
        let served = sessions.filter(|session| !blocked.contains(&session.peer.did));
        served.map(|session| session.session_id).collect()
    }

    /// Takes over another configuration, with these books.
    pub(super) fn configure(
        &self,
        pages: &Pages,
        policies: Policies,
        places: BTreeMap<String, String>,
    ) {
        *self.settings() = Settings { policies, places };
        self.activate(pages);
    }

    /// Looks for peers where the configuration says that they are.
    pub(super) fn set_places(&self, places: BTreeMap<String, String>) {
        self.book.activate(|pages| {
            self.settings().places = places;
            self.activate(pages);
        });
    }

    fn settings(&self) -> MutexGuard<'_, Settings> {
        self.settings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Who the node is to others: what it offers, and with which key it signs.
    pub(super) fn identity(&self, own: Own<'_>) -> Result<Identity> {
        own_identity(own, &self.place)
    }

    /// Takes nothing new of others, and lets their requests end.
    pub(super) async fn stop(&self, patience: Duration) {
        self.stop.cancel();
        self.server.stop(patience).await;
        if let Some(serving) = self.serving.lock().await.take() {
            let _ = serving.await;
        }
    }

    /// Closes the sessions with others. Whatever is still asked in them ends with them.
    pub(super) async fn close(&self) {
        self.client.close(GOODBYE).await;
    }
}

impl Policies {
    /// Reads what a configuration asks of agents.
    pub(super) fn read(a2a: &A2a) -> Result<Self> {
        let mut agents: BTreeMap<String, AgentPolicy> = BTreeMap::new();
        for agent in &a2a.agents {
            let did = parse_did(&agent.did).context("`a2a.agents` of the configuration")?;
            let stated = AgentPolicy {
                policy: agent.policy.clone(),
                baseline: agent.baseline.map(baseline),
            };
            agents.insert(did.to_string(), stated);
        }
        Ok(Self {
            policy: a2a.policy.clone(),
            baseline: baseline(a2a.baseline),
            agents,
        })
    }

    /// What is in force for which agent.
    fn rules(&self, pages: &Pages) -> Rules {
        let mut rules = Rules {
            blocked: pages.blocked(),
            policy: self.policy.clone(),
            pins: pages.all_pins(),
            baseline: self.baseline,
            ..Rules::default()
        };
        let anchors = pages.anchors().into_iter().map(|anchor| anchor.did);
        let named = pages.peers().map(|peer| peer.did.clone()).chain(anchors);
        rules.added = named.map(|did| did.to_string()).collect();
        for (did, stated) in &self.agents {
            rules.added.insert(did.clone());
            let own = stated.policy.clone().map(|policy| (did.clone(), policy));
            rules.policies.extend(own);
            let own = stated.baseline.map(|baseline| (did.clone(), baseline));
            rules.baselines.extend(own);
        }
        rules
    }
}

/// Reads or makes what TLS goes by. Reads files.
fn papers(a2a: &A2a, data: &DataDir, exposure: Exposure) -> Result<Papers> {
    let development = match (exposure, &a2a.tls) {
        (Exposure::Public, Some(_)) => None,
        (Exposure::Loopback, _) | (Exposure::Public, None) => {
            Some(DevelopmentCa::open(data.development_ca())?)
        }
    };
    let certificate = match (&a2a.tls, &development) {
        (Some(files), _) => Certificate::from_files(&files.certificate, &files.key)?,
        (None, Some(ca)) => ca.issue()?,
        (None, None) => anyhow::bail!("`a2a.tls` names no certificate"),
    };
    let mut roots = Roots::system();
    if let (Exposure::Loopback, Some(ca)) = (exposure, &development) {
        roots = roots.with_development(ca)?;
    }
    for file in &a2a.roots {
        roots = roots.with_file(file)?;
    }
    Ok(Papers {
        certificate: Arc::new(certificate),
        client: ClientTls::new(roots)?,
    })
}

async fn watch(certificate: Arc<Certificate>, stop: CancellationToken) {
    tokio::select! {
        () = certificate.watch() => {}
        () = stop.cancelled() => {}
    }
}

/// Where the node may connect to. In development mode that is this machine too.
fn reach(exposure: Exposure) -> Reach {
    Reach {
        loopback: match exposure {
            Exposure::Loopback => Loopback::Allowed,
            Exposure::Public => Loopback::Refused,
        },
        ..Reach::default()
    }
}

fn trust(config: &Config, pages: &Pages) -> TrustRules {
    let trust = &config.trust;
    TrustRules {
        anchors: pages.anchors(),
        min_trust_level: level(trust.min_trust_level),
        max_manifest_age: i64::try_from(trust.max_manifest_age.as_secs()).unwrap_or(i64::MAX),
        require_manifest: match trust.require_manifest {
            true => RequireManifest::Yes,
            false => RequireManifest::No,
        },
    }
}

fn server_settings(a2a: &A2a) -> Result<ServerSettings> {
    let mut settings = ServerSettings::new()?;
    let methods = a2a.methods.iter().map(|method| match method {
        DidMethod::Key => Method::Key,
        DidMethod::Web => Method::Web,
        DidMethod::Github => Method::Github,
    });
    settings.config.methods = methods.collect();
    settings.config.sealing = sealing(a2a.encryption);
    let (limits, given) = (&mut settings.config.limits, &a2a.limits);
    limits.half_open.total = given.half_open;
    limits.half_open.per_holder = given.half_open_per_source;
    // A quarter, as by default.
    limits.half_open.reserved = given.half_open / 4;
    let burst = u32::try_from(given.hellos_per_second)?.saturating_mul(2);
    limits.hello_rate = Rate::new(burst, 2).context("`a2a.limits.hellos_per_second`")?;
    limits.sessions = given.sessions;
    limits.sessions_per_source = given.sessions_per_source;
    let burst = u32::try_from(given.messages_per_second)?.saturating_mul(2);
    settings.source_rate = Rate::new(burst, 2).context("`a2a.limits.messages_per_second`")?;
    let newcomers = u32::try_from(given.newcomers_per_minute)?;
    settings.agents.newcomers =
        Rate::new(newcomers, 60).context("`a2a.limits.newcomers_per_minute`")?;
    settings.session.in_flight = given.in_flight;
    settings.session.deadline = given.deadline;
    settings.session.unclaimed = given.unclaimed;
    Ok(settings)
}

fn client_settings(a2a: &A2a) -> ClientSettings {
    ClientSettings {
        user_agent: concat!("frith/", env!("CARGO_PKG_VERSION")).parse().ok(),
        sealing: sealing(a2a.encryption),
        ..ClientSettings::default()
    }
}

const fn sealing(encryption: Encryption) -> Sealing {
    match encryption {
        Encryption::Offered => Sealing::Offered,
        Encryption::IfRequired => Sealing::IfRequired,
    }
}

const fn baseline(baseline: Baseline) -> a2a_session::Baseline {
    match baseline {
        Baseline::Accept => a2a_session::Baseline::Accept,
        Baseline::Bound => a2a_session::Baseline::Bound,
        Baseline::Refuse => a2a_session::Baseline::Refuse,
    }
}

/// Whom the operator means: by DID, or by a name of the books.
pub(crate) fn named(pages: &Pages, text: &str) -> Result<Did> {
    if let Some(peer) = pages.peer(text) {
        return Ok(peer.did.clone());
    }
    if text.starts_with("did:") {
        return Ok(Did::parse(text, Speaks::Baseline)?);
    }
    anyhow::bail!(
        "there is no peer `{text}`; `frith peer list` shows them, `frith peer add` adds one"
    )
}

#[cfg(test)]
mod tests {
    use a2e_runtime::config::PAYLOAD_SIZES;

    use super::*;

    #[test]
    fn two_requests_of_the_largest_payload_fit_into_the_share_of_a_source() {
        let share = u64::try_from(Limits::default().buffered_bytes_per_source).unwrap();
        assert!(2 * PAYLOAD_SIZES.end() <= share);
    }
}

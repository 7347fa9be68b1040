//! A running node: its host, its listeners, and the files that say where it is.

mod access;
mod agents;
mod build;
mod chains;
mod descriptors;
mod doors;
mod integrity;
mod joined;
mod keys;
mod later;
mod listen;
mod manifest;
mod operate;
mod peers;
mod record;
mod reload;
mod status;
mod sweep;

use std::io::Write;
use std::path::Path;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use ::store::{Sqlite, SyncMode, Vault};
use a2e_caps::chains::Keeper;
use a2e_caps::learning::Ledgers;
use a2e_runtime::config::{Config, Plugin, PluginKind, SnapshotPlace};
use a2e_runtime::definitions::Definitions;
use a2e_runtime::operator::News;
use a2e_runtime::{
    ApprovalRequest, Approvals, Authenticator, Claim, ConfigurationCounters, DataDir, FileStore,
    Guard, Host, HttpServer, Limited, MemoryStore, SnapshotStore, Tls, TokenStore,
};
use anyhow::{Context, Result};
use serde_json::json;
use tokio::sync::{Mutex, broadcast, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::book::BookFile;
use crate::capabilities::Capabilities;
use crate::config::Applied;
use crate::keystore::Stored;
use crate::screen::quoted_path;
use crate::vault;

pub(crate) use access::AccessControl;
pub(crate) use agents::Agents;
use agents::Needs;
use bridge::Names;
pub(crate) use build::builder;
use descriptors::max_connections;
use integrity::{CheckedStore, unusable};
pub(crate) use joined::LatePeers;
use joined::{Joined, Plan};
pub(crate) use keys::NodeIdentity;
use listen::{Endpoints, listen, warn_of_plain_text};
use operate::{operations, serve as serve_operator};
use record::keep_within;
use status::Sources;

/// A node that takes connections.
pub(crate) struct Node {
    host: Host,
    http: HttpServer,
    tls: Option<Tls>,
    tokens: Arc<TokenStore>,
    shared: Shared,
    /// What speaks with other agents, if anything does.
    agents: Option<Arc<Agents>>,
    /// What joins them with the host.
    joined: Option<Joined>,
    /// Ends what acts for those who may come in no longer.
    access: AccessControl,
    /// Who it is to others.
    who: NodeIdentity,
    /// What it was started with, or what of a later one was taken.
    config: std::sync::Mutex<Config>,
    /// Told to read its configuration again by the operator.
    applies: Mutex<mpsc::Receiver<Apply>>,
    claim: Claim,
    database: CheckedStore,
    endpoints: Endpoints,
    operator: CancellationToken,
}

/// The operator's wish to have the configuration applied.
pub(crate) struct Apply {
    /// What came of it.
    pub(crate) answer: oneshot::Sender<Result<Applied, String>>,
    /// How it gets on.
    pub(crate) news: News,
}

/// Whether rules may allow more than before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Consent {
    /// The operator says so.
    Given,
    /// Nobody knows who wrote the file.
    Missing,
}

/// What stays when the configuration is read again.
pub(crate) struct Shared {
    pub(crate) authenticator: Arc<dyn Authenticator>,
    pub(crate) sessions: Option<SessionStores>,
    /// Without them a call that a rule holds is refused.
    pub(crate) approvals: Option<Approvals>,
    pub(crate) audit: Option<audit::Log>,
    pub(crate) capabilities: Capabilities,
    pub(crate) vault: Vault,
    pub(crate) store: ::store::Store,
    /// What agents have learned: there is one of it, whatever the configuration says.
    pub(crate) ledgers: Arc<Ledgers>,
    /// The chains that are kept: there is one of it too.
    pub(crate) chains: Arc<Keeper>,
    pub(crate) definitions: Definitions,
    /// How often something was configured at remote plugins.
    pub(crate) configurations: ConfigurationCounters,
    pub(crate) peers: Arc<LatePeers>,
}

/// What outlives the node of sessions.
pub(crate) struct SessionStores {
    pub(crate) snapshots: Arc<dyn SnapshotStore>,
    /// Where requests are recorded that no later process must execute again.
    pub(crate) idempotency: Arc<dyn SnapshotStore>,
}

const NO_IDENTITY: &str = "the node's identity cannot be used (`identity` in the configuration)";

impl Node {
    /// Starts everything; when this returns, all listeners take connections.
    pub(crate) async fn start(
        config: &Config,
        file: Option<&Path>,
        data: &DataDir,
    ) -> Result<Self> {
        say_what_is_noted(config);
        let claim = data.claim()?;
        let capabilities = Capabilities::new(config, file, data)?;
        // While everything else is opened.
        let guards = capabilities.try_guards();
        let tokens = Arc::new(TokenStore::open(&claim, config.auth_token.as_ref())?);
        let (who, identity) = open_identity(config, data)?;
        let (database, store) = open_store(config, data)?;
        let approvals = Approvals::new(store.clone(), config.global_limits.approval);
        let book = Arc::new(BookFile::open(claim.clone(), config)?);
        let (names, mut plan) = (Names::default(), Plan::of(config)?);
        let login = joined::login(&tokens, &identity, &names, &book, &store)?;
        let shared = Shared {
            authenticator: Arc::new(Limited::new(Arc::clone(&login))),
            sessions: Some(session_stores(config, data)?),
            approvals: Some(approvals.clone()),
            audit: record::open(config, data, &identity, &who.store)?,
            capabilities,
            vault: vault::open(data, &store).await?,
            store: store.clone(),
            ledgers: Arc::new(Ledgers::new(store.clone())),
            chains: Arc::new(Keeper::new(store.clone())),
            definitions: Definitions::new(&store)?,
            configurations: ConfigurationCounters::default(),
            peers: Arc::default(),
        };
        let left_open = chains::left_open(&shared.chains, config, &tokens).await?;
        let (host, max_connections) = build_host(config, &shared).await?;
        let (tls, http) = (tls(config)?, http_server(&host, config));
        let mut endpoints = listen(config, data, &host, &http, tls.as_ref()).await?;
        endpoints.did = identity.identity.did().to_string();
        let (apply, applies) = mpsc::channel(1);
        let agents = Agents::start(Needs {
            config,
            data,
            identity: &identity,
            identities: &who.store,
            store,
            log: shared.audit.clone(),
            book: Arc::clone(&book),
            max_connections,
        })
        .await?;
        endpoints.a2a = agents.as_ref().map(|agents| agents.url());
        let joined = agents.as_ref().map(|agents| {
            agents.count_in(&http);
            login.resolve_with(agents.home.resolver().clone());
            shared.peers.join(agents);
            agents.set_places(std::mem::take(&mut plan.places));
            Joined::new(agents, &host, &names)
        });
        joined::take(plan, &names, joined.as_ref());
        let access = AccessControl::new(&host, &names, &book, agents.as_ref());
        let operations = access.serve(operations(&shared, &approvals, apply), &tokens);
        let place = (&database.database, data, endpoints.to_json());
        let sources = Sources::new(&host, &shared, &approvals, agents.as_ref(), place);
        // First, so that an agent that is revoked has none of them left.
        chains::resume(&shared.chains, &host, left_open);
        let operator = serve_operator(&claim, sources.serve(operations), agents.as_ref())?;
        keep_tidy(config, &shared, &host, &operator);
        guards.await??;
        claim.write_endpoints(&endpoints.to_json())?;
        Ok(Self {
            host,
            http,
            tls,
            tokens,
            shared,
            agents,
            joined,
            access,
            who,
            config: std::sync::Mutex::new(config.clone()),
            applies: Mutex::new(applies),
            claim,
            database,
            endpoints,
            operator,
        })
    }

    /// Says how to connect; to a program, in one line.
    pub(crate) fn announce(
        &self,
        config: &Config,
        read: Option<&Path>,
        as_json: bool,
    ) -> Result<()> {
        let mut out = std::io::stdout().lock();
        let dir = self.claim.dir();
        let file = dir.token();
        // What a command must be told, and what is said about it.
        let (token, option, note) = match (&config.auth_token, config.server.allow_unauthenticated)
        {
            (_, true) => (None, "", "none is needed".to_owned()),
            (Some(_), false) => (
                None,
                " --token TOKEN",
                "`auth_token` of the configuration".to_owned(),
            ),
            (None, false) => (Some(&file), "", file.display().to_string()),
        };
        if as_json {
            let mut line = self.endpoints.to_json();
            line["token_file"] = json!(token);
            line["data"] = json!(dir.path());
            writeln!(out, "{line}")?;
            return Ok(out.flush()?);
        }
        writeln!(out, "frith is up (process {})", std::process::id())?;
        writeln!(out, "  http   {}", self.endpoints.http())?;
        writeln!(out, "  ws     {}", self.endpoints.ws())?;
        if let Some(mcp) = self.endpoints.mcp() {
            writeln!(out, "  mcp    {mcp}")?;
        }
        if let Some(tcp) = self.endpoints.tcp() {
            writeln!(out, "  tcp    {tcp}")?;
        }
        if let Some(unix) = self.endpoints.unix() {
            writeln!(out, "  unix   {unix}")?;
        }
        writeln!(out, "  token  {note}")?;
        if let Some(a2a) = &self.endpoints.a2a {
            writeln!(out, "  a2a    {a2a}")?;
        }
        writeln!(out, "  did    {}", self.endpoints.did)?;
        let rules = match read {
            Some(file) => file.display().to_string(),
            None => "none: no rules, nothing waits for approval".to_owned(),
        };
        writeln!(out, "  config {rules}")?;
        let folder = self.shared.capabilities.folder();
        writeln!(out, "  workspace {}", folder.display())?;
        let data = match DataDir::of_user().is_ok_and(|user| user == *dir) {
            true => String::new(),
            false => format!(" --data {}", quoted_path(dir.path())),
        };
        writeln!(out, "\nTry, in another terminal:")?;
        writeln!(out, "  frith tools{data}{option}")?;
        let has_echo = |plugin: &Plugin| plugin.enabled && plugin.kind == PluginKind::Demo;
        if config.plugins.is_empty() || config.plugins.iter().any(has_echo) {
            let echo = "echo '{\"text\":\"hi\"}'";
            writeln!(out, "  frith call {echo}{data}{option}")?;
        }
        writeln!(
            out,
            "  frith token new NAME{data}      # lets another agent in"
        )?;
        writeln!(out, "Ctrl-C stops it.")?;
        out.flush()?;
        Ok(())
    }

    /// Hears of calls that become pending.
    pub(crate) fn approval_requests(&self) -> broadcast::Receiver<ApprovalRequest> {
        match &self.shared.approvals {
            Some(approvals) => approvals.subscribe(),
            None => broadcast::Sender::new(1).subscribe(),
        }
    }

    /// Waits for the operator to have the configuration applied.
    pub(crate) async fn told_to_apply(&self) -> Apply {
        match self.applies.lock().await.recv().await {
            Some(apply) => apply,
            None => std::future::pending().await,
        }
    }

    /// Waits for damage of the store that the check in the background finds.
    pub(crate) async fn store_damaged(&self) -> anyhow::Error {
        self.database.damaged().await
    }

    fn current(&self) -> MutexGuard<'_, Config> {
        self.config.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets requests finish and sessions end, for that long at most.
    pub(crate) async fn stop(&self, patience: Duration) {
        self.host.stop();
        let agents = async {
            if let Some(agents) = &self.agents {
                agents.stop(patience).await;
            }
        };
        let host = tokio::time::timeout(patience, self.host.stopped());
        let (stopped, ()) = tokio::join!(host, agents);
        if stopped.is_err() {
            tracing::warn!("some sessions did not end in time");
        }
        // Last of all: what has just ended may have asked others.
        if let Some(agents) = &self.agents {
            agents.close().await;
        }
        if let Some(log) = self.shared.audit.clone() {
            // It has its last checkpoint before the process ends.
            let _ = tokio::task::spawn_blocking(move || log.close()).await;
        }
        // Tasks may still hold the store when the process ends, so nothing else waits for this.
        if let Err(error) = self.shared.store.flush().await {
            tracing::error!(%error, "what was written last may not be on the disk");
        }
    }

    /// Removes what says where the node is, and marks its store as closed in order.
    pub(crate) fn clean_up(&self) {
        self.operator.cancel();
        self.database.database.close();
        let unix = self.endpoints.unix.clone();
        let dir = self.claim.dir();
        let paths = [Some(dir.endpoints()), Some(dir.operator_socket()), unix];
        for path in paths.into_iter().flatten() {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// The host, and how many connections of peers there may be beside those of its agents.
async fn build_host(config: &Config, shared: &Shared) -> Result<(Host, usize)> {
    let (builder, described) = builder(config, shared, &|it| tracing::info!("{it}")).await?;
    shared.capabilities.take(described);
    let most = max_connections(config);
    Ok((builder.max_connections(most.agents).build(), most.peers))
}

fn session_stores(config: &Config, data: &DataDir) -> Result<SessionStores> {
    if config.snapshot_store == SnapshotPlace::Memory {
        return Ok(SessionStores {
            snapshots: Arc::new(MemoryStore::default()),
            idempotency: Arc::new(MemoryStore::default()),
        });
    }
    let open = |name: &str, kept| {
        let folder = data.path().join(name);
        FileStore::open(&folder, kept)
            .with_context(|| format!("cannot keep sessions in {}", folder.display()))
    };
    // A session may be silent for so long before its connection breaks; zero is no limit.
    let limits = &config.global_limits.session;
    let age = match limits.idle {
        Duration::ZERO => Duration::MAX,
        idle => idle.saturating_add(limits.resume),
    };
    let snapshots = open("sessions", age)?;
    // Nothing is removed for its age by the clock of the machine, which may be wrong at the start.
    let idempotency = open("idempotency", Duration::MAX)?;
    Ok(SessionStores {
        snapshots: Arc::new(snapshots),
        idempotency: Arc::new(match config.store.sync {
            SyncMode::Commit => idempotency.synced(),
            SyncMode::Every(_) => idempotency,
        }),
    })
}

/// Opens the node's own identity.
fn open_identity(config: &Config, data: &DataDir) -> Result<(NodeIdentity, Stored)> {
    let who = NodeIdentity::new(&config.identity, data);
    let identity = who.open().context(NO_IDENTITY)?;
    Ok((who, identity))
}

/// What outlives the node: calls that wait for the operator, secrets of agents.
fn open_store(config: &Config, data: &DataDir) -> Result<(CheckedStore, store::Store)> {
    let file = data.store();
    let options = store::Options {
        sync: config.store.sync,
        max_bytes: config.store.max_bytes,
        limits: store::Limits::within(config.store.max_bytes),
        ..store::Options::new(&file)
    };
    let database = Sqlite::open(&options).map_err(|error| unusable(&file, error))?;
    if let Some(restored) = database.restored() {
        let store::Restored {
            requests,
            chains,
            approvals,
        } = restored;
        tracing::warn!(
            requests,
            chains,
            approvals,
            "{} is a backup: the requests and chains that it has open are interrupted, the calls \
             that wait for approval or were approved are withdrawn, and named work of peers is \
             refused for ten minutes",
            file.display()
        );
    }
    let store = store::Store::new(database.clone());
    Ok((CheckedStore::new(database)?, store))
}

/// The certificate, if there is one.
fn tls(config: &Config) -> Result<Option<Tls>> {
    let files = config.server.tls.as_ref();
    let tls = files.map(|files| Tls::from_files(&files.certificate, &files.key));
    Ok(tls.transpose()?)
}

/// What serves agents over HTTP, and MCP clients beside them.
fn http_server(host: &Host, config: &Config) -> HttpServer {
    let http = HttpServer::new(host.clone(), guard(config));
    #[cfg(feature = "mcp")]
    let http = http.route(Arc::new(a2e_caps::mcp::server::Endpoint::new(host)));
    http
}

fn guard(config: &Config) -> Guard {
    Guard {
        names: config.server.names.clone(),
        origins: config.server.origins.clone(),
    }
}

/// Says what the configuration would have somebody know.
fn say_what_is_noted(config: &Config) {
    for note in &config.notes {
        tracing::info!("{note}");
    }
    warn_of_plain_text(config);
}

/// Has old records and what nobody asks for any more go, until the node ends.
fn keep_tidy(config: &Config, shared: &Shared, host: &Host, until: &CancellationToken) {
    if let Some(log) = &shared.audit {
        tokio::spawn(keep_within(log.clone(), config.audit.retention));
    }
    tokio::spawn(sweep::run(
        shared.store.clone(),
        host.clone(),
        until.clone(),
    ));
}

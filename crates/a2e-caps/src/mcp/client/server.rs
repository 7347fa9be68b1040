//! One MCP server: its connection, how it comes back, and what it has.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use a2e_runtime::config::{McpPlace, McpServer};
use a2e_runtime::{Access, BoxFuture, Secret};
use a2e_wire::messages::mcp::McpServerStatus;
use rmcp::RoleClient;
use rmcp::model::ProtocolVersion;
use rmcp::service::{Peer, RunningService};
use serde_json::json;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Ground;
use super::calls::Calls;
use super::handler::Handler;
use super::login::Login;
use super::said::Said;
use super::streams::Direct;
use super::subscribe::Subscriptions;
use super::told::Told;
use crate::tool::ToolConfiguration;
use crate::truncate::truncate;

/// An MCP server. It is connected to when it is added, or when it is needed if it is known what it has.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) settings: McpServer,
    /// What it is: an approval of a call of its tools covers that.
    pub(super) configuration: ToolConfiguration,
    /// Who has registered it; none for those of the configuration.
    pub(super) owner: Option<Owner>,
    pub(super) ground: Arc<Ground>,
    pub(super) calls: Arc<Calls>,
    /// Places for notifications that are being passed on.
    pub(super) telling: Arc<Semaphore>,
    /// The resources that sessions are subscribed to.
    pub(super) subscriptions: Subscriptions,
    /// How the operator logs in to it, if that can be.
    pub(super) login: Option<Arc<Login>>,
    link: tokio::sync::Mutex<Link>,
    pub(super) told: Mutex<Told>,
    /// What it has said on its standard error, if it is a program.
    pub(super) said: Arc<Said>,
    /// Ends when it is removed, or the access of its agent is revoked.
    pub(super) over: CancellationToken,
}

/// An agent that has registered a server.
#[derive(Debug)]
pub(super) struct Owner {
    pub(super) agent: Arc<str>,
    pub(super) access: Access,
}

/// The connection, and when there may be another.
#[derive(Debug, Default)]
struct Link {
    connection: Option<Arc<Connection>>,
    failures: u32,
    not_before: Option<Instant>,
}

/// A connection to a server.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) running: RunningService<RoleClient, Handler>,
    pub(super) ended: CancellationToken,
    /// The way past rmcp, if it is one to a program,
    pub(super) direct: Option<Arc<Direct>>,
    /// and what requests say over it of themselves: members of `_meta`, each with its comma.
    pub(super) meta: String,
}

/// What to do about a connection that is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    /// Have another.
    ComeBack,
    /// End it, if it has not ended.
    Leave,
}

/// Why a server cannot be asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the MCP server `{server}` is not there: {why}")]
pub(super) struct Unavailable {
    server: String,
    why: String,
}

/// How long a server may take to start and to say what it is.
const START: Duration = Duration::from_secs(60);

/// Bytes of what a server is called, and of why it is not connected.
const MAX_TEXT: usize = 1024;

/// How many notifications of a server are passed on at once.
const MAX_TELLING: usize = 16;

/// A program that nobody has used for so long is ended; the next call starts it again.
pub(super) const IDLE: Duration = Duration::from_secs(30 * 60);

impl Server {
    pub(super) fn new(settings: McpServer, owner: Option<Owner>, ground: Arc<Ground>) -> Arc<Self> {
        // What agents register is asked for nothing that is the operator's.
        let login = match owner {
            Some(_) => None,
            None => Login::to(&settings, &ground),
        };
        let over = match &owner {
            Some(owner) => owner.access.revoked().child_token(),
            None => CancellationToken::new(),
        };
        Arc::new(Self {
            login,
            configuration: configuration(&settings),
            settings,
            owner,
            ground,
            calls: Arc::default(),
            telling: Arc::new(Semaphore::new(MAX_TELLING)),
            subscriptions: Subscriptions::default(),
            link: tokio::sync::Mutex::default(),
            told: Mutex::default(),
            said: Arc::default(),
            over,
        })
    }

    pub(super) fn name(&self) -> &str {
        &self.settings.name
    }

    /// Whether an agent may use it.
    pub(super) fn is_for(&self, agent: &str) -> bool {
        self.agent().is_none_or(|owner| owner == agent)
    }

    /// The agent that has registered it.
    pub(super) fn agent(&self) -> Option<&str> {
        self.owner.as_ref().map(|owner| &*owner.agent)
    }

    /// The connection, for somebody who uses it; a new one if there is none. One that has just failed
    /// is not tried at once again.
    pub(super) async fn connection(self: &Arc<Self>) -> Result<Arc<Connection>, Unavailable> {
        self.told().last_used = Some(Instant::now());
        self.connect().await
    }

    async fn connect(self: &Arc<Self>) -> Result<Arc<Connection>, Unavailable> {
        let mut link = self.link.lock().await;
        if let Some(connection) = link.connection.as_ref().filter(|it| !it.has_ended()) {
            return Ok(Arc::clone(connection));
        }
        if self.over.is_cancelled() {
            return Err(self.unavailable("it was removed"));
        }
        let now = Instant::now();
        if let Some(wait) = link
            .not_before
            .and_then(|at| at.checked_duration_since(now))
        {
            let last = self.told().error.clone();
            let why = format!("{last}; it is tried again in {} s", wait.as_secs().max(1));
            return Err(self.unavailable(&why));
        }
        {
            let mut told = self.told();
            told.status = Some(McpServerStatus::Connecting);
            told.starts = told.starts.saturating_add(1);
            told.retry = None;
            told.begun = self.said.end();
        }
        let patience = START.min(self.settings.timeout);
        let dialed = Box::pin(tokio::time::timeout(patience, self.dial()));
        let Some(dialed) = self.over.run_until_cancelled(dialed).await else {
            return Err(self.unavailable("it was removed"));
        };
        let connected = match dialed {
            Ok(connected) => connected,
            Err(_) => Err(format!("it did not answer within {} s", patience.as_secs())),
        };
        match connected {
            Ok(connection) => {
                let connection = Arc::new(connection);
                *link = Link {
                    connection: Some(Arc::clone(&connection)),
                    ..Link::default()
                };
                let took = now.elapsed();
                let wanted = self.subscriptions.begin_anew();
                self.listen_to_lists(&connection).await;
                // Whoever waits for the connection finds the tools there.
                self.welcome(&connection, took).await;
                let (server, again) = (Arc::clone(self), Arc::clone(&connection));
                tokio::spawn(server.listen_to_resources(again, wanted));
                tokio::spawn(Arc::clone(self).follow(Arc::clone(&connection)));
                Ok(connection)
            }
            Err(why) => {
                let why = self.advice().unwrap_or(why);
                link.failures = link.failures.saturating_add(1);
                link.not_before = Some(now + backoff(link.failures));
                self.said.note(&format!("it cannot be used: {why}"));
                // An agent's own program has nothing to say that the agent may not know.
                let why = match &self.owner {
                    Some(_) => self.with_last_lines(&why),
                    None => why,
                };
                let mut told = self.told();
                told.status = Some(McpServerStatus::Error);
                told.error = shown(&why);
                drop(told);
                Err(self.unavailable(&why))
            }
        }
    }

    /// What the operator can do about a server that wants a login.
    pub(super) fn advice(&self) -> Option<String> {
        self.login.as_ref().and_then(|login| login.advice())
    }

    /// Connects at once, whatever was before.
    ///
    /// # Errors
    /// Why it cannot be.
    pub(super) async fn try_now(self: &Arc<Self>) -> Result<(), String> {
        self.hang_up().await;
        let connected = self.connection().await;
        connected
            .map(drop)
            .map_err(|error| self.told_in_full(error.why()))
    }

    /// Ends the connection there is.
    pub(super) async fn hang_up(&self) {
        let old = std::mem::take(&mut *self.link.lock().await);
        if let Some(connection) = old.connection {
            connection.end();
        }
    }

    /// The connection there is.
    pub(super) async fn current(&self) -> Option<Arc<Connection>> {
        let link = self.link.lock().await;
        link.connection.clone().filter(|it| !it.has_ended())
    }

    /// Writes down what a server says of itself, and looks what it has.
    async fn welcome(self: &Arc<Self>, connection: &Connection, took: Duration) {
        let info = connection.peer().peer_info();
        {
            let mut told = self.told();
            told.status = Some(McpServerStatus::Ready);
            told.error.clear();
            told.round_trip = took;
            told.connected_at = super::now();
            if let Some(info) = &info {
                told.version = shown(&info.protocol_version.to_string());
                if let Some(server) = &info.server_info {
                    told.name = shown(&server.name);
                    told.server_version = shown(&server.version);
                }
            }
        }
        self.refresh_all(connection).await;
    }

    /// Waits for the end of a connection, and for the time to come back. Boxed, since the next
    /// connection is followed by this again.
    fn follow(self: Arc<Self>, connection: Arc<Connection>) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            if self.watch(&connection).await == Next::Leave {
                connection.end();
                return;
            }
            drop(connection);
            self.come_back().await;
        })
    }

    /// Waits until a connection is over, or of no more use.
    async fn watch(&self, connection: &Connection) -> Next {
        // What agents have registered is kept open for nobody, wherever it is.
        let is_program = matches!(self.settings.place, McpPlace::Command(_));
        let ends_idle = is_program || self.owner.is_some();
        loop {
            let idle = self.told().last_used.unwrap_or_else(Instant::now) + IDLE;
            let look = self.next_look();
            tokio::select! {
                () = connection.ended.cancelled() => {
                    let mut told = self.told();
                    told.status = Some(McpServerStatus::Disconnected);
                    told.losses = told.losses.saturating_add(1);
                    self.said.note(&"its connection has ended");
                    return Next::ComeBack;
                }
                () = self.over.cancelled() => return Next::Leave,
                () = tokio::time::sleep_until(look) => {
                    match self.over.run_until_cancelled(self.is_well(connection)).await {
                        Some(true) => continue,
                        Some(false) => {}
                        None => return Next::Leave,
                    }
                    connection.end();
                    return Next::ComeBack;
                }
                () = tokio::time::sleep_until(idle), if ends_idle => {}
            }
            let last_used = self.told().last_used.unwrap_or_else(Instant::now);
            let is_needed = !self.calls.are_none() || !self.subscriptions.is_empty();
            if !is_needed && last_used + IDLE <= Instant::now() {
                self.told().status = Some(McpServerStatus::Disconnected);
                return Next::Leave;
            }
            // A call is under way, or was, or somebody wants to be told something.
            self.told().last_used = Some(Instant::now());
        }
    }

    /// Tries again, and again later, until there is a connection.
    pub(super) async fn come_back(self: &Arc<Self>) {
        while self.settings.auto_reconnect && !self.over.is_cancelled() {
            let wait = {
                let mut link = self.link.lock().await;
                link.failures = link.failures.saturating_add(1);
                backoff(link.failures)
            };
            let at = Instant::now() + wait;
            self.told().retry = Some(at);
            let seconds = wait.as_secs_f64();
            self.said
                .note(&format!("it is started again in {seconds} s"));
            tokio::select! {
                () = tokio::time::sleep_until(at) => {}
                () = self.over.cancelled() => return,
            }
            if self.is_unused() {
                return;
            }
            match self.connect().await {
                Ok(_) => return,
                Err(error) => tracing::warn!("{}", self.told_in_full(&error.to_string())),
            }
        }
    }

    /// Whether it is an agent's, and has not been used for so long that it is not connected to again
    /// before it is.
    fn is_unused(&self) -> bool {
        let last_used = self.told().last_used;
        self.owner.is_some() && last_used.is_some_and(|at| at.elapsed() >= IDLE)
    }

    fn unavailable(&self, why: &str) -> Unavailable {
        Unavailable {
            server: self.name().to_owned(),
            why: why.to_owned(),
        }
    }
}

impl Connection {
    /// The same, with a way for calls of tools.
    pub(super) fn with(self, direct: Arc<Direct>) -> Self {
        let meta = match self.is_newer() {
            true => self.handler().meta(),
            false => String::new(),
        };
        Self {
            direct: Some(direct),
            meta,
            ..self
        }
    }

    pub(super) fn peer(&self) -> &Peer<RoleClient> {
        self.running.peer()
    }

    pub(super) fn handler(&self) -> &Handler {
        self.running.service()
    }

    /// Whether the server is of the era in which requests stand for themselves.
    pub(super) fn is_newer(&self) -> bool {
        let info = self.peer().peer_info();
        info.is_some_and(|info| info.protocol_version >= ProtocolVersion::V_2026_07_28)
    }

    fn has_ended(&self) -> bool {
        self.ended.is_cancelled() || self.running.is_closed()
    }

    fn end(&self) {
        self.running.cancellation_token().cancel();
    }
}

impl Unavailable {
    /// Why, without the server's name.
    pub(super) fn why(&self) -> &str {
        &self.why
    }
}

/// A text of a server as lists have it.
fn shown(text: &str) -> String {
    truncate(text.to_owned(), MAX_TEXT)
}

/// What a server is, as an approval covers it.
fn configuration(settings: &McpServer) -> ToolConfiguration {
    let revealed = |secrets: &[(String, Secret)]| -> Vec<(String, String)> {
        let pairs = secrets.iter();
        let pairs = pairs.map(|(name, secret)| (name.clone(), secret.reveal().to_owned()));
        pairs.collect()
    };
    let names = |secrets: &[(String, Secret)]| -> Vec<String> {
        secrets.iter().map(|(name, _)| name.clone()).collect()
    };
    let (all, mut shown) = match &settings.place {
        McpPlace::Command(command) => (
            json!([format!("{command:?}"), revealed(&command.env)]),
            json!({"command": command.words, "cwd": command.cwd, "env": names(&command.env)}),
        ),
        McpPlace::Http(at) | McpPlace::Sse(at) => {
            // What follows may be a key.
            let url = at.url.split(['?', '#']).next().unwrap_or_default();
            (
                json!([format!("{at:?}"), at.url, revealed(&at.headers)]),
                json!({"url": url, "headers": names(&at.headers)}),
            )
        }
    };
    shown["server"] = json!(settings.name);
    ToolConfiguration::new(&json!([settings.name, all]), shown)
}

/// How long to wait after so many failures: half a second, twice as long each time, a minute at most.
pub(super) fn backoff(failures: u32) -> Duration {
    let doubled = 2_u32.saturating_pow(failures.saturating_sub(1).min(16));
    Duration::from_millis(500)
        .saturating_mul(doubled)
        .min(Duration::from_secs(60))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_a_minute() {
        let waits = [1, 2, 3, 7, 8, u32::MAX].map(|failures| backoff(failures).as_millis());
        assert_eq!(waits, [500, 1000, 2000, 32_000, 60_000, 60_000]);
    }
}

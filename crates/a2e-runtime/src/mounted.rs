//! Another A2E host as plugins of this one: a program that is started, or a host somewhere.

mod configurations;
mod environments;
mod events;
mod failed;
mod late;
mod listed;
mod own_ids;

use std::collections::HashMap;
use std::sync::{Arc, Mutex as SyncMutex, OnceLock, PoisonError, Weak};
use std::task::Poll;
use std::time::{Duration, Instant};

use a2e_session::{ConnectError, Failure};
use a2e_wire::{Body, Capability, Enumeration, Message, MessageKind, Namespace, Sender, Tag};
use base::LogLimit;
use canonical::Digest;
use serde_json::json;
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore, mpsc};

use crate::AgentConfig;
use crate::client::{Address, CallOptions, Client, ClientError, Connector, Handler, Reply};
use crate::config::OwnTypes;
use crate::decision::changed;
use crate::definitions::Definitions;
use crate::plugin::{BoxFuture, Context, Outcome, Plugin, Serves};
use crate::resolution::Resolution;
use crate::secret::Secret;
use crate::session::Session;
use crate::slots::ByteCharge;

use configurations::{ConfigurationCounter, ConfigurationState, Gate, LastConfiguration};
use environments::Environments;
use late::LateEvents;
use listed::{Call, Listed};

pub use configurations::ConfigurationCounters;

/// Where another host is and what is wanted of it.
#[derive(Debug, Clone)]
pub struct Mount {
    /// The name of its plugins.
    pub name: String,
    /// The priority of its plugins.
    pub priority: i64,
    /// Whether they alone serve what they serve.
    pub exclusive: bool,
    /// Where it is.
    pub address: Address,
    /// The credential it asks for.
    pub token: Option<Secret>,
    /// The capabilities wanted of it; none means all it has.
    pub capabilities: Vec<String>,
    /// Types beside the catalogue that it serves, and the capability that they belong to.
    pub serves: Option<OwnTypes>,
    /// If it is a program, how many of it may run at once: each session that uses it has its own.
    pub max_children: usize,
    /// What its tools said when they were approved.
    pub definitions: Definitions,
    /// How often something was configured at it, and at others.
    pub configurations: ConfigurationCounters,
}

/// One capability of another host. Each session of ours has a session of its own there, so that
/// agents see as little of one another as if they had come themselves.
#[derive(Debug)]
pub struct Mounted {
    mount: Arc<Mount>,
    part: Part,
    /// Room for more children, where there are any.
    children: Option<Arc<Semaphore>>,
    configured: Arc<ConfigurationCounter>,
}

/// What of another host a plugin is.
#[derive(Debug)]
enum Part {
    /// A capability.
    Capability(Capability<'static>),
    /// The list of its environments, as it was when it was mounted.
    Environments(Environments),
    /// Types beside the catalogue.
    OwnTypes(OwnTypes),
}

/// The sessions that one session of ours has with other hosts, by the names of the mounts. Each has a
/// lock of its own: a host that does not answer delays no request to another.
#[derive(Debug, Default)]
struct HostConnections(SyncMutex<HashMap<String, HostConnectionSlot>>);

/// The session with one host, once there is one.
type HostConnectionSlot = Arc<Mutex<Option<Arc<Connection>>>>;

#[derive(Debug)]
struct Connection {
    client: Client,
    listed: Listed,
    late: Arc<LateEvents>,
    last_configuration: LastConfiguration,
    _child: Option<OwnedSemaphorePermit>,
}

/// Pushes that our agent does not get.
static DROPPED: LogLimit = LogLimit::new(10, Duration::from_secs(10));

/// Pushes that wait for our agent to read.
const WAITING: usize = 1024;

/// Our own session ends a request that takes too long, so this is for those that it does not.
const PATIENCE: Duration = Duration::from_secs(86400);

/// For requests whose responses are ours alone: a host that goes by the documents gives none.
const MAY_BE_SILENT: Duration = Duration::from_secs(5);

impl Mount {
    /// Asks the host what it has; each capability becomes a plugin. A program that ends at its start, or
    /// does not answer, is asked again by each session that uses one of the `capabilities` wanted of it.
    ///
    /// # Errors
    /// If it cannot be reached, or refuses.
    pub async fn plugins(self) -> Result<Vec<Mounted>, ClientError> {
        let mount = Arc::new(self);
        let (capabilities, environments) = match mount.look().await {
            Ok(found) => found,
            Err(error) if mount.may_answer_later(&error) => {
                let (plugin, address) = (&mount.name, mount.address.to_string());
                tracing::error!(
                    plugin,
                    address,
                    "the remote plugin did not start: {error}; it is started again when a session uses \
                     one of its `capabilities`, as far as the configuration names them"
                );
                let named = mount.capabilities.iter();
                let named = named.filter_map(|name| Capability::from_name(name));
                (named.collect(), None)
            }
            Err(error) => return Err(error),
        };
        let most = mount.max_children.min(Semaphore::MAX_PERMITS);
        let children = mount.address.is_command().then(|| Semaphore::new(most));
        let children = children.map(Arc::new);
        let configured = mount.configurations.of(&mount.address);
        let parts = capabilities.into_iter().map(Part::Capability);
        let own_types = mount.serves.clone().map(Part::OwnTypes);
        let parts = parts.chain(environments.map(Part::Environments));
        let parts = parts.chain(own_types);
        let mounted = parts.map(|part| Mounted {
            mount: Arc::clone(&mount),
            part,
            children: children.clone(),
            configured: Arc::clone(&configured),
        });
        Ok(mounted.collect())
    }

    /// Its capabilities, and its environments.
    async fn look(&self) -> Result<(Vec<Capability<'static>>, Option<Environments>), ClientError> {
        let client = self.connector().connect().await?;
        let capabilities = enabled(&client);
        let seen = self.see_tools(&client).await;
        let environments = match capabilities.contains(&Capability::Env) {
            true => Environments::of(&client).await,
            false => None,
        };
        client.disconnect(Duration::from_secs(2)).await;
        seen.map(|()| (capabilities, environments))
    }

    /// Looks at its tools, if nobody has yet: the operator has just said that it is to be used, and later
    /// it may say something else.
    async fn see_tools(&self, client: &Client) -> Result<(), ClientError> {
        match enabled(client).contains(&Capability::Tools) {
            true => listed::see(&self.definitions, &self.source(), client).await,
            false => Ok(()),
        }
    }

    /// Whether it is a program that was started, and may do better the next time.
    fn may_answer_later(&self, error: &ClientError) -> bool {
        let is_silent = matches!(
            error,
            ClientError::Closed | ClientError::Io(_) | ClientError::Connect(ConnectError::Timeout)
        );
        self.address.is_command() && is_silent
    }

    /// What its tools are approved under.
    fn source(&self) -> String {
        format!("remote_plugin:{}", self.name)
    }

    fn connector(&self) -> Connector {
        let Enumeration { values, .. } = Capability::ENUMERATION;
        let wanted = match self.capabilities.is_empty() {
            true => values.iter().map(|name| (*name).to_owned()).collect(),
            false => self.capabilities.clone(),
        };
        Connector::new(self.address.clone()).agent(AgentConfig {
            agent_id: "frith".into(),
            auth_token: self.token.as_ref().map_or("", Secret::reveal).to_owned(),
            wanted,
            ..AgentConfig::default()
        })
    }

    /// A session of its own for a session of ours: what comes over it unasked is passed on.
    async fn connect(
        &self,
        session: &Arc<Session>,
        late: &Arc<LateEvents>,
    ) -> Result<Client, ClientError> {
        let (pushes, pushed) = mpsc::channel(WAITING);
        let (name, bytes) = (self.name.clone(), session.at().bytes.clone());
        let pass_on = Handler::new(move |message: Message<'static>| {
            let charge = bytes.charge(Client::encode(&message).len());
            let is_queued = charge.is_some_and(|charge| pushes.try_send((message, charge)).is_ok());
            if !is_queued && let Some(more) = DROPPED.admit(Instant::now()) {
                tracing::warn!(
                    mount = name,
                    "dropped a push: the agent reads too slowly{more}"
                );
            }
        });
        let weak = Arc::downgrade(session);
        let mut connector = self.connector().on_any(pass_on);
        let asked = Tag::ALL
            .iter()
            .filter(|tag| tag.kind() == MessageKind::Request && !tag.may_be_sent_by(Sender::Agent));
        for tag in asked {
            let weak = weak.clone();
            connector = connector.on_request(tag.as_str(), move |message, reply: Reply| {
                // Dropped without an answer, it says that there is none.
                let Some(session) = weak.upgrade() else {
                    return;
                };
                tokio::spawn(async move {
                    let answer = session.ask_if_negotiated(message.body, PATIENCE).await;
                    if let Ok(answer) = answer {
                        reply.send(answer.body);
                    }
                });
            });
        }
        tokio::spawn(pass_on_pushes(pushed, weak, Arc::clone(late)));
        connector.connect().await
    }
}

/// Passes on what comes unasked, until the connection or the session ends.
async fn pass_on_pushes(
    mut pushed: mpsc::Receiver<(Message<'static>, ByteCharge)>,
    weak: Weak<Session>,
    late: Arc<LateEvents>,
) {
    let Some(ended) = weak.upgrade().map(|session| session.ended().clone()) else {
        return;
    };
    let pass_on = async {
        while let Some((message, _charge)) = pushed.recv().await {
            if let Some(request) = late.request(&message.envelope.req_id) {
                // After its response, and after what came before that.
                request.over().cancelled().await;
                // If the host passed, another has answered it.
                if late.request(&message.envelope.req_id).is_some() {
                    // A request that was withdrawn has no events.
                    let _ = request.event(message.body).await;
                }
                continue;
            }
            let Some(session) = weak.upgrade() else { break };
            if session.push(message.body).await.is_err() {
                break;
            }
        }
    };
    tokio::select! {
        () = ended.cancelled() => {}
        () = pass_on => {}
    }
    late.end().await;
}

/// The capabilities that a host has.
fn enabled(client: &Client) -> Vec<Capability<'static>> {
    let accepted = client.capabilities().into_iter();
    let enabled = accepted.filter(|accepted| accepted.enabled);
    enabled.map(|accepted| accepted.capability).collect()
}

impl HostConnections {
    fn slot(&self, name: &str) -> HostConnectionSlot {
        let mut slots = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(slots.entry(name.to_owned()).or_default())
    }
}

impl Mounted {
    /// The session that a session of ours has there.
    async fn connection(&self, session: &Arc<Session>) -> Result<Arc<Connection>, ClientError> {
        let name = &self.mount.name;
        let slot = session.state::<HostConnections>().slot(name);
        let mut open = slot.lock().await;
        if let Some(known) = open.as_ref().filter(|known| !known.client.is_closed()) {
            return Ok(Arc::clone(known));
        }
        // A child that has ended makes room for the next.
        *open = None;
        let child = self.children.as_ref().map(|children| {
            let child = Arc::clone(children).try_acquire_owned();
            child.map_err(|_| failed::too_many_children(name))
        });
        let child = child.transpose()?;
        let late = Arc::default();
        let client = self.mount.connect(session, &late).await?;
        self.mount.see_tools(&client).await?;
        let connection = Arc::new(Connection {
            client,
            listed: Listed::default(),
            late,
            last_configuration: LastConfiguration::default(),
            _child: child,
        });
        *open = Some(Arc::clone(&connection));
        Ok(connection)
    }

    /// Serves a request, as far as what the host says of its tools is what was approved.
    async fn serve(
        &self,
        request: Box<Message<'static>>,
        context: Context,
    ) -> Result<Outcome, Failure> {
        let (tag, definitions) = (request.body.tag(), &self.mount.definitions);
        let namespace = tag.map_or(Namespace::Base, Tag::namespace);
        let failed = |error| failed::failure(&self.mount.name, namespace, error);
        let connection = self.connection(context.session()).await.map_err(failed)?;
        let listed = &connection.listed;
        let source = self.mount.source();
        let gate = match context.resolved::<ConfigurationState>() {
            Some(approved) => Gate::Approved(*approved),
            None if configures(tag) => Gate::Configures,
            None => Gate::Open,
        };
        if let Body::ToolCallRequest(call) = &request.body {
            let judged = listed.judge(definitions, &source, &connection.client, &call.tool_name);
            match judged.await.map_err(failed)? {
                Call::Forward(_) => {}
                Call::Unknown => return Ok(Outcome::Pass),
                Call::Refuse(failure) => return Err(failure),
            }
        }
        let outcome = self.forward(&connection, request, context, gate).await;
        if matches!(gate, Gate::Configures) {
            // What was resolved while the host was at it is resolved again.
            self.configured
                .send(gate, &connection.last_configuration, || ());
            listed.forget().await;
        }
        let mut outcome = match outcome {
            Ok(None) => return Err(changed(namespace)),
            Ok(Some(outcome)) => Ok(outcome),
            Err(error) => Err(error),
        };
        if let Ok(Outcome::Answer(body)) = &mut outcome
            && let Body::ToolListResponse(list) = &mut **body
        {
            let filtered = listed.filter(definitions, &source, list).await;
            filtered.map_err(|error| listed::failed(&error))?;
        }
        let name = &self.mount.name;
        outcome.map_err(|error| failed::after_sending(name, namespace, error))
    }

    /// What a call of a tool stands for: its definition, the host's address, the credential, and how the
    /// host is configured at the moment.
    async fn resolve_call(
        &self,
        name: &str,
        session: &Arc<Session>,
    ) -> Result<Option<Resolution>, Failure> {
        let failed = |error| failed::failure(&self.mount.name, Namespace::Tool, error);
        let connection = self.connection(session).await.map_err(failed)?;
        let (definitions, source) = (&self.mount.definitions, self.mount.source());
        let judged = connection
            .listed
            .judge(definitions, &source, &connection.client, name)
            .await;
        let says = match judged.map_err(failed)? {
            Call::Forward(says) => says,
            Call::Unknown => return Ok(None),
            Call::Refuse(failure) => return Err(failure),
        };
        let state = self.configured.state(&connection.last_configuration);
        let address = self.mount.address.to_string();
        let all = json!([
            source,
            address,
            self.mount.token.as_ref().map(Secret::reveal),
            says.to_string(),
            self.mount.configurations.process(),
            state.numbers(),
        ]);
        let shown = json!({"source": source, "address": address, "definition": says.to_string()});
        let resolution =
            Resolution::default().target(Digest::of(all.to_string().as_bytes()), shown);
        Ok(Some(resolution.object(Arc::new(state))))
    }

    /// Nothing if the host was configured since the request was approved.
    async fn forward(
        &self,
        connection: &Connection,
        request: Box<Message<'static>>,
        context: Context,
        gate: Gate,
    ) -> Result<Option<Outcome>, ClientError> {
        let client = &connection.client;
        let (event_callback, mut events) = events::of(client, context.session());
        let tag = request.body.tag();
        let options = CallOptions {
            timeout: match tag {
                Some(Tag::SubagentCancelRequest | Tag::SubagentTerminateRequest) => MAY_BE_SILENT,
                _ => PATIENCE,
            },
            event_callback,
        };
        let own_type = tag.is_none().then(|| request.type_name().to_owned());
        let (late, remembered) = (&connection.late, OnceLock::new());
        let call = client.rpc_noted(request.body, options, |id| {
            // A process has its stream by itself.
            if tag != Some(Tag::ProcSpawnRequest) {
                late.remember(remembered.get_or_init(|| id), &context);
            }
        });
        tokio::pin!(call);
        // Polled once, it is on its way.
        let sent = std::future::poll_fn(|cx| {
            let poll = || call.as_mut().poll(cx);
            let last = &connection.last_configuration;
            Poll::Ready(self.configured.send(gate, last, poll))
        });
        let answered = match sent.await {
            None => return Ok(None),
            Some(Poll::Ready(outcome)) => Some(outcome),
            Some(Poll::Pending) => None,
        };
        let outcome = match answered {
            Some(outcome) => outcome,
            None => loop {
                tokio::select! {
                    // A program may never stop to put something out.
                    biased;
                    outcome = &mut call => break outcome,
                    Some(event) = events.next() => {
                        // The request was cancelled: this task is about to be dropped.
                        let _ = context.event(event).await;
                    }
                }
            },
        };
        if let Ok(message) = &outcome
            && let Body::ProcSpawnResponse(spawned) = &message.body
            && spawned.ok
            && context.keep_stream().await.is_ok()
        {
            events.follow(spawned.proc_id.clone(), context.clone());
        } else {
            while let Some(event) = events.take() {
                let _ = context.event(event).await;
            }
        }
        let outcome = match outcome {
            Ok(response) => accept(own_type.as_deref(), response, &context),
            // Another plugin may have it.
            Err(ClientError::Host(error)) if failed::is_unknown(tag, &error) => Ok(Outcome::Pass),
            Err(error) => Err(error),
        };
        if let Some(id) = remembered.get() {
            if matches!(outcome, Ok(Outcome::Pass)) {
                late.forget(id);
            } else if late.request(id).is_some() {
                // Whoever has left hears nothing more.
                let _ = context.keep_stream().await;
            }
        }
        outcome.map(Some)
    }
}

/// The response as our agent gets it; `own_type` is the type of the request if the catalogue has none.
fn accept(
    own_type: Option<&str>,
    mut response: Message<'static>,
    context: &Context,
) -> Result<Outcome, ClientError> {
    if own_type.is_some_and(|asked| !answers(asked, &response)) {
        return Err(ClientError::Unexpected(response.type_name().to_owned()));
    }
    own_ids::replace(&mut response.body, context.id());
    Ok(Outcome::answer(response.body))
}

/// Whether a response can be that to a request of a type beside the catalogue: `<ns>/<verb>/resp` to
/// `<ns>/<verb>/req`, and any such type to a request that is not spelled so.
fn answers(asked: &str, response: &Message<'_>) -> bool {
    let answered = response.type_name();
    response.body.tag().is_none()
        && asked.strip_suffix("/req").is_none_or(|stem| {
            answered
                .strip_prefix(stem)
                .is_some_and(|end| end == "/resp")
        })
}

/// Whether a request makes other tools of the same names.
fn configures(tag: Option<Tag>) -> bool {
    matches!(
        tag,
        Some(
            Tag::ToolkitConfigureRequest
                | Tag::McpServerRegisterRequest
                | Tag::McpServerUnregisterRequest
        )
    )
}

impl Plugin for Mounted {
    fn name(&self) -> &str {
        &self.mount.name
    }

    fn capability(&self) -> Option<Capability<'static>> {
        match &self.part {
            Part::Capability(capability) => Some(capability.clone()),
            Part::Environments(_) => None,
            Part::OwnTypes(own) => Some(own.capability.clone()),
        }
    }

    fn priority(&self) -> i64 {
        self.mount.priority
    }

    fn exclusive(&self) -> bool {
        self.mount.exclusive
    }

    fn serves(&self) -> Serves {
        let capability = match &self.part {
            Part::Capability(capability) => capability,
            Part::Environments(_) => return Serves::Tags(vec![Tag::EnvListRequest]),
            Part::OwnTypes(own) => return Serves::Types(own.types.clone()),
        };
        let served = Tag::ALL.iter().filter(|tag| {
            tag.kind() == MessageKind::Request
                && tag.may_be_sent_by(Sender::Agent)
                && **tag != Tag::EnvListRequest
                && tag.namespace().capability().as_ref() == Some(capability)
        });
        Serves::Tags(served.copied().collect())
    }

    fn resolve<'a>(
        &'a self,
        request: &'a Message<'static>,
        session: &'a Arc<Session>,
    ) -> BoxFuture<'a, Result<Option<Resolution>, Failure>> {
        match (&self.part, &request.body) {
            (Part::Capability(_), Body::ToolCallRequest(call)) => {
                Box::pin(self.resolve_call(&call.tool_name, session))
            }
            _ => Box::pin(std::future::ready(Ok(None))),
        }
    }

    fn handle(
        &self,
        request: Box<Message<'static>>,
        context: Context,
    ) -> BoxFuture<'_, Result<Outcome, Failure>> {
        match &self.part {
            Part::Capability(_) | Part::OwnTypes(_) => Box::pin(self.serve(request, context)),
            Part::Environments(list) => Box::pin(std::future::ready(Ok(list.answer()))),
        }
    }
}

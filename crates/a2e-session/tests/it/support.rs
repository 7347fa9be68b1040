//! A host session with a scripted agent, on virtual time.

use std::time::Duration;

use a2e_session::{HostEvent, HostSession, Limits, Now, Offer, OfferedCapability, Request, Token};
use a2e_wire::messages::base::HandshakeReason;
use a2e_wire::{Body, Capability, Timestamp};
use serde_json::{Value, json};

/// The only token the scripted host takes.
pub(crate) const TOKEN: &str = "secret";

pub(crate) struct Host {
    pub(crate) session: HostSession,
    pub(crate) time: Duration,
    /// What the host was told to do, logins aside.
    pub(crate) events: Vec<HostEvent>,
}

pub(crate) fn counter() -> Box<dyn a2e_session::Random> {
    let mut count = 0_u128;
    Box::new(move || {
        count += 1;
        count
    })
}

pub(crate) fn offer() -> Offer {
    let offered = |capability: Capability<'static>| OfferedCapability {
        name: format!("my{capability}"),
        capability,
        priority: 0,
        exclusive: false,
    };
    Offer {
        capabilities: [Capability::Tools, Capability::Memory, Capability::Proc]
            .map(offered)
            .into(),
        authentication: true,
        ..Offer::default()
    }
}

impl Host {
    pub(crate) fn new(limits: Limits) -> Self {
        Self::with_offer(limits, offer())
    }

    pub(crate) fn with_offer(limits: Limits, offer: Offer) -> Self {
        let time = Duration::from_secs(100);
        Self {
            session: HostSession::new(now(time), limits, offer, counter()),
            time,
            events: Vec::new(),
        }
    }

    /// A host whose agent has shaken hands for tools and processes.
    pub(crate) fn active(limits: Limits) -> Self {
        let mut host = Self::new(limits);
        let answers = host.say(&handshake(&["tools", "proc"]));
        assert_eq!(answers[0]["ok"], true, "{answers:?}");
        host
    }

    pub(crate) fn now(&self) -> Now {
        now(self.time)
    }

    /// Sends a message; returns what the host writes at once.
    pub(crate) fn say(&mut self, message: &Value) -> Vec<Value> {
        self.say_line(&message.to_string())
    }

    pub(crate) fn say_line(&mut self, line: &str) -> Vec<Value> {
        let now = self.now();
        self.session.handle_line(now, Ok(line.as_bytes()));
        self.drain()
    }

    /// Lets time pass; returns what the host writes.
    pub(crate) fn wait(&mut self, seconds: u64) -> Vec<Value> {
        self.time += Duration::from_secs(seconds);
        let now = self.now();
        self.session.handle_timeout(now);
        self.drain()
    }

    /// Answers logins as a host would, and collects what is written.
    pub(crate) fn drain(&mut self) -> Vec<Value> {
        let now = self.now();
        while let Some(event) = self.session.poll_event() {
            match event {
                HostEvent::Login(login) if login.auth_token == TOKEN => {
                    self.session.login_accepted(now)
                }
                HostEvent::Login(_) => self.session.login_refused(now, HandshakeReason::AuthFailed),
                HostEvent::Opened(_) | HostEvent::HandshakeRefused(_) | HostEvent::Refused(_) => {}
                HostEvent::Start(_)
                | HostEvent::Cancel(..)
                | HostEvent::Reply(_)
                | HostEvent::Closed(_) => {
                    self.events.push(event);
                }
            }
        }
        let mut written = Vec::new();
        while let Some(transmit) = self.session.poll_transmit(now) {
            written.push(serde_json::from_slice(transmit.line).unwrap());
        }
        while let Some(event) = self.session.poll_event() {
            self.events.push(event);
        }
        written
    }

    /// The requests started since the last call.
    pub(crate) fn started(&mut self) -> Vec<Request> {
        let mut started = Vec::new();
        self.events.retain(|event| {
            let HostEvent::Start(request) = event else {
                return true;
            };
            started.push(request.clone());
            false
        });
        started
    }

    pub(crate) fn respond(&mut self, token: Token, body: impl Into<Body<'static>>) -> Vec<Value> {
        let now = self.now();
        self.session.respond(now, token, Ok(body.into())).unwrap();
        self.drain()
    }
}

pub(crate) fn now(time: Duration) -> Now {
    Now {
        monotonic: time,
        unix: Timestamp::from_unix_seconds(1_700_000_000.0 + time.as_secs_f64()).unwrap(),
    }
}

pub(crate) fn handshake(capabilities: &[&str]) -> Value {
    json!({"type": "handshake/req", "id": "h", "agent_id": "me", "agent_caps": capabilities, "auth_token": TOKEN})
}

pub(crate) fn call(id: &str) -> Value {
    json!({"type": "tool/call/req", "id": id, "tool_name": "echo", "arguments": {}})
}

/// The codes of error messages, or the types of others.
pub(crate) fn kinds(messages: &[Value]) -> Vec<String> {
    messages
        .iter()
        .map(|message| match message["type"].as_str() {
            Some("error") => message["code"].as_str().unwrap().into(),
            Some(name) => name.into(),
            None => panic!("{message}"),
        })
        .collect()
}

pub(crate) fn list() -> a2e_wire::messages::tool::ToolListResponse<'static> {
    a2e_wire::messages::tool::ToolListResponse::new()
}

//! Other agents, as capabilities reach them: what is asked, and what comes back. How they are found
//! and who proves what is nobody's business here.

use std::time::Duration;

use a2e_session::Failure;
use a2e_wire::messages::base::Event;
use a2e_wire::{Object, Raw};
use policy::TrustLevel;
use tokio::sync::mpsc;

use crate::plugin::BoxFuture;

/// Asks other agents.
pub trait Peers: Send + Sync + 'static {
    /// Asks an agent for something, and waits for its verified answer. Dropped, it is cancelled at
    /// the agent too.
    fn ask(&self, asked: PeerRequest) -> BoxFuture<'_, Result<PeerAnswer, Failure>>;
}

/// What is asked of another agent.
#[derive(Debug, Clone)]
pub struct PeerRequest {
    /// Whom: a DID. Whoever cannot prove to be it is not asked.
    pub did: String,
    /// For what: the canonical name of an intent.
    pub intent: String,
    /// The part of this name that is sent as its domain; by default all labels before the last.
    pub domain: Option<String>,
    /// With what.
    pub inputs: Object<'static>,
    /// How long it may take, everything included.
    pub timeout: Duration,
    /// Whether messages must be encrypted inside of TLS.
    pub encrypt: bool,
    /// The request for which it is asked: it stands in the record of this one.
    pub request_id: String,
    /// Where the agent's events go; without it none are asked for. Nobody has signed them until the
    /// answer is there.
    pub events: Option<mpsc::Sender<Event<'static>>>,
}

/// What another agent answered.
#[derive(Debug, Clone, PartialEq)]
pub struct PeerAnswer {
    /// The result.
    pub result: Raw<'static>,
    /// Whether it is the result of a tool that failed there.
    pub is_failure: bool,
    /// How much the agent is trusted.
    pub trust: TrustLevel,
    /// How often it was tried.
    pub attempts: u32,
}

//! How capabilities reach what is learned without knowing who learns it.

use std::fmt;

use a2e_session::Failure;
use a2e_wire::messages::learn::{Experience, Feedback};

use crate::plugin::BoxFuture;

/// Learns from what the host itself has seen. Agents have no way here, so that feedback of an
/// environment can be believed: on the wire `source: env` is refused.
pub trait Learner: fmt::Debug + Send + Sync + 'static {
    /// Keeps what happened in an environment of the host, for the agent that acted there. Steps that
    /// cannot be kept as they are, too long ones say, are left out.
    fn experienced<'a>(
        &'a self,
        agent: &'a str,
        experiences: Vec<Experience<'static>>,
    ) -> BoxFuture<'a, Result<(), Failure>>;

    /// Keeps what an environment of the host says of an agent's work; it counts as said by the
    /// environment, whatever its `source`.
    fn rated<'a>(
        &'a self,
        agent: &'a str,
        feedbacks: Vec<Feedback<'static>>,
    ) -> BoxFuture<'a, Result<(), Failure>>;
}

/// How well components have done for an agent, for whoever must choose between them.
pub trait Weights: fmt::Debug + Send + Sync + 'static {
    /// The weight of a component: from 0 to 1, and [`NEUTRAL`] if nothing is known of it.
    fn weight(&self, agent: &str, component: &str) -> f64;
}

/// The weight of a component of which nothing is known.
pub const NEUTRAL: f64 = 0.5;

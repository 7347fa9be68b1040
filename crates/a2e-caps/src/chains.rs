//! The capability `chains`: requests that follow from one another, described before the first is made.
//!
//! A chain is checked as a whole before anything of it runs. Then it is walked along `next_node`, or,
//! if any node has `deps`, run as a graph. Each node is a request of its own: decided about with the
//! arguments it really has, put on record, and cancelled with the chain.

mod call;
mod expression;
mod machine;
mod plan;
mod run;
mod scope;

use std::sync::Arc;

use a2e_runtime::{BoxFuture, Context, Failure, Outcome, Plugin, Serves};
use a2e_wire::messages::chain::ChainRequest;
use a2e_wire::{Body, Capability, Message, Tag};

use crate::placement::{Placement, placed};

use run::Run;

pub use plan::Limits;

/// How chains run.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where the plugin stands among others.
    pub placement: Placement,
    /// How large chains may be.
    pub limits: Limits,
    /// Nodes of one chain that run at a time, items of maps included.
    pub max_parallel: usize,
}

/// The plugin.
#[derive(Debug)]
pub struct Chains {
    settings: Arc<Settings>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            placement: Placement::named("chains"),
            limits: Limits::default(),
            max_parallel: 8,
        }
    }
}

impl Chains {
    /// A plugin for such chains.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        let settings = Arc::new(settings);
        Self { settings }
    }

    async fn run(&self, request: ChainRequest<'static>, context: Context) -> Outcome {
        let run = Run::new(request, context, Arc::clone(&self.settings));
        Outcome::answer(run.finish().await)
    }
}

impl Plugin for Chains {
    placed!(settings.placement);

    fn capability(&self) -> Option<Capability<'static>> {
        Some(Capability::Chains)
    }

    fn serves(&self) -> Serves {
        Serves::Tags(vec![Tag::ChainRequest])
    }

    fn asks_for_nodes(&self) -> bool {
        true
    }

    fn handle(
        &self,
        request: Message<'static>,
        context: Context,
    ) -> BoxFuture<'_, Result<Outcome, Failure>> {
        Box::pin(async move {
            #[expect(clippy::wildcard_enum_match_arm, reason = "nothing else is served")]
            Ok(match request.body {
                Body::ChainRequest(request) => self.run(request, context).await,
                _ => Outcome::Pass,
            })
        })
    }
}

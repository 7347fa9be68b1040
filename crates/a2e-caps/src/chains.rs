//! The capability `chains`: requests that follow from one another, described before the first is made.
//!
//! A chain is checked as a whole before anything of it runs. Then it is walked along `next_node`, or,
//! if any node has `deps`, run as a graph. Each node is a request of its own: decided about with the
//! arguments it really has, put on record, and cancelled with the chain.
//!
//! A chain that is kept outlives its process: what each node gave is written before anything follows
//! from it, and the next process goes on from there.
//!
//! Reading order: `plan` (what a chain is, once checked), `machine` (what is due), `run` (which does
//! it), `journal` and `keeper` (what is left of it after the end of a process).

mod answer;
mod call;
mod expression;
mod journal;
mod keeper;
mod machine;
mod offered;
mod plan;
mod run;
mod runs;
mod scope;
mod shown;
mod sketch;

use std::sync::Arc;

use a2e_runtime::{BoxFuture, Context, Failure, Outcome, Plugin, Serves};
use a2e_wire::messages::chain::ChainRequest;
use a2e_wire::{Body, Capability, Message, Tag};

use crate::placement::{Placement, placed};

use run::Run;

pub use keeper::Keeper;
pub use offered::{OfferedError, tool};
pub use plan::Limits;
pub use runs::Runs;
pub use shown::MAX_SHOWN;
pub use sketch::{Arrow, Drawn, Sketch};

/// How chains run.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where the plugin stands among others.
    pub placement: Placement,
    /// How large chains may be.
    pub limits: Limits,
    /// Nodes of one chain that run at a time, items of maps included.
    pub max_parallel: usize,
    /// Where they are kept, so that they outlive this process; without it they end with it.
    pub keeper: Option<Arc<Keeper>>,
}

/// The plugin.
#[derive(Debug)]
pub struct Chains {
    settings: Arc<Settings>,
}

/// Compiles a text of a node as an expression and as a condition; for the fuzz target.
pub(crate) fn compile_for_fuzzing(text: &str) {
    let _ = expression::Expression::evaluated(text);
    let _ = expression::Condition::parse(text);
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            placement: Placement::named("chains"),
            limits: Limits::default(),
            max_parallel: 8,
            keeper: None,
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

    /// The plugin for chains that are kept, which goes with this one if any are.
    #[must_use]
    pub fn runs(&self) -> Option<Runs> {
        let keeper = self.settings.keeper.clone()?;
        Some(Runs::new(Arc::clone(&self.settings), keeper))
    }

    async fn run(
        &self,
        request: ChainRequest<'static>,
        context: Context,
    ) -> Result<Outcome, Failure> {
        if let Some(runs) = self.runs()
            && let Some(response) = runs.asked_again(&request, &context).await?
        {
            return Ok(Outcome::answer(response));
        }
        let run = Run::new(request, context, Arc::clone(&self.settings));
        Ok(Outcome::answer(run.finish().await))
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

    /// A chain that is kept is found again by its request.
    fn recognises_retries(&self, _request: &Message<'_>) -> bool {
        self.settings.keeper.is_some()
    }

    fn handle(
        &self,
        request: Box<Message<'static>>,
        context: Context,
    ) -> BoxFuture<'_, Result<Outcome, Failure>> {
        Box::pin(async move {
            #[expect(clippy::wildcard_enum_match_arm, reason = "nothing else is served")]
            match request.body {
                Body::ChainRequest(request) => self.run(request, context).await,
                _ => Ok(Outcome::Pass),
            }
        })
    }
}

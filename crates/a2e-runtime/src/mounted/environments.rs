//! Which environments a remote plugin has: asked once, when it is connected, and listed for all agents.
//!
//! `env/list/req` is ours alone, so a host may well not know it; its environments can be used all the
//! same, by agents that know their names.

use std::time::Duration;

use a2e_wire::messages::env::{EnvListRequest, EnvListResponse};

use crate::client::Client;
use crate::plugin::Outcome;

/// How long a host may take to list them.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The environments of a host, each as it describes it.
#[derive(Debug)]
pub(super) struct Environments(EnvListResponse<'static>);

impl Environments {
    /// Those of a host, if it lists them.
    pub(super) async fn of(client: &Client) -> Option<Self> {
        let request = client.request(EnvListRequest {}).timeout(TIMEOUT);
        request.await.ok().map(Self)
    }

    /// The response to an agent that asks for them.
    pub(super) fn answer(&self) -> Outcome {
        Outcome::answer(self.0.clone())
    }
}

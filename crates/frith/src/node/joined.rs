//! Both protocols joined: what the node can do as intents of its A2A port, and its peers as tools.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use a2a_identity::Did;
use a2a_net::book::parse_did;
use a2a_net::{Entropy, Posts};
use a2e_runtime::config::{Config, Intent, IntentTarget};
use a2e_runtime::{BoxFuture, Failure, Host, PeerAnswer, PeerRequest, Peers, TokenStore};
use a2e_wire::{ErrorCode, Namespace};
use anyhow::{Context, Result};
use bridge::{DidLogin, Exposed, Inbound, Names, Outbound, Target};

use super::agents::Agents;
use crate::book::BookFile;
use crate::keystore::Stored;
use crate::peer::endpoint;

/// What a configuration says of other agents, ready to be used.
pub(super) struct Plan {
    /// Which agent a DID is.
    names: Vec<(Did, String)>,
    /// Where peers are.
    pub(super) places: BTreeMap<String, String>,
    /// What they may ask for.
    offer: Vec<Exposed>,
}

/// What joins the host with the A2A port.
pub(super) struct Joined {
    inbound: Inbound,
}

/// Asks peers, as soon as the node speaks with any.
#[derive(Debug, Default)]
pub(crate) struct LatePeers(OnceLock<Outbound<Posts>>);

impl Plan {
    /// Reads it.
    pub(super) fn of(config: &Config) -> Result<Self> {
        let agents = config.policy.agents.iter();
        let with_did = agents.filter_map(|agent| Some((agent.did.as_ref()?, &agent.name)));
        let names = with_did.map(|(did, name)| {
            let did = parse_did(did).with_context(|| format!("the DID of the agent `{name}`"));
            did.map(|did| (did, name.clone()))
        });
        let mut places = BTreeMap::new();
        for peer in &config.peers {
            let did = parse_did(&peer.did).with_context(|| format!("`peers.{}.did`", peer.name))?;
            let url = peer.url.as_deref().map(endpoint);
            places.extend(url.map(|url| (did.to_string(), url)));
        }
        Ok(Self {
            names: names.collect::<Result<_>>()?,
            places,
            offer: config.intents.iter().map(exposed).collect(),
        })
    }
}

impl Joined {
    /// Offers nothing yet.
    pub(super) fn new(agents: &Agents, host: &Host, names: &Names) -> Self {
        Self {
            inbound: Inbound::new(agents.server.clone(), host.clone(), names.clone()),
        }
    }
}

/// Who may come in: with a token, or with a DID that is an agent's.
pub(super) fn login(
    tokens: &Arc<TokenStore>,
    identity: &Stored,
    names: &Names,
    book: &BookFile,
    store: &store::Store,
) -> Result<Arc<DidLogin<Arc<TokenStore>>>> {
    let own = identity.identity.did().to_text();
    Ok(Arc::new(DidLogin::new(
        Arc::clone(tokens),
        own.context("the node's DID is no text")?,
        names.clone(),
        Arc::clone(&book.books),
        store.clone(),
    )))
}

/// Goes by a plan; without an A2A port only who an agent is matters. Where peers are is for
/// [`Agents`].
pub(super) fn take(plan: Plan, names: &Names, joined: Option<&Joined>) {
    names.set(plan.names);
    if let Some(joined) = joined {
        joined.inbound.set(plan.offer);
    }
}

impl LatePeers {
    /// Asks with the client of these from now on.
    pub(super) fn join(&self, agents: &Agents) {
        // A node speaks with others from its start to its end.
        let _ = self
            .0
            .set(Outbound::new(agents.client.clone(), Entropy::system()));
    }
}

impl Peers for LatePeers {
    fn ask(&self, asked: PeerRequest) -> BoxFuture<'_, Result<PeerAnswer, Failure>> {
        match self.0.get() {
            Some(outbound) => outbound.ask(asked),
            None => {
                let text = "this host does not speak with other agents; a node does (`frith up`)";
                let failure = Failure::new(ErrorCode::CapabilityMissing, Namespace::Tool, text);
                Box::pin(std::future::ready(Err(failure)))
            }
        }
    }
}

fn exposed(intent: &Intent) -> Exposed {
    Exposed {
        name: intent.name.clone(),
        target: match &intent.target {
            IntentTarget::Tool(name) => Target::Tool(name.clone()),
            IntentTarget::Command(tool) => Target::Tool(tool.name.clone()),
            IntentTarget::Skill(name) => Target::Skill(name.clone()),
            IntentTarget::Chain(tool) => Target::Tool(tool.name.clone()),
            IntentTarget::Env(name) => Target::Env(name.clone()),
        },
    }
}

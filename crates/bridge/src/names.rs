//! Which agent of the node a DID is.

use std::collections::BTreeMap;
use std::sync::Arc;

use a2a_identity::Did;
use a2e_runtime::Identity;
use arc_swap::ArcSwap;
use policy::TrustLevel;

/// The agents of a node that have a DID, for both protocols. Clones are the same.
#[derive(Debug, Clone, Default)]
pub struct Names(Arc<ArcSwap<BTreeMap<String, String>>>);

impl Names {
    /// Goes on with these, in place of all before.
    pub fn set(&self, names: impl IntoIterator<Item = (Did, String)>) {
        let names = names.into_iter();
        let names = names.map(|(did, name)| (did.to_string(), name));
        self.0.store(Arc::new(names.collect()));
    }

    /// The agent that has this DID, in its canonical form.
    #[must_use]
    pub fn agent(&self, did: &str) -> Option<String> {
        self.0.load().get(did).cloned()
    }

    /// The DIDs of an agent, which is named by its name or by one of them.
    #[must_use]
    pub fn dids_of(&self, agent_or_did: &str) -> Vec<String> {
        let names = self.0.load();
        let is_meant =
            |(did, agent): &(&String, &String)| *did == agent_or_did || *agent == agent_or_did;
        let meant = names.iter().filter(is_meant);
        meant.map(|(did, _)| did.clone()).collect()
    }

    /// Who proved to be this DID: the agent that has it, or one that is called by it.
    pub(crate) fn identity(&self, did: &str, trust: TrustLevel) -> Identity {
        let agent = self.agent(did).unwrap_or_else(|| did.to_owned());
        Identity::proven(agent, did, trust)
    }
}

//! Who may come in no longer, and that everything ends then that acts for it.

use std::sync::Arc;

use a2a_net::book::{Block, parse_did};
use a2e_runtime::operator::Operations;
use a2e_runtime::{AccessHolder, DEFAULT_AGENT, Host, TokenStore};
use bridge::Names;

use super::Agents;
use crate::book::{self, AddBlock, BookFile, Change};
use crate::keystore::now;

/// Ends what acts for those who may come in no longer. Every way of revoking comes here: tokens, the
/// blocklist, a configuration that is applied or read again.
#[derive(Clone)]
pub(crate) struct AccessControl {
    host: Host,
    /// Which agents come in by a DID.
    pub(super) names: Names,
    /// What the operator says about other agents.
    pub(super) book: Arc<BookFile>,
    agents: Option<Arc<Agents>>,
}

/// Which credential of the agent `default` a configuration has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DefaultCredential {
    /// None.
    Same,
    /// Its token is another one, or it needs one now.
    Changed,
}

/// Why a DID is blocked, in the list of blocked agents.
const REASON: &str = "revoked with `frith token revoke`";

impl AccessControl {
    pub(super) fn new(
        host: &Host,
        names: &Names,
        book: &Arc<BookFile>,
        agents: Option<&Arc<Agents>>,
    ) -> Self {
        Self {
            host: host.clone(),
            names: names.clone(),
            book: Arc::clone(book),
            agents: agents.map(Arc::clone),
        }
    }

    /// Adds what the operator may do about tokens, and about other agents.
    pub(super) fn serve(&self, operations: Operations, tokens: &Arc<TokenStore>) -> Operations {
        let access = self.clone();
        let operations = operations.with_tokens(tokens, &self.host, move |agent_or_did| {
            access.block(agent_or_did)
        });
        book::serve(operations, &self.book, self)
    }

    /// Makes a change to the book; it holds at once. Returns how many sessions of other agents are served
    /// no more by it. Writes a file.
    pub(crate) fn change(&self, change: impl Change) -> anyhow::Result<usize> {
        let mut ended = 0;
        let before = self.book.books.pages();
        self.book.change(change, |pages| {
            if let Some(agents) = &self.agents {
                let served = agents.served(&before);
                agents.activate(pages);
                ended = served.difference(&agents.served(pages)).count();
            }
        })?;
        Ok(ended)
    }

    /// Ends everything that acts for an identity that came in by a DID which is blocked, or is the
    /// agent's no longer; and for the agent `default`, if its credential was changed.
    pub(crate) async fn end_unwelcome(&self) -> std::io::Result<usize> {
        self.end(DefaultCredential::Same).await
    }

    pub(super) async fn end(&self, credential: DefaultCredential) -> std::io::Result<usize> {
        let (names, blocked) = (self.names.clone(), self.book.books.pages().blocked());
        let is_unwelcome = move |holder: &AccessHolder| match &holder.did {
            None => credential == DefaultCredential::Changed && holder.agent == DEFAULT_AGENT,
            // A peer that no agent of the configuration is goes by its DID alone.
            Some(did) if holder.agent == *did => blocked.contains(did),
            Some(did) => {
                let agent = names.agent(did);
                blocked.contains(did) || agent.as_ref() != Some(&holder.agent)
            }
        };
        self.host.revoke_access(is_unwelcome).await
    }

    /// Blocks the DIDs by which an agent comes in, which is named by its name or by one of them.
    fn block(&self, agent_or_did: &str) -> Result<Vec<String>, String> {
        let dids = self.names.dids_of(agent_or_did);
        for did in &dids {
            // What is in the configuration is a DID.
            if parse_did(did).is_ok_and(|did| self.book.books.pages().is_blocked(&did)) {
                continue;
            }
            let block = Block {
                reason: REASON.to_owned(),
                since: u64::try_from(now().0).ok(),
            };
            let did = did.clone();
            let blocked = self.change(AddBlock { did, block });
            blocked.map_err(|error| format!("{error:#}"))?;
        }
        Ok(dids)
    }
}

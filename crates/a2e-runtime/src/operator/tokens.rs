//! `token.new`, `token.list`, `token.revoke`.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Nothing, Operations};
use crate::host::Host;
use crate::tokens::{Revoked, TokenError, TokenInfo, TokenStore};

/// The request of `token.new`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Create {
    /// Whose token it will be.
    pub agent: String,
    /// What to write about it.
    #[serde(default)]
    pub label: String,
}

/// The answer to `token.new`. It holds the token, so it is not shown by `Debug`.
#[derive(Clone, Serialize, Deserialize)]
pub struct Created {
    /// Names the token when it is to be revoked.
    pub id: String,
    /// The token, seen only now.
    pub token: String,
}

/// The answer to `token.list`, which needs [`Nothing`].
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Listed {
    /// All tokens.
    pub tokens: Vec<TokenInfo>,
}

/// The request of `token.revoke`; the answer is [`Revoked`].
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Revoke {
    /// An agent by its name or its DID, for all that lets it in, or the id of one token.
    pub target: String,
}

impl std::fmt::Debug for Created {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Created")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

impl Operations {
    /// Adds the operations on tokens. Who loses a token loses everything that acts for it at this host.
    ///
    /// `withdraw` makes everything else invalid that lets an agent in, which is named by its name or by
    /// its DID, and returns the DIDs that are good no longer.
    #[must_use]
    pub fn with_tokens(
        self,
        tokens: &Arc<TokenStore>,
        host: &Host,
        withdraw: impl Fn(&str) -> Result<Vec<String>, String> + Send + Sync + 'static,
    ) -> Self {
        let (creating, listing, revoking) = (tokens.clone(), tokens.clone(), tokens.clone());
        let (host, withdraw) = (host.clone(), Arc::new(withdraw));
        self.add("token.new", move |request: Create| {
            in_background(creating.clone(), move |tokens| {
                let new = tokens.create(&request.agent, &request.label);
                new.map(|new| Created {
                    id: new.id,
                    token: new.token.reveal().to_owned(),
                })
            })
        })
        .add("token.list", move |_: Nothing| {
            let tokens = listing.list();
            std::future::ready(Ok(Listed { tokens }))
        })
        .add("token.revoke", move |request: Revoke| {
            let (tokens, host) = (revoking.clone(), host.clone());
            let withdraw = Arc::clone(&withdraw);
            async move {
                let target = request.target.clone();
                let revoked = in_background(tokens, move |tokens| {
                    withdraw_all(tokens, &*withdraw, &target)
                });
                end(&host, revoked.await?, request.target).await
            }
        })
    }
}

/// Makes invalid what lets an agent in: a token by its id, or all that a name or a DID has.
fn withdraw_all(
    tokens: &TokenStore,
    withdraw: &(impl Fn(&str) -> Result<Vec<String>, String> + ?Sized),
    target: &str,
) -> Result<Revoked, String> {
    let revoked = match tokens.revoke(target) {
        Err(error @ TokenError::Unknown(_)) => Err(error),
        revoked => Ok(revoked.map_err(|error| error.to_string())?),
    };
    let dids = withdraw(target)?;
    match revoked {
        Err(error) if dids.is_empty() => Err(error.to_string()),
        revoked => Ok(Revoked {
            dids,
            ..revoked.unwrap_or_default()
        }),
    }
}

/// Ends what acts for those who were revoked.
async fn end(host: &Host, mut revoked: Revoked, target: String) -> Result<Revoked, String> {
    let (agents, dids) = (revoked.agents.clone(), revoked.dids.clone());
    let ended = host.revoke_access(move |holder| {
        let has_did = holder.did.as_ref().is_some_and(|did| dids.contains(did));
        has_did || holder.agent == target || agents.contains(&holder.agent)
    });
    revoked.sessions = ended.await.map_err(|error| {
        format!("what was asked for is revoked, but old sessions stay on record: {error}")
    })?;
    Ok(revoked)
}

/// Files are written, which may take a while.
async fn in_background<R: Send + 'static, E: ToString + Send + 'static>(
    tokens: Arc<TokenStore>,
    act: impl FnOnce(&TokenStore) -> Result<R, E> + Send + 'static,
) -> Result<R, String> {
    match tokio::task::spawn_blocking(move || act(&tokens)).await {
        Ok(result) => result.map_err(|error| error.to_string()),
        Err(error) => Err(format!("the operation broke off: {error}")),
    }
}

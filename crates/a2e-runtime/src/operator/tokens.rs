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
    /// An agent, for all its tokens, or the id of one token.
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
    /// Adds the operations on tokens. Who loses a token loses the sessions of this host too.
    #[must_use]
    pub fn with_tokens(self, tokens: &Arc<TokenStore>, host: &Host) -> Self {
        let (creating, listing, revoking) = (tokens.clone(), tokens.clone(), tokens.clone());
        let host = host.clone();
        self.add("token.new", move |request: Create| {
            in_background(creating.clone(), move |tokens| {
                let new = tokens.create(&request.agent, &request.label)?;
                Ok(Created {
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
            revoke(revoking.clone(), host.clone(), request.target)
        })
    }
}

async fn revoke(tokens: Arc<TokenStore>, host: Host, target: String) -> Result<Revoked, String> {
    let mut revoked = in_background(tokens, move |tokens| tokens.revoke(&target)).await?;
    for agent in &revoked.agents {
        let ended = host.end_sessions(agent).await;
        let ended = ended.map_err(|error| {
            format!("the token is revoked, but old sessions of `{agent}` stay on record: {error}")
        })?;
        revoked.sessions = revoked.sessions.saturating_add(ended);
    }
    Ok(revoked)
}

/// Files are written, which may take a while.
async fn in_background<R: Send + 'static>(
    tokens: Arc<TokenStore>,
    act: impl FnOnce(&TokenStore) -> Result<R, TokenError> + Send + 'static,
) -> Result<R, String> {
    match tokio::task::spawn_blocking(move || act(&tokens)).await {
        Ok(result) => result.map_err(|error| error.to_string()),
        Err(error) => Err(format!("the operation broke off: {error}")),
    }
}

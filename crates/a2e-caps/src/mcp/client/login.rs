//! Logins to servers that want OAuth.
//!
//! A [`Login`] gives the token that requests to its server have, gets another one when that runs out, and
//! otherwise waits for the operator, who logs in with a browser (`operator`). `discover` finds out who
//! gives tokens for the server, `client` is who asks for them, `token` asks. What was got is sealed in the
//! store, for that server at that address.

mod callback;
mod challenge;
mod client;
mod discover;
mod operator;
mod token;
mod web;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use a2e_runtime::config::{McpGrant, McpPlace, McpServer, McpUrl};
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex as AsyncMutex;

use super::Ground;
pub(super) use challenge::Challenge;
use client::Client;
use token::Tokens;
use web::LoginWeb;

/// The login to one server.
pub(super) struct Login {
    server: String,
    at: McpUrl,
    ground: Arc<Ground>,
    held: AsyncMutex<Held>,
    /// What the server wants that it does not get.
    wanted: Mutex<Option<Challenge>>,
}

/// What was got so far.
#[derive(Default)]
struct Held {
    is_loaded: bool,
    tokens: Option<Tokens>,
}

/// What a token that can be exchanged is asked for with, where there is such a thing.
const OFFLINE: &str = "offline_access";

/// What outlives the process.
#[derive(Serialize, Deserialize)]
struct Kept {
    /// Nobody else is shown what this server's login gave.
    url: String,
    /// The issuer that the configuration named. What it gave is exchanged with no other.
    #[serde(default)]
    issuer: Option<String>,
    tokens: Tokens,
}

impl Login {
    /// The login to a server, if there can be one: it has an address, and no header has a credential.
    pub(super) fn to(settings: &McpServer, ground: &Arc<Ground>) -> Option<Arc<Self>> {
        let (McpPlace::Http(at) | McpPlace::Sse(at)) = &settings.place else {
            return None;
        };
        let is_given = |(name, _): &(String, _)| name.eq_ignore_ascii_case("authorization");
        if at.headers.iter().any(is_given) {
            return None;
        }
        Some(Arc::new(Self {
            server: settings.name.clone(),
            at: at.clone(),
            ground: Arc::clone(ground),
            held: AsyncMutex::default(),
            wanted: Mutex::default(),
        }))
    }

    /// The token for a request, if there is one. One that is about to run out is exchanged before.
    pub(super) async fn token(&self) -> Option<String> {
        let mut held = self.held.lock().await;
        self.load(&mut held).await;
        if held.tokens.as_ref()?.is_over()
            && let Err(error) = self.refresh(&mut held).await
        {
            // The server refuses the request, and says what it wants.
            tracing::debug!(server = self.server, error, "its token has run out");
        }
        held.tokens.as_ref().map(|tokens| tokens.access.clone())
    }

    /// A server has refused a request: whether to make it again, with another token.
    pub(super) async fn renew(&self, used: Option<&str>, mut challenge: Challenge) -> bool {
        let mut held = self.held.lock().await;
        let current = held.tokens.as_ref().map(|tokens| tokens.access.as_str());
        // Another request has got one meanwhile.
        if current.is_some() && current != used {
            return true;
        }
        let renewed = match self.at.oauth.grant {
            McpGrant::ClientCredentials => self.exchange(&mut held, &challenge).await,
            McpGrant::Login if challenge.wants_more => Err(String::new()),
            McpGrant::Login => self.refresh(&mut held).await,
        };
        match renewed {
            Ok(()) => true,
            Err(reason) => {
                challenge.reason = reason;
                *self.lock() = Some(challenge);
                false
            }
        }
    }

    /// It has another token, and refuses all the same.
    pub(super) fn refuse(&self, challenge: Challenge) {
        *self.lock() = Some(challenge);
    }

    /// What the operator can do, if the server wants something that it does not get.
    pub(super) fn advice(&self) -> Option<String> {
        let wanted = self.lock();
        let (wanted, server) = (wanted.as_ref()?, &self.server);
        Some(match self.at.oauth.grant {
            McpGrant::ClientCredentials => format!(
                "it does not take the node for `client_id` of `oauth` ({}); see whether that and \
                 `client_secret` are right",
                wanted.reason
            ),
            McpGrant::Login if wanted.wants_more => format!(
                "it wants more rights than it was given: the operator can give them with `frith mcp \
                 login {server}`"
            ),
            McpGrant::Login => format!(
                "it wants a login: the operator can log in with `frith mcp login {server}`, or set the \
                 header that it wants in `headers`"
            ),
        })
    }

    async fn refresh(&self, held: &mut Held) -> Result<(), String> {
        let tokens = held.tokens.as_ref().ok_or("there was no login")?;
        let refreshed = tokens.refreshed(&self.web()?).await;
        self.take(held, refreshed.map_err(|error| error.to_string())?)
            .await;
        Ok(())
    }

    /// Gets a token for the node itself.
    async fn exchange(&self, held: &mut Held, challenge: &Challenge) -> Result<(), String> {
        let oauth = &self.at.oauth;
        let (Some(id), Some(secret)) = (&oauth.client_id, &oauth.client_secret) else {
            return Err("there is none".to_owned());
        };
        let web = self.web()?;
        let found = discover::discover(&web, &self.at, Some(challenge)).await?;
        let client = Client::known(id, Some(secret.reveal()), &found.giver);
        let scopes = self.scopes(held, &found, Some(challenge));
        let tokens = Tokens::for_client(&web, &found, &client, &scopes).await;
        self.take(held, tokens.map_err(|error| error.to_string())?)
            .await;
        Ok(())
    }

    /// What to ask for: what the configuration says, or the server. Who wants more keeps what there is.
    fn scopes(
        &self,
        held: &Held,
        found: &discover::Found,
        challenge: Option<&Challenge>,
    ) -> Vec<String> {
        let challenged = challenge.map(|it| it.scopes.as_slice()).unwrap_or_default();
        let wants_more = challenge.is_some_and(|it| it.wants_more);
        let told = &self.at.oauth.scopes;
        let mut scopes: Vec<String> = match (told.is_empty(), challenged.is_empty()) {
            (false, _) => told.clone(),
            (true, false) => challenged.to_vec(),
            (true, true) => found.scopes.clone(),
        };
        if wants_more {
            let before = held.tokens.iter().flat_map(|tokens| tokens.scopes.clone());
            scopes = before
                .chain(scopes)
                .chain(challenged.iter().cloned())
                .collect();
        }
        let is_given = found.giver.scopes.iter().any(|it| it == OFFLINE);
        if told.is_empty() && !scopes.is_empty() && is_given {
            scopes.push(OFFLINE.to_owned());
        }
        let mut seen = std::collections::BTreeSet::new();
        scopes.retain(|scope| seen.insert(scope.clone()));
        scopes
    }

    fn web(&self) -> Result<LoginWeb, String> {
        LoginWeb::new(&self.ground, &self.at.url)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Challenge>> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What of it is kept.
impl Login {
    fn name(&self) -> String {
        format!("mcp login {}", self.server)
    }

    /// Reads what an earlier process got, once.
    async fn load(&self, held: &mut Held) {
        if std::mem::replace(&mut held.is_loaded, true) {
            return;
        }
        let Some(secrets) = &self.ground.logins else {
            return;
        };
        match secrets.get(&self.name()).await {
            Ok(text) => {
                let kept = text.and_then(|text| serde_json::from_slice::<Kept>(&text).ok());
                let is_same =
                    |kept: &Kept| kept.url == self.at.url && kept.issuer == self.at.oauth.issuer;
                let kept = kept.filter(is_same);
                held.tokens = kept.map(|kept| kept.tokens);
            }
            Err(error) => {
                tracing::warn!(server = self.server, %error, "its login cannot be read");
            }
        }
    }

    /// Has these tokens from now on.
    async fn take(&self, held: &mut Held, tokens: Tokens) {
        *self.lock() = None;
        held.is_loaded = true;
        let kept = Kept {
            url: self.at.url.clone(),
            issuer: self.at.oauth.issuer.clone(),
            tokens: tokens.clone(),
        };
        held.tokens = Some(tokens);
        let (Some(secrets), Ok(text)) = (&self.ground.logins, serde_json::to_vec(&kept)) else {
            return;
        };
        let text = zeroize::Zeroizing::new(text);
        if let Err(error) = secrets.put(&self.name(), &text).await {
            tracing::warn!(server = self.server, %error, "its login ends with this process");
        }
    }

    /// Forgets all of it; whether there was something.
    async fn forget(&self) -> Result<bool, String> {
        let mut held = self.held.lock().await;
        self.load(&mut held).await;
        let was_there = held.tokens.take().is_some();
        if let Some(secrets) = &self.ground.logins {
            let removed = secrets.remove(&self.name()).await;
            removed.map_err(|error| error.to_string())?;
        }
        Ok(was_there)
    }
}

impl std::fmt::Debug for Login {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Login").field(&self.server).finish()
    }
}

//! The tokens of agents: made here, shown once, kept as hashes.

mod error;
mod file;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{SystemTime, UNIX_EPOCH};

use a2e_wire::messages::base::HandshakeReason;
use canonical::{Digest, base64url};
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq as _;

use crate::auth::{Authenticator, Identity, Login, Source};
use crate::data_dir::Claim;
use crate::plugin::BoxFuture;
use crate::secret::Secret;

pub use error::TokenError;

/// The agent that always exists.
pub const DEFAULT_AGENT: &str = "default";

/// Who may come in with which token. Changes hold from the next handshake on.
///
/// The agent [`DEFAULT_AGENT`] has a first token that is not made with [`TokenStore::create`]: the
/// one in the file `token` of the data directory, which its user may read, or the one of the
/// configuration.
#[derive(Debug)]
pub struct TokenStore {
    /// Where it is kept; nowhere, for tests and for hosts without a data directory.
    claim: Option<Claim>,
    tokens: RwLock<Arc<Tokens>>,
    /// Held while files are written, so that changes come one after another and logins need not
    /// wait for them.
    change: Mutex<()>,
}

/// A token, without what it opens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenInfo {
    /// Names the token when it is to be revoked.
    pub id: String,
    /// Whose it is.
    pub agent: String,
    /// When it was made, in seconds since 1970; unknown for one of the configuration.
    pub created: Option<u64>,
    /// What its maker wrote about it.
    pub label: String,
}

/// A token that was just made. This is the only time it is seen.
#[derive(Debug)]
pub struct NewToken {
    /// Names the token when it is to be revoked.
    pub id: String,
    /// The token.
    pub token: Secret,
}

/// What was revoked.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Revoked {
    /// The tokens that are good no longer.
    pub ids: Vec<String>,
    /// Whose they were.
    #[serde(default)]
    pub agents: Vec<String>,
    /// The DIDs that are blocked for it.
    #[serde(default)]
    pub dids: Vec<String>,
    /// How many sessions of theirs were ended for it.
    #[serde(default)]
    pub sessions: usize,
    /// The file with a new token, if the one that was there was revoked.
    pub renewed: Option<PathBuf>,
}

/// The first token of the default agent, then those that were made.
#[derive(Debug, Clone)]
struct Tokens {
    first: Entry,
    made: Vec<Entry>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    id: String,
    agent: String,
    hash: Digest,
    created: Option<u64>,
    label: String,
}

/// What every token made here begins with, so that a leaked one is recognised.
const TOKEN_PREFIX: &str = "frith_";

/// What the id of a made token begins with, so that it is no agent's name.
const ID_PREFIX: &str = "tok_";

/// The id of the token in the file.
const FILE_ID: &str = "tok_file";

/// The id of the token in the configuration.
const CONFIGURED_ID: &str = "tok_configured";

/// The longest credential that is looked at, in bytes.
const MAX_TOKEN: usize = 4096;

const MAX_TOKENS: usize = 10_000;

impl TokenStore {
    /// The tokens of a data directory; the default agent's is made at the first time. With
    /// `configured` that one is its credential, and the file is left alone.
    ///
    /// # Errors
    /// If a file is damaged, open to others, or cannot be read or written.
    pub fn open(claim: &Claim, configured: Option<&Secret>) -> Result<Self, TokenError> {
        let first = first_entry(Some(claim), configured)?;
        let made = file::read(claim)?;
        Ok(Self::with(Some(claim.clone()), Tokens { first, made }))
    }

    /// Tokens that are kept nowhere; the default agent has this one.
    ///
    /// # Errors
    /// If it is empty or longer than any token.
    pub fn in_memory(token: &Secret) -> Result<Self, TokenError> {
        let tokens = Tokens {
            first: first_entry(None, Some(token))?,
            made: Vec::new(),
        };
        Ok(Self::with(None, tokens))
    }

    /// Changes where the default agent's first token comes from, as [`TokenStore::open`] does: for
    /// a configuration that was read again. Returns whether it is another token than before.
    ///
    /// # Errors
    /// As [`TokenStore::open`]; what held before holds on.
    pub fn configure(&self, configured: Option<&Secret>) -> Result<bool, TokenError> {
        let _change = self.change.lock().unwrap_or_else(PoisonError::into_inner);
        let first = first_entry(self.claim.as_ref(), configured)?;
        let before = self.current();
        let is_other = before.first.hash != first.hash;
        let made = before.made.clone();
        self.replace(Tokens { first, made });
        Ok(is_other)
    }

    /// Makes a further token for an agent, new or known.
    ///
    /// # Errors
    /// If the name or the label cannot be used, or it cannot be written.
    pub fn create(&self, agent: &str, label: &str) -> Result<NewToken, TokenError> {
        check_name(agent)?;
        if label.chars().count() > 200 || label.chars().any(char::is_control) {
            return Err(TokenError::BadLabel);
        }
        let _change = self.change.lock().unwrap_or_else(PoisonError::into_inner);
        let mut tokens = (*self.current()).clone();
        if tokens.made.len() >= MAX_TOKENS {
            return Err(TokenError::TooMany);
        }
        let token = random_token()?;
        let id = format!("{ID_PREFIX}{}", base64url::encode(&random::<9>()?));
        tokens.made.push(Entry {
            id: id.clone(),
            agent: agent.to_owned(),
            hash: Digest::of(token.reveal().as_bytes()),
            created: Some(unix_seconds()),
            label: label.to_owned(),
        });
        self.keep_made(tokens)?;
        Ok(NewToken { id, token })
    }

    /// Revokes one token by its id, or all tokens of an agent. The default agent gets a new one
    /// in its file.
    ///
    /// # Errors
    /// If there is nothing of that name, if it is of the configuration, or it cannot be written.
    pub fn revoke(&self, agent_or_id: &str) -> Result<Revoked, TokenError> {
        let _change = self.change.lock().unwrap_or_else(PoisonError::into_inner);
        let mut tokens = (*self.current()).clone();
        let meant = |entry: &Entry| entry.id == agent_or_id || entry.agent == agent_or_id;
        let renew = meant(&tokens.first);
        if renew && tokens.first.id == CONFIGURED_ID {
            return Err(TokenError::Configured);
        }
        let mut revoked = Revoked::default();
        let gone = tokens.made.extract_if(.., |entry| meant(entry));
        for entry in gone {
            revoked.add(entry);
        }
        if !revoked.ids.is_empty() {
            self.keep_made(tokens.clone())?;
        }
        if let (true, Some(claim)) = (renew, &self.claim) {
            revoked.add(tokens.first);
            tokens.first = file::renew_first_token(claim)?;
            revoked.renewed = Some(claim.dir().token());
            self.replace(tokens);
        }
        match revoked.ids.is_empty() {
            true => Err(TokenError::Unknown(agent_or_id.to_owned())),
            false => Ok(revoked),
        }
    }

    /// All tokens, the default agent's first.
    #[must_use]
    pub fn list(&self) -> Vec<TokenInfo> {
        self.current().all().map(Entry::info).collect()
    }

    fn with(claim: Option<Claim>, tokens: Tokens) -> Self {
        Self {
            claim,
            tokens: RwLock::new(Arc::new(tokens)),
            change: Mutex::new(()),
        }
    }

    /// Writes first, so that what holds is what a restart would read.
    fn keep_made(&self, tokens: Tokens) -> Result<(), TokenError> {
        if let Some(claim) = &self.claim {
            file::write(claim, &tokens.made)?;
        }
        self.replace(tokens);
        Ok(())
    }

    fn replace(&self, tokens: Tokens) {
        *self.tokens.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(tokens);
    }

    fn current(&self) -> Arc<Tokens> {
        self.tokens
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl Authenticator for TokenStore {
    fn required(&self) -> bool {
        true
    }

    fn authenticate<'a>(
        &'a self,
        login: &'a Login,
        _: Source,
    ) -> BoxFuture<'a, Result<Identity, HandshakeReason<'static>>> {
        let agent = self.current().agent_of(&login.auth_token);
        Box::pin(async move {
            match agent {
                Some(agent) => Ok(Identity::named(agent)),
                None => Err(HandshakeReason::AuthFailed),
            }
        })
    }

    /// Tokens made here have 256 random bits; others somebody may have thought of, and be found out.
    fn recognise(&self, login: &Login) -> Option<Identity> {
        let token = login.auth_token.strip_prefix(TOKEN_PREFIX)?;
        let bits = base64url::decode(token).ok()?;
        let agent = (bits.len() == 32).then(|| self.current().agent_of(&login.auth_token))??;
        Some(Identity::named(agent))
    }
}

impl Tokens {
    fn all(&self) -> impl Iterator<Item = &Entry> {
        std::iter::once(&self.first).chain(&self.made)
    }

    /// Looks at every token, so that the time tells neither whose it is nor how near it was.
    fn agent_of(&self, token: &str) -> Option<String> {
        if token.len() > MAX_TOKEN {
            return None;
        }
        let hash = Digest::of(token.as_bytes());
        let mut found = None;
        for entry in self.all() {
            if entry.hash.as_bytes().ct_eq(hash.as_bytes()).into() {
                found = Some(&entry.agent);
            }
        }
        found.cloned()
    }
}

impl Revoked {
    fn add(&mut self, entry: Entry) {
        self.ids.push(entry.id);
        if !self.agents.contains(&entry.agent) {
            self.agents.push(entry.agent);
        }
    }
}

impl Entry {
    fn info(&self) -> TokenInfo {
        TokenInfo {
            id: self.id.clone(),
            agent: self.agent.clone(),
            created: self.created,
            label: self.label.clone(),
        }
    }
}

/// The default agent's: of the configuration, or else of the file.
fn first_entry(claim: Option<&Claim>, configured: Option<&Secret>) -> Result<Entry, TokenError> {
    let token = match (configured, claim) {
        (Some(token), _) => token.reveal(),
        (None, Some(claim)) => return file::first_token(claim),
        (None, None) => return Err(TokenError::BadToken),
    };
    if token.is_empty() || token.len() > MAX_TOKEN {
        return Err(TokenError::BadToken);
    }
    Ok(Entry {
        id: CONFIGURED_ID.to_owned(),
        agent: DEFAULT_AGENT.to_owned(),
        hash: Digest::of(token.as_bytes()),
        created: None,
        label: "auth_token of the configuration".to_owned(),
    })
}

fn check_name(agent: &str) -> Result<(), TokenError> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-@:".contains(&byte);
    let good = (1..=128).contains(&agent.len())
        && agent.bytes().all(allowed)
        && !agent.starts_with(['-', '.'])
        && !agent.starts_with(ID_PREFIX);
    match good {
        true => Ok(()),
        false => Err(TokenError::BadName(agent.chars().take(64).collect())),
    }
}

fn random_token() -> Result<Secret, TokenError> {
    let text = base64url::encode(&random::<32>()?);
    Ok(Secret::new(format!("{TOKEN_PREFIX}{text}")))
}

fn random<const N: usize>() -> Result<[u8; N], TokenError> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(TokenError::Random)?;
    Ok(bytes)
}

fn unix_seconds() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests;

//! Secrets, which no back end sees: they are sealed before they get there.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use rusqlite::OptionalExtension;
use zeroize::Zeroizing;

use crate::limits::{Size, check_name};
use crate::memory::{Kept, Memory};
use crate::scope::{AgentId, Backend, Owner};
use crate::sqlite::{Database, Metered, metered};
use crate::{Error, Pending, UnixMillis};

/// Encrypts with authentication: what was sealed in one context opens in that context alone. This
/// crate has no cryptography; the node passes in one with the key of `store.key`.
pub trait Cipher: fmt::Debug + Send + Sync {
    /// Seals a secret, with a nonce of its own in what comes out.
    ///
    /// # Errors
    /// Why it cannot; the text must say nothing of the secret.
    fn seal(&self, context: &[u8], secret: &[u8]) -> Result<Vec<u8>, String>;

    /// Opens what was sealed in the same context with the same key.
    ///
    /// # Errors
    /// Why it cannot, which is the same text for whatever was changed.
    fn open(&self, context: &[u8], sealed: &[u8]) -> Result<Zeroizing<Vec<u8>>, String>;
}

/// The secrets of the node and of all agents, with the key that opens them.
#[derive(Debug, Clone)]
pub struct Vault {
    backend: Arc<dyn Backend>,
    cipher: Arc<dyn Cipher>,
}

/// The secrets of one owner, by name.
#[derive(Debug)]
pub struct Secrets {
    values: Arc<dyn SealedValues>,
    cipher: Arc<dyn Cipher>,
    owner: Owner,
}

/// What a back end keeps of secrets: bytes that mean nothing to it.
pub trait SealedValues: fmt::Debug + Send + Sync {
    /// Keeps a value, in place of the one of this name.
    fn put(&self, name: &str, sealed: Vec<u8>) -> Pending<()>;
    /// The value of this name.
    fn get(&self, name: &str) -> Pending<Option<Vec<u8>>>;
    /// All names there are, in order.
    fn names(&self) -> Pending<Vec<String>>;
    /// Removes a value, if there is one.
    fn remove(&self, name: &str) -> Pending<()>;
}

const WHAT: &str = "secret";

/// What the store seals to know its key again.
const CHECK: &str = "check";

impl Vault {
    /// Opens the vault if this is its key; the first one is.
    pub(crate) async fn open(
        backend: Arc<dyn Backend>,
        cipher: Arc<dyn Cipher>,
    ) -> Result<Self, Error> {
        let vault = Self { backend, cipher };
        let own = vault.of(Owner::key());
        match own.get(CHECK).await {
            Ok(Some(_)) => {}
            Ok(None) => own.put(CHECK, CHECK.as_bytes()).await?,
            Err(Error::Cipher(_)) => return Err(Error::WrongKey),
            Err(error) => return Err(error),
        }
        Ok(vault)
    }

    /// The node's own secrets.
    #[must_use]
    pub fn node(&self) -> Secrets {
        self.of(Owner::node())
    }

    /// An agent's secrets.
    #[must_use]
    pub fn for_agent(&self, agent: &AgentId) -> Secrets {
        self.of(Owner::agent(agent))
    }

    fn of(&self, owner: Owner) -> Secrets {
        Secrets {
            values: self.backend.sealed_values(&owner),
            cipher: Arc::clone(&self.cipher),
            owner,
        }
    }
}

impl Secrets {
    /// Keeps a secret, in place of the one of this name.
    ///
    /// # Errors
    /// If it cannot be sealed, is too large or finds no room.
    pub async fn put(&self, name: &str, secret: &[u8]) -> Result<(), Error> {
        let sealed = self.cipher.seal(&self.context(name), secret);
        self.values.put(name, sealed.map_err(Error::Cipher)?).await
    }

    /// A secret, if there is one.
    ///
    /// # Errors
    /// [`Error::Cipher`] if it was changed, or was sealed for another name or owner.
    pub async fn get(&self, name: &str) -> Result<Option<Zeroizing<Vec<u8>>>, Error> {
        let Some(sealed) = self.values.get(name).await? else {
            return Ok(None);
        };
        let secret = self.cipher.open(&self.context(name), &sealed);
        secret.map(Some).map_err(Error::Cipher)
    }

    /// All names there are, in order.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn names(&self) -> Result<Vec<String>, Error> {
        self.values.names().await
    }

    /// Removes a secret, if there is one.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn remove(&self, name: &str) -> Result<(), Error> {
        self.values.remove(name).await
    }

    /// Binds a sealed secret to its place, so that one put into another row does not open. The
    /// length keeps owner and name apart.
    fn context(&self, name: &str) -> Vec<u8> {
        let owner = self.owner.as_str().as_bytes();
        let length = u64::try_from(owner.len()).unwrap_or(u64::MAX);
        let parts = [
            b"frith store secret 1".as_slice(),
            &length.to_be_bytes(),
            owner,
            name.as_bytes(),
        ];
        parts.concat()
    }
}

// In memory

#[derive(Debug)]
pub(crate) struct InMemory {
    memory: Memory,
    owner: Arc<str>,
}

impl InMemory {
    pub(crate) fn new(memory: &Memory, owner: &Owner) -> Self {
        Self {
            memory: memory.clone(),
            owner: owner.shared(),
        }
    }
}

impl SealedValues for InMemory {
    fn put(&self, name: &str, sealed: Vec<u8>) -> Pending<()> {
        let limit = self.memory.limits().secrets;
        let checked = check_name(WHAT, name).and_then(|()| limit.take(WHAT, sealed.len()));
        Pending::ready(checked.and_then(|()| {
            let kept = Kept {
                bytes: name.len() + sealed.len(),
                value: sealed,
                expires: UnixMillis::NEVER,
            };
            let entry = BTreeMap::from([(name.to_owned(), kept)]);
            let mut tables = self.memory.tables();
            tables
                .secrets
                .put(&self.owner, UnixMillis(0), limit, WHAT, entry)
        }))
    }

    fn get(&self, name: &str) -> Pending<Option<Vec<u8>>> {
        let tables = self.memory.tables();
        let kept = tables
            .secrets
            .live(&self.owner, &name.to_owned(), UnixMillis(0));
        Pending::ready(Ok(kept.map(|kept| kept.value.clone())))
    }

    fn names(&self) -> Pending<Vec<String>> {
        let tables = self.memory.tables();
        let all = tables.secrets.all_live(&self.owner, UnixMillis(0));
        Pending::ready(Ok(all.map(|(name, _)| name.clone()).collect()))
    }

    fn remove(&self, name: &str) -> Pending<()> {
        let mut tables = self.memory.tables();
        tables.secrets.remove(&self.owner, &name.to_owned());
        Pending::ready(Ok(()))
    }
}

// In SQLite

pub(crate) const SCHEMA: &str = concat!(
    "CREATE TABLE secrets (
        owner TEXT NOT NULL,
        name TEXT NOT NULL,
        sealed BLOB NOT NULL,
        bytes INTEGER NOT NULL,
        PRIMARY KEY (owner, name)
    ) STRICT, WITHOUT ROWID;",
    metered!(triggers "secrets")
);

pub(crate) const TABLE: Metered = metered!("secrets", "secret");

#[derive(Debug)]
pub(crate) struct InSqlite {
    database: Arc<Database>,
    owner: Arc<str>,
}

impl InSqlite {
    pub(crate) fn new(database: &Arc<Database>, owner: &Owner) -> Self {
        Self {
            database: Arc::clone(database),
            owner: owner.shared(),
        }
    }
}

impl SealedValues for InSqlite {
    fn put(&self, name: &str, sealed: Vec<u8>) -> Pending<()> {
        let limit = self.database.limits().secrets;
        let (owner, name) = (Arc::clone(&self.owner), name.to_owned());
        self.database
            .write(name.len() + sealed.len(), move |connection| {
                check_name(WHAT, &name)?;
                limit.take(WHAT, sealed.len())?;
                let mut known = connection
                    .prepare_cached("SELECT bytes FROM secrets WHERE owner = ?1 AND name = ?2")?;
                let known = known
                    .query_row((&*owner, &*name), |row| row.get(0))
                    .optional()?;
                let less = known.map_or_else(Size::default, Size::one);
                let more = Size::one(name.len() + sealed.len());
                TABLE.make_room(connection, (&owner, UnixMillis(0)), limit, less, more)?;
                let mut put = connection.prepare_cached(
                    "INSERT INTO secrets (owner, name, sealed, bytes) VALUES (?1, ?2, ?3, ?4)
                 ON CONFLICT (owner, name)
                 DO UPDATE SET sealed = excluded.sealed, bytes = excluded.bytes",
                )?;
                put.execute((&*owner, &*name, &*sealed, more.bytes))?;
                Ok(())
            })
    }

    fn get(&self, name: &str) -> Pending<Option<Vec<u8>>> {
        self.database.read(|connection| {
            let mut get = connection
                .prepare_cached("SELECT sealed FROM secrets WHERE owner = ?1 AND name = ?2")?;
            Ok(get
                .query_row((&*self.owner, name), |row| row.get(0))
                .optional()?)
        })
    }

    fn names(&self) -> Pending<Vec<String>> {
        self.database.read(|connection| {
            let mut names = connection
                .prepare_cached("SELECT name FROM secrets WHERE owner = ?1 ORDER BY name")?;
            let names = names.query_map([&*self.owner], |row| row.get(0))?;
            Ok(names.collect::<Result<_, _>>()?)
        })
    }

    fn remove(&self, name: &str) -> Pending<()> {
        let (owner, name) = (Arc::clone(&self.owner), name.to_owned());
        self.database.write(name.len(), move |connection| {
            let mut remove =
                connection.prepare_cached("DELETE FROM secrets WHERE owner = ?1 AND name = ?2")?;
            remove.execute((&*owner, &*name))?;
            Ok(())
        })
    }
}

//! The secrets of agents: sealed with `store.key` of the data directory.

use std::sync::Arc;

use a2a_identity::AtRest;
use a2e_runtime::DataDir;
use anyhow::{Context, Result};
use store::{Cipher, Store, StoreKey, Vault};
use zeroize::Zeroizing;

use crate::keystore::random;

#[derive(Debug)]
struct Sealer(AtRest);

impl Cipher for Sealer {
    fn seal(&self, context: &[u8], secret: &[u8]) -> Result<Vec<u8>, String> {
        let sealed = self.0.seal(context, secret, &mut random);
        sealed.map_err(|error| error.to_string())
    }

    fn open(&self, context: &[u8], sealed: &[u8]) -> Result<Zeroizing<Vec<u8>>, String> {
        let opened = self.0.open(context, sealed);
        opened.map_err(|error| error.to_string())
    }
}

/// Opens the secrets of a store; the key is made with the first of them.
pub(crate) async fn open(data: &DataDir, store: &Store) -> Result<Vault> {
    let path = data.path().join("store.key");
    let none = |_| std::io::Error::other("the system gives no random bytes");
    let fill = |bytes: &mut [u8; 32]| getrandom::fill(bytes).map_err(none);
    let key = StoreKey::open_or_make(&path, fill, None);
    let key = key.with_context(|| format!("cannot use {}", path.display()))?;
    let vault = store
        .vault(Arc::new(Sealer(AtRest::new(key.bytes()))))
        .await;
    vault.context("cannot open the secrets of agents")
}

/// Secrets that end with this process, as their key does.
pub(crate) async fn for_now(store: &Store) -> Result<Vault> {
    let mut key = Zeroizing::new([0; 32]);
    getrandom::fill(&mut *key).context("the system gives no random bytes")?;
    let vault = store.vault(Arc::new(Sealer(AtRest::new(&key)))).await;
    vault.context("cannot open the secrets of agents")
}

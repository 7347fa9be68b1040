//! Secrets of agents, sealed as a node seals them.

use std::sync::Arc;

use a2e_runtime::{Authenticator, BoxFuture, Identity, Login, Source};
use a2e_wire::messages::base::HandshakeReason;
use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{ChaCha20Poly1305, Key, Nonce};
use store::{Cipher, Limits, Memory, Store, Vault};
use zeroize::Zeroizing;

#[derive(Debug)]
struct TestCipher;

impl TestCipher {
    fn aead() -> ChaCha20Poly1305 {
        ChaCha20Poly1305::new(&Key::from([7; 32]))
    }
}

impl Cipher for TestCipher {
    fn seal(&self, context: &[u8], secret: &[u8]) -> Result<Vec<u8>, String> {
        let mut nonce = [0; 12];
        getrandom::fill(&mut nonce).map_err(|error| error.to_string())?;
        let payload = Payload {
            msg: secret,
            aad: context,
        };
        let sealed = Self::aead().encrypt(&Nonce::from(nonce), payload);
        let sealed = sealed.map_err(|_| "cannot seal".to_owned())?;
        Ok([&nonce, sealed.as_slice()].concat())
    }

    fn open(&self, context: &[u8], sealed: &[u8]) -> Result<Zeroizing<Vec<u8>>, String> {
        let wrong = || "the secret cannot be opened".to_owned();
        let (nonce, sealed) = sealed.split_first_chunk::<12>().ok_or_else(wrong)?;
        let payload = Payload {
            msg: sealed,
            aad: context,
        };
        let secret = Self::aead().decrypt(&Nonce::from(*nonce), payload);
        secret.map(Zeroizing::new).map_err(|_| wrong())
    }
}

/// The vault of a store.
pub(crate) async fn vault(store: &Store) -> Vault {
    store.vault(Arc::new(TestCipher)).await.unwrap()
}

/// A store that lasts as long as a test.
pub(crate) fn store() -> Store {
    Store::new(Memory::new(Limits::default()))
}

/// Every token is the agent of that name.
pub(crate) struct Named;

impl Authenticator for Named {
    fn required(&self) -> bool {
        true
    }

    fn authenticate<'a>(
        &'a self,
        login: &'a Login,
        _: Source,
    ) -> BoxFuture<'a, Result<Identity, HandshakeReason<'static>>> {
        let agent = login.auth_token.clone();
        Box::pin(async move { Ok(Identity::named(agent)) })
    }
}

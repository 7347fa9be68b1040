//! Secrets: encrypted for their place, with the key of the store.

use std::sync::Arc;

use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{ChaCha20Poly1305, Key, Nonce};
use store::{AgentId, Cipher, Error, Limits, MAX_NAME, Options, Sqlite, Store, Vault, wait};
use zeroize::Zeroizing;

use crate::subject::{Make, ada, bob, contract, folder, limit};

contract! {
    secrets_are_kept_by_name,
    another_key_opens_nothing,
    limits_hold,
}

/// A real cipher, as a node has one. Its nonces are a hash of what is sealed, which is good enough
/// for a test and repeats no nonce for two texts.
#[derive(Debug)]
struct TestCipher([u8; 32]);

pub(crate) fn cipher(number: u8) -> Arc<dyn Cipher> {
    Arc::new(TestCipher([number; 32]))
}

impl TestCipher {
    fn aead(&self) -> ChaCha20Poly1305 {
        ChaCha20Poly1305::new(&Key::from(self.0))
    }
}

impl Cipher for TestCipher {
    fn seal(&self, context: &[u8], secret: &[u8]) -> Result<Vec<u8>, String> {
        use std::hash::{DefaultHasher, Hasher};
        let mut hasher = DefaultHasher::new();
        hasher.write(context);
        hasher.write(secret);
        let mut nonce = [0; 12];
        nonce[..8].copy_from_slice(&hasher.finish().to_be_bytes());
        let payload = Payload {
            msg: secret,
            aad: context,
        };
        let sealed = self.aead().encrypt(&Nonce::from(nonce), payload);
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
        let secret = self.aead().decrypt(&Nonce::from(*nonce), payload);
        secret.map(Zeroizing::new).map_err(|_| wrong())
    }
}

fn vault(store: &Store) -> Vault {
    wait(store.vault(cipher(1))).unwrap()
}

fn secrets_are_kept_by_name(make: Make) {
    let store = make(Limits::default());
    let secrets = vault(&store).for_agent(&ada());
    assert_eq!(wait(secrets.get("token")).unwrap(), None);
    wait(secrets.put("token", b"first")).unwrap();
    wait(secrets.put("token", b"second")).unwrap();
    wait(secrets.put("password", b"")).unwrap();
    assert_eq!(**wait(secrets.get("token")).unwrap().unwrap(), *b"second");
    assert_eq!(**wait(secrets.get("password")).unwrap().unwrap(), *b"");
    assert_eq!(wait(secrets.names()).unwrap(), ["password", "token"]);
    wait(secrets.remove("token")).unwrap();
    wait(secrets.remove("token")).unwrap();
    assert_eq!(wait(secrets.names()).unwrap(), ["password"]);
}

fn another_key_opens_nothing(make: Make) {
    let store = make(Limits::default());
    wait(vault(&store).node().put("token", b"secret")).unwrap();
    assert_eq!(wait(store.vault(cipher(2))).unwrap_err(), Error::WrongKey);
    wait(store.vault(cipher(1))).unwrap();
}

fn limits_hold(make: Make) {
    // Sealing adds 28 bytes.
    let store = make(Limits {
        secrets: limit(38, 2, 100),
        ..Limits::default()
    });
    let secrets = vault(&store).for_agent(&ada());
    let too_large = wait(secrets.put("a", &[0; 11])).unwrap_err();
    assert!(matches!(
        too_large,
        Error::TooLarge {
            size: 39,
            limit: 38,
            ..
        }
    ));
    wait(secrets.put("a", &[0; 10])).unwrap();
    wait(secrets.put("b", &[0; 10])).unwrap();
    let full = Err(Error::Full { what: "secret" });
    assert_eq!(wait(secrets.put("c", b"")), full);
    wait(secrets.remove("b")).unwrap();
    // 39 bytes are there, 61 are left.
    let name = "x".repeat(34);
    assert_eq!(wait(secrets.put(&name, b"")), full);
    wait(secrets.put(&name[1..], b"")).unwrap();
    let long = wait(secrets.put(&"x".repeat(MAX_NAME + 1), b""));
    assert!(matches!(long, Err(Error::TooLarge { .. })));
    assert_eq!(wait(secrets.names()).unwrap().len(), 2);
    let others = vault(&store).for_agent(&bob());
    wait(others.put("a", b"")).unwrap();
}

/// Who can write to the database can still not give one agent the secret of another, nor swap two
/// secrets of one agent, nor change one.
#[test]
fn a_sealed_secret_opens_in_its_place_alone() {
    let folder = folder();
    let path = folder.path().join("store.db");
    let store = Store::new(Sqlite::open(&Options::new(&path)).unwrap());
    let vault = vault(&store);
    let (own, other, node) = (
        vault.for_agent(&ada()),
        vault.for_agent(&bob()),
        vault.node(),
    );
    wait(own.put("token", b"secret of ada")).unwrap();
    for secrets in [&own, &other, &node] {
        wait(secrets.put("other", b"x")).unwrap();
    }
    let file = rusqlite::Connection::open(&path).unwrap();
    let refused = |result: Result<_, Error>| assert!(matches!(result, Err(Error::Cipher(_))));
    let copied = file.execute(
        "UPDATE secrets SET sealed = (SELECT sealed FROM secrets WHERE name = 'token')
         WHERE name = 'other'",
        [],
    );
    assert_eq!(copied, Ok(3));
    for secrets in [&own, &other, &node] {
        refused(wait(secrets.get("other")));
    }
    assert_eq!(
        **wait(own.get("token")).unwrap().unwrap(),
        *b"secret of ada"
    );
    let moved = "UPDATE secrets SET owner = 'bob' WHERE name = 'token'";
    assert_eq!(file.execute(moved, []), Ok(1));
    refused(wait(other.get("token")));
    // Owner and name cannot be shifted into each other.
    let shifted = "UPDATE secrets SET owner = 'adat', name = 'oken' WHERE name = 'token'";
    assert_eq!(file.execute(shifted, []), Ok(1));
    let shifted = vault.for_agent(&AgentId::new("adat").unwrap());
    refused(wait(shifted.get("oken")));
    let changed = "UPDATE secrets SET owner = 'ada', name = 'token', sealed = zeroblob(40) WHERE name = 'oken'";
    assert_eq!(file.execute(changed, []), Ok(1));
    refused(wait(own.get("token")));
}

//! `store.key`: random, made once, for its owner alone, locked with a passphrase if wanted.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use store::{Error, Passphrase, StoreKey};
use zeroize::Zeroizing;

use crate::subject::folder;

/// Locks by adding a number, and knows its own by a mark; the real one is the node's.
struct Shift(u8);

impl Passphrase for Shift {
    fn lock(&self, key: &[u8; 32]) -> Result<Vec<u8>, String> {
        let shifted = key.iter().map(|byte| byte.wrapping_add(self.0));
        Ok([self.0].into_iter().chain(shifted).collect())
    }

    fn unlock(&self, locked: &[u8]) -> Result<Zeroizing<Vec<u8>>, String> {
        match locked.split_first() {
            Some((mark, rest)) if *mark == self.0 => {
                let key = rest.iter().map(|byte| byte.wrapping_sub(self.0));
                Ok(Zeroizing::new(key.collect()))
            }
            _ => Err("this is not the passphrase".to_owned()),
        }
    }
}

fn open(path: &Path, passphrase: Option<&dyn Passphrase>) -> Result<StoreKey, Error> {
    let random = |key: &mut [u8; 32]| {
        key.copy_from_slice(b"0123456789abcdef0123456789ABCDEF");
        Ok(())
    };
    StoreKey::open_or_make(path, random, passphrase)
}

/// For one that is there nothing random is needed.
fn open_again(path: &Path, passphrase: Option<&dyn Passphrase>) -> Result<StoreKey, Error> {
    let random = |_: &mut [u8; 32]| Err(io::Error::other("no second key is made"));
    StoreKey::open_or_make(path, random, passphrase)
}

#[test]
fn a_key_is_made_once() {
    let folder = folder();
    let path = folder.path().join("store.key");
    // What a crash left of an earlier attempt is no key.
    fs::write(path.with_extension("key.new"), "half").unwrap();
    let key = open(&path, None).unwrap();
    assert_eq!(key.bytes(), b"0123456789abcdef0123456789ABCDEF");
    assert_eq!(open_again(&path, None).unwrap().bytes(), key.bytes());
    let mode = fs::metadata(&path).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode, 0o600);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    assert_eq!(format!("{key:?}"), "StoreKey");
    // Without random bytes there is no key, and no file.
    let error = open_again(&folder.path().join("other.key"), None).unwrap_err();
    assert!(matches!(error, Error::Io { .. }), "{error}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn a_key_may_have_a_passphrase() {
    let folder = folder();
    let path = folder.path().join("store.key");
    let key = open(&path, Some(&Shift(3))).unwrap();
    let file = fs::read(&path).unwrap();
    assert!(!file.windows(32).any(|part| part == key.bytes()));
    assert_eq!(
        open_again(&path, Some(&Shift(3))).unwrap().bytes(),
        key.bytes()
    );
    let wrong = open_again(&path, Some(&Shift(4))).unwrap_err();
    assert_eq!(
        wrong,
        Error::Cipher("this is not the passphrase".to_owned())
    );
    let text = open_again(&path, None).unwrap_err().to_string();
    assert!(text.ends_with("store.key needs its passphrase"), "{text}");
    let plain = folder.path().join("plain.key");
    open(&plain, None).unwrap();
    let text = open_again(&plain, Some(&Shift(3))).unwrap_err().to_string();
    assert!(text.ends_with("plain.key has no passphrase"), "{text}");
}

#[test]
fn what_is_no_key_is_left_alone() {
    let folder = folder();
    let path = folder.path().join("store.key");
    let good = {
        open(&path, None).unwrap();
        fs::read(&path).unwrap()
    };
    let longer = [good.as_slice(), b"x"].concat();
    let shorter = &good[..good.len() - 1];
    for content in [
        b"".as_slice(),
        b"frith-store-key",
        b"frith-store-key2",
        &longer,
        shorter,
    ] {
        fs::write(&path, content).unwrap();
        let text = open_again(&path, None).unwrap_err().to_string();
        assert!(text.ends_with("is not a key of a store"), "{text}");
        assert_eq!(fs::read(&path).unwrap(), content);
    }
    fs::write(&path, &good).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
    let text = open_again(&path, None).unwrap_err().to_string();
    assert!(text.contains("(mode 644); run `chmod 600 "), "{text}");
}

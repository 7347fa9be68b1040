//! `store.key`: the key that secrets are sealed with, in a file of its own.
//!
//! It is random and made once. It is not the node's identity, so that one can be changed without
//! the other, and it is not in the database, so that a backup of that is no backup of the secrets.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use zeroize::Zeroizing;

use crate::Error;

/// The key that secrets are sealed with.
#[derive(Clone)]
pub struct StoreKey(Zeroizing<[u8; 32]>);

/// Locks the key with a passphrase, which whoever implements this has.
pub trait Passphrase {
    /// Locks a key.
    ///
    /// # Errors
    /// Why it cannot; the text must say nothing of the key.
    fn lock(&self, key: &[u8; 32]) -> Result<Vec<u8>, String>;

    /// Unlocks what was locked.
    ///
    /// # Errors
    /// If this is not the passphrase, or the bytes were changed.
    fn unlock(&self, locked: &[u8]) -> Result<Zeroizing<Vec<u8>>, String>;
}

/// What a key file begins with; then one byte that says whether the key is locked, and the key.
const MAGIC: &[u8; 15] = b"frith-store-key";
const PLAIN: u8 = b'0';
const LOCKED: u8 = b'1';

/// More than any locked key.
const MAX_FILE: u64 = 4096;

impl StoreKey {
    /// Reads the key, or makes it with these random bytes if there is none. One that is made is
    /// locked if there is a passphrase.
    ///
    /// # Errors
    /// If the file is not a key, is open to other users, or is locked with another passphrase or
    /// none.
    pub fn open_or_make(
        path: &Path,
        random: impl FnOnce(&mut [u8; 32]) -> io::Result<()>,
        passphrase: Option<&dyn Passphrase>,
    ) -> Result<Self, Error> {
        match Self::open(path, passphrase)? {
            Some(key) => Ok(key),
            None => Self::make(path, random, passphrase),
        }
    }

    /// The key's bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    fn open(path: &Path, passphrase: Option<&dyn Passphrase>) -> Result<Option<Self>, Error> {
        let wrong = |why| Error::KeyFile {
            path: path.to_owned(),
            why,
        };
        let Some(content) = read(path)? else {
            return Ok(None);
        };
        let content = content.strip_prefix(MAGIC);
        let unlocked;
        let key = match (content.and_then(<[u8]>::split_first), passphrase) {
            (Some((&PLAIN, key)), None) => key,
            (Some((&LOCKED, locked)), Some(passphrase)) => {
                unlocked = passphrase.unlock(locked).map_err(Error::Cipher)?;
                unlocked.as_slice()
            }
            (Some((&PLAIN, _)), Some(_)) => return Err(wrong("has no passphrase")),
            (Some((&LOCKED, _)), None) => return Err(wrong("needs its passphrase")),
            _ => return Err(wrong("is not a key of a store")),
        };
        let mut bytes = Zeroizing::new([0; 32]);
        if key.len() != bytes.len() {
            return Err(wrong("is not a key of a store"));
        }
        bytes.copy_from_slice(key);
        Ok(Some(Self(bytes)))
    }

    fn make(
        path: &Path,
        random: impl FnOnce(&mut [u8; 32]) -> io::Result<()>,
        passphrase: Option<&dyn Passphrase>,
    ) -> Result<Self, Error> {
        let mut key = Zeroizing::new([0; 32]);
        random(&mut key).map_err(|error| Error::io("find random bytes for", path, &error))?;
        let mut content = Zeroizing::new(MAGIC.to_vec());
        // It must not move when it grows: what it leaves behind would not be wiped.
        content.reserve_exact(1 + key.len());
        match passphrase {
            None => {
                content.push(PLAIN);
                content.extend_from_slice(key.as_slice());
            }
            Some(passphrase) => {
                content.push(LOCKED);
                content.extend(passphrase.lock(&key).map_err(Error::Cipher)?);
            }
        }
        write_new(path, &content).map_err(|error| Error::io("make", path, &error))?;
        Ok(Self(key))
    }
}

impl fmt::Debug for StoreKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StoreKey")
    }
}

fn read(path: &Path) -> Result<Option<Zeroizing<Vec<u8>>>, Error> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::io("open", path, &error)),
    };
    let metadata = file.metadata();
    let metadata = metadata.map_err(|error| Error::io("look at", path, &error))?;
    let mode = metadata.mode() & 0o7777;
    if mode & 0o077 != 0 {
        return Err(Error::TooOpen {
            path: path.to_owned(),
            mode,
        });
    }
    let mut content = Zeroizing::new(Vec::with_capacity(4096));
    let read = file.take(MAX_FILE).read_to_end(&mut content);
    read.map_err(|error| Error::io("read", path, &error))?;
    Ok(Some(content))
}

/// Writes a file that only its owner may read; whole or not at all, and never over another.
fn write_new(path: &Path, content: &[u8]) -> io::Result<()> {
    let temporary = path.with_extension("key.new");
    // One that a crash has left was never a key of anything.
    match fs::remove_file(&temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&temporary)?;
    file.write_all(content)?;
    file.sync_all()?;
    // Unlike a rename, a link replaces nothing.
    let linked = fs::hard_link(&temporary, path);
    fs::remove_file(&temporary)?;
    linked?;
    match path.parent() {
        Some(folder) if folder != Path::new("") => File::open(folder)?.sync_all(),
        _ => Ok(()),
    }
}

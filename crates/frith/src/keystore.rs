//! Where a user's identities live: `DATA/identity/NAME/`, a public record and a file per secret key.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Read as _, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use a2a_identity::{Identity, KeyFileError, NoRandomness, OwnKey, SigningKey};
use a2a_wire::UnixSeconds;
use anyhow::{Context, Result, bail};
use base::Durability;
use canonical::Value;
use zeroize::Zeroizing;

use crate::screen::shown;

/// Where to look, and how to open what is locked.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Store {
    /// The data directory [default: $XDG_DATA_HOME/frith]
    #[arg(long, value_name = "DIR", env = "FRITH_DATA")]
    data: Option<PathBuf>,

    /// A file with the passphrase of the keys; else $FRITH_PASSPHRASE is used
    #[arg(long, value_name = "FILE")]
    passphrase_file: Option<PathBuf>,

    /// The passphrase itself, where something else than a command line says it.
    #[arg(skip)]
    passphrase: Option<Passphrase>,
}

/// What opens keys. It is wiped when dropped, and never shown.
#[derive(Clone)]
struct Passphrase(Zeroizing<String>);

impl std::fmt::Debug for Passphrase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Passphrase(…)")
    }
}

/// An identity on disk, held by this process alone until it is dropped.
#[derive(Debug)]
pub(crate) struct Stored {
    folder: PathBuf,
    pub(crate) identity: Identity,
    /// Keeps other processes from changing the same record; unlocked when closed.
    _lock: File,
}

const RECORD: &str = "identity.json";

impl Store {
    /// That of a data directory, or the user's.
    pub(crate) const fn at(data: Option<PathBuf>) -> Self {
        Self {
            data,
            passphrase_file: None,
            passphrase: None,
        }
    }

    /// The same, whose keys this opens.
    pub(crate) fn opened_by(self, passphrase: Option<&str>) -> Self {
        let passphrase = passphrase.map(|text| Passphrase(Zeroizing::new(text.to_owned())));
        Self { passphrase, ..self }
    }

    /// The same, with the passphrase in this file.
    pub(crate) fn with_passphrase(self, passphrase_file: Option<PathBuf>) -> Self {
        Self {
            passphrase_file,
            ..self
        }
    }

    /// The names of all identities.
    pub(crate) fn names(&self) -> Result<Vec<String>> {
        let folder = self.folder()?;
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error).with_context(|| cannot("read", &folder)),
        };
        let mut names: Vec<String> = entries
            .flatten()
            .filter(|entry| entry.path().join(RECORD).exists())
            .filter_map(|entry| entry.file_name().into_string().ok())
            // A copy that someone keeps beside them is none of them.
            .filter(|name| is_name(name))
            .collect();
        names.sort();
        Ok(names)
    }

    /// The file that says which keys an identity has.
    pub(crate) fn record(&self, name: &str) -> Result<PathBuf> {
        Ok(self.place(name)?.join(RECORD))
    }

    /// Opens an identity and does what time has brought to its keys.
    pub(crate) fn open(&self, name: &str) -> Result<Stored> {
        let folder = self.place(name)?;
        if !folder.join(RECORD).exists() {
            bail!(
                "there is no identity `{name}`; `frith id new {name}` makes one, `frith id list` shows all"
            );
        }
        let lock = lock(&folder)?;
        let record = folder.join(RECORD);
        let text = fs::read(&record).with_context(|| cannot("read", &record))?;
        let value =
            Value::parse(&text).with_context(|| format!("{} is damaged", shown(&record)))?;
        let object = value
            .as_object()
            .with_context(|| format!("{} is damaged", shown(&record)))?;
        let identity =
            Identity::from_record(object).with_context(|| format!("in {}", shown(&record)))?;
        let mut stored = Stored {
            folder,
            identity,
            _lock: lock,
        };
        let before: Vec<String> = stored.kids();
        if stored.identity.advance(now()) {
            stored.save()?;
            let after = stored.kids();
            let gone = before.iter().filter(|kid| !after.contains(kid));
            gone.map(|kid| kid.as_str())
                .try_for_each(|kid| stored.remove_secret(kid))?;
        }
        Ok(stored)
    }

    /// Makes a new identity around its first key.
    pub(crate) fn create(&self, name: &str, identity: Identity, pem: &str) -> Result<Stored> {
        let (identities, folder) = (self.folder()?, self.place(name)?);
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&folder)
            .and_then(|()| base::sync_folder(&identities))
            .with_context(|| cannot("create", &folder))?;
        let lock = lock(&folder)?;
        if folder.join(RECORD).exists() {
            bail!(
                "there is an identity `{name}` already; choose another name, or `frith id rotate {name}`"
            );
        }
        let stored = Stored {
            folder,
            identity,
            _lock: lock,
        };
        let first = stored
            .identity
            .keys()
            .first()
            .context("an identity has a key")?;
        stored.write_secret(first, pem)?;
        stored.save()?;
        Ok(stored)
    }

    /// A secret as it is written: encrypted if asked for.
    pub(crate) fn seal(&self, key: &SigningKey, encrypt: bool) -> Result<Zeroizing<String>> {
        if !encrypt {
            return Ok(key.to_pem()?);
        }
        let passphrase = self.passphrase()?.context(
            "a passphrase is needed: give --passphrase-file FILE or set FRITH_PASSPHRASE",
        )?;
        Ok(key.to_encrypted_pem(&passphrase, &mut random)?)
    }

    /// Reads a secret from PEM text.
    pub(crate) fn unseal(&self, secret: &Secret) -> Result<SigningKey> {
        let passphrase = match secret.is_encrypted() {
            true => self.passphrase()?,
            false => None,
        };
        let passphrase = passphrase.as_ref().map(|text| text.as_str());
        let key = SigningKey::from_pem(secret.as_str(), passphrase);
        if key.as_ref().err() == Some(&KeyFileError::PassphraseNeeded) {
            bail!(
                "the key is encrypted: give --passphrase-file FILE or set FRITH_PASSPHRASE (for a node, also \
                 `identity.passphrase` in its configuration)"
            );
        }
        Ok(key?)
    }

    fn passphrase(&self) -> Result<Option<Zeroizing<String>>> {
        if let Some(Passphrase(text)) = &self.passphrase {
            return Ok(Some(text.clone()));
        }
        if let Some(file) = &self.passphrase_file {
            let text = Secret::read(file)?;
            let text = text.as_str().trim_end_matches(['\r', '\n']);
            if text.is_empty() {
                bail!("{} is empty: it must hold the passphrase", shown(file));
            }
            return Ok(Some(Zeroizing::new(text.to_owned())));
        }
        let text = std::env::var("FRITH_PASSPHRASE").ok().map(Zeroizing::new);
        Ok(text.filter(|text| !text.is_empty()))
    }

    fn folder(&self) -> Result<PathBuf> {
        Ok(self.data()?.join("identity"))
    }

    /// The data directory.
    pub(crate) fn data(&self) -> Result<PathBuf> {
        let variable = |name| std::env::var_os(name).map(PathBuf::from);
        let data = self.data.clone().or_else(|| {
            variable("XDG_DATA_HOME")
                .filter(|path| path.is_absolute())
                .or_else(|| variable("HOME").map(|home| home.join(".local/share")))
                .map(|base| base.join("frith"))
        });
        data.context("there is no home directory: give --data DIR")
    }

    fn place(&self, name: &str) -> Result<PathBuf> {
        if !is_name(name) {
            bail!("the name of an identity is 1 to 64 of `A-Za-z0-9_-`, not `{name}`");
        }
        Ok(self.folder()?.join(name))
    }
}

impl Stored {
    /// Writes the record.
    pub(crate) fn save(&self) -> Result<()> {
        let record = Value::Object(self.identity.to_record());
        let text = serde_json::to_vec_pretty(&record)?;
        replace(&self.folder.join(RECORD), &text, base::PRIVATE)
    }

    /// Writes a secret: before the record that names it, so that none is ever lost.
    pub(crate) fn write_secret(&self, key: &OwnKey, pem: &str) -> Result<()> {
        replace(&self.secret_file(key), pem.as_bytes(), base::PRIVATE)
    }

    /// The secret of one of the identity's keys, as it is written.
    pub(crate) fn read_secret(&self, key: &OwnKey) -> Result<Secret> {
        let path = self.secret_file(key);
        let file = File::open(&path).with_context(|| cannot("read", &path))?;
        // Of the file that was opened, whatever its name leads to by now.
        let kind = file.metadata().with_context(|| cannot("read", &path))?;
        if kind.permissions().mode() & 0o077 != 0 {
            bail!(
                "others can read the secret key: run chmod 600 {}",
                shown(&path)
            );
        }
        Secret::of(&file, &path)
    }

    /// The secret of one of the identity's keys, ready to sign.
    pub(crate) fn signing_key(&self, store: &Store, key: &OwnKey) -> Result<SigningKey> {
        let secret = store
            .unseal(&self.read_secret(key)?)
            .with_context(|| format!("in {}", shown(&self.secret_file(key))))?;
        if secret.verifying_key() != key.key {
            bail!(
                "{} is not the key that the record names",
                shown(&self.secret_file(key))
            );
        }
        Ok(secret)
    }

    /// Drops a secret that will never sign again.
    pub(crate) fn remove_secret(&self, kid: &str) -> Result<()> {
        let file = self.folder.join(file_name(kid));
        match fs::remove_file(&file) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            removed => removed
                .and_then(|()| base::sync_folder(&self.folder))
                .with_context(|| cannot("remove", &file)),
        }
    }

    fn kids(&self) -> Vec<String> {
        let keys = self.identity.keys().iter();
        keys.map(|own| own.kid.to_string()).collect()
    }

    fn secret_file(&self, key: &OwnKey) -> PathBuf {
        self.folder.join(file_name(key.kid.as_str()))
    }
}

/// The file of a key's secret. A kid may have a slash in it, a file name not.
fn file_name(kid: &str) -> String {
    format!("{}.pem", kid.replace('/', "_"))
}

fn is_name(name: &str) -> bool {
    let fits = |letter: u8| letter.is_ascii_alphanumeric() || matches!(letter, b'-' | b'_');
    (1..=64).contains(&name.len()) && name.bytes().all(fits)
}

/// What a file has in it that nobody else should see. It is wiped when dropped.
pub(crate) struct Secret(Zeroizing<String>);

impl Secret {
    /// No key and no passphrase is longer.
    const LIMIT: usize = 8 * 1024;

    pub(crate) fn read(path: &Path) -> Result<Self> {
        let file = File::open(path).with_context(|| cannot("read", path))?;
        Self::of(&file, path)
    }

    fn of(file: &File, path: &Path) -> Result<Self> {
        // One byte more shows that it is too long; to use a part of it would be another secret.
        let most = Self::LIMIT.saturating_add(1);
        let mut bytes = Zeroizing::new(Vec::with_capacity(most));
        file.take(u64::try_from(most).unwrap_or(u64::MAX))
            .read_to_end(&mut bytes)
            .with_context(|| cannot("read", path))?;
        if bytes.len() > Self::LIMIT {
            let (file, limit) = (shown(path), Self::LIMIT);
            bail!("{file} has more than {limit} bytes: it is no key and no passphrase");
        }
        let text = str::from_utf8(&bytes).map(str::to_owned);
        let text = text.with_context(|| format!("{} is not a text", shown(path)))?;
        Ok(Self(Zeroizing::new(text)))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it is a key that only a passphrase opens.
    pub(crate) fn is_encrypted(&self) -> bool {
        self.0.contains("-----BEGIN ENCRYPTED PRIVATE KEY-----")
    }
}

/// The content of a file, or a little more than may be in it: enough to see that it is too long.
pub(crate) fn read(path: &Path, limit: usize) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let most = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    File::open(path)
        .and_then(|file| file.take(most).read_to_end(&mut bytes))
        .with_context(|| cannot("read", path))?;
    Ok(bytes)
}

/// The time.
pub(crate) fn now() -> UnixSeconds {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    UnixSeconds(since.map_or(0, |since| {
        i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
    }))
}

/// The system's randomness.
pub(crate) fn random(bytes: &mut [u8]) -> Result<(), NoRandomness> {
    getrandom::fill(bytes).map_err(|_| NoRandomness)
}

/// Replaces a file whole or not at all, durably.
pub(crate) fn replace(path: &Path, bytes: &[u8], mode: u32) -> Result<()> {
    base::replace_file(path, mode, Durability::Durable, |file| {
        file.write_all(bytes)
    })
    .with_context(|| cannot("write", path))
}

fn lock(folder: &Path) -> Result<File> {
    let file = folder.join("lock");
    let lock = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .open(&file);
    let lock = lock.with_context(|| cannot("open", &file))?;
    lock.lock().with_context(|| cannot("lock", &file))?;
    Ok(lock)
}

pub(crate) fn cannot(what: &str, path: &Path) -> String {
    format!("cannot {what} {}", shown(path))
}

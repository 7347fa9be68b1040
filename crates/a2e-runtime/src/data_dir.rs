//! The data directory: where a node keeps what outlives it, and which only its user may read.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use base::Durability;

/// Where a data directory is, and what lies where in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataDir {
    path: PathBuf,
}

/// How long to wait for a directory whose process may be ending, and how often to look.
const LEAVING: Duration = Duration::from_secs(1);
const LOOK: Duration = Duration::from_millis(10);

/// A data directory that this process alone works on, and that nobody else may read. Clones are
/// the same claim; it ends with the last of them.
#[derive(Debug, Clone)]
pub struct Claim {
    dir: DataDir,
    /// Locked as long as it is open.
    _lock: Arc<File>,
}

/// Why a data directory cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// There is no place for one.
    #[error(
        "neither XDG_DATA_HOME nor HOME says where the data directory is; name one with --data"
    )]
    NoHome,
    /// The operating system refuses something.
    #[error("cannot {what} {}: {cause}; name another data directory with --data", path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// On which file.
        path: PathBuf,
        /// Why not.
        cause: io::Error,
    },
    /// Something else is in its place.
    #[error("{} is not a {wanted}; move it away, or name another data directory with --data", path.display())]
    WrongKind {
        /// What is in the way.
        path: PathBuf,
        /// What should be there.
        wanted: &'static str,
    },
    /// Others may read or write it.
    #[error("{} is open to other users (mode {mode:o}); run `chmod {wanted:o} {}`", path.display(), path.display())]
    TooOpen {
        /// The file or folder.
        path: PathBuf,
        /// Its mode.
        mode: u32,
        /// The mode it should have.
        wanted: u32,
    },
    /// It is somebody else's.
    #[error("{} belongs to user {owner}, not to you; name another data directory with --data", path.display())]
    NotOurs {
        /// The folder.
        path: PathBuf,
        /// Whose it is.
        owner: u32,
    },
    /// Another process works on it.
    #[error("{} is in use by {holder}; stop that one, or name another data directory with --data", path.display())]
    InUse {
        /// The folder.
        path: PathBuf,
        /// The other process.
        holder: String,
    },
}

/// What a node keeps in files of its own is small; more is damage.
const MAX_FILE: u64 = 16 * 1024 * 1024;

impl DataDir {
    /// The data directory at this path.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// The user's: `$XDG_DATA_HOME/frith`, or `~/.local/share/frith`.
    ///
    /// # Errors
    /// If the environment names neither.
    pub fn of_user() -> Result<Self, DataError> {
        Self::from_environment(std::env::var_os("XDG_DATA_HOME"), std::env::var_os("HOME"))
    }

    /// The folder of the authority for certificates of this machine, which all nodes of the user
    /// share; without a home folder the node's own.
    #[must_use]
    pub fn development_ca(&self) -> PathBuf {
        let user = Self::of_user();
        user.as_ref().unwrap_or(self).path().join("ca")
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The credential of the agent `default`.
    #[must_use]
    pub fn token(&self) -> PathBuf {
        self.path.join("token")
    }

    /// The agents and the hashes of their tokens.
    #[must_use]
    pub fn agents(&self) -> PathBuf {
        self.path.join("agents.json")
    }

    /// The operator's word about other agents.
    #[must_use]
    pub fn trust(&self) -> PathBuf {
        self.path.join("trust.json")
    }

    /// The database of what outlives the node.
    #[must_use]
    pub fn store(&self) -> PathBuf {
        self.path.join("store.db")
    }

    /// Where the operator speaks to a running node.
    #[must_use]
    pub fn operator_socket(&self) -> PathBuf {
        self.path.join("operator.sock")
    }

    /// Where agents of this machine reach a running node.
    #[must_use]
    pub fn a2e_socket(&self) -> PathBuf {
        self.path.join("a2e.sock")
    }

    /// Where a running node says how to reach it.
    #[must_use]
    pub fn endpoints(&self) -> PathBuf {
        self.path.join("endpoints.json")
    }

    /// Takes the directory for this process, and makes it if it is not there.
    ///
    /// # Errors
    /// If another process has it, if other users can get at it, or if it cannot be made.
    pub fn claim(&self) -> Result<Claim, DataError> {
        self.make()?;
        Ok(Claim {
            dir: self.clone(),
            _lock: Arc::new(self.lock()?),
        })
    }

    /// Whether a process works on the directory at the moment. What a process that was killed has
    /// left behind (`endpoints.json`, sockets) says nothing about that.
    #[must_use]
    pub fn is_claimed(&self) -> bool {
        let locked = File::open(self.lock_file()).map(|file| file.try_lock_shared());
        match locked {
            Ok(locked) => matches!(locked, Err(TryLockError::WouldBlock)),
            Err(error) => error.kind() != io::ErrorKind::NotFound,
        }
    }

    fn lock_file(&self) -> PathBuf {
        self.path.join("lock")
    }

    /// Makes the directory if it is not there; takes it for nobody.
    ///
    /// # Errors
    /// If other users can get at it, or if it cannot be made.
    pub fn make(&self) -> Result<(), DataError> {
        let path = &self.path;
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)
            .map_err(at("make the folder", path))?;
        let metadata = fs::metadata(path).map_err(at("look at", path))?;
        if metadata.uid() != rustix::process::geteuid().as_raw() {
            return Err(DataError::NotOurs {
                path: path.clone(),
                owner: metadata.uid(),
            });
        }
        if let Err(error) = check_mode(path, metadata.mode(), 0o700) {
            // One that the user just made holds nothing yet that anybody could have read.
            let mut entries = fs::read_dir(path).map_err(at("read", path))?;
            if entries.next().is_some() {
                return Err(error);
            }
            fs::set_permissions(path, Permissions::from_mode(0o700)).map_err(at("close", path))?;
        }
        Ok(())
    }

    /// The kernel drops the lock when its holder dies, so it is never stale.
    fn lock(&self) -> Result<File, DataError> {
        let path = self.lock_file();
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(at("open", &path))?;
        // One that was killed a moment ago may not be gone yet.
        let patience = Instant::now() + LEAVING;
        let locked = loop {
            match file.try_lock() {
                Err(TryLockError::WouldBlock) if Instant::now() < patience => thread::sleep(LOOK),
                locked => break locked,
            }
        };
        match locked {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut pid = String::new();
                // Only to tell the user; a holder that has not written yet stays unnamed.
                let _ = file.take(32).read_to_string(&mut pid);
                return Err(DataError::InUse {
                    path: self.path.clone(),
                    holder: match pid.trim() {
                        "" => "another process".to_owned(),
                        pid => format!("process {pid}"),
                    },
                });
            }
            Err(TryLockError::Error(source)) => return Err(at("lock", &path)(source)),
        }
        file.set_len(0)
            .and_then(|()| writeln!(file, "{}", std::process::id()))
            .map_err(at("write", &path))?;
        Ok(file)
    }

    fn from_environment(xdg: Option<OsString>, home: Option<OsString>) -> Result<Self, DataError> {
        // The XDG specification wants relative paths ignored.
        let absolute = |path: Option<OsString>| path.map(PathBuf::from).filter(|p| p.is_absolute());
        let base = absolute(xdg)
            .or_else(|| absolute(home).map(|home| home.join(".local/share")))
            .ok_or(DataError::NoHome)?;
        Ok(Self::new(base.join("frith")))
    }
}

impl Claim {
    /// The directory.
    #[must_use]
    pub const fn dir(&self) -> &DataDir {
        &self.dir
    }

    /// Says where the node that works here is, whole or not at all.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write_endpoints(&self, endpoints: &serde_json::Value) -> Result<(), DataError> {
        let text = format!("{endpoints:#}\n");
        // After a crash of the machine nobody is there any more.
        write(&self.dir.endpoints(), text.as_bytes(), Durability::Volatile)
    }

    /// Reads a file that only its owner may read; `None` if there is none.
    ///
    /// # Errors
    /// If it cannot be read, is too large, or others may read it.
    pub fn read_private(&self, path: &Path) -> Result<Option<Vec<u8>>, DataError> {
        let metadata = match fs::metadata(path) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(at("look at", path)(error)),
        };
        if !metadata.is_file() || metadata.len() > MAX_FILE {
            return Err(DataError::WrongKind {
                path: path.to_owned(),
                wanted: "file of at most 16 MiB",
            });
        }
        check_mode(path, metadata.mode(), 0o600)?;
        fs::read(path).map(Some).map_err(at("read", path))
    }

    /// Writes a file that only its owner may read. Whoever reads it sees the old or the new one,
    /// also after a crash.
    ///
    /// # Errors
    /// If it cannot be written; then the old one is there.
    pub fn write_private(&self, path: &Path, bytes: &[u8]) -> Result<(), DataError> {
        write(path, bytes, Durability::Durable)
    }
}

fn write(path: &Path, bytes: &[u8], durability: Durability) -> Result<(), DataError> {
    let write = |file: &mut File| file.write_all(bytes);
    base::replace_file(path, base::PRIVATE, durability, write).map_err(at("write", path))
}

/// Puts what was tried and where before why it failed.
pub(crate) fn at(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> DataError {
    let path = path.to_owned();
    move |cause| DataError::Io { what, path, cause }
}

fn check_mode(path: &Path, mode: u32, wanted: u32) -> Result<(), DataError> {
    let mode = mode & 0o7777;
    match mode & 0o077 {
        0 => Ok(()),
        _ => Err(DataError::TooOpen {
            path: path.to_owned(),
            mode,
            wanted,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_says_where_it_is() {
        let of = |xdg: Option<&str>, home: Option<&str>| {
            DataDir::from_environment(xdg.map(Into::into), home.map(Into::into))
                .map(|dir| dir.path)
                .ok()
        };
        let path = |path: &str| Some(PathBuf::from(path));
        assert_eq!(of(Some("/x"), Some("/h")), path("/x/frith"));
        assert_eq!(of(Some("x"), Some("/h")), path("/h/.local/share/frith"));
        assert_eq!(of(None, Some("/h")), path("/h/.local/share/frith"));
        assert_eq!(of(None, None), None);
    }

    #[test]
    fn one_process_has_it_and_nobody_else_may_read_it() {
        let folder = tempfile::tempdir().unwrap();
        let dir = DataDir::new(folder.path().join("a/b"));
        let claim = dir.claim().unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
        assert_eq!(mode(dir.path()), 0o700);
        let error = dir.claim().unwrap_err().to_string();
        let own = format!("in use by process {}", std::process::id());
        assert!(error.contains(&own), "{error}");
        claim.write_private(&dir.token(), b"old").unwrap();
        claim.write_private(&dir.token(), b"new").unwrap();
        assert_eq!(mode(&dir.token()), 0o600);
        assert_eq!(claim.read_private(&dir.token()).unwrap().unwrap(), b"new");
        drop(claim);
        dir.claim().unwrap();
    }

    /// As after `kill -9`: whoever comes next waits until the one before is gone.
    #[test]
    fn a_process_that_is_ending_is_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let dir = DataDir::new(folder.path());
        let before = dir.claim().unwrap();
        let next = thread::spawn(move || dir.claim().map(drop));
        drop(before);
        next.join().unwrap().unwrap();
    }

    #[test]
    fn an_empty_directory_is_closed_to_others() {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
        DataDir::new(folder.path()).claim().unwrap();
        let mode = fs::metadata(folder.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o700);
    }

    #[test]
    fn what_others_can_read_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let dir = DataDir::new(folder.path());
        let set = |path: &Path, mode| {
            fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        };
        fs::write(dir.path().join("something"), "").unwrap();
        set(dir.path(), 0o750);
        let error = dir.claim().unwrap_err().to_string();
        let hint = format!("run `chmod 700 {}`", dir.path().display());
        assert!(
            error.contains("(mode 750)") && error.contains(&hint),
            "{error}"
        );
        set(dir.path(), 0o700);
        let claim = dir.claim().unwrap();
        assert_eq!(claim.read_private(&dir.token()).unwrap(), None);
        fs::write(dir.token(), "x").unwrap();
        set(&dir.token(), 0o604);
        let error = claim.read_private(&dir.token()).unwrap_err().to_string();
        assert!(error.contains("run `chmod 600 "), "{error}");
        fs::create_dir(dir.agents()).unwrap();
        let error = claim.read_private(&dir.agents()).unwrap_err().to_string();
        assert!(error.contains("is not a file of at most 16 MiB"), "{error}");
    }
}

//! What can go wrong.

use std::path::{Path, PathBuf};
use std::time::Duration;

/// Why something was not kept or not found.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// One value is over its limit.
    #[error("{what} of {size} bytes is too large: at most {limit} are kept")]
    TooLarge {
        /// What was to be kept.
        what: &'static str,
        /// Its size in bytes.
        size: usize,
        /// The most that is kept.
        limit: usize,
    },
    /// All there is room for is in use; nothing that is still needed was dropped for it.
    #[error("there is no room for another {what}; try again when older ones have expired")]
    Full {
        /// What was to be kept.
        what: &'static str,
    },
    /// Something else has this name.
    #[error("there is another {what} of this name")]
    Exists {
        /// What was to be kept.
        what: &'static str,
    },
    /// There is none, or it is not in the state that this needs.
    #[error("there is no such {what}")]
    NotFound {
        /// What was looked for.
        what: &'static str,
    },
    /// An agent or a session must have a name.
    #[error("the name of {what} must not be empty nor begin with a control character")]
    BadName {
        /// Whose name.
        what: &'static str,
    },
    /// More waits to be written than may wait; nothing of this was done.
    #[error("the store has too much to write; try again")]
    Busy,
    /// The database was restored from a backup: the request may be one that was done after the
    /// backup was made. Nothing of this was done.
    #[error(
        "the database was restored from a backup, so it is not known what was done since; requests \
         that must be done once are accepted again in {} s",
        wait.as_secs()
    )]
    Restored {
        /// How long it takes until no such request is sent again any more.
        wait: Duration,
    },
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
    /// The disk is full, or the database has reached its largest size; nothing of this was done.
    #[error("the disk is full, or the database has reached its largest size")]
    DiskFull,
    /// The database is no longer where it was, so that nothing written now would be found again.
    #[error("{} was removed or replaced while it was in use; restart to go on", path.display())]
    Gone {
        /// The file.
        path: PathBuf,
    },
    /// A later version wrote the database.
    #[error(
        "{} is of version {found}, written by a newer frith; this one knows versions up to {known}: \
         update frith, or restore a backup of before the update",
        path.display()
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: i64,
        /// The newest version this program knows.
        known: i64,
    },
    /// It is a database of something else.
    #[error("{} is not a database of frith", path.display())]
    NotOurs {
        /// The file.
        path: PathBuf,
    },
    /// The database cannot be read as one.
    #[error("the database is damaged ({why}); restore a backup")]
    Damaged {
        /// What SQLite says.
        why: String,
    },
    /// Others may read or write it.
    #[error("{} is open to other users (mode {mode:o}); run `chmod 600 {}`", path.display(), path.display())]
    TooOpen {
        /// The file.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// A file that must not be there is.
    #[error("{} is already there", path.display())]
    FileExists {
        /// The file.
        path: PathBuf,
    },
    /// There is no database.
    #[error("there is no database at {}", path.display())]
    NoDatabase {
        /// Where it was looked for.
        path: PathBuf,
    },
    /// The operating system refuses something.
    #[error("cannot {what} {}: {why}", path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// On which file.
        path: PathBuf,
        /// Why not.
        why: String,
    },
    /// SQLite refuses something.
    #[error("the database cannot be used: {0}")]
    Sql(String),
    /// A secret cannot be sealed or opened.
    #[error("{0}")]
    Cipher(String),
    /// The key is not the one the secrets were sealed with.
    #[error(
        "the key is not the one that the secrets in this store were encrypted with; put the right \
         store.key back"
    )]
    WrongKey,
    /// The key file is not one.
    #[error("{} {why}", path.display())]
    KeyFile {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: &'static str,
    },
}

impl Error {
    /// Whether the caller asked for what cannot be, with the database as good as before.
    pub(crate) const fn is_refusal(&self) -> bool {
        matches!(
            self,
            Self::TooLarge { .. }
                | Self::Full { .. }
                | Self::Exists { .. }
                | Self::NotFound { .. }
                | Self::Restored { .. }
        )
    }

    pub(crate) fn io(what: &'static str, path: &Path, why: &std::io::Error) -> Self {
        Self::Io {
            what,
            path: path.to_owned(),
            why: why.to_string(),
        }
    }
}

impl From<rusqlite::Error> for Error {
    fn from(error: rusqlite::Error) -> Self {
        use rusqlite::ErrorCode;
        let text = error.to_string();
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => Self::DiskFull,
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                Self::Damaged { why: text }
            }
            _ => Self::Sql(text),
        }
    }
}

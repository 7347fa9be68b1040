//! What can be wrong with tokens.

use std::path::PathBuf;

use super::{DEFAULT_AGENT, ID_PREFIX, MAX_TOKEN, MAX_TOKENS};
use crate::data_dir::DataError;

/// Why tokens cannot be read or changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// The data directory does not allow it.
    #[error(transparent)]
    Data(#[from] DataError),
    /// A file does not hold what was written to it.
    #[error("{} is damaged ({what}); {remedy}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: String,
        /// What to do.
        remedy: &'static str,
    },
    /// No agent can be called this.
    #[error(
        "`{0}` cannot be the name of an agent: 1 to 128 letters, digits and any of . _ - @ : that do not begin with `{ID_PREFIX}`"
    )]
    BadName(String),
    /// A label that cannot be shown in a list.
    #[error("a label has at most 200 characters and no control characters")]
    BadLabel,
    /// A credential that nothing could be.
    #[error("a token has 1 to {MAX_TOKEN} bytes")]
    BadToken,
    /// There are enough.
    #[error(
        "there are {MAX_TOKENS} tokens already; revoke some first (`frith token list` shows them)"
    )]
    TooMany,
    /// Nothing is called this.
    #[error("there is no agent and no token `{0}`; `frith token list` shows what there is")]
    Unknown(String),
    /// What the configuration says cannot be changed here.
    #[error(
        "the token of agent `{DEFAULT_AGENT}` comes from the configuration; change `auth_token` there"
    )]
    Configured,
    /// The operating system gives no random bytes.
    #[error("the operating system gives no random bytes: {0}")]
    Random(getrandom::Error),
}

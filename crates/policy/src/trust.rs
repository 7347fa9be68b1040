//! How much an agent is trusted, as rules name it.

use serde::{Deserialize, Serialize};

/// The trust level of an agent with a DID (profile §6). The order is that of the profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TrustLevel {
    /// It is who it says, and that is all.
    #[serde(rename = "self")]
    Own,
    /// Someone whom an anchor verified vouches for it, or an anchor says so.
    Delegated,
    /// An anchor vouches for it.
    Verified,
}

//! Where manifests are that a DID does not lead to.

use a2a_identity::{Did, WebUrl};

/// Where a manifest is, if the DID does not lead there.
#[derive(Debug, Clone)]
pub(super) enum Place {
    /// There, as the operator says.
    Said(String),
    /// Where the host shows its own, if it shows one.
    OfHost(String),
}

impl Place {
    /// Where the server at an endpoint shows its manifest. A did:key leads to none, and only one that
    /// it has signed says which other keys are its own (profile §5).
    pub(super) fn on_host(did: &Did, endpoint: &str) -> Option<Self> {
        match did {
            Did::Key(_) => {
                let url = WebUrl::parse(endpoint).ok()?;
                Some(Self::OfHost(manifest_url(&url)))
            }
            Did::Web(_) | Did::Github(_) => None,
        }
    }
}

/// The well-known place of a manifest, on the host of an endpoint.
#[must_use]
pub fn manifest_url(endpoint: &WebUrl) -> String {
    format!("{}/.well-known/agent-manifest.json", endpoint.origin())
}

//! The node's own manifest: what it tells other agents about itself.

use std::net::SocketAddr;

use a2a_identity::{Did, ManifestCheck, Peer, Pins, verify_manifest};
use a2a_net::Identity;
use a2a_wire::{PROFILE, limits, parse_document};
use a2e_runtime::DataDir;
use a2e_runtime::config::{A2a, Config};
use anyhow::{Context, Result, bail};
use canonical::{Object, Value};
use serde_json::json;

use crate::keystore::{Store, Stored, now, replace};
use crate::manifest::sign_with;

/// Where other agents reach the node: `host:port`.
pub(super) struct Place(String);

/// What the node says about itself is made of this.
#[derive(Clone, Copy)]
pub(super) struct Own<'a> {
    pub(super) config: &'a Config,
    pub(super) data: &'a DataDir,
    pub(super) identity: &'a Stored,
    pub(super) identities: &'a Store,
}

/// The file in the data directory.
const FILE: &str = "agent-manifest.json";

/// A signature is made anew after so long: nobody takes one that is much older.
const FRESH: i64 = 7 * 24 * 60 * 60;

impl Place {
    /// The first name that the node goes by, or the address it listens on.
    pub(super) fn of(a2a: &A2a, address: SocketAddr) -> Result<Self> {
        match a2a.names.first() {
            Some(name) if address.port() == 443 => Ok(Self(name.clone())),
            Some(name) => Ok(Self(format!("{name}:{}", address.port()))),
            None if address.ip().is_unspecified() => bail!(
                "`a2a.listen` is {address}, which is no address that others can use; say in `a2a.names` by which name they reach this node"
            ),
            None => Ok(Self(address.to_string())),
        }
    }

    fn endpoints(&self) -> serde_json::Value {
        let host = &self.0;
        json!([
            {"type": "handshake", "url": format!("https://{host}/a2a/handshake"), "transport": "http"},
            {"type": "request", "url": format!("https://{host}/a2a/request"), "transport": "http"},
            {"type": "handshake", "url": format!("https://{host}/a2a.v1.A2A"), "transport": "grpc"},
            {"type": "handshake", "url": format!("wss://{host}/a2a/ws"), "transport": "websocket"},
        ])
    }
}

/// Who the node is to others: its signed manifest, and the key that signs its messages. The manifest is kept, so that whoever pinned it
/// finds it again after a restart; it is made anew when there is something new to say.
pub(super) fn own_identity(needs: Own<'_>, place: &Place) -> Result<Identity> {
    let file = needs.data.path().join(FILE);
    let draft = draft(needs, place)?;
    let tree = match kept(needs, &file, &draft) {
        Some(tree) => tree,
        None => {
            let mut tree = draft;
            let old = read(&file);
            if let Some(published) = old.and_then(|(_, old)| old.get("published_at").cloned()) {
                tree.insert("published_at", published);
            }
            sign_with(&mut tree, needs.identity, needs.identities)?;
            let mut text = serde_json::to_vec_pretty(&Value::Object(tree.clone()))?;
            text.push(b'\n');
            replace(&file, &text, 0o644)?;
            tree
        }
    };
    let own = needs.identity.identity.signing_key(now());
    let own = own.context("no key can sign now; `frith id rotate` makes one")?;
    let key = needs.identity.signing_key(needs.identities, own)?;
    let is_did_key = matches!(needs.identity.identity.did(), Did::Key(_));
    let identity = Identity::new(tree, own.kid.clone(), key)?;
    let root = needs.identity.identity.manifest_key(now());
    match root.filter(|root| root.kid != own.kid && is_did_key) {
        Some(root) => {
            let key = needs.identity.signing_key(needs.identities, root)?;
            Ok(identity.with_root(root.kid.clone(), key)?)
        }
        None => Ok(identity),
    }
}

/// What there is to say.
fn draft(needs: Own<'_>, place: &Place) -> Result<Object<'static>> {
    let config = needs.config;
    let offered = config.intents.iter().map(|intent| intent.name.as_str());
    let capabilities: Vec<&str> = ["frith.ping"].into_iter().chain(offered).collect();
    let draft = json!({
        "manifest_version": "1.0",
        "agent_did": needs.identity.identity.did().to_string(),
        "agent_id": config.host_id,
        "endpoints": place.endpoints(),
        "capabilities": capabilities,
        "metadata": {"profile": PROFILE},
        "expires_at": null,
    });
    let Value::Object(mut tree) = Value::from_serialize(&draft)? else {
        bail!("a manifest is an object");
    };
    tree.insert("policy", Value::Object(config.a2a.policy.to_tree()));
    tree.insert(
        "public_keys",
        a2a_wire::Write::write(&needs.identity.identity.public_keys()),
    );
    Ok(tree)
}

/// The manifest that is kept.
fn read(file: &std::path::Path) -> Option<(Vec<u8>, Object<'static>)> {
    let bytes = std::fs::read(file).ok()?;
    let value = parse_document(&bytes, limits::MANIFEST).ok()?.into_owned();
    let Value::Object(tree) = value else {
        return None;
    };
    Some((bytes, tree))
}

/// The manifest that is kept, if it says the same and its signature is good for a while.
fn kept(
    needs: Own<'_>,
    file: &std::path::Path,
    draft: &Object<'static>,
) -> Option<Object<'static>> {
    let (bytes, tree) = read(file)?;
    let says_the_same = draft
        .iter()
        .all(|(name, value)| tree.get(name) == Some(value));
    let identity = &needs.identity.identity;
    let (did, root) = (identity.did(), identity.root_keys()?);
    let check = ManifestCheck {
        did,
        root: &root,
        now: now(),
        peer: Peer::Profile,
        max_age: FRESH,
        last: None,
        pins: &Pins::default(),
    };
    let is_good = verify_manifest(&bytes, &check).is_ok();
    (says_the_same && is_good).then_some(tree)
}

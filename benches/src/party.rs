//! A node without listeners that calls another.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use a2a_identity::{Did, DidKey, SigningKey, sign_manifest};
use a2a_net::courier::Reach as Taken;
use a2a_net::tls::{ClientTls, Roots};
use a2a_net::transport::Carrier;
use a2a_net::{
    Client, ClientSettings, Clock, Couriers, Entropy, Guard, Home, Identity, Loopback, Parts,
    Posts, Reach, ResolverLimits, Rules, SystemNames, Web,
};
use a2a_session::{Sealing, TrustRules};
use a2a_wire::{Kid, PROFILE};
use audit::{Log, Settings};
use canonical::Value;
use serde_json::json;
use store::{Options, Sqlite, Store};
use tempfile::TempDir;

use crate::couriers::{Shared, Sizes};

/// What calls.
pub type Caller = Client<Shared>;

/// The node, and whom it calls.
#[derive(Debug)]
pub struct Party {
    /// Whom it calls.
    pub server: Did,
    /// What its messages weigh.
    pub sizes: Sizes,
    /// Its connections.
    pub posts: Arc<Posts>,
    home: Arc<Home>,
    guard: Guard,
    _data: TempDir,
}

/// As many connections as there are calls in flight.
const CONNECTIONS: usize = 64;

impl Party {
    /// A node of its own for the one at this origin.
    ///
    /// # Errors
    /// If there is none.
    pub async fn open(origin: &str, ca: &Path) -> Result<Self, Box<dyn Error>> {
        let data = tempfile::tempdir()?;
        let clock = Clock::system();
        let parts = Parts {
            identity: identity(&clock)?,
            rules: Rules::default(),
            trust: TrustRules::default(),
            store: Store::new(Sqlite::open(&Options::new(data.path().join("store.db")))?),
            log: Some(Log::open(
                &data.path().join("audit"),
                Settings::default(),
                crate::log::parts()?,
            )?),
            resolver: ResolverLimits::default(),
            peer_history: a2a_net::peer_history::LIMITS,
            clock,
            entropy: Entropy::system(),
        };
        let tls = ClientTls::new(Roots::none().with_file(ca)?)?;
        let reach = Reach {
            loopback: Loopback::Allowed,
            ..Reach::default()
        };
        let guard = Guard::new(reach, SystemNames);
        let home = Home::open(parts, Web::over(guard.clone(), &tls)).await?;
        let manifest = format!("{origin}/.well-known/agent-manifest.json");
        let server = home.resolver().manifest_at(&manifest).await?.did().clone();
        home.resolver().set_place(&server, manifest);
        let taken = Taken {
            connections: CONNECTIONS,
            ..Taken::default()
        };
        Ok(Self {
            server,
            sizes: Sizes::default(),
            posts: Arc::new(Posts::new(tls, taken)),
            home,
            guard,
            _data: data,
        })
    }

    /// A client over one kind of transport, with sessions of its own. What it sends is signed; it does
    /// not offer to encrypt inside TLS too.
    #[must_use]
    pub fn client(&self, carrier: Carrier) -> Caller {
        let shared = Shared {
            posts: Arc::clone(&self.posts),
            sizes: self.sizes.clone(),
        };
        self.client_over(carrier, shared, Sealing::IfRequired)
    }

    /// The same, with what is between it and its connections, and whether it offers to encrypt.
    #[must_use]
    pub fn client_over<C: Couriers>(
        &self,
        carrier: Carrier,
        couriers: C,
        sealing: Sealing,
    ) -> Client<C> {
        let settings = ClientSettings {
            carriers: vec![carrier],
            sealing,
            ..ClientSettings::default()
        };
        Client::new(
            Arc::clone(&self.home),
            settings,
            couriers,
            self.guard.clone(),
        )
    }
}

/// A fresh did:key with a manifest as a node's.
fn identity(clock: &Clock) -> Result<Identity, Box<dyn Error>> {
    let mut seed = [0; 32];
    getrandom::fill(&mut seed)?;
    let key = SigningKey::from_seed(&seed);
    let bytes = canonical::base64url::encode(&key.verifying_key().to_bytes());
    let kid: Kid = "sig-1".parse()?;
    let draft = json!({
        "manifest_version": "1.0",
        "agent_did": Did::Key(DidKey::new(key.verifying_key())).to_string(),
        "agent_id": "bench",
        "public_keys": [{"kid": kid.to_string(), "kty": "EC", "alg": "EdDSA", "use": "sig", "key": bytes}],
        "endpoints": [{"type": "handshake", "url": "https://127.0.0.1:8443/a2a/handshake", "transport": "http"}],
        "capabilities": ["frith.ping"],
        "metadata": {"profile": PROFILE},
    });
    let Value::Object(mut manifest) = Value::from_serialize(&draft)? else {
        return Err("a manifest is an object".into());
    };
    sign_manifest(&mut manifest, &kid, &key, clock.now().unix)?;
    Ok(Identity::new(manifest, kid, key)?)
}

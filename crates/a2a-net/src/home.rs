//! What the server and the client of one node have in common: who it is, what it knows, what it
//! puts on record.

use std::sync::Arc;

use a2a_identity::{Anchor, SigningKey};
use a2a_session::{Binding, Directory as _, Established, Own, OwnError, TrustRules};
use a2a_wire::Kid;
use arc_swap::ArcSwap;
use bytes::Bytes;
use canonical::{Object, Value};
use store::Store;

use crate::metrics::Metrics;
use crate::record::Recorder;
use crate::resolve::{Fetcher, Resolver, ResolverLimits};
use crate::standing::{Rules, Standing};
use crate::{Clock, Entropy};

/// Who a node is: its signed manifest, and the key that signs its messages.
#[derive(Debug, Clone)]
pub struct Identity {
    own: Arc<Own>,
    manifest: Bytes,
}

impl Identity {
    /// The owner of this signed manifest and of this key, which it must list.
    ///
    /// # Errors
    /// If they do not belong together.
    pub fn new(manifest: Object<'static>, kid: Kid, key: SigningKey) -> Result<Self, OwnError> {
        let bytes = Value::Object(manifest.clone()).to_canonical();
        Ok(Self {
            own: Arc::new(Own::new(manifest, kid, key)?),
            manifest: Bytes::from(bytes),
        })
    }

    /// The same, with the key of its did:key if another signs in its place: see [`Own::with_root`].
    ///
    /// # Errors
    /// If it is not that key, or the manifest does not list it.
    pub fn with_root(self, kid: Kid, key: SigningKey) -> Result<Self, OwnError> {
        let own = Arc::into_inner(self.own).ok_or(OwnError::Key)?;
        Ok(Self {
            own: Arc::new(own.with_root(kid, key)?),
            ..self
        })
    }
}

/// What a node is made of.
#[derive(Debug)]
pub struct Parts {
    /// Who it is.
    pub identity: Identity,
    /// What the operator says about agents.
    pub rules: Rules,
    /// How much a peer must show of itself.
    pub trust: TrustRules,
    /// Where what must survive is kept.
    pub store: Store,
    /// Where everything is put on record; `None`: nowhere.
    pub log: Option<audit::Log>,
    /// How much of other agents is looked up at once.
    pub resolver: ResolverLimits,
    /// How many agents it remembers.
    pub peer_history: base::Limits,
    /// Its clocks.
    pub clock: Clock,
    /// Its randomness.
    pub entropy: Entropy,
}

/// What the server and the client of a node have in common.
#[derive(Debug)]
pub struct Home {
    identity: ArcSwap<Identity>,
    trust: ArcSwap<TrustRules>,
    pub(crate) standing: Arc<Standing>,
    pub(crate) resolver: Resolver,
    pub(crate) recorder: Recorder,
    pub(crate) metrics: Metrics,
    pub(crate) store: Store,
    pub(crate) clock: Clock,
    pub(crate) entropy: Entropy,
}

impl Home {
    /// Puts a node's parts together, and reads what it remembers.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn open(parts: Parts, fetcher: impl Fetcher) -> Result<Arc<Self>, store::Error> {
        let (rules, clock) = (parts.rules, parts.clock.clone());
        let standing = Standing::open(rules, &parts.store, parts.peer_history, clock).await?;
        let standing = Arc::new(standing);
        let recorder = Recorder::new(parts.log);
        let resolver = Resolver::new(
            Arc::new(fetcher),
            Arc::clone(&standing),
            recorder.clone(),
            parts.clock.clone(),
            (parts.trust.max_manifest_age, parts.resolver),
        );
        Ok(Arc::new(Self {
            identity: ArcSwap::from_pointee(parts.identity),
            trust: ArcSwap::from_pointee(parts.trust),
            standing,
            resolver,
            recorder,
            metrics: Metrics::default(),
            store: parts.store,
            clock: parts.clock,
            entropy: parts.entropy,
        }))
    }

    /// What is known of other agents.
    #[must_use]
    pub const fn resolver(&self) -> &Resolver {
        &self.resolver
    }

    /// What the operator says, and what is remembered.
    #[must_use]
    pub fn standing(&self) -> &Standing {
        &self.standing
    }

    /// How much a peer must show of itself.
    pub(crate) fn trust(&self) -> TrustRules {
        TrustRules::clone(&self.trust.load())
    }

    /// Whether a session could still begin as it did: the peer fits its pins, a trust anchor that
    /// counts gives it its level, and the base specification is enough for it if that is all it speaks.
    pub(crate) fn still_trusts<P>(&self, established: &Established<P>) -> bool {
        let peer = established.peer();
        let is_bound = match established.binding() {
            Binding::Profile => true,
            Binding::Baseline => established.baseline() == self.standing.baseline(peer.did()),
        };
        is_bound && peer.fits(&self.standing.pins(peer.did()), &self.trust.load().anchors)
    }

    pub(crate) fn set_anchors(&self, anchors: Vec<Anchor>) {
        self.standing.trust_changed();
        let trust = self.trust();
        self.trust.store(Arc::new(TrustRules { anchors, ..trust }));
    }

    /// Who the node is.
    pub(crate) fn own(&self) -> Arc<Own> {
        Arc::clone(&self.identity.load().own)
    }

    /// Its signed manifest. A DID document may be one, so it serves as both.
    pub(crate) fn manifest(&self) -> Bytes {
        self.identity.load().manifest.clone()
    }

    pub(crate) fn set_identity(&self, identity: Identity) {
        let own = Arc::clone(&identity.own);
        let before = self.identity.swap(Arc::new(identity));
        if before.own.kid() != own.kid() {
            self.recorder.own_key_changed(&own);
        }
    }
}

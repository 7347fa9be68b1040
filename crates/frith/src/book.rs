//! The operator's word about other agents, kept in the data directory: by a running node, or without one.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use a2a_identity::{TrustLevel, VerifyingKey};
use a2a_net::book::{Block, Book, BookError, Books, Pages, Peer, Pin, TrustAnchor, parse_did};
use a2e_runtime::config::{Config, Trust};
use a2e_runtime::operator::{AskError, Nothing, Operations, ask};
use a2e_runtime::{Claim, DataDir};
use anyhow::{Context, Result, anyhow};
use canonical::base64url;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::node::AccessControl;

/// The books of a node, and the file that one of them is kept in.
pub(crate) struct BookFile {
    claim: Claim,
    pub(crate) books: Arc<Books>,
    /// Held until a change is in force, so that the last one written is also the last one in force.
    change: Mutex<()>,
}

/// A change to the book that commands write.
pub(crate) trait Change: Serialize + DeserializeOwned + Send + 'static {
    /// The operation of the operator's socket.
    const OPERATION: &'static str;

    fn apply(self, book: &mut Book) -> Result<(), BookError>;
}

/// What a change has ended at a running node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct EndedSessions {
    /// Sessions of agents that came in by a DID.
    pub(crate) sessions: usize,
    /// Sessions of other agents that are served no more.
    pub(crate) peer_sessions: usize,
}

/// What both books say.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Listing {
    pub(crate) configured: Book,
    pub(crate) stored: Book,
}

impl Listing {
    /// Both, as a node asks them.
    pub(crate) fn pages(&self) -> Pages {
        Pages {
            configured: self.configured.clone(),
            stored: self.stored.clone(),
        }
    }

    /// Each, and whether it is the configuration's.
    pub(crate) const fn books(&self) -> [(&Book, bool); 2] {
        [(&self.configured, true), (&self.stored, false)]
    }
}

/// The operation that gives a [`Listing`].
const LIST: &str = "trust.list";

/// `peer.add`
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AddPeer {
    pub(crate) name: String,
    pub(crate) peer: Peer,
    /// The manifest that it must show from now on.
    pub(crate) pin: Option<Pin>,
}

/// `peer.remove`
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RemovePeer {
    pub(crate) name: String,
}

/// `trust.anchor`
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AddAnchor {
    pub(crate) name: String,
    pub(crate) anchor: TrustAnchor,
}

/// `trust.unanchor`
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RemoveAnchor {
    pub(crate) name: String,
}

/// `trust.pin`
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AddPin {
    pub(crate) did: String,
    pub(crate) pin: Pin,
}

/// `trust.unpin`
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RemovePin {
    pub(crate) did: String,
}

/// `trust.block`
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AddBlock {
    pub(crate) did: String,
    pub(crate) block: Block,
}

/// `trust.unblock`
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RemoveBlock {
    pub(crate) did: String,
}

impl Change for AddPeer {
    const OPERATION: &'static str = "peer.add";

    fn apply(self, book: &mut Book) -> Result<(), BookError> {
        let did = self.peer.did.clone();
        book.add_peer(&self.name, self.peer)?;
        match self.pin {
            Some(pin) => book.pin(&did, pin),
            None => Ok(()),
        }
    }
}

impl Change for RemovePeer {
    const OPERATION: &'static str = "peer.remove";

    fn apply(self, book: &mut Book) -> Result<(), BookError> {
        book.remove_peer(&self.name).map(drop)
    }
}

impl Change for AddAnchor {
    const OPERATION: &'static str = "trust.anchor";

    fn apply(self, book: &mut Book) -> Result<(), BookError> {
        book.add_anchor(&self.name, self.anchor)
    }
}

impl Change for RemoveAnchor {
    const OPERATION: &'static str = "trust.unanchor";

    fn apply(self, book: &mut Book) -> Result<(), BookError> {
        book.remove_anchor(&self.name).map(drop)
    }
}

impl Change for AddPin {
    const OPERATION: &'static str = "trust.pin";

    fn apply(self, book: &mut Book) -> Result<(), BookError> {
        book.pin(&parse_did(&self.did)?, self.pin)
    }
}

impl Change for RemovePin {
    const OPERATION: &'static str = "trust.unpin";

    fn apply(self, book: &mut Book) -> Result<(), BookError> {
        book.unpin(&parse_did(&self.did)?)
    }
}

impl Change for AddBlock {
    const OPERATION: &'static str = "trust.block";

    fn apply(self, book: &mut Book) -> Result<(), BookError> {
        book.block(&parse_did(&self.did)?, self.block)
    }
}

impl Change for RemoveBlock {
    const OPERATION: &'static str = "trust.unblock";

    fn apply(self, book: &mut Book) -> Result<(), BookError> {
        book.unblock(&parse_did(&self.did)?)
    }
}

impl BookFile {
    /// The books of a data directory and a configuration.
    pub(crate) fn open(claim: Claim, config: &Config) -> Result<Self> {
        let path = claim.dir().trust();
        let stored = match claim.read_private(&path)? {
            Some(bytes) => Book::parse(&bytes).with_context(|| {
                format!(
                    "{} is damaged; put back a copy of it, or delete it and say again what it said",
                    path.display()
                )
            })?,
            None => Book::default(),
        };
        Ok(Self {
            books: Arc::new(Books::new(configured(&config.trust)?, stored)),
            claim,
            change: Mutex::new(()),
        })
    }

    /// Makes a change: it is on the disk before it is in force, and `activate` has put it in force
    /// before the next change begins.
    pub(crate) fn change(&self, change: impl Change, activate: impl FnOnce(&Pages)) -> Result<()> {
        let _changing = self.lock();
        let mut book = self.books.pages().stored.clone();
        change.apply(&mut book)?;
        let mut bytes = serde_json::to_vec_pretty(&book)?;
        bytes.push(b'\n');
        self.claim
            .write_private(&self.claim.dir().trust(), &bytes)?;
        self.books.store(book);
        activate(&self.books.pages());
        Ok(())
    }

    /// Takes over what another configuration says. `activate` puts it in force, as for a change.
    pub(crate) fn configure(&self, configured: Book, activate: impl FnOnce(&Pages)) {
        let _changing = self.lock();
        self.books.configure(configured);
        activate(&self.books.pages());
    }

    /// Puts in force what goes with the books and has changed, while they stay as they are.
    pub(crate) fn activate(&self, activate: impl FnOnce(&Pages)) {
        let _changing = self.lock();
        activate(&self.books.pages());
    }

    fn lock(&self) -> MutexGuard<'_, ()> {
        self.change.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn list(&self) -> Listing {
        let pages = self.books.pages();
        Listing {
            configured: pages.configured.clone(),
            stored: pages.stored.clone(),
        }
    }
}

/// Lets the operator of a running node change its book.
pub(crate) fn serve(
    operations: Operations,
    file: &Arc<BookFile>,
    access: &AccessControl,
) -> Operations {
    let listing = Arc::clone(file);
    let operations = operations.add(LIST, move |_: Nothing| {
        std::future::ready(Ok::<_, String>(listing.list()))
    });
    let operations = serve_change::<AddPeer>(operations, access);
    let operations = serve_change::<RemovePeer>(operations, access);
    let operations = serve_change::<AddAnchor>(operations, access);
    let operations = serve_change::<RemoveAnchor>(operations, access);
    let operations = serve_change::<AddPin>(operations, access);
    let operations = serve_change::<RemovePin>(operations, access);
    let operations = serve_change::<AddBlock>(operations, access);
    serve_change::<RemoveBlock>(operations, access)
}

fn serve_change<C: Change>(operations: Operations, access: &AccessControl) -> Operations {
    let access = access.clone();
    operations.add(C::OPERATION, move |change: C| {
        let access = access.clone();
        async move {
            let changing = access.clone();
            // A file is written, which may take a while.
            let done = tokio::task::spawn_blocking(move || changing.change(change)).await;
            let done = done.map_err(|error| format!("the operation broke off: {error}"))?;
            let peer_sessions = done.map_err(|error| format!("{error:#}"))?;
            let ended = access.end_unwelcome().await;
            let sessions = ended.map_err(|error| {
                format!("it holds, but old sessions of blocked agents stay on record: {error}")
            })?;
            Ok(EndedSessions {
                sessions,
                peer_sessions,
            })
        }
    })
}

/// Has a change made by the node that runs, or makes it itself if none does: then nothing has ended.
pub(crate) async fn change<C: Change>(dir: &DataDir, change: C) -> Result<Option<EndedSessions>> {
    match ask(dir, C::OPERATION, &change).await {
        Err(AskError::NoNode { .. }) => {
            alone(dir)?.change(change, |_| ())?;
            Ok(None)
        }
        asked => Ok(Some(asked?)),
    }
}

/// What is known. Without a node that is what commands said: which configuration counts is not known.
pub(crate) async fn list(dir: &DataDir) -> Result<Listing> {
    match ask(dir, LIST, &Nothing {}).await {
        Err(AskError::NoNode { .. }) if !dir.path().exists() => Ok(Listing {
            configured: Book::default(),
            stored: Book::default(),
        }),
        Err(AskError::NoNode { .. }) => Ok(alone(dir)?.list()),
        asked => Ok(asked?),
    }
}

/// The book of a directory that no node works on.
fn alone(dir: &DataDir) -> Result<BookFile> {
    BookFile::open(dir.claim()?, &Config::default())
}

/// What the section `trust` says, as a book.
pub(crate) fn configured(trust: &Trust) -> Result<Book> {
    let mut book = Book::default();
    for anchor in &trust.anchors {
        let place = format!("`trust.anchors.{}` of the configuration", anchor.name);
        let read = || -> Result<TrustAnchor> {
            Ok(TrustAnchor {
                did: parse_did(&anchor.did)?,
                public_key: anchor.public_key.as_deref().map(public_key).transpose()?,
                min_trust_level: level(anchor.min_trust_level),
            })
        };
        let added = read().and_then(|read| Ok(book.add_anchor(&anchor.name, read)?));
        added.context(place)?;
    }
    for pin in &trust.pins {
        let stated = Pin {
            manifest: pin.manifest,
            keys: pin.keys.clone(),
            ..Pin::default()
        };
        let pinned = parse_did(&pin.did).and_then(|did| book.pin(&did, stated));
        pinned.context("`trust.pins` of the configuration")?;
    }
    for did in &trust.blocked {
        let blocked = parse_did(did).and_then(|did| book.block(&did, Block::default()));
        blocked.context("`trust.blocked` of the configuration")?;
    }
    Ok(book)
}

/// Reads a public key in base64url.
pub(crate) fn public_key(text: &str) -> Result<VerifyingKey> {
    let bytes = base64url::decode(text).ok();
    let bytes: Option<[u8; 32]> = bytes.and_then(|bytes| bytes.try_into().ok());
    let bytes = bytes.ok_or_else(|| anyhow!("a public key is 32 bytes in base64url"))?;
    Ok(VerifyingKey::from_bytes(&bytes)?)
}

/// The level of that name, in the words of another crate.
pub(crate) const fn level(level: policy::TrustLevel) -> TrustLevel {
    match level {
        policy::TrustLevel::Own => TrustLevel::Own,
        policy::TrustLevel::Delegated => TrustLevel::Delegated,
        policy::TrustLevel::Verified => TrustLevel::Verified,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use super::*;

    /// Something that puts the books in force by the closure that it is given.
    type Activation = fn(&BookFile, &mut dyn FnMut(&Pages));

    fn block(did: &str) -> AddBlock {
        AddBlock {
            did: did.to_owned(),
            block: Block::default(),
        }
    }

    /// What is confirmed is in force, whatever else is put in force at the same time and takes its time:
    /// another change, a configuration that is read again, or addresses of peers.
    #[test]
    fn a_confirmed_block_is_in_force_while_the_book_is_changed_otherwise() {
        let ways: [Activation; 3] = [
            |file, activate| {
                file.change(block("did:web:other.example.com"), activate)
                    .unwrap()
            },
            |file, activate| file.configure(Book::default(), activate),
            |file, activate| file.activate(activate),
        ];
        for way in ways {
            let folder = tempfile::tempdir().unwrap();
            let claim = DataDir::new(folder.path().join("data")).claim().unwrap();
            let file = BookFile::open(claim, &Config::default()).unwrap();
            let in_force = Mutex::new(BTreeSet::new());
            let (begun, has_begun) = mpsc::channel();
            let (confirmed, is_confirmed) = mpsc::channel();
            thread::scope(|scope| {
                let (file, in_force) = (&file, &in_force);
                scope.spawn(move || {
                    way(file, &mut |pages| {
                        let blocked = pages.blocked();
                        begun.send(()).unwrap();
                        // Long enough for the block to come between, if it could.
                        let _ = is_confirmed.recv_timeout(Duration::from_millis(300));
                        *in_force.lock().unwrap() = blocked;
                    });
                });
                has_begun.recv().unwrap();
                let activate = |pages: &Pages| *in_force.lock().unwrap() = pages.blocked();
                file.change(block("did:web:mallory.example.com"), activate)
                    .unwrap();
                let _ = confirmed.send(());
            });
            let listed: BTreeSet<String> = file.list().stored.blocked().keys().cloned().collect();
            assert!(listed.contains("did:web:mallory.example.com"));
            assert_eq!(in_force.into_inner().unwrap(), listed);
        }
    }
}

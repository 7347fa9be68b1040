//! Resolution of a DID as a plan: what to fetch next, and what an answer means.
//!
//! The network layer carries out each [`Fetch`] by the fetch rules of profile §4 and gives the
//! outcome back; every decision (order, fallback, match, ownership, pins) is made here.

use a2a_wire::{Endpoint, ErrorCode, limits, parse_document};
use canonical::Value;

use crate::{Did, DidDocument, DidGithub, DidWeb, DocumentError, ManifestError, RootKeys};

/// How much to find out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Want {
    /// The root keys: the manifest came another way.
    Keys,
    /// The manifest too.
    Manifest,
}

/// Something to fetch: GET, by the fetch rules of profile §4.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetch {
    /// Where.
    pub url: String,
    /// What it is.
    pub what: Document,
}

/// The kinds of things that are fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Document {
    /// A DID document.
    DidDocument,
    /// A manifest.
    Manifest,
    /// A manifest on GitHub's raw host, which says `text/plain`.
    RawManifest,
    /// GitHub's word on a repository. The only fetch that an API token may go with.
    Ownership,
}

impl Document {
    /// Bytes after which reading stops.
    #[must_use]
    pub const fn limit(self) -> usize {
        match self {
            Self::DidDocument | Self::Ownership => limits::DID_DOCUMENT,
            Self::Manifest | Self::RawManifest => limits::MANIFEST,
        }
    }

    /// Whether `text/plain` counts as JSON here.
    #[must_use]
    pub const fn may_be_plain_text(self) -> bool {
        matches!(self, Self::RawManifest)
    }
}

/// What came of a fetch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// 200, with a whole body of the right type within the limit.
    Body(Vec<u8>),
    /// Another status that is no redirect.
    Status(u16),
    /// A redirect. It is not followed.
    Redirect,
    /// No answer in time, or no connection.
    Unreachable,
    /// The certificate of the server is not trusted.
    Untrusted,
    /// The rules forbid it, TLS failed otherwise, or the body was too long, compressed or of another type.
    Refused,
}

impl Answer {
    /// The body of an answer that must have one.
    ///
    /// # Errors
    /// What was wrong with the answer.
    pub fn into_body(self, url: &str) -> Result<Vec<u8>, ResolveError> {
        let url = url.to_owned();
        let cause = match self {
            Self::Body(bytes) => return Ok(bytes),
            Self::Status(404 | 410) => return Err(ResolveError::NotFound(url)),
            Self::Unreachable => return Err(ResolveError::Unavailable(url)),
            Self::Untrusted => return Err(ResolveError::Untrusted(url)),
            Self::Status(status) => format!("it answered with status {status}"),
            Self::Redirect => "it answered with a redirect, which is not followed".to_owned(),
            Self::Refused => {
                "TLS failed, or it is not a public address, or the answer is not JSON, \
             compressed or too large"
                    .to_owned()
            }
        };
        Err(ResolveError::Unusable { url, cause })
    }
}

/// The next step of a resolution.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Fetch this and call [`Resolution::answer`].
    Fetch(Fetch),
    /// It is known.
    Done(Box<Resolved>),
    /// It cannot be known.
    Failed(ResolveError),
}

/// What is known of a DID.
#[derive(Debug, Clone, PartialEq)]
pub struct Resolved {
    /// Who.
    pub did: Did,
    /// The keys a manifest of this DID must be signed with; `None` if they are those of the manifest,
    /// because its place proves whose it is.
    pub(crate) root: Option<RootKeys>,
    /// The manifest as it was fetched, not verified yet.
    pub manifest: Option<Vec<u8>>,
    /// Where the agent can be reached, as far as the DID document says.
    pub endpoints: Vec<Endpoint>,
    /// What to pin at first sight of a did:github.
    pub github: Option<GithubIds>,
}

/// GitHub's numbers for a repository and its owner. Names can be given up and taken by others;
/// numbers cannot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GithubIds {
    /// The repository.
    pub repository: i64,
    /// Its owner.
    pub owner: i64,
}

impl Resolved {
    pub(crate) const fn published(
        did: DidGithub,
        manifest: Vec<u8>,
        github: Option<GithubIds>,
    ) -> Self {
        Self {
            did: Did::Github(did),
            root: None,
            manifest: Some(manifest),
            endpoints: Vec::new(),
            github,
        }
    }
}

/// Why a DID cannot be resolved.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ResolveError {
    /// Nothing is there.
    #[error("nothing is published at {0}")]
    NotFound(String),
    /// The answer was a redirect, an error, or broke a rule.
    #[error("{url}: {cause}")]
    Unusable {
        /// What was fetched.
        url: String,
        /// What was wrong.
        cause: String,
    },
    /// The certificate of the server is not trusted.
    #[error(
        "the certificate of {0} is not trusted here; if you trust it, name the file of its certificate authority in `a2a.tls.roots`"
    )]
    Untrusted(String),
    /// The network is at fault, or GitHub's quota; another time it may work.
    #[error("{0} cannot be reached now")]
    Unavailable(String),
    /// Too much is looked up for others.
    #[error("too many agents are looked up at once; try again later")]
    Busy,
    /// The document is wrong.
    #[error(transparent)]
    Document(#[from] DocumentError),
    /// What is published is not what the agent has shown of itself.
    #[error(
        "the published manifest is not the one that the agent has named, or lacks one of its keys"
    )]
    NotShown,
    /// GitHub says the repository is not what the DID says.
    #[error("GitHub does not confirm that the repository exists and belongs to its owner")]
    Ownership,
    /// The repository or its owner is not the one seen before.
    #[error("the repository or its owner is not the one that was seen before under this name")]
    GithubChanged,
    /// Its manifest was found and is refused.
    #[error("its manifest is refused: {0}")]
    Manifest(#[from] ManifestError),
    /// An answer to a question that was not asked.
    #[error("the resolution was over")]
    Over,
}

impl ResolveError {
    /// The code to answer with.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Manifest(error) => error.code(),
            Self::Unavailable(_) | Self::Busy => ErrorCode::ServiceUnavailable,
            Self::NotFound(_)
            | Self::Unusable { .. }
            | Self::Untrusted(_)
            | Self::Document(_)
            | Self::NotShown
            | Self::Ownership
            | Self::GithubChanged
            | Self::Over => ErrorCode::UnverifiedAgent,
        }
    }
}

/// A resolution on its way.
#[derive(Debug, Clone)]
pub struct Resolution {
    did: Did,
    want: Want,
    /// The ids seen when this did:github was resolved first.
    pinned: Option<GithubIds>,
    state: State,
}

#[derive(Debug, Clone)]
enum State {
    WebDocument { fallback: Option<String> },
    WebManifest(Box<DidDocument>),
    GithubManifest,
    GithubOwner(Vec<u8>),
    Over,
}

impl Resolution {
    /// Begins; the first step comes with it.
    #[must_use]
    pub fn begin(did: Did, want: Want, pinned: Option<GithubIds>) -> (Self, Step) {
        let (state, step) = match &did {
            Did::Key(key) => {
                let root = RootKeys::DidKey(key.key().clone());
                let done = resolved(&did, Some(root), None);
                (State::Over, Step::Done(Box::new(done)))
            }
            Did::Web(web) => {
                let mut urls = web.document_urls().into_iter();
                let url = urls.next().unwrap_or_default();
                let state = State::WebDocument {
                    fallback: urls.next(),
                };
                (state, fetch(url, Document::DidDocument))
            }
            Did::Github(github) => (
                State::GithubManifest,
                fetch(github.manifest_url(), Document::RawManifest),
            ),
        };
        let resolution = Self {
            did,
            want,
            pinned,
            state,
        };
        (resolution, step)
    }

    /// Takes what came of the last fetch; returns the next step.
    pub fn answer(&mut self, url: &str, answer: Answer) -> Step {
        let state = std::mem::replace(&mut self.state, State::Over);
        let step = match (state, self.did.clone()) {
            (State::WebDocument { fallback }, Did::Web(web)) => {
                self.web_document(&web, url, answer, fallback)
            }
            (State::WebManifest(document), Did::Web(_)) => {
                self.web_manifest(*document, url, answer)
            }
            (State::GithubManifest, Did::Github(github)) => {
                self.github_manifest(&github, url, answer)
            }
            (State::GithubOwner(manifest), Did::Github(github)) => {
                self.github_owner(&github, manifest, url, answer)
            }
            _ => Err(ResolveError::Over),
        };
        step.unwrap_or_else(|error| {
            self.state = State::Over;
            Step::Failed(error)
        })
    }

    /// The manifest of a did:github, once only its owner is left to be asked for. Verify it first: GitHub
    /// answers few such questions in an hour.
    #[must_use]
    pub fn published(&self) -> Option<&[u8]> {
        match &self.state {
            State::GithubOwner(manifest) => Some(manifest),
            State::WebDocument { .. }
            | State::WebManifest(_)
            | State::GithubManifest
            | State::Over => None,
        }
    }

    /// Goes on with what GitHub said of the repository a while ago, in place of asking again.
    pub fn owner_known(&mut self, ids: GithubIds) -> Step {
        let state = std::mem::replace(&mut self.state, State::Over);
        let step = match (state, &self.did) {
            (State::GithubOwner(manifest), Did::Github(github)) => {
                self.owned(github, manifest, ids)
            }
            _ => Err(ResolveError::Over),
        };
        step.unwrap_or_else(Step::Failed)
    }

    fn web_document(
        &mut self,
        web: &DidWeb,
        url: &str,
        answer: Answer,
        fallback: Option<String>,
    ) -> Result<Step, ResolveError> {
        let read = match answer.into_body(url) {
            Ok(bytes) => DidDocument::read(&bytes, &self.did).map(|document| (document, bytes)),
            // Only what is plainly not there, or plainly someone else's, sends us on.
            Err(ResolveError::NotFound(_)) if fallback.is_some() => Err(DocumentError::OtherDid),
            Err(error) => return Err(error),
        };
        let (document, bytes) = match (read, fallback) {
            (Ok(found), _) => found,
            (Err(DocumentError::OtherDid), Some(next)) => {
                self.state = State::WebDocument { fallback: None };
                return Ok(fetch(next, Document::DidDocument));
            }
            (Err(error), _) => return Err(error.into()),
        };
        if document.is_manifest || self.want == Want::Keys {
            let manifest = document.is_manifest.then_some(bytes);
            return Ok(self.done(document, manifest));
        }
        let place = document.manifest_url.clone();
        let place = place.unwrap_or_else(|| web.manifest_url());
        self.state = State::WebManifest(Box::new(document));
        Ok(fetch(place, Document::Manifest))
    }

    fn web_manifest(
        &self,
        document: DidDocument,
        url: &str,
        answer: Answer,
    ) -> Result<Step, ResolveError> {
        match answer.into_body(url) {
            Ok(manifest) => Ok(self.done(document, Some(manifest))),
            Err(ResolveError::NotFound(_)) => Ok(self.done(document, None)),
            Err(error) => Err(error),
        }
    }

    fn github_manifest(
        &mut self,
        github: &DidGithub,
        url: &str,
        answer: Answer,
    ) -> Result<Step, ResolveError> {
        self.state = State::GithubOwner(answer.into_body(url)?);
        Ok(fetch(github.ownership_url(), Document::Ownership))
    }

    fn github_owner(
        &self,
        github: &DidGithub,
        manifest: Vec<u8>,
        url: &str,
        answer: Answer,
    ) -> Result<Step, ResolveError> {
        // GitHub says 403 or 429 when the quota is used up: that proves nothing either way.
        if matches!(answer, Answer::Status(403 | 429)) {
            return Err(ResolveError::Unavailable(url.to_owned()));
        }
        let ids = confirm_owner(github, &answer.into_body(url)?).ok_or(ResolveError::Ownership)?;
        self.owned(github, manifest, ids)
    }

    fn owned(
        &self,
        github: &DidGithub,
        manifest: Vec<u8>,
        ids: GithubIds,
    ) -> Result<Step, ResolveError> {
        if self.pinned.is_some_and(|pinned| pinned != ids) {
            return Err(ResolveError::GithubChanged);
        }
        let done = Resolved::published(github.clone(), manifest, Some(ids));
        Ok(Step::Done(Box::new(done)))
    }

    fn done(&self, document: DidDocument, manifest: Option<Vec<u8>>) -> Step {
        let mut done = resolved(&self.did, Some(RootKeys::Document(document.keys)), manifest);
        done.endpoints = document.endpoints;
        Step::Done(Box::new(done))
    }
}

const fn fetch(url: String, what: Document) -> Step {
    Step::Fetch(Fetch { url, what })
}

fn resolved(did: &Did, root: Option<RootKeys>, manifest: Option<Vec<u8>>) -> Resolved {
    Resolved {
        did: did.clone(),
        root,
        manifest,
        endpoints: Vec::new(),
        github: None,
    }
}

/// The ids of a repository, if GitHub says it is the one the DID names and is not disabled.
fn confirm_owner(github: &DidGithub, bytes: &[u8]) -> Option<GithubIds> {
    let value = parse_document(bytes, Document::Ownership.limit()).ok()?;
    let repository = value.as_object()?;
    let owner = repository.get("owner")?.as_object()?;
    let is = |value: Option<&Value<'_>>, expected: &str| {
        value
            .and_then(Value::as_str)
            .is_some_and(|text| text.eq_ignore_ascii_case(expected))
    };
    let id = |value: Option<&Value<'_>>| match value {
        Some(Value::Number(number)) => number.as_i64(),
        _ => None,
    };
    let confirmed = is(repository.get("full_name"), &github.full_name())
        && is(owner.get("login"), github.owner())
        && matches!(repository.get("disabled"), None | Some(Value::Bool(false)));
    let ids = GithubIds {
        repository: id(repository.get("id"))?,
        owner: id(owner.get("id"))?,
    };
    confirmed.then_some(ids)
}

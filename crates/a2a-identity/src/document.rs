//! DID documents of did:web: the base specification's shape and W3C's (profile §4).

use std::collections::{BTreeMap, BTreeSet};

use a2a_wire::{
    Endpoint, FieldError, Kid, PublicKey, Read, Url, WireError, Word, limits, parse_document,
};
use canonical::{Object, Value};

use crate::did::multibase_key;
use crate::keyset::{MAX_KEYS, read_key_bytes};
use crate::url::WebUrl;
use crate::{Did, Key, KeyProblem, KeySet, KeySetError, KeyStatus};

/// What a DID document says.
#[derive(Debug, Clone, PartialEq)]
pub struct DidDocument {
    /// The root keys of the DID.
    pub keys: KeySet,
    /// Where the agent can be reached, as far as the document says.
    pub endpoints: Vec<Endpoint>,
    /// Where the manifest is, if the document says.
    pub manifest_url: Option<String>,
    /// Whether the document is a signed manifest itself.
    pub is_manifest: bool,
}

/// Why a document is not that of the DID sought.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum DocumentError {
    /// It is a good document, but of someone else.
    #[error("the document belongs to another DID")]
    OtherDid,
    /// It is too long or not strict JSON, or a member is wrong.
    #[error("the DID document is wrong: {0}")]
    Wire(#[from] WireError),
    /// It does not say whose it is, or says two things.
    #[error("the DID document does not say clearly whose it is")]
    NoDid,
    /// Its keys are refused.
    #[error("the keys of the DID document are refused: {0}")]
    Keys(#[from] KeySetError),
    /// A key is written in a way that is none.
    #[error("verificationMethod: {0}")]
    Method(&'static str),
    /// Its manifest is elsewhere.
    #[error("the manifest of a DID document must be at the same host")]
    ForeignManifest,
}

impl From<FieldError> for DocumentError {
    fn from(error: FieldError) -> Self {
        Self::Wire(error.into())
    }
}

impl DidDocument {
    /// Reads the document of a DID.
    ///
    /// # Errors
    /// If it is malformed, of someone else, or without a usable key.
    pub fn read(bytes: &[u8], did: &Did) -> Result<Self, DocumentError> {
        let value = parse_document(bytes, limits::DID_DOCUMENT)?;
        let wrong = || FieldError {
            path: String::new(),
            problem: a2a_wire::Problem::Type {
                expected: "an object",
                found: value.describe(),
            },
        };
        let object = value.as_object().ok_or_else(wrong)?;
        let owner = owner(object)?;
        // Someone else's document must be a good one too before it sends us on.
        let document = match object.get("public_keys") {
            Some(keys) => base_document(object, keys)?,
            None => w3c_document(object, &owner)?,
        };
        match owner == *did {
            true => Ok(document),
            false => Err(DocumentError::OtherDid),
        }
    }
}

/// Whom the document is about: `agent_did` or `id`, or both if they agree.
fn owner(object: &Object<'_>) -> Result<Did, DocumentError> {
    let mut found = None;
    for name in ["agent_did", "id"] {
        let Some(value) = object
            .get(name)
            .filter(|value| !matches!(value, Value::Null))
        else {
            continue;
        };
        let text = value.as_str().ok_or(DocumentError::NoDid)?;
        let did: Did = text.parse().map_err(|_| DocumentError::NoDid)?;
        match found {
            Some(other) if other != did => return Err(DocumentError::NoDid),
            _ => found = Some(did),
        }
    }
    found.ok_or(DocumentError::NoDid)
}

fn base_document(object: &Object<'_>, keys: &Value<'_>) -> Result<DidDocument, DocumentError> {
    let within = |name: &str, error: FieldError| FieldError {
        path: match error.path.as_str() {
            path if path.starts_with('[') => format!("{name}{path}"),
            path => format!("{name}.{path}"),
        },
        ..error
    };
    let keys = Vec::<PublicKey>::read(keys).map_err(|error| within("public_keys", error))?;
    let endpoints = match object.get("endpoints") {
        Some(list) if !matches!(list, Value::Null) => {
            Vec::<Endpoint>::read(list).map_err(|error| within("endpoints", error))?
        }
        Some(_) | None => Vec::new(),
    };
    Ok(DidDocument {
        keys: KeySet::read(&keys, None)?,
        endpoints,
        manifest_url: None,
        is_manifest: object.get("manifest_signature").is_some(),
    })
}

fn w3c_document(object: &Object<'_>, owner: &Did) -> Result<DidDocument, DocumentError> {
    let methods = methods_by_name(object, owner)?;
    let mut keys: Vec<Key> = Vec::new();
    let mut seen = BTreeSet::new();
    for entry in ["authentication", "assertionMethod"]
        .into_iter()
        .flat_map(|purpose| list(object, purpose))
    {
        let method = match entry {
            // The same method for both purposes is looked at once.
            Value::String(reference) => fragment(reference, owner)
                .filter(|name| seen.insert(*name))
                .and_then(|name| methods.get(name).copied()),
            Value::Object(embedded) => Some(embedded),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => None,
        };
        let key = method.map(|method| method_key(method, owner)).transpose()?;
        if let Some(key) = key.flatten().filter(|key| !keys.contains(key)) {
            keys.push(key);
        }
        // More are refused in the end; reading them all could take long.
        if keys.len() > MAX_KEYS {
            break;
        }
    }
    let mut document = DidDocument {
        keys: KeySet::new(keys)?,
        endpoints: Vec::new(),
        manifest_url: None,
        is_manifest: false,
    };
    for service in list(object, "service") {
        add_service(&mut document, service, owner)?;
    }
    Ok(document)
}

/// The verification methods that belong to the DID, by what stands after `#`.
fn methods_by_name<'v, 'a>(
    object: &'v Object<'a>,
    owner: &Did,
) -> Result<BTreeMap<&'v str, &'v Object<'a>>, DocumentError> {
    let mut methods = BTreeMap::new();
    for method in list(object, "verificationMethod") {
        let named = method.as_object().and_then(|method| {
            let id = method.get("id")?.as_str()?;
            Some((fragment(id, owner)?, method))
        });
        if let Some((name, method)) = named
            && methods.insert(name, method).is_some()
        {
            return Err(DocumentError::Method("two of them have one id"));
        }
    }
    Ok(methods)
}

/// The elements of a member that is a list; of any other member, none.
fn list<'v, 'a>(object: &'v Object<'a>, name: &str) -> &'v [Value<'a>] {
    match object.get(name) {
        Some(Value::Array(list)) => list,
        _ => &[],
    }
}

/// What stands after `#` in a name of this DID, absolute or relative.
fn fragment<'t>(id: &'t str, owner: &Did) -> Option<&'t str> {
    let (did, fragment) = id.split_once('#')?;
    (did.is_empty() || owner.is(did)).then_some(fragment)
}

/// The key of a verification method; `None` if it is of a kind we do not use, or not the DID's own.
fn method_key(method: &Object<'_>, owner: &Did) -> Result<Option<Key>, DocumentError> {
    let text = |name: &str| method.get(name).and_then(Value::as_str);
    if !text("controller").is_some_and(|controller| owner.is(controller)) {
        return Ok(None);
    }
    let key = match text("type") {
        Some(kind @ ("Multikey" | "Ed25519VerificationKey2020")) => {
            let text = text("publicKeyMultibase");
            let text = text.ok_or(DocumentError::Method("publicKeyMultibase is missing"))?;
            // All Ed25519 keys begin so; a Multikey may be of any other kind.
            if kind == "Multikey" && !text.starts_with("z6Mk") {
                return Ok(None);
            }
            multibase_key(text)
                .map_err(|_| DocumentError::Method("publicKeyMultibase is no Ed25519 key"))?
        }
        Some("JsonWebKey2020" | "JsonWebKey") => {
            let jwk = method.get("publicKeyJwk");
            let jwk = jwk.ok_or(DocumentError::Method("publicKeyJwk is missing"))?;
            let jwk = PublicKey::read(jwk)?;
            match read_key_bytes(&jwk) {
                Ok(key) => key,
                // A key of another kind.
                Err(KeyProblem::Member(_)) => return Ok(None),
                Err(problem) => return Err(KeySetError::Key { index: 0, problem }.into()),
            }
        }
        _ => return Ok(None),
    };
    let name = text("id").and_then(|id| fragment(id, owner));
    let kid = name.and_then(|name| name.parse::<Kid>().ok());
    Ok(Some(Key {
        kid: kid.ok_or(DocumentError::Method("its id names no key of this DID"))?,
        key,
        status: KeyStatus::Active,
        expires_at: None,
    }))
}

fn add_service(
    document: &mut DidDocument,
    service: &Value<'_>,
    owner: &Did,
) -> Result<(), DocumentError> {
    let Some(service) = service.as_object() else {
        return Ok(());
    };
    let (Some(kind), Some(url)) = (
        service.get("type").and_then(Value::as_str),
        service.get("serviceEndpoint").and_then(Value::as_str),
    ) else {
        return Ok(());
    };
    match kind {
        "A2AHandshake" => {
            if let (Ok(url), Ok(kind)) = (url.parse::<Url>(), "handshake".parse::<Word>()) {
                document.endpoints.push(Endpoint {
                    kind,
                    url,
                    transport: None,
                });
            }
        }
        "A2AManifest" => {
            let same_host = match (owner, WebUrl::parse(url)) {
                (Did::Web(did), Ok(url)) => url.is_https() && url.origin() == did.origin(),
                _ => false,
            };
            if !same_host {
                return Err(DocumentError::ForeignManifest);
            }
            document.manifest_url = Some(url.to_owned());
        }
        _ => {}
    }
    Ok(())
}

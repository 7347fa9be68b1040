//! Who gives tokens for a server: what it says of itself (RFC 9728), and what that one says (RFC 8414,
//! the discovery of `OpenID` Connect).

use a2e_runtime::config::McpUrl;
use hyper::{Method, StatusCode, Uri};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::challenge::Challenge;
use super::web::LoginWeb;

/// Who gives tokens, and how they are asked for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Giver {
    /// Its name for itself; nothing for one that does not say.
    pub(super) issuer: Option<String>,
    /// Where a browser logs in.
    pub(super) login: String,
    pub(super) token: String,
    /// Where clients make themselves known.
    pub(super) registration: Option<String>,
    /// How clients prove who they are.
    pub(super) methods: Vec<String>,
    /// What it can give.
    pub(super) scopes: Vec<String>,
    /// Whether the address of a document is a client.
    pub(super) takes_documents: bool,
    /// Whether it says who it is when a browser comes back.
    pub(super) names_itself: bool,
}

/// What a server says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Found {
    /// What tokens are for.
    pub(super) resource: String,
    /// What they may have to be good for.
    pub(super) scopes: Vec<String>,
    pub(super) giver: Giver,
    /// Whether anything of this was said, and not only guessed.
    pub(super) is_told: bool,
}

#[derive(Deserialize)]
struct Resource {
    resource: String,
    #[serde(default)]
    authorization_servers: Vec<String>,
    #[serde(default)]
    scopes_supported: Vec<String>,
}

#[derive(Deserialize)]
struct Metadata {
    issuer: Option<String>,
    authorization_endpoint: Option<String>,
    token_endpoint: String,
    registration_endpoint: Option<String>,
    #[serde(default)]
    token_endpoint_auth_methods_supported: Vec<String>,
    #[serde(default)]
    scopes_supported: Vec<String>,
    code_challenge_methods_supported: Option<Vec<String>>,
    #[serde(default)]
    client_id_metadata_document_supported: bool,
    #[serde(default)]
    authorization_response_iss_parameter_supported: bool,
}

/// Finds out who gives tokens for the server at this address: the issuer that the operator has named, or
/// else whom the server names.
///
/// # Errors
/// In words, what is in the way.
pub(super) async fn discover(
    web: &LoginWeb,
    at: &McpUrl,
    challenge: Option<&Challenge>,
) -> Result<Found, String> {
    let (url, named) = (at.url.as_str(), at.oauth.issuer.as_ref());
    let place = Place::of(url).ok_or("its address cannot be used")?;
    if let Some(resource) = resource(web, &place, challenge).await? {
        if !is_for(&resource.resource, &place) {
            return Err(format!(
                "it says that it is {}, which is not where it is",
                resource.resource
            ));
        }
        let said = &resource.authorization_servers;
        if let Some(named) = named
            && !said.iter().any(|it| same(it, named))
        {
            let said = said.first().map_or("nobody", String::as_str);
            return Err(format!(
                "it says that {said} gives tokens for it, and `issuer` of its `oauth` is {named}: \
                 nothing was asked of either; see which of them is right"
            ));
        }
        let Some(issuer) = named.or_else(|| said.first()) else {
            return Err("it does not say who gives tokens for it".to_owned());
        };
        return Ok(Found {
            resource: resource.resource,
            scopes: resource.scopes_supported,
            giver: issuer_of(web, issuer).await?,
            is_told: true,
        });
    }
    if let Some(named) = named {
        return Ok(Found {
            resource: url.to_owned(),
            scopes: Vec::new(),
            giver: issuer_of(web, named).await?,
            is_told: true,
        });
    }
    // As it was before servers said so: it gives its tokens itself.
    let own = Place {
        path: String::new(),
        ..place
    };
    let giver = giver(web, &own, None).await?;
    Ok(Found {
        resource: url.to_owned(),
        scopes: Vec::new(),
        is_told: giver.is_some(),
        giver: giver.unwrap_or_else(|| Giver {
            login: own.with("/authorize"),
            token: own.with("/token"),
            registration: Some(own.with("/register")),
            ..Giver::default()
        }),
    })
}

/// What an issuer says of itself.
async fn issuer_of(web: &LoginWeb, issuer: &String) -> Result<Giver, String> {
    let at = Place::of(issuer).ok_or("whoever gives tokens for it has no address")?;
    let none = || format!("{issuer}, who gives tokens for it, says nothing of itself");
    giver(web, &at, Some(issuer)).await?.ok_or_else(none)
}

/// Whether two names of an issuer are one.
fn same(one: &str, other: &str) -> bool {
    one.trim_end_matches('/') == other.trim_end_matches('/')
}

/// The scheme, host and port of an address, and its path.
struct Place {
    origin: String,
    /// Without the last slash.
    path: String,
}

impl Place {
    fn of(url: &str) -> Option<Self> {
        let uri: Uri = url.parse().ok()?;
        let (scheme, authority) = (uri.scheme_str()?, uri.authority()?);
        let origin = format!("{scheme}://{authority}").to_ascii_lowercase();
        Some(Self {
            origin,
            path: uri.path().trim_end_matches('/').to_owned(),
        })
    }

    fn with(&self, path: &str) -> String {
        format!("{}{path}", self.origin)
    }
}

/// Whether what a server calls itself is where it is, or above that.
fn is_for(resource: &str, place: &Place) -> bool {
    let Some(named) = Place::of(resource) else {
        return false;
    };
    let below = place.path.strip_prefix(&named.path);
    let is_above = below.is_some_and(|below| below.is_empty() || below.starts_with('/'));
    named.origin == place.origin && is_above && !resource.contains('#')
}

async fn resource(
    web: &LoginWeb,
    place: &Place,
    challenge: Option<&Challenge>,
) -> Result<Option<Resource>, String> {
    const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";
    if let Some(named) = challenge.and_then(|it| it.metadata.as_deref()) {
        let named = match named.starts_with('/') {
            true => place.with(named),
            false => named.to_owned(),
        };
        let none = || format!("it points to {named}, where nothing is said of it");
        return get(web, &named).await?.map(Some).ok_or_else(none);
    }
    let mut guesses = vec![place.with(&format!("{WELL_KNOWN}{}", place.path))];
    if !place.path.is_empty() {
        guesses.push(place.with(WELL_KNOWN));
    }
    first(web, guesses).await
}

/// What a giver of tokens says of itself, if anything.
async fn giver(
    web: &LoginWeb,
    place: &Place,
    named: Option<&String>,
) -> Result<Option<Giver>, String> {
    let path = &place.path;
    let mut guesses = vec![
        place.with(&format!("/.well-known/oauth-authorization-server{path}")),
        place.with(&format!("/.well-known/openid-configuration{path}")),
    ];
    if !path.is_empty() {
        guesses.push(place.with(&format!("{path}/.well-known/openid-configuration")));
    }
    let Some(said) = first::<Metadata>(web, guesses).await? else {
        return Ok(None);
    };
    if let Some(named) = named
        && !said.issuer.as_ref().is_some_and(|it| same(it, named))
    {
        let issuer = said.issuer.unwrap_or_default();
        return Err(format!(
            "{named} calls itself `{issuer}`: it is not whom it seems to be"
        ));
    }
    let challenges = said.code_challenge_methods_supported;
    if challenges.is_some_and(|all| !all.iter().any(|it| it == "S256")) {
        return Err("whoever gives tokens for it does not take S256 of PKCE".to_owned());
    }
    Ok(Some(Giver {
        issuer: said.issuer,
        login: said.authorization_endpoint.unwrap_or_default(),
        token: said.token_endpoint,
        registration: said.registration_endpoint,
        methods: said.token_endpoint_auth_methods_supported,
        scopes: said.scopes_supported,
        takes_documents: said.client_id_metadata_document_supported,
        names_itself: said.authorization_response_iss_parameter_supported,
    }))
}

/// What is at the first address that has something.
async fn first<T: DeserializeOwned>(
    web: &LoginWeb,
    addresses: Vec<String>,
) -> Result<Option<T>, String> {
    for address in addresses {
        if let Some(said) = get(web, &address).await? {
            return Ok(Some(said));
        }
    }
    Ok(None)
}

/// What is at an address; nothing if there is nothing of this kind.
async fn get<T: DeserializeOwned>(web: &LoginWeb, url: &str) -> Result<Option<T>, String> {
    let answer = web.ask(Method::GET, url, None).await?;
    match answer.status {
        StatusCode::OK => Ok(serde_json::from_slice(&answer.body).ok()),
        status if status.is_server_error() => Err(format!("{url} answered {status}")),
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_what_it_says_only_where_it_is() {
        let place = Place::of("https://H.example/a/mcp/?x=1").unwrap();
        for (resource, is) in [
            ("https://h.example/a/mcp", true),
            ("https://h.example/a/", true),
            ("https://h.example", true),
            ("https://h.example/a/m", false),
            ("https://h.example/a/mcp/b", false),
            ("http://h.example/a/mcp", false),
            ("https://h.example:8443/a/mcp", false),
            ("https://h.example.evil/a/mcp", false),
            ("https://h.example/a/mcp#x", false),
            ("mcp", false),
        ] {
            assert_eq!(is_for(resource, &place), is, "{resource}");
        }
    }
}

//! Whom a giver of tokens knows: the client of the configuration, a document that describes one, or one
//! that the node makes known itself (RFC 7591).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hyper::Method;
use hyper::header::HeaderValue;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::discover::Giver;
use super::web::{Content, LoginWeb};
use crate::http::{Kept, encode};

/// A client.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Client {
    pub(super) id: String,
    secret: Option<String>,
    method: ProofMethod,
}

/// How it proves who it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ProofMethod {
    None,
    ClientSecretBasic,
    ClientSecretPost,
}

/// What a giver says of a client that has made itself known.
#[derive(Deserialize)]
struct Registered {
    client_id: String,
    client_secret: Option<String>,
    token_endpoint_auth_method: Option<String>,
}

impl ProofMethod {
    const ALL: [Self; 3] = [Self::None, Self::ClientSecretBasic, Self::ClientSecretPost];

    const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::ClientSecretBasic => "client_secret_basic",
            Self::ClientSecretPost => "client_secret_post",
        }
    }

    /// The first of these that a giver takes. One that does not say takes `client_secret_basic`.
    fn of(giver: &Giver, wanted: &[Self], unsaid: Self) -> Self {
        let takes = |method: &&Self| giver.methods.iter().any(|it| it == method.name());
        wanted.iter().find(takes).copied().unwrap_or(unsaid)
    }
}

impl Client {
    /// A client that the giver knows already.
    pub(super) fn known(id: &str, secret: Option<&str>, giver: &Giver) -> Self {
        const SECRET: [ProofMethod; 2] = [
            ProofMethod::ClientSecretBasic,
            ProofMethod::ClientSecretPost,
        ];
        Self {
            id: id.to_owned(),
            secret: secret.map(ToOwned::to_owned),
            method: match secret {
                Some(_) => ProofMethod::of(giver, &SECRET, ProofMethod::ClientSecretBasic),
                None => ProofMethod::None,
            },
        }
    }

    /// Makes the node known.
    ///
    /// # Errors
    /// If the giver takes nobody that it does not know.
    pub(super) async fn register(
        web: &LoginWeb,
        giver: &Giver,
        redirect_uri: &str,
        scopes: &[String],
    ) -> Result<Self, String> {
        let Some(url) = &giver.registration else {
            return Err(
                "whoever gives tokens for it takes no client that it does not know".to_owned(),
            );
        };
        let method = ProofMethod::of(giver, &ProofMethod::ALL, ProofMethod::None);
        let mut wish = json!({
            "client_name": "Frith",
            "redirect_uris": [redirect_uri],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": method.name(),
            "application_type": "native",
        });
        if !scopes.is_empty() {
            wish["scope"] = scopes.join(" ").into();
        }
        let content = Content {
            kind: "application/json",
            bytes: wish.to_string().into_bytes(),
            credential: None,
        };
        let answer = web.ask(Method::POST, url, Some(&content)).await?;
        if !answer.status.is_success() {
            return Err(format!(
                "{url} does not make the node known: {}",
                answer.status
            ));
        }
        let made: Registered = serde_json::from_slice(&answer.body)
            .map_err(|_| format!("{url} does not say how the node is known"))?;
        // Some give an empty one to those who have none.
        let secret = made.client_secret.filter(|secret| !secret.is_empty());
        let told = made.token_endpoint_auth_method;
        let mut all = ProofMethod::ALL.into_iter();
        let told = all.find(|method| told.as_deref() == Some(method.name()));
        let known = Self::known(&made.client_id, secret.as_deref(), giver);
        Ok(Self {
            method: told.unwrap_or(match method {
                ProofMethod::None => ProofMethod::None,
                _ => known.method,
            }),
            ..known
        })
    }

    /// Puts who asks into a request for a token; gives the header that it has then.
    pub(super) fn prove(&self, form: &mut Vec<(&'static str, String)>) -> Option<HeaderValue> {
        let secret = self.secret.as_deref().unwrap_or_default();
        if self.method == ProofMethod::ClientSecretBasic {
            let part = |text: &str| encode(text, Kept::Unreserved);
            let both = format!("{}:{}", part(&self.id), part(secret));
            let value = format!("Basic {}", STANDARD.encode(both));
            let mut value = HeaderValue::from_str(&value).ok()?;
            value.set_sensitive(true);
            return Some(value);
        }
        form.push(("client_id", self.id.clone()));
        if self.method == ProofMethod::ClientSecretPost {
            form.push(("client_secret", secret.to_owned()));
        }
        None
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Client").field(&self.id).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_go_where_the_giver_takes_them() {
        let giver = |methods: &[&str]| Giver {
            methods: methods.iter().map(|it| (*it).to_owned()).collect(),
            ..Giver::default()
        };
        let proved = |secret: Option<&str>, methods: &[&str]| {
            let mut form = Vec::new();
            let client = Client::known("a:b", secret, &giver(methods));
            let header = client.prove(&mut form);
            let names: Vec<_> = form.iter().map(|(name, _)| *name).collect();
            (header.map(|it| it.to_str().unwrap().to_owned()), names)
        };
        let basic = (Some("Basic YSUzQWI6cw==".to_owned()), vec![]);
        assert_eq!(proved(Some("s"), &[]), basic);
        let both = ["client_secret_post", "client_secret_basic"];
        assert_eq!(proved(Some("s"), &both), basic);
        let post = (None, vec!["client_id", "client_secret"]);
        assert_eq!(proved(Some("s"), &both[..1]), post);
        assert_eq!(proved(None, &both), (None, vec!["client_id"]));
    }
}

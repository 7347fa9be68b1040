//! Tokens, and the requests they are got with (RFC 6749, RFC 8707).

use hyper::Method;
use serde::{Deserialize, Serialize};

use super::client::Client;
use super::discover::Found;
use super::web::{Content, LoginWeb};
use crate::fresh::now;
use crate::http::{Kept, encode};

/// What was got, and all that is needed for more of it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Tokens {
    pub(super) access: String,
    refresh: Option<String>,
    /// Milliseconds since 1970.
    ends: Option<i64>,
    pub(super) scopes: Vec<String>,
    client: Client,
    /// Where more is to be had.
    at: String,
    resource: String,
}

/// Why there is no token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct NoToken(String);

#[derive(Deserialize)]
struct Given {
    access_token: String,
    token_type: String,
    refresh_token: Option<String>,
    expires_in: Option<i64>,
    scope: Option<String>,
}

#[derive(Deserialize)]
struct Refused {
    error: String,
}

/// A token is exchanged so long before it runs out, in milliseconds.
const BEFORE: i64 = 30_000;

impl Tokens {
    /// For what a browser has brought back.
    pub(super) async fn for_code(
        web: &LoginWeb,
        found: &Found,
        client: &Client,
        scopes: &[String],
        [code, verifier, redirect_uri]: [&str; 3],
    ) -> Result<Self, NoToken> {
        let form = vec![
            ("grant_type", "authorization_code".to_owned()),
            ("code", code.to_owned()),
            ("code_verifier", verifier.to_owned()),
            ("redirect_uri", redirect_uri.to_owned()),
        ];
        let at = (found.giver.token.as_str(), found.resource.as_str());
        let given = ask(web, at, client, form).await?;
        Ok(Self::of(given, at, client, scopes, None))
    }

    /// For the client itself.
    pub(super) async fn for_client(
        web: &LoginWeb,
        found: &Found,
        client: &Client,
        scopes: &[String],
    ) -> Result<Self, NoToken> {
        let mut form = vec![("grant_type", "client_credentials".to_owned())];
        if !scopes.is_empty() {
            form.push(("scope", scopes.join(" ")));
        }
        let at = (found.giver.token.as_str(), found.resource.as_str());
        let given = ask(web, at, client, form).await?;
        Ok(Self::of(given, at, client, scopes, None))
    }

    /// The next ones.
    pub(super) async fn refreshed(&self, web: &LoginWeb) -> Result<Self, NoToken> {
        let Some(refresh) = &self.refresh else {
            return Err(NoToken(
                "there is nothing to exchange for another token".to_owned(),
            ));
        };
        let form = vec![
            ("grant_type", "refresh_token".to_owned()),
            ("refresh_token", refresh.clone()),
        ];
        let at = (self.at.as_str(), self.resource.as_str());
        let given = ask(web, at, &self.client, form).await?;
        Ok(Self::of(
            given,
            at,
            &self.client,
            &self.scopes,
            Some(refresh),
        ))
    }

    /// Whether it has run out, or is about to.
    pub(super) fn is_over(&self) -> bool {
        let soon = now().0.saturating_add(BEFORE);
        self.ends.is_some_and(|ends| ends <= soon)
    }

    fn of(
        given: Given,
        (at, resource): (&str, &str),
        client: &Client,
        asked: &[String],
        refresh: Option<&String>,
    ) -> Self {
        let words = |text: String| text.split_whitespace().map(ToOwned::to_owned).collect();
        let ends = |seconds: i64| now().0.saturating_add(seconds.saturating_mul(1000));
        Self {
            access: given.access_token,
            refresh: given.refresh_token.or_else(|| refresh.cloned()),
            ends: given.expires_in.map(ends),
            // What is not said was given as it was asked for.
            scopes: given.scope.map_or_else(|| asked.to_vec(), words),
            client: client.clone(),
            at: at.to_owned(),
            resource: resource.to_owned(),
        }
    }
}

async fn ask(
    web: &LoginWeb,
    (at, resource): (&str, &str),
    client: &Client,
    mut form: Vec<(&'static str, String)>,
) -> Result<Given, NoToken> {
    form.push(("resource", resource.to_owned()));
    let credential = client.prove(&mut form);
    let content = Content {
        kind: "application/x-www-form-urlencoded",
        bytes: query(&form).into_bytes(),
        credential,
    };
    let answer = web.ask(Method::POST, at, Some(&content)).await;
    let answer = answer.map_err(NoToken)?;
    if !answer.status.is_success() {
        let said = serde_json::from_slice::<Refused>(&answer.body);
        let said = said.map_or_else(|_| answer.status.to_string(), |it| it.error);
        let said: String = said.chars().take(64).collect();
        return Err(NoToken(format!("{at} gives no token: {said}")));
    }
    let given = serde_json::from_slice::<Given>(&answer.body);
    let given = given
        .ok()
        .filter(|it| it.token_type.eq_ignore_ascii_case("bearer"));
    given.ok_or_else(|| NoToken(format!("{at} gives no token that can be used")))
}

/// Parameters, as an address or a form has them.
pub(super) fn query(parameters: &[(&'static str, String)]) -> String {
    let pair =
        |(name, value): &(&str, String)| format!("{name}={}", encode(value, Kept::Unreserved));
    let pairs: Vec<String> = parameters.iter().map(pair).collect();
    pairs.join("&")
}

impl std::fmt::Debug for Tokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (client, scopes) = (&self.client, &self.scopes);
        f.debug_struct("Tokens")
            .field("client", client)
            .field("scopes", scopes)
            .finish()
    }
}

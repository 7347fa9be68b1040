//! The operator logs in: with a browser, which comes back to this node.

use std::sync::Arc;
use std::time::Duration;

use a2e_runtime::Secret;
use canonical::{Digest, base64url};

use super::Login;
use super::callback::Callback;
use super::client::Client;
use super::discover::{Found, discover};
use super::token::{Tokens, query};
use crate::mcp::client::Fleet;
use crate::mcp::client::server::Server;

/// A login that was begun.
struct Begun {
    found: Found,
    client: Client,
    scopes: Vec<String>,
    /// What the browser must bring back with it.
    state: String,
    /// What proves that who comes back is who began (RFC 7636).
    verifier: String,
}

/// Who has come to where the browser is waited for.
enum Came {
    /// It, without a token.
    Back(String),
    /// Somebody else.
    Astray,
}

/// How long all requests may take that make an address for a browser.
const BEGINNING: Duration = Duration::from_secs(60);

/// How long somebody may take to log in.
const LOGGING_IN: Duration = Duration::from_secs(15 * 60);

impl Fleet {
    /// Logs in to one of the operator's servers. `show` is given the address that is to be opened with a
    /// browser; this ends when that has come back, with the number of tools that the server has.
    ///
    /// # Errors
    /// What is in the way.
    pub async fn login<S: Future<Output = ()>>(
        &self,
        name: &str,
        show: impl FnOnce(String) -> S,
    ) -> Result<usize, String> {
        let (server, login) = self.with_login(name)?;
        // It says what it wants.
        let _ = server.connection().await;
        let callback = Callback::listen().await?;
        let begun = tokio::time::timeout(BEGINNING, login.begin(&callback.uri)).await;
        let begun = begun.map_err(|_| format!("`{name}` did not answer in time"))??;
        show(begun.url(&callback.uri)).await;
        let done = tokio::time::timeout(LOGGING_IN, login.finish(&begun, &callback)).await;
        done.map_err(|_| "nobody has logged in; begin again".to_owned())??;
        server.try_now().await?;
        Ok(server.told().tools)
    }

    /// Forgets a login; whether there was one.
    ///
    /// # Errors
    /// If there is no such server, or the store fails.
    pub async fn logout(&self, name: &str) -> Result<bool, String> {
        let (server, login) = self.with_login(name)?;
        let was_there = login.forget().await?;
        server.hang_up().await;
        Ok(was_there)
    }

    fn with_login(&self, name: &str) -> Result<(Arc<Server>, Arc<Login>), String> {
        let server = self.operators_server(name)?;
        let none = || {
            format!("`{name}` takes no login: it is a program, or has a credential in `headers`")
        };
        let login = server.login.clone().ok_or_else(none)?;
        Ok((server, login))
    }
}

impl Login {
    /// Finds out who gives tokens, and who the node is there.
    async fn begin(&self, redirect_uri: &str) -> Result<Begun, String> {
        let (web, wanted) = (self.web()?, self.lock().clone());
        let found = discover(&web, &self.at, wanted.as_ref()).await?;
        if (!found.is_told && wanted.is_none()) || found.giver.login.is_empty() {
            return Err(format!(
                "`{}` has not asked for a login, and does not say where one is to be had",
                self.server
            ));
        }
        web.allowed(&found.giver.login)
            .map_err(|why| format!("the address to log in at cannot be opened: {why}"))?;
        let scopes = self.scopes(&*self.held.lock().await, &found, wanted.as_ref());
        let oauth = &self.at.oauth;
        let secret = oauth.client_secret.as_ref().map(Secret::reveal);
        let document = oauth.client_metadata_url.as_deref();
        let document = document.filter(|_| found.giver.takes_documents);
        let client = match (oauth.client_id.as_deref(), document) {
            (Some(id), _) => Client::known(id, secret, &found.giver),
            (None, Some(document)) => Client::known(document, None, &found.giver),
            (None, None) => {
                let made = Client::register(&web, &found.giver, redirect_uri, &scopes).await;
                made.map_err(|why| {
                    format!(
                        "{why}; register a client there, and name it in `oauth: {{client_id: …}}`"
                    )
                })?
            }
        };
        Ok(Begun {
            found,
            client,
            scopes,
            state: random()?,
            verifier: random()?,
        })
    }

    /// Waits for the browser, and gets the token for what it brings.
    async fn finish(&self, begun: &Begun, callback: &Callback) -> Result<(), String> {
        loop {
            let (back, browser) = callback.next().await;
            match self.come_back(begun, &back, &callback.uri).await {
                Ok(()) => {
                    browser
                        .tell(200, "You are logged in. You can close this page.")
                        .await;
                    return Ok(());
                }
                Err(Came::Back(why)) => {
                    browser
                        .tell(400, &format!("The login has failed: {why}"))
                        .await;
                    return Err(why);
                }
                // Anybody on this machine can come here. Whoever has logged in comes yet.
                Err(Came::Astray) => browser.tell(400, "This is no login of yours.").await,
            }
        }
    }

    async fn come_back(
        &self,
        begun: &Begun,
        back: &[(String, String)],
        redirect_uri: &str,
    ) -> Result<(), Came> {
        let find = |name: &str| {
            let found = back.iter().find(|(key, _)| key == name);
            found.map(|(_, value)| value.as_str())
        };
        if find("state") != Some(begun.state.as_str()) {
            return Err(Came::Astray);
        }
        let giver = &begun.found.giver;
        let is_giver = match find("iss") {
            Some(named) => giver.issuer.as_deref() == Some(named),
            None => !giver.names_itself,
        };
        if !is_giver {
            let text = "the browser comes back from another place than it was sent to";
            return Err(Came::Back(text.to_owned()));
        }
        let Some(code) = find("code") else {
            let error: String = find("error")
                .unwrap_or("nothing")
                .chars()
                .take(64)
                .collect();
            return Err(Came::Back(format!("whoever gives tokens says `{error}`")));
        };
        let failed = |error: String| Came::Back(error);
        let web = self.web().map_err(failed)?;
        let brought = [code, begun.verifier.as_str(), redirect_uri];
        let tokens = Tokens::for_code(&web, &begun.found, &begun.client, &begun.scopes, brought);
        let tokens = tokens.await.map_err(|error| failed(error.to_string()))?;
        self.take(&mut *self.held.lock().await, tokens).await;
        Ok(())
    }
}

impl Begun {
    /// What is to be opened with a browser.
    fn url(&self, redirect_uri: &str) -> String {
        let challenge = base64url::encode(Digest::of(self.verifier.as_bytes()).as_bytes());
        let mut parameters = vec![
            ("response_type", "code".to_owned()),
            ("client_id", self.client.id.clone()),
            ("redirect_uri", redirect_uri.to_owned()),
            ("state", self.state.clone()),
            ("code_challenge", challenge),
            ("code_challenge_method", "S256".to_owned()),
            ("resource", self.found.resource.clone()),
        ];
        if !self.scopes.is_empty() {
            parameters.push(("scope", self.scopes.join(" ")));
        }
        let login = &self.found.giver.login;
        let mark = if login.contains('?') { '&' } else { '?' };
        format!("{login}{mark}{}", query(&parameters))
    }
}

/// 32 bytes that nobody can guess, as text.
fn random() -> Result<String, String> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|_| "the system gives no random bytes")?;
    Ok(base64url::encode(&bytes))
}

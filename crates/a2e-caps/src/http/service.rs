//! Requests that the operator has written down: where they go is fixed, what they say is not.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use a2e_runtime::config::ResponseForm;
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::{Method, StatusCode};
use serde_json::{Map, Value, json};

use super::client::{Answer, Ask, Client};
use super::hidden::Hidden;
use super::hosts::Hosts;
use super::target::{Security, Target, headers};
use super::tool::{shown, uncompressed};
use super::{MAX_REQUEST_BODY, Reach};
use crate::tool::{Output, ToolFailure};

/// Where tools of the operator's own make their requests.
#[derive(Debug, Clone)]
pub struct Web {
    client: Arc<Client>,
    private: Arc<Hosts>,
}

/// Why nothing can be asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`private_hosts`: {0}")]
pub struct WebError(String);

/// The scheme, the host and the port of a service.
#[derive(Debug, Clone)]
pub(crate) struct Origin {
    base: String,
    reach: Reach,
    /// Whether nobody on the way can read what is sent, or the operator does not mind.
    is_safe: bool,
}

/// A service of the operator's choice.
#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) client: Arc<Client>,
    pub(crate) origin: Origin,
    pub(crate) hidden: Hidden,
    pub(crate) time: Option<Duration>,
    pub(crate) body_bytes: Option<usize>,
    pub(crate) response: ResponseForm,
    pub(crate) statuses: Statuses,
}

/// A request to it.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) method: Method,
    /// What follows the origin: path and query, encoded.
    pub(crate) path: String,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Option<RequestContent>,
}

/// What a request sends, and what it calls that unless a header does.
#[derive(Debug)]
pub(crate) struct RequestContent {
    pub(crate) kind: String,
    pub(crate) bytes: Vec<u8>,
}

/// What statuses mean: by number, `4xx`, `5xx` or `default`.
#[derive(Debug, Clone, Default)]
pub(crate) struct Statuses(pub(crate) Vec<(String, String)>);

impl Web {
    /// Requests of this client; these hosts may have any address.
    ///
    /// # Errors
    /// If one of them is no host.
    pub fn new(client: Arc<Client>, private_hosts: &[String]) -> Result<Self, WebError> {
        let private = Arc::new(Hosts::named(private_hosts).map_err(WebError)?);
        Ok(Self { client, private })
    }

    /// The same without private hosts: for addresses that an agent has chosen.
    #[cfg(feature = "mcp")]
    pub(crate) fn without_private_hosts(&self) -> Self {
        Self {
            client: Arc::clone(&self.client),
            private: Arc::new(Hosts(Vec::new())),
        }
    }

    pub(crate) const fn client(&self) -> &Arc<Client> {
        &self.client
    }

    /// Where a URL begins, and the rest of it: path and query.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn origin<'u>(&self, url: &'u str) -> Result<(Origin, &'u str), String> {
        let scheme = ["http://", "https://"].iter().find(|it| {
            let head = url.get(..it.len());
            head.is_some_and(|head| head.eq_ignore_ascii_case(it))
        });
        let scheme = scheme.ok_or("it must begin with http:// or https://")?;
        let rest = url.get(scheme.len()..).unwrap_or_default();
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at_checked(end).unwrap_or((rest, ""));
        if authority.contains(['{', '}']) {
            return Err("its host must not have a place for an argument".to_owned());
        }
        let base = format!("{scheme}{authority}");
        let target = Target::parse(&format!("{base}/")).map_err(|error| error.to_string())?;
        let is_private = self.private.has(&target);
        let reach = match is_private {
            true => Reach::Named,
            false => self.client.settings.reach,
        };
        let is_safe = target.security == Security::Tls || reach != Reach::Public;
        let origin = Origin {
            base,
            reach,
            is_safe,
        };
        Ok((origin, path))
    }
}

impl Origin {
    /// Which addresses it may have.
    pub(crate) const fn reach(&self) -> Reach {
        self.reach
    }

    /// Whether secrets may be sent there.
    ///
    /// # Errors
    /// What to do about it.
    pub(crate) fn check(&self, hidden: &Hidden) -> Result<(), String> {
        match hidden.has_any() && !self.is_safe {
            true => Err(
                "a secret must not go over plain http: use https, or name the host in \
                 `private_hosts` if nobody listens on the way to it"
                    .to_owned(),
            ),
            false => Ok(()),
        }
    }
}

impl Statuses {
    fn find(&self, status: StatusCode) -> Option<&str> {
        let code = status.as_str();
        let class = format!("{}xx", code.get(..1).unwrap_or_default());
        let text = |key: &str| {
            let mut all = self.0.iter();
            all.find(|(known, _)| known.eq_ignore_ascii_case(key))
        };
        let found = text(code)
            .or_else(|| text(&class))
            .or_else(|| text("default"));
        found.map(|(_, text)| text.as_str())
    }
}

impl Service {
    /// Makes a request for an agent, and a result of its answer.
    pub(crate) async fn send(
        &self,
        agent: &Arc<str>,
        request: Request,
    ) -> Result<Output, ToolFailure> {
        let target = Target::parse(&format!("{}{}", self.origin.base, request.path))?;
        let mut all = headers(&request.headers).map_err(ToolFailure::new)?;
        let body = match request.body {
            None => Vec::new(),
            Some(content) => {
                name_type(&mut all, &content.kind)?;
                content.bytes
            }
        };
        if body.len() > MAX_REQUEST_BODY {
            let text = format!("what is to be sent has more than {MAX_REQUEST_BODY} bytes");
            return Err(ToolFailure::new(text));
        }
        let most = self.client.settings.body_bytes;
        let body_bytes = self.body_bytes.map_or(most, |bytes| bytes.min(most));
        let ask = Ask {
            target,
            method: request.method,
            headers: all,
            body,
            time: self.time,
            reach: self.origin.reach,
            // More than is shown, so that a secret at the end of it is seen as a whole.
            body_bytes: body_bytes.saturating_add(self.hidden.beyond()),
        };
        let answer = self
            .client
            .ask(agent, ask)
            .await
            .map_err(|failure| self.hint(failure))?;
        self.told(answer.beyond(body_bytes), body_bytes)
    }

    /// What the operator can do about an address that may not be reached.
    fn hint(&self, failure: ToolFailure) -> ToolFailure {
        match self.origin.reach != Reach::Named && failure.is_denied() {
            true => ToolFailure::denied(
                "address_not_public",
                format!("{failure}; the operator can name it in `private_hosts`"),
            ),
            false => failure,
        }
    }

    /// An answer as a result.
    fn told(&self, answer: Answer, body_bytes: usize) -> Result<Output, ToolFailure> {
        uncompressed(&answer.headers, &answer.body)?;
        let (status, is_cut) = (answer.status, answer.is_cut);
        let to = answer.headers.get(header::LOCATION);
        let to = to.map(|to| String::from_utf8_lossy(to.as_bytes()).into_owned());
        let body = self.body(answer, body_bytes)?;
        if status.is_success() {
            let data = match body.is_null() {
                true => json!({"status": status.as_u16()}),
                false => body,
            };
            return Ok(Output::new(&data)?.truncated(is_cut));
        }
        let mut data = Map::new();
        data.insert("status".into(), json!(status.as_u16()));
        if let Some(to) = to.filter(|_| status.is_redirection()) {
            data.insert("redirect_to".into(), self.hidden.hide(to).into());
        }
        data.insert("body".into(), body);
        let meaning = match self.statuses.find(status) {
            Some(text) => format!(": {text}"),
            None if status.is_redirection() => {
                ": it leads elsewhere, which is not followed; the operator can name the new address"
                    .to_owned()
            }
            None => String::new(),
        };
        Ok(Output {
            error: Some(format!("the server answered {status}{meaning}")),
            ..Output::new(&Value::Object(data))?.truncated(is_cut)
        })
    }

    fn body(&self, answer: Answer, body_bytes: usize) -> Result<Value, ToolFailure> {
        let Answer {
            status,
            headers,
            body,
            is_cut,
        } = answer;
        if body.is_empty() {
            return Ok(Value::Null);
        }
        let is_json = match self.response {
            ResponseForm::Json => true,
            ResponseForm::Text => false,
            ResponseForm::Auto => headers.get(header::CONTENT_TYPE).is_some_and(is_json),
        };
        if is_json && !is_cut {
            // Some servers write a byte order mark before it (RFC 8259, section 8.1).
            let text = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&body);
            match serde_json::from_slice(text) {
                Ok(value) => return Ok(self.hidden.hide_in(value)),
                // What an error says need not be.
                Err(_) if self.response == ResponseForm::Json && status.is_success() => {
                    return Err(ToolFailure::new(
                        "the answer is not JSON; tell whoever maintains the tool",
                    ));
                }
                Err(_) => {}
            }
        }
        if is_cut && self.response == ResponseForm::Json && status.is_success() {
            return Err(ToolFailure::new(format!(
                "the answer has more than {body_bytes} bytes; ask for less of it"
            )));
        }
        Ok(match shown(&self.hidden, body, is_cut, body_bytes)? {
            ("utf-8", text) => Value::String(text),
            (encoding, text) => json!({"encoding": encoding, "body": text}),
        })
    }
}

/// Whether a media type is JSON.
fn is_json(kind: &HeaderValue) -> bool {
    let kind = kind.to_str().unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    let kind = kind.to_ascii_lowercase();
    kind == "application/json" || kind.ends_with("+json")
}

fn name_type(headers: &mut HeaderMap, kind: &str) -> Result<(), ToolFailure> {
    if !headers.contains_key(header::CONTENT_TYPE) {
        let kind = HeaderValue::from_str(kind);
        let kind = kind.map_err(|_| ToolFailure::new("the type of the body cannot be sent"))?;
        headers.insert(header::CONTENT_TYPE, kind);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::Settings;

    fn web(private: &[&str]) -> Result<Web, WebError> {
        let private: Vec<String> = private.iter().map(|it| (*it).to_owned()).collect();
        Web::new(Client::new(Settings::default()), &private)
    }

    #[test]
    fn where_a_url_leads_is_fixed() {
        let web = web(&["inner.lan:8080"]).unwrap();
        let (origin, path) = web.origin("https://h.example/a/{b}?c={d}").unwrap();
        assert_eq!((&*origin.base, path), ("https://h.example", "/a/{b}?c={d}"));
        assert_eq!(origin.reach, Reach::Public);
        let (origin, path) = web.origin("http://inner.lan:8080").unwrap();
        assert_eq!((origin.reach, path), (Reach::Named, ""));
        assert_eq!(
            web.origin("http://inner.lan").unwrap().0.reach,
            Reach::Public
        );
        for bad in [
            "https://{host}/",
            "https://a.{zone}/",
            "ftp://a/",
            "a/b",
            "https://",
            "https://u:p@h/",
            "{scheme}://h/",
        ] {
            assert!(web.origin(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn secrets_are_not_for_everybody_on_the_way() {
        let web = web(&["inner.lan"]).unwrap();
        let check = |url: &str, hidden: &Hidden| web.origin(url).unwrap().0.check(hidden);
        let mut hidden = Hidden::default();
        check("http://h.example/", &hidden).unwrap();
        hidden.add("k");
        check("https://h.example/", &hidden).unwrap();
        check("http://inner.lan/", &hidden).unwrap();
        assert!(check("http://h.example/", &hidden).is_err());
    }

    #[test]
    fn statuses_are_found_by_the_nearest_name() {
        let all = [("404", "none"), ("4xx", "yours"), ("default", "other")];
        let all = all.map(|(key, text)| (key.to_owned(), text.to_owned()));
        let statuses = Statuses(all.into());
        for (status, text) in [(404, "none"), (409, "yours"), (500, "other")] {
            let status = StatusCode::from_u16(status).unwrap();
            assert_eq!(statuses.find(status), Some(text));
        }
        assert_eq!(Statuses::default().find(StatusCode::NOT_FOUND), None);
    }

    #[test]
    fn what_is_no_host_is_said() {
        assert!(web(&["a/b"]).unwrap_err().to_string().contains("a/b"));
    }
}

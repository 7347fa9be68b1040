//! Requests of a login. They go where tools may go, and nothing of them is sent in the clear.

use std::sync::Arc;
use std::time::Duration;

use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::{Method, StatusCode};

use super::super::Ground;
use super::super::http::read;
use crate::http::{Ask, Reach, Target};

/// Makes the requests of the login to one server.
pub(super) struct LoginWeb {
    ground: Arc<Ground>,
    /// The server's host, if the operator has said that it may have any address. Whoever gives tokens
    /// for it may be at another port there.
    private: Option<String>,
}

/// What is sent.
pub(super) struct Content {
    pub(super) kind: &'static str,
    pub(super) bytes: Vec<u8>,
    /// The header `Authorization`.
    pub(super) credential: Option<HeaderValue>,
}

/// What came back.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) body: Vec<u8>,
}

/// How much of an answer is read.
const MAX_ANSWER: usize = 1024 * 1024;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// How often an answer may lead elsewhere.
const MAX_REDIRECTS: usize = 3;

impl LoginWeb {
    /// For the server at this address.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn new(ground: &Arc<Ground>, url: &str) -> Result<Self, String> {
        let (origin, _) = ground.web.load().origin(url)?;
        let target = Target::parse(url).map_err(|error| error.to_string())?;
        Ok(Self {
            ground: Arc::clone(ground),
            private: (origin.reach() == Reach::Named).then_some(target.host),
        })
    }

    /// Asks. What is only read is read where it leads to, too.
    pub(super) async fn ask(
        &self,
        method: Method,
        url: &str,
        content: Option<&Content>,
    ) -> Result<Answer, String> {
        let mut url = url.to_owned();
        for _ in 0..MAX_REDIRECTS {
            let asked = self.once(&method, &url, content);
            let (answer, leads_to) = match tokio::time::timeout(PATIENCE, asked).await {
                Ok(asked) => asked?,
                Err(_) => return Err(format!("{url} took too long")),
            };
            match leads_to.filter(|_| method == Method::GET) {
                Some(next) => url = next,
                None => return Ok(answer),
            }
        }
        Err(format!("{url} leads elsewhere again and again"))
    }

    /// Where an address leads, and how far one may go there. What a browser is to open is held to the same:
    /// whoever gives tokens names it, and it could be a program or a file.
    ///
    /// # Errors
    /// If it is no address of the web, or one where others could read along.
    pub(super) fn allowed(&self, url: &str) -> Result<(Target, Reach), String> {
        let (origin, _) = self.ground.web.load().origin(url)?;
        let target = Target::parse(url).map_err(|error| error.to_string())?;
        let reach = match self.private.as_ref() == Some(&target.host) {
            true => Reach::Named,
            false => origin.reach(),
        };
        match target.is_encrypted() || reach != Reach::Public {
            true => Ok((target, reach)),
            false => Err(format!(
                "{url} is not https, and tokens go over nothing else"
            )),
        }
    }

    async fn once(
        &self,
        method: &Method,
        url: &str,
        content: Option<&Content>,
    ) -> Result<(Answer, Option<String>), String> {
        let (target, reach) = self.allowed(url)?;
        let web = self.ground.web.load_full();
        let ask = Ask {
            target,
            method: method.clone(),
            headers: headers(content),
            body: content.map(|it| it.bytes.clone()).unwrap_or_default(),
            time: None,
            reach,
            body_bytes: MAX_ANSWER,
        };
        let opened = web.client().open(ask).await;
        let opened = opened.map_err(|error| error.to_string())?;
        let status = opened.head.status;
        let leads_to = leads_to(url, status, &opened.head.headers);
        let body = read(opened, MAX_ANSWER).await;
        let body = body.map_err(|error| error.to_string())?;
        Ok((Answer { status, body }, leads_to))
    }
}

fn headers(content: Option<&Content>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let json = HeaderValue::from_static("application/json");
    headers.insert(header::ACCEPT, json);
    if let Some(content) = content {
        let kind = HeaderValue::from_static(content.kind);
        headers.insert(header::CONTENT_TYPE, kind);
        if let Some(credential) = &content.credential {
            headers.insert(header::AUTHORIZATION, credential.clone());
        }
    }
    headers
}

/// Where an answer leads, if it leads elsewhere.
fn leads_to(url: &str, status: StatusCode, headers: &HeaderMap) -> Option<String> {
    let is_elsewhere = matches!(status.as_u16(), 301 | 302 | 307 | 308);
    let to = headers.get(header::LOCATION).filter(|_| is_elsewhere)?;
    let to = to.to_str().ok()?;
    if !to.starts_with('/') || to.starts_with("//") {
        return Some(to.to_owned());
    }
    let base: hyper::Uri = url.parse().ok()?;
    Some(format!(
        "{}://{}{to}",
        base.scheme_str()?,
        base.authority()?
    ))
}

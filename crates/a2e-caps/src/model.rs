//! Language models behind endpoints as OpenAI has them, and the talk in which one uses tools.

mod answer;
mod talk;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::{Method, StatusCode};
use serde_json::{Value, json};

use crate::http::{Ask, Client, Hidden, Opened, Reach, Target, Web, append_path, headers};
use answer::Collector;

pub(crate) use answer::{Answer, Called};
pub use answer::{MAX_ANSWER, MAX_CALLS, MAX_LINE};
pub(crate) use talk::{Hands, Offered, Spent, Talk, called};
pub use talk::{MAX_RESULT, MAX_TALK};

/// Where a model is, and how much of it one may use.
#[derive(Clone)]
pub struct ModelSettings {
    /// Where it begins, such as `https://api.example/v1`.
    pub url: String,
    /// Its name there.
    pub model: String,
    /// The credential it asks for.
    pub key: Option<String>,
    /// How long one answer may take.
    pub timeout: Duration,
    /// Tokens of one answer.
    pub max_answer_tokens: usize,
    /// Tokens of all that one task reads and writes.
    pub max_tokens: u64,
    /// Whether agents may use it with credentials of their own.
    pub allow_override: bool,
}

/// The models of a node, by name.
#[derive(Debug, Default)]
pub struct Models(BTreeMap<String, Arc<Model>>);

/// A model behind an endpoint as OpenAI has it: `POST URL/chat/completions`.
#[derive(Clone)]
pub struct Model {
    settings: ModelSettings,
    client: Arc<Client>,
    reach: Reach,
    hidden: Hidden,
}

/// Why a model gives no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ModelError {
    pub(crate) code: &'static str,
    pub(crate) message: String,
    /// Whether to ask again, and when.
    again: Option<Duration>,
}

/// How often a model is asked the same, and how long one waits before that at most.
const ATTEMPTS: u32 = 3;
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// Bytes of what a model says instead of an answer.
const MAX_REFUSAL: usize = 64 * 1024;

impl Models {
    /// These models.
    #[must_use]
    pub fn new(models: impl IntoIterator<Item = (String, Model)>) -> Self {
        let models = models.into_iter();
        Self(
            models
                .map(|(name, model)| (name, Arc::new(model)))
                .collect(),
        )
    }

    pub(crate) fn find(&self, name: &str) -> Option<&Arc<Model>> {
        self.0.get(name)
    }

    /// The names of those that agents may use with credentials of their own.
    pub(crate) fn open(&self) -> Vec<&str> {
        let open = self.0.iter().filter(|(_, it)| it.settings.allow_override);
        open.map(|(name, _)| name.as_str()).collect()
    }
}

impl Model {
    /// A model. Hosts whose addresses are not public must be named in the `private_hosts` of `web`.
    ///
    /// # Errors
    /// What is wrong with the address.
    pub fn new(settings: ModelSettings, web: &Web) -> Result<Self, String> {
        let (origin, _) = web.origin(&settings.url)?;
        let mut hidden = Hidden::default();
        if let Some(key) = &settings.key {
            hidden.add(key);
        }
        origin.check(&hidden)?;
        Ok(Self {
            settings,
            client: Arc::clone(web.client()),
            reach: origin.reach(),
            hidden,
        })
    }

    /// The same, with a credential of somebody else, or under another name there; none if the
    /// operator does not let that be done.
    pub(crate) fn overridden(&self, key: Option<&str>, model: Option<&str>) -> Option<Self> {
        if !self.settings.allow_override {
            return None;
        }
        let mut other = self.clone();
        if let Some(key) = key {
            other.hidden.add(key);
            other.settings.key = Some(key.to_owned());
        }
        if let Some(model) = model {
            model.clone_into(&mut other.settings.model);
        }
        Some(other)
    }

    pub(crate) fn name(&self) -> &str {
        &self.settings.model
    }

    pub(crate) const fn max_tokens(&self) -> u64 {
        self.settings.max_tokens
    }

    /// Asks for one answer, and tells each piece of text as it comes. It is asked again if it is too
    /// busy, or cannot be reached, and has said nothing yet.
    ///
    /// # Errors
    /// Why there is none.
    pub(crate) async fn answer(
        &self,
        messages: &[Value],
        tools: &[Value],
        hands: &dyn Hands,
    ) -> Result<Answer, ModelError> {
        let body = self.body(messages, tools);
        let mut attempt = 0;
        loop {
            let limit = self.settings.timeout;
            let asked = tokio::time::timeout(limit, self.once(&body, hands)).await;
            let error = match asked {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(error)) => error,
                Err(_) => {
                    let text = format!("the model took longer than {} s", limit.as_secs());
                    return Err(ModelError::new("llm_timeout", text));
                }
            };
            attempt += 1;
            match error.again {
                Some(wait) if attempt < ATTEMPTS => {
                    let wait = wait.saturating_mul(attempt).min(LONGEST_WAIT);
                    tokio::time::sleep(wait).await;
                }
                _ => return Err(error),
            }
        }
    }

    fn body(&self, messages: &[Value], tools: &[Value]) -> Vec<u8> {
        let mut body = json!({
            "model": self.settings.model,
            "messages": messages,
            "max_tokens": self.settings.max_answer_tokens,
            "stream": true,
            "stream_options": {"include_usage": true},
        });
        if let (Some(body), false) = (body.as_object_mut(), tools.is_empty()) {
            body.insert("tools".to_owned(), json!(tools));
        }
        body.to_string().into_bytes()
    }

    async fn once(&self, body: &[u8], hands: &dyn Hands) -> Result<Answer, ModelError> {
        let opened = self.open(body).await?;
        if !opened.head.status.is_success() {
            return Err(self.refusal(opened).await);
        }
        let mut collector = Collector::new(&opened.head.headers);
        let mut body = opened.body;
        while let Some(frame) = http_body_util::BodyExt::frame(&mut body).await {
            let frame = frame.map_err(|error| {
                ModelError::new("llm_broken", format!("the answer broke off: {error}"))
            })?;
            let Ok(data) = frame.into_data() else {
                continue;
            };
            for piece in collector.push(&data).map_err(|error| self.hide(error))? {
                hands.token(piece).await;
            }
        }
        drop(opened.connection);
        let finished = collector.finish().map_err(|error| self.hide(error))?;
        if let Some(rest) = finished.1 {
            hands.token(rest).await;
        }
        Ok(finished.0)
    }

    async fn open(&self, body: &[u8]) -> Result<Opened, ModelError> {
        let unreachable = |text: String| {
            let error = ModelError::new("llm_unreachable", text);
            error.again_in(Duration::from_secs(1))
        };
        let url = append_path(&self.settings.url, "/chat/completions");
        let target = Target::parse(&url).map_err(|error| unreachable(error.to_string()))?;
        let mut all = BTreeMap::new();
        if let Some(key) = &self.settings.key {
            all.insert("authorization".to_owned(), format!("Bearer {key}"));
        }
        let mut all: HeaderMap = headers(&all).map_err(|_| {
            ModelError::new("llm_auth", "the credential cannot be sent in a header")
        })?;
        let json = HeaderValue::from_static("application/json");
        all.insert(header::CONTENT_TYPE, json);
        let ask = Ask {
            target,
            method: Method::POST,
            headers: all,
            body: body.to_vec(),
            time: None,
            reach: self.reach,
            body_bytes: MAX_ANSWER,
        };
        let opened = self.client.open(ask).await;
        opened.map_err(|error| self.hide(unreachable(error.to_string())))
    }

    /// What a status means, with what the server says about it.
    async fn refusal(&self, opened: Opened) -> ModelError {
        let (status, mut body) = (opened.head.status, opened.body);
        let wait = seconds(&opened.head.headers);
        let mut text = Vec::new();
        while let Some(Ok(frame)) = http_body_util::BodyExt::frame(&mut body).await {
            if let Ok(data) = frame.into_data() {
                text.extend_from_slice(&data);
            }
            if text.len() > MAX_REFUSAL {
                break;
            }
        }
        drop(opened.connection);
        let said: Value = serde_json::from_slice(&text).unwrap_or_default();
        let text = |pointer: &str| said.pointer(pointer).and_then(Value::as_str);
        let said = text("/error/message").or_else(|| text("/error"));
        let said = said.map_or_else(String::new, |said| {
            format!(": {}", said.chars().take(500).collect::<String>())
        });
        let wait = wait.unwrap_or(Duration::from_secs(1));
        let error = match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => ModelError::new(
                "llm_auth",
                format!("the model refused the credential ({status}{said}); see its `api_key`"),
            ),
            StatusCode::TOO_MANY_REQUESTS => ModelError::new(
                "llm_rate_limited",
                format!("the model is asked too often ({status}{said}); try again later"),
            )
            .again_in(wait),
            status if status.is_server_error() => ModelError::new(
                "llm_unavailable",
                format!("the model answered {status}{said}"),
            )
            .again_in(wait),
            status => ModelError::new("llm_error", format!("the model answered {status}{said}")),
        };
        self.hide(error)
    }

    fn hide(&self, mut error: ModelError) -> ModelError {
        error.message = self.hidden.hide(error.message);
        error
    }
}

/// How long a server wants to be left alone.
fn seconds(headers: &HeaderMap) -> Option<Duration> {
    let said = headers.get(header::RETRY_AFTER)?.to_str().ok()?;
    said.trim().parse().ok().map(Duration::from_secs)
}

impl ModelError {
    pub(crate) fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            again: None,
        }
    }

    const fn again_in(mut self, wait: Duration) -> Self {
        self.again = Some(wait);
        self
    }
}

impl fmt::Debug for ModelSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModelSettings")
            .field("url", &self.url)
            .field("model", &self.model)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.settings.fmt(f)
    }
}

//! Texts as points: the model that reads entries and queries, and who has it read what is new.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use a2e_runtime::BoxFuture;
use a2e_runtime::config::ResponseForm;
use hyper::Method;
use serde::Deserialize;
use serde_json::json;
use store::{Near, Store, UnixMillis, Unread};
use tokio::sync::Notify;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::entry::push_words;
use crate::http::{Hidden, Request, RequestContent, Service, Statuses, Web, append_path};

/// A model that makes points of texts.
pub trait Embedder: Send + Sync + 'static {
    /// Its name: points of another name are of no use with it.
    fn model(&self) -> &str;

    /// The points of texts, in their order.
    fn embed<'a>(&'a self, texts: &'a [String]) -> BoxFuture<'a, Result<Vec<Vec<f32>>, String>>;
}

/// A model behind an endpoint as OpenAI has it: `POST URL/embeddings`.
#[derive(Debug)]
pub struct Endpoint {
    model: String,
    path: String,
    headers: BTreeMap<String, String>,
    service: Service,
}

/// Where such a model is.
#[derive(Clone)]
pub struct EndpointSettings {
    /// Where it begins, such as `https://api.example/v1`.
    pub url: String,
    /// Its name there.
    pub model: String,
    /// The credential it asks for.
    pub key: Option<String>,
    /// How long one answer may take.
    pub timeout: Duration,
}

/// Has entries read that nobody has read yet, until its last clone is dropped.
#[derive(Clone)]
pub struct Reader {
    reading: Reading,
    _until: Arc<DropGuard>,
}

#[derive(Clone)]
struct Reading {
    embedder: Arc<dyn Embedder>,
    more: Arc<Notify>,
}

/// Texts that are sent at once, and bytes of each.
const BATCH: usize = 32;
const MAX_TEXT: usize = 8 * 1024;

/// What is sent where there is nothing to say.
const NOTHING: &str = "-";

/// How long a query waits for the model; then its words must do.
const QUERY: Duration = Duration::from_secs(3);

/// How long to wait after a failure, at first and at most, and for new entries that nobody told of.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LAST_WAIT: Duration = Duration::from_secs(60);

impl Endpoint {
    /// The model behind an endpoint. Hosts whose addresses are not public must be named in the
    /// `private_hosts` of `web`.
    ///
    /// # Errors
    /// What is wrong with the address.
    pub fn new(settings: &EndpointSettings, web: &Web) -> Result<Self, String> {
        let (origin, path) = web.origin(&settings.url)?;
        let mut hidden = Hidden::default();
        let mut headers = BTreeMap::new();
        if let Some(key) = &settings.key {
            hidden.add(key);
            headers.insert("authorization".to_owned(), format!("Bearer {key}"));
        }
        origin.check(&hidden)?;
        Ok(Self {
            model: settings.model.clone(),
            path: append_path(path, "/embeddings"),
            headers,
            service: Service {
                client: Arc::clone(web.client()),
                origin,
                hidden,
                time: Some(settings.timeout),
                body_bytes: None,
                response: ResponseForm::Json,
                statuses: Statuses::default(),
            },
        })
    }
}

/// What such an endpoint answers.
#[derive(Deserialize)]
struct Answer {
    data: Vec<Point>,
}

#[derive(Deserialize)]
struct Point {
    embedding: Vec<f32>,
    #[serde(default)]
    index: Option<usize>,
}

impl Embedder for Endpoint {
    fn model(&self) -> &str {
        &self.model
    }

    fn embed<'a>(&'a self, texts: &'a [String]) -> BoxFuture<'a, Result<Vec<Vec<f32>>, String>> {
        Box::pin(async move {
            let body = json!({"model": self.model, "input": texts, "encoding_format": "float"});
            let request = Request {
                method: Method::POST,
                path: self.path.clone(),
                headers: self.headers.clone(),
                body: Some(RequestContent {
                    kind: "application/json".to_owned(),
                    bytes: body.to_string().into_bytes(),
                }),
            };
            // Asked by the host, and by no agent.
            let output = self.service.send(&Arc::from(""), request).await;
            let output = output.map_err(|failure| failure.to_string())?;
            if let Some(error) = output.error {
                return Err(error);
            }
            let answer: Answer = output
                .data
                .deserialize()
                .map_err(|error| format!("the answer has no embeddings: {error}"))?;
            in_order(answer.data, texts.len())
        })
    }
}

/// Points in the order of their texts, one for each.
fn in_order(mut points: Vec<Point>, count: usize) -> Result<Vec<Vec<f32>>, String> {
    if points.iter().all(|point| point.index.is_some()) {
        points.sort_by_key(|point| point.index);
    }
    match points.len() == count {
        true => Ok(points.into_iter().map(|point| point.embedding).collect()),
        false => Err(format!(
            "{count} texts were sent, and {} vectors came back",
            points.len()
        )),
    }
}

impl Reader {
    /// Has a model read what is in a store.
    pub fn start(embedder: Arc<dyn Embedder>, store: &Store, clock: fn() -> UnixMillis) -> Self {
        let reading = Reading {
            embedder,
            more: Arc::new(Notify::new()),
        };
        let until = CancellationToken::new();
        let (own, store, ended) = (reading.clone(), store.clone(), until.clone());
        tokio::spawn(async move {
            ended.run_until_cancelled(own.run(&store, clock)).await;
        });
        Self {
            reading,
            _until: Arc::new(until.drop_guard()),
        }
    }

    /// There is something new to read.
    pub(super) fn tell(&self) {
        self.reading.more.notify_one();
    }

    /// A query as a point; nothing if the model does not answer in time.
    pub(super) async fn near(&self, query: &str) -> Option<Near> {
        let texts = [cut(query.to_owned())];
        let points = tokio::time::timeout(QUERY, self.reading.embedder.embed(&texts)).await;
        match points {
            Ok(Ok(mut points)) => points.pop().map(|vector| Near {
                model: self.reading.embedder.model().to_owned(),
                vector,
            }),
            Ok(Err(error)) => {
                tracing::warn!(%error, "a query is answered by its words alone");
                None
            }
            Err(_) => {
                tracing::warn!("a query is answered by its words alone: the model takes too long");
                None
            }
        }
    }
}

impl Reading {
    /// The points of texts. One that a model refuses, although it reads others, has none: it must not
    /// keep those behind it from being read.
    async fn points(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, String> {
        let refused = match self.embedder.embed(texts).await {
            Ok(points) => return Ok(points),
            Err(error) => error,
        };
        if self.embedder.embed(&[NOTHING.to_owned()]).await.is_err() {
            return Err(refused);
        }
        let mut points = Vec::with_capacity(texts.len());
        for text in texts {
            let one = self.embedder.embed(std::slice::from_ref(text)).await;
            points.push(match one {
                Ok(mut one) => one.pop().unwrap_or_default(),
                Err(error) => {
                    // It may be that it has only just stopped to answer.
                    self.embedder.embed(&[NOTHING.to_owned()]).await?;
                    tracing::warn!(%error, "an entry is found by its words alone: no model reads it");
                    Vec::new()
                }
            });
        }
        Ok(points)
    }

    async fn run(&self, store: &Store, clock: fn() -> UnixMillis) {
        let vectors = store.vectors(self.embedder.model());
        let mut wait = FIRST_WAIT;
        loop {
            let step = async {
                // What another model has read is read again.
                while vectors.retire().await.map_err(|it| it.to_string())? > 0 {}
                let unread = vectors.missing(clock(), BATCH).await;
                let unread = unread.map_err(|it| it.to_string())?;
                let texts: Vec<String> = unread.iter().map(text).collect();
                if texts.is_empty() {
                    return Ok(0);
                }
                let points = self.points(&texts).await?;
                let numbers = unread.into_iter().map(|entry| entry.number);
                let put = vectors.put(numbers.zip(points).collect());
                put.await.map_err(|it| it.to_string())?;
                Ok::<usize, String>(texts.len())
            };
            match step.await {
                Ok(1..) => wait = FIRST_WAIT,
                Ok(0) => {
                    let _ = tokio::time::timeout(LAST_WAIT, self.more.notified()).await;
                }
                Err(error) => {
                    tracing::warn!(%error, "entries cannot be read into vectors; tried again");
                    tokio::time::sleep(wait).await;
                    wait = (wait * 2).min(LAST_WAIT);
                }
            }
        }
    }
}

/// What a model reads of an entry.
fn text(entry: &Unread) -> String {
    let mut text = String::new();
    push_words(
        &serde_json::from_str(&entry.key).unwrap_or_default(),
        &mut text,
    );
    push_words(
        &serde_json::from_str(&entry.content).unwrap_or_default(),
        &mut text,
    );
    for tag in &entry.tags {
        text.push('\n');
        text.push_str(tag);
    }
    cut(text)
}

/// As much of a text as is sent. Some models refuse an empty one.
fn cut(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(MAX_TEXT));
    match text.trim().is_empty() {
        true => NOTHING.to_owned(),
        false => text,
    }
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reader({})", self.reading.embedder.model())
    }
}

impl fmt::Debug for EndpointSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EndpointSettings")
            .field("url", &self.url)
            .field("model", &self.model)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_in_the_order_of_their_texts() {
        let point = |index, value| Point {
            embedding: vec![value],
            index,
        };
        let sorted = in_order(vec![point(Some(1), 1.0), point(Some(0), 0.0)], 2);
        assert_eq!(sorted, Ok(vec![vec![0.0], vec![1.0]]));
        let plain = in_order(vec![point(None, 5.0), point(None, 6.0)], 2);
        assert_eq!(plain, Ok(vec![vec![5.0], vec![6.0]]));
        assert!(in_order(vec![point(None, 5.0)], 2).is_err());
    }

    #[test]
    fn a_text_is_cut_between_letters() {
        assert_eq!(cut("é".repeat(MAX_TEXT)).len(), MAX_TEXT);
        assert_eq!(cut("  ".into()), "-");
    }
}

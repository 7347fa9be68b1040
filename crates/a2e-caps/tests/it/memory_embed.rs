//! Memories that a model reads, against servers of this machine.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use a2e_caps::memory::{Embedder, Endpoint, EndpointSettings, Memory, Reader, Settings};
use a2e_runtime::{BoxFuture, Host};
use serde_json::{Value, json};
use store::{Store, UnixMillis};
use tokio::sync::Notify;

use crate::endpoints::web;
use crate::http::{Server, answer};
use crate::vault::{Named, store};
use crate::wire::Agent;

/// A model of two ideas: animals and tools. It says when it has read something.
struct Ideas {
    name: &'static str,
    read: AtomicUsize,
    has_read: Notify,
}

impl Ideas {
    fn new(name: &'static str) -> Arc<Self> {
        Arc::new(Self {
            name,
            read: AtomicUsize::new(0),
            has_read: Notify::new(),
        })
    }

    /// Waits until so many texts were read.
    async fn until(&self, count: usize) {
        while self.read.load(Ordering::SeqCst) < count {
            self.has_read.notified().await;
        }
    }
}

impl Embedder for Ideas {
    fn model(&self) -> &str {
        self.name
    }

    fn embed<'a>(&'a self, texts: &'a [String]) -> BoxFuture<'a, Result<Vec<Vec<f32>>, String>> {
        let point = |text: &String| {
            let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
            match (has(&["dog", "puppy"]), has(&["hammer"])) {
                (true, _) => vec![1.0, 0.1],
                (_, true) => vec![0.1, 1.0],
                _ => vec![0.7, -0.7],
            }
        };
        let points = texts.iter().map(point).collect();
        self.read.fetch_add(texts.len(), Ordering::SeqCst);
        self.has_read.notify_one();
        Box::pin(async move { Ok(points) })
    }
}

/// The same, of texts that are not too long for it.
struct Picky(Arc<Ideas>);

impl Embedder for Picky {
    fn model(&self) -> &str {
        self.0.model()
    }

    fn embed<'a>(&'a self, texts: &'a [String]) -> BoxFuture<'a, Result<Vec<Vec<f32>>, String>> {
        match texts.iter().any(|text| text.contains("endless")) {
            true => Box::pin(async { Err("400: too long".to_owned()) }),
            false => self.0.embed(texts),
        }
    }
}

fn clock() -> UnixMillis {
    UnixMillis(1_770_000_000_000)
}

/// A host whose memories a model reads.
pub(crate) fn read_by(model: Arc<dyn Embedder>, store: &Store) -> Host {
    let settings = Settings {
        reader: Some(Reader::start(model, store, clock)),
        clock,
        ..Settings::default()
    };
    let memory = Memory::new(store.clone(), settings);
    Host::builder().plugin(memory).authenticator(Named).build()
}

pub(crate) async fn keep(agent: &mut Agent, key: &str, content: &str) {
    let entries = json!([{"key": key, "content": content, "tier": "episodic"}]);
    let stored = agent
        .ask(json!({"type": "memory/store/req", "entries": entries}))
        .await;
    assert_eq!(stored["stored"], json!([key]));
}

async fn find(agent: &mut Agent, query: &str) -> Vec<String> {
    let found = agent
        .ask(json!({"type": "memory/retrieve/req", "query": query}))
        .await;
    let entries = found["entries"].as_array().unwrap();
    let key = |entry: &Value| entry["key"].as_str().unwrap().to_owned();
    entries.iter().map(key).collect()
}

/// Asks until the vectors are there that were read: they are kept a moment later. What means the same
/// comes first, before what is only not the opposite.
pub(crate) async fn find_at_last(agent: &mut Agent, query: &str, expected: &str) {
    loop {
        if find(agent, query)
            .await
            .first()
            .is_some_and(|first| first == expected)
        {
            return;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn entries_are_read_in_the_background_and_again_by_another_model() {
    let store = store();
    let model = Ideas::new("one");
    let host = read_by(Arc::clone(&model) as _, &store);
    let mut agent = Agent::connect_as(&host, "ada", &["memory"]).await;
    keep(&mut agent, "1", "we have a dog").await;
    keep(&mut agent, "2", "the hammer is in the shed").await;
    model.until(2).await;
    find_at_last(&mut agent, "puppy", "1").await;
    drop((agent, host));
    let other = Ideas::new("two");
    let host = read_by(Arc::clone(&other) as _, &store);
    let mut agent = Agent::connect_as(&host, "ada", &["memory"]).await;
    agent.ids = "B";
    other.until(2).await;
    find_at_last(&mut agent, "puppy", "1").await;
}

/// What a model refuses is found by its words, and keeps nothing else from being read.
#[tokio::test]
async fn what_a_model_refuses_does_not_stand_in_the_way() {
    let store = store();
    let model = Arc::new(Picky(Ideas::new("one")));
    // More than are sent at once, stored before anybody reads, so that they come first.
    let plain = Memory::new(store.clone(), Settings::default());
    let plain = Host::builder().plugin(plain).authenticator(Named).build();
    let mut agent = Agent::connect_as(&plain, "ada", &["memory"]).await;
    for number in 0..40 {
        keep(&mut agent, &format!("long {number}"), "an endless story").await;
    }
    keep(&mut agent, "1", "we have a dog").await;
    let host = read_by(model, &store);
    let mut agent = Agent::connect_as(&host, "ada", &["memory"]).await;
    agent.ids = "B";
    find_at_last(&mut agent, "puppy", "1").await;
    assert_eq!(find(&mut agent, "endless").await.len(), 10);
    let left = store.vectors("one").missing(clock(), 100).wait().unwrap();
    assert_eq!(left, []);
}

fn settings(url: String, key: Option<&str>) -> EndpointSettings {
    EndpointSettings {
        url,
        model: "small".into(),
        key: key.map(str::to_owned),
        timeout: Duration::from_secs(5),
    }
}

#[tokio::test]
async fn a_model_is_asked_as_openai_is() {
    let body =
        r#"{"data": [{"index": 1, "embedding": [0.5, 1]}, {"index": 0, "embedding": [1, 0]}]}"#;
    let told = answer("200 OK\r\ncontent-type: application/json", body);
    let server = Server::start(told).await;
    let model = Endpoint::new(
        &settings(server.url("/v1/"), Some("hunter2222")),
        &web(&server),
    );
    let texts = ["a".to_owned(), "b".to_owned()];
    let points = model.unwrap().embed(&texts).await.unwrap();
    assert_eq!(points, [vec![1.0, 0.0], vec![0.5, 1.0]]);
    let asked = server.asked().remove(0);
    assert!(asked.starts_with("POST /v1/embeddings HTTP/1.1"), "{asked}");
    assert!(
        asked.contains("authorization: Bearer hunter2222"),
        "{asked}"
    );
    assert!(
        asked.contains(r#""input":["a","b"]"#) && asked.contains(r#""model":"small""#),
        "{asked}"
    );
}

#[tokio::test]
async fn a_model_that_fails_leaves_the_words() {
    let server = Server::start(answer("500 Internal Server Error", "no")).await;
    let model = Endpoint::new(&settings(server.url("/v1"), None), &web(&server)).unwrap();
    let error = model.embed(&["a".to_owned()]).await.unwrap_err();
    assert!(error.contains("500"), "{error}");
    let host = read_by(Arc::new(model), &store());
    let mut agent = Agent::connect_as(&host, "ada", &["memory"]).await;
    keep(&mut agent, "1", "we have a dog").await;
    assert_eq!(find(&mut agent, "dog").await, ["1"]);
    assert_eq!(find(&mut agent, "puppy").await, Vec::<String>::new());
}

#[tokio::test]
async fn a_model_is_where_the_operator_says() {
    let server = Server::start(answer("200 OK", "{}")).await;
    let web = web(&server);
    // An address that is not public and not named, and a secret over a line that is open.
    let elsewhere = Endpoint::new(&settings("http://127.0.0.1:1/v1".into(), None), &web).unwrap();
    assert!(elsewhere.embed(&["a".to_owned()]).await.is_err());
    assert!(Endpoint::new(&settings("http://example.com/v1".into(), Some("k")), &web).is_err());
    assert!(Endpoint::new(&settings("ftp://example.com/v1".into(), None), &web).is_err());
    assert_eq!(server.asked(), Vec::<String>::new());
}

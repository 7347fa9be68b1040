//! How well memories are found: fixed questions over five thousand entries, by words alone and by words
//! and meaning, with a small real model that another process serves.

mod corpus;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use a2e_caps::http::{Client, Settings as WebSettings, Web};
use a2e_caps::memory::{Embedder, Endpoint, EndpointSettings};
use store::{
    AgentId, Memories, Near, NewEntry, Options, Rooms, SessionId, Sqlite, Store, Text, Tier,
    UnixMillis, Wanted,
};
use tempfile::TempDir;

use corpus::{Corpus, LEXICAL, PARAPHRASES};

const NOW: UnixMillis = UnixMillis(1_770_000_000_000);

/// What of a class is found: how often among the first five, and how high.
#[derive(Debug, Clone, Copy, Default)]
struct Quality {
    asked: f64,
    found: f64,
    ranks: f64,
}

impl Quality {
    fn recall(self) -> f64 {
        self.found / self.asked.max(1.0)
    }

    fn mean_rank(self) -> f64 {
        self.ranks / self.asked.max(1.0)
    }
}

struct Kept {
    memories: Arc<dyn Memories>,
    store: Store,
    _folder: TempDir,
}

fn keep(corpus: &Corpus) -> Kept {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let store = Store::new(Sqlite::open(&Options::new(path)).unwrap());
    let session = SessionId::new("s").unwrap();
    let memories = store
        .for_agent(&AgentId::new("ada").unwrap())
        .memories(&session, "default");
    let entries = corpus
        .entries
        .iter()
        .enumerate()
        .map(|(number, text)| NewEntry {
            tier: Tier::Episodic,
            key: number.to_string(),
            content: serde_json::to_string(text).unwrap(),
            text: Text {
                title: String::new(),
                body: text.clone(),
            },
            tags: Vec::new(),
            source: String::new(),
            weight: 1.0,
            created: NOW,
            expires: UnixMillis::NEVER,
        });
    let outcomes = memories
        .put(NOW, entries.collect(), Rooms::default())
        .wait()
        .unwrap();
    assert!(outcomes.iter().all(Result::is_ok));
    Kept {
        memories,
        store,
        _folder: folder,
    }
}

/// Asks every question, and says how well each class is answered.
fn ask(
    corpus: &Corpus,
    memories: &Arc<dyn Memories>,
    mut near: impl FnMut(usize) -> Option<Near>,
) -> BTreeMap<&'static str, Quality> {
    let mut qualities: BTreeMap<&str, Quality> = BTreeMap::new();
    for (at, question) in corpus.questions.iter().enumerate() {
        let wanted = Wanted {
            tiers: vec![Tier::Episodic],
            query: question.text.clone(),
            near: near(at),
            limit: 5,
            ..Wanted::default()
        };
        let found = memories.find(NOW, &wanted).wait().unwrap();
        let answer = question.answer.to_string();
        let rank = found
            .entries
            .iter()
            .position(|(entry, _)| entry.key == answer);
        let quality = qualities.entry(question.class).or_default();
        quality.asked += 1.0;
        if let Some(rank) = rank {
            quality.found += 1.0;
            quality.ranks += 1.0 / (rank as f64 + 1.0);
        }
    }
    qualities
}

fn told(name: &str, qualities: &BTreeMap<&'static str, Quality>) -> String {
    let mut text = format!(
        "{name:18} {:>9} {:>9} {:>6}\n",
        "questions", "recall@5", "MRR"
    );
    for (class, quality) in qualities {
        text += &format!(
            "{class:18} {:>9} {:>9.3} {:>6.3}\n",
            quality.asked,
            quality.recall(),
            quality.mean_rank()
        );
    }
    text
}

/// The figures are what these tests are for.
#[expect(clippy::print_stdout, reason = "shown by --no-capture")]
fn say(text: &str) {
    println!("{text}");
}

#[test]
fn words_find_what_has_them() {
    let corpus = Corpus::new();
    assert!(corpus.entries.len() >= 5_000 && corpus.questions.len() >= 300);
    let kept = keep(&corpus);
    let qualities = ask(&corpus, &kept.memories, |_| None);
    let report = told("by words", &qualities);
    say(&report);
    for class in LEXICAL {
        assert!(qualities[class].recall() >= 0.95, "{class}\n{report}");
        assert!(qualities[class].asked >= 50.0, "{class}\n{report}");
    }
}

/// The model, as a server of its own.
struct Served {
    process: Child,
    url: String,
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn serve() -> Served {
    let mut process = Command::new(testkit::python())
        .arg(testkit::workspace().join("conformance/embeddings.py"))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut out = BufReader::new(process.stdout.take().unwrap());
    out.read_line(&mut line).unwrap();
    let url = line.trim().to_owned();
    assert!(url.starts_with("http://"), "no model is served: {url}");
    Served { process, url }
}

#[tokio::test]
async fn meaning_finds_what_words_do_not() {
    let served = serve();
    let host = served
        .url
        .trim_start_matches("http://")
        .split('/')
        .next()
        .unwrap()
        .to_owned();
    let web = Web::new(Client::new(WebSettings::default()), &[host]).unwrap();
    let settings = EndpointSettings {
        url: served.url.clone(),
        model: "wordllama".to_owned(),
        key: None,
        timeout: Duration::from_secs(30),
    };
    let model = Endpoint::new(&settings, &web).unwrap();
    let corpus = Corpus::new();
    let kept = keep(&corpus);
    let vectors = kept.store.vectors(model.model());
    loop {
        let unread = vectors.missing(NOW, 500).wait().unwrap();
        if unread.is_empty() {
            break;
        }
        let texts: Vec<String> = unread
            .iter()
            .map(|it| serde_json::from_str(&it.content).unwrap())
            .collect();
        let points = model.embed(&texts).await.unwrap();
        let numbers = unread.iter().map(|entry| entry.number);
        vectors.put(numbers.zip(points).collect()).wait().unwrap();
    }
    let texts: Vec<String> = corpus.questions.iter().map(|it| it.text.clone()).collect();
    let points = model.embed(&texts).await.unwrap();
    let by_words = ask(&corpus, &kept.memories, |_| None);
    let by_both = ask(&corpus, &kept.memories, |at| {
        Some(Near {
            model: "wordllama".to_owned(),
            vector: points[at].clone(),
        })
    });
    let report = told("by words", &by_words) + &told("by words and meaning", &by_both);
    say(&report);
    for class in LEXICAL.into_iter().chain([PARAPHRASES]) {
        assert!(
            by_both[class].recall() >= by_words[class].recall(),
            "{class}\n{report}"
        );
    }
    assert!(by_both[PARAPHRASES].recall() >= 0.8, "{report}");
}

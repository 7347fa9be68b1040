//! Experiences, from a request to the disk, against plain rusqlite with the same rows; and how long it
//! takes to learn from them.
#![expect(clippy::print_stdout, reason = "this is a report")]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use a2e_caps::Placement;
use a2e_caps::learning::{Learning, Ledgers, Settings};
use a2e_runtime::{AgentConfig, Client, Handler, Host, Learner, Source};
use a2e_wire::messages::learn::{Experience, LearnAdaptRequest, LearnStatsRequest};
use a2e_wire::wire::ToStatic;
use a2e_wire::{Object, Real, Timestamp};
use rusqlite::Connection;
use store::{AgentId, Options, SampleKind, Sqlite, Store, statements};

type Fallible<T> = Result<T, Box<dyn std::error::Error>>;

/// Experiences of one request.
const BULK: usize = 10_000;

/// Components that they are about.
const COMPONENTS: usize = 1_000;

/// `default` is whom a host takes everybody for that asks for no credential.
const AGENT: &str = "default";

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let count = match words.as_slice() {
        [] => 1_000_000,
        ["--smoke"] => 2 * BULK,
        _ => {
            println!("usage: learn [--smoke]");
            return;
        }
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build();
    let outcome = runtime
        .map_err(Into::into)
        .and_then(|runtime| runtime.block_on(report(count)));
    if let Err(error) = outcome {
        println!("{error}");
    }
}

async fn report(count: usize) -> Fallible<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("ours.db");
    let store = Store::new(Sqlite::open(&Options::new(&path))?);
    let ledgers = Arc::new(Ledgers::new(store.clone()));
    let placement = Placement::named("learning");
    let learning = Learning::new(ledgers, Settings::default(), placement);
    let started = Instant::now();
    let mut taken = Duration::ZERO;
    for bulk in 0..count / BULK {
        let experiences = experiences(bulk)?;
        // To make them is not what is measured.
        let begun = Instant::now();
        let kept = learning.experienced(AGENT, experiences).await;
        kept.map_err(|failure| failure.message)?;
        taken += begun.elapsed();
    }
    let rate = |time: Duration| count as f64 / time.as_secs_f64();
    println!("{count} experiences in requests of {BULK}, about {COMPONENTS} components");
    println!(
        "  ours        {:>10.0} /s  (with statistics, and weights adapted now and then)",
        rate(taken)
    );
    let bare = bare(&folder.path().join("bare.db"), &store, count)?;
    println!(
        "  rusqlite    {:>10.0} /s  (the same rows alone)",
        rate(bare)
    );
    println!(
        "  ratio       {:>10.2} x",
        bare.as_secs_f64() / taken.as_secs_f64()
    );
    println!("  in all      {:>10.1} s", started.elapsed().as_secs_f64());
    learned(learning).await
}

/// A request for experiences, as it comes from the wire.
fn experiences(bulk: usize) -> Fallible<Vec<Experience<'static>>> {
    let one = |number: usize| -> Fallible<Experience<'static>> {
        let action = format!(
            r#"{{"component_name":"component {}","duration_ms":{}}}"#,
            number % COMPONENTS,
            number % 977
        );
        let state =
            format!(r#"{{"step":{number},"text":"what the agent has seen at this point"}}"#);
        let object = |json: &str| Object::parse(json).map(ToStatic::to_static);
        let reward = ((number % 200) as f64 - 100.0) / 100.0;
        Ok(Experience {
            state: object(&state)?,
            action: object(&action)?,
            reward: Real::new(reward).unwrap_or_default(),
            ..Experience::new(
                format!("{number:032x}").into(),
                Timestamp::from_unix_seconds(number as f64).unwrap_or_default(),
            )
        })
    };
    (bulk * BULK..(bulk + 1) * BULK).map(one).collect()
}

/// The same rows by rusqlite, as many in a transaction.
fn bare(path: &Path, store: &Store, count: usize) -> Fallible<Duration> {
    drop(Sqlite::open(&Options::new(path))?);
    let mut connection = Connection::open(path)?;
    connection.pragma_update(None, "journal_mode", "wal")?;
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    let learning = store.for_agent(&AgentId::new(AGENT)?).learning();
    let (mut taken, mut after, mut seen) = (Duration::ZERO, 0, 0);
    while seen < count {
        let page = learning
            .samples(SampleKind::Experience, after, BULK)
            .wait()?;
        let Some((last, _)) = page.last() else {
            break;
        };
        (after, seen) = (*last, seen + page.len());
        let begun = Instant::now();
        let transaction = connection.transaction()?;
        let mut keep = transaction.prepare_cached(statements::ADD_SAMPLE)?;
        for (_, body) in &page {
            keep.execute((AGENT, 1, body, body.len()))?;
        }
        drop(keep);
        transaction.commit()?;
        taken += begun.elapsed();
    }
    Ok(taken)
}

/// What an agent waits for when it asks what follows.
async fn learned(learning: Learning) -> Fallible<()> {
    let host = Host::builder().plugin(learning).build();
    let (stream, served) = tokio::io::duplex(1024 * 1024);
    tokio::spawn(async move { host.serve(served, Source::Own).await });
    let config = AgentConfig {
        wanted: vec!["learning".into()],
        ..AgentConfig::default()
    };
    let client = Client::connect(stream, config, Handler::none()).await?;
    let begun = Instant::now();
    let stats = client
        .request(LearnStatsRequest {
            component_name: "".into(),
        })
        .await?;
    let time = begun.elapsed();
    println!("answers, over the wire in one process");
    println!(
        "  stats of {} components {:>8.1} ms",
        stats.components.len(),
        milliseconds(time)
    );
    for strategy in ["ppo", "ucb1", "epsilon_greedy", "softmax", "custom"] {
        let request = LearnAdaptRequest {
            strategy: strategy.into(),
            ..LearnAdaptRequest::new()
        };
        let begun = Instant::now();
        client.request(request).await?;
        let time = milliseconds(begun.elapsed());
        println!("  adapt by {strategy:14} {time:>8.1} ms");
    }
    client.disconnect(Duration::from_secs(1)).await;
    Ok(())
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

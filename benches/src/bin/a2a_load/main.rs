//! A node under the load of many agents: 2,000 sessions of 40 DIDs for a minute, at half the rate that
//! it reaches, with a hostile message to every hundred honest ones.
//!
//! usage: a2a_load [--smoke]
//!
//! Every honest request must be answered, no hostile one must be let in, and the node must not grow but
//! by the ids of requests, which it has to remember for ten minutes.
#![expect(clippy::print_stdout, reason = "this is a report")]

mod among;

use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use a2a_net::transport::Carrier;
use a2a_net::{CallOptions, Client, NameWork};
use a2a_session::Sealing;
use benches::arguments::Arguments;
use benches::node::Node;
use benches::party::Party;
use canonical::Value;
use serde_json::json;
use tokio::task::JoinSet;

use among::{Among, Tally};

// As in the product.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// All agents come from one address and nobody vouches for them, so these are raised: how often a
/// source shakes hands and sends, how much newcomers ask together, how often one agent asks, and how
/// many connections and sessions there are. Everything else, the audit log too, is as it is by default.
const CONFIGURATION: &str = "\
server: {listen: '127.0.0.1:0'}
a2a:
  listen: '127.0.0.1:0'
  policy: {rate_limit: 10000000, rate_period: 1}
  limits:
    connections: 10000
    connections_per_source: 10000
    half_open_per_source: 4096
    hellos_per_second: 100000
    messages_per_second: 1000000
    newcomers_per_minute: 10000000
    sessions_per_source: 10000
telemetry: {log: error}
";

/// How much of it.
struct Plan {
    agents: usize,
    sessions_each: usize,
    /// How long it is measured what rate the node reaches.
    measured: Duration,
    run: Duration,
}

const FULL: Plan = Plan {
    agents: 40,
    sessions_each: 50,
    measured: Duration::from_secs(5),
    run: Duration::from_secs(60),
};

const SMOKE: Plan = Plan {
    agents: 2,
    sessions_each: 3,
    measured: Duration::from_millis(200),
    run: Duration::from_secs(1),
};

/// Requests in flight while the rate is measured, as in the benchmark.
const IN_FLIGHT: usize = 64;
/// How often requests are begun.
const BEAT: Duration = Duration::from_millis(5);
/// KiB that a node may grow by itself.
const GROWTH: f64 = 16.0 * 1024.0;
/// KiB that it may remember of a request.
const REMEMBERED: f64 = 0.25;
const TEXT: &str = "grey fox";

type Caller = Client<Among>;

/// One session of an agent.
struct Session {
    party: Arc<Party>,
    client: Caller,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<ExitCode, Box<dyn Error>> {
    let arguments = Arguments::read("a2a_load")?;
    let plan = if arguments.smoke { SMOKE } else { FULL };
    let node = Node::start(&arguments.programs.own.join("frith"), CONFIGURATION)?;
    let tally = Arc::new(Tally::default());
    let sessions = open(&node, &plan, &tally).await?;
    println!("{} sessions of {} agents", sessions.len(), plan.agents);
    let reached = measure(&sessions, plan.measured).await?;
    let rate = reached / 2.0;
    println!("{reached:.0} requests a second are reached; {rate:.0} are sent");

    // Some time first, in which what is allocated once is.
    let calm = load(&sessions, rate, plan.run / 4).await;
    let before = node.server.usage()?.resident;
    tally.begin();
    let loaded = load(&sessions, rate, plan.run).await;
    tally.end();
    let after = node.server.usage()?.resident;
    calm.show("without hostile messages");
    loaded.show("with hostile messages");
    let (refused, let_in) = (
        tally.refused.load(Ordering::Relaxed),
        tally.let_in.load(Ordering::Relaxed),
    );
    println!("hostile messages: {refused} refused, {let_in} let in");
    let grown = after - before;
    let most = REMEMBERED.mul_add(loaded.answered() as f64, GROWTH);
    println!("memory: {before:.0} KiB, {grown:.0} KiB more at the end; {most:.0} may be");
    let lost = calm.failures.len() + loaded.failures.len();
    println!("lost: {lost}");
    let is_good = lost == 0 && let_in == 0 && refused > 0 && grown <= most;
    println!(
        "{}",
        if is_good {
            "the node bore it"
        } else {
            "the node did not bear it"
        }
    );
    Ok(match is_good {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// Opens all sessions, with a request in each.
async fn open(
    node: &Node,
    plan: &Plan,
    tally: &Arc<Tally>,
) -> Result<Vec<Session>, Box<dyn Error>> {
    let origin = format!("https://{}", node.endpoint("a2a", "https://")?);
    let mut sessions = Vec::new();
    for _ in 0..plan.agents {
        let party = Arc::new(Party::open(&origin, &node.authority()).await?);
        for _ in 0..plan.sessions_each {
            let among = Among {
                posts: Arc::clone(&party.posts),
                tally: Arc::clone(tally),
            };
            let session = Session {
                client: party.client_over(Carrier::Http2, among, Sealing::IfRequired),
                party: Arc::clone(&party),
            };
            session.ping().await?;
            sessions.push(session);
        }
    }
    Ok(sessions)
}

impl Session {
    /// One request, answered with what it had echoed.
    fn ping(&self) -> impl Future<Output = Result<(), String>> + Send + 'static + use<> {
        let (client, server) = (self.client.clone(), self.party.server.clone());
        async move {
            let intent = json!({"goal": "frith.ping", "inputs": {"echo": TEXT}});
            let options = CallOptions {
                // So that what is lost is not asked for again behind our back.
                name_work: NameWork::No,
                ..CallOptions::default()
            };
            let intent = Value::from_serialize(&intent).map_err(|error| error.to_string())?;
            let answered = client.call(&server, intent, &options).await;
            let answered = answered.map_err(|error| error.to_string())?;
            let echo = answered.result.as_object().and_then(|it| it.get("echo"));
            match echo {
                Some(Value::String(text)) if text.as_ref() == TEXT => Ok(()),
                _ => Err(format!("no echo: {answered:?}")),
            }
        }
    }
}

/// The requests a second that are reached with so many in flight.
async fn measure(sessions: &[Session], time: Duration) -> Result<f64, Box<dyn Error>> {
    let mut turns = sessions.iter().cycle();
    let mut running = JoinSet::new();
    for session in turns.by_ref().take(IN_FLIGHT) {
        running.spawn(session.ping());
    }
    let (begun, mut answered) = (Instant::now(), 0.0);
    while begun.elapsed() < time {
        if let Some(ended) = running.join_next().await {
            ended??;
        }
        answered += 1.0;
        running.spawn(turns.next().ok_or("no session")?.ping());
    }
    let rate = answered / begun.elapsed().as_secs_f64();
    while let Some(ended) = running.join_next().await {
        ended??;
    }
    Ok(rate)
}

/// What became of a load.
#[derive(Default)]
struct Loaded {
    seconds: Vec<f64>,
    failures: Vec<String>,
}

/// Begins so many requests a second, whether or not earlier ones were answered, and waits for all.
async fn load(sessions: &[Session], rate: f64, time: Duration) -> Loaded {
    let mut turns = sessions.iter().cycle();
    let mut running = JoinSet::new();
    let mut loaded = Loaded::default();
    let (begun, mut sent) = (Instant::now(), 0.0);
    let mut beats = tokio::time::interval(BEAT);
    while begun.elapsed() < time {
        beats.tick().await;
        while sent < rate * begun.elapsed().as_secs_f64() {
            sent += 1.0;
            let Some(session) = turns.next() else {
                return loaded;
            };
            let ping = session.ping();
            running.spawn(async move {
                let asked = Instant::now();
                ping.await.map(|()| asked.elapsed().as_secs_f64())
            });
        }
        while let Some(ended) = running.try_join_next() {
            loaded.add(ended);
        }
    }
    while let Some(ended) = running.join_next().await {
        loaded.add(ended);
    }
    loaded
}

impl Loaded {
    fn add(&mut self, ended: Result<Result<f64, String>, tokio::task::JoinError>) {
        match ended {
            Ok(Ok(seconds)) => self.seconds.push(seconds),
            Ok(Err(failure)) => self.failures.push(failure),
            Err(error) => self.failures.push(error.to_string()),
        }
    }

    fn answered(&self) -> usize {
        self.seconds.len()
    }

    fn show(&self, name: &str) {
        let mut sorted = self.seconds.clone();
        sorted.sort_by(f64::total_cmp);
        let at = |share: usize| {
            let place = (sorted.len() * share / 1000).min(sorted.len().saturating_sub(1));
            sorted.get(place).map_or(0.0, |seconds| seconds * 1e3)
        };
        println!(
            "{name}: {} answered; half within {:.1} ms, 99 % within {:.1} ms",
            sorted.len(),
            at(500),
            at(990)
        );
        for failure in self.failures.iter().take(5) {
            println!("  lost: {failure}");
        }
    }
}

//! Tables that strangers fill. While they keep one full from several sources, an agent that the operator
//! knows and one that nobody has seen before both shake hands and are answered.

use std::sync::Arc;
use std::time::Duration;

use a2a_identity::Want;
use a2a_net::*;
use a2a_session::{Directory as _, Freshness};
use tokio::task::LocalSet;
use tokio::time::Instant;

use crate::support::*;
use crate::sybil::Newcomer;

/// Sources that strangers come from.
const SOURCES: u16 = 3;
/// Strangers of each of them.
const STRANGERS: u16 = 6;

const fn limits(total: usize, per_holder: usize, reserved: usize) -> base::Limits {
    base::Limits {
        total,
        per_holder,
        reserved,
    }
}

/// A server with small tables, and two honest agents.
struct Flooded {
    server: Server,
    home: Arc<Home>,
    spy: Spy,
    client: Arc<Home>,
    known: Newcomer,
    new: Newcomer,
}

impl Flooded {
    async fn with(change: impl FnOnce(&mut Made, &mut ServerSettings)) -> Self {
        let known = Newcomer::at(1000, "known.example.com");
        let new = Newcomer::at(2000, "new.example.com");
        let mut made = Made::of(SERVER);
        made.rules.added.insert(known.did().to_string());
        let mut settings = ServerSettings::new().unwrap();
        settings.config.limits.hello_rate = policy::Rate::new(1000, 1).unwrap();
        change(&mut made, &mut settings);
        let node = made.node().await;
        known.publish(&node.spy);
        new.publish(&node.spy);
        let server = Server::start(Arc::clone(&node.home), settings);
        counting(&server, "work");
        Self {
            server,
            home: node.home,
            spy: node.spy,
            client: Made::of(CLIENT).node().await.home,
            known,
            new,
        }
    }

    /// Strangers of several sources do what fills tables: each has a DID that must be looked up, gets in,
    /// has named work done, and begins another handshake that it does not finish.
    async fn flood(&self) {
        for number in 0..SOURCES * STRANGERS {
            let host = format!("stranger{number}.example.com");
            let stranger = Newcomer::at(number % SOURCES, &host);
            stranger.publish(&self.spy);
            if let Ok(mut hand) = stranger.shake(&self.server, &self.client, None).await {
                stranger.ask(&mut hand).await;
            }
            stranger.begins(&self.server).await;
        }
    }

    /// Both honest agents get in and are answered.
    async fn check_honest(&self, table: &str) {
        for agent in [&self.known, &self.new] {
            let did = agent.did();
            let hand = agent.shake(&self.server, &self.client, None).await;
            let mut hand = hand.unwrap_or_else(|code| panic!("{table}: {did}: {code}"));
            assert_eq!(agent.ask(&mut hand).await, "none", "{table}: {did}");
        }
    }

    /// What was known of both honest agents before the flood still is: their manifests, and what their
    /// hosts publish.
    async fn check_remembered(&self, table: &str) {
        for agent in [&self.known, &self.new] {
            let did = agent.did();
            let seen = self.home.standing().last_seen(&did);
            assert!(seen.is_some(), "{table}: {did} is forgotten");
            let asked = self.spy.count();
            let found = self
                .home
                .resolver()
                .facts(&did, Want::Manifest, Freshness::Any);
            assert!(found.await.is_ok(), "{table}: {did}");
            assert_eq!(self.spy.count(), asked, "{table}: {did} is looked up again");
        }
    }
}

/// Resolutions under way: strangers at hosts that do not answer.
#[tokio::test(start_paused = true)]
async fn slow_lookups_of_strangers_leave_room_for_others() {
    let flooded = Flooded::with(|made, _| {
        made.resolver.resolutions = limits(6, 2, 2);
        made.resolver.fetches.all = limits(3, 2, 1);
    });
    let flooded = Arc::new(flooded.await);
    flooded.spy.slow_down("slow.example.com");
    let strangers = LocalSet::new();
    let mut floods = Vec::new();
    for number in 0..SOURCES * 4 {
        let flooded = Arc::clone(&flooded);
        floods.push(strangers.spawn_local(async move {
            for round in 0.. {
                let host = format!("a{number}-{round}.slow.example.com");
                let stranger = Newcomer::at(number % SOURCES, &host);
                let shaken = stranger.shake(&flooded.server, &flooded.client, None).await;
                assert_eq!(shaken.err().as_deref(), Some("SERVICE_UNAVAILABLE"));
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }));
    }
    let honest = async {
        tokio::time::sleep(Duration::from_secs(10)).await;
        // The reserve is free: nothing of the strangers' is waited for.
        let began = Instant::now();
        let known = flooded
            .known
            .shake(&flooded.server, &flooded.client, None)
            .await;
        assert!(known.is_ok());
        assert_eq!(began.elapsed(), Duration::ZERO);
        flooded.check_honest("resolutions").await;
    };
    strangers.run_until(honest).await;
    assert!(
        floods.iter().all(|flood| !flood.is_finished()),
        "all went on"
    );
}

/// A table, made so small that the strangers fill it.
type Small = (&'static str, fn(&mut Made, &mut ServerSettings));

const TABLES: [Small; 9] = [
    ("handshakes under way", |_, settings| {
        settings.config.limits.half_open = limits(6, 2, 2);
    }),
    ("nonces", |_, settings| {
        settings.config.limits.nonces = limits(6, 2, 2);
    }),
    ("agents that are remembered", |made, _| {
        made.peer_history = limits(6, 2, 2);
    }),
    ("cached agents", |made, _| {
        made.resolver.cached = limits(6, 2, 2);
    }),
    ("rate buckets", |_, settings| {
        settings.agents.buckets = limits(6, 2, 2);
    }),
    ("named work", |_, settings| {
        settings.agents.works.entries = limits(6, 2, 2);
    }),
    ("results of named work", |_, settings| {
        settings.agents.works.bytes = limits(60, 20, 20);
    }),
    ("sessions", |_, settings| {
        settings.config.limits.sessions = 6;
        settings.config.limits.sessions_per_source = 2;
    }),
    ("all of them", |made, settings| {
        for (_, shrink) in &TABLES[..TABLES.len() - 1] {
            shrink(made, settings);
        }
    }),
];

/// Each of them in turn, and then all.
#[tokio::test]
async fn full_tables_keep_neither_known_nor_new_agents_out() {
    for (table, shrink) in TABLES {
        let flooded = Flooded::with(shrink).await;
        flooded.check_honest(table).await;
        flooded.flood().await;
        flooded.check_remembered(table).await;
        flooded.check_honest(table).await;
    }
}

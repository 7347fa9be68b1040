//! Tables that strangers fill. While they keep one full from several sources, an agent that the operator
//! knows and one that nobody has seen before both shake hands and are answered.

use std::sync::Arc;
use std::time::Duration;

use a2a_net::*;
use tokio::task::LocalSet;
use tokio::time::Instant;

use crate::support::*;
use crate::sybil::Newcomer;

/// Sources that strangers come from.
const SOURCES: u16 = 3;

/// A server with small tables, and two honest agents.
struct Flooded {
    server: Server,
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
        let server = Server::start(node.home, settings);
        counting(&server, "work");
        Self {
            server,
            spy: node.spy,
            client: Made::of(CLIENT).node().await.home,
            known,
            new,
        }
    }

    /// Both honest agents get in and are answered.
    async fn check_honest(&self) {
        for agent in [&self.known, &self.new] {
            let hand = agent.shake(&self.server, &self.client, None).await;
            let mut hand = hand.unwrap_or_else(|code| panic!("{}: {code}", agent.did()));
            assert_eq!(agent.ask(&mut hand).await, "none", "{}", agent.did());
        }
    }
}

/// Resolutions under way: strangers at hosts that do not answer.
#[tokio::test(start_paused = true)]
async fn slow_lookups_of_strangers_leave_room_for_others() {
    let limits = |total, per_holder, reserved| base::Limits {
        total,
        per_holder,
        reserved,
    };
    let flooded = Flooded::with(|made, _| {
        made.resolver.resolutions = limits(6, 2, 2);
        made.resolver.fetches.all = limits(3, 2, 1);
    });
    let flooded = Arc::new(flooded.await);
    flooded.spy.slow_down("slow.example.com");
    let strangers = LocalSet::new();
    for number in 0..SOURCES * 4 {
        let flooded = Arc::clone(&flooded);
        strangers.spawn_local(async move {
            for round in 0.. {
                let host = format!("a{number}-{round}.slow.example.com");
                let stranger = Newcomer::at(number % SOURCES, &host);
                let shaken = stranger.shake(&flooded.server, &flooded.client, None).await;
                assert_eq!(shaken.err().as_deref(), Some("SERVICE_UNAVAILABLE"));
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        });
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
        flooded.check_honest().await;
    };
    strangers.run_until(honest).await;
}

//! How much a session takes.

use a2a_net::*;

use crate::hand::{self, Hand};
use crate::support::*;

/// Bytes of memory that this process has resident.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .unwrap();
    let kibibytes: usize = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kibibytes * 1024
}

/// At most 8 KiB for a session in which nothing happens any more.
#[tokio::test]
async fn an_idle_session_takes_at_most_eight_kibibytes() {
    const SESSIONS: usize = 400;
    const WARM_UP: usize = 100;
    let mut rules = Rules::default();
    let tree = value(&serde_json::json!({"max_concurrent_sessions": 100_000}));
    let policy = policy::Policy::read(tree.as_object().unwrap(), policy::limits::PAYLOAD_CEILING);
    rules.policy = policy.unwrap().complete().unwrap();
    let home = Made {
        rules,
        ..Made::of(SERVER)
    };
    let mut settings = ServerSettings::new().unwrap();
    // However slow the machine is.
    settings.session.unclaimed = std::time::Duration::from_secs(3000);
    settings.config.limits.hello_rate = policy::Rate::new(10_000_000, 1).unwrap();
    settings.source_rate = policy::Rate::new(10_000_000, 1).unwrap();
    let server = Server::start(home.node().await.home, settings);
    let client = Made::of(CLIENT).node().await;
    let use_one = async || {
        let mut hand = Hand::of(&server, client.home.standing(), hand::own()).await;
        let ping = hand.request(&serde_json::json!({"goal": "frith.ping"}));
        assert!(!hand.send(ping).await.is_empty());
        // The client's side is dropped at once.
    };
    // What is allocated once is there before anything is counted.
    for _ in 0..WARM_UP {
        use_one().await;
    }
    let before = resident();
    for _ in 0..SESSIONS {
        use_one().await;
    }
    let each = resident().saturating_sub(before) / SESSIONS;
    assert_eq!(server.sessions().len(), SESSIONS + WARM_UP);
    // Nonces that are remembered are not the session's, and still within this.
    assert!(each <= 8 * 1024, "{each} bytes");
}

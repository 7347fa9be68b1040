use std::net::{IpAddr, Ipv4Addr};

use a2a_session::Source;
use store::Memory;

use super::*;

const SMALL: Limits = Limits {
    total: 8,
    per_holder: 3,
    reserved: 4,
};
const DAY: i64 = 24 * 3600 * 1000;
const NOW: UnixMillis = UnixMillis(100 * DAY);

fn did(name: &str) -> Did {
    Did::parse(
        &format!("did:web:{name}.example.com"),
        a2a_identity::Peer::Profile,
    )
    .unwrap()
}

fn stranger(from: u8) -> Holder {
    Holder::Source(Source::from(IpAddr::V4(Ipv4Addr::new(192, 0, 2, from))))
}

fn manifest(text: &str, timestamp: i64) -> Seen {
    Seen {
        hash: Digest::of(text.as_bytes()),
        timestamp: UnixSeconds(timestamp),
    }
}

fn in_memory() -> Store {
    Store::new(Memory::new(store::Limits::default()))
}

async fn open(store: &Store, now: UnixMillis) -> PeerHistory {
    let opened = PeerHistory::open(store, SMALL, now, |_| false).await;
    opened.unwrap()
}

async fn accept(history: &PeerHistory, now: UnixMillis, name: &str, holder: Holder) {
    let did = did(name);
    let accepted = history.accept_manifest(now, &did, holder, manifest(name, 1));
    accepted.await.unwrap();
    let hash = Digest::of(name.as_bytes());
    let spoke = history.speaks_profile(now, &did, holder, hash).await;
    spoke.unwrap();
}

async fn stored(store: &Store, kind: PinKind) -> Vec<String> {
    let pins = store.pins(&kind).list().await.unwrap();
    pins.into_iter().map(|(name, _)| name).collect()
}

#[tokio::test]
async fn flood_from_one_source_evicts_only_its_own_agents() {
    let store = in_memory();
    let history = open(&store, NOW).await;
    accept(&history, NOW, "honest", stranger(1)).await;
    for number in 0..100 {
        accept(&history, NOW, &format!("free{number}"), stranger(2)).await;
    }
    assert_eq!(
        history.manifest(&did("honest")),
        Some(manifest("honest", 1))
    );
    assert_eq!(history.spoke_profile(&did("honest")), Some(NOW));
    assert_eq!(history.manifest(&did("free0")), None);
    let left = ["free97", "free98", "free99", "honest"].map(|name| did(name).to_string());
    for kind in [PinKind::MANIFEST, PinKind::PROFILE] {
        assert_eq!(stored(&store, kind).await, left);
    }
}

#[tokio::test]
async fn known_agents_outlast_floods_from_many_sources() {
    let store = in_memory();
    let history = open(&store, NOW).await;
    let known = Holder::of_did(&did("known"));
    accept(&history, NOW, "known", known).await;
    for number in 0..100 {
        let name = format!("free{number}");
        accept(&history, NOW, &name, stranger(number)).await;
    }
    assert_eq!(history.manifest(&did("known")), Some(manifest("known", 1)));
    let agent = did("known");
    let rollback = history.accept_manifest(NOW, &agent, known, manifest("stolen", 0));
    let failure = rollback.await.unwrap_err();
    assert_eq!(failure.code, ErrorCode::InvalidManifest);
}

#[tokio::test]
async fn agents_known_for_a_day_outlast_floods_also_after_a_restart() {
    let store = in_memory();
    let history = open(&store, NOW).await;
    accept(&history, NOW, "regular", stranger(1)).await;
    let later = UnixMillis(NOW.0 + DAY + 1);
    accept(&history, later, "regular", stranger(1)).await;
    for number in 0..100 {
        let name = format!("free{number}");
        accept(&history, later, &name, stranger(number)).await;
    }
    let reopened = open(&store, later).await;
    for number in 100..200 {
        let name = format!("free{number}");
        accept(&reopened, later, &name, stranger(number)).await;
    }
    assert_eq!(
        reopened.manifest(&did("regular")),
        Some(manifest("regular", 1))
    );
    assert!(reopened.spoke_profile(&did("regular")).is_some());
    assert!(stored(&store, PinKind::MANIFEST).await.len() <= SMALL.total);
}

/// Free agents that come for days fill the place of those that have come for long, and push neither
/// known nor new agents out.
#[tokio::test]
async fn agents_that_come_for_days_leave_room_for_known_and_new_ones() {
    let store = in_memory();
    let history = open(&store, NOW).await;
    let known = Holder::of_did(&did("known"));
    accept(&history, NOW, "known", known).await;
    let day = |number: i64| UnixMillis(NOW.0 + number * (DAY + 1));
    for number in 0..40 {
        let name = format!("free{number}");
        let source = stranger(u8::try_from(number % 20).unwrap());
        for days in 0..3 {
            accept(&history, day(number * 3 + days), &name, source).await;
        }
    }
    let now = day(200);
    accept(&history, now, "new", stranger(100)).await;
    let is_known = |name: &str| name == did("known").to_string();
    let reopened = PeerHistory::open(&store, SMALL, now, is_known).await;
    for history in [history, reopened.unwrap()] {
        for name in ["known", "new"] {
            assert_eq!(
                history.manifest(&did(name)),
                Some(manifest(name, 1)),
                "{name}"
            );
        }
    }
}

#[tokio::test]
async fn stored_agents_beyond_the_limit_are_deleted_at_the_start() {
    let store = in_memory();
    for number in 0..20 {
        let name = did(&format!("free{number}")).to_string();
        let pinned = store.pins(&PinKind::PROFILE).pin(NOW, &name, Hash([1; 32]));
        pinned.await.unwrap();
    }
    open(&store, NOW).await;
    let most = SMALL.total - SMALL.reserved;
    assert_eq!(stored(&store, PinKind::PROFILE).await.len(), most);
}

#[tokio::test]
async fn repository_of_a_new_agent_is_pinned_in_a_full_table() {
    let store = in_memory();
    let history = open(&store, NOW).await;
    let ids = |number| GithubIds {
        repository: number,
        owner: i64::MAX - number,
    };
    for number in 0..100 {
        let did = did(&format!("free{number}"));
        let holder = (Holder::of_did(&did), Class::Stranger);
        let remembered = history.remember_repository(NOW, &did, holder, ids(number));
        remembered.await.unwrap();
        assert_eq!(history.repository(&did), Some(ids(number)));
    }
    let most = SMALL.total - SMALL.reserved;
    assert_eq!(stored(&store, PinKind::REPOSITORY).await.len(), most);
    let reopened = open(&store, NOW).await;
    assert_eq!(reopened.repository(&did("free99")), Some(ids(99)));
    reopened.forget_repository(&did("free99")).await.unwrap();
    assert_eq!(reopened.repository(&did("free99")), None);
    assert_eq!(open(&store, NOW).await.repository(&did("free99")), None);
}

#[tokio::test]
async fn older_manifest_does_not_replace_a_newer_one() {
    let store = in_memory();
    let history = open(&store, NOW).await;
    let (agent, holder) = (did("agent"), stranger(1));
    let accept = |seen| history.accept_manifest(NOW, &agent, holder, seen);
    accept(manifest("new", 2)).await.unwrap();
    let renewed = history.renew_manifest(NOW, &agent, manifest("newer", 3));
    renewed.await.unwrap();
    assert_eq!(history.manifest(&agent), Some(manifest("newer", 3)));
    let failure = accept(manifest("new", 2)).await.unwrap_err();
    assert_eq!(failure.code, ErrorCode::InvalidManifest);
    // Of an agent that was never accepted a renewal is not remembered.
    let unknown = did("unknown");
    let renewed = history.renew_manifest(NOW, &unknown, manifest("new", 2));
    renewed.await.unwrap();
    assert_eq!(history.manifest(&unknown), None);
}

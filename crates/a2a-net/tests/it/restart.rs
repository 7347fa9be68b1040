//! What outlives a node.

use std::sync::Arc;

use a2a_identity::Answer as Fetched;
use a2a_net::transport::{CarryError, Place, Service as _};
use a2a_net::*;
use a2a_wire::ErrorCode;
use serde_json::json;
use store::{Options, Sqlite, Store};
use tokio::sync::Notify;

use crate::support::*;

fn open(path: &std::path::Path) -> Store {
    Store::new(Sqlite::open(&Options::new(path)).unwrap())
}

fn work(goal: &str) -> serde_json::Value {
    json!({"goal": goal, "intent_id": "6f1c5b8e-3f57-4d1e-9a53-1f1b7e0c9d14", "constraints": {"timeout_ms": 60_000}})
}

/// Profile §10.5, design §6: a retry after a restart gets the stored result.
#[tokio::test]
async fn finished_work_is_not_done_again_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let first = {
        let world = World::<InMemory>::on(Rules::default(), open(&path), |_| {}).await;
        let runs = counting(&world.server, "work");
        let answer = world.call(work("work")).await.unwrap();
        assert_eq!(runs.count(), 1);
        answer.result
    };
    let world = World::<InMemory>::on(Rules::default(), open(&path), |_| {}).await;
    let runs = counting(&world.server, "work");
    assert_eq!(world.call(work("work")).await.unwrap().result, first);
    assert_eq!(runs.count(), 0);
    let mut other = work("work");
    other["inputs"] = json!({"x": 1});
    let error = world.call(other).await.unwrap_err();
    assert_eq!(reason(&error), "intent_id_conflict");
}

/// Profile §10.5: work that is forgotten in memory, since there was more of it than fits, is answered
/// from the store, or refused if its result may not be kept.
#[tokio::test]
async fn work_that_gave_way_to_other_work_is_not_done_again() {
    let one = base::Limits {
        total: 1,
        per_holder: 1,
        reserved: 0,
    };
    let small = |entries, bytes| {
        move |settings: &mut ServerSettings| {
            settings.agents.works = a2a_session::WorkLimits { entries, bytes };
        }
    };
    let all = a2a_session::WorkLimits::default();
    for (retention, limits) in [
        ("24h", small(one, all.bytes)),
        ("24h", small(all.entries, one)),
        ("none", small(one, all.bytes)),
        ("session", small(one, all.bytes)),
    ] {
        let rules = limited(&json!({"data_retention": retention}));
        let world = World::<InMemory>::with(rules, limits).await;
        let runs = counting(&world.server, "work");
        let first = world.call(work("work")).await.unwrap().result;
        let mut other = work("work");
        other["intent_id"] = "6f1c5b8e-3f57-4d1e-9a53-1f1b7e0c9d15".into();
        world.call(other).await.unwrap();
        let again = world.call(work("work")).await;
        match retention {
            "24h" => assert_eq!(again.unwrap().result, first),
            _ => assert_eq!(reason(&again.unwrap_err()), "already_executed"),
        }
        assert_eq!(runs.count(), 2, "{retention}");
        let mut other = work("work");
        other["inputs"] = json!({"x": 1});
        let error = world.call(other).await.unwrap_err();
        assert_eq!(reason(&error), "intent_id_conflict");
    }
}

/// Design §6: work that a crash cut off may have been done, so it is not done again.
#[tokio::test]
async fn interrupted_work_is_not_done_again_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    {
        let world = World::<InMemory>::on(Rules::default(), open(&path), |_| {}).await;
        let begun = Arc::new(Notify::new());
        let told = Arc::clone(&begun);
        world.server.register(name("work"), move |_: Call| {
            told.notify_one();
            std::future::pending()
        });
        // The process ends while the work runs: nobody tells the store.
        world.link.intercept({
            let server = world.server.clone();
            move |place, message| {
                let message = bytes::Bytes::copy_from_slice(message);
                (place == Place::Request).then(|| {
                    let server = server.clone();
                    let arrived = arrived(place, None, message);
                    drop(tokio::spawn(async move { server.handle(arrived).await }));
                    Err(CarryError::Foreign("the process has ended".to_owned()))
                })
            }
        });
        let _ = world.call(work("work")).await.unwrap_err();
        begun.notified().await;
    }
    // A copy of the file is what a crash would have left.
    let copy = folder.path().join("copy.db");
    for suffix in ["", "-wal", "-shm"] {
        let from = folder.path().join(format!("store.db{suffix}"));
        if from.exists() {
            std::fs::copy(from, folder.path().join(format!("copy.db{suffix}"))).unwrap();
        }
    }
    let world = World::<InMemory>::on(Rules::default(), open(&copy), |_| {}).await;
    let runs = counting(&world.server, "work");
    let error = world.call(work("work")).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::ReplayDetected);
    assert_eq!(reason(&error), "already_executed");
    assert_eq!(runs.count(), 0);
}

/// Threat 69: an older manifest after a restart.
#[tokio::test]
async fn threat_69_rollback_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let server = World::<InMemory>::new().await;
    let call = async |at: i64, label: &str| {
        let made = Made {
            store: open(&path),
            ..Made::of(CLIENT)
        };
        let node = made.node().await;
        let shown = manifest_with(SERVER, at, |draft| draft["name"] = json!(label));
        let identity = Identity::new(shown, "k".parse().unwrap(), key(SERVER)).unwrap();
        server.server.set_identity(identity);
        know(&node, &server.server);
        let client = Client::new(
            node.home,
            ClientSettings::default(),
            server.link.couriers(),
            server.link.guard(),
        );
        let ping = value(&json!({"goal": "frith.ping"}));
        client
            .call(&did(SERVER), ping, &CallOptions::default())
            .await
    };
    assert!(call(UNIX - 50, "new").await.is_ok());
    let error = call(UNIX - 60, "old").await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::InvalidManifest);
    // As old as the one that is known, and other content.
    let error = call(UNIX - 50, "other").await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::InvalidManifest);
    // An older signature over the same content is fine.
    assert!(call(UNIX - 55, "new").await.is_ok());
    assert!(call(UNIX - 40, "newest").await.is_ok());
}

/// Threat 39: the downgrade memory outlives the process, for thirty days.
#[tokio::test(start_paused = true)]
async fn threat_39_an_agent_that_spoke_the_profile_after_a_restart() {
    use a2a_session::Directory as _;
    let store = Store::new(store::Memory::new(store::Limits::default()));
    let world = World::<InMemory>::on(Rules::default(), store.clone(), |_| {}).await;
    assert!(!world.server_home.standing().spoke_profile(&did(CLIENT)));
    world.call(json!({"goal": "frith.ping"})).await.unwrap();
    assert!(world.server_home.standing().spoke_profile(&did(CLIENT)));
    assert!(world.client_home.standing().spoke_profile(&did(SERVER)));
    let again = Made {
        store,
        ..Made::of(SERVER)
    };
    let again = again.node().await;
    assert!(again.home.standing().spoke_profile(&did(CLIENT)));
    let day = std::time::Duration::from_secs(24 * 3600);
    tokio::time::advance(day * 29).await;
    assert!(again.home.standing().spoke_profile(&did(CLIENT)));
    tokio::time::advance(day * 2).await;
    assert!(!again.home.standing().spoke_profile(&did(CLIENT)));
}

/// Threats 141 and 142: what must be gone with the answer, or with the session, is in no file.
#[tokio::test]
async fn threats_141_142_nothing_is_left_behind() {
    for (retention, is_kept) in [("none", false), ("session", true)] {
        nothing_is_left_behind(retention, is_kept).await;
    }
}

async fn nothing_is_left_behind(retention: &'static str, is_kept: bool) {
    const MARKER: &str = "a-marker-that-is-nowhere-else";
    let folder = tempfile::tempdir().unwrap();
    let tree = value(&json!({ "data_retention": retention }));
    let policy = policy::Policy::read(tree.as_object().unwrap(), policy::limits::PAYLOAD_CEILING);
    let rules = Rules {
        policy: policy.unwrap().complete().unwrap(),
        ..Rules::default()
    };
    let world = World::<InMemory>::on(rules, open(&folder.path().join("store.db")), |_| {}).await;
    let runs = Runs::default();
    let counted = runs.clone();
    world.server.register(name("work"), move |call: Call| {
        counted.add();
        assert_eq!(call.retention.as_str(), retention);
        async move { Ok(call.inputs.get("text").unwrap().clone()) }
    });
    let mut intent = work("work");
    intent["inputs"] = json!({ "text": MARKER });
    let answer = world.call(intent.clone()).await.unwrap();
    assert_eq!(json_of(&answer.result), json!(MARKER));
    // As long as the session lasts.
    assert_eq!(world.call(intent.clone()).await.is_ok(), is_kept);
    world.client.close(std::time::Duration::from_secs(60)).await;
    let error = world.call(intent).await.unwrap_err();
    assert_eq!(reason(&error), "already_executed");
    assert_eq!(runs.count(), 1);
    let logs = ["server", "client"].map(|name| world.folder.path().join(name));
    let mut looked_at = 0;
    for place in logs.iter().map(AsRef::as_ref).chain([folder.path()]) {
        for file in std::fs::read_dir(place).unwrap() {
            let file = file.unwrap().path();
            if file.is_file() {
                looked_at += 1;
                let bytes = std::fs::read(&file).unwrap();
                let found = bytes
                    .windows(MARKER.len())
                    .any(|it| it == MARKER.as_bytes());
                assert!(!found, "{}", file.display());
            }
        }
    }
    assert!(looked_at >= 3, "{looked_at}");
}

/// Threat 81: a repository that is another under the same name, also after a restart.
#[tokio::test]
async fn threat_81_a_repository_that_changed_hands() {
    use a2a_identity::{Did, Peer, ResolveError, Want};
    use a2a_session::Freshness;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let github = Did::parse("did:github:ada/agent", Peer::Profile).unwrap();
    let draft = json!({
        "manifest_version": "1.0", "agent_did": "did:github:ada/agent", "agent_id": "ada", "public_keys": [jwk("k", 7)],
        "endpoints": [{"type": "handshake", "url": "https://ada.example.com/a2a/handshake"}],
    });
    let canonical::Value::Object(mut tree) = value(&draft) else {
        panic!("{draft}");
    };
    a2a_identity::sign_manifest(
        &mut tree,
        &"k".parse().unwrap(),
        &key(7),
        a2a_wire::UnixSeconds(UNIX - 10),
    )
    .unwrap();
    let manifest = canonical::Value::Object(tree).to_canonical();
    let resolve = async |owner: i64| {
        let made = Made {
            store: open(&path),
            ..Made::of(CLIENT)
        };
        let node = made.node().await;
        let raw =
            "https://raw.githubusercontent.com/ada/agent/main/.well-known/agent-manifest.json";
        node.spy.publish(raw, Fetched::Body(manifest.clone()));
        let api =
            json!({"full_name": "ada/agent", "id": 1, "owner": {"login": "ada", "id": owner}});
        node.spy.publish(
            "https://api.github.com/repos/ada/agent",
            Fetched::Body(api.to_string().into_bytes()),
        );
        let facts = node
            .home
            .resolver()
            .facts(&github, Want::Manifest, Freshness::Any)
            .await;
        (facts, node.home)
    };
    assert!(resolve(5).await.0.is_ok());
    let (changed, home) = resolve(6).await;
    assert_eq!(changed.unwrap_err(), ResolveError::GithubChanged);
    // Until an operator says that it is all right.
    home.standing().forget_repository(&github).await.unwrap();
    drop(home);
    assert!(resolve(6).await.0.is_ok());
}

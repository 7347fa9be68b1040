//! What agents remember, as other A2E clients see it (a2e-behaviour, section 4, memory; a2e-conflicts,
//! section 6).

use std::sync::atomic::{AtomicI64, Ordering};

use a2e_caps::Placement;
use a2e_caps::memory::{Memory, Settings};
use a2e_runtime::Host;
use a2e_wire::{Capability, Tag};
use serde_json::{Value, json};
use store::{Limit, Limits, Options, Overflow, Rooms, Sqlite, Store, UnixMillis};

use crate::support::Gate;
use crate::vault::{Named, store};
use crate::wire::Agent;

const MEMORY: [&str; 1] = ["memory"];

fn host(store: &Store, settings: Settings) -> Host {
    let memory = Memory::new(store.clone(), settings);
    Host::builder().plugin(memory).authenticator(Named).build()
}

fn plain(store: &Store) -> Host {
    host(store, Settings::default())
}

async fn agent(host: &Host, name: &str, ids: &'static str) -> Agent {
    let mut agent = Agent::connect_as(host, name, &MEMORY).await;
    agent.ids = ids;
    agent
}

async fn one() -> Agent {
    agent(&plain(&store()), "ada", "R").await
}

fn entry(key: Value, content: Value, tier: &str) -> Value {
    json!({"key": key, "content": content, "tier": tier})
}

async fn keep(agent: &mut Agent, entries: Value) -> Value {
    let response = agent
        .ask(json!({"type": "memory/store/req", "memory_id": "", "entries": entries}))
        .await;
    assert_eq!(response["type"], "memory/store/resp", "{response}");
    response
}

async fn find(agent: &mut Agent, mut request: Value) -> Value {
    request["type"] = json!("memory/retrieve/req");
    let response = agent.ask(request).await;
    assert_eq!(response["type"], "memory/retrieve/resp", "{response}");
    response
}

fn keys(response: &Value) -> Vec<Value> {
    let entries = response["entries"].as_array().unwrap();
    entries.iter().map(|entry| entry["key"].clone()).collect()
}

/// The samples of section 4, field by field.
/// Proves H-16, N-13.
#[tokio::test]
async fn every_field_is_there_with_its_type() {
    let mut agent = one().await;
    let init = agent
        .ask(
            json!({"type": "memory/init/req", "namespace": "default", "scope": {}, "metadata": {}}),
        )
        .await;
    assert_eq!(init["type"], "memory/init/resp");
    assert_eq!(
        (&init["namespace"], &init["success"]),
        (&json!("default"), &json!(true))
    );
    let id = init["memory_id"].as_str().unwrap();
    assert_eq!(id.len(), 36, "{id}");
    let full = json!({"key": {"user": "a"}, "content": 1, "tier": "working", "tags": ["t"],
        "source": "s", "score": 0.5, "ttl": 60, "created_at": 1.0, "updated_at": 1.0});
    let stored = agent
        .ask(json!({"type": "memory/store/req", "memory_id": id, "entries": [full]}))
        .await;
    assert_eq!(
        (&stored["stored"], &stored["errors"]),
        (&json!([{"user": "a"}]), &json!([]))
    );
    let found = find(
        &mut agent,
        json!({"memory_id": id, "keys": [{"user": "a"}]}),
    )
    .await;
    assert_eq!(found["total"], 1);
    assert!(found.get("more").is_none());
    let entry = &found["entries"][0];
    for (name, value) in [
        ("key", json!({"user": "a"})),
        ("content", json!(1)),
        ("tier", json!("working")),
        ("tags", json!(["t"])),
        ("source", json!("s")),
        ("score", json!(1.0)),
        ("ttl", json!(60)),
        ("created_at", json!(1.0)),
    ] {
        assert_eq!(entry[name], value, "{name}");
    }
    assert!(entry["updated_at"].as_f64().unwrap() > 1_700_000_000.0);
    let forgotten = agent
        .ask(
            json!({"type": "memory/forget/req", "memory_id": id, "keys": [{"user": "a"}],
            "tags": [], "tier": "working"}),
        )
        .await;
    assert_eq!(
        (&forgotten["type"], &forgotten["deleted"]),
        (&json!("memory/forget/resp"), &json!(1))
    );
}

/// Conflicts 76 and 88.
#[tokio::test]
async fn a_missing_id_is_the_default_memory_and_an_unknown_one_is_an_error() {
    let mut agent = one().await;
    keep(&mut agent, json!([entry(json!("k"), json!(1), "episodic")])).await;
    let init = agent.ask(json!({"type": "memory/init/req"})).await;
    let found = find(
        &mut agent,
        json!({"memory_id": init["memory_id"], "keys": ["k"]}),
    )
    .await;
    assert_eq!(found["total"], 1);
    let again = agent
        .ask(json!({"type": "memory/init/req", "namespace": ""}))
        .await;
    assert_eq!(again["memory_id"], init["memory_id"]);
    assert_eq!(
        again["tiers"]["episodic"],
        json!({"entries": 1, "bytes": 22})
    );
    let other = agent
        .ask(json!({"type": "memory/init/req", "namespace": "other"}))
        .await;
    assert_ne!(other["memory_id"], init["memory_id"]);
    let found = find(
        &mut agent,
        json!({"memory_id": other["memory_id"], "keys": ["k"]}),
    )
    .await;
    assert_eq!(found["total"], 0);
    let scoped = json!({"type": "memory/init/req", "scope": {"user": "x", "n": 1}});
    let scoped = agent.ask(scoped).await;
    let found = find(
        &mut agent,
        json!({"memory_id": scoped["memory_id"], "keys": ["k"]}),
    )
    .await;
    assert_eq!(found["total"], 0);
    for request in [
        json!({"type": "memory/store/req", "memory_id": "nope", "entries": []}),
        json!({"type": "memory/retrieve/req", "memory_id": "nope"}),
        json!({"type": "memory/forget/req", "memory_id": "nope", "keys": ["k"]}),
    ] {
        let error = agent.ask(request).await;
        assert_eq!(
            (&error["type"], &error["code"]),
            (&json!("error"), &json!("memory_not_found"))
        );
        assert_eq!(error["capability_name"], "memory");
    }
}

/// Conflict 77: keys are compared in their canonical form.
#[tokio::test]
async fn keys_are_objects_or_texts() {
    let mut agent = one().await;
    let stored = keep(
        &mut agent,
        json!([
            entry(json!({"b": 1.0, "a": [1]}), json!("x"), "episodic"),
            entry(json!("plain"), json!("y"), "episodic")
        ]),
    )
    .await;
    assert_eq!(stored["stored"], json!([{"b": 1.0, "a": [1]}, "plain"]));
    let found = find(&mut agent, json!({"keys": [{"a": [1.0], "b": 1}]})).await;
    assert_eq!(found["entries"][0]["content"], "x");
    let found = find(&mut agent, json!({"keys": ["plain"]})).await;
    assert_eq!(keys(&found), ["plain"]);
    assert_eq!(
        find(&mut agent, json!({"keys": [{"key": "plain"}]})).await["total"],
        0
    );
    keep(
        &mut agent,
        json!([entry(json!({"a": [1], "b": 1}), json!("z"), "episodic")]),
    )
    .await;
    let found = find(&mut agent, json!({})).await;
    assert_eq!(found["total"], 2);
}

#[tokio::test]
async fn tiers_live_with_session_agent_and_node() {
    let store = store();
    let host = plain(&store);
    let mut first = agent(&host, "ada", "A").await;
    for tier in ["working", "episodic", "semantic", ""] {
        let key = json!(format!("in {tier}"));
        keep(&mut first, json!([entry(key, json!("shared words"), tier)])).await;
    }
    assert_eq!(
        find(&mut first, json!({"tier": "working"})).await["total"],
        1
    );
    // An entry without a tier is episodic.
    assert_eq!(
        find(&mut first, json!({"tier": "episodic"})).await["total"],
        2
    );
    for request in [
        json!({"type": "memory/retrieve/req", "tier": "nonsense"}),
        json!({"type": "memory/forget/req", "tier": "nonsense", "tags": ["t"]}),
        json!({"type": "memory/store/req", "entries": [entry(json!("k"), json!(1), "another")]}),
    ] {
        let refused = first.ask(request).await;
        assert_eq!(refused["code"], "schema_violation", "{refused}");
        assert_eq!(refused["capability_name"], "memory");
    }
    assert_eq!(find(&mut first, json!({})).await["total"], 4);
    let mut second = agent(&host, "ada", "B").await;
    assert_eq!(
        find(&mut second, json!({"query": "words"})).await["total"],
        3
    );
    let mut other = agent(&host, "bob", "C").await;
    let found = find(&mut other, json!({"query": "words"})).await;
    assert_eq!(keys(&found), ["in semantic"]);
}

/// Seed 002, "Message Ordering": messages of a session are processed in order of arrival.
/// Proves M-34.
#[tokio::test]
async fn pipelined_stores_are_all_there_for_the_read_behind_them() {
    let mut agent = one().await;
    for number in 0..30 {
        let entry = entry(json!(format!("k{number}")), json!(number), "episodic");
        agent
            .say(json!({"type": "memory/store/req", "entries": [entry]}))
            .await;
    }
    agent
        .say(json!({"type": "memory/retrieve/req", "limit": 100}))
        .await;
    for _ in 0..30 {
        assert_eq!(agent.hear().await["type"], "memory/store/resp");
    }
    assert_eq!(agent.hear().await["total"], 30);
}

/// Every verb, tried across agents and sessions.
#[tokio::test]
async fn nobody_reaches_what_is_not_theirs() {
    let store = store();
    let host = plain(&store);
    let mut ada = agent(&host, "ada", "A").await;
    let init = ada
        .ask(json!({"type": "memory/init/req", "namespace": "private"}))
        .await;
    let id = init["memory_id"].clone();
    for tier in ["working", "episodic"] {
        let entries = json!([{"key": tier, "content": "secret", "tier": tier, "tags": ["t"]}]);
        ada.ask(json!({"type": "memory/store/req", "memory_id": id, "entries": entries}))
            .await;
    }
    let mut bob = agent(&host, "bob", "B").await;
    let stolen = bob
        .ask(json!({"type": "memory/retrieve/req", "memory_id": id}))
        .await;
    assert_eq!(stolen["code"], "memory_not_found");
    let own = bob
        .ask(json!({"type": "memory/init/req", "namespace": "private"}))
        .await;
    assert_eq!(own["tiers"]["episodic"]["entries"], 0);
    let own = own["memory_id"].clone();
    for request in [
        json!({"query": "secret"}),
        json!({"keys": ["working", "episodic"]}),
        json!({"tags": ["t"]}),
        json!({"tier": "episodic", "after": 0}),
        json!({"tier": "working"}),
    ] {
        let mut request = request;
        request["memory_id"] = own.clone();
        let found = find(&mut bob, request).await;
        assert_eq!((&found["total"], keys(&found).len()), (&json!(0), 0));
    }
    for tier in ["working", "episodic", ""] {
        let forgotten = bob
            .ask(
                json!({"type": "memory/forget/req", "memory_id": own, "tags": ["t"], "tier": tier}),
            )
            .await;
        assert_eq!(forgotten["deleted"], 0);
    }
    assert_eq!(find(&mut ada, json!({"memory_id": id})).await["total"], 2);
}

/// Conflicts 79, 81, 82, 83.
#[tokio::test]
async fn what_is_asked_must_all_hold_and_is_scored() {
    let mut agent = one().await;
    let entries: Vec<Value> = (0..30)
        .map(|number| {
            json!({"key": {"n": number}, "content": {"text": format!("note {number} about gardens")},
                "tier": "episodic", "tags": ["all", format!("t{}", number % 3)], "score": 0.25})
        })
        .collect();
    keep(&mut agent, json!(entries)).await;
    let found = find(&mut agent, json!({"query": "gardens"})).await;
    assert_eq!((keys(&found).len(), &found["total"]), (10, &json!(30)));
    let found = find(
        &mut agent,
        json!({"query": "gardens 7", "tags": ["t1"], "limit": 3}),
    )
    .await;
    assert_eq!(
        (&found["entries"][0]["key"], &found["total"]),
        (&json!({"n": 7}), &json!(10))
    );
    let score = found["entries"][0]["score"].as_f64().unwrap();
    assert!(score > 0.4 && score < 1.0, "{score}");
    let strict = find(
        &mut agent,
        json!({"query": "gardens 7", "min_score": score}),
    )
    .await;
    assert_eq!(
        (keys(&strict), &strict["total"]),
        (vec![json!({"n": 7})], &json!(1))
    );
    let none = find(&mut agent, json!({"query": "gardens", "limit": 0})).await;
    assert_eq!((keys(&none).len(), &none["total"]), (0, &json!(30)));
    let spelled = agent
        .ask(json!({"type": "memory/search", "query": "gardens"}))
        .await;
    assert_eq!(spelled["total"], 30);
    // Tags and names of members are words too.
    assert_eq!(find(&mut agent, json!({"query": "t2"})).await["total"], 10);
}

/// Conflicts 84, 85, 86.
#[tokio::test]
async fn forgetting_is_by_key_tag_or_tier() {
    let mut agent = one().await;
    let all = json!([
        {"key": "1", "content": 1, "tier": "episodic", "tags": ["x"]},
        {"key": "2", "content": 1, "tier": "episodic", "tags": ["y"]},
        {"key": "2", "content": 1, "tier": "working", "tags": ["y"]},
        {"key": "3", "content": 1, "tier": "semantic"}]);
    keep(&mut agent, all).await;
    let forget =
        |keys: Value, tags: Value| json!({"type": "memory/forget/req", "keys": keys, "tags": tags});
    // Without a tier it is the episodic one.
    assert_eq!(
        agent.ask(forget(json!(["2"]), json!([]))).await["deleted"],
        1
    );
    let mut in_all = forget(json!([]), json!(["x", "y"]));
    in_all["tier"] = json!("");
    assert_eq!(agent.ask(in_all).await["deleted"], 2);
    let mut nothing = forget(json!([]), json!([]));
    nothing["tier"] = json!("");
    let error = agent.ask(nothing).await;
    assert_eq!(
        (&error["type"], &error["code"]),
        (&json!("error"), &json!("schema_violation"))
    );
    let mut tier = forget(json!([]), json!([]));
    tier["tier"] = json!("semantic");
    assert_eq!(agent.ask(tier).await["deleted"], 1);
    assert_eq!(find(&mut agent, json!({})).await["total"], 0);
}

#[tokio::test]
async fn what_cannot_be_kept_is_said_and_the_rest_is_kept() {
    let mut agent = one().await;
    let large = "x".repeat(Limits::default().memories.value);
    let stored = keep(
        &mut agent,
        json!([
            entry(json!("a"), json!(1), "episodic"),
            entry(json!("b"), json!(large), "episodic"),
            entry(json!("c"), json!(1), "episodic")
        ]),
    )
    .await;
    assert_eq!(stored["stored"], json!(["a", "c"]));
    let errors = stored["errors"].as_array().unwrap();
    assert_eq!(errors.len(), 1);
    let text = errors[0].as_str().unwrap();
    assert!(
        text.starts_with("\"b\": schema_violation: ") && text.contains("too large"),
        "{text}"
    );
    assert_eq!(find(&mut agent, json!({})).await["total"], 2);
    // A malformed entry is an error of the whole request.
    let error = agent
        .ask(
            json!({"type": "memory/store/req", "entries": [{"key": 5, "content": 1, "tier": "x"}]}),
        )
        .await;
    assert_eq!(error["code"], "schema_violation");
}

/// Conflict 87.
#[tokio::test]
async fn a_full_tier_evicts_or_refuses() {
    for (overflow, total) in [(Overflow::Evict, 2), (Overflow::Refuse, 2)] {
        let settings = Settings {
            rooms: Rooms {
                episodic: 2,
                overflow,
                ..Rooms::default()
            },
            ..Settings::default()
        };
        let mut agent = agent(&host(&store(), settings), "ada", "R").await;
        let three: Vec<Value> = ["a", "b", "c"]
            .map(|key| entry(json!(key), json!(1), "episodic"))
            .into();
        let stored = keep(&mut agent, json!(three)).await;
        let found = find(&mut agent, json!({})).await;
        assert_eq!(found["total"], total);
        match overflow {
            Overflow::Evict => assert_eq!(keys(&found), ["c", "b"]),
            Overflow::Refuse => {
                assert_eq!(keys(&found), ["b", "a"]);
                let text = stored["errors"][0].as_str().unwrap();
                assert!(text.contains("memory_full"), "{text}");
                let request = json!({"type": "memory/store/req", "entries": [three[2]]});
                let error = agent.ask(request).await;
                assert_eq!(
                    (&error["code"], &error["retryable"]),
                    (&json!("memory_full"), &json!(false))
                );
            }
        }
    }
}

static NOW: AtomicI64 = AtomicI64::new(1_770_000_000_000);

/// Conflict 80.
#[tokio::test]
async fn entries_end_at_their_time() {
    let settings = Settings {
        clock: || UnixMillis(NOW.load(Ordering::SeqCst)),
        ..Settings::default()
    };
    let mut agent = agent(&host(&store(), settings), "ada", "R").await;
    let mut short = entry(json!("short"), json!("words"), "episodic");
    short["ttl"] = json!(1.5);
    let mut long = entry(json!("long"), json!("words"), "episodic");
    long["ttl"] = json!(null);
    keep(&mut agent, json!([short, long])).await;
    let found = find(&mut agent, json!({"query": "words"})).await;
    assert_eq!(
        (&found["total"], &found["entries"][1]["ttl"]),
        (&json!(2), &json!(2))
    );
    NOW.fetch_add(2000, Ordering::SeqCst);
    for request in [
        json!({}),
        json!({"query": "words"}),
        json!({"keys": ["short", "long"]}),
    ] {
        assert_eq!(keys(&find(&mut agent, request).await), ["long"]);
    }
}

#[tokio::test]
async fn the_operator_says_who_shares() {
    let store = store();
    let list = |names: &[&str]| Some(names.iter().map(|name| (*name).to_owned()).collect());
    let settings = Settings {
        readers: list(&["ada", "bob"]),
        writers: list(&["ada"]),
        placement: Placement::named("memory"),
        ..Settings::default()
    };
    let host = host(&store, settings);
    let mut ada = agent(&host, "ada", "A").await;
    keep(
        &mut ada,
        json!([entry(json!("k"), json!("shared"), "semantic")]),
    )
    .await;
    let mut bob = agent(&host, "bob", "B").await;
    assert_eq!(find(&mut bob, json!({"query": "shared"})).await["total"], 1);
    let both = json!([
        entry(json!("k"), json!("bob's"), "semantic"),
        entry(json!("l"), json!(1), "episodic")
    ]);
    let stored = keep(&mut bob, both).await;
    assert_eq!(stored["stored"], json!(["l"]));
    assert!(
        stored["errors"][0]
            .as_str()
            .unwrap()
            .contains("semantic_writers")
    );
    let only = json!([entry(json!("k"), json!("bob's"), "semantic")]);
    let error = bob
        .ask(json!({"type": "memory/store/req", "entries": only}))
        .await;
    assert_eq!(error["code"], "unauthorized");
    let error = bob
        .ask(json!({"type": "memory/forget/req", "keys": ["k"], "tier": "semantic"}))
        .await;
    assert_eq!(error["code"], "unauthorized");
    let all = json!({"type": "memory/forget/req", "keys": ["k"], "tier": ""});
    assert_eq!(bob.ask(all).await["deleted"], 0);
    let mut eve = agent(&host, "eve", "E").await;
    assert_eq!(find(&mut eve, json!({"query": "shared"})).await["total"], 0);
    let error = eve
        .ask(json!({"type": "memory/retrieve/req", "tier": "semantic"}))
        .await;
    assert_eq!(error["code"], "unauthorized");
    let init = eve.ask(json!({"type": "memory/init/req"})).await;
    assert!(init["tiers"].get("semantic").is_none());
    assert_eq!(find(&mut ada, json!({"query": "shared"})).await["total"], 1);
}

#[tokio::test]
async fn a_tier_is_copied_page_by_page() {
    let mut agent = one().await;
    let entries: Vec<Value> = (0..25)
        .map(|number| json!({"key": format!("{number}"), "content": number, "tier": "episodic", "score": 0.5}))
        .collect();
    keep(&mut agent, json!(entries)).await;
    let (mut after, mut seen) = (json!(0), Vec::new());
    loop {
        let page = find(
            &mut agent,
            json!({"tier": "episodic", "after": after, "limit": 10}),
        )
        .await;
        assert_eq!(page["total"], 25);
        for entry in page["entries"].as_array().unwrap() {
            assert_eq!(
                (&entry["weight"], &entry["score"]),
                (&json!(0.5), &json!(0.5))
            );
            seen.push(entry["content"].as_i64().unwrap());
        }
        match page.get("next") {
            Some(next) => after = next.clone(),
            None => break,
        }
    }
    assert_eq!(seen, (0..25).collect::<Vec<i64>>());
    let error = agent
        .ask(json!({"type": "memory/retrieve/req", "after": 0}))
        .await;
    assert_eq!(error["code"], "schema_violation");
}

#[tokio::test]
async fn so_many_memories_may_be_open_and_no_more() {
    let mut agent = one().await;
    let open =
        |number: usize| json!({"type": "memory/init/req", "namespace": format!("n{number}")});
    for number in 0..256 {
        assert_eq!(agent.ask(open(number)).await["success"], true);
    }
    assert_eq!(agent.ask(open(256)).await["code"], "memory_full");
    assert_eq!(agent.ask(open(3)).await["success"], true);
    for (namespace, fits) in [
        ("n".repeat(256), false),
        ("n".repeat(257), false),
        ("a\nb".into(), false),
    ] {
        let answer = agent
            .ask(json!({"type": "memory/init/req", "namespace": namespace}))
            .await;
        // The first would do, had the session room for it.
        let code = if namespace.len() == 256 {
            "memory_full"
        } else {
            "schema_violation"
        };
        assert_eq!(
            (answer["success"] == true, &answer["code"]),
            (fits, &json!(code))
        );
    }
}

/// What was acknowledged is there for the next process; what a session kept for itself is not there for
/// another.
#[tokio::test]
async fn memories_outlive_the_host() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let open = || Store::new(Sqlite::open(&Options::new(&path)).unwrap());
    let first = open();
    let mut ada = agent(&plain(&first), "ada", "A").await;
    let both = json!([
        entry(json!("w"), json!("kept"), "working"),
        entry(json!("e"), json!("kept"), "episodic")
    ]);
    keep(&mut ada, both).await;
    drop(ada);
    let second = open();
    let mut ada = agent(&plain(&second), "ada", "B").await;
    let found = find(&mut ada, json!({"query": "kept"})).await;
    assert_eq!(keys(&found), ["e"]);
    drop(first);
}

/// A request to store is under way when another handshake begins a new session: what it stores for the
/// session that has asked goes at once, whatever its size, and takes no room.
#[tokio::test]
async fn working_entries_stored_after_the_end_of_their_session_are_forgotten() {
    for size in [1, 100_000] {
        let gate = Gate::new(Capability::Memory, Tag::MemoryStoreRequest);
        let limits = Limits {
            memories: Limit {
                entries: 2,
                ..Limits::default().memories
            },
            ..Limits::default()
        };
        let folder = tempfile::tempdir().unwrap();
        let options = Options {
            limits,
            ..Options::new(folder.path().join("store.db"))
        };
        let store = Store::new(Sqlite::open(&options).unwrap());
        let memory = Memory::new(store.clone(), Settings::default());
        let host = Host::builder().plugin(memory).plugin(gate.clone());
        let host = host.authenticator(Named).build();
        let mut agent = agent(&host, "ada", "R").await;
        let late =
            ["working", "episodic"].map(|tier| entry(json!(tier), json!("x".repeat(size)), tier));
        agent
            .say(json!({"type": "memory/store/req", "memory_id": "", "entries": late}))
            .await;
        gate.reached().await;
        let hello = json!({"type": "handshake/req", "agent_caps": MEMORY, "auth_token": "ada"});
        assert_eq!(agent.ask(hello).await["ok"], true);
        gate.open();
        assert_eq!(agent.hear().await["errors"], json!([]));
        // There is room for one beside the episodic one.
        gate.open();
        let entries = json!([entry(json!("new"), json!("x"), "working")]);
        let kept = keep(&mut agent, entries).await;
        assert_eq!(kept["errors"], json!([]));
        let found = find(&mut agent, json!({"memory_id": "", "tier": "episodic"})).await;
        assert_eq!(keys(&found), ["episodic"]);
    }
}

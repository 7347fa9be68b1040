//! A handle reaches what belongs to its owner, and nothing else.

use std::sync::Arc;

use store::{AgentId, Begun, Bucket, Call, Error, Limits, MAX_NAME, SessionId, Use, wait};

use super::secrets::cipher;
use crate::subject::{Make, NOW, START, Subject, ada, at, bob, contract, hash, limit};

contract! {
    an_agent_reaches_nothing_of_another,
    a_session_reaches_nothing_of_another,
    the_node_is_no_agent,
    what_one_has_does_not_count_for_another,
    a_name_must_be_one,
}

fn session(name: &str) -> SessionId {
    SessionId::new(name).unwrap()
}

/// Puts one of everything there for an agent.
fn fill(store: &Subject, agent: &AgentId, id: &str) {
    let scope = store.for_agent(agent);
    scope.results().begin(START, "r", hash(1)).wait().unwrap();
    scope
        .results()
        .finish(START, "r", Some(b"own".to_vec()))
        .wait()
        .unwrap();
    let records = scope.snapshots(&session("s"));
    records
        .put(NOW, "n", b"own".to_vec(), at(60))
        .wait()
        .unwrap();
    scope
        .replay_ids()
        .use_once(NOW, "i", at(60))
        .wait()
        .unwrap();
    let bucket = Bucket {
        name: "b".to_owned(),
        state: b"own".to_vec(),
        full_at: at(60),
    };
    scope.rate_buckets().save(NOW, vec![bucket]).wait().unwrap();
    let call = Call {
        id: id.to_owned(),
        hash: hash(1),
        did: None,
        shown: Vec::new(),
        expires: at(60),
    };
    scope.held_calls().hold(NOW, call).wait().unwrap();
    let vault = wait(store.vault(cipher(1))).unwrap();
    wait(vault.for_agent(agent).put("k", b"own")).unwrap();
}

/// Every verb of every trait, tried by another agent.
fn an_agent_reaches_nothing_of_another(make: Make) {
    let store = make(Limits::default());
    fill(&store, &ada(), "call of ada");
    let scope = store.for_agent(&bob());
    let results = scope.results();
    assert!(matches!(
        results.finish(START, "r", None).wait(),
        Err(Error::NotFound { .. })
    ));
    assert_eq!(results.result(START, "r").wait(), Ok(None));
    results.forget("r").wait().unwrap();
    assert_eq!(results.begin(START, "r", hash(2)).wait(), Ok(Begun::New));
    let records = scope.snapshots(&session("s"));
    assert_eq!(records.get(NOW, "n").wait(), Ok(None));
    records
        .append(NOW, "n", b"bob's".to_vec(), at(60))
        .wait()
        .unwrap();
    assert_eq!(records.get(NOW, "n").wait().unwrap().unwrap(), b"bob's");
    records.remove("n").wait().unwrap();
    records.clear().wait().unwrap();
    assert_eq!(
        scope.replay_ids().use_once(NOW, "i", at(60)).wait(),
        Ok(Use::First)
    );
    assert_eq!(scope.rate_buckets().load(NOW).wait(), Ok(Vec::new()));
    let calls = scope.held_calls();
    assert_eq!(calls.take(NOW, hash(1)).wait(), Ok(None));
    calls.withdraw(hash(1)).wait().unwrap();
    let secrets = wait(store.vault(cipher(1))).unwrap().for_agent(&bob());
    assert_eq!(wait(secrets.get("k")).unwrap(), None);
    assert_eq!(wait(secrets.names()).unwrap(), Vec::<String>::new());
    wait(secrets.remove("k")).unwrap();
    all_is_there(&store, &ada(), "call of ada");
}

fn all_is_there(store: &Subject, agent: &AgentId, id: &str) {
    let scope = store.for_agent(agent);
    let result = scope.results().result(START, "r").wait();
    assert_eq!(result.unwrap().unwrap(), b"own");
    let record = scope.snapshots(&session("s")).get(NOW, "n").wait();
    assert_eq!(record.unwrap().unwrap(), b"own");
    assert_eq!(
        scope.replay_ids().use_once(NOW, "i", at(60)).wait(),
        Ok(Use::Again)
    );
    assert_eq!(
        scope.rate_buckets().load(NOW).wait().unwrap()[0].state,
        b"own"
    );
    assert_eq!(
        scope
            .held_calls()
            .take(NOW, hash(1))
            .wait()
            .unwrap()
            .unwrap()
            .id,
        id
    );
    let secrets = wait(store.vault(cipher(1))).unwrap().for_agent(agent);
    assert_eq!(**wait(secrets.get("k")).unwrap().unwrap(), *b"own");
}

fn a_session_reaches_nothing_of_another(make: Make) {
    let store = make(Limits::default());
    let scope = store.for_agent(&ada());
    let records = scope.snapshots(&session("s"));
    records
        .put(NOW, "n", b"own".to_vec(), at(60))
        .wait()
        .unwrap();
    for name in ["t", "S", "s\0", "sn"] {
        let other = scope.snapshots(&session(name));
        assert_eq!(other.get(NOW, "n").wait(), Ok(None), "{name:?}");
        other.remove("n").wait().unwrap();
        other.clear().wait().unwrap();
    }
    assert_eq!(records.get(NOW, "n").wait().unwrap().unwrap(), b"own");
}

fn the_node_is_no_agent(make: Make) {
    let store = make(Limits::default());
    let ids = store.node().replay_ids();
    assert_eq!(ids.use_once(NOW, "i", at(60)).wait(), Ok(Use::First));
    let vault = wait(store.vault(cipher(1))).unwrap();
    wait(vault.node().put("k", b"the node's")).unwrap();
    for name in ["node", " ", "''", "key"] {
        let agent = AgentId::new(name).unwrap();
        let ids = store.for_agent(&agent).replay_ids();
        assert_eq!(ids.use_once(NOW, "i", at(60)).wait(), Ok(Use::First));
        assert_eq!(wait(vault.for_agent(&agent).get("k")).unwrap(), None);
    }
    assert_eq!(ids.use_once(NOW, "i", at(60)).wait(), Ok(Use::Again));
    assert_eq!(wait(vault.node().names()).unwrap(), ["k"]);
}

fn what_one_has_does_not_count_for_another(make: Make) {
    let one = limit(1000, 1, 1000);
    let store = make(Limits {
        results: one,
        snapshots: one,
        replay_ids: one,
        rate_buckets: one,
        approvals: one,
        secrets: one,
        ..Limits::default()
    });
    fill(&store, &ada(), "call of ada");
    fill(&store, &bob(), "call of bob");
    all_is_there(&store, &ada(), "call of ada");
    all_is_there(&store, &bob(), "call of bob");
}

fn a_name_must_be_one(make: Make) {
    let store = make(Limits::default());
    // It is taken as it is: no name means another.
    let agents = ["ada", "Ada", "ada ", "ada\0"].map(|name| AgentId::new(name).unwrap());
    let ids: Vec<_> = agents
        .iter()
        .map(|agent| store.for_agent(agent).replay_ids())
        .collect();
    for ids in &ids {
        assert_eq!(
            Arc::clone(ids).use_once(NOW, "i", at(60)).wait(),
            Ok(Use::First)
        );
    }
    for name in ["", "\0", "\u{1f}key", "\n"] {
        assert!(matches!(AgentId::new(name), Err(Error::BadName { .. })));
        assert!(matches!(SessionId::new(name), Err(Error::BadName { .. })));
    }
    let (longest, longer) = ("x".repeat(MAX_NAME), "x".repeat(MAX_NAME + 1));
    assert_eq!(AgentId::new(&longest).unwrap().as_str(), longest);
    assert!(matches!(AgentId::new(&longer), Err(Error::TooLarge { .. })));
    assert!(matches!(
        SessionId::new(&longer),
        Err(Error::TooLarge { .. })
    ));
}

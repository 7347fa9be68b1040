//! An agent that is welcome no longer (`frith token revoke`).

use std::sync::Arc;

use a2e_runtime::demo::Demo;
use a2e_runtime::{
    Host, HostBuilder, MemoryStore, Secret, SnapshotMode, SnapshotStore, TokenStore,
};
use serde_json::{Value, json};

use crate::support::{Place, TOKEN, TRANSPORTS, Transport, Wire, handshake};

fn builder(tokens: &Arc<TokenStore>) -> HostBuilder {
    let tokens: Arc<TokenStore> = Arc::clone(tokens);
    Host::builder()
        .plugin(Demo::default())
        .shared_authenticator(tokens)
}

fn tokens() -> Arc<TokenStore> {
    Arc::new(TokenStore::in_memory(&Secret::new(TOKEN)).unwrap())
}

fn hello(token: &str, session: Option<&Value>) -> Value {
    let mut hello = handshake();
    hello["auth_token"] = json!(token);
    if let Some(session) = session {
        hello["resume"] = json!({"session_id": session, "last_eid": 1});
    }
    hello
}

async fn session(place: &Place, token: &str) -> (Wire, Value) {
    let mut wire = place.wire().await;
    let answer = wire.ask(&hello(token, None)).await;
    assert_eq!(answer["ok"], true, "{answer}");
    (wire, answer["session_id"].clone())
}

/// Its sessions end with what they run, and not even another token of the same agent goes on with
/// them; those of others go on.
#[tokio::test]
async fn open_sessions_end() {
    for transport in TRANSPORTS {
        let tokens = tokens();
        let host = builder(&tokens).build();
        let place = transport.place(&host).await;
        let old = tokens.create("ada", "").unwrap();
        let (mut ada, id) = session(&place, old.token.reveal()).await;
        let (gone, waiting) = session(&place, old.token.reveal()).await;
        let (mut other, _) = session(&place, TOKEN).await;
        drop(gone);
        let wait = json!({"type": "tool/call/req", "id": "w", "tool_name": "wait", "arguments": {"seconds": 3000}});
        let ping = json!({"type": "ping", "id": "p"});
        ada.say(&wait.to_string());
        assert_eq!(ada.ask(&ping).await["type"], "pong");

        assert_eq!(tokens.revoke(&old.id).unwrap().agents, ["ada"]);
        let (ended, answer) = tokio::join!(host.revoke_access(|it| it.agent == "ada"), ada.hear());
        assert_eq!(ended.unwrap(), 2, "{transport:?}");
        let answer = answer.unwrap();
        assert_eq!(answer["code"], "unauthorized", "{transport:?} {answer}");
        assert!(ada.is_over().await, "{transport:?}");
        let new = tokens.create("ada", "").unwrap();
        for (token, id) in [(&old, &id), (&new, &id), (&new, &waiting)] {
            let mut wire = place.wire().await;
            let answer = wire.ask(&hello(token.token.reveal(), Some(id))).await;
            assert_eq!(answer["reason"], "auth_failed", "{transport:?} {answer}");
        }
        assert_eq!(other.ask(&ping).await["type"], "pong");
    }
}

/// A session that nobody has asked for since the last start is gone too.
#[tokio::test]
async fn sessions_on_record_end() {
    let tokens = tokens();
    let store: Arc<dyn SnapshotStore> = Arc::new(MemoryStore::default());
    let host = || {
        let store = Arc::clone(&store);
        builder(&tokens)
            .snapshots(store, SnapshotMode::Host)
            .build()
    };
    let token = tokens.create("ada", "").unwrap();
    let before = Transport::Memory.place(&host()).await;
    let (_ada, hers) = session(&before, token.token.reveal()).await;
    let (_default, his) = session(&before, TOKEN).await;
    let after = host();
    let place = Transport::Memory.place(&after).await;
    assert_eq!(
        after.revoke_access(|it| it.agent == "ada").await.unwrap(),
        1
    );
    for (token, id, resumed) in [(token.token.reveal(), hers, false), (TOKEN, his, true)] {
        let answer = place.wire().await.ask(&hello(token, Some(&id))).await;
        assert_eq!(answer["ok"], resumed, "{answer}");
    }
}

/// One that is ending already, in its own good time, ends now.
#[tokio::test]
async fn a_session_that_takes_its_time() {
    let tokens = tokens();
    let host = builder(&tokens).build();
    let (mut wire, _) = session(&Transport::Tcp.place(&host).await, TOKEN).await;
    let wait = json!({"type": "tool/call/req", "id": "w", "tool_name": "wait", "arguments": {"seconds": 3000}});
    wire.say(&wait.to_string());
    wire.say(&json!({"type": "shutdown", "id": "s", "timeout": 3000}).to_string());
    let refused = wire.ask(&json!({"type": "tool/list/req", "id": "l"})).await;
    assert_eq!(refused["detail"]["reason"], "closing");
    assert_eq!(
        host.revoke_access(|it| it.agent == "default")
            .await
            .unwrap(),
        1
    );
    assert_eq!(wire.hear().await.unwrap()["req_id"], "w");
    assert_eq!(wire.hear().await, None);
}

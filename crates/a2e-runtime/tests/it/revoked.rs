//! An agent that is welcome no longer (`frith token revoke`).

use std::sync::Arc;

use a2e_runtime::demo::Demo;
use a2e_runtime::{
    Authenticator, BoxFuture, Host, HostBuilder, Identity, Login, MemoryStore, Secret,
    SnapshotMode, SnapshotStore, Source, TokenStore,
};
use a2e_wire::messages::base::HandshakeReason;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

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

/// Lets everybody in by the name that the token is, once there is a permit.
struct Slow {
    asked: Semaphore,
    checked: Semaphore,
}

struct SharedSlow(Arc<Slow>);

impl Authenticator for SharedSlow {
    fn required(&self) -> bool {
        true
    }

    fn authenticate<'a>(
        &'a self,
        login: &'a Login,
        _: Source,
    ) -> BoxFuture<'a, Result<Identity, HandshakeReason<'static>>> {
        Box::pin(async {
            self.0.asked.add_permits(1);
            self.0.checked.acquire().await.unwrap().forget();
            Ok(Identity::named(&login.auth_token))
        })
    }
}

/// Its credential may be the one that was revoked while it was checked; that of another is not.
#[tokio::test]
async fn revocation_ends_a_login_under_way_of_that_agent_only() {
    for (revoked, goes_on) in [("ada", false), ("bob", true)] {
        let slow = Arc::new(Slow {
            asked: Semaphore::new(0),
            checked: Semaphore::new(0),
        });
        let host = Host::builder()
            .plugin(Demo::default())
            .authenticator(SharedSlow(Arc::clone(&slow)))
            .build();
        let mut wire = Transport::Memory.place(&host).await.wire().await;
        wire.say(&hello("ada", None).to_string());
        tokio::select! {
            permit = slow.asked.acquire() => permit.unwrap().forget(),
            answer = wire.hear() => panic!("{answer:?}"),
        }
        host.revoke_access(move |it| it.agent == revoked)
            .await
            .unwrap();
        slow.checked.add_permits(1);
        let answer = wire.hear().await.unwrap();
        assert_eq!(answer["ok"], true, "{answer}");
        match goes_on {
            true => {
                let ping = json!({"type": "ping", "id": "p"});
                assert_eq!(wire.ask(&ping).await["type"], "pong");
            }
            false => assert!(wire.is_over().await),
        }
    }
}

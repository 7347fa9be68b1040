use std::sync::Mutex;

use a2e_runtime::{Failure, PeerAnswer};
use a2e_wire::{ErrorCode, Namespace, Raw};
use policy::{IntentName, TrustLevel};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::tool::Caller;

/// Remembers what it is asked, and says it again or fails.
#[derive(Default)]
struct Said {
    asked: Mutex<Vec<PeerRequest>>,
    fails: Option<Failure>,
    is_failure: bool,
}

impl Peers for Said {
    fn ask(&self, asked: PeerRequest) -> BoxFuture<'_, Result<PeerAnswer, Failure>> {
        self.asked.lock().unwrap().push(PeerRequest {
            events: None,
            ..asked.clone()
        });
        Box::pin(async move {
            match &self.fails {
                Some(failure) => Err(failure.clone()),
                None => Ok(PeerAnswer {
                    result: asked.inputs.into_raw(),
                    is_failure: self.is_failure,
                    trust: TrustLevel::Own,
                    attempts: 1,
                }),
            }
        })
    }
}

fn peer() -> Peer {
    let Value::Object(parameters) = json!({"text": {"type": "string"}}) else {
        panic!("an object is an object");
    };
    Peer {
        name: "beta".into(),
        did: "did:key:z6Mk".into(),
        url: None,
        encrypt: true,
        intents: vec![PeerIntent {
            intent: IntentName::parse("demo.echo.v1").unwrap(),
            domain: Some("demo".into()),
            tool: "peer:beta:demo.echo.v1".into(),
            description: "Says it again".into(),
            parameters,
            required: vec!["text".into()],
            tags: vec!["demo".into()],
            read_only: false,
            timeout: Duration::from_secs(7),
        }],
    }
}

async fn call(said: &Arc<Said>, arguments: &Value) -> Result<Output, ToolFailure> {
    let peers: Arc<dyn Peers> = Arc::clone(said) as Arc<dyn Peers>;
    let tools = tools(&peer(), &peers).unwrap();
    let raw = Raw::from_serialize(arguments).unwrap();
    let schema = tools[0].definition().input_schema();
    let call = Call {
        arguments: schema.arguments(raw).unwrap(),
        caller: Caller {
            agent: "a".into(),
            session: "s".into(),
        },
        progress: Progress::default(),
        over: CancellationToken::new(),
    };
    tools[0].call(call).await
}

#[tokio::test]
async fn what_is_called_is_asked_of_the_peer() {
    let said = Arc::new(Said::default());
    let output = call(&said, &json!({"text": "hi"})).await.unwrap();
    assert_eq!(output.data.as_str(), r#"{"text":"hi"}"#);
    let asked = said.asked.lock().unwrap();
    let [asked] = asked.as_slice() else {
        panic!("{asked:?}");
    };
    assert_eq!(
        (&*asked.did, &*asked.intent),
        ("did:key:z6Mk", "demo.echo.v1")
    );
    assert_eq!(asked.domain.as_deref(), Some("demo"));
    assert_eq!(
        (asked.timeout, asked.encrypt),
        (Duration::from_secs(7), true)
    );
}

#[tokio::test]
async fn a_tool_that_failed_there_has_failed_here() {
    let said = Arc::new(Said {
        is_failure: true,
        ..Said::default()
    });
    let output = call(&said, &json!({"text": "hi"})).await.unwrap();
    assert_eq!(output.data.as_str(), r#"{"text":"hi"}"#);
    assert_eq!(output.error.as_deref(), Some("the tool of the peer failed"));
}

#[tokio::test]
async fn what_a_peer_is_refused_for_is_told_with_all_it_says() {
    let mut failure = Failure::new(ErrorCode::ToolError, Namespace::Tool, "no");
    failure.retryable = false;
    let said = Arc::new(Said {
        fails: Some(failure.clone().because("already_executed")),
        ..Said::default()
    });
    let told = call(&said, &json!({"text": "hi"})).await.unwrap_err();
    let told = Failure::from(told);
    // Errors of tools may be tried again, but not this one.
    assert_eq!((told.code, told.retryable), (ErrorCode::ToolError, false));
    assert_eq!(
        told.detail.raw().as_str(),
        r#"{"reason":"already_executed"}"#
    );
}

#[test]
fn a_definition_is_the_operators() {
    let peers: Arc<dyn Peers> = Arc::new(Said::default());
    let tools = tools(&peer(), &peers).unwrap();
    let definition = tools[0].definition();
    assert_eq!(definition.name(), "peer:beta:demo.echo.v1");
    let tags = ["demo", "peer", "beta", "did:key:z6Mk", "demo.echo.v1"];
    assert_eq!(definition.all_tags(), tags);
    let schema = definition.input_schema();
    let wrong = Raw::from_serialize(&json!({"text": 5})).unwrap();
    assert!(schema.arguments(wrong).is_err());
}

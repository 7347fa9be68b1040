//! Calls: what is checked, what is given again, what ends them.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use a2e_caps::tool::{Catalogue, Definition, Output, Source, ToolFailure};
use a2e_caps::tools::{MAX_CACHED, Settings, Tools};
use a2e_runtime::demo::Demo;
use a2e_runtime::{Calling, Host};
use a2e_wire::ErrorCode;
use serde_json::json;
use tokio::sync::mpsc;

use crate::support::{call, client, constant, counting, defined, fake, host, plugin, refused};

#[tokio::test]
async fn a_violation_names_its_path() {
    let schema = json!({"type": "object", "properties": {
        "list": {"type": "array", "items": {"type": "integer"}}}});
    let definition = Definition::new("t", "T", &schema).unwrap();
    let client = client(&host(vec![constant(definition, json!({}))])).await;
    let error = refused(&client, "t", json!({"list": [1, "two"]})).await;
    assert_eq!(error.code, ErrorCode::SchemaViolation);
    assert!(error.message.contains("/list/1"), "{}", error.message);
    let detail: serde_json::Value = error.detail.raw().deserialize().unwrap();
    assert_eq!(detail["path"], "/list/1");
}

#[tokio::test]
async fn results_are_checked_too() {
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    let of = |name: &str| defined(name).output(&schema).unwrap();
    let tools = vec![
        constant(of("good"), json!({"n": 1})),
        constant(of("bad"), json!({"n": "one"})),
    ];
    let client = client(&host(tools)).await;
    assert_eq!(call(&client, "good", json!({})).await, json!({"n": 1}));
    let error = refused(&client, "bad", json!({})).await;
    assert_eq!(error.code, ErrorCode::SchemaViolation);
    assert!(error.message.contains("`/n`"), "{}", error.message);
}

#[tokio::test]
async fn a_tool_fails_in_three_ways() {
    let fails = fake(defined("fails"), |_| async { Err(ToolFailure::new("no")) });
    let denied = fake(defined("denied"), |_| async {
        Err(ToolFailure::denied("because", "no"))
    });
    let ended = fake(defined("ended"), |_| async {
        let output = Output::new(&json!({"exit_code": 3, "stdout": ""}))?;
        Ok(Output {
            error: Some("ended with 3".into()),
            ..output
        })
    });
    let client = client(&host(vec![fails, denied, ended])).await;
    let error = refused(&client, "fails", json!({})).await;
    assert_eq!((error.code, error.retryable), (ErrorCode::ToolError, true));
    let error = refused(&client, "denied", json!({})).await;
    assert_eq!(error.code, ErrorCode::ToolDenied);
    let tools = client.tools();
    let result = tools
        .call("ended", &json!({}), Calling::default())
        .await
        .unwrap();
    assert!(!result.success);
    assert_eq!(result.exit_code, Some(3));
    assert_eq!(result.error.as_deref(), Some("ended with 3"));
    assert_eq!(result.error_code.as_deref(), Some("tool_error"));
}

#[tokio::test]
async fn other_plugins_are_asked_for_what_is_not_here() {
    let tools = plugin(
        vec![constant(defined("own"), json!(1))],
        Settings::default(),
    );
    let host = Host::builder()
        .plugin(tools)
        .plugin(Demo::default())
        .build();
    let client = client(&host).await;
    assert_eq!(call(&client, "own", json!({})).await, json!(1));
    assert_eq!(
        call(&client, "echo", json!({"a": 1})).await,
        json!({"a": 1})
    );
}

#[tokio::test]
async fn a_catalogue_changes_under_way() {
    let catalogue = Arc::new(Catalogue::default());
    let tools = Tools::new(Arc::clone(&catalogue), Settings::default()).unwrap();
    let client = client(&Host::builder().plugin(tools).build()).await;
    let error = refused(&client, "t", json!({})).await;
    assert_eq!(error.code, ErrorCode::UnknownTool);
    let kit = Source::Toolkit("kit".into());
    assert_eq!(
        catalogue.set(kit.clone(), vec![constant(defined("t"), json!(1))]),
        []
    );
    assert_eq!(call(&client, "t", json!({})).await, json!(1));
    // Another source cannot take the name, and is told so.
    let clashes = catalogue.set(Source::Config, vec![constant(defined("t"), json!(2))]);
    assert_eq!((&*clashes[0].name, &clashes[0].kept), ("t", &kit));
    assert_eq!(call(&client, "t", json!({})).await, json!(1));
    catalogue.remove(&kit);
    assert_eq!(call(&client, "t", json!({})).await, json!(2));
    assert_eq!(catalogue.current().clashes(), []);
}

#[tokio::test]
async fn what_cannot_have_changed_is_given_again() {
    let (read, reads) = counting(defined("read").read_only());
    let (clock, ticks) = counting(defined("clock").read_only().volatile());
    let write = constant(defined("write"), json!({}));
    let put = constant(defined("put").idempotent(), json!({}));
    let host = host(vec![read, clock, write, put]);
    let (one, two) = (client(&host).await, client(&host).await);
    assert_eq!(call(&one, "read", json!({"a": 1, "b": 2})).await["call"], 1);
    // The order of members does not count, their values do.
    assert_eq!(call(&one, "read", json!({"b": 2, "a": 1})).await["call"], 1);
    assert_eq!(call(&one, "read", json!({"a": 2})).await["call"], 2);
    // Results are a session's own, changes are everybody's.
    assert_eq!(call(&two, "read", json!({"a": 2})).await["call"], 3);
    call(&two, "clock", json!({})).await;
    call(&two, "clock", json!({})).await;
    assert_eq!(ticks.load(Ordering::SeqCst), 2);
    assert_eq!(call(&one, "read", json!({"a": 2})).await["call"], 2);
    for change in ["write", "put"] {
        let before = reads.load(Ordering::SeqCst);
        call(&two, change, json!({})).await;
        call(&one, "read", json!({"a": 2})).await;
        assert_eq!(reads.load(Ordering::SeqCst), before + 1, "{change}");
    }
}

#[tokio::test]
async fn so_many_results_are_kept() {
    let (read, _) = counting(defined("read").read_only());
    let client = client(&host(vec![read])).await;
    for number in 0..MAX_CACHED {
        call(&client, "read", json!({ "n": number })).await;
    }
    // The first is still there; one more puts it out.
    assert_eq!(call(&client, "read", json!({"n": 0})).await["call"], 1);
    call(&client, "read", json!({"n": MAX_CACHED})).await;
    assert_eq!(call(&client, "read", json!({"n": 1})).await["call"], 2);
    let again = call(&client, "read", json!({"n": 0})).await;
    assert_eq!(again["call"], MAX_CACHED + 2);
}

#[tokio::test]
async fn failures_are_not_given_again() {
    let (seen, mut calls) = mpsc::unbounded_channel();
    let fails = fake(defined("fails").read_only(), move |_| {
        seen.send(()).unwrap();
        async { Err(ToolFailure::new("no")) }
    });
    let client = client(&host(vec![fails])).await;
    for _ in 0..2 {
        refused(&client, "fails", json!({})).await;
        calls.recv().await.unwrap();
    }
}

/// A call that takes too long is told so, and what it started hears of it.
#[tokio::test]
async fn time_passes() {
    let (over, mut ended) = mpsc::unbounded_channel();
    let slow = fake(defined("slow"), move |call| {
        let over = over.clone();
        // What a tool starts elsewhere waits for this.
        tokio::spawn(async move {
            call.over.cancelled().await;
            over.send(()).unwrap();
        });
        std::future::pending()
    });
    let client = client(&host(vec![slow])).await;
    let calling = Calling {
        seconds: 1,
        ..Calling::default()
    };
    let outcome = client.tools().call("slow", &json!({}), calling).await;
    let Err(a2e_runtime::ClientError::Host(error)) = outcome else {
        panic!("{outcome:?}");
    };
    assert_eq!((error.code, error.retryable), (ErrorCode::Timeout, true));
    ended.recv().await.unwrap();
}

/// A call whose agent leaves is cancelled, and what it started hears of it.
#[tokio::test]
async fn agents_leave() {
    let (over, mut ended) = mpsc::unbounded_channel();
    let (began, mut begun) = mpsc::unbounded_channel();
    let slow = fake(defined("slow"), move |call| {
        let over = over.clone();
        began.send(()).unwrap();
        tokio::spawn(async move {
            call.over.cancelled().await;
            over.send(()).unwrap();
        });
        std::future::pending()
    });
    let host = host(vec![slow]);
    let client = client(&host).await;
    let calling = client.clone();
    tokio::spawn(async move {
        let _ = calling
            .tools()
            .call("slow", &json!({}), Calling::default())
            .await;
    });
    begun.recv().await.unwrap();
    client.disconnect(std::time::Duration::ZERO).await;
    ended.recv().await.unwrap();
}

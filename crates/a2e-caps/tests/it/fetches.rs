//! How many requests are made at once.

use std::sync::{Arc, Mutex};

use a2e_caps::http::Settings;
use serde_json::json;
use tokio::net::TcpListener;

use crate::http::{answer, reaching, serve};
use crate::support::{call, refused};

/// At the limit all are served at once; one past it waits, and a host of another name does not.
#[tokio::test]
async fn one_host_is_asked_so_often_at_once() {
    let listener = TcpListener::bind("0.0.0.0:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let settings = Settings {
        per_host: 2,
        ..Settings::default()
    };
    let client = Arc::new(reaching(settings).await);
    let get = |host: &str| {
        let (client, url) = (Arc::clone(&client), format!("http://{host}:{port}/"));
        tokio::spawn(async move { call(&client, "http_get", json!({ "url": url })).await })
    };
    let calls = [get("127.0.0.1"), get("127.0.0.1"), get("127.0.0.1")];
    let mut first = listener.accept().await.unwrap().0;
    let mut second = listener.accept().await.unwrap().0;
    let other = get("127.0.0.2");
    // The third of the first host would have come before it.
    let mut third = listener.accept().await.unwrap().0;
    let kept = Mutex::new(Vec::new());
    serve(&mut third, answer("200 OK", "other").as_bytes(), &kept).await;
    assert_eq!(other.await.unwrap()["body"], "other");
    serve(&mut first, answer("200 OK", "a").as_bytes(), &kept).await;
    let mut last = listener.accept().await.unwrap().0;
    serve(&mut second, answer("200 OK", "a").as_bytes(), &kept).await;
    serve(&mut last, answer("200 OK", "a").as_bytes(), &kept).await;
    for call in calls {
        assert_eq!(call.await.unwrap()["body"], "a");
    }
    let hosts: Vec<bool> = kept
        .into_inner()
        .unwrap()
        .iter()
        .map(|asked| asked.contains("127.0.0.2"))
        .collect();
    assert_eq!(hosts, [true, false, false, false]);
}

/// At the limit all are made; one past it is refused until one of them has ended.
#[tokio::test]
async fn one_agent_asks_so_often_at_once() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let client = Arc::new(
        reaching(Settings {
            per_agent: 2,
            ..Settings::default()
        })
        .await,
    );
    let get = || {
        let (client, url) = (Arc::clone(&client), url.clone());
        tokio::spawn(async move { call(&client, "http_get", json!({ "url": url })).await })
    };
    let calls = [get(), get()];
    let mut first = listener.accept().await.unwrap().0;
    let mut second = listener.accept().await.unwrap().0;
    let refused = refused(&client, "http_get", json!({ "url": url })).await;
    assert!(refused.retryable, "{refused:?}");
    let told = format!("{refused:?}");
    assert!(
        told.contains("agent_limit") && told.contains("max_fetches_per_agent"),
        "{told}"
    );
    let kept = Mutex::new(Vec::new());
    serve(&mut first, answer("200 OK", "a").as_bytes(), &kept).await;
    serve(&mut second, answer("200 OK", "a").as_bytes(), &kept).await;
    for call in calls {
        assert_eq!(call.await.unwrap()["body"], "a");
    }
    let again = get();
    let mut third = listener.accept().await.unwrap().0;
    serve(&mut third, answer("200 OK", "b").as_bytes(), &kept).await;
    assert_eq!(again.await.unwrap()["body"], "b");
}

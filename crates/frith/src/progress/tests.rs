use std::sync::Arc;

use a2e_wire::messages::tool::ToolEvent;
use a2e_wire::wire::ToStatic;
use a2e_wire::{Envelope, Object, Timestamp};

use serde_json::json;

use super::*;

fn message(kind: &'static str, data: &Value) -> Message<'static> {
    let event = ToolEvent {
        kind: kind.into(),
        data: Object::parse(&data.to_string()).unwrap().to_static(),
        ..ToolEvent::new()
    };
    Message::new(Envelope::new("e", Timestamp::default()), event)
}

#[test]
fn events_are_told_in_words() {
    for (kind, data, text) in [
        (
            "progress",
            json!({"pct": 7, "message": "on it"}),
            "  7 % on it",
        ),
        ("progress", json!({"pct": 250.5}), "100 %"),
        ("progress", json!({"number": 1}), r#"{"number":1}"#),
        (
            "status",
            json!({"message": "waits\u{1b}[2J"}),
            r"waits\u{1b}[2J",
        ),
        ("status", json!({"message": "one\n two\n"}), "one two"),
        ("log", json!({"level": "warn", "message": "hm"}), "warn: hm"),
        (
            "artifact",
            json!({"name": "a.png", "chunk": "aGVsbG8="}),
            "a.png, 5 bytes",
        ),
        ("other", json!({"x": "y"}), r#"{"x":"y"}"#),
    ] {
        assert_eq!(told(kind, &data), text);
    }
}

#[tokio::test(start_paused = true)]
async fn the_bar_says_how_much_since_when_and_what() {
    let progress = Progress::new(Events::Quiet, true);
    let bar = |columns| progress.lock().bar(columns);
    assert_eq!(bar(80), "working  0 s");
    tokio::time::advance(Duration::from_secs(12)).await;
    progress.event(&message("status", &json!({"message": "reading"})));
    assert_eq!(bar(80), "working  12 s  reading");
    progress.event(&message("progress", &json!({"pct": 50, "message": "half"})));
    let half = format!("[{}{}]  50 %  12 s  half", "#".repeat(15), ".".repeat(15));
    assert_eq!(bar(80), half);
    assert_eq!(bar(21), half[..20]);
    progress.event(&message("progress", &json!({"pct": 100})));
    assert!(bar(80).starts_with(&format!("[{}] 100 %", "#".repeat(30))));
}

/// A response that comes after so many seconds, and something that happens every few.
async fn waited(seconds: u64, every: u64, happens: Value) -> bool {
    let progress = Arc::new(Progress::new(Events::Quiet, true));
    let told = Arc::clone(&progress);
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(Duration::from_secs(every)).await;
            told.event(&message("status", &happens));
        }
    });
    let response = async {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        Ok(())
    };
    progress.within(response, 30).await.is_ok()
}

#[tokio::test(start_paused = true)]
async fn the_time_counts_from_the_last_event() {
    let status = || json!({"message": "on it"});
    assert!(waited(30, 10_000, status()).await);
    assert!(!waited(31, 10_000, status()).await);
    assert!(waited(300, 30, status()).await);
    assert!(!waited(300, 31, status()).await);
    // Not for ever.
    assert!(waited(3604, 10, status()).await);
    assert!(!waited(3606, 10, status()).await);
    // The operator may take longer.
    let held = json!({"status": "approval_pending", "approval_id": "a"});
    assert!(waited(7200, 20, held).await);
}

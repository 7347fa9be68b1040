//! Bad input over every transport: the right code each time, session and neighbours unharmed.

use a2e_runtime::Limits;
use serde_json::{Value, json};

use crate::support::{TRANSPORTS, Transport, Wire, call, data, demo, handshake};

#[tokio::test]
async fn every_kind_of_bad_line() {
    for transport in TRANSPORTS {
        let host = demo().max_line(2000).build();
        let place = transport.place(&host).await;
        let neighbour = place
            .client(crate::support::TOKEN, &["tools"])
            .await
            .unwrap();
        let mut wire = place.wire().await;
        let long = format!(r#"{{"type":"ping","id":"{}"}}"#, "x".repeat(1978));
        assert_eq!(long.len(), 2001);
        for (line, code) in [
            ("not json", "parse_error"),
            ("[]", "parse_error"),
            (r#"{"type":"ping","id":5}"#, "schema_violation"),
            (r#"{"type":"tool/list/req","id":"a"}"#, "unauthorized"),
            (r#"{"type":"ping","x":{"a":1,"a":2}}"#, "schema_violation"),
            (r#"{"type":"ping","a2e":"2.0"}"#, "version_mismatch"),
            (&long, "invalid_message"),
        ] {
            assert_eq!(
                wire.ask_line(line).await["code"],
                code,
                "{transport:?} {line}"
            );
        }
        // The longest line there may be.
        let longest = format!(r#"{{"type":"ping","x":"{}"}}"#, "x".repeat(1978));
        assert_eq!(longest.len(), 2000);
        assert_eq!(wire.ask_line(&longest).await["type"], "pong");
        let mut wrong = handshake();
        wrong["auth_token"] = json!("wrong");
        assert_eq!(wire.ask(&wrong).await["reason"], "auth_failed");
        assert_eq!(wire.ask(&handshake()).await["ok"], true);
        let again = wire.ask(&handshake()).await;
        assert_eq!(
            again["ok"], true,
            "a second handshake begins another session"
        );
        for (line, code) in [
            (
                r#"{"type":"memory/init/req","id":"b"}"#,
                "capability_missing",
            ),
            (r#"{"type":"my/own/req","id":"c"}"#, "invalid_message"),
            (
                r#"{"type":"tool/call/req","id":"d","arguments":7}"#,
                "schema_violation",
            ),
        ] {
            let answer = wire.ask_line(line).await;
            assert_eq!(answer["code"], code, "{transport:?} {line}");
            assert!(!answer["req_id"].as_str().unwrap().is_empty());
        }
        assert_eq!(
            wire.ask_line(r#"{"type":"ping","id":"p"}"#).await["type"],
            "pong"
        );
        neighbour.ping().await.unwrap();
    }
}

/// Ten megabytes where eight are allowed.
#[tokio::test]
async fn a_line_that_is_much_too_long() {
    for transport in TRANSPORTS {
        if transport == Transport::Narrow {
            continue; // Seven bytes at a time that takes minutes, and shows nothing else.
        }
        let mut wire = Wire::connected(transport, &demo().build()).await;
        let long = format!(r#"{{"type":"ping","id":"{}"}}"#, "x".repeat(10_000_000));
        assert_eq!(
            wire.ask_line(&long).await["code"],
            "invalid_message",
            "{transport:?}"
        );
        assert_eq!(
            wire.ask_line(r#"{"type":"ping","id":"p"}"#).await["type"],
            "pong"
        );
    }
}

/// More requests than may wait: each is answered once, those too many with an error that says so.
#[tokio::test]
async fn a_flood_of_requests() {
    for transport in TRANSPORTS {
        let limits = Limits {
            max_parallel: 2,
            max_queue: 3,
            ..Limits::default()
        };
        let host = demo().limits(limits).build();
        let place = transport.place(&host).await;
        let neighbour = place
            .client(crate::support::TOKEN, &["tools"])
            .await
            .unwrap();
        let mut wire = place.wire().await;
        assert_eq!(wire.ask(&handshake()).await["ok"], true);
        let wait = |id: usize| json!({"type": "tool/call/req", "id": id.to_string(), "tool_name": "wait", "arguments": {"seconds": 3000}});
        for id in 0..50 {
            wire.say(&wait(id).to_string());
        }
        let mut refused = Vec::new();
        for _ in 0..45 {
            let answer: Value = wire.hear().await.unwrap();
            assert_eq!(
                answer["detail"]["reason"], "queue_full",
                "{transport:?} {answer}"
            );
            assert_eq!(
                (&answer["code"], &answer["retryable"]),
                (&json!("runtime_error"), &json!(true))
            );
            refused.push(answer["req_id"].as_str().unwrap().parse::<usize>().unwrap());
        }
        let expected: Vec<usize> = (5..50).collect();
        assert_eq!(refused, expected, "two run, three wait, {transport:?}");
        let echo = neighbour.rpc(
            call("echo", r#"{"n":1}"#),
            a2e_runtime::CallOptions::default(),
        );
        assert_eq!(data(&echo.await.unwrap()), r#"{"n":1}"#);
    }
}

/// A peer that closes its side still gets its answers.
#[tokio::test]
async fn answers_after_the_end_of_input() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    for last in [
        // The last line has no newline.
        format!(
            "{}\n{}",
            handshake(),
            json!({"type": "tool/call/req", "id": "c", "tool_name": "echo", "arguments": {}})
        ),
        // Even a handshake can be the last thing a peer says.
        handshake().to_string(),
    ] {
        for size in [7, 64 * 1024] {
            let (mut ours, theirs) = tokio::io::duplex(size);
            let host = demo().build();
            tokio::spawn(async move { host.serve(theirs, a2e_runtime::Source::Own).await });
            let (mut reader, mut writer) = tokio::io::split(&mut ours);
            let write = async {
                writer.write_all(last.as_bytes()).await.unwrap();
                writer.shutdown().await.unwrap();
            };
            let mut answers = String::new();
            let ((), read) = tokio::join!(write, reader.read_to_string(&mut answers));
            read.unwrap();
            assert_eq!(answers.lines().count(), last.lines().count(), "{answers}");
        }
    }
}

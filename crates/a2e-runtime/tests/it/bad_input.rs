//! Bad input over every transport: the right code each time, session and neighbours unharmed.

use a2e_runtime::Host;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

use crate::support::{Stream, TOKEN, TRANSPORTS, Transport, demo};

/// A client that speaks raw lines.
pub(crate) struct Wire(BufReader<Box<dyn Stream>>);

impl Wire {
    /// One that has shaken hands for tools.
    pub(crate) async fn connected(transport: Transport, host: &Host) -> Self {
        let mut wire = Self(BufReader::new(transport.connect(host).await));
        let handshake = json!({"type": "handshake/req", "id": "h", "agent_caps": ["tools"], "auth_token": TOKEN});
        assert_eq!(wire.say(&handshake.to_string()).await["ok"], true);
        wire
    }

    pub(crate) async fn say(&mut self, line: &str) -> Value {
        self.0.write_all(line.as_bytes()).await.unwrap();
        self.0.write_all(b"\n").await.unwrap();
        self.hear().await
    }

    async fn hear(&mut self) -> Value {
        let mut line = String::new();
        self.0.read_line(&mut line).await.unwrap();
        serde_json::from_str(&line).unwrap()
    }
}

#[tokio::test]
async fn every_kind_of_bad_line() {
    for transport in TRANSPORTS {
        let host = demo().max_line(2000).build();
        let neighbour = transport.client(&host).await;
        let mut wire = Wire(BufReader::new(transport.connect(&host).await));
        let handshake = json!({"type": "handshake/req", "id": "h", "agent_caps": ["tools"], "auth_token": TOKEN});
        let long = format!(r#"{{"type":"ping","id":"{}"}}"#, "x".repeat(3000));
        for (line, code) in [
            ("not json", "parse_error"),
            ("[]", "parse_error"),
            (r#"{"type":"ping","id":5}"#, "schema_violation"),
            (r#"{"type":"tool/list/req","id":"a"}"#, "unauthorized"),
            (r#"{"type":"ping","x":{"a":1,"a":2}}"#, "schema_violation"),
            (&long, "invalid_message"),
        ] {
            assert_eq!(wire.say(line).await["code"], code, "{transport:?} {line}");
        }
        assert_eq!(wire.say(&handshake.to_string()).await["ok"], true);
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
            let answer = wire.say(line).await;
            assert_eq!(answer["code"], code, "{transport:?} {line}");
            assert!(!answer["req_id"].as_str().unwrap().is_empty());
        }
        assert_eq!(
            wire.say(r#"{"type":"ping","id":"p"}"#).await["type"],
            "pong"
        );
        neighbour.ping().await.unwrap();
    }
}

/// A peer that closes its side still gets its answers.
#[tokio::test]
async fn answers_after_the_end_of_input() {
    for transport in TRANSPORTS {
        let mut wire = Wire(BufReader::new(transport.connect(&demo().build()).await));
        let handshake = json!({"type": "handshake/req", "id": "h", "agent_caps": ["tools"], "auth_token": TOKEN});
        let call =
            json!({"type": "tool/call/req", "id": "c", "tool_name": "echo", "arguments": {"x": 1}});
        // The last line has no newline.
        wire.0
            .write_all(format!("{handshake}\n{call}").as_bytes())
            .await
            .unwrap();
        wire.0.shutdown().await.unwrap();
        assert_eq!(wire.hear().await["ok"], true);
        assert_eq!(wire.hear().await["data"]["data"], json!({"x": 1}));
        let mut rest = String::new();
        assert_eq!(
            wire.0.read_line(&mut rest).await.unwrap(),
            0,
            "{transport:?}: {rest}"
        );
    }
}

/// Even a handshake that is the last thing a peer says, without a newline.
#[tokio::test]
async fn a_handshake_at_the_end_of_input() {
    for transport in TRANSPORTS {
        let mut wire = Wire(BufReader::new(transport.connect(&demo().build()).await));
        let handshake =
            json!({"type": "handshake/req", "id": "h", "auth_token": TOKEN}).to_string();
        wire.0.write_all(handshake.as_bytes()).await.unwrap();
        wire.0.shutdown().await.unwrap();
        assert_eq!(wire.hear().await["ok"], true, "{transport:?}");
        let mut rest = String::new();
        assert_eq!(wire.0.read_line(&mut rest).await.unwrap(), 0);
    }
}

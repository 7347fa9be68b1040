//! What must be the same over every transport.

use std::sync::Arc;

use a2a_net::courier::{Post, Reach};
use a2a_net::listen::Listeners;
use a2a_net::transport::{Carrier, CarryError, Courier, Place, Reply};
use a2a_wire::ErrorCode;
use bytes::Bytes;
use serde_json::{Value, json};

use crate::echo::{Server, answered, ask, cancel, request};

/// Each scenario over each transport, a test of its own.
macro_rules! over_all {
    ($($scenario:ident)*) => {
        over_all!(@each http1 Http1: $($scenario)*);
        over_all!(@each http2 Http2: $($scenario)*);
        over_all!(@each grpc Grpc: $($scenario)*);
        over_all!(@each websocket WebSocket: $($scenario)*);
    };
    (@each $module:ident $carrier:ident: $($scenario:ident)*) => {
        mod $module {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $scenario() {
                super::$scenario(a2a_net::transport::Carrier::$carrier).await;
            })*
        }
    };
}

over_all! {
    a_message_comes_as_it_was_sent
    a_handshake_message_is_answered
    every_error_has_the_status_of_the_table
    nothing_is_answered_with_nothing
    a_stream_comes_in_order
    a_stream_that_nobody_reads_slows_its_writer_down
    a_stream_that_is_given_up_ends
    threat_113_nothing_is_read_behind_a_part_that_is_too_large
    many_requests_are_in_flight_at_once
    a_request_that_is_given_up_is_dropped
    a_large_message_goes_both_ways
    an_answer_that_is_too_large_is_refused
    what_has_begun_ends_when_the_server_stops
    a_server_that_is_back_is_found_again
}

async fn a_message_comes_as_it_was_sent(carrier: Carrier) {
    let server = Server::start().await;
    let courier = server.courier(carrier);
    for number in 0..3 {
        let message = request(&format!("r{number}"), "echo é\u{1F980}");
        let answer = ask(&courier, &message).await;
        assert_eq!(answer["message"], message);
        assert_eq!(answer["carrier"], carrier.name());
        assert_eq!(answer["source"], "127.0.0.1");
        let has_place = matches!(carrier, Carrier::Http1 | Carrier::Http2);
        assert_eq!(answer["place"], if has_place { "Request" } else { "Any" });
        let has_hint = carrier != Carrier::WebSocket;
        assert_eq!(
            answer["hint"],
            if has_hint { json!("s1") } else { Value::Null }
        );
    }
}

async fn a_handshake_message_is_answered(carrier: Carrier) {
    let server = Server::start().await;
    let courier = server.courier(carrier);
    // More than wait for their turn over one connection.
    let hellos = (0..80).map(|number| {
        let courier = courier.clone();
        tokio::spawn(async move {
            let hello = json!({"type": "hello", "number": number});
            let (answer, status) = answered(&courier, Place::Handshake, &hello).await;
            assert_eq!(
                (&answer["message"]["number"], status),
                (&json!(number), 200)
            );
        })
    });
    for hello in hellos.collect::<Vec<_>>() {
        hello.await.unwrap();
    }
}

/// Threat 133.
async fn every_error_has_the_status_of_the_table(carrier: Carrier) {
    let server = Server::start().await;
    let courier = server.courier(carrier);
    for (number, code) in ErrorCode::ALL.iter().enumerate() {
        let message = request(&format!("r{number}"), &format!("error {code}"));
        let (answer, status) = answered(&courier, Place::Request, &message).await;
        let expected = json!({
            "type": "error", "error_code": code.as_str(), "error_message": code.text(),
            "request_id": format!("r{number}"),
        });
        assert_eq!(answer, expected);
        // gRPC has one status for both kinds of lateness.
        let through_grpc = match *code == ErrorCode::HandshakeTimeout {
            true => Some(504),
            false => code.http(),
        };
        let wanted = if carrier == Carrier::Grpc {
            through_grpc
        } else {
            code.http()
        };
        assert_eq!(Some(status), wanted, "{code}");
    }
    // An error in a handshake ends at most its connection.
    for _ in 0..3 {
        let hello = json!({"type": "hello", "do": "error UNVERIFIED_AGENT"});
        let (answer, status) = answered(&courier, Place::Handshake, &hello).await;
        assert_eq!(
            (&answer["error_code"], status),
            (&json!("UNVERIFIED_AGENT"), 401)
        );
    }
    ask(&courier, &request("last", "echo")).await;
}

async fn nothing_is_answered_with_nothing(carrier: Carrier) {
    let server = Server::start().await;
    let courier = server.courier(carrier);
    let message = json!({"type": "error", "do": "nothing"});
    let message = Bytes::from(message.to_string());
    let reply = courier.send(Place::Handshake, None, message).await;
    assert!(matches!(reply, Ok(Reply::Nothing)), "{reply:?}");
    ask(&courier, &request("r1", "echo")).await;
}

fn streamed(id: &str, parts: u64, pad: u64) -> Bytes {
    let mut message = request(id, "stream");
    message["parts"] = parts.into();
    message["pad"] = pad.into();
    Bytes::from(message.to_string())
}

async fn a_stream_comes_in_order(carrier: Carrier) {
    let server = Server::start().await;
    let courier = server.courier(carrier);
    for parts in [1, 2, 100] {
        let message = streamed(&format!("r{parts}"), parts, 10);
        let Ok(Reply::Stream(mut stream)) = courier.send(Place::Request, None, message).await
        else {
            panic!("no stream");
        };
        for index in 0..parts {
            let part: Value =
                serde_json::from_slice(&stream.recv().await.unwrap().unwrap()).unwrap();
            assert_eq!(part["index"], index);
        }
        let last: Value = serde_json::from_slice(&stream.recv().await.unwrap().unwrap()).unwrap();
        assert_eq!(last["stream"]["chunks"], parts);
        assert!(stream.recv().await.is_none());
        // The connection is as good as before.
        ask(&courier, &request("next", "echo")).await;
    }
}

async fn a_stream_that_nobody_reads_slows_its_writer_down(carrier: Carrier) {
    let server = Server::start().await;
    let courier = server.courier(carrier);
    let message = streamed("r1", 100_000, 32 * 1024);
    let Ok(Reply::Stream(mut stream)) = courier.send(Place::Request, None, message).await else {
        panic!("no stream");
    };
    // Others are served, over the same connection or another.
    for number in 0..20 {
        ask(&courier, &request(&format!("other{number}"), "echo")).await;
    }
    let taken = *server.echo.parts.lock().unwrap();
    assert!(taken < 10_000, "{taken} parts of 32 KiB left the writer");
    for _ in 0..200 {
        stream.recv().await.unwrap().unwrap();
    }
}

/// Over a WebSocket one message of many cannot be taken back: whoever gives it up says so, as the client does.
async fn tell(carrier: Carrier, courier: &Post, request: &str) {
    if carrier == Carrier::WebSocket {
        ask(courier, &cancel("c1", request)).await;
    }
}

/// A hostile server's parts: only the answer may be so large, and that is the last message.
async fn threat_113_nothing_is_read_behind_a_part_that_is_too_large(carrier: Carrier) {
    let server = Server::start().await;
    let courier = server.courier(carrier);
    let pad = u64::try_from(a2a_wire::limits::CHUNK_MESSAGE).unwrap();
    let message = streamed("r1", 1000, pad);
    match courier.send(Place::Request, None, message).await.unwrap() {
        Reply::Stream(mut stream) => {
            stream.recv().await.unwrap().unwrap();
            assert!(stream.recv().await.is_none());
        }
        // Over a WebSocket it is taken for the answer at once.
        Reply::Message { message, .. } => {
            assert!(message.len() > a2a_wire::limits::CHUNK_MESSAGE);
        }
        Reply::Nothing => panic!("nothing"),
    }
    // What the server had sent meanwhile is passed over.
    ask(&courier, &request("r2", "echo")).await;
}

async fn a_stream_that_is_given_up_ends(carrier: Carrier) {
    let server = Server::start().await;
    let courier = server.courier(carrier);
    let message = streamed("r1", 1_000_000_000, 1024);
    let Ok(Reply::Stream(mut stream)) = courier.send(Place::Request, None, message).await else {
        panic!("no stream");
    };
    stream.recv().await.unwrap().unwrap();
    drop(stream);
    tell(carrier, &courier, "r1").await;
    server.echo.dropped.notified().await;
}

async fn many_requests_are_in_flight_at_once(carrier: Carrier) {
    let server = Server::start().await;
    let courier = server.courier(carrier);
    let asked = (0..200).map(|number| {
        let courier = courier.clone();
        tokio::spawn(async move {
            let message = request(&format!("r{number}"), "echo");
            assert_eq!(ask(&courier, &message).await["message"], message);
        })
    });
    for asked in asked.collect::<Vec<_>>() {
        asked.await.unwrap();
    }
    assert_eq!(server.echo.arrived.lock().unwrap().len(), 200);
}

async fn a_request_that_is_given_up_is_dropped(carrier: Carrier) {
    let server = Server::start().await;
    let courier = server.courier(carrier);
    let message = Bytes::from(request("r1", "hang").to_string());
    tokio::select! {
        reply = courier.send(Place::Request, None, message) => panic!("{reply:?}"),
        () = server.echo.begun.notified() => {}
    }
    tell(carrier, &courier, "r1").await;
    server.echo.dropped.notified().await;
    ask(&courier, &request("r2", "echo")).await;
}

async fn a_large_message_goes_both_ways(carrier: Carrier) {
    let server = Server::start().await;
    let courier = server.courier(carrier);
    let mut message = request("r1", "echo");
    message["pad"] = "7".repeat(900 * 1024).into();
    assert_eq!(ask(&courier, &message).await["message"], message);
    message["pad"] = "7".repeat(2 * 1024 * 1024).into();
    let bytes = Bytes::from(message.to_string());
    match courier.send(Place::Request, None, bytes).await {
        // The close of the WebSocket says it.
        Err(CarryError::Broken | CarryError::Foreign(_)) if carrier == Carrier::WebSocket => {}
        Ok(Reply::Message { status, .. }) => assert_eq!(status, 413),
        other => panic!("{other:?}"),
    }
}

async fn an_answer_that_is_too_large_is_refused(carrier: Carrier) {
    let server = Server::start().await;
    let reach = Reach {
        answer_bytes: 10_000,
        ..Reach::default()
    };
    let courier = server.reaching(reach).courier(carrier);
    let mut message = request("r1", "echo");
    message["pad"] = "7".repeat(9_000).into();
    ask(&courier, &message).await;
    message["request_id"] = "r2".into();
    message["pad"] = "7".repeat(10_000).into();
    let bytes = Bytes::from(message.to_string());
    let failed = courier.send(Place::Request, None, bytes).await;
    assert!(matches!(failed, Err(CarryError::Foreign(_))), "{failed:?}");
    ask(&courier, &request("r3", "echo")).await;
}

async fn what_has_begun_ends_when_the_server_stops(carrier: Carrier) {
    let server = Server::start().await;
    let courier = server.courier(carrier);
    let message = streamed("r1", 50, 32 * 1024);
    let Ok(Reply::Stream(mut stream)) = courier.send(Place::Request, None, message).await else {
        panic!("no stream");
    };
    server.stop.cancel();
    for _ in 0..=50 {
        stream.recv().await.unwrap().unwrap();
    }
    assert!(stream.recv().await.is_none());
    let _stopped = server.stopped.acquire().await.unwrap();
    let message = Bytes::from(request("r2", "echo").to_string());
    let failed = courier.send(Place::Request, None, message).await;
    assert!(matches!(failed, Err(CarryError::Connect(_))), "{failed:?}");
}

async fn a_server_that_is_back_is_found_again(carrier: Carrier) {
    let server = Server::start().await;
    let courier = server.courier(carrier);
    ask(&courier, &request("r1", "echo")).await;
    server.stop.cancel();
    let _stopped = server.stopped.acquire().await.unwrap();
    // Another one at the same address, with a certificate of the same authority.
    let listeners = Listeners::bind(&[server.address]).await.unwrap();
    let certificate = Arc::new(server.ca.issue().unwrap());
    server.serve(listeners, &certificate);
    // One that leaves before the end of the old connection is heard of may be lost with it.
    let bytes = Bytes::from(request("r2", "echo").to_string());
    let first = courier.send(Place::Request, Some("s1"), bytes).await;
    assert!(
        matches!(first, Ok(_) | Err(CarryError::Broken)),
        "{first:?}"
    );
    ask(&courier, &request("r3", "echo")).await;
}

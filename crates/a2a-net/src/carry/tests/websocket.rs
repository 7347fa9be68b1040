use futures_util::{SinkExt, StreamExt};
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{WebSocketStream, client_async};

use super::*;

async fn open(headers: &[(&'static str, &str)]) -> Result<WebSocketStream<DuplexStream>, Error> {
    open_over(connect(Carrier::Http1), headers).await
}

async fn open_over(
    stream: DuplexStream,
    headers: &[(&'static str, &str)],
) -> Result<WebSocketStream<DuplexStream>, Error> {
    let mut request = "ws://localhost/a2a/ws".into_client_request().unwrap();
    for (name, value) in headers {
        let value = value.parse().unwrap();
        request.headers_mut().append(*name, value);
    }
    let opened = client_async(request, stream).await;
    opened.map(|(socket, _)| socket)
}

async fn opened() -> WebSocketStream<DuplexStream> {
    open(&[("sec-websocket-protocol", "a2a.v1")]).await.unwrap()
}

async fn opened_at(site: &Site, source: &str) -> WebSocketStream<DuplexStream> {
    let stream = site.connect(Carrier::Http1, source);
    let opened = open_over(stream, &[("sec-websocket-protocol", "a2a.v1")]);
    opened.await.unwrap()
}

fn refused(opened: Result<WebSocketStream<DuplexStream>, Error>) -> u16 {
    match opened {
        Err(Error::Http(response)) => response.status().as_u16(),
        other => panic!("{other:?}"),
    }
}

/// The code that the server closes with.
async fn closed(socket: &mut WebSocketStream<DuplexStream>) -> u16 {
    loop {
        match socket.next().await.expect("a close frame") {
            Ok(Message::Close(frame)) => return frame.expect("a code").code.into(),
            Ok(_) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

fn request(id: &str, what: &str) -> Message {
    Message::text(format!(
        r#"{{"type":"request","request_id":"{id}","do":"{what}"}}"#
    ))
}

#[tokio::test(start_paused = true)]
async fn threat_129_foreign_pages_and_other_subprotocols_get_no_socket() {
    let ours = ("sec-websocket-protocol", "a2a.v1");
    assert_eq!(
        refused(open(&[ours, ("origin", "https://a.example")]).await),
        403
    );
    assert_eq!(refused(open(&[("origin", "null")]).await), 403);
    assert!(open(&[]).await.is_ok(), "none is asked for");
    assert_eq!(
        refused(open(&[("sec-websocket-protocol", "a2a.v2, chat")]).await),
        400
    );
    assert!(
        open(&[("sec-websocket-protocol", "chat, a2a.v1")])
            .await
            .is_ok()
    );
}

#[tokio::test(start_paused = true)]
async fn threat_129_binary_bad_text_and_too_much_end_the_socket() {
    let mut socket = opened().await;
    socket.send(Message::binary(&b"{}"[..])).await.unwrap();
    assert_eq!(closed(&mut socket).await, 1003);
    let mut socket = opened().await;
    let text = Frame::message(vec![b'"', 0xff, b'"'], OpCode::Data(Data::Text), true);
    socket.send(Message::Frame(text)).await.unwrap();
    assert_eq!(closed(&mut socket).await, 1007);
    let limit = REQUEST_BYTES;
    assert_eq!(flooded(vec![b'7'; limit + 1], true).await, 1009);
    // In fragments that never end.
    assert_eq!(flooded(vec![b'7'; 32 * 1024], false).await, 1009);
}

/// The code that the server closes with, sent one text again and again whether it reads it or not.
async fn flooded(text: Vec<u8>, is_whole: bool) -> u16 {
    let (mut sink, mut stream) = opened().await.split();
    let flood = tokio::spawn(async move {
        let mut kind = Data::Text;
        loop {
            let part = Frame::message(text.clone(), OpCode::Data(kind), is_whole);
            if sink.send(Message::Frame(part)).await.is_err() {
                return;
            }
            kind = Data::Continue;
        }
    });
    let code = loop {
        match stream.next().await {
            Some(Ok(Message::Close(Some(frame)))) => break u16::from(frame.code),
            Some(Ok(_)) => {}
            other => panic!("{other:?}"),
        }
    };
    flood.abort();
    code
}

#[tokio::test(start_paused = true)]
async fn a_message_at_the_limit_is_answered() {
    let handshake_bytes = Limits::default().handshake_bytes;
    for text in [
        padded(r#"{"type":"request","request_id":"a","x":""#, REQUEST_BYTES),
        padded(r#"{"type":"hello","x":""#, handshake_bytes),
    ] {
        let mut socket = opened().await;
        let (mut sink, mut stream) = (&mut socket).split();
        let sent = sink.send(Message::text(text.clone()));
        let (sent, answer) = tokio::join!(sent, stream.next());
        sent.unwrap();
        assert_eq!(answer.unwrap().unwrap().into_text().unwrap().as_str(), text);
    }
}

/// A message that begins so, of this many bytes.
fn padded(begin: &str, bytes: usize) -> String {
    let text = format!("{begin}{}\"}}", "x".repeat(bytes - begin.len() - 2));
    assert_eq!(text.len(), bytes);
    text
}

fn request_of(id: &str, bytes: usize) -> Message {
    let begin = format!(r#"{{"type":"request","request_id":"{id}","x":"hang"#);
    Message::text(padded(&begin, bytes))
}

#[tokio::test(start_paused = true)]
async fn threat_129_a_handshake_message_past_its_limit_ends_the_socket() {
    let mut socket = opened().await;
    let limit = Limits::default().handshake_bytes;
    let text = padded(r#"{"type":"hello","x":""#, limit + 1);
    socket.send(Message::text(text)).await.unwrap();
    assert_eq!(closed(&mut socket).await, 1009);
}

/// A server at which a source has 1000 bytes for all its messages, and all sources have 2500.
fn small() -> Site {
    Site::new(Limits {
        buffered_bytes: 2500,
        buffered_bytes_per_source: 1000,
        buffered_bytes_per_connection: 0,
        ..Limits::default()
    })
}

#[tokio::test(start_paused = true)]
async fn threat_129_messages_that_are_worked_on_count_for_their_source() {
    let site = small();
    let (mut one, mut two) = (
        opened_at(&site, "192.0.2.1").await,
        opened_at(&site, "192.0.2.1").await,
    );
    one.send(request_of("a", 500)).await.unwrap();
    // While it comes its frame counts too.
    two.send(request_of("b", 492)).await.unwrap();
    settle().await;
    assert_eq!(site.budget.used(), 992);
    two.send(request_of("c", 100)).await.unwrap();
    assert_eq!(closed(&mut two).await, 4503);
    drop(two);
    settle().await;
    assert_eq!(site.budget.used(), 500);
    // At the limit.
    let mut two = opened_at(&site, "192.0.2.1").await;
    two.send(request_of("b", 400)).await.unwrap();
    two.send(request("c", "echo")).await.unwrap();
    let answer = two.next().await.unwrap().unwrap().into_text().unwrap();
    assert!(answer.contains(r#""request_id":"c""#), "{answer}");
}

/// The read buffer of a connection is as large as its largest request, and counts as long as it is.
#[tokio::test(start_paused = true)]
async fn threat_129_a_large_request_counts_until_the_next_message() {
    let site = Site::new(Limits::default());
    let mut socket = opened_at(&site, "192.0.2.1").await;
    let large = padded(
        r#"{"type":"request","request_id":"r","do":"echo","x":""#,
        500_000,
    );
    for (request, counted) in [(Message::text(large), 500_000), (request("r", "echo"), 0)] {
        socket.send(request).await.unwrap();
        socket.next().await.unwrap().unwrap();
        settle().await;
        assert_eq!(site.budget.used(), counted);
    }
}

#[tokio::test(start_paused = true)]
async fn threat_129_parts_of_messages_count_as_they_come() {
    let site = small();
    let part = |bytes| Frame::message(vec![b'7'; bytes], OpCode::Data(Data::Text), false);
    let mut sockets = Vec::new();
    for source in ["192.0.2.1", "192.0.2.2"] {
        let mut socket = opened_at(&site, source).await;
        socket.send(Message::Frame(part(900))).await.unwrap();
        sockets.push(socket);
    }
    settle().await;
    assert!((1800..2000).contains(&site.budget.used()));
    let mut same = opened_at(&site, "192.0.2.1").await;
    same.send(Message::Frame(part(100))).await.unwrap();
    assert_eq!(closed(&mut same).await, 4503, "of its source");
    let mut other = opened_at(&site, "192.0.2.3").await;
    other.send(Message::Frame(part(700))).await.unwrap();
    assert_eq!(closed(&mut other).await, 4503, "of all");
    drop((sockets, same, other));
    settle().await;
    assert_eq!(site.budget.used(), 0);
}

/// Control frames between the parts are no parts.
#[tokio::test(start_paused = true)]
async fn control_frames_do_not_count() {
    let site = small();
    let mut socket = opened_at(&site, "192.0.2.1").await;
    let begin = Frame::message(&b"{\"type\":"[..], OpCode::Data(Data::Text), false);
    socket.send(Message::Frame(begin)).await.unwrap();
    for _ in 0..50 {
        socket
            .send(Message::Ping(vec![7; 125].into()))
            .await
            .unwrap();
        assert!(socket.next().await.unwrap().unwrap().is_pong());
    }
    assert!(site.budget.used() < 100);
    let end = Frame::message(&b"\"hello\"}"[..], OpCode::Data(Data::Continue), true);
    socket.send(Message::Frame(end)).await.unwrap();
    let answer = socket.next().await.unwrap().unwrap().into_text().unwrap();
    assert_eq!(answer.as_str(), r#"{"type":"hello"}"#);
}

#[tokio::test(start_paused = true)]
async fn threat_129_a_message_that_is_never_whole_ends_the_socket() {
    let mut socket = opened().await;
    let begin = Frame::message(&b"{"[..], OpCode::Data(Data::Text), false);
    socket.send(Message::Frame(begin)).await.unwrap();
    let began = Instant::now();
    assert_eq!(closed(&mut socket).await, 1008);
    assert!(began.elapsed() <= Limits::default().body_time);
}

/// While a handshake takes its time few messages of others are read.
#[tokio::test(start_paused = true)]
async fn threat_129_few_handshake_messages_wait() {
    let site = Site::new(Limits {
        buffered_bytes_per_connection: 0,
        ..Limits::default()
    });
    let limits = &site.limits;
    let (sink, _stream) = opened_at(&site, "192.0.2.1").await.split();
    let mut sink = sink;
    tokio::spawn(async move {
        loop {
            let text = padded(r#"{"type":"hang","x":""#, 100_000);
            if sink.send(Message::text(text)).await.is_err() {
                return;
            }
        }
    });
    pass(1).await;
    // One is worked on, some wait, and of the next nothing is read.
    let most = 100_000 * (limits.websocket_handshakes + 1);
    assert_eq!(site.budget.used(), most);
}

/// Others that have used up everything keep nobody from a handshake and small requests.
#[tokio::test(start_paused = true)]
async fn threat_129_a_connection_has_room_for_a_handshake_of_its_own() {
    let site = Site::new(Limits {
        buffered_bytes: 400_100,
        buffered_bytes_per_source: 200_050,
        ..Limits::default()
    });
    let mut flood = Vec::new();
    for source in ["192.0.2.1", "192.0.2.2"] {
        let mut socket = opened_at(&site, source).await;
        socket.send(request_of("a", 200_000)).await.unwrap();
        flood.push(socket);
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(site.budget.used(), 400_000);
    let mut late = opened_at(&site, "192.0.2.3").await;
    late.send(request_of("a", 200_000)).await.unwrap();
    assert_eq!(closed(&mut late).await, 4503);
    for source in ["192.0.2.1", "192.0.2.3"] {
        let mut socket = opened_at(&site, source).await;
        let hello = padded(r#"{"type":"hello","x":""#, 100_000);
        for message in [Message::text(hello), request("r", "echo")] {
            socket.send(message.clone()).await.unwrap();
            assert_eq!(socket.next().await.unwrap().unwrap(), message);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn threat_129_the_33rd_request_in_flight_is_refused_and_the_others_go_on() {
    let mut socket = opened().await;
    for number in 0..33 {
        socket
            .send(request(&format!("r{number}"), "hang"))
            .await
            .unwrap();
    }
    let refusal = socket.next().await.unwrap().unwrap().into_text().unwrap();
    assert!(
        refusal.contains(r#""error_code":"RATE_LIMIT_EXCEEDED""#),
        "{refusal}"
    );
    assert!(refusal.contains(r#""request_id":"r32""#), "{refusal}");
    // A handshake has a place of its own.
    socket
        .send(Message::text(r#"{"type":"hello"}"#))
        .await
        .unwrap();
    let answer = socket.next().await.unwrap().unwrap().into_text().unwrap();
    assert_eq!(answer.as_str(), r#"{"type":"hello"}"#);
}

#[tokio::test(start_paused = true)]
async fn answers_overtake_each_other() {
    let mut socket = opened().await;
    socket.send(request("slow", "hang")).await.unwrap();
    socket.send(request("fast", "echo")).await.unwrap();
    let answer = socket.next().await.unwrap().unwrap().into_text().unwrap();
    assert!(answer.contains("fast"), "{answer}");
}

/// Messages of handshakes are answered in their order, however long one takes; requests do not wait for them.
#[tokio::test(start_paused = true)]
async fn handshakes_keep_their_order_and_nobody_waits_for_them() {
    let mut socket = opened().await;
    for text in [r#"{"type":"slowly"}"#, r#"{"type":"hello"}"#] {
        socket.send(Message::text(text)).await.unwrap();
    }
    socket.send(request("a", "echo")).await.unwrap();
    let mut answers = Vec::new();
    while answers.len() < 3 {
        let answer = socket.next().await.unwrap().unwrap().into_text().unwrap();
        answers.push(answer.as_str().to_owned());
    }
    assert!(answers[0].contains(r#""request_id":"a""#), "{answers:?}");
    assert!(answers[1].contains("slowly"), "{answers:?}");
    assert!(answers[2].contains("hello"), "{answers:?}");
}

/// A refusal that names no request is taken for the answer to the first message that has none, so it waits for that.
#[tokio::test(start_paused = true)]
async fn a_refusal_that_names_nothing_waits_for_its_turn() {
    let mut socket = opened().await;
    socket
        .send(Message::text(r#"{"type":"slowly"}"#))
        .await
        .unwrap();
    socket.send(request("a", "wait")).await.unwrap();
    socket.send(request("b", "nope")).await.unwrap();
    for expected in ["slowly", "RATE_LIMIT_EXCEEDED", "INVALID_MESSAGE"] {
        let answer = socket.next().await.unwrap().unwrap().into_text().unwrap();
        assert!(answer.contains(expected), "{answer}");
    }
    // What cannot be read ends the connection, as in a handshake; what came too soon did not.
    let last = socket.next().await.unwrap().unwrap();
    assert!(matches!(last, Message::Close(Some(frame)) if u16::from(frame.code) == 4400));
}

/// What was answered leaves, also if the peer says nothing more.
#[tokio::test(start_paused = true)]
async fn who_stops_sending_gets_all_answers() {
    let mut socket = opened().await;
    for number in 0..20 {
        let request = request(&format!("r{number}"), "echo");
        socket.feed(request).await.unwrap();
    }
    socket.flush().await.unwrap();
    socket.get_mut().shutdown().await.unwrap();
    for number in 0..20 {
        let answer = socket.next().await.unwrap().unwrap().into_text().unwrap();
        assert!(answer.contains(&format!(r#""r{number}""#)), "{answer}");
    }
}

#[tokio::test(start_paused = true)]
async fn threat_129_who_answers_no_ping_is_left_after_ninety_seconds() {
    let mut stream = connect(Carrier::Http1);
    let upgrade = "GET /a2a/ws HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
         Sec-WebSocket-Protocol: a2a.v1\r\n\r\n";
    send(&mut stream, upgrade).await;
    let (text, seconds) = until_closed(&mut stream).await;
    assert!(text.starts_with("HTTP/1.1 101"), "{text}");
    assert!((90..=91).contains(&seconds), "{seconds}");
    // Who does answer stays, idle as it may be.
    let mut socket = opened().await;
    let waiting = tokio::time::timeout(Duration::from_secs(600), async {
        while let Some(Ok(Message::Ping(_))) = socket.next().await {}
    });
    assert!(waiting.await.is_err(), "it was closed");
}

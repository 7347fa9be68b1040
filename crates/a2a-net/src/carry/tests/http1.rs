use super::*;

const HEAD: &str =
    "POST /a2a/request HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";

/// One answer, as far as it is known to be: its head and a body of two bytes.
async fn answer(stream: &mut DuplexStream) -> String {
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n{}") {
        answer.push(stream.read_u8().await.unwrap());
    }
    String::from_utf8(answer).unwrap()
}

#[tokio::test(start_paused = true)]
async fn threat_124_slow_heads_are_given_up_after_ten_seconds() {
    let mut stream = connect(Carrier::Http1);
    send(&mut stream, "POST /a2a/request HTTP/1.1\r\nHo").await;
    let (text, seconds) = until_closed(&mut stream).await;
    assert_eq!(text, "");
    assert!((10..=11).contains(&seconds), "{seconds}");
}

#[tokio::test(start_paused = true)]
async fn threat_124_a_head_byte_by_byte_gains_no_time() {
    let mut stream = connect(Carrier::Http1);
    for letter in ["P", "O", "S", "T", " ", "/", "a", "2", "a"] {
        send(&mut stream, letter).await;
        pass(1).await;
    }
    let (_, seconds) = until_closed(&mut stream).await;
    assert!((1..=2).contains(&seconds), "{seconds}");
}

#[tokio::test(start_paused = true)]
async fn threat_124_slow_bodies_are_given_up() {
    // Nothing of it comes.
    let mut stream = connect(Carrier::Http1);
    send(&mut stream, &format!("{HEAD}Content-Length: 100\r\n\r\n{{")).await;
    let (text, seconds) = until_closed(&mut stream).await;
    assert!(text.starts_with("HTTP/1.1 408"), "{text}");
    assert_eq!(seconds, 2);
    // As much as must come does, but it takes too long as a whole.
    let mut stream = connect(Carrier::Http1);
    send(
        &mut stream,
        &format!("{HEAD}Content-Length: 100000\r\n\r\n"),
    )
    .await;
    for _ in 0..15 {
        send(&mut stream, &"7".repeat(1024)).await;
        pass(1).await;
    }
    let (text, seconds) = until_closed(&mut stream).await;
    assert!(text.starts_with("HTTP/1.1 408"), "{text}");
    assert_eq!(seconds, 0);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_is_just_fast_enough_is_read() {
    let mut stream = connect(Carrier::Http1);
    send(&mut stream, &format!("{HEAD}Content-Length: 10242\r\n\r\n")).await;
    for _ in 0..10 {
        pass(1).await;
        send(&mut stream, &" ".repeat(1024)).await;
    }
    send(&mut stream, "{}").await;
    let mut first = [0; 12];
    stream.read_exact(&mut first).await.unwrap();
    assert_eq!(&first, b"HTTP/1.1 200");
}

#[tokio::test(start_paused = true)]
async fn threat_124_idle_connections_are_closed_after_a_minute() {
    let mut stream = connect(Carrier::Http1);
    let (text, seconds) = until_closed(&mut stream).await;
    assert_eq!((text.as_str(), seconds), ("", 60));
    // A minute from the last request, and not from the first.
    let mut stream = connect(Carrier::Http1);
    for _ in 0..3 {
        pass(50).await;
        send(&mut stream, &format!("{HEAD}Content-Length: 2\r\n\r\n{{}}")).await;
        assert!(answer(&mut stream).await.starts_with("HTTP/1.1 200"));
    }
    let (text, seconds) = until_closed(&mut stream).await;
    assert_eq!(text, "");
    assert!((60..=61).contains(&seconds), "{seconds}");
}

#[tokio::test(start_paused = true)]
async fn a_request_may_take_longer_than_a_connection_may_be_idle() {
    let mut stream = connect(Carrier::Http1);
    send(&mut stream, &format!("{HEAD}Content-Length: 4\r\n\r\nhang")).await;
    let mut byte = [0];
    let waiting = tokio::time::timeout(Duration::from_secs(600), stream.read(&mut byte));
    assert!(waiting.await.is_err(), "it was closed");
}

#[tokio::test(start_paused = true)]
async fn threat_126_what_can_be_read_in_two_ways_is_refused_and_the_last() {
    let both = "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n";
    let behind = "POST /a2a/request HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}";
    for bad in [
        format!("{HEAD}{both}\r\n2\r\n{{}}\r\n0\r\n\r\n{behind}"),
        format!("{HEAD}Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n0\r\n\r\n{behind}"),
        format!("{HEAD}Content-Length: 2\r\nContent-Length: 2\r\n\r\n{{}}{behind}"),
        format!("{HEAD}Content-Length: 2\r\nContent-Length: 3\r\n\r\n{{}}{behind}"),
        format!("{HEAD}X-Odd: 1\nContent-Length: 2\r\n\r\n{{}}{behind}"),
        format!("{HEAD}Content-Length: 2\r\n\n{{}}{behind}"),
        format!("{HEAD}Content-Length: 2\r\n X-Folded: 1\r\n\r\n{{}}{behind}"),
        format!("{HEAD}Content-Length : 2\r\n\r\n{{}}{behind}"),
        format!("{HEAD}Content-Length: +2\r\n\r\n{{}}{behind}"),
    ] {
        let mut stream = connect(Carrier::Http1);
        send(&mut stream, &bad).await;
        let (text, seconds) = until_closed(&mut stream).await;
        assert!(text.starts_with("HTTP/1.1 400"), "{bad:?}: {text}");
        assert_eq!(text.matches("HTTP/1.1").count(), 1, "{bad:?}: {text}");
        assert_eq!(seconds, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_in_chunks_is_read_and_is_the_last() {
    let mut stream = connect(Carrier::Http1);
    let chunks = "Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n1\r\n}\r\n0\r\n\r\n";
    send(&mut stream, &format!("{HEAD}{chunks}")).await;
    let (text, seconds) = until_closed(&mut stream).await;
    assert!(
        text.starts_with("HTTP/1.1 200") && text.ends_with("\r\n\r\n{}"),
        "{text}"
    );
    assert_eq!(seconds, 0);
}

#[tokio::test(start_paused = true)]
async fn threat_63_too_large_is_refused_before_it_is_read_and_while_it_streams_in() {
    let limit = REQUEST_BYTES;
    // Nothing but the head is sent.
    let mut stream = connect(Carrier::Http1);
    send(
        &mut stream,
        &format!("{HEAD}Content-Length: {}\r\n\r\n", limit + 1),
    )
    .await;
    let (text, seconds) = until_closed(&mut stream).await;
    assert!(text.starts_with("HTTP/1.1 413"), "{text}");
    assert!(
        text.contains(r#""error_code":"PAYLOAD_TOO_LARGE""#),
        "{text}"
    );
    assert_eq!(seconds, 0);
    // Chunks that cross the limit, from a peer that would go on for ever.
    let mut stream = connect(Carrier::Http1);
    send(
        &mut stream,
        &format!("{HEAD}Transfer-Encoding: chunked\r\n\r\n"),
    )
    .await;
    let chunk = format!("10000\r\n{}\r\n", "7".repeat(0x10000));
    let (mut read, mut write) = tokio::io::split(stream);
    let flood =
        tokio::spawn(async move { while write.write_all(chunk.as_bytes()).await.is_ok() {} });
    let mut first = [0; 12];
    read.read_exact(&mut first).await.unwrap();
    assert_eq!(&first, b"HTTP/1.1 413");
    drop(read);
    flood.await.unwrap();
    // At the limit it is read.
    let mut stream = connect(Carrier::Http1);
    send(
        &mut stream,
        &format!("{HEAD}Content-Length: {limit}\r\n\r\n"),
    )
    .await;
    let (mut read, mut write) = tokio::io::split(stream);
    let body = tokio::spawn(async move { write.write_all(&vec![b'7'; limit]).await });
    read.read_exact(&mut first).await.unwrap();
    assert_eq!(&first, b"HTTP/1.1 200");
    body.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_head_has_sixteen_kibibytes_and_no_more() {
    let with = |length: usize| {
        let head = format!("{HEAD}Content-Length: 2\r\nX-Long: ");
        let room = length - head.len() - 4;
        format!("{head}{}\r\n\r\n{{}}", "7".repeat(room))
    };
    let mut stream = connect(Carrier::Http1);
    send(&mut stream, &with(16 * 1024)).await;
    assert!(answer(&mut stream).await.starts_with("HTTP/1.1 200"));
    let mut stream = connect(Carrier::Http1);
    send(&mut stream, &with(16 * 1024 + 1)).await;
    let (text, _) = until_closed(&mut stream).await;
    assert!(text.starts_with("HTTP/1.1 431"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn threat_127_browsers_get_nothing() {
    let length = "Content-Length: 2\r\n\r\n{}";
    for (request, status) in [
        ("GET /a2a/request HTTP/1.1\r\n\r\n".into(), "405"),
        (
            "OPTIONS /a2a/handshake HTTP/1.1\r\nOrigin: https://a.example\r\n\r\n".into(),
            "405",
        ),
        (
            format!("PUT /a2a/handshake HTTP/1.1\r\nContent-Type: application/json\r\n{length}"),
            "405",
        ),
        (
            format!("POST /a2a/request HTTP/1.1\r\nContent-Type: text/plain\r\n{length}"),
            "415",
        ),
        (
            format!(
                "POST /a2a/request HTTP/1.1\r\nContent-Type: text/plain; application/json\r\n{length}"
            ),
            "415",
        ),
        (
            format!(
                "POST /a2a/request HTTP/1.1\r\nContent-Type: application/x-www-form-urlencoded\r\n{length}"
            ),
            "415",
        ),
        (format!("POST /a2a/request HTTP/1.1\r\n{length}"), "415"),
        (format!("{HEAD}Content-Type: text/plain\r\n{length}"), "415"),
        (format!("{HEAD}Content-Encoding: gzip\r\n{length}"), "415"),
        (
            format!("{HEAD}X-Session-ID: a\r\nX-Session-ID: a\r\n{length}"),
            "400",
        ),
        ("GET /anything HTTP/1.1\r\n\r\n".into(), "404"),
        (
            "POST /.well-known/did.json HTTP/1.1\r\nContent-Length: 0\r\n\r\n".into(),
            "405",
        ),
    ] {
        let mut stream = connect(Carrier::Http1);
        send(&mut stream, &request).await;
        let (text, _) = until_closed(&mut stream).await;
        assert!(
            text.starts_with(&format!("HTTP/1.1 {status}")),
            "{request}: {text}"
        );
        assert!(text.contains("cache-control: no-store"), "{text}");
        assert!(text.contains(r#""type":"error""#), "{text}");
        assert!(!text.to_lowercase().contains("access-control"), "{text}");
    }
}

/// Threat 63: a message counts until it is answered.
#[tokio::test(start_paused = true)]
async fn threat_63_messages_that_are_worked_on_count_for_their_source() {
    let site = Site::new(Limits {
        buffered_bytes_per_source: 1000,
        buffered_bytes_per_connection: 0,
        ..Limits::default()
    });
    let post = |word: &str, bytes: usize| {
        let body = format!("{word}{}", "7".repeat(bytes - word.len()));
        format!(
            "POST /a2a/request HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
             Content-Length: {bytes}\r\nConnection: close\r\n\r\n{body}"
        )
    };
    let mut first = site.connect(Carrier::Http1, "192.0.2.1");
    send(&mut first, &post("hang", 600)).await;
    settle().await;
    assert_eq!(site.budget.used(), 600);
    for (bytes, status) in [(400, "200"), (401, "503")] {
        let mut second = site.connect(Carrier::Http1, "192.0.2.1");
        send(&mut second, &post("echo", bytes)).await;
        let (answer, _) = until_closed(&mut second).await;
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status}")),
            "{answer}"
        );
    }
    drop(first);
    settle().await;
    assert_eq!(site.budget.used(), 0);
}

/// Sends a head that is refused, and reads the response up to the end of our peer's side.
async fn refused(site: &Site) -> DuplexStream {
    let mut stream = site.connect(Carrier::Http1, "192.0.2.1");
    let length = REQUEST_BYTES + 1;
    send(
        &mut stream,
        &format!("{HEAD}Content-Length: {length}\r\n\r\n"),
    )
    .await;
    let (text, seconds) = until_closed(&mut stream).await;
    assert!(text.starts_with("HTTP/1.1 413"), "{text}");
    assert_eq!(seconds, 0);
    stream
}

/// The server reads on after a refusal, as long as its peer writes.
#[tokio::test(start_paused = true)]
async fn a_peer_that_writes_slowly_is_read_for_ten_seconds_after_its_refusal() {
    let mut stream = refused(&Site::new(Limits::default())).await;
    let began = Instant::now();
    while stream.write_all(b"7").await.is_ok() {
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    let seconds = began.elapsed().as_secs();
    assert!((10..=11).contains(&seconds), "{seconds}");
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_writes_nothing_is_left_a_second_after_its_refusal() {
    let mut stream = refused(&Site::new(Limits::default())).await;
    let began = Instant::now();
    tokio::time::sleep(Duration::from_millis(900)).await;
    stream.write_all(b"7").await.unwrap();
    tokio::time::sleep(Duration::from_millis(1100)).await;
    stream.write_all(b"7").await.unwrap_err();
    assert_eq!(began.elapsed().as_secs(), 2);
}

#[tokio::test(start_paused = true)]
async fn threat_63_bytes_after_a_refusal_are_read_up_to_a_limit() {
    let discard = DiscardLimits {
        bytes: 512 * 1024,
        ..DiscardLimits::default()
    };
    let body = vec![b'7'; discard.bytes];
    let limits = Limits {
        discard,
        ..Limits::default()
    };
    let mut stream = refused(&Site::new(limits)).await;
    stream.write_all(&body).await.unwrap();
    settle().await;
    stream.write_all(b"7").await.unwrap_err();
}

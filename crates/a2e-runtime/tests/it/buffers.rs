//! Bytes that wait in the sessions of an agent, and of all: sessions are paused, and then end.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use a2e_runtime::definitions::Definitions;
use a2e_runtime::{
    ConfigurationCounters, Host, HostBuilder, Limits, Mount, Secret, Source, TokenStore, serve_tcp,
};
use serde_json::{Value, json};
use store::{Memory, Store};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream};
use tokio::net::TcpListener;

use crate::support::{TOKEN, Transport, Wire, demo, handshake};

/// What a call is answered with.
const RESPONSE: &str = "tool/call/resp";

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

/// More than any session may be paused for.
const PAUSE: Duration = Duration::from_secs(11);

/// A connection that is read only when a test reads it.
struct Unread(BufReader<DuplexStream>);

impl Unread {
    async fn begin(host: &Host, token: &str) -> Self {
        let (ours, theirs) = tokio::io::duplex(KIB);
        let host = host.clone();
        tokio::spawn(async move { host.serve(theirs, Source::Own).await });
        let mut begun = Self(BufReader::new(ours));
        let mut hello = handshake();
        hello["auth_token"] = token.into();
        begun.say(&hello).await;
        assert_eq!(begun.hear().await.unwrap()["ok"], true);
        begun
    }

    /// Sends a message, or as much of it as is read before the session ends.
    async fn say(&mut self, message: &Value) {
        let line = format!("{message}\n");
        let _ = self.0.get_mut().write_all(line.as_bytes()).await;
    }

    /// Asks for a response of this size.
    async fn ask_for(&mut self, bytes: usize) {
        self.say(&echo(bytes)).await;
    }

    /// Asks for more and more until nothing has been read for so long.
    async fn ask_until(&mut self, wait: Duration) {
        let asks = async {
            loop {
                self.ask_for(100 * KIB).await;
            }
        };
        let _ = tokio::time::timeout(wait, asks).await;
    }

    /// The next message; nothing at the end.
    async fn hear(&mut self) -> Option<Value> {
        let mut line = String::new();
        let size = self.0.read_line(&mut line).await.unwrap();
        (size > 0).then(|| serde_json::from_str(&line).unwrap())
    }

    /// All that comes until the end.
    async fn hear_all(mut self) -> Vec<Value> {
        let mut all = Vec::new();
        while let Some(message) = self.hear().await {
            all.push(message);
        }
        all
    }
}

/// A call of a tool.
fn call(tool: &str, arguments: &Value) -> Value {
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    let id = CALLS.fetch_add(1, Ordering::Relaxed).to_string();
    json!({"type": "tool/call/req", "id": id, "tool_name": tool, "arguments": arguments,
        "streaming": true})
}

/// A call with a response of this size.
fn echo(bytes: usize) -> Value {
    call("echo", &json!({"text": "x".repeat(bytes)}))
}

/// A call that takes so many bytes, as a line and as it is read, and is not answered.
fn unanswered(bytes: usize) -> Value {
    call(
        "wait",
        &json!({"seconds": 3600, "text": "x".repeat(bytes / 2)}),
    )
}

/// A host whose sessions may have so many bytes waiting, and the token of a second agent.
fn host(total: usize, per_agent: usize) -> (HostBuilder, String) {
    let tokens = TokenStore::in_memory(&Secret::new(TOKEN)).unwrap();
    let other = tokens.create("other", "").unwrap();
    let host = demo().authenticator(tokens).max_buffered(total, per_agent);
    (host, other.token.reveal().to_owned())
}

/// Limits of sessions that keep nothing for a peer that comes back.
fn keeping_nothing() -> Limits {
    Limits {
        max_replay: 0,
        ..Limits::default()
    }
}

/// Waits until so many bytes wait.
async fn buffered(host: &Host, is_reached: impl Fn(usize) -> bool) {
    while !is_reached(host.buffered_bytes()) {
        tokio::task::yield_now().await;
    }
}

/// From three quarters of its bytes on an agent's session reads nothing more. Once it has read what
/// waits it goes on where it was, and nothing is lost.
#[tokio::test(start_paused = true)]
async fn a_session_at_three_quarters_is_paused_until_it_reads() {
    let (host, other) = host(64 * MIB, MIB);
    let host = host.build();
    let mut unread = Unread::begin(&host, TOKEN).await;
    unread.ask_until(Duration::from_secs(5)).await;
    let waiting = host.buffered_bytes();
    assert!((768 * KIB..MIB).contains(&waiting), "{waiting}");
    let mut honest = Unread::begin(&host, &other).await;
    honest.ask_for(100 * KIB).await;
    assert_eq!(honest.hear().await.unwrap()["type"], RESPONSE);
    let mut responses = 0;
    while let Ok(message) = tokio::time::timeout(Duration::from_secs(1), unread.hear()).await {
        assert_eq!(message.unwrap()["type"], RESPONSE);
        responses += 1;
    }
    assert!((6..=8).contains(&responses), "{responses}");
    // The request that was under way ends here. It is read, and is none.
    unread.say(&json!("end")).await;
    assert_eq!(unread.hear().await.unwrap()["type"], "error");
}

/// One that reads nothing while it is paused ends, and is told why.
#[tokio::test(start_paused = true)]
async fn a_paused_session_that_is_not_read_ends() {
    let (host, other) = host(64 * MIB, MIB);
    let host = host.build();
    let mut unread = Unread::begin(&host, TOKEN).await;
    unread.ask_until(PAUSE).await;
    let all = unread.hear_all().await;
    let last = all.last().unwrap();
    assert_eq!(last["detail"]["reason"], "memory_limit", "{}", last["type"]);
    let text = last["message"].as_str().unwrap();
    assert!(
        text.contains("global_limits.max_buffered_per_agent"),
        "{text}"
    );
    buffered(&host, |bytes| bytes == 0).await;
    let mut again = Unread::begin(&host, TOKEN).await;
    again.ask_for(10).await;
    assert_eq!(again.hear().await.unwrap()["type"], RESPONSE);
    drop(other);
}

#[tokio::test(start_paused = true)]
async fn the_heaviest_session_past_the_limit_ends() {
    assert_heaviest_ends(echo).await;
}

#[tokio::test(start_paused = true)]
async fn the_session_with_the_heaviest_running_requests_past_the_limit_ends() {
    assert_heaviest_ends(unanswered).await;
}

/// At the limit of an agent all its sessions go on. Past it the heaviest ends at once; the others, and
/// other agents, go on.
async fn assert_heaviest_ends(call: impl Fn(usize) -> Value) {
    let (host, other) = host(64 * MIB, MIB);
    let host = host.limits(keeping_nothing()).build();
    let mut honest = Unread::begin(&host, &other).await;
    let mut heavy = Unread::begin(&host, TOKEN).await;
    heavy.say(&call(45 * KIB)).await;
    buffered(&host, |bytes| bytes == 48 * KIB).await;
    let mut others = Vec::new();
    // Few enough that none of them is paused.
    for count in 1..=31 {
        assert_eq!(host.sessions(), count + 1);
        let mut light = Unread::begin(&host, TOKEN).await;
        light.say(&call(30 * KIB)).await;
        let expected = match count {
            31 => 31 * 32 * KIB,
            _ => (48 + count * 32) * KIB,
        };
        buffered(&host, |bytes| bytes == expected).await;
        others.push(light);
    }
    let all = heavy.hear_all().await;
    assert_eq!(all.last().unwrap()["detail"]["reason"], "memory_limit");
    honest.ask_for(100 * KIB).await;
    assert_eq!(honest.hear().await.unwrap()["type"], RESPONSE);
    for session in &mut others {
        session.say(&json!({"type": "ping", "id": "p"})).await;
        let mut heard = session.hear().await.unwrap();
        if heard["type"] == RESPONSE {
            heard = session.hear().await.unwrap();
        }
        assert_eq!(heard["type"], "pong");
    }
}

/// What a remote host has sent for an agent that does not read counts up to three quarters of the agent's
/// bytes; then nothing more is read from that host. Nothing is lost.
#[tokio::test]
async fn events_of_remote_hosts_count_for_their_agent() {
    const CALLS: usize = 4;
    const EVENTS: usize = 1000;
    const SOFT: usize = 300 * KIB;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("tcp:{}", listener.local_addr().unwrap());
    tokio::spawn(serve_tcp(demo().build(), listener, None));
    let store = Store::new(Memory::new(store::Limits::default()));
    let mount = Mount {
        name: "remote".into(),
        priority: 5,
        exclusive: true,
        address: address.parse().unwrap(),
        token: Some(Secret::new(TOKEN)),
        capabilities: vec!["tools".into()],
        serves: None,
        max_children: 1,
        definitions: Definitions::new(&store).unwrap(),
        configurations: ConfigurationCounters::default(),
    };
    let (host, other) = host(64 * MIB, SOFT / 3 * 4);
    // So few that the session itself is never paused.
    let limits = Limits {
        max_outbound: 16 * KIB,
        ..keeping_nothing()
    };
    let mounted = mount.plugins().await.unwrap();
    let host = mounted
        .into_iter()
        .fold(host.limits(limits), HostBuilder::plugin);
    let host = host.build();
    let mut unread = Unread::begin(&host, TOKEN).await;
    for _ in 0..CALLS {
        unread.say(&call("stream", &json!({"count": EVENTS}))).await;
    }
    buffered(&host, |bytes| {
        assert!(bytes < SOFT + 128 * KIB, "{bytes}");
        bytes > SOFT - 16 * KIB
    })
    .await;
    let mut honest = Unread::begin(&host, &other).await;
    honest.ask_for(KIB).await;
    assert_eq!(honest.hear().await.unwrap()["type"], RESPONSE);
    let (mut events, mut responses) = (0, 0);
    while responses < CALLS {
        match unread.hear().await.unwrap()["type"].as_str() {
            Some("tool/event") => events += 1,
            Some(RESPONSE) => responses += 1,
            other => panic!("{other:?}"),
        }
        assert!(host.buffered_bytes() < SOFT + 128 * KIB);
    }
    assert_eq!(events, CALLS * EVENTS);
    buffered(&host, |bytes| bytes == 0).await;
}

/// When all agents together have too much, the heaviest agent gives way, whoever comes last.
#[tokio::test(start_paused = true)]
async fn the_heaviest_agent_gives_way_when_all_have_too_much() {
    let (host, other) = host(MIB, MIB);
    let host = host.max_buffered(1200 * KIB, MIB).build();
    let mut heavy = Unread::begin(&host, &other).await;
    heavy.ask_for(700 * KIB).await;
    buffered(&host, |bytes| bytes > 600 * KIB).await;
    let mut honest = Unread::begin(&host, TOKEN).await;
    honest.ask_for(600 * KIB).await;
    let all = heavy.hear_all().await;
    assert_eq!(all.last().unwrap()["detail"]["reason"], "memory_limit");
    assert_eq!(honest.hear().await.unwrap()["type"], RESPONSE);
}

/// What connections have sent before their handshake, from however many sources, neither pauses nor ends
/// the session of an agent.
#[tokio::test(start_paused = true)]
async fn connections_without_a_handshake_take_nothing_from_agents() {
    let (host, other) = host(1600 * KIB, MIB);
    let host = host.build();
    let mut honest = Unread::begin(&host, &other).await;
    honest.ask_for(600 * KIB).await;
    buffered(&host, |bytes| bytes > 550 * KIB).await;
    let mut silent = Vec::new();
    for number in 0..32_u8 {
        let (mut ours, theirs) = tokio::io::duplex(KIB);
        let (host, source) = (host.clone(), [192, 0, 2, number].into());
        tokio::spawn(async move { host.serve(theirs, Source::Address(source)).await });
        // One that has to give way is cut off.
        let _ = ours.write_all(&[b' '; 60 * KIB]).await;
        silent.push(ours);
    }
    assert!(host.buffered_bytes() < 800 * KIB);
    assert_eq!(honest.hear().await.unwrap()["type"], RESPONSE);
    honest.say(&json!({"type": "ping", "id": "p"})).await;
    assert_eq!(honest.hear().await.unwrap()["type"], "pong");
}

/// Over every kind of connection what waits is counted while it does, and no longer.
#[tokio::test]
async fn what_waits_is_counted_over_every_connection() {
    for transport in [
        Transport::Tcp,
        Transport::Unix,
        Transport::Http,
        Transport::WebSocket,
    ] {
        let host = demo().limits(keeping_nothing()).build();
        let mut wire = Wire::connected(transport, &host).await;
        let text = "x".repeat(4 * MIB);
        let call = json!({"type": "tool/call/req", "id": "c", "tool_name": "echo", "arguments": {"text": text}});
        wire.say(&call.to_string());
        let reads = async {
            let answer = wire.hear().await.unwrap();
            assert_eq!(answer["type"], RESPONSE, "{transport:?}");
        };
        let counts = buffered(&host, |bytes| bytes > MIB);
        tokio::join!(reads, counts);
        buffered(&host, |bytes| bytes == 0).await;
    }
}

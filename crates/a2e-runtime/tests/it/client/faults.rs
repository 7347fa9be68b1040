//! Links that break, in every place; the calls over them survive.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use a2e_runtime::{CallOptions, Client, ClientError, Connector, Handler, Link, Reconnect};
use a2e_wire::messages::base::Ping;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};

use super::script::{Keeper, Kept, dial, dial_closing};

/// A link that carries so many bytes in each direction and then breaks, or stalls.
struct Faulty {
    stream: DuplexStream,
    to_read: usize,
    to_write: usize,
    stalls: bool,
}

impl Faulty {
    fn limit(&self, left: usize) -> Poll<io::Result<usize>> {
        match (left, self.stalls) {
            (0, true) => Poll::Pending,
            (0, false) => Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())),
            (left, _) => Poll::Ready(Ok(left)),
        }
    }
}

impl AsyncRead for Faulty {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let limit = std::task::ready!(self.limit(self.to_read))?;
        let mut part = buffer.take(limit);
        std::task::ready!(Pin::new(&mut self.stream).poll_read(context, &mut part))?;
        let filled = part.filled().to_vec();
        self.to_read -= filled.len();
        buffer.put_slice(&filled);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Faulty {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let limit = std::task::ready!(self.limit(self.to_write))?;
        let part = &bytes[..bytes.len().min(limit)];
        let written = std::task::ready!(Pin::new(&mut self.stream).poll_write(context, part))?;
        self.to_write -= written;
        Poll::Ready(Ok(written))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// A client whose second connection (the first after the handshake's own) carries only so much.
fn connector(kept: &Kept, buffer: usize, cut: Option<(usize, usize, bool)>) -> Connector {
    let link = move |number, stream| match (number, cut) {
        (0, Some((to_read, to_write, stalls))) => Link::new(Faulty {
            stream,
            to_read,
            to_write,
            stalls,
        }),
        _ => Link::new(stream),
    };
    Connector::new(dial(kept, buffer, link))
}

/// Two calls with events; returns the numbers of the events seen.
async fn two_calls(client: &Client) -> Result<Vec<i64>, ClientError> {
    let seen = Arc::new(Mutex::new(Vec::new()));
    for _ in 0..2 {
        let seen = Arc::clone(&seen);
        let options = CallOptions {
            event_callback: Handler::new(move |event| {
                let a2e_wire::Body::Event(event) = event.body else {
                    panic!()
                };
                seen.lock().unwrap().push(event.seq);
            }),
            ..CallOptions::default()
        };
        client.rpc(Ping::new(), options).await?;
    }
    let seen = seen.lock().unwrap().clone();
    Ok(seen)
}

async fn survives(cut: (usize, usize, bool), buffer: usize) {
    let kept = Kept::default();
    let connected = connector(&kept, buffer, Some(cut)).connect().await;
    let client = match connected {
        Ok(client) => client,
        // The first handshake is not tried again: whoever connects is told.
        Err(ClientError::Io(_) | ClientError::Connect(_)) => return,
        Err(error) => panic!("{error}"),
    };
    let seen = two_calls(&client).await;
    assert_eq!(seen.unwrap(), [0, 0], "{cut:?}");
    let keeper = kept.lock().unwrap();
    assert!(
        keeper.ran.values().all(|times| *times == 1),
        "{cut:?}: {:?}",
        keeper.ran
    );
    assert_eq!(keeper.ran.len(), 2);
}

/// Cut at every byte of a short session, in either direction, with whole and with 1-byte chunks.
#[tokio::test(start_paused = true)]
async fn a_cut_at_every_byte() {
    for buffer in [64 * 1024, 1] {
        for cut in 0..450 {
            survives((usize::MAX, cut, false), buffer).await;
            survives((cut, usize::MAX, false), buffer).await;
        }
    }
}

/// A link that stalls is no broken one: the calls on it time out, and say so.
#[tokio::test(start_paused = true)]
async fn a_stall_times_out() {
    for cut in [120, 200, 300] {
        let kept = Kept::default();
        let stall = Some((cut, usize::MAX, true));
        let Ok(client) = connector(&kept, 1024, stall).connect().await else {
            continue;
        };
        let outcome = two_calls(&client).await;
        assert!(
            matches!(outcome, Err(ClientError::Timeout(_))),
            "{outcome:?}"
        );
    }
}

/// Calls that are made while there is no connection wait for one.
#[tokio::test(start_paused = true)]
async fn many_calls_over_many_breaks() {
    let kept = Kept::default();
    // Each connection carries more than the one before.
    let link = |number: usize, stream| {
        Link::new(Faulty {
            stream,
            to_read: 400 + number * 100,
            to_write: usize::MAX,
            stalls: false,
        })
    };
    let client = Connector::new(dial(&kept, 4096, link))
        .connect()
        .await
        .unwrap();
    let calls: Vec<_> = (0..50)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move { two_calls(&client).await })
        })
        .collect();
    for call in calls {
        assert_eq!(call.await.unwrap().unwrap(), [0, 0]);
    }
    let keeper = kept.lock().unwrap();
    assert!(keeper.connections > 3);
    assert!(keeper.ran.values().all(|times| *times == 1));
}

/// A host that has forgotten the session may have run what it was asked: that is said, not guessed.
#[tokio::test(start_paused = true)]
async fn a_forgotten_session() {
    let kept = Kept::default();
    let link = |number, stream| {
        let to_read = if number == 0 { 100 } else { usize::MAX };
        Link::new(Faulty {
            stream,
            to_read,
            to_write: usize::MAX,
            stalls: false,
        })
    };
    let client = Connector::new(dial(&kept, 4096, link)).connect().await;
    let client = client.unwrap();
    kept.lock().unwrap().forgetful = true;
    let outcome = client.rpc(Ping::new(), CallOptions::default()).await;
    assert!(matches!(outcome, Err(ClientError::Lost)), "{outcome:?}");
    client.ping().await.unwrap();
}

/// A host that cannot resume the session at the moment has not forgotten it: the client comes back, as
/// often as it comes back to one that does not answer.
#[tokio::test(start_paused = true)]
async fn a_host_that_fails_to_resume() {
    for (failures, comes_back) in [(2, true), (3, false)] {
        let kept = Kept::default();
        let link = |number, stream| {
            let to_read = if number == 0 { 100 } else { usize::MAX };
            Link::new(Faulty {
                stream,
                to_read,
                to_write: usize::MAX,
                stalls: false,
            })
        };
        let policy = Reconnect {
            attempts: 3,
            ..Reconnect::default()
        };
        let client = Connector::new(dial(&kept, 4096, link))
            .reconnect(Some(policy))
            .connect()
            .await
            .unwrap();
        kept.lock().unwrap().failures = failures;
        let outcome = client.rpc(Ping::new(), CallOptions::default()).await;
        assert_eq!(outcome.is_ok(), comes_back, "{outcome:?}");
        assert_eq!(kept.lock().unwrap().connections, 1 + 3);
    }
}

/// A host that stays away: attempts end, and so do the calls.
#[tokio::test(start_paused = true)]
async fn a_host_that_stays_away() {
    let first = Mutex::new(Some(Kept::new(Mutex::new(Keeper::default()))));
    let attempts = Arc::new(Mutex::new(0));
    let counted = Arc::clone(&attempts);
    let away = move || -> a2e_runtime::BoxFuture<'static, io::Result<Link>> {
        *counted.lock().unwrap() += 1;
        let Some(kept) = first.lock().unwrap().take() else {
            return Box::pin(async { Err(io::ErrorKind::ConnectionRefused.into()) });
        };
        let once = dial(&kept, 4096, |_, stream| {
            Link::new(Faulty {
                stream,
                to_read: 100,
                to_write: usize::MAX,
                stalls: false,
            })
        });
        once()
    };
    let policy = Reconnect {
        attempts: 3,
        first: Duration::from_secs(1),
        longest: Duration::from_secs(60),
    };
    let client = Connector::new(away)
        .reconnect(Some(policy))
        .connect()
        .await
        .unwrap();
    let start = tokio::time::Instant::now();
    let outcome = client.rpc(Ping::new(), CallOptions::default()).await;
    assert!(matches!(outcome, Err(ClientError::Closed)), "{outcome:?}");
    assert_eq!(*attempts.lock().unwrap(), 1 + 3);
    // 1 + 2 + 4 seconds on the paused clock, up to half of it left out.
    let waited = start.elapsed();
    assert!(waited >= Duration::from_millis(3500) && waited <= Duration::from_secs(8));
    assert!(matches!(client.ping().await, Err(ClientError::Closed)));
}

/// A host that takes sessions and closes them at once counts as one that stays away.
#[tokio::test(start_paused = true)]
async fn a_host_that_closes_every_session() {
    let kept = Kept::default();
    let policy = Reconnect {
        attempts: 3,
        first: Duration::from_secs(1),
        longest: Duration::from_secs(60),
    };
    let client = Connector::new(dial_closing(&kept))
        .reconnect(Some(policy))
        .connect()
        .await
        .unwrap();
    tokio::time::timeout(Duration::from_secs(600), client.closed())
        .await
        .expect("the client gives up");
    assert_eq!(kept.lock().unwrap().connections, 1 + 3);
}

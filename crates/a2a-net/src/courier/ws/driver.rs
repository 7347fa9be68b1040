//! The loop of one WebSocket.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use a2a_wire::ErrorCode;
use bytes::Bytes;
use futures_util::future::join_all;
use futures_util::{SinkExt, StreamExt};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::{Instant, MissedTickBehavior, interval_at, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Error, Message, Utf8Bytes};

use super::super::Reach;
use super::super::http::{PART, QUEUE, too_large};
use super::{Outgoing, State, Waiter};
use crate::carry::peek::{Peek, peek};
use crate::transport::{CarryError, Reply};

/// Time to say goodbye.
const GOODBYE: Duration = Duration::from_secs(1);

struct Driver<T> {
    socket: WebSocketStream<T>,
    reach: Arc<Reach>,
    requests: HashMap<Box<str>, Pending>,
    /// Those who wait for an answer in a handshake, in the order in which they will get it.
    shaking: VecDeque<Waiter>,
    heard: Instant,
    state: Arc<State>,
}

/// What is still to come for a request.
enum Pending {
    Answer(Waiter),
    Stream {
        messages: mpsc::Sender<Result<Bytes, CarryError>>,
        _place: OwnedSemaphorePermit,
    },
}

/// That the socket is over.
struct Over;

/// Drives a socket until it ends, or nobody can send over it and nothing is to come.
pub(super) async fn drive<T: AsyncRead + AsyncWrite + Unpin>(
    socket: WebSocketStream<T>,
    mut queue: mpsc::Receiver<Outgoing>,
    reach: Arc<Reach>,
    state: Arc<State>,
) {
    let mut driver = Driver {
        socket,
        reach,
        requests: HashMap::new(),
        shaking: VecDeque::new(),
        heard: Instant::now(),
        state,
    };
    driver.run(&mut queue).await;
    // What was not taken has not left, and can go another way.
    queue.close();
    while let Ok(outgoing) = queue.try_recv() {
        if let Some(waiter) = outgoing.waiter {
            let unsent = CarryError::Connect("a WebSocket that has ended".into());
            drop(waiter.reply.send(Err(unsent)));
        }
    }
    driver.fail(&CarryError::Broken).await;
}

impl<T: AsyncRead + AsyncWrite + Unpin> Driver<T> {
    async fn run(&mut self, queue: &mut mpsc::Receiver<Outgoing>) {
        let mut ticks = interval_at(Instant::now() + self.reach.ping, self.reach.ping);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut is_left = false;
        loop {
            if is_left && self.is_idle() {
                return self.close(CloseCode::Normal).await;
            }
            let done = tokio::select! {
                biased;
                came = self.socket.next() => self.take(came).await,
                outgoing = queue.recv(), if !is_left => match outgoing {
                    Some(outgoing) => self.send(outgoing, queue).await,
                    None => {
                        is_left = true;
                        Ok(())
                    }
                },
                _ = ticks.tick() => self.tick().await,
            };
            if done.is_err() {
                return;
            }
        }
    }

    /// Whether nobody waits for anything.
    fn is_idle(&self) -> bool {
        let mut requests = self.requests.values();
        let mut shaking = self.shaking.iter();
        requests.all(Pending::is_given_up) && shaking.all(|waiter| waiter.reply.is_closed())
    }

    /// Writes what is there, all of it at once.
    async fn send(
        &mut self,
        first: Outgoing,
        queue: &mut mpsc::Receiver<Outgoing>,
    ) -> Result<(), Over> {
        let mut next = Some(first);
        while let Some(outgoing) = next {
            next = queue.try_recv().ok();
            match (outgoing.id, outgoing.waiter) {
                // Whoever sent it has given it up already.
                (_, Some(waiter)) if waiter.reply.is_closed() => continue,
                (Some(id), Some(waiter)) => {
                    self.requests.insert(id, Pending::Answer(waiter));
                }
                (None, Some(waiter)) => self.shaking.push_back(waiter),
                (_, None) => {}
            }
            self.feed(Message::Text(outgoing.text)).await?;
        }
        self.flush().await
    }

    async fn take(&mut self, came: Option<Result<Message, Error>>) -> Result<(), Over> {
        let (code, error) = match came {
            Some(Ok(Message::Text(text))) => {
                self.heard = Instant::now();
                return self.deliver(text).await;
            }
            Some(Ok(Message::Ping(_))) => {
                self.heard = Instant::now();
                return self.flush().await;
            }
            Some(Ok(Message::Pong(_) | Message::Frame(_))) => {
                self.heard = Instant::now();
                return Ok(());
            }
            Some(Ok(Message::Close(_))) => {
                let _ = self.flush().await;
                return Err(Over);
            }
            Some(Ok(Message::Binary(_))) => {
                let error = CarryError::Foreign("a binary message".into());
                (CloseCode::Unsupported, error)
            }
            Some(Err(Error::Capacity(_))) => (CloseCode::Size, too_large(self.reach.answer_bytes)),
            Some(Err(Error::Utf8(_))) => {
                let error = CarryError::Foreign("a message that is no text".into());
                (CloseCode::Invalid, error)
            }
            None | Some(Err(_)) => return Err(Over),
        };
        self.fail(&error).await;
        self.close(code).await;
        Err(Over)
    }

    /// Gives a message to whom it is for. What nobody asked for is dropped.
    async fn deliver(&mut self, text: Utf8Bytes) -> Result<(), Over> {
        let seen = peek(&text);
        let status = status(&seen);
        let is_chunk = seen.is_chunk() && text.len() <= PART;
        let Some(id) = seen.request_id.map(Box::<str>::from) else {
            let message = text.into();
            return self.deliver_nameless(message, status).await;
        };
        let message = Bytes::from(text);
        match (self.requests.remove(&id), is_chunk) {
            (Some(Pending::Answer(waiter)), false) => {
                answer(waiter, message, status);
            }
            (Some(Pending::Answer(waiter)), true) => {
                let (messages, receiver) = mpsc::channel(QUEUE);
                // Room for one there is.
                let _ = messages.try_send(Ok(message));
                self.state.is_streaming.store(true, Relaxed);
                let _ = waiter.reply.send(Ok(Reply::Stream(receiver)));
                let _place = waiter.place;
                self.requests
                    .insert(id, Pending::Stream { messages, _place });
            }
            (Some(Pending::Stream { messages, _place }), is_chunk) => {
                push(&messages, Ok(message)).await;
                match is_chunk {
                    true => drop(
                        self.requests
                            .insert(id, Pending::Stream { messages, _place }),
                    ),
                    false => self.end_stream(),
                }
            }
            (None, _) => {}
        }
        Ok(())
    }

    /// A message that names no request belongs to the first of the handshakes under way, or else to the only request there is.
    async fn deliver_nameless(&mut self, message: Bytes, status: u16) -> Result<(), Over> {
        let is_error = status != OK;
        if let Some(waiter) = self.shaking.pop_front() {
            // The server ends a connection whose handshake failed, if nobody else uses it: nobody is to send over it now.
            let is_last = is_error && self.requests.is_empty() && self.shaking.is_empty();
            self.state.is_retired.fetch_or(is_last, Relaxed);
            answer(waiter, message, status);
            return match is_last {
                true => {
                    self.close(CloseCode::Normal).await;
                    Err(Over)
                }
                false => Ok(()),
            };
        }
        if !is_error || self.requests.len() != 1 {
            return Ok(());
        }
        let only = std::mem::take(&mut self.requests).into_values().next();
        match only {
            Some(Pending::Answer(waiter)) => answer(waiter, message, status),
            Some(Pending::Stream { messages, _place }) => {
                push(&messages, Ok(message)).await;
            }
            None => {}
        }
        Ok(())
    }

    /// Others may send over it again once no stream comes over it.
    fn end_stream(&self) {
        let mut requests = self.requests.values();
        let is_streaming = requests.any(|pending| matches!(pending, Pending::Stream { .. }));
        self.state.is_streaming.store(is_streaming, Relaxed);
    }

    /// Tells everybody why there will be no answer.
    async fn fail(&mut self, error: &CarryError) {
        let shaking = std::mem::take(&mut self.shaking);
        let shaking = shaking.into_iter().map(Pending::Answer);
        let requests = std::mem::take(&mut self.requests);
        let telling = requests
            .into_values()
            .chain(shaking)
            .map(async |pending| match pending {
                Pending::Answer(waiter) => drop(waiter.reply.send(Err(error.clone()))),
                Pending::Stream { messages, _place } => push(&messages, Err(error.clone())).await,
            });
        // Nobody waits for one who does not read.
        join_all(telling).await;
    }

    async fn tick(&mut self) -> Result<(), Over> {
        if self.heard.elapsed() >= self.reach.websocket_idle {
            self.close(CloseCode::Away).await;
            return Err(Over);
        }
        self.feed(Message::Ping(Bytes::new())).await?;
        self.flush().await
    }

    async fn feed(&mut self, message: Message) -> Result<(), Over> {
        let fed = timeout(self.reach.websocket_idle, self.socket.feed(message)).await;
        fed.map_err(|_| Over)?.map_err(|_| Over)
    }

    async fn flush(&mut self) -> Result<(), Over> {
        let flushed = timeout(self.reach.websocket_idle, self.socket.flush()).await;
        flushed.map_err(|_| Over)?.map_err(|_| Over)
    }

    async fn close(&mut self, code: CloseCode) {
        self.state.is_retired.store(true, Relaxed);
        let frame = CloseFrame {
            code,
            reason: Utf8Bytes::default(),
        };
        let goodbye = async {
            if self.socket.close(Some(frame)).await.is_ok() {
                while let Some(Ok(_)) = self.socket.next().await {}
            }
        };
        // A peer that does not answer is left.
        let _ = timeout(GOODBYE, goodbye).await;
    }
}

impl Pending {
    fn is_given_up(&self) -> bool {
        match self {
            Self::Answer(waiter) => waiter.reply.is_closed(),
            Self::Stream { messages, .. } => messages.is_closed(),
        }
    }
}

const OK: u16 = 200;

/// Hands on a part of a stream, when its reader has room for it. A reader that is gone needs nothing.
async fn push(messages: &mpsc::Sender<Result<Bytes, CarryError>>, item: Result<Bytes, CarryError>) {
    let _ = messages.send(item).await;
}

fn answer(waiter: Waiter, message: Bytes, status: u16) {
    // Free before the answer is seen, so that whoever sees it can send the next.
    drop(waiter.place);
    // Nobody may wait any longer.
    let _ = waiter.reply.send(Ok(Reply::Message {
        message,
        status,
        retry_after: None,
    }));
}

/// The status that HTTP would have said it with.
fn status(seen: &Peek<'_>) -> u16 {
    match seen.kind {
        Some("error") => {
            let code = seen.error_code.map(ErrorCode::from);
            code.and_then(|code| code.http()).unwrap_or(500)
        }
        _ => OK,
    }
}

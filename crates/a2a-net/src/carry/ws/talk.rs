//! The loop of one WebSocket.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval_at, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Error, Message, Utf8Bytes};

use super::super::connection::Visit;
use super::super::peek::peek;
use super::super::refusal::Refusal;
use crate::transport::{Answer, Arrived, Carrier, Place, Service};

/// Answers that wait to be written. More wait where they are made.
const QUEUE: usize = 32;

/// Handshake messages that were read and wait for those before them.
const WAITING: usize = 32;

/// Time to say goodbye.
const GOODBYE: Duration = Duration::from_secs(1);

struct Talk<S, T> {
    socket: WebSocketStream<T>,
    visit: Visit<S>,
    tasks: JoinSet<()>,
    requests: Arc<Semaphore>,
    /// Handshake messages have no id to tell their answers apart, so they are answered in their order.
    shaking: Arc<Semaphore>,
    /// The next of them. While all places are taken nothing is read.
    waiting: VecDeque<Bytes>,
    answers: mpsc::Sender<Out>,
    heard: Instant,
}

/// What is to be written.
enum Out {
    Text(Bytes),
    /// An answer in a handshake; the next is not begun before it is written.
    Shaken(Bytes, OwnedSemaphorePermit),
    /// An error that ends the connection, unless others still use it.
    Fatal(Bytes, u16, OwnedSemaphorePermit),
}

/// That the connection is over.
struct Over;

/// Serves until the connection ends.
pub(super) async fn talk<S, T>(socket: WebSocketStream<T>, visit: Visit<S>)
where
    S: Service,
    T: AsyncRead + AsyncWrite + Unpin,
{
    let (answers, mut ready) = mpsc::channel(QUEUE);
    let stop = visit.stop.clone();
    let begin = Instant::now() + visit.limits.ping;
    let mut ticks = interval_at(begin, visit.limits.ping);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut talk = Talk {
        socket,
        tasks: JoinSet::new(),
        requests: Arc::new(Semaphore::new(visit.limits.websocket_requests)),
        shaking: Arc::new(Semaphore::new(1)),
        waiting: VecDeque::new(),
        answers,
        heard: Instant::now(),
        visit,
    };
    let mut is_stopping = false;
    loop {
        while talk.tasks.try_join_next().is_some() {}
        if is_stopping && talk.is_idle() && ready.is_empty() {
            return talk.close(CloseCode::Away).await;
        }
        let shaking = Arc::clone(&talk.shaking);
        let has_waiting = !talk.waiting.is_empty();
        let is_full = talk.waiting.len() >= WAITING;
        let done = tokio::select! {
            biased;
            Some(out) = ready.recv() => talk.write(out, &mut ready).await,
            Ok(permit) = shaking.acquire_owned(), if has_waiting => {
                if let Some(message) = talk.waiting.pop_front() {
                    talk.start(message, permit, End::Connection);
                }
                Ok(())
            }
            Some(_) = talk.tasks.join_next(), if is_stopping => Ok(()),
            () = stop.cancelled(), if !is_stopping => {
                is_stopping = true;
                Ok(())
            }
            came = talk.socket.next(), if !is_stopping && !is_full => talk.take(came).await,
            _ = ticks.tick() => talk.tick().await,
        };
        if done.is_err() {
            return;
        }
    }
}

/// What an error ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Request,
    Connection,
}

impl<S, T> Talk<S, T>
where
    S: Service,
    T: AsyncRead + AsyncWrite + Unpin,
{
    /// Whether nobody waits for an answer.
    fn is_idle(&self) -> bool {
        self.tasks.is_empty() && self.waiting.is_empty()
    }

    async fn take(&mut self, came: Option<Result<Message, Error>>) -> Result<(), Over> {
        let code = match came {
            Some(Ok(Message::Text(text))) => {
                self.heard = Instant::now();
                return self.take_text(text).await;
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
                // The answer is queued; that was the last word.
                let _ = self.flush().await;
                return Err(Over);
            }
            Some(Ok(Message::Binary(_))) => CloseCode::Unsupported,
            Some(Err(Error::Capacity(_))) => CloseCode::Size,
            Some(Err(Error::Utf8(_))) => CloseCode::Invalid,
            Some(Err(Error::Protocol(_))) => CloseCode::Protocol,
            None | Some(Err(_)) => return Err(Over),
        };
        self.close(code).await;
        Err(Over)
    }

    async fn take_text(&mut self, text: Utf8Bytes) -> Result<(), Over> {
        let seen = peek(&text);
        if !seen.is_request() {
            self.waiting.push_back(text.into());
            return Ok(());
        }
        match Arc::clone(&self.requests).try_acquire_owned() {
            Ok(permit) => {
                self.start(text.into(), permit, End::Request);
                Ok(())
            }
            Err(_) => {
                let limit = self.visit.limits.websocket_requests;
                let refusal = Refusal::TooMany { limit }.message(seen.request_id);
                self.feed(refusal).await?;
                self.flush().await
            }
        }
    }

    fn start(&mut self, message: Bytes, permit: OwnedSemaphorePermit, end: End) {
        let service = Arc::clone(&self.visit.service);
        let answers = self.answers.clone();
        let arrived = Arrived {
            message,
            carrier: Carrier::WebSocket,
            place: Place::Any,
            source: self.visit.source,
            session_hint: None,
            patience: None,
            has_company: !self.tasks.is_empty(),
        };
        self.tasks.spawn(async move {
            let out = match service.handle(arrived).await {
                Answer::Message(message) => finish(message, None, permit, end),
                Answer::Error { code, message, .. } => {
                    finish(message, code.websocket_close(), permit, end)
                }
                Answer::Nothing => return,
                Answer::Stream(mut messages) => {
                    while let Some(message) = messages.recv().await {
                        if answers.send(Out::Text(message)).await.is_err() {
                            return;
                        }
                    }
                    return;
                }
            };
            // Otherwise the connection has ended.
            let _ = answers.send(out).await;
        });
    }

    /// Writes what is there, all of it at once.
    async fn write(&mut self, first: Out, ready: &mut mpsc::Receiver<Out>) -> Result<(), Over> {
        let mut next = Some(first);
        while let Some(out) = next {
            match out {
                Out::Text(message) => self.feed(message).await?,
                Out::Shaken(message, place) => {
                    self.feed(message).await?;
                    drop(place);
                }
                Out::Fatal(message, code, place) => {
                    self.feed(message).await?;
                    drop(place);
                    let all = self.visit.limits.websocket_requests;
                    let is_alone = self.waiting.is_empty();
                    if is_alone && self.requests.available_permits() == all {
                        self.close(CloseCode::from(code)).await;
                        return Err(Over);
                    }
                }
            }
            next = ready.try_recv().ok();
        }
        self.flush().await
    }

    async fn tick(&mut self) -> Result<(), Over> {
        if self.heard.elapsed() >= self.visit.limits.websocket_idle {
            self.close(CloseCode::Away).await;
            return Err(Over);
        }
        self.within(Message::Ping(Bytes::new())).await?;
        self.flush().await
    }

    async fn feed(&mut self, message: Bytes) -> Result<(), Over> {
        // What we answer is JSON, so it is text.
        let text = Utf8Bytes::try_from(message).map_err(|_| Over)?;
        self.within(Message::Text(text)).await
    }

    async fn within(&mut self, message: Message) -> Result<(), Over> {
        let limit = self.visit.limits.websocket_idle;
        let fed = timeout(limit, self.socket.feed(message)).await;
        fed.map_err(|_| Over)?.map_err(|_| Over)
    }

    async fn flush(&mut self) -> Result<(), Over> {
        let limit = self.visit.limits.websocket_idle;
        let flushed = timeout(limit, self.socket.flush()).await;
        flushed.map_err(|_| Over)?.map_err(|_| Over)
    }

    /// Says goodbye, and waits a little for the peer to have read it.
    async fn close(&mut self, code: CloseCode) {
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

/// The answer to a message, with the place that is free again.
fn finish(message: Bytes, close: Option<u16>, place: OwnedSemaphorePermit, end: End) -> Out {
    match (end, close) {
        // Free before the answer is seen, so that whoever sees it can send the next.
        (End::Request, _) => {
            drop(place);
            Out::Text(message)
        }
        (End::Connection, Some(code)) => Out::Fatal(message, code, place),
        (End::Connection, None) => Out::Shaken(message, place),
    }
}

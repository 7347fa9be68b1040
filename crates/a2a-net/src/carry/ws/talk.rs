//! The loop of one WebSocket.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io::ErrorKind;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Poll, ready};
use std::time::Duration;

use a2a_wire::ErrorCode;
use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::task::coop::consume_budget;
use tokio::time::{Instant, MissedTickBehavior, Sleep, interval_at, sleep_until, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Error, Message, Utf8Bytes};
use tokio_util::task::AbortOnDropHandle;

use super::super::connection::Visit;
use super::super::limits::Limits;
use super::super::peek::peek;
use super::super::refusal::Refusal;
use super::counted::CountedStream;
use crate::transport::{Answer, Arrived, Carrier, Place, Service};

/// Answers that wait to be written. More wait where they are made.
const QUEUE: usize = 32;

/// Time to say goodbye.
const GOODBYE: Duration = Duration::from_secs(1);

/// Bytes of answers that wait for those that follow. Who waited for more would let the peer wait for nothing.
const TOGETHER: usize = 8 * 1024;

struct Talk<S, T> {
    socket: WebSocketStream<CountedStream<T>>,
    visit: Visit<S>,
    tasks: JoinSet<()>,
    requests: Arc<Semaphore>,
    /// Handshake messages that wait for the one before them: they have no id to tell their answers apart, so
    /// they are answered in their order. While all places are taken nothing is read.
    waiting: VecDeque<Waiting>,
    answers: mpsc::Sender<Bytes>,
    heard: Instant,
    /// Bytes that were given to the socket and may not have left.
    unsent: usize,
    /// The last request, if it is large. It lies in the read buffer of the library, which would use that
    /// memory again as long as the connection lasts, and nothing would count it. While there is another
    /// reference to it, the library takes new memory for what comes next.
    large: Bytes,
}

/// What is answered in its order.
enum Waiting {
    Message(Bytes),
    /// Of what looked like a request and names none: for its peer it is the answer to what it sent first.
    Nameless(Answer),
}

/// What comes of a message.
type Working = Pin<Box<dyn Future<Output = Answer> + Send>>;

/// A handshake message that could not be answered at once.
type Shaking = Option<AbortOnDropHandle<Answer>>;

/// That the connection is over.
struct Over;

/// Serves until the connection ends.
pub(super) async fn talk<S, T>(socket: WebSocketStream<CountedStream<T>>, visit: Visit<S>)
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
        waiting: VecDeque::new(),
        answers,
        heard: Instant::now(),
        unsent: 0,
        large: Bytes::new(),
        visit,
    };
    let mut is_stopping = false;
    let mut shaking: Shaking = None;
    loop {
        while talk.tasks.try_join_next().is_some() {}
        while shaking.is_none()
            && let Some(next) = talk.waiting.pop_front()
        {
            let done = match next {
                Waiting::Message(message) => talk.shake(message, &mut shaking).await,
                Waiting::Nameless(answer) => talk.answer_nameless(answer, &mut shaking).await,
            };
            if done.is_err() {
                return;
            }
        }
        let is_idle = talk.tasks.is_empty() && shaking.is_none() && ready.is_empty();
        if is_stopping && is_idle {
            return talk.close(CloseCode::Away).await;
        }
        if talk.unsent > TOGETHER && talk.flush().await.is_err() {
            return;
        }
        let is_full = talk.waiting.len() >= talk.visit.limits.websocket_handshakes;
        if is_full {
            talk.socket.get_mut().pause();
        }
        let has_unsent = talk.unsent > 0;
        // What was done is sent before anything is waited for.
        let done = tokio::select! {
            biased;
            Some(message) = ready.recv() => talk.feed(message).await,
            () = stop.cancelled(), if !is_stopping => {
                is_stopping = true;
                Ok(())
            }
            came = next(&mut talk.socket, &talk.visit.limits), if !is_stopping && !is_full => talk.take(came).await,
            answer = answer_of(&mut shaking) => talk.answer_handshake(answer, &mut shaking).await,
            () = std::future::ready(()), if has_unsent => talk.flush().await,
            Some(_) = talk.tasks.join_next(), if is_stopping => Ok(()),
            _ = ticks.tick() => talk.tick().await,
        };
        if done.is_err() {
            return;
        }
    }
}

/// The next message. One that comes too slowly is an error.
async fn next<T: AsyncRead + AsyncWrite + Unpin>(
    socket: &mut WebSocketStream<CountedStream<T>>,
    limits: &Limits,
) -> Option<Result<Message, Error>> {
    let mut timer: Option<Pin<Box<Sleep>>> = None;
    poll_fn(|cx| {
        if let Poll::Ready(came) = socket.poll_next_unpin(cx) {
            return Poll::Ready(came);
        }
        let Some((began, received)) = socket.get_ref().partial() else {
            return Poll::Pending;
        };
        let deadline = limits.message_deadline(began, received);
        let timer = timer.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        if timer.deadline() != deadline {
            timer.as_mut().reset(deadline);
        }
        ready!(timer.as_mut().poll(cx));
        Poll::Ready(Some(Err(Error::Io(ErrorKind::TimedOut.into()))))
    })
    .await
}

/// The answer to a message that is worked on; waits for ever if there is none.
async fn answer_of(shaking: &mut Shaking) -> Answer {
    let Some(working) = shaking else {
        return std::future::pending().await;
    };
    let answer = working.await;
    *shaking = None;
    // Whoever broke has said so elsewhere.
    answer.unwrap_or(Answer::Nothing)
}

impl<S, T> Talk<S, T>
where
    S: Service,
    T: AsyncRead + AsyncWrite + Unpin,
{
    async fn take(&mut self, came: Option<Result<Message, Error>>) -> Result<(), Over> {
        // Many small messages may have come at once, and others want to be served too.
        consume_budget().await;
        let code = match came {
            Some(Ok(Message::Text(text))) => {
                self.heard = Instant::now();
                return self.take_text(text).await;
            }
            Some(Ok(Message::Ping(payload))) => {
                self.socket.get_mut().take_control(&payload);
                self.heard = Instant::now();
                return self.flush().await;
            }
            Some(Ok(Message::Pong(payload))) => {
                self.socket.get_mut().take_control(&payload);
                self.heard = Instant::now();
                return Ok(());
            }
            Some(Ok(Message::Close(_))) => {
                // The answer is queued; that was the last word.
                let _ = self.flush().await;
                return Err(Over);
            }
            Some(Ok(Message::Binary(_) | Message::Frame(_))) => CloseCode::Unsupported,
            Some(Err(Error::Capacity(_))) => CloseCode::Size,
            Some(Err(Error::Io(error))) if error.kind() == ErrorKind::QuotaExceeded => crowded(),
            Some(Err(Error::Io(error))) if error.kind() == ErrorKind::TimedOut => CloseCode::Policy,
            Some(Err(Error::Utf8(_))) => CloseCode::Invalid,
            Some(Err(Error::Protocol(_))) => CloseCode::Protocol,
            None | Some(Err(_)) => {
                // It may still read.
                let _ = timeout(GOODBYE, self.flush()).await;
                return Err(Over);
            }
        };
        self.end(code).await
    }

    async fn take_text(&mut self, text: Utf8Bytes) -> Result<(), Over> {
        let Ok(charge) = self.socket.get_mut().take_message(text.len()) else {
            return self.end(crowded()).await;
        };
        let seen = peek(&text);
        if !seen.is_request() {
            if text.len() > self.visit.limits.handshake_bytes {
                return self.end(CloseCode::Size).await;
            }
            // A copy, which keeps no more of the read buffer than the message has.
            let message = charge.attach(Bytes::copy_from_slice(text.as_bytes()));
            self.waiting.push_back(Waiting::Message(message));
            return Ok(());
        }
        match Arc::clone(&self.requests).try_acquire_owned() {
            Ok(place) => {
                let message = charge.attach(text.into());
                self.large = match message.len() > self.visit.limits.handshake_bytes {
                    true => message.clone(),
                    false => Bytes::new(),
                };
                self.start(message, place).await
            }
            Err(_) => {
                let limit = self.visit.limits.websocket_requests;
                let refusal = Refusal::TooMany { limit }.message(seen.request_id);
                self.feed(refusal).await
            }
        }
    }

    fn work_on(&self, message: Bytes) -> Working {
        let service = Arc::clone(&self.visit.service);
        let arrived = Arrived {
            message,
            carrier: Carrier::WebSocket,
            place: Place::Any,
            source: self.visit.source,
            session_hint: None,
            patience: None,
        };
        Box::pin(async move { service.handle(arrived).await })
    }

    /// Begins a request. Most are done at once; what is not goes on beside the others.
    async fn start(&mut self, message: Bytes, place: OwnedSemaphorePermit) -> Result<(), Over> {
        let mut work = self.work_on(message);
        let answers = self.answers.clone();
        match now_or_later(&mut work).await {
            Poll::Ready(refused) if is_nameless(&refused) => {
                self.waiting.push_back(Waiting::Nameless(refused));
                Ok(())
            }
            Poll::Ready(Answer::Message(message) | Answer::Error { message, .. }) => {
                drop(place);
                self.feed(message).await
            }
            Poll::Ready(answer) => {
                self.tasks.spawn(hand_on(answer, place, answers));
                Ok(())
            }
            Poll::Pending => {
                self.tasks
                    .spawn(async move { hand_on(work.await, place, answers).await });
                Ok(())
            }
        }
    }

    /// Begins a message of a handshake, in the same way.
    async fn shake(&mut self, message: Bytes, shaking: &mut Shaking) -> Result<(), Over> {
        let mut work = self.work_on(message);
        match now_or_later(&mut work).await {
            Poll::Ready(answer) => self.answer_handshake(answer, shaking).await,
            Poll::Pending => {
                *shaking = Some(AbortOnDropHandle::new(tokio::spawn(work)));
                Ok(())
            }
        }
    }

    /// An error in a handshake ends the connection, unless others still use it.
    async fn answer_handshake(
        &mut self,
        answer: Answer,
        shaking: &mut Shaking,
    ) -> Result<(), Over> {
        let (message, close) = match answer {
            Answer::Message(message) => (message, None),
            Answer::Error { code, message, .. } => (message, code.websocket_close()),
            Answer::Nothing => return Ok(()),
            Answer::Stream(messages) => {
                let answers = self.answers.clone();
                let sending = tokio::spawn(async move {
                    send_all(messages, &answers).await;
                    Answer::Nothing
                });
                *shaking = Some(AbortOnDropHandle::new(sending));
                return Ok(());
            }
        };
        self.feed(message).await?;
        match close {
            Some(code) if self.is_unused() => self.end(CloseCode::from(code)).await,
            _ => Ok(()),
        }
    }

    /// What could not be read ends the connection like an error in a handshake; what was refused for another
    /// reason can be asked again.
    async fn answer_nameless(&mut self, answer: Answer, shaking: &mut Shaking) -> Result<(), Over> {
        if let Answer::Error { code, message, .. } = &answer
            && *code != ErrorCode::InvalidMessage
        {
            return self.feed(message.clone()).await;
        }
        self.answer_handshake(answer, shaking).await
    }

    /// Whether nobody waits for anything, be it only to be written.
    fn is_unused(&mut self) -> bool {
        while self.tasks.try_join_next().is_some() {}
        let has_answers = self.answers.capacity() < self.answers.max_capacity();
        self.waiting.is_empty() && self.tasks.is_empty() && !has_answers
    }

    async fn tick(&mut self) -> Result<(), Over> {
        if self.heard.elapsed() >= self.visit.limits.websocket_idle {
            return self.end(CloseCode::Away).await;
        }
        self.within(Message::Ping(Bytes::new())).await?;
        self.flush().await
    }

    async fn feed(&mut self, message: Bytes) -> Result<(), Over> {
        self.unsent = self.unsent.saturating_add(message.len());
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
        self.unsent = 0;
        let flushed = timeout(limit, self.socket.flush()).await;
        flushed.map_err(|_| Over)?.map_err(|_| Over)
    }

    async fn end(&mut self, code: CloseCode) -> Result<(), Over> {
        self.close(code).await;
        Err(Over)
    }

    /// Says goodbye, and waits a little for the peer to have read it.
    async fn close(&mut self, code: CloseCode) {
        if self.unsent > 0 && self.flush().await.is_err() {
            return;
        }
        let frame = CloseFrame {
            code,
            reason: Utf8Bytes::default(),
        };
        let goodbye = async {
            if self.socket.close(Some(frame)).await.is_ok() {
                while let Some(Ok(_)) = self.socket.next().await {}
            }
        };
        // A peer that does not answer is left. One that answered, or whose message could not be read to
        // its end, may still be writing.
        if timeout(GOODBYE, goodbye).await.is_ok() {
            let stream = self.socket.get_mut().uncounted();
            net::close(stream, self.visit.limits.discard).await;
        }
    }
}

/// There is no room for more messages.
fn crowded() -> CloseCode {
    let code = ErrorCode::ServiceUnavailable.websocket_close();
    code.map_or(CloseCode::Again, CloseCode::from)
}

/// Whether it is an error that does not say what it answers.
fn is_nameless(answer: &Answer) -> bool {
    let Answer::Error { message, .. } = answer else {
        return false;
    };
    str::from_utf8(message).is_ok_and(|text| peek(text).request_id.is_none())
}

/// What comes of a message now, or that it goes on later.
async fn now_or_later(work: &mut Working) -> Poll<Answer> {
    poll_fn(|cx| Poll::Ready(work.as_mut().poll(cx))).await
}

/// Gives the connection what came of a request. Its place is free before that is seen, so that whoever sees
/// it can send the next. If nobody takes it the connection has ended.
async fn hand_on(answer: Answer, place: OwnedSemaphorePermit, answers: mpsc::Sender<Bytes>) {
    match answer {
        Answer::Message(message) | Answer::Error { message, .. } => {
            drop(place);
            let _ = answers.send(message).await;
        }
        Answer::Nothing => {}
        Answer::Stream(messages) => send_all(messages, &answers).await,
    }
}

async fn send_all(mut messages: mpsc::Receiver<Bytes>, answers: &mpsc::Sender<Bytes>) {
    while let Some(message) = messages.recv().await {
        if answers.send(message).await.is_err() {
            return;
        }
    }
}

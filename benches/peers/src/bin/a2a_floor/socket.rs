//! A bare WebSocket with many questions in flight; the server answers them in turn.

use std::collections::VecDeque;
use std::error::Error;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use peers::tls::Dialer;
use tokio::sync::{mpsc, oneshot};
use tokio_tungstenite::client_async;
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};

/// Whoever waits for the next answers.
type Waiting = Arc<Mutex<VecDeque<oneshot::Sender<Bytes>>>>;

pub(crate) struct Socket(mpsc::UnboundedSender<(Message, oneshot::Sender<Bytes>)>);

impl Socket {
    pub(crate) async fn open(dialer: &Dialer, path: &str) -> Result<Self, Box<dyn Error>> {
        let url = format!("wss://{}{path}", dialer.address());
        let (socket, _) = client_async(url, dialer.dial().await?).await?;
        let (mut sink, mut stream) = socket.split();
        let (questions, mut to_send) =
            mpsc::unbounded_channel::<(Message, oneshot::Sender<Bytes>)>();
        let waiting = Waiting::default();
        let answered = Arc::clone(&waiting);
        tokio::spawn(async move {
            while let Some((message, answer)) = to_send.recv().await {
                push(&waiting, answer);
                if sink.feed(message).await.is_err() {
                    return;
                }
                // What is there goes out together.
                while let Ok((message, answer)) = to_send.try_recv() {
                    push(&waiting, answer);
                    if sink.feed(message).await.is_err() {
                        return;
                    }
                }
                if sink.flush().await.is_err() {
                    return;
                }
            }
        });
        tokio::spawn(async move {
            while let Some(Ok(message)) = stream.next().await {
                let first = answered.lock().ok().and_then(|mut all| all.pop_front());
                if let Some(first) = first {
                    let _ = first.send(message.into_data());
                }
            }
        });
        Ok(Self(questions))
    }

    pub(crate) async fn send(&self, message: Vec<u8>) -> Result<Bytes, Box<dyn Error>> {
        let message = Message::Text(Utf8Bytes::try_from(message)?);
        let (answer, answered) = oneshot::channel();
        self.0
            .send((message, answer))
            .map_err(|_| "the socket is closed")?;
        Ok(answered.await?)
    }
}

fn push(waiting: &Waiting, answer: oneshot::Sender<Bytes>) {
    if let Ok(mut waiting) = waiting.lock() {
        waiting.push_back(answer);
    }
}

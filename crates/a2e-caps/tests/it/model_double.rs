//! A double of a language model: it speaks the streaming format of chat completions over real HTTP.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use a2e_caps::http::{Client, Settings, Web};
use a2e_caps::model::{Model, ModelSettings, Models};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::http::{answer, heard, say, serve};

/// Gives each connection the next of its answers, the last one again and again, and keeps what it was
/// asked.
pub(crate) struct Double {
    port: u16,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Double {
    pub(crate) async fn start(answers: Vec<String>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&asked);
        tokio::spawn(async move {
            let mut next = 0;
            while let Ok((stream, _)) = listener.accept().await {
                let told = &answers[next.min(answers.len() - 1)];
                next += 1;
                serve(stream, told.as_bytes(), &kept).await;
            }
        });
        Self { port, asked }
    }

    /// A model whose answers follow from what it is asked.
    pub(crate) async fn answering(answer: fn(&Value) -> String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&asked);
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let request = heard(&mut stream).await;
                let Some((_, body)) = request.split_once("\r\n\r\n") else {
                    continue;
                };
                let told = answer(&serde_json::from_str(body).unwrap());
                kept.lock().unwrap().push(request);
                say(stream, told.as_bytes()).await;
            }
        });
        Self { port, asked }
    }

    /// The requests so far: their heads, and their bodies.
    pub(crate) fn asked(&self) -> Vec<(String, Value)> {
        let asked = self.asked.lock().unwrap();
        let parted = asked.iter().map(|text| {
            let (head, body) = text.split_once("\r\n\r\n").unwrap();
            (head.to_owned(), serde_json::from_str(body).unwrap())
        });
        parted.collect()
    }

    pub(crate) fn settings(&self) -> ModelSettings {
        ModelSettings {
            url: format!("http://127.0.0.1:{}/v1/", self.port),
            model: "small".into(),
            key: Some("hunter2222".into()),
            timeout: Duration::from_secs(60),
            max_answer_tokens: 100,
            max_tokens: 1000,
            allow_override: false,
        }
    }

    /// Models of a node, this one the default.
    pub(crate) fn models(&self, settings: ModelSettings) -> Arc<Models> {
        let named = [format!("127.0.0.1:{}", self.port)];
        let web = Web::new(Client::new(Settings::default()), &named).unwrap();
        let model = Model::new(settings, &web).unwrap();
        Arc::new(Models::new([("default".to_owned(), model)]))
    }
}

/// An answer in pieces, each a chunk of its own.
pub(crate) fn streamed(pieces: &[Value]) -> String {
    let mut told = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n\
        Transfer-Encoding: chunked\r\n\r\n"
        .to_owned();
    let mut chunk = |data: &str| {
        let line = format!("data: {data}\n\n");
        told.push_str(&format!("{:x}\r\n{line}\r\n", line.len()));
    };
    for piece in pieces {
        chunk(&piece.to_string());
    }
    chunk("[DONE]");
    told + "0\r\n\r\n"
}

fn delta(delta: Value, finish: Option<&str>) -> Value {
    json!({"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "small",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
}

/// A model that says something, word by word.
pub(crate) fn says(words: &[&str], tokens: u64) -> String {
    let mut pieces = vec![delta(json!({"role": "assistant", "content": ""}), None)];
    for word in words {
        pieces.push(delta(json!({ "content": word }), None));
    }
    pieces.push(delta(json!({}), Some("stop")));
    pieces.push(usage(tokens));
    streamed(&pieces)
}

/// A model that wants tools to be called.
pub(crate) fn wants(calls: &[(&str, &str)], tokens: u64) -> String {
    let mut pieces = Vec::new();
    for (index, (name, arguments)) in calls.iter().enumerate() {
        let (first, second) = arguments.split_at(arguments.len() / 2);
        let begin = json!({"index": index, "id": format!("call_{index}"), "type": "function",
            "function": {"name": name, "arguments": first}});
        pieces.push(delta(json!({"tool_calls": [begin]}), None));
        let more = json!({"index": index, "function": {"arguments": second}});
        pieces.push(delta(json!({"tool_calls": [more]}), None));
    }
    pieces.push(delta(json!({}), Some("tool_calls")));
    pieces.push(usage(tokens));
    streamed(&pieces)
}

fn usage(tokens: u64) -> Value {
    json!({"id": "chatcmpl-1", "object": "chat.completion.chunk", "choices": [],
        "usage": {"prompt_tokens": 1, "completion_tokens": tokens - 1, "total_tokens": tokens}})
}

/// A model that refuses.
pub(crate) fn refuses(head: &str, message: &str) -> String {
    let body = json!({"error": {"message": message, "type": "x", "code": null}}).to_string();
    answer(&format!("{head}\r\nContent-Type: application/json"), &body)
}

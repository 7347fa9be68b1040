//! An answer of a model, as it comes: server-sent events of pieces, or all of it at once.

use std::collections::BTreeMap;

use hyper::header::{self, HeaderMap};
use serde_json::Value;

use super::ModelError;

/// Bytes of one line of an answer.
pub const MAX_LINE: usize = 1 << 20;

/// Bytes of the text of an answer, and of the arguments of its calls.
pub const MAX_ANSWER: usize = 1 << 20;

/// Calls of one answer.
pub const MAX_CALLS: usize = 32;

/// Characters of a server's or model's own words in an error.
const MAX_REASON: usize = 500;

/// What a model has said.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) text: String,
    pub(crate) calls: Vec<Called>,
    /// Why it said no more.
    pub(crate) finish: String,
    /// Tokens that were read and written, if it said so.
    pub(crate) tokens: Option<u64>,
}

/// A tool that a model wants to be called.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Called {
    pub(crate) id: String,
    pub(crate) name: String,
    /// JSON, if all is well.
    pub(crate) arguments: String,
}

/// Puts the pieces of an answer together.
#[derive(Debug)]
pub(super) struct Collector {
    is_stream: bool,
    /// What came of a line that has not ended; of all of it, if it is no stream.
    rest: Vec<u8>,
    answer: Answer,
    /// The calls by the index that the model gives them: it may leave indices out.
    calls: BTreeMap<usize, Called>,
    /// The text with which the model refuses to answer.
    refusal: String,
    is_done: bool,
}

impl Collector {
    pub(super) fn new(headers: &HeaderMap) -> Self {
        let kind = headers.get(header::CONTENT_TYPE);
        let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        Self {
            is_stream: !kind.to_ascii_lowercase().starts_with("application/json"),
            rest: Vec::new(),
            answer: Answer::default(),
            calls: BTreeMap::new(),
            refusal: String::new(),
            is_done: false,
        }
    }

    /// Takes what came; gives the pieces of text in it.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<Vec<String>, ModelError> {
        let (mut pieces, mut new) = (Vec::new(), bytes);
        // What came before has no end of a line in it, and is not looked at again: a server that sends a
        // long line letter by letter would have it read from its beginning each time.
        while self.is_stream
            && let Some(end) = new.iter().position(|byte| *byte == b'\n')
            && let Some((line, behind)) = new.split_at_checked(end.saturating_add(1))
        {
            let mut whole = std::mem::take(&mut self.rest);
            whole.extend_from_slice(line);
            pieces.extend(self.line(&whole)?);
            new = behind;
        }
        self.rest.extend_from_slice(new);
        let most = if self.is_stream {
            MAX_LINE
        } else {
            4 * MAX_ANSWER
        };
        match self.rest.len() > most {
            true => Err(too_long()),
            false => Ok(pieces),
        }
    }

    /// The answer, once all came; and its text, if that was not told yet.
    pub(super) fn finish(mut self) -> Result<(Answer, Option<String>), ModelError> {
        let rest = std::mem::take(&mut self.rest);
        if !self.is_stream {
            let whole: Value = serde_json::from_slice(&rest)
                .map_err(|_| ModelError::new("llm_error", "the answer is no JSON"))?;
            let text = self.take(&whole, "message")?;
            return Ok((self.complete()?, text));
        }
        let text = self.line(&rest)?;
        if !self.is_done && self.answer.finish.is_empty() {
            let text = "the answer broke off before its end";
            return Err(ModelError::new("llm_broken", text));
        }
        Ok((self.complete()?, text))
    }

    /// Returns the answer, unless the model or its provider ended it early.
    fn complete(self) -> Result<Answer, ModelError> {
        if !self.refusal.is_empty() {
            let text: String = self.refusal.chars().take(MAX_REASON).collect();
            let text = format!("the model refused to answer: {text}");
            return Err(ModelError::new("llm_refused", text));
        }
        match self.answer.finish.as_str() {
            "length" => {
                let text = "the answer was truncated at the limit of tokens; raise \
                            `max_answer_tokens` of the model, or ask for less";
                Err(ModelError::new("llm_truncated", text))
            }
            "content_filter" => {
                let text = "the content filter of the model's provider stopped the answer";
                Err(ModelError::new("llm_filtered", text))
            }
            _ => Ok(Answer {
                calls: self.calls.into_values().collect(),
                ..self.answer
            }),
        }
    }

    /// A line of a stream: a piece of JSON after `data:`; everything else says nothing.
    fn line(&mut self, line: &[u8]) -> Result<Option<String>, ModelError> {
        let line = line.trim_ascii();
        let Some(data) = line.strip_prefix(b"data:").map(<[u8]>::trim_ascii) else {
            return Ok(None);
        };
        if data == b"[DONE]" {
            self.is_done = true;
            return Ok(None);
        }
        let piece: Value = serde_json::from_slice(data)
            .map_err(|_| ModelError::new("llm_error", "a piece of the answer is no JSON"))?;
        self.take(&piece, "delta")
    }

    /// Takes a piece, or the whole; gives its text.
    fn take(&mut self, piece: &Value, member: &str) -> Result<Option<String>, ModelError> {
        if let Some(error) = piece.get("error").filter(|error| !error.is_null()) {
            let message = error.get("message").and_then(Value::as_str);
            let said = message.or_else(|| error.as_str());
            let said = said.unwrap_or("no reason").chars();
            let said: String = said.take(MAX_REASON).collect();
            return Err(ModelError::new(
                "llm_error",
                format!("the model failed: {said}"),
            ));
        }
        let tokens = piece.pointer("/usage/total_tokens");
        if let Some(tokens) = tokens.and_then(Value::as_u64) {
            self.answer.tokens = Some(tokens);
        }
        let choice = piece.pointer("/choices/0").unwrap_or(&Value::Null);
        if let Some(finish) = choice.get("finish_reason").and_then(Value::as_str) {
            self.answer.finish = finish.chars().take(64).collect();
        }
        let said = choice.get(member).unwrap_or(&Value::Null);
        let calls = said.get("tool_calls").and_then(Value::as_array);
        for (place, call) in calls.into_iter().flatten().enumerate() {
            self.call(place, call)?;
        }
        if let Some(refusal) = said.get("refusal").and_then(Value::as_str) {
            self.refusal.push_str(refusal);
        }
        let text = match said.get("content") {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Array(parts)) => self.text_of(parts),
            _ => String::new(),
        };
        self.answer.text.push_str(&text);
        match self.size() > MAX_ANSWER {
            true => Err(too_long()),
            false => Ok(Some(text).filter(|text| !text.is_empty())),
        }
    }

    /// Joins the texts of content in parts; a refusal among them counts as one of the whole.
    fn text_of(&mut self, parts: &[Value]) -> String {
        let mut all = String::new();
        for part in parts {
            let member = |name: &str| part.get(name).and_then(Value::as_str).unwrap_or_default();
            all.push_str(member("text"));
            self.refusal.push_str(member("refusal"));
        }
        all
    }

    fn call(&mut self, place: usize, call: &Value) -> Result<(), ModelError> {
        let index = call.get("index").and_then(Value::as_u64);
        let index = index.and_then(|index| usize::try_from(index).ok());
        let index = index.unwrap_or(place);
        if index >= MAX_CALLS {
            let text = format!("the model wants more than {MAX_CALLS} calls at once");
            return Err(ModelError::new("llm_error", text));
        }
        let known = self.calls.entry(index).or_default();
        let text = |pointer: &str| {
            let text = call.pointer(pointer).and_then(Value::as_str);
            text.unwrap_or_default()
        };
        if known.id.is_empty() {
            known.id = text("/id").to_owned();
        }
        known.name.push_str(text("/function/name"));
        known.arguments.push_str(text("/function/arguments"));
        Ok(())
    }

    fn size(&self) -> usize {
        let calls = self.calls.values();
        let calls = calls.map(|call| call.name.len().saturating_add(call.arguments.len()));
        let text = self.answer.text.len().saturating_add(self.refusal.len());
        calls.fold(text, usize::saturating_add)
    }
}

fn too_long() -> ModelError {
    ModelError::new("llm_error", "the answer is too long")
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;
    use serde_json::json;

    use super::*;

    fn stream() -> Collector {
        Collector::new(&HeaderMap::new())
    }

    fn piece(value: &Value) -> String {
        format!("data: {value}\n\n")
    }

    #[test]
    fn pieces_become_an_answer_wherever_they_are_cut() {
        let mut all = String::from(": keep-alive\r\n\r\n");
        all += &piece(&json!({"choices": [{"delta": {"role": "assistant", "content": ""}}]}));
        all += &piece(&json!({"choices": [{"delta": {"content": "Hé"}}]}));
        all += &piece(&json!({"choices": [{"delta": {"content": "llo"}}]}));
        all += &piece(&json!({"choices": [{"delta": {"tool_calls": [
            {"index": 0, "id": "c1", "type": "function", "function": {"name": "grep", "arguments": ""}}]}}]}));
        all += &piece(&json!({"choices": [{"delta": {"tool_calls": [
            {"index": 0, "function": {"arguments": "{\"a\""}}]}}]}));
        all += &piece(&json!({"choices": [{"delta": {"tool_calls": [
            {"index": 0, "function": {"arguments": ":1}"}},
            {"index": 1, "id": "c2", "function": {"name": "glob", "arguments": "{}"}}]}}]}));
        all += &piece(&json!({"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}));
        all += &piece(&json!({"choices": [], "usage": {"total_tokens": 42}}));
        all += "data: [DONE]\n\n";
        for size in [1, 7, 64, all.len()] {
            let (mut collector, mut text) = (stream(), String::new());
            for chunk in all.as_bytes().chunks(size) {
                text.extend(collector.push(chunk).unwrap());
            }
            let (answer, rest) = collector.finish().unwrap();
            assert_eq!((text.as_str(), rest), ("Héllo", None));
            assert_eq!(answer.tokens, Some(42));
            let calls = answer.calls.iter();
            let calls: Vec<_> = calls
                .map(|it| (&*it.id, &*it.name, &*it.arguments))
                .collect();
            assert_eq!(calls, [("c1", "grep", "{\"a\":1}"), ("c2", "glob", "{}")]);
        }
    }

    #[test]
    fn an_answer_may_come_at_once() {
        let mut headers = HeaderMap::new();
        let kind = HeaderValue::from_static("application/json; charset=utf-8");
        headers.insert(header::CONTENT_TYPE, kind);
        let mut collector = Collector::new(&headers);
        let whole = json!({"choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}]});
        assert_eq!(
            collector.push(whole.to_string().as_bytes()).unwrap(),
            [""; 0]
        );
        let (answer, text) = collector.finish().unwrap();
        assert_eq!((answer.text.as_str(), text.as_deref()), ("Hi", Some("Hi")));
    }

    fn whole(value: &Value) -> Result<Answer, ModelError> {
        let mut headers = HeaderMap::new();
        let kind = HeaderValue::from_static("application/json");
        headers.insert(header::CONTENT_TYPE, kind);
        let mut collector = Collector::new(&headers);
        collector.push(value.to_string().as_bytes())?;
        Ok(collector.finish()?.0)
    }

    fn streamed(delta: &Value, finish: &str) -> Result<Answer, ModelError> {
        let mut collector = stream();
        let choice = json!({"choices": [{"delta": delta, "finish_reason": finish}]});
        collector.push(piece(&choice).as_bytes())?;
        collector.push(b"data: [DONE]\n")?;
        Ok(collector.finish()?.0)
    }

    #[test]
    fn an_answer_that_ended_early_is_an_error() {
        let text = json!({"role": "assistant", "content": "Half an ans"});
        let refusal = json!({"role": "assistant", "content": null, "refusal": "I cannot do that."});
        let part = json!({"content": [{"type": "refusal", "refusal": "I cannot do that."}]});
        for (said, finish, code, reason) in [
            (&text, "length", "llm_truncated", "max_answer_tokens"),
            (&text, "content_filter", "llm_filtered", "content filter"),
            (&refusal, "stop", "llm_refused", "I cannot do that."),
            (&part, "stop", "llm_refused", "I cannot do that."),
        ] {
            let message = json!({"choices": [{"message": said, "finish_reason": finish}]});
            for error in [whole(&message), streamed(said, finish)] {
                let error = error.unwrap_err();
                assert_eq!(error.code, code, "{said}");
                assert!(error.message.contains(reason), "{}", error.message);
                assert_eq!(error.again, None);
            }
        }
    }

    #[test]
    fn content_in_parts_is_read() {
        let said = json!({"content": [
            {"type": "text", "text": "Hel"}, {"type": "image_url"}, {"type": "text", "text": "lo"}]});
        let message = json!({"choices": [{"message": said, "finish_reason": "stop"}]});
        for answer in [whole(&message), streamed(&said, "stop")] {
            assert_eq!(answer.unwrap().text, "Hello");
        }
    }

    #[test]
    fn indices_that_a_model_leaves_out_make_no_calls() {
        let calls = json!({"tool_calls": [
            {"index": 3, "id": "c2", "function": {"name": "glob", "arguments": "{}"}},
            {"index": 1, "id": "c1", "function": {"name": "grep", "arguments": "{}"}}]});
        let answer = streamed(&calls, "tool_calls").unwrap();
        let names: Vec<&str> = answer.calls.iter().map(|call| &*call.name).collect();
        assert_eq!(names, ["grep", "glob"]);
    }

    #[test]
    fn what_is_no_answer() {
        for (text, code, part) in [
            (
                "data: {\"choices\": [{\"delta\": {\"content\": \"x\"}}]}\n",
                "llm_broken",
                "broke off",
            ),
            ("", "llm_broken", "broke off"),
            ("data: {]\n", "llm_error", "no JSON"),
            (
                "data: {\"error\": {\"message\": \"overloaded\"}}\n",
                "llm_error",
                "overloaded",
            ),
            (
                "data: {\"choices\": [{\"delta\": {\"tool_calls\": [{\"index\": 32}]}}]}\n",
                "llm_error",
                "more than 32",
            ),
        ] {
            let mut collector = stream();
            let pushed = collector.push(text.as_bytes()).map(drop);
            let error = pushed
                .and_then(|()| collector.finish().map(drop))
                .unwrap_err();
            assert_eq!(error.code, code, "{text}");
            assert!(error.message.contains(part), "{text}: {}", error.message);
        }
    }

    #[test]
    fn an_answer_has_a_size() {
        let of = |size: usize| {
            let mut collector = stream();
            let half = piece(&json!({"choices": [{"delta": {"content": "x".repeat(size / 2)}}]}));
            collector.push(half.as_bytes())?;
            collector.push(half.as_bytes())
        };
        assert!(of(MAX_ANSWER).is_ok());
        assert!(of(MAX_ANSWER + 2).is_err());
        assert!(stream().push(&vec![b'x'; MAX_LINE]).is_ok());
        assert!(stream().push(&vec![b'x'; MAX_LINE + 1]).is_err());
    }
}

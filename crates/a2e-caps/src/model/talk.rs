//! The talk in which a model uses tools, until it has nothing more to ask for.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use a2e_runtime::BoxFuture;
use a2e_wire::messages::tool::ToolResult;
use serde_json::{Map, Value, json};

use super::{Answer, Called, Model, ModelError};

/// Bytes of what a model is told that a tool gave.
pub const MAX_RESULT: usize = 64 * 1024;

/// Bytes of all that is said in one talk.
pub const MAX_TALK: usize = 8 << 20;

/// A tool that a model may use.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Offered {
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) schema: Map<String, Value>,
}

/// Who does what a model asks for, and hears what it says.
pub(crate) trait Hands: Send + Sync {
    /// A piece of text that the model has just said.
    fn token(&self, text: String) -> BoxFuture<'_, ()>;

    /// Calls a tool that was offered; gives its result, or why there is none, for the model to read.
    fn call(
        &self,
        name: String,
        arguments: Map<String, Value>,
    ) -> BoxFuture<'_, Result<Value, String>>;

    /// Whether the talk may go on, beside what the limits of the talk itself say.
    ///
    /// # Errors
    /// Why it may not.
    fn may_go_on(&self) -> Result<(), ModelError> {
        Ok(())
    }
}

/// Counts tokens against a limit that several talks may share.
#[derive(Debug)]
pub(crate) struct Spent {
    tokens: Arc<AtomicU64>,
    most: u64,
}

/// A talk with a model.
pub(crate) struct Talk<'a> {
    pub(crate) model: &'a Model,
    pub(crate) tools: &'a [Offered],
    pub(crate) max_turns: usize,
    /// The limits that count, each by itself.
    pub(crate) spent: &'a [&'a Spent],
}

/// How a talk ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Done {
    /// The last that the model said.
    pub(crate) text: String,
    pub(crate) turns: usize,
    pub(crate) tokens: u64,
    pub(crate) calls: usize,
}

impl Spent {
    pub(crate) fn new(most: u64) -> Self {
        Self::counted_by(Arc::default(), most)
    }

    /// A limit of tokens that are counted elsewhere, too.
    pub(crate) const fn counted_by(tokens: Arc<AtomicU64>, most: u64) -> Self {
        Self { tokens, most }
    }

    fn add(&self, tokens: u64) -> Result<(), ModelError> {
        let before = self.tokens.fetch_add(tokens, Ordering::SeqCst);
        match before.saturating_add(tokens) > self.most {
            true => Err(ModelError::new(
                "token_limit",
                format!("it may use {} tokens, and has used them", self.most),
            )),
            false => Ok(()),
        }
    }

    /// Whether there is nothing left before anything is asked.
    fn check(&self) -> Result<(), ModelError> {
        match self.tokens.load(Ordering::SeqCst) >= self.most {
            true => self.add(1),
            false => Ok(()),
        }
    }

    pub(crate) fn tokens(&self) -> u64 {
        self.tokens.load(Ordering::SeqCst)
    }
}

impl Talk<'_> {
    /// Talks until the model asks for no more tools.
    ///
    /// # Errors
    /// If the model gives no answer, or a limit is reached.
    pub(crate) async fn run(
        &self,
        mut messages: Vec<Value>,
        hands: &dyn Hands,
    ) -> Result<Done, ModelError> {
        let tools: Vec<Value> = self.tools.iter().map(Offered::to_json).collect();
        let mut said = messages.iter().map(size).fold(0, usize::saturating_add);
        let mut done = Done {
            text: String::new(),
            turns: 0,
            tokens: 0,
            calls: 0,
        };
        while done.turns < self.max_turns {
            hands.may_go_on()?;
            self.spent.iter().try_for_each(|spent| spent.check())?;
            let answer = self.model.answer(&messages, &tools, hands).await?;
            done.turns += 1;
            let tokens = answer.tokens.unwrap_or_else(|| guess(said, &answer));
            done.tokens = done.tokens.saturating_add(tokens);
            let over = self.spent.iter().try_for_each(|spent| spent.add(tokens));
            if answer.calls.is_empty() {
                done.text = answer.text;
                return Ok(done);
            }
            over?;
            let mut new = vec![as_message(&answer)];
            for call in &answer.calls {
                done.calls += 1;
                let content = self.result(call, hands).await;
                new.push(json!({"role": "tool", "tool_call_id": call.id, "content": content}));
            }
            said = new.iter().map(size).fold(said, usize::saturating_add);
            if said > MAX_TALK {
                let text = format!("all that was said has more than {MAX_TALK} bytes");
                return Err(ModelError::new("talk_too_long", text));
            }
            messages.extend(new);
        }
        let text = format!("it has not come to an end in {} turns", self.max_turns);
        Err(ModelError::new("max_turns", text))
    }

    /// What a model is told about a call: whatever it asks for, it gets what was offered and no more.
    async fn result(&self, call: &Called, hands: &dyn Hands) -> String {
        if !self.tools.iter().any(|tool| tool.name == call.name) {
            let names: Vec<&str> = self.tools.iter().map(|tool| tool.name.as_str()).collect();
            return format!(
                "error: you have no such tool; you have: {}",
                names.join(", ")
            );
        }
        let arguments = match call.arguments.trim() {
            "" => Some(Map::new()),
            text => serde_json::from_str(text).ok(),
        };
        let Some(arguments) = arguments else {
            return "error: the arguments must be a JSON object".to_owned();
        };
        let text = match hands.call(call.name.clone(), arguments).await {
            Ok(Value::String(text)) => text,
            Ok(value) => value.to_string(),
            Err(text) => format!("error: {text}"),
        };
        match text.len() > MAX_RESULT {
            true => {
                let head = text
                    .get(..text.floor_char_boundary(MAX_RESULT))
                    .unwrap_or_default();
                format!("{head}… (cut: there was more)")
            }
            false => text,
        }
    }
}

impl Offered {
    fn to_json(&self) -> Value {
        json!({"type": "function", "function": {
            "name": self.name, "description": self.description, "parameters": self.schema}})
    }
}

/// What came of a call of a tool, as a model reads it.
pub(crate) fn called(result: ToolResult<'_>) -> Result<Value, String> {
    let data = result.data.and_then(|data| data.deserialize().ok());
    let data: Value = data.unwrap_or_default();
    match result.error {
        Some(error) => Err(format!("{error} {data}")),
        None => Ok(data),
    }
}

fn as_message(answer: &Answer) -> Value {
    let calls = answer.calls.iter().map(|call| {
        json!({"id": call.id, "type": "function",
            "function": {"name": call.name, "arguments": call.arguments}})
    });
    let calls: Vec<Value> = calls.collect();
    json!({"role": "assistant", "content": answer.text, "tool_calls": calls})
}

fn size(message: &Value) -> usize {
    message.to_string().len()
}

/// How many tokens a turn was, where the model does not say: four bytes each, about.
fn guess(said: usize, answer: &Answer) -> u64 {
    let calls = answer.calls.iter().map(|call| call.arguments.len());
    let bytes = calls.fold(
        said.saturating_add(answer.text.len()),
        usize::saturating_add,
    );
    u64::try_from(bytes.div_ceil(4)).unwrap_or(u64::MAX)
}

//! A model that follows the instructions of a skill.

use std::sync::Arc;

use a2e_runtime::BoxFuture;
use a2e_wire::messages::skill::SkillCallRequest;
use a2e_wire::messages::tool::{ToolCallRequest, ToolDefinition};
use a2e_wire::{Body, Object};
use serde_json::{Map, Value, json};

use super::needs::Given;
use super::program::Program;
use super::skill::Skill;
use super::telling::Telling;
use super::tools::READ;
use super::{Failed, Skills};
use crate::model::{Hands, Model, ModelError, Offered, Spent, Talk, called};
use crate::tool::schema_of;

/// How long a tool may take, in seconds.
const TOOL_SECONDS: i64 = 120;

/// Who follows the instructions.
pub(super) enum Chosen<'s> {
    /// Nobody: this program of the skill does what they say.
    Program(&'s Program),
    /// This model.
    Model(Arc<Model>),
    /// Whoever called, and why.
    None(&'static str),
}

/// The hands of a model that follows a skill.
struct SkillHands<'a> {
    skill: &'a Skill,
    telling: &'a Telling,
}

impl Skills {
    /// Who follows the instructions for a call.
    ///
    /// # Errors
    /// If the agent names a model that it must not use.
    pub(super) fn chosen<'s>(
        &self,
        skill: &'s Skill,
        request: &SkillCallRequest<'_>,
    ) -> Result<Chosen<'s>, Failed> {
        let metadata: Value = request.metadata.raw().deserialize().unwrap_or_default();
        if metadata.get("prepare") == Some(&Value::Bool(true)) {
            return Ok(Chosen::None("only the prompt was asked for"));
        }
        if let Some(program) = &skill.program {
            return Ok(Chosen::Program(program));
        }
        let Some(wanted) = &request.llm_override else {
            return Ok(match self.models.find(&self.settings.model) {
                Some(model) => Chosen::Model(Arc::clone(model)),
                None => Chosen::None("no model is configured"),
            });
        };
        let text = |object: &Object<'_>, name: &str| {
            let value: Value = object.raw().deserialize().unwrap_or_default();
            value.get(name)?.as_str().map(str::to_owned)
        };
        let key = text(&wanted.provider_credentials, "api_key");
        let model = wanted.provider_config.as_ref();
        let model = model.and_then(|config| text(config, "model"));
        let known = self.models.find(&wanted.provider_name);
        let other = known.and_then(|known| known.overridden(key.as_deref(), model.as_deref()));
        match other {
            Some(other) => Ok(Chosen::Model(Arc::new(other))),
            None => Err(Failed::new(
                "llm_override_denied",
                format!(
                    "`llm_override` must name a model that the operator opens for that \
                     (`allow_override: true`); there are: {}",
                    self.models.open().join(", ")
                ),
            )),
        }
    }

    /// Has a model follow the instructions.
    pub(super) async fn follow(
        &self,
        model: &Model,
        skill: &Skill,
        prompt: String,
        given: &Given,
        telling: &Telling,
    ) -> Result<Value, Failed> {
        let offered = |(name, tool): (&String, &ToolDefinition<'_>)| Offered {
            name: name.clone(),
            description: tool.description.clone().into_owned(),
            schema: schema_of(tool),
        };
        let tools: Vec<Offered> = given.tools.iter().map(offered).collect();
        let own = skill
            .front
            .max_turns
            .and_then(|turns| usize::try_from(turns).ok());
        let spent = Spent::new(model.max_tokens());
        let talk = Talk {
            model,
            tools: &tools,
            max_turns: own.map_or(self.settings.max_turns, |own| {
                own.min(self.settings.max_turns)
            }),
            spent: &[&spent],
        };
        let started = json!({"model": model.name(), "tools": given.names()});
        telling.tell("llm.started", started).await;
        let hands = SkillHands { skill, telling };
        let done = talk.run(messages(skill, prompt), &hands).await;
        let done = done.map_err(|ModelError { code, message, .. }| Failed::new(code, message))?;
        let told = json!({"turns": done.turns, "tokens": done.tokens, "tool_calls": done.calls});
        telling.tell("llm.completed", told).await;
        let mut data = json!({"text": done.text, "turns": done.turns, "tokens": done.tokens,
            "tool_calls": done.calls});
        // A skill that says what it gives is asked for JSON by its own instructions.
        let output = serde_json::from_str(done.text.trim());
        if let (Ok(output @ Value::Object(_)), Some(data)) = (output, data.as_object_mut()) {
            data.insert("output".into(), output);
        }
        Ok(data)
    }
}

fn messages(skill: &Skill, prompt: String) -> Vec<Value> {
    let mut messages = Vec::new();
    if !skill.files.is_empty() {
        let names: Vec<&str> = skill.files.keys().map(String::as_str).collect();
        let text = format!(
            "These files go with the instructions; `{READ}` reads one: {}",
            names.join(", ")
        );
        messages.push(json!({"role": "system", "content": text}));
    }
    messages.push(json!({"role": "user", "content": prompt}));
    messages
}

impl Hands for SkillHands<'_> {
    fn token(&self, text: String) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.telling.token(text).await;
        })
    }

    /// In the name of the agent that called the skill: decided about and put on record like its own.
    fn call(
        &self,
        name: String,
        mut arguments: Map<String, Value>,
    ) -> BoxFuture<'_, Result<Value, String>> {
        Box::pin(async move {
            if name == READ {
                // Its own files, whatever it asks for.
                arguments.insert("skill".to_owned(), json!(self.skill.name()));
            }
            let started = json!({ "tool": name });
            self.telling.tell("tool.started", started).await;
            let request = ToolCallRequest {
                tool_name: name.clone().into(),
                arguments: Object::from_serialize(&arguments).unwrap_or_default(),
                timeout: TOOL_SECONDS,
                ..ToolCallRequest::new()
            };
            let outcome = match self.telling.context().ask(request).await {
                Ok(Body::ToolCallResponse(response)) => called(response.data),
                Ok(_) => Err("the host gave no result".to_owned()),
                Err(failure) => Err(format!("{}: {}", failure.code, failure.message)),
            };
            let ended = json!({"tool": name, "success": outcome.is_ok()});
            self.telling.tell("tool.completed", ended).await;
            outcome
        })
    }
}

//! The skills of a host, as prompts.

use a2e_runtime::ClientError;
use a2e_wire::messages::skill::{
    SkillCallRequest, SkillDefinition, SkillDiscoverRequest, SkillStatus,
};
use a2e_wire::{Capability, ErrorCode, Object};
use rmcp::ErrorData;
use rmcp::model::{GetPromptResult, JsonObject, Prompt, PromptArgument, PromptMessage, Role};
use serde_json::{Value, json};

use super::behind;
use super::session::{Refusal, Session};

/// All skills that can be called, and the prompts of servers behind the host.
pub(super) async fn list(session: &Session) -> Result<Vec<Prompt>, ErrorData> {
    let mut prompts = skills(session).await?;
    for prompt in behind::prompts(session).await {
        if !prompts.iter().any(|known| known.name == prompt.name) {
            prompts.push(prompt);
        }
    }
    Ok(prompts)
}

async fn skills(session: &Session) -> Result<Vec<Prompt>, ErrorData> {
    if !session.has(&Capability::Skill) {
        return Ok(Vec::new());
    }
    let request = session.client.request(SkillDiscoverRequest::new());
    let skills = request.await.map_err(Refusal::from)?.skills;
    let can_be_called = skills.iter().filter(|it| it.status != SkillStatus::Blocked);
    Ok(can_be_called.map(listed_as).collect())
}

/// What a skill says, with these arguments in their places; a prompt of a server, if there is no such
/// skill.
pub(super) async fn get(
    session: &Session,
    name: String,
    arguments: JsonObject,
) -> Result<GetPromptResult, ErrorData> {
    let unknown = || ErrorData::invalid_params(format!("there is no prompt `{name}`"), None);
    if !session.has(&Capability::Skill) {
        return behind::get(session, &name, &arguments, unknown()).await;
    }
    let members = Object::from_serialize(&arguments)
        .map_err(|error| ErrorData::invalid_params(error.to_string(), None))?;
    let request = SkillCallRequest {
        name: name.clone().into(),
        arguments: members,
        streaming: false,
        // The client has a model of its own.
        metadata: Object::from_serialize(&json!({"prepare": true})).unwrap_or_default(),
        ..SkillCallRequest::new()
    };
    let called = match session.client.request(request).await {
        Ok(called) => called,
        Err(ClientError::Host(error)) if error.code == ErrorCode::UnknownSkill => {
            return behind::get(session, &name, &arguments, unknown()).await;
        }
        Err(error) => return Err(Refusal::from(error).into()),
    };
    if let Some(error) = called.error {
        return Err(ErrorData::invalid_params(error.message.into_owned(), None));
    }
    let data = called.data.and_then(|result| result.data);
    let data = data.and_then(|data| data.deserialize::<Value>().ok());
    let text = text_of(data.unwrap_or_default());
    let message = PromptMessage::new_text(Role::User, text);
    Ok(GetPromptResult::new(vec![message]))
}

/// The prepared prompt; whatever a skill gives instead, as it is.
fn text_of(data: Value) -> String {
    match data {
        Value::String(text) => text,
        Value::Object(members) => match members.get("prompt").and_then(Value::as_str) {
            Some(prompt) => prompt.to_owned(),
            None => Value::Object(members).to_string(),
        },
        other => other.to_string(),
    }
}

fn listed_as(skill: &SkillDefinition<'_>) -> Prompt {
    let schema: Value = skill.input_schema.raw().deserialize().unwrap_or_default();
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    let described = |name: &str| schema["properties"][name]["description"].as_str();
    let argument = |name: &str| {
        let mut argument = PromptArgument::new(name);
        argument.description = described(name).map(str::to_owned);
        argument.with_required(required.contains(&name.into()))
    };
    let named = skill.arguments.iter().flatten().map(|name| &**name);
    let mut names: Vec<&str> = named.collect();
    let members = schema["properties"].as_object();
    let members = members.into_iter().flat_map(|members| members.keys());
    for name in members {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    let arguments: Vec<_> = names.into_iter().map(argument).collect();
    Prompt::new(
        skill.name.clone().into_owned(),
        Some(skill.description.clone().into_owned()),
        (!arguments.is_empty()).then_some(arguments),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_skill_prepares_is_the_prompt() {
        assert_eq!(text_of(json!("Do it")), "Do it");
        assert_eq!(text_of(json!({"prompt": "Do it", "tools": []})), "Do it");
        assert_eq!(text_of(json!({"answer": 1})), r#"{"answer":1}"#);
    }
}

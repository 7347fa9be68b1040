//! `frith skill`: prepared instructions of a node.

mod inputs;

use std::path::PathBuf;
use std::time::Duration;

use a2e_caps::skills::{Checked, check};
use a2e_runtime::{CallOptions, Calling, Client, Handler};
use a2e_wire::messages::skill::{
    SkillCallRequest, SkillDefinition, SkillDiscoverRequest, SkillResult,
};
use a2e_wire::{Body, Message, Object};
use anyhow::{Context, Result, bail};
use clap::Subcommand;
use serde_json::{Value, json};

use crate::Outcome;
use crate::agent::{block_on, error_json, print, print_json};
use crate::connect;
use crate::plan::print_all;
use crate::screen::{self, one_line, plain};

#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Action,

    #[command(flatten)]
    host: connect::Arguments,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List the skills of a node, or those that fit some words, the best first
    List {
        /// Words to look for in names, triggers, tags, categories and descriptions
        query: Vec<String>,
    },
    /// Show a skill: what it says of itself, its instructions and its files
    Show {
        /// Its name
        name: String,
    },
    /// Run a skill; without a model, prints the prompt that it prepares
    Run {
        /// Its name
        name: String,

        /// Its inputs: a JSON object; or a text, which is its only input, or the first that it needs
        #[arg(default_value = "{}")]
        arguments: String,

        /// Show events as they come
        #[arg(long)]
        events: bool,

        /// Only prepare the prompt, although there is a model
        #[arg(long)]
        prepare: bool,

        /// Seconds it may take
        #[arg(long, default_value_t = 600)]
        timeout: u32,
    },
    /// Say what is wrong with the skills of a folder; needs no node
    Check {
        /// Folders of skills, or skills
        #[arg(required = true)]
        folders: Vec<PathBuf>,
    },
}

pub(crate) fn run(arguments: &Arguments, as_json: bool) -> Result<Outcome> {
    if let Action::Check { folders } = &arguments.action {
        return check_all(folders, as_json);
    }
    block_on(async {
        let capabilities = ["skill", "tools"];
        let connection = arguments.host.connect_elsewhere(&capabilities).await?;
        connection.must_have("skill")?;
        let done = act(&arguments.action, &connection.client, as_json).await;
        connection.close().await;
        done
    })
}

async fn act(action: &Action, client: &Client, as_json: bool) -> Result<Outcome> {
    match action {
        Action::List { query } => list(client, &query.join(" "), as_json).await,
        Action::Show { name } => show(client, name, as_json).await,
        Action::Run { .. } => call(client, action, as_json).await,
        Action::Check { folders } => check_all(folders, as_json),
    }
}

async fn discover(client: &Client) -> Result<Vec<SkillDefinition<'static>>> {
    let found = client.request(SkillDiscoverRequest::new()).await;
    Ok(found.context("cannot list the skills")?.skills)
}

async fn list(client: &Client, query: &str, as_json: bool) -> Result<Outcome> {
    let mut skills = discover(client).await?;
    let query = query.trim();
    if !query.is_empty() {
        let found = tool(client, "search_skills", &json!({ "query": query })).await?;
        let found = found["skills"].as_array().cloned().unwrap_or_default();
        let place = |skill: &SkillDefinition<'_>| {
            let mut found = found.iter();
            found.position(|it| it["name"].as_str() == Some(&*skill.name))
        };
        skills.retain(|skill| place(skill).is_some());
        skills.sort_by_key(place);
    }
    if as_json {
        print_all(&skills)?;
        return Ok(Outcome::Good);
    }
    if skills.is_empty() {
        let what = if query.is_empty() {
            "there is no skill"
        } else {
            "no skill fits"
        };
        print(&format_args!(
            "{what}; skills are folders with a SKILL.md (see `folders` of `type: skills`)"
        ))?;
    }
    for skill in &skills {
        let (name, text) = (plain(&skill.name), one_line(&skill.description));
        match reason(skill) {
            Some(reason) => print(&format!("{name:24} BLOCKED: {}", one_line(&reason)))?,
            None => print(&format!("{name:24} {text}").trim_end())?,
        }
    }
    Ok(Outcome::Good)
}

/// Why a skill cannot be called.
fn reason(skill: &SkillDefinition<'_>) -> Option<String> {
    let metadata = skill.metadata.as_ref()?;
    let metadata: Value = metadata.raw().deserialize().ok()?;
    let reason = metadata["reason"].as_str()?;
    (skill.status == a2e_wire::messages::skill::SkillStatus::Blocked).then(|| reason.to_owned())
}

async fn tool(client: &Client, name: &str, arguments: &Value) -> Result<Value> {
    let result = client
        .tools()
        .call(name, arguments, Calling::default())
        .await?;
    match result.data {
        Some(data) => Ok(data.deserialize()?),
        None => Ok(Value::Null),
    }
}

async fn show(client: &Client, name: &str, as_json: bool) -> Result<Outcome> {
    let skills = discover(client).await?;
    let Some(skill) = skills.iter().find(|skill| *skill.name == *name) else {
        bail!("there is no skill `{name}`; `frith skill list` lists all");
    };
    let mut told: Value = Object::from_record(skill)?.raw().deserialize()?;
    if let Some(reason) = reason(skill) {
        match as_json {
            true => print_json(&told)?,
            false => print(&format!("{name} is blocked: {}", plain(reason)))?,
        }
        return Ok(Outcome::Bad);
    }
    let read = tool(client, "read_skill_file", &json!({ "skill": name })).await?;
    if as_json {
        told["instructions"] = read["text"].clone();
        print_json(&told)?;
        return Ok(Outcome::Good);
    }
    print(&format!("{} {}", plain(&skill.name), plain(&skill.version)))?;
    for (label, text) in [
        ("what", &*skill.description),
        ("when", &*skill.when_to_use),
        ("arguments", &*skill.argument_hint),
    ] {
        if !text.is_empty() {
            print(&format!("{label:10} {}", one_line(text)))?;
        }
    }
    show_inputs(skill)?;
    let list = |value: &Value| {
        let words = value.as_array().into_iter().flatten();
        words
            .filter_map(Value::as_str)
            .collect::<Vec<_>>()
            .join(", ")
    };
    let program = told["metadata"]["run"].as_str();
    for (label, words) in [
        ("tools", list(&told["tools"])),
        ("toolkits", list(&told["toolkits"])),
        ("files", list(&read["files"])),
        ("runs", program.unwrap_or_default().to_owned()),
    ] {
        if !words.is_empty() {
            print(&format!("{label:10} {}", one_line(&words)))?;
        }
    }
    print(&format!("\n{}", read["text"].as_str().unwrap_or_default()))?;
    Ok(Outcome::Good)
}

/// What it takes, a line each.
fn show_inputs(skill: &SkillDefinition<'_>) -> Result<()> {
    for (number, input) in inputs::inputs(skill).iter().enumerate() {
        let label = if number == 0 { "inputs" } else { "" };
        let need = if input.is_required { ", required" } else { "" };
        let (name, text) = (plain(&input.name), one_line(&input.description));
        let line = format!("{label:10} {name} ({}{need}) {text}", plain(&input.kind));
        print(&line.trim_end())?;
    }
    Ok(())
}

/// What a skill is run with: an object as it is, a text as the input that it is meant for.
async fn given(client: &Client, name: &str, arguments: &str) -> Result<Value> {
    if let Ok(value @ Value::Object(_)) = serde_json::from_str(arguments) {
        return Ok(value);
    }
    let skills = discover(client).await?;
    let Some(skill) = skills.iter().find(|skill| *skill.name == *name) else {
        // The host knows what was meant.
        return Ok(json!({ inputs::ARGS: arguments }));
    };
    let inputs = inputs::inputs(skill);
    match inputs::for_text(&inputs) {
        Some(input) => Ok(json!({ input: arguments })),
        None if inputs.is_empty() => Ok(json!({ inputs::ARGS: arguments })),
        None => bail!(
            "nobody knows which input of `{name}` this text is; give them as JSON, such as \
             '{{\"{}\": …}}' (`frith skill show {name}` lists them)",
            inputs.first().map_or(inputs::ARGS, |input| &*input.name)
        ),
    }
}

async fn call(client: &Client, action: &Action, as_json: bool) -> Result<Outcome> {
    let Action::Run {
        name,
        arguments,
        events,
        prepare,
        timeout,
    } = action
    else {
        return Ok(Outcome::Bad);
    };
    let given = given(client, name, arguments).await?;
    let request = SkillCallRequest {
        name: name.clone().into(),
        arguments: Object::from_serialize(&given)?,
        timeout: (*timeout).into(),
        metadata: Object::from_serialize(&json!({ "prepare": prepare }))?,
        ..SkillCallRequest::new()
    };
    let options = CallOptions {
        timeout: Duration::from_secs(u64::from(*timeout).saturating_add(5)),
        event_callback: match events {
            true => Handler::new(|event: Message<'static>| tell(&event)),
            false => Handler::none(),
        },
    };
    let response = match client.rpc(request, options).await {
        Err(error) if as_json => {
            print_json(&error_json(&error)?)?;
            return Ok(Outcome::Bad);
        }
        response => response?,
    };
    let Body::SkillCallResponse(response) = response.body else {
        bail!("the host answered with `{}`", response.type_name());
    };
    let result = response.data.context("the host gave no result")?;
    shown(&result, as_json)
}

/// An event, for whoever watches.
fn tell(event: &Message<'_>) {
    if let Body::SkillEvent(event) = &event.body {
        let data = one_line(event.data.raw().as_str());
        tell!("{:>4} {} {data}", event.seq, plain(event.kind.as_str()));
    }
}

fn shown(result: &SkillResult<'_>, as_json: bool) -> Result<Outcome> {
    let data: Value = match &result.data {
        Some(data) => data.deserialize()?,
        None => Value::Null,
    };
    if as_json {
        let told = json!({"success": result.success, "data": data, "error": result.error,
            "error_code": result.error_code});
        print_json(&told)?;
    } else if let Some(error) = &result.error {
        bail!("the skill failed: {}", plain(error));
    } else {
        let text = data["text"].as_str().or_else(|| data["prompt"].as_str());
        match text.or_else(|| data.as_str()) {
            Some(text) => print(&text)?,
            None => print(&screen::json(&format!("{data:#}")))?,
        }
    }
    Ok(match result.success {
        true => Outcome::Good,
        false => Outcome::Bad,
    })
}

fn check_all(folders: &[PathBuf], as_json: bool) -> Result<Outcome> {
    let mut checked: Vec<Checked> = Vec::new();
    for folder in folders {
        if !folder.is_dir() {
            bail!(
                "{} is no folder; name one with skills in it, or a skill",
                folder.display()
            );
        }
        checked.extend(check(folder));
    }
    if as_json {
        let told = |it: &Checked| json!({"name": it.name, "path": it.path, "problem": it.problem});
        print_json(&checked.iter().map(told).collect::<Vec<_>>())?;
    } else {
        for Checked {
            name,
            path,
            problem,
        } in &checked
        {
            match problem {
                Some(problem) => print(&format!("{path}: {problem}"))?,
                None => print(&format!("{path}: `{name}` is good"))?,
            }
        }
        if checked.is_empty() {
            print(&"there are no skills: no folder there has a SKILL.md or skill.md")?;
        }
    }
    let is_good = !checked.is_empty() && checked.iter().all(|it| it.problem.is_none());
    Ok(match is_good {
        true => Outcome::Good,
        false => Outcome::Bad,
    })
}

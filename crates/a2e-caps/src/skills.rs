//! The capability `skill`: prepared instructions, with the tools they need.
//!
//! A skill is a folder with a `SKILL.md` (Agent Skills) or a `skill.md` (A2E). Agents see what it says
//! of itself first, its instructions when they call it, and what goes with it when they read that.
//! What a skill says is pinned: a changed one is blocked until the operator approves it.

mod front;
mod needs;
mod program;
mod prompt;
mod run;
mod shelf;
mod skill;
mod telling;
mod tools;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use a2e_runtime::{
    BoxFuture, Context, Failure, Outcome, Plugin, Resolution, Serves, Session, nearest,
};
use a2e_wire::messages::skill::{
    SkillCallRequest, SkillCallResponse, SkillDefinition, SkillDiscoverRequest,
    SkillDiscoverResponse, SkillResult,
};
use a2e_wire::wire::encoded_size;
use a2e_wire::{Body, Capability, ErrorCode, Message, MessageId, Namespace, Raw, Tag};
use canonical::Digest;
use serde_json::{Map, Value, json};

use crate::model::Models;
use crate::placement::{Placement, placed};
use crate::tool::{Arguments, DefinitionError, Tool};
use crate::tools::{now, violated};

use needs::Given;
use run::Chosen;
use skill::Skill;
use telling::Telling;

pub use front::{MAX_DESCRIPTION, MAX_FRONT, MAX_NAME};
pub use program::{MAX_OUTPUT, Programs};
pub use prompt::MAX_PROMPT;
pub use shelf::{MAX_SKILLS, Shelf};
pub use skill::{MAX_FILE_BYTES, MAX_FILES, MAX_SKILL};
pub use telling::MAX_KEPT_EVENTS;
pub use tools::MAX_READ;

/// Bytes of the skills in one answer; the rest is left out, and found by tags and categories.
pub const MAX_LISTED_BYTES: usize = 1024 * 1024;

/// The plugin.
#[derive(Debug)]
pub struct Skills {
    shelf: Arc<Shelf>,
    models: Arc<Models>,
    settings: Settings,
    programs: Option<Programs>,
}

/// How the plugin is configured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Where it stands among plugins.
    pub placement: Placement,
    /// The model that skills are run with, by its name.
    pub model: String,
    /// How often it may be asked for one call, unless the skill says less.
    pub max_turns: usize,
    /// How long a call may take, unless the skill or the agent says less.
    pub timeout: Duration,
}

/// Why a skill has no result.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Failed {
    code: String,
    message: String,
}

/// A call that may be made.
struct Asked {
    skill: Arc<Skill>,
    arguments: Arguments,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            placement: Placement::named("skills"),
            model: "default".to_owned(),
            max_turns: 20,
            timeout: Duration::from_secs(600),
        }
    }
}

impl Skills {
    /// A plugin for the skills of a shelf, which these models follow.
    #[must_use]
    pub const fn new(shelf: Arc<Shelf>, models: Arc<Models>, settings: Settings) -> Self {
        Self {
            shelf,
            models,
            settings,
            programs: None,
        }
    }

    /// The same, which can run skills that are programs.
    #[must_use]
    pub fn running(mut self, programs: Programs) -> Self {
        self.programs = Some(programs);
        self
    }

    async fn discover(
        &self,
        request: &SkillDiscoverRequest<'_>,
        agent: &str,
    ) -> Result<SkillDiscoverResponse<'static>, Failure> {
        let snapshot = self.shelf.current().await?;
        let fits = |skill: &&Arc<Skill>| {
            let front = &skill.front;
            let (tags, categories) = (&request.filter_tags, &request.filter_categories);
            let has_tag = |tag: &String| tags.iter().any(|it| it.eq_ignore_ascii_case(tag));
            let is_in = |it: &String| categories.iter().any(|one| one.eq_ignore_ascii_case(it));
            (tags.is_empty() || front.tags.iter().any(has_tag))
                && (categories.is_empty() || front.category.as_ref().is_some_and(is_in))
        };
        let skills = snapshot.all().iter().filter(fits).collect();
        let skills = self.shelf.ranked(agent, "", skills).into_iter();
        // Each is made when it is known that those before leave room.
        let mut left = Some(MAX_LISTED_BYTES);
        let fits = |skill: &SkillDefinition<'_>| {
            left = left.and_then(|left| left.checked_sub(encoded_size(skill)));
            left.is_some()
        };
        let skills: Vec<_> = skills.map(|it| it.definition()).take_while(fits).collect();
        Ok(SkillDiscoverResponse { skills })
    }

    async fn call(
        &self,
        id: &MessageId<'static>,
        request: SkillCallRequest<'static>,
        context: Context,
    ) -> Result<SkillCallResponse<'static>, Failure> {
        let started = Instant::now();
        let asked = self.asked(&request, context.resolved::<Skill>()).await?;
        let telling = Telling::new(context, asked.skill.name(), request.streaming);
        let limit = self.limit(&asked.skill, request.timeout);
        let run = tokio::time::timeout(limit, self.run(&asked, &request, &telling)).await;
        let outcome = run.unwrap_or_else(|_| {
            let text = format!("it took longer than {} s", limit.as_secs());
            Err(Failed::new("timeout", text))
        });
        let took = i64::try_from(started.elapsed().as_millis()).unwrap_or(i64::MAX);
        let result = match outcome {
            Ok(data) => {
                let told = json!({ "duration_ms": took });
                telling.tell("skill.completed", told).await;
                SkillResult {
                    data: Raw::from_serialize(&data).ok(),
                    summary: Raw::from_serialize("ok").ok(),
                    events: telling.take_kept(id),
                    ..SkillResult::new(true, took)
                }
            }
            Err(Failed { code, message }) => {
                let told = json!({"error": message, "error_code": code});
                telling.tell("skill.failed", told).await;
                SkillResult {
                    error: Some(message.into()),
                    error_code: Some(code.into()),
                    events: telling.take_kept(id),
                    ..SkillResult::new(false, took)
                }
            }
        };
        Ok(SkillCallResponse {
            name: request.name,
            ..SkillCallResponse::new(Some(result), now())
        })
    }

    /// The skill that is called, if it can be, with arguments that fit it.
    async fn asked(
        &self,
        request: &SkillCallRequest<'static>,
        approved: Option<Arc<Skill>>,
    ) -> Result<Asked, Failure> {
        let snapshot = self.shelf.current().await?;
        // A call that the operator has approved is of the skill that was approved.
        let Some(skill) = approved.as_ref().or_else(|| snapshot.find(&request.name)) else {
            let names = snapshot.all().iter().map(|skill| skill.name());
            return Err(unknown(&request.name, nearest(&request.name, names)));
        };
        let (Some(schema), None) = (&skill.input, &skill.blocked) else {
            let reason = skill.blocked.as_deref().unwrap_or_default();
            let text = format!("the skill `{}` cannot be called: {reason}", skill.name());
            let mut failure = Failure::new(ErrorCode::SkillError, Namespace::Skill, text);
            failure.retryable = false;
            return Err(failure);
        };
        let arguments = schema.arguments(request.arguments.clone().into_raw());
        let arguments = arguments.map_err(|violations| {
            let what = format!("the arguments of `{}` are not what it takes", skill.name());
            violated(Namespace::Skill, &what, &violations)
        })?;
        Ok(Asked {
            skill: Arc::clone(skill),
            arguments,
        })
    }

    /// How long a call may take: as long as the strictest of the three says.
    fn limit(&self, skill: &Skill, asked: i64) -> Duration {
        let seconds = |seconds: i64| u64::try_from(seconds).ok().filter(|it| *it > 0);
        let own = skill.front.timeout_seconds.and_then(seconds);
        let asked = seconds(asked);
        let limits = own.into_iter().chain(asked).map(Duration::from_secs);
        limits
            .chain([self.settings.timeout])
            .min()
            .unwrap_or_default()
    }

    async fn run(
        &self,
        asked: &Asked,
        request: &SkillCallRequest<'static>,
        telling: &Telling,
    ) -> Result<Value, Failed> {
        let skill = &asked.skill;
        let none = Map::new();
        let arguments = asked.arguments.value().as_object().unwrap_or(&none);
        let named = skill.front.tools.iter().chain(&skill.front.allowed);
        let started = json!({"arguments": arguments, "tools": named.collect::<Vec<_>>()});
        telling.tell("skill.started", started).await;
        telling.tell("skill.preparing", json!({})).await;
        let given = needs::find(telling.context(), skill).await?;
        let prompt = prompt::fill(&skill.body, arguments);
        let prompt = prompt.map_err(|text| Failed::new("prompt_too_long", text))?;
        let ready = json!({"prompt_preview": prompt::preview(&prompt),
            "tools": given.names(), "missing_tools": given.missing});
        telling.tell("skill.prompt.ready", ready).await;
        match self.chosen(skill, request)? {
            Chosen::Program(program) => self.run_program(program, asked, telling).await,
            Chosen::Model(model) => self.follow(&model, skill, prompt, &given, telling).await,
            Chosen::None(reason) => {
                telling
                    .tell("llm.skipped", json!({ "reason": reason }))
                    .await;
                Ok(prepared(skill, &prompt, &given))
            }
        }
    }
}

/// What an agent gets that follows the instructions itself.
fn prepared(skill: &Skill, prompt: &str, given: &Given) -> Value {
    let files: Vec<&String> = skill.files.keys().collect();
    json!({"prompt": prompt, "tools": given.described(), "files": files})
}

fn unknown(name: &str, meant: Option<&str>) -> Failure {
    let name: String = name.chars().take(64).collect();
    let hint = match meant {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => "`skill/discover/req` lists those there are".to_owned(),
    };
    let text = format!("there is no skill `{name}`; {hint}");
    Failure::new(ErrorCode::UnknownSkill, Namespace::Skill, text)
}

impl Failed {
    fn new(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            code: code.into(),
            message: message.into(),
        }
    }

    fn of(failure: &Failure) -> Self {
        Self::new(failure.code.as_str(), &*failure.message)
    }
}

/// A skill that somebody has looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checked {
    /// Its name.
    pub name: String,
    /// Where it is, below the folder that was looked at.
    pub path: String,
    /// What is wrong with it.
    pub problem: Option<String>,
}

/// Looks at the skills of a folder, or at the one that the folder is.
#[must_use]
pub fn check(folder: &Path) -> Vec<Checked> {
    let checked = |skill: Skill| Checked {
        name: skill.front.name,
        path: skill.path,
        problem: skill.blocked,
    };
    let found = match skill::file_of(folder) {
        Some((file, form)) => vec![Skill::read(folder, &file, form)],
        None => shelf::read(&[folder.to_owned()]),
    };
    found.into_iter().map(checked).collect()
}

impl Shelf {
    /// The tools that find skills and read what goes with them.
    ///
    /// # Errors
    /// If a definition cannot be used, which nothing can bring about.
    pub fn tools(self: &Arc<Self>) -> Result<Vec<Arc<dyn Tool>>, DefinitionError> {
        tools::tools(self)
    }
}

impl Plugin for Skills {
    placed!(settings.placement);

    fn capability(&self) -> Option<Capability<'static>> {
        Some(Capability::Skill)
    }

    fn serves(&self) -> Serves {
        Serves::Tags(vec![Tag::SkillDiscoverRequest, Tag::SkillCallRequest])
    }

    fn resolve<'a>(
        &'a self,
        request: &'a Message<'static>,
        _session: &'a Arc<Session>,
    ) -> BoxFuture<'a, Result<Option<Resolution>, Failure>> {
        Box::pin(async move {
            let Body::SkillCallRequest(call) = &request.body else {
                return Ok(None);
            };
            let snapshot = self.shelf.current().await?;
            let found = snapshot.find(&call.name).map(|skill| {
                let digest = Digest::of(skill.text.as_bytes());
                let shown = json!({"source": "skills", "skill": skill.path});
                Resolution::default()
                    .target(digest, shown)
                    .object(Arc::clone(skill))
            });
            Ok(found)
        })
    }

    fn handle(
        &self,
        request: Box<Message<'static>>,
        context: Context,
    ) -> BoxFuture<'_, Result<Outcome, Failure>> {
        Box::pin(async move {
            #[expect(clippy::wildcard_enum_match_arm, reason = "nothing else is served")]
            match request.body {
                Body::SkillDiscoverRequest(asked) => {
                    let agent = &context.identity().agent;
                    self.discover(&asked, agent).await.map(Outcome::answer)
                }
                Body::SkillCallRequest(call) => {
                    let called = self.call(&request.envelope.id, call, context).await;
                    called.map(Outcome::answer)
                }
                _ => Ok(Outcome::Pass),
            }
        })
    }
}

//! `frith env play`: an episode by hand.

use std::io::{IsTerminal, Write};

use a2e_runtime::{Client, ClientError};
use a2e_wire::messages::env::{
    EnvCloseRequest, EnvObservation, EnvPlanRequest, EnvRenderMode, EnvRenderRequest,
    EnvResetRequest, EnvSpaceRequest, EnvStepRequest,
};
use a2e_wire::{EpisodeId, Object};
use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::actions::Actions;
use super::keys::{Keyboard, Wish};
use super::{PATIENCE, is_unserved, value};
use crate::Outcome;
use crate::agent::{block_on, print};
use crate::{connect, screen};

#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Arguments {
    /// The environment; `frith env list` lists them
    name: String,

    /// Where chance comes from: with the same seed the same episode
    #[arg(long)]
    seed: Option<i64>,

    /// How the episode begins, a JSON object
    #[arg(long, default_value = "{}", value_name = "JSON")]
    options: String,

    #[command(flatten)]
    host: connect::Arguments,
}

/// An episode that is played.
struct Game<'a> {
    client: &'a Client,
    arguments: &'a Arguments,
    options: Object<'static>,
    as_json: bool,
    by_key: bool,
    episode: EpisodeId<'static>,
    total: f64,
    is_over: bool,
}

pub(crate) fn run(arguments: &Arguments, as_json: bool) -> Result<Outcome> {
    let Ok(options) = Object::parse(&arguments.options) else {
        let text = format!(
            "--options must be a JSON object, not `{}`",
            arguments.options
        );
        return Ok(Outcome::WrongArguments(text));
    };
    let options = a2e_wire::wire::ToStatic::to_static(options);
    block_on(async {
        let connection = arguments.host.connect(&["env"]).await?;
        let client = &connection.client;
        let space = EnvSpaceRequest::new(arguments.name.clone().into());
        let actions = match client.request(space).timeout(PATIENCE).await {
            Ok(space) => Actions::of(&value(space.action_space.raw())),
            Err(error) if is_unserved(&error) => {
                tell!("the host does not describe actions; each is a JSON object");
                Actions::of(&Value::Null)
            }
            Err(error) => return Err(error).context("cannot play it"),
        };
        let mut keyboard = Keyboard::new(actions.fit_keys());
        let mut game = Game {
            client,
            arguments,
            options,
            as_json,
            by_key: keyboard.is_by_key(),
            episode: EpisodeId::default(),
            total: 0.0,
            is_over: false,
        };
        let played = game.play(&actions, &mut keyboard).await;
        drop(keyboard);
        let closing = EnvCloseRequest::new(game.episode);
        // Without an episode there is nothing to close, and the session ends in any case.
        let _ = client.request(closing).await;
        connection.close().await;
        played.map(|()| Outcome::Good)
    })
}

impl Game<'_> {
    async fn play(&mut self, actions: &Actions, keyboard: &mut Keyboard) -> Result<()> {
        self.begin().await?;
        loop {
            // Whoever typed lines into a file wants to know how it ended, and no more.
            if self.is_over && !self.by_key {
                return Ok(());
            }
            match keyboard.next().await {
                Wish::End => return Ok(()),
                Wish::Again => self.begin().await?,
                _ if self.is_over => {}
                Wish::Suggestion => match self.suggestion().await? {
                    Some(action) => self.act(&action).await?,
                    None => self.say("the environment suggests nothing")?,
                },
                Wish::Act(text) => match actions.read(&text) {
                    Some(action) => self.act(&action).await?,
                    None => self.say(&actions.help())?,
                },
            }
        }
    }

    async fn begin(&mut self) -> Result<()> {
        let request = EnvResetRequest {
            seed: self.arguments.seed,
            options: self.options.clone(),
            ..EnvResetRequest::new(self.arguments.name.clone().into())
        };
        let begun = self.client.request(request).await;
        let observation = begun.context("cannot begin an episode")?.obs;
        self.episode = observation.episode_id.clone();
        (self.total, self.is_over) = (0.0, false);
        self.show(&observation).await
    }

    async fn act(&mut self, action: &Value) -> Result<()> {
        let Ok(action) = Object::from_serialize(action) else {
            return self.say("an action must be a JSON object");
        };
        let request = EnvStepRequest::new(self.episode.clone(), action);
        let observation = match self.client.request(request).await {
            Ok(response) => response.obs,
            // One that is not taken is no reason to end.
            Err(ClientError::Host(error)) => return self.say(&error.message),
            Err(error) => bail!("cannot take a step: {error}"),
        };
        self.total += observation.reward.map_or(0.0, |reward| reward.get());
        self.is_over = observation.done || observation.truncated;
        self.show(&observation).await
    }

    async fn suggestion(&self) -> Result<Option<Value>> {
        let request = EnvPlanRequest {
            episode_id: Some(self.episode.clone()),
            ..EnvPlanRequest::new()
        };
        let planned = match self.client.request(request).timeout(PATIENCE).await {
            Ok(planned) => planned,
            Err(error) if is_unserved(&error) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let first = planned.suggested_actions.first();
        Ok(first.map(|action| value(action.raw())))
    }

    async fn show(&self, observation: &EnvObservation<'_>) -> Result<()> {
        if self.as_json {
            let all = Object::from_record(observation)?;
            return print(&value(all.raw()));
        }
        let request = EnvRenderRequest {
            mode: Some(EnvRenderMode::Text),
            ..EnvRenderRequest::new(self.episode.clone())
        };
        let frame = match self.client.request(request).timeout(PATIENCE).await {
            Ok(rendered) => value(&rendered.render),
            Err(error) if is_unserved(&error) => value(observation.state.raw()),
            Err(error) => return Err(error.into()),
        };
        let frame = frame
            .as_str()
            .map_or_else(|| frame.to_string(), ToOwned::to_owned);
        let mut out = std::io::stdout().lock();
        if self.by_key && out.is_terminal() {
            write!(out, "\u{1b}[H\u{1b}[2J")?;
        }
        writeln!(out, "{}", screen::message(frame))?;
        let reward = observation.reward.map_or(0.0, |reward| reward.get());
        writeln!(
            out,
            "step {}  reward {reward}  in all {}",
            observation.step_num, self.total
        )?;
        let end = match (observation.truncated, self.by_key) {
            _ if !self.is_over => "",
            (true, false) => "cut off",
            (false, false) => "over",
            (true, true) => "cut off; R begins anew, q ends",
            (false, true) => "over; R begins anew, q ends",
        };
        if !end.is_empty() {
            writeln!(out, "{end}")?;
        }
        Ok(out.flush()?)
    }

    fn say(&self, text: &str) -> Result<()> {
        let mut err = std::io::stderr().lock();
        Ok(writeln!(err, "{}", screen::message(text))?)
    }
}

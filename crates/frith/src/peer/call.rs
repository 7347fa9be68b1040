//! `frith peer call`: have another agent do something.

use std::time::Duration;

use a2e_runtime::DataDir;
use a2e_runtime::operator::ask_telling;
use anyhow::Result;
use policy::IntentName;
use serde_json::{Value, json};

use super::advice;
use super::asked::{CALL, Call, Called, Part, Setback};
use crate::Outcome;
use crate::agent::{print, print_json};
use crate::screen::{self, plain};

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Its name in `frith peer list`, or its DID
    agent: String,

    /// What it is to do, such as frith.ping
    intent: String,

    /// The part of that which is sent as its domain; all labels before the last if it is left out
    #[arg(long)]
    domain: Option<String>,

    /// The inputs, as a JSON object
    #[arg(default_value = "{}")]
    inputs: String,

    /// Show parts of the answer as they come; nobody has signed them before the answer is whole
    #[arg(long)]
    stream: bool,

    /// How long it may take, in seconds
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=3600))]
    timeout: u64,

    /// Fail unless messages are encrypted inside TLS
    #[arg(long)]
    encrypt: bool,
}

/// What the node may take beyond the time of the call, to tell what came of it.
const BEYOND: Duration = Duration::from_secs(10);

pub(super) async fn run(dir: &DataDir, call: &Arguments, as_json: bool) -> Result<Outcome> {
    let inputs = match inputs(&call.inputs) {
        Ok(inputs) => inputs,
        Err(error) => return Ok(Outcome::WrongArguments(error)),
    };
    let timeout = Duration::from_secs(call.timeout);
    let timeout_ms = call.timeout.saturating_mul(1000);
    let mut constraints = json!({"timeout_ms": timeout_ms.min(300_000)});
    if call.stream {
        constraints["stream"] = json!(true);
    }
    let (domain, goal) = IntentName::split(&call.intent, call.domain.as_deref());
    let mut intent = json!({"goal": goal, "inputs": inputs, "constraints": constraints});
    if !domain.is_empty() {
        intent["domain"] = json!(domain);
    }
    let asked = Call {
        to: call.agent.clone(),
        intent,
        timeout_ms,
        encrypt: call.encrypt,
        stream: call.stream,
    };
    let told = |news: canonical::Value<'static>| {
        if let Ok(part) = news.deserialize_into::<Part>() {
            show_part(&part, as_json);
        } else if let Ok(setback) = news.deserialize_into::<Setback>() {
            show_setback(&setback, &call.agent, as_json);
        }
    };
    let patience = timeout.saturating_add(BEYOND);
    let called: Called = ask_telling(dir, CALL, &asked, patience, told).await?;
    if as_json {
        print_json(&called)?;
    }
    match called {
        Called {
            answered: Some(answered),
            ..
        } => {
            if !as_json {
                print(&screen::json(&serde_json::to_string_pretty(
                    &answered.result,
                )?))?;
                let session = &answered.session;
                let sealed = if session.encrypted { ", encrypted" } else { "" };
                tell!(
                    "verified: {} ({}, {} over {}{sealed})",
                    session.did,
                    session.trust_level,
                    session.binding,
                    session.transport
                );
            }
            if !answered.is_failure {
                return Ok(Outcome::Good);
            }
            if !as_json {
                tell!("the tool failed there");
            }
            Ok(Outcome::Bad)
        }
        Called {
            failed: Some(failed),
            ..
        } if !as_json => {
            tell!("{}", advice::told(&failed, &call.agent));
            Ok(Outcome::Bad)
        }
        Called { .. } => Ok(Outcome::Bad),
    }
}

/// The inputs, read as strictly as a peer would: a name twice could mean one thing here and another there.
fn inputs(text: &str) -> Result<Value, String> {
    let wrong = |error: &dyn std::fmt::Display| {
        format!("the inputs are not a JSON object such as '{{\"echo\": \"hello\"}}': {error}")
    };
    let tree = canonical::Value::parse(text.as_bytes()).map_err(|error| wrong(&error))?;
    if tree.as_object().is_none() {
        return Err(wrong(&"it is something else"));
    }
    let inputs = tree.into_owned().deserialize_into();
    inputs.map_err(|error| wrong(&error))
}

/// Whoever waits is told why.
fn show_setback(setback: &Setback, to: &str, as_json: bool) {
    if as_json {
        return tell!("{}", screen::json(&json!(setback).to_string()));
    }
    let seconds = setback.again_in_ms.div_ceil(1000);
    let (to, error) = (plain(to), plain(&setback.setback));
    tell!("{to} has not answered yet ({error}); trying again in {seconds} s");
}

/// Parts go to standard error: what is on standard output is signed.
fn show_part(part: &Part, as_json: bool) {
    match as_json {
        true => tell!("{}", screen::json(&json!({"part": part}).to_string())),
        false => tell!("{:>4} {}", part.index, plain(&part.data)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_are_read_as_a_peer_reads_them() {
        assert_eq!(inputs(r#"{"a":1}"#), Ok(json!({"a": 1})));
        for wrong in ["[1]", "1", "", r#"{"a":1,"a":2}"#, r#"{"a":{"b":1,"b":1}}"#] {
            let error = inputs(wrong).unwrap_err();
            assert!(error.contains("a JSON object such as"), "{wrong}: {error}");
        }
    }
}

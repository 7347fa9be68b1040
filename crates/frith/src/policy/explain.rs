//! `frith policy explain`.

use a2e_runtime::config::Config;
use anyhow::{Result, bail};
use audit::Entry;
use policy::RuleConfig;
use serde_json::{Value, json};

use super::recorded::{REPEAT, Recorded, each};
use super::{compile, file_name, possible};
use crate::Outcome;
use crate::agent::{print, print_json};
use crate::audit::folder_of;
use crate::configured::ConfigArguments;
use crate::data::DataArguments;
use crate::screen::{json, plain};

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The call: its number in the audit log, the id of the request, or that of its approval
    id: String,

    #[command(flatten)]
    config: ConfigArguments,

    #[command(flatten)]
    data: DataArguments,
}

/// A decision of the operator.
struct Decided {
    approval: String,
    is_approved: bool,
    reason: String,
    time: String,
}

/// What the configuration has of a rule that decided then.
enum Today {
    /// The same, with its text.
    Unchanged(String),
    /// Another of that name.
    Changed,
    /// None of that name.
    Removed,
    /// The record does not say what it was then.
    Unknown,
}

pub(super) fn run(arguments: &Arguments, as_json: bool) -> Result<Outcome> {
    let file = arguments.config.file()?;
    let config = arguments.config.load(file.as_deref())?;
    let (mut calls, mut decisions) = (Vec::new(), Vec::new());
    let id = arguments.id.as_str();
    each(&folder_of(&arguments.data)?, |entry| {
        let is = |name| entry.text(name) == Some(id);
        if let Some(decided) = Decided::read(&entry) {
            decisions.push(decided);
        } else if entry.seq.to_string() == id || is("request_id") || is("approval_id") {
            calls.extend(Recorded::read(entry));
        }
    })?;
    if calls.is_empty() {
        bail!(
            "the audit log has no call `{}` that rules decided about; `frith audit tail` shows numbers, \
             `--json` the ids of requests",
            plain(id)
        );
    }
    let mut items = Vec::new();
    for call in &calls {
        let decided = decisions
            .iter()
            .rev()
            .find(|it| it.approval == call.text("approval_id"));
        let today = Today::of(call, &config)?;
        match as_json {
            true => items.push(object(call, decided, &today)),
            false => show(call, decided, &today, file.as_deref().map(file_name))?,
        }
    }
    if as_json {
        print_json(&json!({"items": items, "next": null}))?;
    }
    Ok(Outcome::Good)
}

impl Decided {
    fn read(entry: &Entry) -> Option<Self> {
        if entry.event_type != "operator" || entry.text("name") != Some("approvals.decide") {
            return None;
        }
        let asked: Value = serde_json::from_str(entry.text("reason")?).ok()?;
        Some(Self {
            approval: asked.get("id")?.as_str()?.to_owned(),
            is_approved: asked.get("grant")?.as_bool()?,
            reason: asked
                .get("reason")
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned(),
            time: entry.timestamp.to_string(),
        })
    }
}

impl Today {
    fn of(call: &Recorded, config: &Config) -> Result<Self> {
        let label = &call.decided.rule;
        let Some(hash) = call.decided.hash else {
            return Ok(Self::Unknown);
        };
        let rules: Vec<(String, &RuleConfig)> = rules(config).collect();
        if let Some((_, rule)) = rules.iter().find(|(_, rule)| rule.hash() == hash) {
            return Ok(Self::Unchanged(serde_json::to_string(rule)?));
        }
        let is_it = |(place, rule): &(String, &RuleConfig)| {
            rule.id.as_ref().map_or(place == label, |id| id == label)
        };
        if rules.iter().any(is_it) {
            return Ok(Self::Changed);
        }
        // Not a rule, but a default.
        let named = (call.text("message_type"), call.text("name"));
        let now = possible(&compile(config)?, config, call.text("agent"), named);
        let mut same = now.iter().filter(|it| it.rule == *label);
        Ok(match same.next() {
            Some(it) if it.hash == Some(hash) => {
                Self::Unchanged(format!("{label}: {}", call.decided.decision))
            }
            Some(_) => Self::Changed,
            None => Self::Removed,
        })
    }

    const fn word(&self) -> &'static str {
        match self {
            Self::Unchanged(_) => "unchanged",
            Self::Changed => "changed",
            Self::Removed => "removed",
            Self::Unknown => "unknown",
        }
    }
}

/// All rules of a configuration, each with its place.
fn rules(config: &Config) -> impl Iterator<Item = (String, &RuleConfig)> {
    let agents = config.policy.agents.iter().enumerate();
    let agents = agents.map(|(index, agent)| (format!("agents[{index}].policy"), &agent.policy));
    let common = ("policy".to_owned(), &config.policy.common);
    [common]
        .into_iter()
        .chain(agents)
        .flat_map(|(place, section)| {
            let rules = section.rules.iter().enumerate();
            rules.map(move |(index, rule)| (format!("{place}.rules[{index}]"), rule))
        })
}

/// What became of the approval.
fn approval(call: &Recorded, decided: Option<&Decided>) -> Option<&'static str> {
    Some(match (call.approved?, decided) {
        (true, _) => "approved",
        (false, Some(decided)) if !decided.is_approved => "denied",
        (false, _) => "not given",
    })
}

fn object(call: &Recorded, decided: Option<&Decided>, today: &Today) -> Value {
    let mut object = json!({
        "seq": call.entry.seq, "time": call.entry.timestamp.to_string(),
        "request_id": call.text("request_id"), "agent": call.text("agent"),
        "message_type": call.text("message_type"), "name": call.text("name"),
        "decision": call.decided.decision, "rule": call.decided.rule,
        "status": call.text("response_status"), "rule_today": today.word(),
    });
    if let Some(outcome) = approval(call, decided) {
        let reason = decided
            .map(|it| &it.reason)
            .filter(|reason| !reason.is_empty());
        object["approval"] = json!({"id": call.text("approval_id"), "outcome": outcome,
            "reason": reason, "time": decided.map(|it| &it.time)});
    }
    if let Today::Unchanged(text) = today {
        object["rule_text"] = json!(text);
    }
    object
}

fn show(
    call: &Recorded,
    decided: Option<&Decided>,
    today: &Today,
    file: Option<String>,
) -> Result<()> {
    let text = |name| plain(call.text(name));
    print(&format!(
        "{}  {}  {} {} of {}",
        call.entry.timestamp,
        call.entry.seq,
        text("message_type"),
        text("name"),
        text("agent")
    ))?;
    let rule = plain(&call.decided.rule);
    print(&format!(
        "  decision  {} by `{rule}`",
        call.decided.decision
    ))?;
    if let Some(outcome) = approval(call, decided) {
        let when = decided
            .map(|it| format!(" at {}", it.time))
            .unwrap_or_default();
        let reason = decided
            .map(|it| plain(&it.reason))
            .filter(|it| !it.is_empty());
        let reason = reason.map(|it| format!(": {it}")).unwrap_or_default();
        print(&format!(
            "  approval  {} {outcome}{when}{reason}",
            text("approval_id")
        ))?;
    }
    print(&format!("  response  {}", text("response_status")))?;
    let file = file.unwrap_or_else(|| "the configuration".to_owned());
    let line = match today {
        Today::Unchanged(rule) => format!("unchanged in {file}: {}", json(rule)),
        Today::Changed => format!("has changed since; {file} has another of this name"),
        Today::Removed => format!("is not in {file} any more"),
        Today::Unknown if call.decided.rule == REPEAT => {
            "the same call came too often; no rule decides that alone".to_owned()
        }
        Today::Unknown => "the record does not say what the rule was then".to_owned(),
    };
    print(&format!("  rule      {line}"))
}

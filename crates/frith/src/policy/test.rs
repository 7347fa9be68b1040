//! `frith policy test`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use a2e_runtime::config::Config;
use a2e_runtime::{DEFAULT_AGENT, Identity, Policies};
use anyhow::{Context, Result};
use clap::ValueEnum;
use policy::{Effect, Glob, TrustLevel};
use serde::Serialize;
use serde_json::{Value, json};

use super::recorded::{REPEAT, Recorded, each};
use super::{Shown, compile, file_name, possible, texts};
use crate::Outcome;
use crate::agent::{print, print_json};
use crate::audit::folder_of;
use crate::configured::ConfigArguments;
use crate::data::DataArguments;
use crate::screen::{count, cut, one_line, plain};

#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Arguments {
    /// Try this call: the name of a tool, or an A2E request as JSON. Without it, the calls in the audit log
    #[arg(long, value_name = "TOOL|MESSAGE")]
    call: Option<String>,

    /// The arguments of the tool
    #[arg(long, value_name = "JSON", requires = "call", default_value = "{}")]
    arguments: String,

    /// The agent that makes the call; of recorded calls, only those of this agent
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,

    /// The DID that the agent has proved
    #[arg(long, requires = "call")]
    did: Option<String>,

    /// How much that DID is trusted
    #[arg(long, requires = "did", default_value = "self")]
    trust: Trust,

    /// Of recorded calls, only those of this capability
    #[arg(long, conflicts_with = "call")]
    capability: Option<String>,

    /// Of recorded calls, only those of this name, such as `write_*`
    #[arg(long, value_name = "PATTERN", conflicts_with = "call")]
    name: Option<String>,

    /// Show which decisions change with the rules of this configuration file
    #[arg(long, value_name = "FILE")]
    against: Option<PathBuf>,

    /// List recorded calls too that are decided as before
    #[arg(long, conflicts_with = "call")]
    all: bool,

    #[command(flatten)]
    config: ConfigArguments,

    #[command(flatten)]
    data: DataArguments,
}

const AFTER_HELP: &str = "\
Examples:
  frith policy test --call write_file --arguments '{\"path\": \"notes.txt\"}'
  frith policy test --call '{\"type\": \"memory/store/req\", \"entries\": []}' --agent ada
  frith policy test --agent ada --capability tools      # against what ada did
  frith policy test --against new.yaml                  # which decisions would change";

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Trust {
    #[value(name = "self")]
    Own,
    Delegated,
    Verified,
}

/// Rules, and the configuration that they stand in.
struct RuleSet {
    config: Config,
    policies: Policies,
    /// The file, as it is shown.
    file: String,
}

/// How two decisions compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
enum Change {
    Changed,
    DependsOnArguments,
    Same,
}

/// Recorded calls that rules cannot tell apart.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Kind {
    agent: String,
    capability: String,
    message_type: String,
    name: String,
    /// What was decided then, and by which rule, if that is of interest.
    decided: Option<(Effect, String)>,
}

/// The calls in an audit log.
#[derive(Debug, Default)]
struct RecordedCalls {
    /// How many there are of each kind, and when the last of them came.
    kinds: BTreeMap<Kind, (u64, String)>,
    /// How many were stopped as repetitions.
    repeats: u64,
    /// How many are of kinds beyond the limit.
    more: u64,
}

/// How many calls there are of each change.
#[derive(Debug, Serialize)]
struct Summary {
    changed: u64,
    depends_on_arguments: u64,
    same: u64,
    stopped_as_repetition: u64,
    not_listed: u64,
}

#[derive(Debug, Serialize)]
struct Row {
    change: Change,
    agent: String,
    capability: String,
    message_type: String,
    name: String,
    calls: u64,
    /// When the last of them came.
    last: String,
    before: Vec<Shown>,
    after: Vec<Shown>,
}

/// Kinds of calls; the rest is counted.
const MAX_KINDS: usize = 10_000;

pub(super) fn run(arguments: &Arguments, as_json: bool) -> Result<Outcome> {
    let file = arguments.config.file()?;
    let rules = RuleSet::load(&arguments.config, file.as_deref())?;
    let against = arguments.against.as_deref();
    let against = against.map(|file| RuleSet::load(&arguments.config, Some(file)));
    let against = against.transpose()?;
    match &arguments.call {
        Some(call) => match message(call, &arguments.arguments) {
            Ok(line) => given(arguments, &line, &rules, against.as_ref(), as_json),
            Err(text) => Ok(Outcome::WrongArguments(text)),
        },
        None => recorded(arguments, &rules, against.as_ref(), as_json),
    }
}

impl RuleSet {
    fn load(arguments: &ConfigArguments, file: Option<&Path>) -> Result<Self> {
        let config = arguments.load(file)?;
        let name = file.map_or_else(|| "no configuration file".to_owned(), file_name);
        let policies = compile(&config).with_context(|| name.clone())?;
        Ok(Self {
            config,
            policies,
            file: name,
        })
    }
}

/// The request that a call is.
fn message(call: &str, arguments: &str) -> Result<String, String> {
    let parse = |text: &str, what: &str| -> Result<Value, String> {
        let value = serde_json::from_str::<Value>(text);
        let value = value.map_err(|error| format!("{what} is no JSON: {error}"))?;
        match value.is_object() {
            true => Ok(value),
            false => Err(format!("{what} must be a JSON object")),
        }
    };
    let mut message = match call.trim_start().starts_with('{') {
        true => parse(call, "--call")?,
        false => json!({"type": "tool/call/req", "tool_name": call,
            "arguments": parse(arguments, "--arguments")?}),
    };
    if message.get("id").is_none() {
        message["id"] = json!("1");
    }
    Ok(message.to_string())
}

/// Tries the rules on a call that is given.
fn given(
    arguments: &Arguments,
    line: &str,
    rules: &RuleSet,
    against: Option<&RuleSet>,
    as_json: bool,
) -> Result<Outcome> {
    let agent = arguments.agent.as_deref().unwrap_or(DEFAULT_AGENT);
    let identity = match &arguments.did {
        Some(did) => Identity::proven(agent, did, arguments.trust.into()),
        None => Identity::named(agent),
    };
    let decide = |rules: &RuleSet| -> Result<Vec<Shown>> {
        let all = rules.policies.try_request(&identity, line.as_bytes())?;
        Ok(all.iter().map(Shown::new).collect())
    };
    let before = decide(rules)?;
    let after = against.map(decide).transpose()?;
    if as_json {
        let value = match &after {
            None => json!({"agent": agent, "decisions": before}),
            Some(after) => json!({"agent": agent, "before": before, "after": after,
                "change": Change::of(&before, after)}),
        };
        print_json(&value)?;
        return Ok(Outcome::Good);
    }
    let show = |rules: &RuleSet, all: &[Shown]| -> Result<()> {
        print(&format!("{} ({})", texts(all), rules.file))?;
        let reasons = all.iter().filter_map(|it| it.reason.as_deref());
        reasons
            .take(1)
            .try_for_each(|reason| print(&format!("  {}", one_line(reason))))
    };
    show(rules, &before)?;
    if let (Some(against), Some(after)) = (against, &after) {
        show(against, after)?;
        print(&Change::of(&before, after).words())?;
    }
    if before.len() > 1 {
        print(&"  the request starts a program, about which the rules for `proc` decide too")?;
    }
    Ok(Outcome::Good)
}

/// Tries the rules on the calls in the audit log.
fn recorded(
    arguments: &Arguments,
    rules: &RuleSet,
    against: Option<&RuleSet>,
    as_json: bool,
) -> Result<Outcome> {
    let calls = RecordedCalls::read(arguments, against.is_none())?;
    let (repeats, more) = (calls.repeats, calls.more);
    let mut rows = calls.rows(rules, against);
    let sum = |change| -> u64 {
        let rows = rows.iter().filter(|row| row.change == change);
        rows.map(|row| row.calls).sum()
    };
    let summary = Summary {
        changed: sum(Change::Changed),
        depends_on_arguments: sum(Change::DependsOnArguments),
        same: sum(Change::Same),
        stopped_as_repetition: repeats,
        not_listed: more,
    };
    rows.retain(|row| arguments.all || row.change != Change::Same);
    // What changes first, and of that what is called most.
    rows.sort_by_key(|row| (row.change, std::cmp::Reverse(row.calls)));
    let looser = against.map(|against| against.policies.tighten(&rules.policies).err());
    if as_json {
        let mut value = json!({"items": rows, "next": null, "summary": summary});
        if let Some(looser) = looser {
            value["allows_more"] = json!(looser.is_some());
            value["allows_more_because"] = json!(looser.map(|it| it.to_string()));
        }
        print_json(&value)?;
        return Ok(Outcome::Good);
    }
    rows.iter().try_for_each(Row::show)?;
    summary.show()?;
    let (Some(against), Some(looser)) = (against, looser) else {
        return Ok(Outcome::Good);
    };
    let file = &against.file;
    print(&match looser {
        None => format!("{file} allows nothing more than {}", rules.file),
        Some(looser) => format!(
            "{file} may allow more ({}); only `frith config apply` has a node take it",
            plain(looser)
        ),
    })?;
    Ok(Outcome::Good)
}

impl RecordedCalls {
    /// Reads the audit log. Calls are told apart by what was decided then, too, if that is compared.
    fn read(arguments: &Arguments, by_decision: bool) -> Result<Self> {
        let name = arguments.name.as_deref().map(Glob::parse).transpose()?;
        let is_meant = |kind: &Kind| {
            let is = |wanted: &Option<String>, text: &str| {
                wanted.as_ref().is_none_or(|wanted| wanted == text)
            };
            is(&arguments.agent, &kind.agent)
                && is(&arguments.capability, &kind.capability)
                && name.as_ref().is_none_or(|name| name.matches(&kind.name))
        };
        let mut all = Self::default();
        each(&folder_of(&arguments.data)?, |entry| {
            let Some(call) = Recorded::read(entry) else {
                return;
            };
            let mut kind = Kind {
                agent: call.text("agent").to_owned(),
                capability: call.text("capability").to_owned(),
                message_type: call.text("message_type").to_owned(),
                name: call.text("name").to_owned(),
                decided: None,
            };
            if !is_meant(&kind) {
                return;
            }
            let Shown { decision, rule, .. } = call.decided;
            if rule == REPEAT {
                all.repeats += 1;
                return;
            }
            kind.decided = by_decision.then_some((decision, rule));
            if all.kinds.len() >= MAX_KINDS && !all.kinds.contains_key(&kind) {
                all.more += 1;
                return;
            }
            let (calls, last) = all.kinds.entry(kind).or_default();
            *calls += 1;
            *last = call.entry.timestamp.to_string();
        })?;
        Ok(all)
    }

    /// What the rules say of each kind of calls.
    fn rows(self, rules: &RuleSet, against: Option<&RuleSet>) -> Vec<Row> {
        let row = |(kind, (calls, last)): (Kind, (u64, String))| {
            let named = (&*kind.message_type, &*kind.name);
            let of = |rules: &RuleSet| possible(&rules.policies, &rules.config, &kind.agent, named);
            let before = match &kind.decided {
                Some((decision, rule)) => vec![Shown::recorded(*decision, rule)],
                None => of(rules),
            };
            let after = of(against.unwrap_or(rules));
            Row {
                change: Change::of(&before, &after),
                agent: kind.agent,
                capability: kind.capability,
                message_type: kind.message_type,
                name: kind.name,
                calls,
                last,
                before,
                after,
            }
        };
        self.kinds.into_iter().map(row).collect()
    }
}

impl Summary {
    fn show(&self) -> Result<()> {
        let calls = |number| count(number, "call", "calls");
        print(&format!(
            "{} decided otherwise, {} depending on arguments, {} as before",
            calls(self.changed),
            calls(self.depends_on_arguments),
            calls(self.same)
        ))?;
        for (number, what) in [
            (
                self.stopped_as_repetition,
                "stopped as repetitions, not counted",
            ),
            (self.not_listed, "of other kinds, not tried"),
        ] {
            if number > 0 {
                print(&format!("{} {what}", calls(number)))?;
            }
        }
        Ok(())
    }
}

impl Row {
    fn show(&self) -> Result<()> {
        let who = cut(&plain(&self.agent), AGENT);
        let what = match self.name == self.message_type {
            true => plain(&self.name),
            false => format!("{} {}", plain(&self.capability), plain(&self.name)),
        };
        let calls = count(self.calls, "call", "calls");
        print(&format!(
            "{}: {what}, {calls} of {who}",
            self.change.words()
        ))?;
        print(&format!("  before  {}", texts(&self.before)))?;
        print(&format!("  after   {}", texts(&self.after)))
    }
}

/// Columns of an agent's name.
const AGENT: usize = 40;

impl Change {
    /// Compares decisions of which only one on each side is the one that is made.
    fn of(before: &[Shown], after: &[Shown]) -> Self {
        let has = |all: &[Shown], it: &Shown| all.iter().any(|one| one.decision == it.decision);
        let is_one = |all: &[Shown]| all.iter().all(|it| has(&all[..1], it));
        let is_equal = |(a, b): (&Shown, &Shown)| a.hash == b.hash && a.when == b.when;
        if !after.iter().any(|it| has(before, it)) {
            Self::Changed
        } else if (is_one(before) && is_one(after))
            || (before.len() == after.len() && before.iter().zip(after).all(is_equal))
        {
            Self::Same
        } else {
            Self::DependsOnArguments
        }
    }

    const fn words(self) -> &'static str {
        match self {
            Self::Changed => "changed",
            Self::DependsOnArguments => "depends on arguments",
            Self::Same => "the same",
        }
    }
}

impl From<Trust> for TrustLevel {
    fn from(trust: Trust) -> Self {
        match trust {
            Trust::Own => Self::Own,
            Trust::Delegated => Self::Delegated,
            Trust::Verified => Self::Verified,
        }
    }
}

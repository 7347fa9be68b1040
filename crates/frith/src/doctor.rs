//! `frith doctor`: which guards stand around what agents run, each tried from inside.

use anyhow::{Context, Result};
use sandbox::Launcher;
use sandbox::doctor::{GuardReport, Proof, report};
use serde_json::json;

use crate::Outcome;
use crate::agent::{block_on, print, print_json};
use crate::capabilities;
use crate::configured::ConfigArguments;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    config: ConfigArguments,
}

pub(crate) fn run(arguments: &Arguments, as_json: bool) -> Result<Outcome> {
    let file = arguments.config.file()?;
    let config = arguments.config.load(file.as_deref())?;
    let launcher = capabilities::launcher(&config, None)?;
    let guards = block_on(async { Ok(report(&launcher).await) })
        .context("cannot try the guards of the sandbox")?;
    match as_json {
        true => print_json(&guards.iter().map(as_value).collect::<Vec<_>>())?,
        false => guards.iter().try_for_each(show)?,
    }
    summary(&launcher, &guards, as_json)
}

fn as_value(guard: &GuardReport) -> serde_json::Value {
    let (outcome, how) = match &guard.proof {
        Proof::Held(how) => ("held", how),
        Proof::Broken(how) => ("broken", how),
        Proof::NotTried(why) => ("not tried", why),
    };
    json!({
        "guard": guard.guard.name(),
        "setting": guard.guard.setting(),
        "active": guard.active,
        "proof": {"outcome": outcome, "how": how},
        "meaning": guard.meaning,
    })
}

fn show(guard: &GuardReport) -> Result<()> {
    let (mark, how) = match &guard.proof {
        Proof::Held(how) => ("ok", how),
        Proof::Broken(how) => ("BROKEN", how),
        Proof::NotTried(why) => ("-", why),
    };
    print(&format!(
        "{mark:6} {:20} {}",
        guard.guard.name(),
        guard.meaning
    ))?;
    print(&format!("       {:20} {how}", ""))?;
    if matches!(guard.proof, Proof::Broken(_)) {
        print(&format!("       {:20} to mend it: {}", "", guard.remedy))?;
    }
    Ok(())
}

fn summary(launcher: &Launcher, guards: &[GuardReport], as_json: bool) -> Result<Outcome> {
    let broken = guards
        .iter()
        .filter(|guard| matches!(guard.proof, Proof::Broken(_)))
        .count();
    if !as_json {
        let active = guards.iter().filter(|guard| guard.active).count();
        let line = match (launcher.settings(), broken) {
            (None, _) => "what agents run has all rights of the node: `sandbox: none`".to_owned(),
            (Some(_), 0) => format!("{active} guards hold"),
            (Some(_), 1) => "1 guard does not hold".to_owned(),
            (Some(_), broken) => format!("{broken} guards do not hold"),
        };
        print(&format!("\n{line}"))?;
    }
    Ok(match broken {
        0 => Outcome::Good,
        _ => Outcome::Bad,
    })
}

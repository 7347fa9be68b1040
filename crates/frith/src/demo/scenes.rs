//! The scenes.

use std::env;
use std::net::TcpStream;

use anyhow::{Context, Result};

use super::stage::{Stage, Step};
use crate::screen;

/// Any free ports.
const BOB: &str = "server: {listen: \"127.0.0.1:0\"}\na2a: {listen: \"127.0.0.1:0\"}\n";

const RULES: &str = "policy:\n  rules:\n    - {name: edit_file, action: require_approval}\n";

const CHAIN: &str = r#"{"entry_node": "first", "nodes": [
  {"node_id": "first", "kind": "tool", "name": "run_command",
   "input": {"command": "echo first >> steps.txt"}, "next_node": "slow"},
  {"node_id": "slow", "kind": "tool", "name": "run_command",
   "input": {"command": "sleep 2"}, "idempotent": true, "next_node": "last"},
  {"node_id": "last", "kind": "tool", "name": "run_command",
   "input": {"command": "wc -l steps.txt"}}]}
"#;

/// Plays all scenes, or one with what must come before it.
pub(super) async fn play(stage: &mut Stage, only: Option<u8>) -> Result<()> {
    for number in 1..=8 {
        let is_shown = only.is_none_or(|only| only == number);
        let prepares = match (number, only) {
            (1, Some(only)) => only != 8,
            // Something must be on record that can be changed.
            (6, Some(only)) => only == 7,
            _ => false,
        };
        if is_shown || prepares {
            let played = scene(stage, number, !is_shown).await;
            played.with_context(|| format!("scene {number} did not do what it shows"))?;
        }
    }
    Ok(())
}

async fn scene(stage: &mut Stage, number: u8, is_quiet: bool) -> Result<()> {
    let title = match number {
        1 => "Two nodes, each with an identity of its own",
        2 => "An agent finds the tools that it needs",
        3 => "What an agent runs is in a sandbox",
        4 => "An edit waits for your approval",
        5 => "A chain of calls survives `kill -9`",
        6 => "Two nodes prove who they are, then call each other",
        7 => "The audit log shows the change of one byte",
        _ => "Your turn",
    };
    stage.scene(number, title, is_quiet).await?;
    match number {
        1 => nodes(stage).await,
        2 => tools(stage).await,
        3 => sandbox(stage).await,
        4 => approval(stage).await,
        5 => chain(stage).await,
        6 => peers(stage).await,
        7 => audit(stage).await,
        _ => your_turn(stage),
    }
}

async fn nodes(stage: &mut Stage) -> Result<()> {
    stage.write("ada.yaml", &format!("{BOB}{RULES}"))?;
    stage.write("bob.yaml", BOB)?;
    stage.run(Step::new("cat ada.yaml")).await?;
    for name in ["ada", "bob"] {
        let up = stage.up(name).await;
        up.context("`frith doctor` shows whether this machine has what a sandbox needs")?;
    }
    Ok(())
}

async fn tools(stage: &mut Stage) -> Result<()> {
    let search = Step::new("frith tools edit a file --data ada");
    stage.run(search.prints(&["edit_file("]).at_most(6)).await?;
    stage.note("# of so many:").await?;
    stage
        .run(Step::new("frith tools --data ada | grep -c '^[a-z]'"))
        .await?;
    Ok(())
}

async fn sandbox(stage: &mut Stage) -> Result<()> {
    let hello = Step::new("frith run --data ada -- echo hello from the sandbox");
    stage.run(hello.prints(&["hello from the sandbox"])).await?;
    stage.note("# the password file of this machine:").await?;
    let secrets = Step::new("frith run --data ada -- cat /etc/shadow");
    let refused = secrets.ends(1).prints(&["/etc/shadow"]).never("root:");
    stage.run(refused).await?;
    let port = stage
        .endpoint("ada", "http")?
        .replace("http://127.0.0.1:", "");
    TcpStream::connect(format!("127.0.0.1:{port}")).context("the node's port is not open")?;
    stage
        .note("# the network; this port is the node's own, and open:")
        .await?;
    let line = format!("frith run --data ada -- bash -c 'echo > /dev/tcp/127.0.0.1/{port}'");
    stage
        .run(Step::new(&line).ends(1).prints(&["bash"]))
        .await?;
    Ok(())
}

async fn approval(stage: &mut Stage) -> Result<()> {
    let plan = r#"'{"path":"plan.txt","content":"ship on Friday\n"}'"#;
    let write = format!("frith call write_file {plan} --data ada");
    stage
        .run(Step::new(&write).prints(&["\"created\": true"]))
        .await?;
    let change = r#"'{"path":"plan.txt","old_text":"Friday","new_text":"Monday"}'"#;
    let edit = format!("frith call edit_file {change} --data ada");
    let edit = Step::new(&edit).prints(&["\"replacements\": 1"]);
    let (job, waits) = stage.start(&edit, "frith approvals show").await?;
    let id = waits
        .rsplit(' ')
        .next()
        .unwrap_or_default()
        .trim_matches('`');
    let shown = format!("frith approvals show {id} --data ada");
    let shown = Step::new(&shown);
    stage
        .run(shown.prints(&["- Friday", "+ Monday"]).at_most(7))
        .await?;
    stage
        .note("# you see what would be done, and decide:")
        .await?;
    stage
        .run(Step::new(&format!("frith approve {id} --data ada")))
        .await?;
    stage.note("# the agent's call goes on:").await?;
    stage.end(job, &edit).await?;
    let read = Step::new("frith run --data ada -- cat plan.txt");
    stage.run(read.prints(&["ship on Monday"])).await?;
    Ok(())
}

async fn chain(stage: &mut Stage) -> Result<()> {
    stage.write("chain.json", CHAIN)?;
    stage.run(Step::new("frith chain graph chain.json")).await?;
    let run = Step::new("frith chain run chain.json --watch --data ada").ends(1);
    let (job, _) = stage.start(&run, "slow  starts").await?;
    stage.crash("ada").await?;
    stage.end(job, &run).await?;
    stage.up("ada").await?;
    stage
        .note("# the node goes on with the chain by itself:")
        .await?;
    let list = "frith chain list --data ada";
    stage.wait_for(list, "done").await?;
    stage.run(Step::new(list).prints(&["done"])).await?;
    stage.note("# and the first step ran once:").await?;
    let steps = Step::new("frith run --data ada -- wc -l steps.txt");
    stage.run(steps.prints(&["1 steps.txt"])).await?;
    Ok(())
}

async fn peers(stage: &mut Stage) -> Result<()> {
    let (url, did) = (stage.endpoint("bob", "a2a")?, stage.endpoint("bob", "did")?);
    let probe = format!("frith peer probe {url} --data ada");
    let messages = ["-> hello", "-> proof", "<- session", "verified at", &did];
    stage
        .run(Step::new(&probe).prints(&messages).at_most(12))
        .await?;
    let add = format!("frith peer add bob {url} --data ada");
    stage.run(Step::new(&add).prints(&["added bob"])).await?;
    let call = r#"frith peer call bob frith.ping '{"echo":"hi"}' --data ada"#;
    stage
        .run(Step::new(call).prints(&["\"echo\": \"hi\""]))
        .await?;
    Ok(())
}

async fn audit(stage: &mut Stage) -> Result<()> {
    let tail = Step::new("frith audit tail --data bob | grep frith.ping");
    stage.run(tail).await?;
    let verify = Step::new("frith audit verify --data bob");
    stage.run(verify.prints(&["intact:"]).at_most(1)).await?;
    stage
        .note("# in a copy of it, one byte is changed:")
        .await?;
    let change = r#"cp -r bob/audit copy && sed -i '0,/"ping"/s//"pong"/' copy/*.jsonl"#;
    stage.run(Step::new(change)).await?;
    let verify = Step::new("frith audit verify copy --data bob").ends(1);
    let broken = ["broken", "line", "the body was changed"];
    stage.run(verify.prints(&broken).at_most(1)).await?;
    Ok(())
}

fn your_turn(stage: &mut Stage) -> Result<()> {
    let mut lines = vec!["In a folder of yours:".to_owned()];
    if let Some(folder) = folder_to_add() {
        lines.push(format!("  export PATH={folder}:$PATH"));
    }
    lines.extend(
        [
            "  frith init                           # frith.yaml, with your MCP servers",
            "  frith up                             # the node; Ctrl-C stops it",
            "  claude mcp add frith -- frith mcp    # an agent that speaks MCP has its tools",
            "  frith approvals                      # what waits for you",
            "An agent of your own, in any language: docs/start/agent.md",
        ]
        .map(ToOwned::to_owned),
    );
    stage.paste(&lines)
}

/// The folder of this program, unless a shell finds the program by its name.
fn folder_to_add() -> Option<String> {
    let program = env::current_exe().ok()?;
    let path = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&path)
        .map(|folder| folder.join("frith"))
        .find(|it| it.exists());
    let is_found = found.is_some_and(|it| it.canonicalize().ok() == program.canonicalize().ok());
    match is_found {
        true => None,
        false => program.parent().map(screen::quoted_path),
    }
}

//! `frith mcp list`, `show`, `test`, `restart` and `logs`.

use std::io::Write as _;
use std::time::Duration;

use a2e_runtime::DataDir;
use a2e_runtime::operator::{Nothing, ask, ask_telling};
use anyhow::Result;
use serde_json::json;

use super::operate::{HEAR, Hear, Named, SHOW, Said, Shown, TEST, Test};
use crate::Outcome;
use crate::agent::{print, print_json};
use crate::screen::{count, cut, message, one_line, plain};
use crate::status::{McpServer, NodeStatus, OPERATION};

/// Longer than a server may take to start.
const PATIENCE: Duration = Duration::from_secs(180);

/// Columns of a description.
const DESCRIPTION: usize = 60;

pub(crate) async fn list(dir: &DataDir, as_json: bool) -> Result<Outcome> {
    let NodeStatus { servers, .. } = ask(dir, OPERATION, &Nothing {}).await?;
    if as_json {
        print_json(&json!(servers))?;
        return Ok(Outcome::Good);
    }
    if servers.is_empty() {
        print(&"no MCP servers; `frith mcp add NAME -- COMMAND` adds one")?;
    }
    let width = servers.iter().map(|it| it.name.chars().count()).max();
    for server in &servers {
        let (name, word, width) = (plain(&server.name), server.word(), width.unwrap_or(0));
        let tools = count(u64::try_from(server.tools).unwrap_or(0), "tool", "tools");
        let of = server.agent.as_deref();
        let of = of.map(|agent| format!("  registered by {}", plain(agent)));
        print(&format!(
            "{name:width$}  {word:16}  {tools:9}  {}{}",
            plain(&server.place),
            of.unwrap_or_default()
        ))?;
    }
    Ok(Outcome::Good)
}

pub(crate) async fn show(dir: &DataDir, server: &str, as_json: bool) -> Result<Outcome> {
    let server = server.to_owned();
    let shown: Shown = ask(dir, SHOW, &Named { server }).await?;
    tell(&shown, as_json)
}

pub(crate) async fn test(dir: &DataDir, server: &str, as_json: bool) -> Result<Outcome> {
    start(dir, server, false, as_json).await
}

pub(crate) async fn restart(dir: &DataDir, server: &str, as_json: bool) -> Result<Outcome> {
    start(dir, server, true, as_json).await
}

async fn start(dir: &DataDir, server: &str, anew: bool, as_json: bool) -> Result<Outcome> {
    let server = server.to_owned();
    let wish = Test { server, anew };
    let shown: Shown = ask_telling(dir, TEST, &wish, PATIENCE, |_| {}).await?;
    tell(&shown, as_json)
}

fn tell(shown: &Shown, as_json: bool) -> Result<Outcome> {
    let Shown { server, tools } = shown;
    if as_json {
        print_json(&json!(shown))?;
    } else {
        lines(server)
            .iter()
            .try_for_each(|line| print(&plain(line)))?;
        for tool in tools {
            let text = cut(&one_line(&tool.description), DESCRIPTION);
            print(&format!("  {}  {text}", plain(&tool.name)))?;
        }
    }
    Ok(Outcome::Good)
}

fn lines(server: &McpServer) -> Vec<String> {
    let mut lines = vec![
        format!("{}: {}", server.name, server.word()),
        format!("place   {}", server.place),
        format!(
            "starts  {}, {} of which ended by themselves",
            server.starts, server.losses
        ),
    ];
    if let Some(problem) = &server.problem {
        lines.push(format!("problem {problem}; {}", server.next_try()));
        lines.extend(server.stderr.iter().map(|line| format!("  {line}")));
    }
    let tools = u64::try_from(server.tools).unwrap_or(0);
    lines.push(count(tools, "tool", "tools"));
    lines
}

pub(crate) async fn logs(
    dir: &DataDir,
    server: &str,
    follow: bool,
    as_json: bool,
) -> Result<Outcome> {
    let mut wish = Hear {
        server: server.to_owned(),
        from: 0,
        wait: false,
    };
    loop {
        let said: Said = ask(dir, HEAR, &wish).await?;
        if as_json && (!follow || !said.text.is_empty()) {
            print_json(&json!(said))?;
        } else if !as_json {
            // What it has written ends where it has ended its lines.
            let mut out = std::io::stdout().lock();
            out.write_all(message(&said.text).as_bytes())?;
            out.flush()?;
        }
        if !follow {
            return Ok(Outcome::Good);
        }
        wish.from = said.next;
        wish.wait = true;
    }
}

//! Chains that are kept: `frith chain list`, `show`, `resume` and `cancel`.

use std::time::Duration;

use a2e_caps::chains::messages::{Cancel, Head, List, Resume, Show};
use a2e_runtime::{CallOptions, Client};
use anyhow::{Result, bail};
use serde_json::json;

use super::{Arguments, WANTED, show_response};
use crate::Outcome;
use crate::agent::{block_on, print, print_json};
use crate::screen::{self, plain};

/// Nobody waits longer for a chain to end.
const PATIENCE: Duration = Duration::from_secs(24 * 3600);

/// Does something on a host that is not this process: that one keeps nothing.
pub(super) fn run(
    arguments: &Arguments,
    act: impl AsyncFnOnce(Client) -> Result<Outcome>,
) -> Result<Outcome> {
    block_on(async {
        let connection = arguments.host.connect_elsewhere(&WANTED).await?;
        connection.must_have("chains")?;
        let done = act(connection.client.clone()).await;
        connection.close().await;
        done
    })
}

pub(super) async fn list(client: Client, as_json: bool) -> Result<Outcome> {
    let listed = client.rpc_custom(&List {}, CallOptions::default()).await?;
    if as_json {
        print_json(&listed.chains)?;
    } else if listed.chains.is_empty() {
        print(&"there are no chains; `frith chain run FILE` runs one")?;
    } else {
        listed.chains.iter().try_for_each(show_head)?;
    }
    Ok(Outcome::Good)
}

pub(super) async fn show(client: Client, number: i64, as_json: bool) -> Result<Outcome> {
    let shown = client
        .rpc_custom(&Show { number }, CallOptions::default())
        .await?;
    let Some(chain) = shown.chain else {
        bail!("there is no chain {number}; `frith chain list` has those there are");
    };
    if as_json {
        print_json(&chain)?;
        return Ok(Outcome::Good);
    }
    show_head(&chain.head)?;
    for node in &chain.nodes {
        let items = match node.items {
            0 => String::new(),
            1 => "  1 item".to_owned(),
            count => format!("  {count} items"),
        };
        let (id, error) = (plain(&node.node_id), plain(&node.error));
        print(&format!("  {:8} {id}{items}  {error}", node.state).trim_end())?;
    }
    if let Some(response) = &chain.response {
        print(&screen::json(&response["final_output"].to_string()))?;
        if let Some(error) = response["error"]["message"].as_str() {
            print(&plain(error))?;
        }
    }
    if !chain.left_out.is_empty() {
        let parts = chain.left_out.join(", ");
        tell!("too large to be shown: {}", plain(&parts));
    }
    Ok(Outcome::Good)
}

pub(super) async fn resume(client: Client, number: i64, as_json: bool) -> Result<Outcome> {
    let options = CallOptions {
        timeout: PATIENCE,
        ..CallOptions::default()
    };
    let request = Resume {
        number,
        by_itself: false,
    };
    let resumed = client.rpc_custom(&request, options).await?;
    match resumed.response {
        Some(response) => show_response(&response, as_json),
        None => bail!("{}", plain(&resumed.error)),
    }
}

pub(super) async fn cancel(client: Client, number: i64, as_json: bool) -> Result<Outcome> {
    let request = Cancel { number };
    let cancelled = client.rpc_custom(&request, CallOptions::default()).await?;
    if !cancelled.success {
        bail!("{}", plain(&cancelled.error));
    }
    match as_json {
        true => print_json(&json!({"number": number, "state": "cancelled"}))?,
        false => print(&format!("chain {number} is cancelled"))?,
    }
    Ok(Outcome::Good)
}

fn show_head(head: &Head) -> Result<()> {
    let took = head.ended.map(|ended| ended.saturating_sub(head.begun));
    let took = took.map_or_else(String::new, |took| format!("  {took} ms"));
    let again = match head.resumed {
        0 => String::new(),
        1 => "  taken up again once".to_owned(),
        count => format!("  taken up again {count} times"),
    };
    let id = plain(&head.chain_id);
    print(&format!(
        "{:>6}  {:9} {id}{took}{again}",
        head.number, head.state
    ))
}

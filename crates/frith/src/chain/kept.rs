//! Chains that are kept: `frith chain list`, `show`, `resume` and `cancel`.

use std::time::Duration;

use a2e_runtime::Client;
use a2e_wire::Object;
use a2e_wire::messages::chain::{
    ChainCancelRequest, ChainListRequest, ChainResumeRequest, ChainShowRequest, ChainSummary,
};
use anyhow::{Result, bail};
use serde_json::{Value, json};

use super::{Arguments, WANTED, show_response};
use crate::Outcome;
use crate::agent::{block_on, print, print_json};
use crate::plan::print_all;
use crate::screen::{self, plain};

/// How long a chain may take to end.
const TIMEOUT: Duration = Duration::from_secs(24 * 3600);

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
    let listed = client.request(ChainListRequest {}).await?;
    if as_json {
        print_all(&listed.chains)?;
    } else if listed.chains.is_empty() {
        print(&"there are no chains; `frith chain run FILE` runs one")?;
    } else {
        listed.chains.iter().try_for_each(show_summary)?;
    }
    Ok(Outcome::Good)
}

pub(super) async fn show(client: Client, number: i64, as_json: bool) -> Result<Outcome> {
    let shown = client.request(ChainShowRequest { number }).await?;
    let Some(chain) = shown.chain else {
        bail!("there is no chain {number}; `frith chain list` has those there are");
    };
    if as_json {
        let chain: Value = Object::from_record(&chain)?.raw().deserialize()?;
        print_json(&chain)?;
        return Ok(Outcome::Good);
    }
    show_summary(&ChainSummary {
        number: chain.number,
        chain_id: chain.chain_id.clone(),
        state: chain.state.clone(),
        begun: chain.begun,
        ended: chain.ended,
        resumed: chain.resumed,
    })?;
    for node in &chain.nodes {
        let items = match node.items {
            0 => String::new(),
            1 => "  1 item".to_owned(),
            count => format!("  {count} items"),
        };
        let (id, error) = (plain(node.node_id.as_str()), plain(&node.error));
        let line = format!("  {:8} {id}{items}  {error}", plain(node.state.as_str()));
        print(&line.trim_end())?;
    }
    if let Some(response) = &chain.response {
        let response: Value = response.raw().deserialize()?;
        print(&screen::json(&response["final_output"].to_string()))?;
        if let Some(error) = response["error"]["message"].as_str() {
            print(&plain(error))?;
        }
    }
    if let Some(left_out) = &chain.left_out {
        let parts = left_out.join(", ");
        tell!("too large to be shown: {}", plain(&parts));
    }
    Ok(Outcome::Good)
}

pub(super) async fn resume(client: Client, number: i64, as_json: bool) -> Result<Outcome> {
    let request = ChainResumeRequest {
        number,
        by_itself: false,
    };
    let resumed = client.request(request).timeout(TIMEOUT).await?;
    match resumed.response {
        Some(response) => show_response(&response.raw().deserialize()?, as_json),
        None => bail!("{}", plain(&resumed.error)),
    }
}

pub(super) async fn cancel(client: Client, number: i64, as_json: bool) -> Result<Outcome> {
    let cancelled = client.request(ChainCancelRequest { number }).await?;
    if !cancelled.success {
        bail!("{}", plain(&cancelled.error));
    }
    match as_json {
        true => print_json(&json!({"number": number, "state": "cancelled"}))?,
        false => print(&format!("chain {number} is cancelled"))?,
    }
    Ok(Outcome::Good)
}

fn show_summary(chain: &ChainSummary<'_>) -> Result<()> {
    let took = chain.ended.map(|ended| ended.saturating_sub(chain.begun));
    let took = took.map_or_else(String::new, |took| format!("  {took} ms"));
    let resumed = match chain.resumed {
        0 => String::new(),
        1 => "  resumed once".to_owned(),
        count => format!("  resumed {count} times"),
    };
    let id = plain(chain.chain_id.as_str());
    let state = plain(chain.state.as_str());
    print(&format!(
        "{:>6}  {state:9} {id}{took}{resumed}",
        chain.number
    ))
}

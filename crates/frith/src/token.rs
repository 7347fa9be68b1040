//! `frith token`: who may come in, by the operator's socket of the running node.

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use a2a_net::book::parse_did;
use a2e_runtime::operator::{Create, Created, Listed, Nothing, Revoke, ask};
use a2e_runtime::{DataDir, Revoked, TokenInfo};
use anyhow::{Context, Result};
use bridge::login_token;
use clap::Subcommand;
use serde_json::json;

use crate::Outcome;
use crate::agent::{block_on, print, print_json};
use crate::data::DataArguments;
use crate::keystore::{Store, now, random};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Action,

    #[command(flatten)]
    data: DataArguments,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Make a token for an agent, new or known, and show it this one time
    New {
        /// The agent's name
        agent: String,

        /// A note for the list
        #[arg(long, default_value = "", hide_default_value = true)]
        label: String,
    },
    /// Sign a credential with an agent's own key, for a host that knows the agent by its DID: good
    /// once, and for a minute
    Did {
        /// The host's DID; without it, that of the node that runs on the data directory
        #[arg(long, value_name = "DID")]
        host_did: Option<String>,

        /// The identity that signs (`frith id list` shows all)
        #[arg(long = "as", value_name = "NAME", default_value = "default")]
        identity: String,

        /// A file with the passphrase of the key; else $FRITH_PASSPHRASE is used
        #[arg(long, value_name = "FILE")]
        passphrase_file: Option<PathBuf>,
    },
    /// List all tokens: their ids, not the tokens themselves
    List,
    /// Revoke one token by its id, or all that lets an agent in (its DID is blocked), and end everything
    /// that acts for the agent: sessions, chains, sub-agents, MCP servers, processes
    Revoke {
        /// An agent's name or its DID, or a token's id from the list
        agent_or_id: String,
    },
}

pub(crate) fn run(arguments: &Arguments, as_json: bool) -> Result<Outcome> {
    let dir = arguments.data.dir()?;
    block_on(async {
        match &arguments.action {
            Action::Did {
                host_did,
                identity,
                passphrase_file,
            } => {
                let store = Store::at(Some(dir.path().to_owned()));
                let store = store.with_passphrase(passphrase_file.clone());
                did(&dir, host_did.as_deref(), identity, &store, as_json)
            }
            Action::New { agent, label } => new(&dir, agent, label, as_json).await,
            Action::List => list(&dir, as_json).await,
            Action::Revoke { agent_or_id } => revoke(&dir, agent_or_id, as_json).await,
        }
    })
}

async fn new(dir: &DataDir, agent: &str, label: &str, as_json: bool) -> Result<Outcome> {
    let request = Create {
        agent: agent.to_owned(),
        label: label.to_owned(),
    };
    let created: Created = ask(dir, "token.new", &request).await?;
    match as_json {
        true => print_json(&json!(created))?,
        false => {
            print(&created.token)?;
            tell!(
                "This is the token of `{agent}`; it is not shown again. Its id is {}.",
                created.id
            );
        }
    }
    Ok(Outcome::Good)
}

fn did(
    dir: &DataDir,
    host: Option<&str>,
    name: &str,
    store: &Store,
    as_json: bool,
) -> Result<Outcome> {
    let host = match host {
        Some(host) => host.to_owned(),
        None => own_did(dir)?,
    };
    let host = match parse_did(&host) {
        Ok(host) => host,
        Err(error) => return Ok(Outcome::WrongArguments(format!("--host-did: {error}"))),
    };
    let stored = store.open(name)?;
    // The key that a DID itself leads to: nobody has to know a manifest to believe it.
    let key = stored.identity.manifest_key(now());
    let key = key.context("no key can sign now; `frith id rotate` makes one")?;
    let secret = stored.signing_key(store, key)?;
    let mut nonce = [0; 32];
    random(&mut nonce)?;
    let did = stored.identity.did();
    let token = login_token(did, &host, now(), &nonce, (&key.kid, &secret))?;
    match as_json {
        true => print(&json!({"token": token, "did": did.to_string(), "host": host.to_string()}))?,
        false => print(&token)?,
    }
    Ok(Outcome::Good)
}

/// The DID of the node that runs on a data directory.
fn own_did(dir: &DataDir) -> Result<String> {
    let file = dir.endpoints();
    let text = std::fs::read(&file).with_context(|| {
        let dir = dir.path().display();
        format!("no node runs on {dir}; say for which host it is with --host-did DID")
    })?;
    let endpoints: serde_json::Value =
        serde_json::from_slice(&text).with_context(|| format!("{} is damaged", file.display()))?;
    let did = endpoints["did"].as_str().map(str::to_owned);
    did.with_context(|| format!("{} names no DID", file.display()))
}

async fn list(dir: &DataDir, as_json: bool) -> Result<Outcome> {
    let listed: Listed = ask(dir, "token.list", &Nothing {}).await?;
    if as_json {
        print_json(&json!(listed.tokens))?;
        return Ok(Outcome::Good);
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let width = |of: fn(&TokenInfo) -> &str| {
        let widths = listed.tokens.iter().map(|token| of(token).len());
        widths.max().unwrap_or_default()
    };
    let (agents, ids) = (width(|token| &token.agent), width(|token| &token.id));
    for TokenInfo {
        id,
        agent,
        created,
        label,
    } in &listed.tokens
    {
        let made = created.map_or_else(|| "–".to_owned(), |created| age(now, created));
        let line = format!("{agent:agents$}  {id:ids$}  {made:14}  {label}");
        print(&line.trim_end())?;
    }
    Ok(Outcome::Good)
}

async fn revoke(dir: &DataDir, agent_or_id: &str, as_json: bool) -> Result<Outcome> {
    let request = Revoke {
        target: agent_or_id.to_owned(),
    };
    let revoked: Revoked = ask(dir, "token.revoke", &request).await?;
    if as_json {
        print_json(&json!(revoked))?;
        return Ok(Outcome::Good);
    }
    for id in &revoked.ids {
        print(&format!("revoked {id}"))?;
    }
    for did in &revoked.dids {
        print(&format!("blocked {did}"))?;
        print(&"to let it in again:")?;
        print(&format!("  frith trust unblock {did}"))?;
    }
    if revoked.sessions > 0 {
        let agents = match revoked.agents.is_empty() {
            true => agent_or_id.to_owned(),
            false => revoked.agents.join("`, `"),
        };
        let count = revoked.sessions;
        let plural = if count == 1 { "" } else { "s" };
        print(&format!("ended {count} session{plural} of `{agents}`"))?;
    }
    if let Some(file) = &revoked.renewed {
        print(&format!(
            "a new token of `default` is in {}",
            file.display()
        ))?;
    }
    Ok(Outcome::Good)
}

/// How long ago something was, in the largest unit that fits.
pub(crate) fn age(now: u64, then: u64) -> String {
    let seconds = now.saturating_sub(then);
    let units = [(86_400, "day"), (3_600, "hour"), (60, "minute")];
    match units.iter().find(|(length, _)| seconds >= *length) {
        Some((length, unit)) => {
            let count = seconds / length;
            let plural = if count == 1 { "" } else { "s" };
            format!("{count} {unit}{plural} ago")
        }
        None => "just now".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::age;

    #[test]
    fn an_age_has_one_unit() {
        for (seconds, text) in [
            (0, "just now"),
            (59, "just now"),
            (60, "1 minute ago"),
            (7_199, "1 hour ago"),
            (86_400 * 2, "2 days ago"),
        ] {
            assert_eq!(age(1_000_000_000, 1_000_000_000 - seconds), text);
        }
        assert_eq!(age(5, 9), "just now");
    }
}

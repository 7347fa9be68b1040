//! `frith peer probe`: a handshake, message by message.

use a2e_runtime::DataDir;
use a2e_runtime::operator::ask;
use anyhow::Result;
use serde_json::Value;

use super::advice;
use super::asked::{Agreed, PROBE, Probe, Said, Shaken};
use crate::Outcome;
use crate::agent::{print, print_json};
use crate::screen::plain;

pub(super) async fn run(dir: &DataDir, to: &str, encrypt: bool, as_json: bool) -> Result<Outcome> {
    let asked = Probe {
        to: to.to_owned(),
        encrypt,
    };
    let shaken: Shaken = ask(dir, PROBE, &asked).await?;
    let outcome = match shaken.agreed {
        Some(_) => Outcome::Good,
        None => Outcome::Bad,
    };
    if as_json {
        print_json(&shaken)?;
        return Ok(outcome);
    }
    print(&shaken.did)?;
    for said in &shaken.said {
        print(&message(said))?;
    }
    match (&shaken.agreed, &shaken.failed) {
        (Some(agreed), _) => agreement(agreed)?,
        (None, Some(failed)) => print(&advice::told(failed, to))?,
        (None, None) => {}
    }
    Ok(outcome)
}

/// A message in a few words: what it is, and what it is about.
fn message(said: &Said) -> String {
    let arrow = match said.ours {
        true => "->",
        false => "<-",
    };
    let text = |name: &str| said.message.get(name).and_then(Value::as_str).map(plain);
    let kind = text("type").unwrap_or_else(|| "?".to_owned());
    let about = match kind.as_str() {
        "hello" => "who I am, my keys, a nonce",
        "challenge" => "who I am, a nonce, the hash of what I saw and of the policy; signed",
        "proof" => "the same signed by me: I am who I said",
        "policy" => "the policy whose hash you have",
        "accept_policy" => "I agree to exactly that; signed",
        "session" => "then this is our session; signed",
        "error" => {
            return format!(
                "  {arrow} error: {}",
                text("error_code").unwrap_or_default()
            );
        }
        _ => "",
    };
    format!("  {arrow} {kind:14} {about}")
}

fn agreement(agreed: &Agreed) -> Result<()> {
    let session = &agreed.session;
    print(&format!("verified at {} ({})", agreed.url, agreed.address))?;
    print(&format!("  trust      {}", session.trust_level))?;
    print(&format!("  binding    {}", session.binding))?;
    print(&format!("  transport  {}", session.transport))?;
    print(&format!(
        "  encrypted  {}",
        if session.encrypted {
            "yes"
        } else {
            "no, TLS alone"
        }
    ))?;
    print(&format!("  policy     {}", session.policy_hash))?;
    if let Some(policy) = agreed.policy.as_object() {
        for (name, value) in policy {
            print(&format!("    {name:24} {}", plain(value)))?;
        }
    }
    print(&"The session was closed again; nothing is trusted that was not before.")
}

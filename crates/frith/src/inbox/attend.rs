//! Pending calls at the terminal of the node: shown in place, decided with one key.

use std::io::{IsTerminal, Write as _};

use a2e_runtime::operator::HeldCall;
use a2e_runtime::{ApprovalRequest, DataDir};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio_util::sync::CancellationToken;

use super::details::details;
use super::{Reason, decide, list, show};
use crate::key_mode::{CtrlC, KeyMode};
use crate::screen::plain;

/// Shows calls as they become pending, and takes the operator's word on each, until the node stops. Where
/// there is no terminal, nothing is shown.
pub(crate) async fn attend(
    dir: DataDir,
    mut requests: Receiver<ApprovalRequest>,
    stop: CancellationToken,
) {
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return;
    }
    let attending = async {
        // Of the calls that others have decided about, or nobody, none is shown twice.
        let mut seen = Vec::new();
        loop {
            let calls = list(&dir).await.unwrap_or_default();
            seen.retain(|id| calls.iter().any(|call| call.id == *id));
            let next = calls.iter().find(|call| !seen.contains(&call.id));
            if let Some(next) = next {
                seen.push(next.id.clone());
                if let Ok(call) = show(&dir, &next.id).await {
                    ask(&dir, &call).await;
                }
            } else if matches!(requests.recv().await, Err(RecvError::Closed)) {
                return;
            }
        }
    };
    tokio::select! {
        () = attending => {}
        () = stop.cancelled() => {}
    }
}

/// Shows a call and waits until it is decided about, here or elsewhere.
async fn ask(dir: &DataDir, call: &HeldCall) {
    let id = &call.id;
    tell!("\na call waits for approval: {id}");
    for line in details(call) {
        tell!("{line}");
    }
    let Some(keys) = KeyMode::enter(CtrlC::Interrupts) else {
        tell!("decide with `frith approve {id}` or `frith deny {id} --reason TEXT`");
        return;
    };
    // What was typed before this was shown was not meant for it.
    keys.discard();
    tell!("{KEYS}");
    let said = decision(dir, id, &keys).await;
    drop(keys);
    tell!("{said}");
}

/// What keys do.
const KEYS: &str = "[a] approve  [d] deny  [l] later";

/// Waits for the key that decides about a call, or until it is not pending any more; says what became of it.
async fn decision(dir: &DataDir, id: &str, keys: &KeyMode) -> String {
    loop {
        for key in keys.next().await.chars() {
            let decided = match key {
                'a' => decide(dir, id, None).await,
                'd' => match reason(keys).await {
                    Some(reason) => decide(dir, id, Some(&reason)).await,
                    None => {
                        tell!("{KEYS}");
                        break;
                    }
                },
                'l' => return format!("`frith approvals show {id}` shows it again"),
                _ => continue,
            };
            return match decided {
                Ok(call) if call.verdict == "granted" => format!("approved {id}"),
                Ok(_) => format!("denied {id}"),
                Err(error) => plain(error),
            };
        }
        let is_pending = show(dir, id)
            .await
            .is_ok_and(|call| call.verdict == "waiting");
        if !is_pending {
            return format!("{id} is not pending any more");
        }
    }
}

/// The reason for the agent; none if the operator changes their mind.
async fn reason(keys: &KeyMode) -> Option<String> {
    let mut reason = Reason::default();
    loop {
        // The terminal does not show what is typed.
        let mut out = std::io::stderr();
        let text = &reason.0;
        let _ = write!(
            out,
            "\r\u{1b}[Kthe reason, for the agent (Enter denies, Esc goes back): {text}"
        );
        let _ = out.flush();
        for key in keys.next().await.chars() {
            if let Some(end) = reason.press(key) {
                tell!("");
                return end;
            }
        }
    }
}

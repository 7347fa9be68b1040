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
        let (mut seen, mut gate) = (Vec::new(), Gate::default());
        loop {
            let calls = list(&dir).await.unwrap_or_default();
            seen.retain(|id| calls.iter().any(|call| call.id == *id));
            let next = calls.iter().find(|call| !seen.contains(&call.id));
            if let Some(next) = next {
                seen.push(next.id.clone());
                if let Ok(call) = show(&dir, &next.id).await {
                    ask(&dir, &call, &mut gate).await;
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
async fn ask(dir: &DataDir, call: &HeldCall, gate: &mut Gate) {
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
    tell!("{}", gate.keys());
    let said = decision(dir, id, &keys, gate).await;
    drop(keys);
    tell!("{said}");
}

/// Whether keys decide. After a call went away by itself they may be meant for that one: none decides about
/// the next until Enter, which ends a reason too.
#[derive(Debug, Default)]
struct Gate {
    is_closed: bool,
}

/// What a key asks for.
#[derive(Debug, PartialEq, Eq)]
enum Pressed {
    Nothing,
    /// What keys do is to be said.
    Keys,
    Approve,
    Deny,
    Later,
}

impl Gate {
    fn press(&mut self, key: char) -> Pressed {
        match key {
            '\r' | '\n' if self.is_closed => {
                self.is_closed = false;
                Pressed::Keys
            }
            'a' | 'd' | 'l' if self.is_closed => Pressed::Keys,
            'a' => Pressed::Approve,
            'd' => Pressed::Deny,
            'l' => Pressed::Later,
            _ => Pressed::Nothing,
        }
    }

    /// What keys do.
    const fn keys(&self) -> &'static str {
        match self.is_closed {
            true => "the call before went away: press Enter, then decide about this one",
            false => "[a] approve  [d] deny  [l] later",
        }
    }
}

/// Waits for the key that decides about a call, or until it is not pending any more; says what became of it.
async fn decision(dir: &DataDir, id: &str, keys: &KeyMode, gate: &mut Gate) -> String {
    loop {
        for key in keys.next().await.chars() {
            let decided = match gate.press(key) {
                Pressed::Approve => decide(dir, id, None).await,
                Pressed::Deny => match reason(keys).await {
                    Some(reason) => decide(dir, id, Some(&reason)).await,
                    None => {
                        tell!("{}", gate.keys());
                        break;
                    }
                },
                Pressed::Keys => {
                    tell!("{}", gate.keys());
                    break;
                }
                Pressed::Later => return format!("`frith approvals show {id}` shows it again"),
                Pressed::Nothing => continue,
            };
            return match decided {
                Ok(call) if call.verdict == "granted" => format!("approved {id}"),
                Ok(_) => format!("denied {id}"),
                Err(error) => {
                    gate.is_closed = true;
                    plain(error)
                }
            };
        }
        let is_pending = show(dir, id)
            .await
            .is_ok_and(|call| call.verdict == "waiting");
        if !is_pending {
            gate.is_closed = true;
            return format!("{id} is not pending any more: decided elsewhere, or withdrawn");
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

#[cfg(test)]
mod tests {
    use super::*;

    /// What is typed for a call that went away, even a whole reason, decides nothing about the next.
    #[test]
    fn keys_for_a_call_that_is_gone_do_not_decide() {
        let mut gate = Gate { is_closed: true };
        for key in "d not a good idea, later".chars() {
            let pressed = gate.press(key);
            assert!(
                matches!(pressed, Pressed::Nothing | Pressed::Keys),
                "{key:?}: {pressed:?}"
            );
        }
        assert!(gate.keys().contains("press Enter"));
        assert_eq!(gate.press('\n'), Pressed::Keys);
        assert!(gate.keys().starts_with("[a] approve"));
        let pressed = ['\n', 'a', 'd', 'l'].map(|key| gate.press(key));
        let expected = [
            Pressed::Nothing,
            Pressed::Approve,
            Pressed::Deny,
            Pressed::Later,
        ];
        assert_eq!(pressed, expected);
    }
}

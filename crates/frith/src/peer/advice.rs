//! What to do next when another agent did not do what was asked.

use super::asked::Failed;
use crate::screen::{plain, quoted};

/// What went wrong, and what to do about it.
pub(super) fn told(failed: &Failed, to: &str) -> String {
    let said = format!("{}: {}", plain(&failed.code), plain(&failed.error));
    match next(&failed.code, &failed.error, &quoted(to)) {
        Some(next) => format!("{said}\n  {next}"),
        None => said,
    }
}

/// The next step that a code leaves, or what was said with it.
fn next(code: &str, error: &str, to: &str) -> Option<String> {
    Some(match code {
        "UNVERIFIED_AGENT" if error.contains("certificate is not trusted") => format!(
            "if {to} is who you mean, name the file of its certificate authority in `a2a.tls.roots` of \
             this node's configuration; an agent on this machine with a development certificate is \
             trusted if both run as the same user"
        ),
        "UNVERIFIED_AGENT" if error.contains("does not speak TLS") => {
            format!("is the port the one of A2A? `frith status` at {to} shows it")
        }
        "UNVERIFIED_AGENT" => format!(
            "one of the two does not believe the other: `frith peer list` shows which manifest is \
             pinned, `frith peer remove` and `frith peer add` pin the one it shows now, `frith peer \
             probe {to}` shows each step; or it has blocked this node, which its operator can see in \
             `frith trust list`"
        ),
        "INVALID_MANIFEST" => format!(
            "one of the two refuses the manifest of the other: if that of {to} has changed since it was \
             pinned (`frith peer list`), `frith peer remove {to}` and `frith peer add` pin the one it shows \
             now; if this node's has, as with a new address, the operator of {to} does the same there; \
             else `frith manifest verify` checks either"
        ),
        "POLICY_VIOLATION" => format!(
            "the policy between the two does not allow it: `frith peer probe {to}` shows what was \
             agreed on, `a2a.policy` and `a2a.agents` of either configuration say what may be; or its \
             operator has blocked this node meanwhile"
        ),
        "RATE_LIMIT_EXCEEDED" => {
            "the agreed rate is used up; wait a minute, or agree on a higher one in `a2a.policy`"
                .to_owned()
        }
        "UNSUPPORTED_CAPABILITY" => {
            format!("{to} does not offer that: `frith peer show {to}` shows what it does")
        }
        "INVALID_INTENT" => "the inputs do not fit what it asks for; change them".to_owned(),
        "PROTOCOL_VERSION_UNSUPPORTED" => {
            "the two speak no version in common; the older one must be brought up to date"
                .to_owned()
        }
        "HANDSHAKE_FAILED" | "HANDSHAKE_TIMEOUT" => {
            format!("`frith peer probe {to}` shows how far the handshake comes")
        }
        "TIMEOUT" => format!(
            "it takes longer than that, and {to} may have done it, or part of it: look there before asking \
             again, which asks anew; `--timeout SECONDS` waits longer"
        ),
        "SERVICE_UNAVAILABLE" => format!(
            "is it running, and at that address? `frith peer list` shows where {to} should be; \
             `frith up` starts a node, `frith peer add` gives it another address"
        ),
        "SESSION_EXPIRED" => "ask again".to_owned(),
        "REPLAY_DETECTED" => format!(
            "{to} had it already and may have done it: look there before asking again, which asks anew"
        ),
        "PAYLOAD_TOO_LARGE" => "send less at once".to_owned(),
        "INTERNAL_ERROR" | "INVALID_MESSAGE" => {
            "its log, and `frith audit tail` on either side, say more".to_owned()
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use a2a_wire::ErrorCode;

    use super::*;

    /// Whatever goes wrong, there is something to do next; who cancels knows what.
    #[test]
    fn every_code_has_a_next_step() {
        for code in ErrorCode::ALL {
            let has_step = next(code.as_str(), "", "bob").is_some();
            assert_eq!(has_step, *code != ErrorCode::Cancelled, "{code:?}");
        }
        let failed = Failed {
            code: "TIMEOUT".into(),
            error: "late\u{1b}".into(),
        };
        let text = told(&failed, "bob");
        assert!(text.starts_with("TIMEOUT: late\\u{1b}\n"), "{text}");
    }
}

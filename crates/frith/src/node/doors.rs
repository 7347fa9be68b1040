//! What only the operator may change while a node runs.

use a2e_runtime::config::Config;

/// Takes fewer of them, and no others.
fn keep_fewer<T: PartialEq>(key: &str, new: &mut Vec<T>, old: &[T], kept: &mut Vec<String>) {
    let all = new.len();
    new.retain(|one| old.contains(one));
    if new.len() < all {
        kept.push(format!(
            "left out what is new in `{key}`; `frith config apply` applies it"
        ));
    }
}

/// Leaves as they are what decides who comes in and what runs here; says what of it has changed.
/// Whoever can write the file and send a signal is not necessarily the operator.
pub(super) fn keep_doors(config: &mut Config, current: &Config) -> Vec<String> {
    fn keep<T: PartialEq + Clone>(key: &str, new: &mut T, old: &T, kept: &mut Vec<String>) {
        if new != old {
            new.clone_from(old);
            kept.push(format!(
                "kept the old `{key}`; `frith config apply` applies the new one"
            ));
        }
    }
    let mut kept = Vec::new();
    let (server, old) = (&mut config.server, &current.server);
    let open = &mut server.allow_unauthenticated;
    keep(
        "server.allow_unauthenticated",
        open,
        &old.allow_unauthenticated,
        &mut kept,
    );
    keep("server.names", &mut server.names, &old.names, &mut kept);
    keep(
        "server.origins",
        &mut server.origins,
        &old.origins,
        &mut kept,
    );
    keep(
        "auth_token",
        &mut config.auth_token,
        &current.auth_token,
        &mut kept,
    );
    // Who is sent what agents say and read.
    keep("models", &mut config.models, &current.models, &mut kept);
    keep("plugins", &mut config.plugins, &current.plugins, &mut kept);
    keep("mcp", &mut config.mcp, &current.mcp, &mut kept);
    keep("a2a", &mut config.a2a, &current.a2a, &mut kept);
    keep_fewer("intents", &mut config.intents, &current.intents, &mut kept);
    keep_fewer("peers", &mut config.peers, &current.peers, &mut kept);
    // Who has a DID comes in by it.
    let known = &current.policy.agents;
    for agent in &mut config.policy.agents {
        let is_known = known
            .iter()
            .any(|it| it.name == agent.name && it.did == agent.did);
        if agent.did.is_some() && !is_known {
            agent.did = None;
            kept.push(format!(
                "left out the new DID of the agent `{}`; `frith config apply` applies it",
                agent.name
            ));
        }
    }
    // Whom one must not speak to may become more.
    let mut tighter = current.trust.clone();
    tighter.blocked.extend(config.trust.blocked.iter().cloned());
    if config.trust != tighter {
        config.trust = tighter;
        let text = "kept the old `trust` but for newly blocked agents; `frith config apply` applies the new one";
        kept.push(text.to_owned());
    }
    kept
}

//! What a node goes by from its start to its end, whatever its configuration says meanwhile.

use a2e_runtime::config::Config;

/// Leaves as it is what changes at the next start only; says which keys that are.
pub(super) fn take_later(new: &mut Config, current: &Config) -> Vec<String> {
    let mut later = Vec::new();
    let mut keep = |key: &str, is_other: bool| {
        if is_other {
            later.push(key.to_owned());
        }
    };
    macro_rules! keep {
        ($($key:literal: $($name:ident).+;)*) => {$(
            keep($key, new.$($name).+ != current.$($name).+);
            new.$($name).+.clone_from(&current.$($name).+);
        )*};
    }
    keep! {
        "server.listen": server.listen;
        "server.tcp": server.tcp;
        "server.unix": server.unix;
        "server.tls": server.tls;
        "workspace": workspace;
        "sandbox": sandbox;
        "snapshot_store": snapshot_store;
        "global_limits.approval_seconds": global_limits.approval;
        "global_limits.drain_seconds": global_limits.drain;
        "global_limits.max_requests_per_agent": global_limits.max_requests_per_agent;
        "global_limits.max_fetches_per_host": global_limits.max_fetches_per_host;
        "global_limits.max_fetches_per_agent": global_limits.max_fetches_per_agent;
        "global_limits.max_commands_per_agent": global_limits.max_commands_per_agent;
        "global_limits.max_components_per_agent": global_limits.max_components_per_agent;
        "global_limits.max_queries_per_agent": global_limits.max_queries_per_agent;
        "notify": notify;
        "identity": identity;
        "a2a.enabled": a2a.enabled;
        "a2a.listen": a2a.listen;
        "a2a.names": a2a.names;
        "a2a.tls.roots": a2a.roots;
        "a2a.tls": a2a.tls;
        "a2a.methods": a2a.methods;
        "a2a.github_token": a2a.github_token;
        "a2a.encryption": a2a.encryption;
        "a2a.limits": a2a.limits;
        "trust.min_trust_level": trust.min_trust_level;
        "trust.max_manifest_age_days": trust.max_manifest_age;
        "trust.require_manifest": trust.require_manifest;
        "store": store;
        "audit": audit;
        "telemetry.log_format": telemetry.log_format;
        "telemetry.log_file": telemetry.log_file;
        "telemetry.log_file_bytes": telemetry.log_file_bytes;
        "telemetry.log_files": telemetry.log_files;
        "telemetry.otlp": telemetry.otlp;
        "telemetry.otlp_headers": telemetry.otlp_headers;
    }
    later
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn what_waits_is_named_and_stays() {
        let current = Config::default();
        let mut new = Config {
            host_id: "other".to_owned(),
            workspace: Some(PathBuf::from("work")),
            ..Config::default()
        };
        new.server.names = vec!["a.example".to_owned()];
        new.telemetry.log_files = 7;
        new.global_limits.max_sessions = 7;
        let wanted = new.clone();
        let later = take_later(&mut new, &current);
        assert_eq!(later, ["workspace", "telemetry.log_files"]);
        let kept = Config {
            workspace: None,
            telemetry: current.telemetry.clone(),
            ..wanted
        };
        assert_eq!(new, kept);
        assert!(take_later(&mut new.clone(), &new).is_empty());
    }
}

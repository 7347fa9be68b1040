//! How many connections the limit of open files has room for.

use a2e_runtime::EXTRA_CONNECTIONS;
use a2e_runtime::config::Config;
use rustix::process::{Resource, getrlimit};

/// How many connections there may be at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MaxConnections {
    /// Of the node's own agents, over all listeners of A2E.
    pub(super) agents: usize,
    /// Of other agents (A2A).
    pub(super) peers: usize,
}

/// A part of all descriptors is for everything but connections: files, processes, requests to others.
const RESERVED_FRACTION: usize = 4;

/// So many of them at least: a command in the sandbox needs about ten while it starts.
const RESERVED: usize = 16;

/// So many connections of each kind there are in any case.
const FEWEST: usize = 4;

/// As many connections as the configuration allows, or as the limit of open files has room for, which
/// is warned of. To be called when what is open from the start is open.
pub(super) fn max_connections(config: &Config) -> MaxConnections {
    let configured = MaxConnections::configured(config);
    let limit = getrlimit(Resource::Nofile).current;
    let limit = limit.map_or(usize::MAX, |limit| {
        usize::try_from(limit).unwrap_or(usize::MAX)
    });
    let open = std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    let fitting = configured.fit(limit, open);
    if fitting != configured {
        tracing::warn!(
            "the limit of open files is {limit}: there may be {} connections of agents and {} of \
             peers at once, the configuration allows {} and {}; raise the limit (`ulimit -n`, \
             `LimitNOFILE=` of a unit) to {}",
            fitting.agents,
            fitting.peers,
            configured.agents,
            configured.peers,
            configured.needed(open)
        );
    }
    fitting
}

impl MaxConnections {
    fn configured(config: &Config) -> Self {
        let sessions = config.global_limits.max_sessions;
        Self {
            agents: sessions.saturating_add(EXTRA_CONNECTIONS),
            peers: match config.a2a.enabled {
                true => config.a2a.limits.connections,
                false => 0,
            },
        }
    }

    /// As many of these as there is room for, of which peers get a quarter at most.
    fn fit(self, limit: usize, open: usize) -> Self {
        let reserved = RESERVED.max(limit / RESERVED_FRACTION);
        let room = limit.saturating_sub(open).saturating_sub(reserved);
        if self.agents.saturating_add(self.peers) <= room {
            return self;
        }
        let peers = self.peers.min(FEWEST.max(room / 4));
        let agents = self.agents.min(FEWEST.max(room.saturating_sub(peers)));
        Self { agents, peers }
    }

    /// The limit of open files with which all of these fit.
    fn needed(self, open: usize) -> usize {
        let used = self.agents.saturating_add(self.peers).saturating_add(open);
        let share = used.div_ceil(RESERVED_FRACTION - 1);
        used.saturating_add(share.max(RESERVED))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIGURED: MaxConnections = MaxConnections {
        agents: 11_024,
        peers: 1000,
    };

    #[test]
    fn connections_fit_the_limit_of_open_files() {
        for (limit, agents, peers) in [
            (usize::MAX, 11_024, 1000),
            (20_000, 11_024, 1000),
            (1024, 555, 185),
            (64, 15, 5),
            // Too few for anything else, too.
            (32, 4, 4),
        ] {
            let fitting = CONFIGURED.fit(limit, 28);
            assert_eq!(fitting, MaxConnections { agents, peers }, "{limit}");
        }
        let without_peers = MaxConnections {
            peers: 0,
            ..CONFIGURED
        };
        let fitting = without_peers.fit(64, 28);
        assert_eq!((fitting.agents, fitting.peers), (20, 0));
    }

    #[test]
    fn the_limit_that_is_advised_is_enough() {
        for open in [0, 28, 5000] {
            let needed = CONFIGURED.needed(open);
            assert_eq!(CONFIGURED.fit(needed, open), CONFIGURED);
            assert_ne!(CONFIGURED.fit(needed - 2, open), CONFIGURED);
        }
        let few = MaxConnections {
            agents: 1,
            peers: 0,
        };
        assert_eq!(few.fit(few.needed(3), 3), few);
    }
}

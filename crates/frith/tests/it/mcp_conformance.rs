//! The official conformance suites of MCP: the released one, and the one that knows the newer era.
//! `conformance/mcp-expected-failures*.yml` say what does not pass, and why; a suite fails when one of
//! those passes, and when any other does not.

use std::process::{Command, Output};

use serde_json::json;

use crate::mcp::{npm, passes};
use crate::node::Node;

/// A suite.
#[derive(Debug, Clone, Copy)]
struct Suite {
    package: &'static str,
    /// What is expected to fail.
    expected: &'static str,
}

/// Sessions that begin with `initialize`.
const OLDER: Suite = Suite {
    package: "@modelcontextprotocol/conformance",
    expected: "mcp-expected-failures.yml",
};

/// Requests that stand for themselves.
const NEWER: Suite = Suite {
    package: "mcp-conformance-next",
    expected: "mcp-expected-failures-2026-07-28.yml",
};

/// How many scenarios run at once, each with a node of its own.
const AT_ONCE: usize = 4;

impl Suite {
    fn run(self, arguments: &[&str]) -> Output {
        let folder = tempfile::tempdir().unwrap();
        let shim = testkit::workspace().join("conformance/mcp_node20.mjs");
        let package = npm().join("node_modules").join(self.package);
        Command::new("node")
            .args(["--import", shim.to_str().unwrap()])
            .arg(package.join("dist/index.js"))
            .args(arguments)
            // It leaves its results where it runs.
            .current_dir(folder.path())
            .output()
            .unwrap()
    }

    /// The same, which passes but for what is expected.
    fn passes(self, arguments: &[&str]) {
        let expected = testkit::workspace().join("conformance").join(self.expected);
        let expected = ["--expected-failures", expected.to_str().unwrap()];
        passes(&self.run(&[arguments, &expected].concat()));
    }

    /// A node is asked whose mounted host has what the suite wants to see.
    fn for_servers(self, which: &[&str]) {
        let folder = tempfile::tempdir().unwrap();
        let fixture = testkit::workspace().join("conformance/mcp_fixture.py");
        let plugin =
            json!({"name": "fixture", "type": "remote_plugin", "command": ["python3", fixture]});
        let server = json!({"allow_unauthenticated": true});
        let config = json!({"server": server, "plugins": [plugin]});
        let node = Node::start(folder.path(), &config.to_string());
        self.passes(&[&["server", "--url", node.at("mcp")], which].concat());
    }

    /// An agent uses the suite's servers through a host; where they want a login, a node has an operator
    /// whose browser goes where it is sent.
    fn for_clients(self, scenarios: &[String], more: &[&str]) {
        let script = testkit::workspace().join("conformance/mcp_conformance_client.py");
        let frith = env!("CARGO_BIN_EXE_frith");
        let command = format!("python3 {} {frith}", script.display());
        let run = |scenario: &str| {
            let command = ["client", "--command", &command, "--timeout", "120000"];
            self.passes(&[&command[..], &["--scenario", scenario], more].concat());
        };
        for some in scenarios.chunks(AT_ONCE) {
            std::thread::scope(|scope| {
                for scenario in some {
                    scope.spawn(|| run(scenario));
                }
            });
        }
    }

    /// The scenarios for clients, but `sse-retry`, which measures time, and those of extensions that are
    /// not known here.
    fn client_scenarios(self, is_wanted: impl Fn(&str) -> bool) -> Vec<String> {
        let listed = self.run(&["list", "--client"]);
        let listed = String::from_utf8(listed.stdout).unwrap();
        let scenarios = listed.lines().filter_map(|line| {
            let line = line.trim().strip_prefix("- ")?;
            let (name, _) = line.split_once(' ')?;
            (is_wanted(line) && name != "sse-retry").then(|| name.to_owned())
        });
        scenarios.collect()
    }
}

#[test]
fn the_conformance_suite_for_servers() {
    OLDER.for_servers(&["--suite", "all"]);
}

#[test]
fn the_conformance_suite_for_clients() {
    let scenarios = OLDER.client_scenarios(|_| true);
    assert_eq!(scenarios.len(), 25, "{scenarios:?}");
    OLDER.for_clients(&scenarios, &[]);
}

/// All that the revision asks of a server, by the suite's own list.
#[test]
fn the_newer_conformance_suite_for_servers() {
    NEWER.for_servers(&["--requirements", "2026-07-28"]);
}

#[test]
fn the_newer_conformance_suite_for_clients() {
    let scenarios = NEWER.client_scenarios(|line| line.contains("2026-07-28"));
    assert_eq!(scenarios.len(), 33, "{scenarios:?}");
    NEWER.for_clients(&scenarios, &["--spec-version", "2026-07-28"]);
}

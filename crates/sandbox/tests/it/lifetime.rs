//! Trees of processes end, whatever happens.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use proptest::prelude::*;

use crate::host::{Host, Said, all_ended, as_plain_user, as_root, each, ended, marked, marker};

/// A script that leaves a grandchild behind which ignores what can be ignored, then says so.
fn stubborn(marker: &str) -> String {
    format!(
        "trap '' TERM HUP INT; (setsid sleep {marker} & setsid sh -c 'setsid sleep {marker} &' &); \
         echo ready; sleep {marker}"
    )
}

#[test]
fn an_orphan_ends_with_the_command() {
    each(|host| {
        let marker = marker();
        let script = format!("(setsid setsid sleep {marker} &) ; echo done");
        let said = host.run(["sh", "-c", &script]);
        assert_eq!(
            (said.stdout.as_str(), said.end.as_str()),
            ("done\n", "exited with code 0")
        );
        assert!(marked(&marker).is_empty());
        host.held::<&str>("orphan", []);
    });
}

#[test]
fn a_tree_ends_on_time_and_when_it_is_killed_or_dropped() {
    each(|host| {
        for (script, end) in [
            ("spawn line kill wait", "ended by signal 9 (killed)"),
            (
                "spawn line signal:15 kill wait",
                "ended by signal 9 (killed)",
            ),
            ("spawn line wait", "ended by signal 9 (wall_time)"),
            ("spawn line drop", ""),
            ("spawn line", ""),
        ] {
            let marker = marker();
            let wall = if end.contains("wall") { "300" } else { "60000" };
            let options = ["--script", script, "--wall-ms", wall];
            let command = ["sh", "-c", &stubborn(&marker)];
            let said = Said::of(&mut host.command_with(&options, command));
            assert_eq!(
                (said.stdout.as_str(), said.end.as_str()),
                ("ready\n", end),
                "{script}"
            );
            let left = marked(&marker);
            // One that was waited for is gone; of one that was dropped the host does not know.
            assert!(left.is_empty() || end.is_empty(), "{script}");
            all_ended(&marker);
        }
    });
}

#[test]
fn a_tree_ends_when_the_host_is_killed() {
    each(|host| {
        let marker = marker();
        let host = host.option("--script", "spawn line stay");
        let mut running = host
            .command(["sh", "-c", &stubborn(&marker)])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let output = running.stdout.take().unwrap();
        BufReader::new(output).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        // The shell and three sleepers, as far as they have come, and the host.
        let mut tree = marked(&marker);
        while tree.len() < 3 {
            std::thread::yield_now();
            tree = marked(&marker);
        }
        running.kill().unwrap();
        running.wait().unwrap();
        ended(&tree);
        all_ended(&marker);
    });
}

#[test]
fn without_a_sandbox_a_tree_ends_as_far_as_it_is_found() {
    each(|host| {
        let host = host.option("--sandbox", "none");
        let marker = marker();
        let script = format!("(setsid setsid sleep {marker} &) ; echo done");
        let said = host.run(["sh", "-c", &script]);
        assert_eq!(
            (said.stdout.as_str(), said.end.as_str()),
            ("done\n", "exited with code 0")
        );
        assert!(marked(&marker).is_empty());
    });
}

#[test]
fn a_signal_reaches_the_command_and_its_group() {
    each(|host| {
        let host = host.option("--script", "spawn line signal:15 line wait");
        let script = "trap 'echo got it; exit 7' TERM; echo ready; sleep 3600 & wait";
        let said = host.run(["sh", "-c", script]);
        assert_eq!(said.stdout, "ready\ngot it\n");
        assert_eq!(said.end, "exited with code 7");
        let host = host.option("--script", "spawn line signal:1 wait");
        let said = host.run(["sh", "-c", "echo ready; sleep 3600"]);
        assert_eq!(said.end, "ended by signal 1");
    });
}

/// What can be done to a command.
fn script() -> impl Strategy<Value = String> {
    let words = prop::sample::select(vec![
        "spawn",
        "spawn line",
        "signal:15",
        "signal:19",
        "signal:18",
        "signal:9",
        "kill",
        "drop",
        "kill wait",
    ]);
    prop::collection::vec(words, 1..8).prop_map(|words| words.join(" "))
}

fn leaves_nothing(host: Host, script: &str) {
    let marker = marker();
    let host = host.option("--script", script);
    let said = host.run(["sh", "-c", &stubborn(&marker)]);
    assert!(!said.end.contains("error"), "{said:?}");
    all_ended(&marker);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_sequence_leaves_a_process_behind(script in script()) {
        as_root(|host| leaves_nothing(host, &script));
        as_plain_user(|host| leaves_nothing(host, &script));
    }
}

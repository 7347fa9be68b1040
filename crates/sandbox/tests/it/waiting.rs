//! Sandboxes that were made before their command was known hold like others, and do not pile up.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::host::{Host, each, ended};

const NONE: [&str; 0] = [];

/// A host whose command gets a sandbox that has waited for it; the host fails if it does not.
fn waited(host: Host) -> Host {
    host.option("--waited", "yes")
}

#[test]
fn files_and_processes_are_guarded_in_one_that_has_waited() {
    each(|host| {
        let host = waited(host);
        let secret = host.shared_file("secret", "text");
        host.held(
            "read",
            [
                "/etc/passwd".as_ref(),
                "/etc/shadow".as_ref(),
                secret.as_path(),
            ],
        );
        host.held("write", ["/attempt", "/usr/attempt", "/proc/self/comm"]);
        host.held("descriptors", NONE);
        host.held("see-processes", NONE);
        host.held("kill", [std::process::id().to_string()]);
        host.held("ptrace", [std::process::id().to_string()]);
        host.held("orphan", NONE);
        for kind in ["ipc", "mnt", "net", "pid", "uts"] {
            let own = fs::read_link(format!("/proc/self/ns/{kind}")).unwrap();
            host.held("namespace", [kind.as_ref(), own.as_os_str()]);
        }
    });
}

#[test]
fn rights_and_limits_are_guarded_in_one_that_has_waited() {
    each(|host| {
        let host = waited(host);
        host.held("privileges", NONE);
        host.held("new-privileges", NONE);
        host.held("system-calls", NONE);
        host.held("sockets", NONE);
        host.held("shared-memory", NONE);
        host.held("core-dump", NONE);
        let host = host
            .option("--processes", "4")
            .option("--open-files", "32")
            .option("--tmp-bytes", (1 << 20).to_string())
            .option("--memory", (64 << 20).to_string());
        host.held("processes", ["4"]);
        host.held("open-files", ["29"]);
        host.held("fill", ["/tmp".to_owned(), (2 << 20).to_string()]);
        host.held("memory", [(64 << 20).to_string()]);
        let said = host.option("--wall-ms", "200").run(["sleep", "3600"]);
        assert_eq!(said.end, "ended by signal 9 (wall_time)");
    });
}

#[test]
fn each_command_has_a_sandbox_of_its_own() {
    each(|host| {
        let script =
            "ls /tmp; touch /tmp/mine; readlink /proc/self/ns/pid /proc/self/ns/mnt | sort -u";
        let host = host.option(
            "--script",
            "spawn line line wait ready spawn line line wait",
        );
        let said = host.run(["sh", "-c", script]);
        let lines: Vec<&str> = said.stdout.lines().collect();
        assert_eq!(lines.len(), 4, "{said:?}");
        // Nothing of the first command's files.
        assert!(lines.iter().all(|line| line.contains(":[")), "{said:?}");
        assert_eq!(said.end, "exited with code 0, exited with code 0");
    });
}

#[test]
fn many_at_once_all_run() {
    each(|host| {
        let host = host.option("--script", "together:64 together:64");
        let said = host.run(["true"]);
        assert_eq!(
            said.end, "64 of 64 ended well, 64 of 64 ended well",
            "{said:?}"
        );
    });
}

#[test]
fn those_that_wait_are_few_and_end_with_a_host_that_is_killed() {
    each(|host| {
        let host = host.option("--script", "spawn line stay");
        let mut running = host
            .command(["sh", "-c", "echo here; sleep 3600"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let output = running.stdout.take().unwrap();
        BufReader::new(output).read_line(&mut line).unwrap();
        assert_eq!(line, "here\n");
        // The keeper, a supervisor, its first process and a shell, and four more of these two.
        let mut tree = descendants(running.id());
        while tree.len() < 12 {
            std::thread::yield_now();
            tree = descendants(running.id());
        }
        // The shell has a child, and nothing else comes.
        assert!(tree.len() <= 13, "{tree:?}");
        let pids = tree
            .into_iter()
            .filter_map(|it| Pid::from_raw(i32::try_from(it).ok()?));
        let tree: Vec<_> = pids
            .filter_map(|pid| pidfd_open(pid, PidfdFlags::empty()).ok())
            .collect();
        running.kill().unwrap();
        running.wait().unwrap();
        ended(&tree);
    });
}

/// A host whose keeper somebody has killed has another one for the next command; what ran is killed.
#[test]
fn commands_end_with_their_keeper_and_the_next_has_another() {
    each(|host| {
        // All four wait: one that is being made when the keeper is killed might be had, and then end.
        let host = host.option(
            "--script",
            "spawn line ready:4 bereave wait spawn line drop spawn",
        );
        let said = host.run(["sh", "-c", "echo here; sleep 3600"]);
        assert_eq!(said.stdout, "here\nhere\n", "{said:?}");
        assert_eq!(said.end, "ended by signal 9 (killed)", "{said:?}");
    });
}

/// All that a process has started, and these in turn.
fn descendants(pid: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten();
    let texts = tasks
        .flatten()
        .filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    let children: Vec<u32> = texts
        .flat_map(|text| {
            let numbers = text.split_whitespace().map(str::parse);
            numbers.flatten().collect::<Vec<u32>>()
        })
        .collect();
    let below = children.iter().flat_map(|child| descendants(*child));
    let below: Vec<u32> = below.collect();
    [children, below].concat()
}

//! Rights, and ways to more of them.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use crate::host::{User, as_root, each};

const NONE: [&str; 0] = [];

#[test]
fn no_rights_are_left_and_none_can_be_had() {
    each(|host| {
        host.held("privileges", NONE);
        host.held("new-privileges", NONE);
        host.held("system-calls", NONE);
    });
}

#[test]
fn the_user_is_one_of_the_range_or_the_host_s() {
    each(|host| {
        let (first, last) = match host.user {
            User::Root => ("2100000000", "2100065536"),
            User::Plain => ("1", "2100000000"),
        };
        host.held("user", [first, last]);
    });
}

#[test]
fn commands_at_the_same_time_are_different_users() {
    as_root(|host| {
        let host = host.option("--script", "spawn line spawn line");
        let said = host.run(["sh", "-c", "id -u; exec cat < /dev/full > /dev/null"]);
        let users: Vec<&str> = said.stdout.lines().collect();
        let [one, other] = users[..] else {
            panic!("{said:?}");
        };
        assert_ne!(one, other);
    });
}

#[test]
fn a_program_that_runs_as_root_does_not() {
    // Only root can make one.
    as_root(|_| {
        each(|host| {
            let folder = host.shared_folder("folder");
            let program = folder.join("id");
            fs::copy("/usr/bin/id", &program).unwrap();
            fs::set_permissions(&program, Permissions::from_mode(0o6755)).unwrap();
            let how = host.option("--read", &folder).held("setuid", [&program]);
            assert!(how.contains("runs as"), "{how}");
        });
    });
}

#[test]
fn nothing_is_inherited_from_the_environment_of_the_host() {
    each(|host| {
        let host = host.environment("SECRET", "secret");
        let host = host.environment("LD_LIBRARY_PATH", "/nowhere");
        host.held("environment", ["SECRET"]);
        let said = host.option("--env", "A=b").run(["env"]);
        let mut lines: Vec<&str> = said.stdout.lines().collect();
        lines.sort_unstable();
        let path = "PATH=/usr/local/bin:/usr/bin:/bin";
        assert_eq!(lines, ["A=b", "HOME=/tmp", path, "TMPDIR=/tmp"]);
    });
}

#[test]
fn what_the_loader_would_run_is_refused() {
    each(|host| {
        let evil = host.shared_file("evil.so", "not even a library");
        for name in ["LD_PRELOAD", "LD_AUDIT"] {
            let said = host.command(["true"]).env(name, &evil).output().unwrap();
            // The loader of the host itself complains, those of the stages and the command do not.
            let text = String::from_utf8_lossy(&said.stderr).into_owned();
            let complaints = text.matches("evil.so").count();
            assert!(complaints <= 1, "{text}");
        }
        let host = host.option("--env", format!("LD_PRELOAD={}", evil.display()));
        let said = host.run(["true"]);
        assert!(
            said.end.contains("error") && said.end.contains("LD_PRELOAD"),
            "{said:?}"
        );
    });
}

#[test]
fn a_crash_leaves_no_dump() {
    each(|host| {
        host.held("core-dump", NONE);
    });
}

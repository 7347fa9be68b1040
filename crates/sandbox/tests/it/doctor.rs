//! The doctor's attempts.

use crate::host::{User, as_root, each};

fn lines(host: &crate::host::Host) -> Vec<String> {
    let output = host.doctor().output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    text.lines().map(ToOwned::to_owned).collect()
}

#[test]
fn every_guard_holds_here() {
    each(|host| {
        let lines = lines(&host);
        assert_eq!(lines.len(), sandbox::Guard::ALL.len() + 1, "{lines:?}");
        for guard in sandbox::Guard::ALL {
            let line = lines
                .iter()
                .find(|line| line.starts_with(&format!("{guard}: ")))
                .unwrap();
            let untried = match host.user {
                User::Root => ["user namespace", "memory cgroup"],
                User::Plain => ["user id per command", "memory cgroup"],
            };
            let wanted = match untried.contains(&guard.name()) {
                true => "NotTried",
                false => "Held",
            };
            assert!(line.contains(wanted), "{line}");
        }
    });
}

#[test]
fn memory_of_the_tree_is_proven_where_it_is_asked_for() {
    as_root(|host| {
        let lines = lines(&host.option("--level", "tree"));
        let line = lines.iter().find(|line| line.starts_with("memory cgroup"));
        assert!(line.unwrap().contains("Held"), "{lines:?}");
    });
}

#[test]
fn without_a_sandbox_nothing_is_active() {
    each(|host| {
        let lines = lines(&host.option("--sandbox", "none"));
        let untried = lines
            .iter()
            .filter(|line| line.contains("NotTried"))
            .count();
        assert_eq!(untried, sandbox::Guard::ALL.len());
    });
}

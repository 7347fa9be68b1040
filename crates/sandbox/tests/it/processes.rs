//! Other processes: seeing, signalling, tracing.

use crate::host::each;

const NONE: [&str; 0] = [];

#[test]
fn only_its_own_processes_are_to_be_seen() {
    each(|host| {
        host.held("see-processes", NONE);
    });
}

#[test]
fn the_host_cannot_be_signalled_nor_the_first_process_killed() {
    each(|host| {
        let how = host.held("kill", [std::process::id().to_string()]);
        assert!(how.contains("No such process"), "{how}");
        // All that it may signal are its own.
        let said = host.run(["sh", "-c", "kill -9 -1; echo alive; kill -9 1; echo alive"]);
        assert_eq!(said.end, "exited with code 0", "{said:?}");
    });
}

#[test]
fn nothing_can_be_traced_or_looked_into() {
    each(|host| {
        let how = host.held("ptrace", [std::process::id().to_string()]);
        assert_eq!(how.matches("EPERM").count(), 2, "{how}");
        assert_eq!(how.matches("Permission denied").count(), 5, "{how}");
    });
}

#[test]
fn namespaces_are_not_the_host_s() {
    each(|host| {
        for kind in ["ipc", "mnt", "net", "pid", "uts"] {
            let own = std::fs::read_link(format!("/proc/self/ns/{kind}")).unwrap();
            host.held("namespace", [kind.as_ref(), own.as_os_str()]);
        }
    });
}

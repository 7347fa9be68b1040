//! Every limit: at it, and one past it.

use crate::host::{Host, Said, as_root, each};

const NONE: [&str; 0] = [];

#[test]
fn processes() {
    each(|host| {
        let host = host.option("--processes", "4");
        host.possible("processes", ["3"]); // and itself
        let how = host.held("processes", ["4"]);
        assert!(how.contains("unavailable"), "{how}");
    });
}

#[test]
fn a_fork_bomb_ends_with_its_time() {
    each(|host| {
        let host = host.option("--processes", "16").option("--wall-ms", "500");
        let said = host.run([
            "sh",
            "-c",
            "(f() { f | f & }; f) 2> /dev/null & while :; do :; done",
        ]);
        assert_eq!(said.end, "ended by signal 9 (wall_time)", "{said:?}");
    });
}

#[test]
fn memory_of_a_process() {
    each(|host| {
        let host = host.option("--memory", (64 << 20).to_string());
        host.possible("memory", [(32 << 20).to_string()]);
        let how = host.held("memory", [(64 << 20).to_string()]);
        assert!(how.contains("memory allocation failed"), "{how}");
        host.held("shared-memory", NONE);
    });
}

/// Up to what a stack may have, which is not much more.
#[test]
fn memory_of_a_stack() {
    each(|host| {
        let host = host.option("--memory", (64 << 20).to_string());
        host.possible("stack", [(16 << 20).to_string()]);
        let how = host.held("stack", [(64 << 20).to_string()]);
        assert!(how.contains("a stack of any size: "), "{how}");
    });
}

#[test]
fn memory_that_grows_downwards() {
    each(|host| {
        let how = host.held("grows-down", NONE);
        assert!(how.contains("not permitted"), "{how}");
    });
}

/// The tables of 64 GiB are 128 MiB; without a limit there would be more, and no end to it.
#[test]
fn memory_of_page_tables() {
    each(|host| {
        let host = host.option("--memory", (64 << 20).to_string());
        host.possible("sparse", ["100"]);
        let how = host.held("sparse", ["130"]);
        assert!(how.contains("allocate memory"), "{how}");
    });
}

#[test]
fn memory_of_a_tree() {
    as_root(|host| {
        let megabytes = |number: u64| (number << 20).to_string();
        let host = host
            .option("--level", "tree")
            .option("--memory", megabytes(64));
        host.possible("memory", [megabytes(32)]);
        let said = host.attempt("memory", [megabytes(64)]);
        assert_eq!(said.end, "ended by signal 9 (memory)", "{said:?}");
        // Page tables count too.
        let said = host.attempt("sparse", ["130"]);
        assert!(said.stdout.contains("unix_wait_status(9)"), "{said:?}");
        // Three that are each within the limit, and together past it.
        let script = "for i in 1 2 3; do sort < <(head -c 30M /dev/zero; sleep 3600) & done; \
                      wait -n; kill -9 $$";
        let said = host.run(["bash", "-c", script]);
        assert_eq!(said.end, "ended by signal 9 (memory)", "{said:?}");
    });
}

#[test]
fn open_files() {
    each(|host| {
        let host = host.option("--open-files", "32");
        host.possible("open-files", ["28"]); // 29, and three it began with
        let how = host.held("open-files", ["29"]);
        assert!(how.contains("Too many open files"), "{how}");
    });
}

#[test]
fn file_bytes() {
    each(|host| {
        let host = host.option("--file-bytes", "1000");
        let write = |host: &Host, bytes: u32| {
            let script = format!("exec head -c {bytes} /dev/zero > /tmp/file");
            host.run(["sh", "-c", &script]).end
        };
        assert_eq!(write(&host, 1000), "exited with code 0");
        assert_eq!(write(&host, 1001), "ended by signal 25 (file_bytes)");
    });
}

#[test]
fn output_bytes() {
    each(|host| {
        let host = host.option("--output-bytes", "1000");
        let said = host.run(["head", "-c", "1000", "/dev/zero"]);
        assert_eq!(said.end, "exited with code 0");
        assert_eq!(said.stdout.len(), 1000);
        for command in [&["head", "-c", "1001", "/dev/zero"][..], &["yes"]] {
            let said = host.run(command);
            assert_eq!(said.end, "ended by signal 9 (output_bytes)");
            assert_eq!(said.stdout.len(), 1000);
        }
        // Both streams count.
        let said = host.run(["sh", "-c", "head -c 600 /dev/zero; yes | head -c 600 >&2"]);
        assert_eq!(said.end, "ended by signal 9 (output_bytes)");
    });
}

#[test]
fn cpu_seconds() {
    each(|host| {
        let host = host.option("--cpu-seconds", "1");
        let said = host.run(["sh", "-c", "while :; do :; done"]);
        assert_eq!(said.end, "ended by signal 24 (cpu_seconds)");
    });
}

#[test]
fn wall_time() {
    each(|host| {
        let host = host.option("--wall-ms", "200");
        let said = host.run(["sleep", "3600"]);
        assert_eq!(said.end, "ended by signal 9 (wall_time)");
        let host = host.option("--sandbox", "none");
        let said = host.run(["sleep", "3600"]);
        assert_eq!(said.end, "ended by signal 9 (wall_time)");
    });
}

#[test]
fn limits_with_which_nothing_could_start_are_refused() {
    each(|host| {
        for (name, least) in [("open-files", 16), ("memory", 8 << 20), ("processes", 1)] {
            let with = |value: u64| {
                let options = [&format!("--{name}"), &value.to_string()];
                Said::of(&mut host.command_with(&options.map(String::as_str), ["true"])).end
            };
            assert_eq!(with(least), "exited with code 0", "{name}");
            let said = with(least - 1);
            let named = name.replace('-', "_");
            assert!(
                said.contains(&named) && said.contains("too small"),
                "{said}"
            );
        }
    });
}

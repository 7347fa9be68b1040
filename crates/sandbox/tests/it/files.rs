//! Files: what is read and written.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::process::Command;

use crate::host::{Said, as_root, each};

const NONE: [&str; 0] = [];

#[test]
fn nothing_is_read_that_the_profile_does_not_name() {
    each(|host| {
        let data = host.shared_folder("data");
        fs::write(data.join("key"), "secret").unwrap();
        let paths = [
            "/etc/shadow".into(),
            "/etc/passwd".into(),
            "/root".into(),
            "/sys".into(),
            "/run".into(),
            host.home.path().to_owned(),
            data.join("key"),
        ];
        let how = host.held("read", &paths);
        assert_eq!(how.matches("No such file").count(), paths.len(), "{how}");
    });
}

#[test]
fn a_named_folder_is_read_and_not_written() {
    each(|host| {
        let folder = host.shared_folder("folder");
        let file = host.shared_file("folder/file", "text");
        let host = host.option("--read", &folder);
        assert_eq!(host.run(["cat".as_ref(), file.as_os_str()]).stdout, "text");
        let how = host.held("write", [&file, &folder.join("new")]);
        assert_eq!(how.matches("Read-only").count(), 2, "{how}");
    });
}

/// A bind takes along what is mounted below its folder.
#[test]
fn mounts_below_a_readable_folder_are_read_only() {
    as_root(|host| {
        let folder = host.shared_folder("folder");
        let other = host.shared_folder("other");
        for path in [&folder, &other] {
            fs::create_dir(path.join("a b")).unwrap();
        }
        let program = host.program().to_owned();
        let held = host
            .option("--read", &folder)
            .option("--read", &program)
            .option("--write", &other);
        let attempt = [
            program.as_os_str(),
            "sandbox-attempt".as_ref(),
            "mounts".as_ref(),
        ];
        let attempt = held.command(attempt.into_iter().chain([other.as_os_str()]));
        // In a mount namespace of its own, so that nothing of it stays.
        let script = "mount -t tmpfs one \"$0/a b\" && mkdir \"$0/a b/c\" \
             && mount -t tmpfs two \"$0/a b/c\" && mount -t tmpfs three \"$1/a b\" \
             && shift && exec \"$@\"";
        let mut inside = Command::new("unshare");
        inside
            .args(["--mount", "sh", "-c", script])
            .args([&folder, &other]);
        inside.arg(attempt.get_program()).args(attempt.get_args());
        let said = Said::of(inside.current_dir("/"));
        assert!(said.stdout.starts_with("held: "), "{said:?}");
        assert_eq!(said.end, "exited with code 0");
        // Those below a writable one are writable.
        let attempt = held.command([
            program.as_os_str(),
            "sandbox-attempt".as_ref(),
            "mounts".as_ref(),
        ]);
        let mut inside = Command::new("unshare");
        inside
            .args(["--mount", "sh", "-c", script])
            .args([&folder, &other]);
        inside.arg(attempt.get_program()).args(attempt.get_args());
        let said = Said::of(inside.current_dir("/"));
        assert!(said.stdout.starts_with("broken: "), "{said:?}");
        assert!(said.stdout.contains("/other"), "{said:?}");
    });
}

#[test]
fn files_of_proc_about_the_kernel_are_masked() {
    each(|host| {
        let masked = [
            "config.gz",
            "kallsyms",
            "keys",
            "cmdline",
            "modules",
            "bus",
            "acpi",
        ];
        host.held("read", masked.map(|name| format!("/proc/{name}")));
        // What programs need is there.
        let script = "cat /proc/self/comm /proc/cpuinfo /proc/meminfo /proc/stat | wc -l";
        let said = host.run(["sh", "-c", script]);
        let lines: usize = said.stdout.trim().parse().unwrap();
        assert!(lines > 20, "{said:?}");
    });
}

#[test]
fn a_writable_folder_is_written() {
    each(|host| {
        let folder = host.shared_folder("folder");
        let host = host.option("--write", &folder).option("--cwd", &folder);
        let said = host.run([
            "sh",
            "-c",
            "echo text > file && mkdir inner && mv file inner",
        ]);
        assert_eq!(said.end, "exited with code 0", "{said:?}");
        assert_eq!(
            fs::read_to_string(folder.join("inner/file")).unwrap(),
            "text\n"
        );
    });
}

#[test]
fn a_writable_file_is_written_and_its_neighbours_are_not_there() {
    each(|host| {
        let file = host.shared_file("file", "");
        let other = host.shared_file("other", "secret");
        let host = host.option("--write", &file);
        let script = "echo text > \"$0\"";
        let said = host.run([
            "sh".as_ref(),
            "-c".as_ref(),
            script.as_ref(),
            file.as_os_str(),
        ]);
        assert_eq!(said.end, "exited with code 0", "{said:?}");
        assert_eq!(fs::read_to_string(&file).unwrap(), "text\n");
        host.held("read", [other]);
    });
}

#[test]
fn nothing_is_written_outside() {
    each(|host| {
        let folder = host.shared_folder("folder");
        let paths = [
            "/new".into(),
            "/usr/new".into(),
            "/etc/new".into(),
            "/dev/new".into(),
            "/proc/self/comm".into(),
            "/proc/sys/kernel/hostname".into(),
            folder.join("new"),
        ];
        host.held("write", &paths);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
    });
}

#[test]
fn a_link_that_is_swapped_for_a_file_leads_nowhere() {
    each(|host| {
        let folder = host.shared_folder("folder");
        let secret = host.shared_file("secret", "secret");
        let host = host.option("--write", &folder);
        host.held("swap-links", [folder.as_path(), &secret]);
        host.held("swap-links", [folder.as_os_str(), "/etc/shadow".as_ref()]);
    });
}

#[test]
fn a_link_in_the_profile_leads_where_it_leads_here() {
    each(|host| {
        let folder = host.shared_folder("real");
        fs::write(folder.join("file"), "text").unwrap();
        let link = host.home.path().join("link");
        symlink("real", &link).unwrap();
        let host = host.option("--read", &link);
        let file = link.join("file");
        assert_eq!(host.run(["cat".as_ref(), file.as_os_str()]).stdout, "text");
    });
}

#[test]
fn the_data_directory_is_hidden_in_whatever_contains_it() {
    each(|host| {
        let outer = host.shared_folder("outer");
        let data = outer.join("data");
        fs::create_dir(&data).unwrap();
        fs::write(data.join("key"), "secret").unwrap();
        fs::write(outer.join("token"), "secret").unwrap();
        fs::write(outer.join("open"), "text").unwrap();
        let host = host.option("--write", &outer);
        let host = host
            .option("--hide", &data)
            .option("--hide", outer.join("token"));
        host.held(
            "read",
            [data.join("key"), outer.join("token"), data.clone()],
        );
        host.held("write", [data.join("key"), data.join("new")]);
        let open = outer.join("open");
        assert_eq!(host.run(["cat".as_ref(), open.as_os_str()]).stdout, "text");
        let said = host.option("--read", data.join("key")).run(["true"]);
        assert!(said.end.contains("hidden from all commands"), "{said:?}");
    });
}

#[test]
fn tmp_is_its_own_and_of_the_size_that_was_given() {
    each(|host| {
        let size: u64 = 8 << 20;
        let host = host.option("--tmp-bytes", size.to_string());
        let how = host.held("fill", ["/tmp", &size.to_string()]);
        assert!(how.starts_with(&format!("{size} bytes written")), "{how}");
        assert!(how.contains("No space left"), "{how}");
        // A quota of files, too.
        let script = "i=0; while true > /tmp/$i; do i=$((i+1)); done 2>/dev/null; echo $i";
        let said = host.run(["sh", "-c", script]);
        let files: u64 = said.stdout.trim().parse().unwrap();
        assert!(files <= size / 4096, "{said:?}");
        assert_eq!(host.run(["ls", "/tmp"]).stdout, "");
    });
}

#[test]
fn no_descriptor_of_the_host_comes_along() {
    each(|host| {
        let secret = host.shared_file("secret", "secret");
        host.held("descriptors", NONE);
        // A careless host: descriptor 9 is open for all its children.
        let inner = host.command(["ls", "/proc/self/fd"]);
        let mut careless = Command::new("/bin/sh");
        careless
            .args(["-c", "exec 9< \"$0\"; exec \"$@\""])
            .arg(secret);
        careless.arg(inner.get_program()).args(inner.get_args());
        host.as_user(&mut careless);
        let output = careless.output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "0\n1\n2\n3\n");
    });
}

#[test]
fn a_user_id_that_is_given_is_the_owner_of_what_is_written() {
    as_root(|host| {
        let folder = host.shared_folder("folder");
        let host = host
            .option("--write", &folder)
            .option("--uid", "2100000777");
        let file = folder.join("file");
        let said = host.run(["touch".as_ref(), file.as_os_str()]);
        assert_eq!(said.end, "exited with code 0", "{said:?}");
        assert_eq!(fs::metadata(&file).unwrap().uid(), 2_100_000_777);
        let said = host.option("--uid", "0").run(["true"]);
        assert!(said.end.contains("sandbox.uids"), "{said:?}");
    });
}

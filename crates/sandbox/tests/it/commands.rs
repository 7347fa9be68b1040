//! What a command gets and gives: input, output, a terminal, exit codes, and errors that say more.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::Stdio;

use crate::host::{as_plain_user, each};

#[test]
fn an_exit_code_and_both_outputs_come_back() {
    each(|host| {
        let said = host.run(["sh", "-c", "echo out; echo err >&2; exit 42"]);
        assert_eq!(said.stdout, "out\n");
        assert!(said.stderr.starts_with("err\n"), "{said:?}");
        assert_eq!(said.end, "exited with code 42");
    });
}

#[test]
fn input_goes_in_and_ends() {
    each(|host| {
        let host = host.option("--stdin", "pipe");
        let mut running = host
            .command(["cat"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = running.stdin.take().unwrap();
        let text = "some text\n".repeat(10_000);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                input.write_all(text.as_bytes()).unwrap();
                drop(input);
            });
            let mut got = String::new();
            let mut output = running.stdout.take().unwrap();
            output.read_to_string(&mut got).unwrap();
            assert_eq!(got, text);
        });
        assert!(running.wait().unwrap().success());
    });
}

#[test]
fn without_input_there_is_none() {
    each(|host| {
        assert_eq!(host.run(["cat"]).end, "exited with code 0");
    });
}

#[test]
fn a_terminal_has_a_size_and_its_keys_work() {
    each(|host| {
        let host = host.option("--stdin", "terminal");
        let script = "tty -s && stty size < /dev/tty; trap 'echo stopped; exit 3' INT; \
                      echo ready; sleep 3600 & wait";
        let mut running = host
            .command(["sh", "-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(running.stdout.take().unwrap()).lines();
        assert_eq!(lines.next().unwrap().unwrap(), "24 80");
        assert_eq!(lines.next().unwrap().unwrap(), "ready");
        running.stdin.as_mut().unwrap().write_all(&[3]).unwrap();
        let rest: Vec<String> = lines.map(Result::unwrap).collect();
        assert!(rest.concat().ends_with("stopped"), "{rest:?}");
        let output = running.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(said, "sandbox: exited with code 3\n");
    });
}

#[test]
fn a_program_that_is_not_there_is_an_error() {
    each(|host| {
        let said = host.run(["/no/such/program"]);
        assert!(
            said.end.starts_with("error: cannot run /no/such/program"),
            "{said:?}"
        );
        let said = host.option("--cwd", "/no/such/folder").run(["true"]);
        assert!(
            said.end.contains("cannot start in /no/such/folder"),
            "{said:?}"
        );
    });
}

#[test]
fn a_long_argument_list_arrives() {
    each(|host| {
        let long = "x".repeat(100_000);
        let script = "echo $# ${#1} ${#20}";
        let mut command = vec!["sh", "-c", script, "sh"];
        command.extend([long.as_str(); 20]);
        assert_eq!(host.run(command).stdout, "20 100000 100000\n");
    });
}

#[test]
fn a_level_that_the_machine_does_not_have_is_an_error_that_names_the_setting() {
    each(|host| {
        let said = host.option("--landlock", "99").run(["true"]);
        assert!(said.end.contains("sandbox.landlock"), "{said:?}");
        assert!(said.end.contains("sandbox: none"), "{said:?}");
    });
    as_plain_user(|host| {
        let said = host.option("--level", "tree").run(["true"]);
        assert!(said.end.contains("sandbox.memory"), "{said:?}");
    });
}

#[test]
fn without_a_sandbox_a_command_has_what_the_host_has() {
    each(|host| {
        let secret = host.shared_file("secret", "text");
        let host = host.option("--sandbox", "none");
        let said = host.run(["cat".as_ref(), secret.as_os_str()]);
        assert_eq!(said.stdout, "text");
        let said = host.attempt::<&str>("idle", []);
        assert!(
            said.stdout.contains("there is no sandbox around this"),
            "{said:?}"
        );
    });
}

#[test]
fn a_program_that_cannot_supervise_says_so() {
    let error = sandbox::Launcher::new(sandbox::Settings::default()).unwrap_err();
    assert_eq!(error, sandbox::Error::NotPrepared);
    assert!(error.to_string().contains("enter_if_asked"));
}

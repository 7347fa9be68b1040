//! The command line, as a user meets it.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use assert_cmd::Command;

fn frith(arguments: &[&str], input: &str) -> (i32, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_frith"))
        .args(arguments)
        .write_stdin(input)
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (
        output.status.code().unwrap(),
        text(output.stdout),
        text(output.stderr),
    )
}

#[test]
fn without_arguments_it_says_what_it_is() {
    let (status, out, _) = frith(&[], "");
    assert_eq!(status, 0);
    for word in ["environment", "other agents", "types", "check", "Try:"] {
        assert!(out.contains(word), "{word} is not in\n{out}");
    }
}

#[test]
fn types_lists_every_message() {
    let (status, out, _) = frith(&["types"], "");
    assert_eq!((status, out.lines().count()), (0, a2e_wire::Tag::ALL.len()));
    let (_, out, _) = frith(&["types", "--json"], "");
    let all: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(all.as_array().unwrap().len(), a2e_wire::Tag::ALL.len());
}

#[test]
fn types_shows_one_message() {
    let (status, out, _) = frith(&["types", "tool/call/req"], "");
    assert_eq!(status, 0);
    for word in [
        "is answered by tool/call/resp",
        "arguments",
        "default {}",
        "default 30",
    ] {
        assert!(out.contains(word), "{word} is not in\n{out}");
    }
    let (status, _, error) = frith(&["types", "tools/call"], "");
    assert_eq!(status, 1);
    assert!(error.contains("did you mean"), "{error}");
}

#[test]
fn check_names_what_is_wrong() {
    let input =
        "{\"type\":\"ping\",\"id\":5}\n\nnot json\n{\"type\":\"ping\"}\n{\"type\":\"my/own\"}";
    let (status, out, _) = frith(&["check"], input);
    assert_eq!(status, 1);
    assert_eq!(
        out,
        "message 1: schema_violation: ping: field `id` must be a string, not a number\n\
         message 2: parse_error: not JSON: expected a value at byte 0\n\
         4 messages, 2 wrong, 1 of a type that the catalogue does not have\n"
    );
    let (status, out, _) = frith(&["check", "-", "--json"], "{\"type\":\"pong\"}\n");
    assert_eq!(
        (status, out.as_str()),
        (0, "{\"messages\":1,\"unknown_types\":0,\"wrong\":0}\n")
    );
    let (status, out, _) = frith(&["check", "--max-line", "10"], "{\"type\":\"pong\"}\n");
    assert_eq!(status, 1);
    assert!(
        out.contains("invalid_message: the line is longer than 10 bytes"),
        "{out}"
    );
}

#[test]
fn check_says_which_file_it_cannot_read() {
    let (status, _, error) = frith(&["check", "/nonexistent"], "");
    assert_eq!(status, 1);
    assert!(
        error.starts_with("frith: cannot read /nonexistent"),
        "{error}"
    );
}

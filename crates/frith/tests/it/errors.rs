//! What is said when something cannot be done.

use crate::frith_in;

/// Whoever reads an error knows what to do next.
#[test]
fn errors_have_a_next_step() {
    let folder = tempfile::tempdir().unwrap();
    for (words, step) in [
        (
            &["chain", "run", "MISSING"][..],
            "is the path right? paths begin in /",
        ),
        (&["chain", "graph", "MISSING"], "is the path right?"),
        (&["manifest", "verify", "MISSING"], "is the path right?"),
        (
            &["init", "--data", "/proc/x"],
            "; name another data directory with --data",
        ),
        (&["init", "MISSING"], "make it first, or name another"),
        (&["resolve", "alice"], "neither a DID (did:key"),
        (&["skill", "check", "MISSING"], "name one with skills in it"),
        (
            &["store", "check", "--data", "x"],
            "--data says where to look",
        ),
        (&["env", "play", "nowhere"], "`frith env list` lists"),
        (
            &["ping", "--host", "tcp:127.0.0.1:1"],
            "`frith up` starts a node",
        ),
    ] {
        let (status, _, error) = frith_in(folder.path(), words, "");
        assert_eq!(status, 1, "{words:?}: {error}");
        assert!(error.contains(step), "{words:?}: {error}");
        let cause = "No such file or directory";
        assert!(error.matches(cause).count() <= 1, "twice: {error}");
    }
}

//! The corpora of the fuzz targets, and any input.

use a2e_caps::fuzzing;
use proptest::prelude::*;

#[test]
fn the_corpus_of_paths_replays() {
    testkit::replay("tool_paths", fuzzing::paths);
}

#[test]
fn the_corpus_of_arguments_replays() {
    testkit::replay("tool_arguments", fuzzing::arguments);
}

#[test]
fn corpus_of_agent_expressions() {
    testkit::replay("agent_expressions", fuzzing::agent_expressions);
}

proptest! {
    #[test]
    fn no_path_leads_out(parts in prop::collection::vec("\\.|\\.\\.|tool|src|files|/|[a-z.]{1,8}", 0..12)) {
        fuzzing::paths(parts.join("/").as_bytes());
    }
}

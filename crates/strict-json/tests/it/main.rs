//! The fuzz target over its corpus.

#[test]
fn corpus_of_strict_json() {
    testkit::replay("strict_json", strict_json::fuzzing::strict_json);
}

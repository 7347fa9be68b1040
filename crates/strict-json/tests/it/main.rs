//! The fuzz target over its corpus.

#[test]
fn the_fuzz_corpus_passes() {
    for (_, bytes) in testkit::corpus("strict_json") {
        strict_json::fuzzing::strict_json(&bytes);
    }
}

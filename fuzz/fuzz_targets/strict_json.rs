#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| strict_json::fuzzing::strict_json(bytes));

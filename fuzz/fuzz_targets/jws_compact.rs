#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| a2a_identity::fuzzing::jws_compact(bytes));

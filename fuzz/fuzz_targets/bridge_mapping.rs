#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| bridge::fuzzing::bridge_mapping(bytes));

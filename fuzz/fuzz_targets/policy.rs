#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| policy::fuzzing::policy(bytes));

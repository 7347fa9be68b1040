#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| audit::fuzzing::audit_file(bytes));

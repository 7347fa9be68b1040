#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| a2e_caps::fuzzing::agent_expressions(bytes));

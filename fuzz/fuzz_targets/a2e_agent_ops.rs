#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| a2e_session::fuzzing::a2e_agent_ops(bytes));

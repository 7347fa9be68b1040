#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| a2a_session::fuzzing::a2a_handshake_client(bytes));

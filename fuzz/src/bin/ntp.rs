//! Arbitrary messages for NTP's codec, a server and a client.
#![no_main]

#[path = "../../../crates/ntp/tests/hostile/mod.rs"]
mod hostile;

libfuzzer_sys::fuzz_target!(|data: &[u8]| hostile::check(data));

//! An attack on a live connection.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tickwire_sim::hostile::live(data));

//! An attack on a connection that is being opened.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tickwire_sim::hostile::opening(data));

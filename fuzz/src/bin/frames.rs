//! Arbitrary frames into a host with open sockets.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tickwire_sim::hostile::frames(data));

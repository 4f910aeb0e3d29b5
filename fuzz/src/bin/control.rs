//! Arbitrary bytes on the control socket, in both directions.
#![no_main]

#[path = "../../../crates/lane/tests/canonical/mod.rs"]
mod canonical;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    canonical::check(data);
});

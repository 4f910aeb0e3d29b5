//! Any bytes and any records from the driver WinDivert.
#![no_main]

#[path = "../../../crates/card-windows/tests/hostile/mod.rs"]
mod hostile;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    hostile::check(data);
});

//! A hostile program's rings and frames, and a hostile network, at the service of Windows.
#![no_main]

#[path = "../../../crates/service-windows/tests/hostile/mod.rs"]
mod hostile;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    hostile::check(data);
});

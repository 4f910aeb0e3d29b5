//! Tells the program for which target it is built: cargo wants it spelled out where tests are to be
//! run by sudo.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-env=XTASK_TARGET={}", std::env::var("TARGET").unwrap_or_default());
}

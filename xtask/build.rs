//! Passes the build target to the program: cargo needs it spelled out to run tests by sudo.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-env=XTASK_TARGET={}", std::env::var("TARGET").unwrap_or_default());
}

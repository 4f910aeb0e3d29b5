//! What the tests that need root share.

/// Whether they can run; says so if not.
pub fn have_root() -> bool {
    // SAFETY: no memory is passed.
    let root = unsafe { libc::geteuid() } == 0;
    if !root {
        eprintln!("skipped: network namespaces need root");
    }
    root
}

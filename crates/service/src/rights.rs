//! Whether the service has the capabilities that it needs, checked before anything else.

use std::io;

/// The capabilities that it needs, with their numbers (`linux/capability.h`): devices and filters,
/// BPF.
const NEEDED: [(&str, u32); 2] = [("CAP_NET_ADMIN", 12), ("CAP_BPF", 39)];
/// Needed to send frames by an interface.
const CAP_NET_RAW: u32 = 13;
const CAP_SYS_RESOURCE: u32 = 24;
/// Includes CAP_BPF.
const CAP_SYS_ADMIN: u32 = 21;

/// Checks for the needed capabilities.
///
/// # Errors
/// `PermissionDenied` with the names of what is missing; an error of reading `/proc`.
pub(crate) fn check() -> io::Result<()> {
    let status = std::fs::read_to_string("/proc/thread-self/status")?;
    let missing = missing(&status);
    if missing.is_empty() {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::PermissionDenied, format!("it lacks {}", missing.join(", "))))
}

/// Logs what will not be done for want of capabilities. `grants`: whether real-time priorities are
/// granted.
pub(crate) fn warn(grants: bool) {
    let Ok(status) = std::fs::read_to_string("/proc/thread-self/status") else { return };
    let effective = effective(&status);
    let has = |number: u32| effective >> number & 1 != 0;
    if !has(CAP_NET_RAW) {
        tracing::warn!("peers of programs that die are not told: CAP_NET_RAW is missing");
    }
    if grants && !has(CAP_SYS_RESOURCE) {
        tracing::warn!(
            "programs of other users than root get no real-time priority, whatever [groups] says: CAP_SYS_RESOURCE is missing"
        );
    }
}

/// The effective capabilities in a process's `status` of `/proc`.
fn effective(status: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    line.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(0)
}

/// The names of needed capabilities that are not effective according to a process's `status` of
/// `/proc`.
fn missing(status: &str) -> Vec<&'static str> {
    let effective = effective(status);
    let has = |number: u32| effective >> number & 1 != 0;
    let lacks = |number| !(has(number) || number == 39 && has(CAP_SYS_ADMIN));
    NEEDED.iter().filter(|&&(_, number)| lacks(number)).map(|&(name, _)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named() {
        let status = |caps: u64| format!("Name:\tx\nCapEff:\t{caps:016x}\nCapBnd:\t0\n");
        let all = 1 << 12 | 1 << 39;
        assert!(missing(&status(all)).is_empty() && missing(&status(u64::MAX)).is_empty());
        assert!(missing(&status(1 << 12 | 1 << 21)).is_empty());
        assert_eq!(missing(&status(1 << 13)), ["CAP_NET_ADMIN", "CAP_BPF"]);
        assert_eq!(missing("").len(), 2);
    }
}

//! The library, the service and this user's limits.

use crate::client;
use crate::run::environment;
use nix::sys::resource::{Resource, getrlimit};
use std::path::Path;
use tickwire_show::finding::Finding;

/// Below this a server with many connections runs out of descriptors.
const FILES: u64 = 4096;

/// All checks of the installation.
pub(crate) fn check(socket: &Path) -> Vec<Finding> {
    vec![library(), service(socket), files(getrlimit(Resource::RLIMIT_NOFILE).ok())]
}

fn library() -> Finding {
    match environment::library() {
        Ok(path) => Finding::good("library", path.display().to_string()),
        Err(error) => Finding::missing("library", format!("{error:#}"), "no program can be accelerated without it"),
    }
}

fn service(socket: &Path) -> Finding {
    match environment::service_answers(socket) {
        Ok(()) => Finding::good("service", format!("answers at {}", socket.display())),
        Err(error) => {
            Finding::missing("service", client::why_not(socket, &error), "until then all programs run on the kernel")
        }
    }
}

fn files(limit: Option<(u64, u64)>) -> Finding {
    match limit {
        Some((soft, _)) if soft < FILES => Finding::improve(
            "open files",
            format!("at most {soft}"),
            format!("`ulimit -n {FILES}` before programs with many connections: matters for these only"),
        ),
        Some((soft, _)) => Finding::good("open files", format!("at most {soft}")),
        None => Finding::good("open files", "no limit known"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tickwire_show::finding::Verdict::{Good, Improve, Missing};

    #[test]
    fn limits_and_a_missing_service_are_judged() {
        assert_eq!(files(Some((1024, 4096))).verdict, Improve);
        assert_eq!(files(Some((1 << 20, 1 << 20))).verdict, Good);
        assert_eq!(service(Path::new("/no/such.sock")).verdict, Missing);
    }
}

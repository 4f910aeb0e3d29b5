//! Removes the labs of this process when it ends without having done so itself (`kill -9`, out of
//! memory): a shell that waits for the end of a pipe that nobody else holds.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// What it does then: `$1` is what the names of all namespaces begin with, `$2` the same of the
/// directories. It finds nothing if all has been removed. Who is just about to enter a namespace,
/// or to make one, is seen a moment later only: hence twice nobody before any is deleted, and
/// another look afterwards.
const SCRIPT: &str = r#"
trap '' HUP INT QUIT TERM
while read -r _; do :; done
ours() { ip netns list | while read -r name _; do case $name in "$1"*) echo "$name";; esac; done; }
pids() { ours "$1" | while read -r name; do ip netns pids "$name"; done; }
quiet=0
for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    found=$(pids "$1")
    if [ -n "$found" ]; then
        kill -KILL $found
        quiet=0
    elif [ $((quiet += 1)) -ge 2 ]; then
        left=$(ours "$1")
        [ -n "$left" ] || break
        for name in $left; do ip netns delete "$name"; done
    fi
    sleep 0.1
done
rm -rf "$2"*
"#;

/// The shell; it is told by being dropped, and waited for.
#[derive(Debug)]
pub(crate) struct Guardian(Child);

impl Guardian {
    /// Guards what begins with `prefix`. None if no shell can be started: then the next lab's sweep
    /// is what is left.
    pub(crate) fn start(prefix: &str, directories: &Path) -> Option<Self> {
        let mut command = Command::new("sh");
        command.args(["-c", SCRIPT, "tickwire-lab-guardian", prefix]).arg(directories.join(prefix));
        // A group of its own: what the terminal sends is not for it.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().ok().map(Self)
    }
}

impl Drop for Guardian {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

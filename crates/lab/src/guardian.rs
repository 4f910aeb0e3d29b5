//! Removes the labs of this process if it ends without doing so itself (`kill -9`, out of memory).
//! It is a shell that waits for end-of-file on a pipe that only this process holds.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// The script: `$1` is the common prefix of all namespace names, `$2` that of the directories. It
/// finds nothing if all was removed. A process that is just entering a namespace, or making one,
/// becomes visible only a moment later. The script therefore needs two looks without processes
/// before it deletes any, and looks again afterwards.
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

/// The shell. Dropping it closes the pipe and waits for the shell to end.
#[derive(Debug)]
pub(crate) struct Guardian(Child);

impl Guardian {
    /// Guards the names that begin with `prefix`. `None` if no shell can be started: then only the
    /// next lab's sweep cleans up.
    pub(crate) fn start(prefix: &str, directories: &Path) -> Option<Self> {
        let mut command = Command::new("sh");
        command.args(["-c", SCRIPT, "tickwire-lab-guardian", prefix]).arg(directories.join(prefix));
        // A process group of its own, so that signals of the terminal do not reach it.
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

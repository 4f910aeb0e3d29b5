//! Which tests there are, and which of them use sockets.

use anyhow::{Result, bail};

/// The begins of the names of tests that use sockets of IP. (Others are of files, processes,
/// terminals, pipes, timers, threads.)
const PREFIXES: [&str; 24] = [
    "callback_stack",
    "connect_",
    "connection_",
    "delayed_accept",
    "getsockname_",
    "handle_fileno",
    "ipc_listen_",
    "ipc_send_recv_tcp",
    "ipc_tcp_",
    "listen_",
    "multiple_listen",
    "not_readable_",
    "not_writable_",
    "poll_",
    "readable_on_eof",
    "shutdown_close_tcp",
    "shutdown_eof",
    "shutdown_simultaneous",
    "shutdown_twice",
    "socket_buffer_size",
    "spawn_tcp_server",
    "tcp",
    "udp",
    "watcher_cross_stop",
];

/// The tests that use sockets, from the list that the runner prints: a name on each line, some with
/// their helpers behind.
pub(super) fn of_sockets(printed: &str) -> Vec<String> {
    let names = printed.lines().filter_map(|line| line.split_whitespace().next());
    let is_of_sockets = |name: &&str| PREFIXES.iter().any(|prefix| name.starts_with(prefix));
    names.filter(is_of_sockets).map(str::to_owned).collect()
}

/// The tests whose name contains one of these texts; all, if there are none.
pub(super) fn chosen(all: &[String], only: &[String]) -> Result<Vec<String>> {
    let is_wanted = |name: &&String| only.is_empty() || only.iter().any(|only| name.contains(only));
    let chosen: Vec<String> = all.iter().filter(is_wanted).cloned().collect();
    if chosen.is_empty() {
        bail!("no test's name contains {}; there are: {}", only.join(" or "), all.join(", "));
    }
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_of_sockets_are_chosen_by_their_names() {
        let printed = "fs_stat\r\ntcp_open                  (helpers: tcp4_echo_server)\r\npipe_ref\r\nudp_bind\r\n";
        let all = of_sockets(printed);
        assert_eq!(all, ["tcp_open", "udp_bind"]);
        let chosen = |only: &str| chosen(&all, &[only.to_owned()]);
        assert_eq!(chosen("udp").unwrap(), ["udp_bind"]);
        assert_eq!(chosen("x").unwrap_err().to_string(), "no test's name contains x; there are: tcp_open, udp_bind");
        assert_eq!(super::chosen(&all, &[]).unwrap(), all);
    }
}

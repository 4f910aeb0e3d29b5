//! Sockets on the kernel of programs that have a lane. The lane's row has the reason; their queues
//! and state come from the kernel's own tables.

use super::kernels;
use super::processes::socket_inode;
use super::search::Deadline;
use std::collections::HashMap;
use std::path::Path;
use tickwire_show::stat::{Lane, SocketReading, state_name};

/// Fills in what the kernel's tables have, for the sockets that can be read: not those of other
/// users, nor of other network namespaces.
pub(super) fn fill_in(proc: &Path, lanes: &mut [Lane], deadline: Deadline) {
    let on_kernel = lanes.iter_mut().flat_map(|lane| &mut lane.sockets).filter(|socket| !socket.accelerated);
    let mut found: HashMap<u64, Vec<&mut SocketReading>> = HashMap::new();
    for socket in on_kernel.take_while(|_| !deadline.has_passed()) {
        if let Some(inode) = socket_inode(&proc.join(format!("{}/fd/{}", socket.pid, socket.fd))) {
            found.entry(inode).or_default().push(socket);
        }
    }
    if found.is_empty() {
        return;
    }
    let kernels = kernels::sockets(proc, &found.keys().copied().collect(), deadline);
    for (inode, kernel) in kernels {
        // The program controls the row, and the process number in it is that of its own PID
        // namespace: it may name another process's socket.
        let is_it = |socket: &&mut &mut SocketReading| {
            socket.protocol == kernel.protocol && [kernel.local.port, 0].contains(&port(&socket.local))
        };
        for socket in found.get_mut(&inode).into_iter().flatten().filter(is_it) {
            socket.local = kernel.local.to_string();
            socket.remote = (kernel.remote.port != 0).then(|| kernel.remote.to_string());
            socket.state = state_name(kernel.state);
            (socket.rx_queue, socket.tx_queue) = (Some(kernel.rx_queue), Some(kernel.tx_queue));
        }
    }
}

fn port(endpoint: &str) -> u16 {
    endpoint.rsplit_once(':').and_then(|(_, port)| port.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::super::fake::{LIBRARY_LINE, Proc, line};
    use super::*;
    use tickwire_show::stat::socket;
    use tickwire_stack::table::{SocketRow, kind};

    fn lane(pid: u32, fds: &[u32]) -> Lane {
        let shown = |&fd: &u32| {
            let row = SocketRow::default();
            row.kind.set(kind::KERNEL_TCP);
            row.pid.set(pid);
            row.fd.set(fd);
            socket(&row).unwrap()
        };
        Lane { pid, accelerated: true, sockets: fds.iter().map(shown).collect(), ..Lane::default() }
    }

    #[test]
    fn a_socket_of_the_kernels_has_the_kernels_figures_and_what_cannot_be_seen_has_none() {
        let proc = Proc::new();
        proc.process(20, "server", LIBRARY_LINE, &[("3", "socket:[8]"), ("4", "socket:[9]"), ("5", "/dev/null")]);
        proc.table("tcp", &[line(1, 8)]);
        let mut lanes = [lane(20, &[3, 4, 5]), lane(21, &[3])];
        fill_in(proc.path(), &mut lanes, Deadline::of_a_search());
        let seen: Vec<_> =
            lanes.iter().flat_map(|lane| &lane.sockets).map(|s| (s.state, s.tx_queue, s.rx_queue)).collect();
        assert_eq!(seen, [("ESTAB", Some(2), Some(3)), ("-", None, None), ("-", None, None), ("-", None, None)]);
        assert_eq!(lanes[0].sockets[0].local, "127.0.0.1:9000");
        let mut others = [lane(20, &[3])];
        others[0].sockets[0].local = "127.0.0.1:9001".into();
        fill_in(proc.path(), &mut others, Deadline::of_a_search());
        assert_eq!(others[0].sockets[0].rx_queue, None, "it names another's");
    }
}

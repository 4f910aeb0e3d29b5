//! Kernels that lack something, as far as one can be made to look like one.

mod common;

use common::{World, skipped, within};
use std::net::{TcpListener, UdpSocket};
use std::os::fd::AsFd;
use tickwire_lane::control::{ClaimKind, Reason};

/// Makes the kernel one without socket diagnostics, as this thread and those that it starts see it.
fn without_diagnostics() {
    const NETLINK_SOCK_DIAG: u32 = 4;
    let load = |k| libc::sock_filter { code: 0x20, jt: 0, jf: 0, k };
    let unless = |k, jf| libc::sock_filter { code: 0x15, jt: 0, jf, k };
    let end = |k| libc::sock_filter { code: 0x06, jt: 0, jf: 0, k };
    // `struct seccomp_data`: the call's number, and its arguments from byte 16 on.
    let mut program = [
        load(0),
        unless(libc::SYS_socket as u32, 5),
        load(16),
        unless(libc::AF_NETLINK as u32, 3),
        load(32),
        unless(NETLINK_SOCK_DIAG, 1),
        end(libc::SECCOMP_RET_ERRNO | libc::EPROTONOSUPPORT as u32),
        end(libc::SECCOMP_RET_ALLOW),
    ];
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: `filter` and the program that it points at live for the call, which copies them.
    let done = unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, &raw const filter) };
    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
}

#[test]
fn without_socket_diagnostics_tcp_stays_with_the_kernel_and_udp_does_not() {
    if skipped() {
        return;
    }
    let world = World::prepared(without_diagnostics);
    let mut client = world.client();
    let _lane = client.hello().unwrap();
    let listener = within(&world.pair.a, || TcpListener::bind(world.a(8080)).unwrap());
    assert_eq!(client.claim_bound(&listener), Err(Reason::NoDiagnostics));
    let socket = common::tcp_socket(&world.pair.a, world.a(0));
    let flow = client.claim(ClaimKind::Flow, world.b(80).into(), socket.as_fd());
    assert_eq!(flow, Err(Reason::NoDiagnostics));
    let datagrams = within(&world.pair.a, || UdpSocket::bind(world.a(7000)).unwrap());
    client.claim_bound(&datagrams).unwrap();
}

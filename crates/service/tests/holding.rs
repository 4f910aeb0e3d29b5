//! Programs that keep a hold on what a lane had, and what that costs them and no others.

mod common;

use common::{Client, PEER, TIMEOUT, World, connecting, now, skipped, until, within};
use nix::poll::{PollFd, PollFlags, poll};
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::net::TcpListener;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::time::Instant;
use tickwire_lane::control::{CountersOf, Reason};
use tickwire_service::Attach;
use tickwire_stack::addr::{Address, Endpoint};

/// A page of memory whose fault is not resolved as long as this lives.
struct Absent {
    page: usize,
    faults: Option<OwnedFd>,
}

const PAGE: usize = 4096;

impl Absent {
    /// `None` if the kernel has no such thing (`userfaultfd`).
    fn new() -> Option<Self> {
        #[repr(C)]
        struct Api([u64; 3]);
        #[repr(C)]
        struct Register([u64; 4]);
        const UFFDIO_API: libc::c_ulong = 0xc018_aa3f;
        const UFFDIO_REGISTER: libc::c_ulong = 0xc020_aa00;
        const MISSING: u64 = 1;
        // SAFETY: no memory is passed.
        let fd = unsafe { libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC) };
        if fd < 0 {
            return None;
        }
        // SAFETY: the descriptor was just made and has no other owner.
        let faults = unsafe { OwnedFd::from_raw_fd(fd as i32) };
        let (readable, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping, where the kernel likes.
        let page = unsafe { libc::mmap(std::ptr::null_mut(), PAGE, readable, flags, -1, 0) };
        assert_ne!(page, libc::MAP_FAILED);
        let mut api = Api([0xaa, 0, 0]);
        let mut register = Register([page as u64, PAGE as u64, MISSING, 0]);
        // SAFETY: structures of the sizes that the requests name, alive for the calls.
        let done = unsafe {
            libc::ioctl(faults.as_raw_fd(), UFFDIO_API, &raw mut api)
                | libc::ioctl(faults.as_raw_fd(), UFFDIO_REGISTER, &raw mut register)
        };
        assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
        Some(Self { page: page as usize, faults: Some(faults) })
    }

    /// Waits for a page fault.
    fn is_wanted(&self) {
        let mut wait = [PollFd::new(self.faults.as_ref().unwrap().as_fd(), PollFlags::POLLIN)];
        assert_eq!(poll(&mut wait, 5000_u16).unwrap(), 1);
    }

    /// Writes from that page to a device.
    fn write_to(&self, device: &File) -> std::thread::JoinHandle<()> {
        let (page, device) = (self.page, device.try_clone().unwrap());
        std::thread::spawn(move || {
            // SAFETY: the page stays mapped until this thread has been joined.
            unsafe { libc::write(device.as_raw_fd(), page as *const libc::c_void, 200) };
        })
    }
}

/// From here on a write into a lane's device blocks while another is under way.
fn wait_for_room(device: &File) {
    const TUNSETSNDBUF: libc::c_ulong = 0x4004_54d4;
    let least: libc::c_int = 1;
    // SAFETY: one `int`, alive for the call; then no memory.
    unsafe {
        libc::ioctl(device.as_raw_fd(), TUNSETSNDBUF, &raw const least);
        libc::fcntl(device.as_raw_fd(), libc::F_SETFL, 0);
    }
}

#[test]
fn a_write_that_does_not_end_holds_up_neither_the_service_nor_others() {
    let Some(mut absent) = Absent::new().filter(|_| !skipped()) else { return };
    let world = World::with(Attach::Tc, "[limits]\nlanes = 16\nlanes_per_user = 8\n");
    let (mut client, lane, mut stack) = world.program();
    stack.path_set(client.path(PEER), now());
    let listener = within(&world.pair.a, || TcpListener::bind("0.0.0.0:8080").unwrap());
    client.claim_bound(&listener).unwrap();
    let id = stack.tcp_listen(&stack.tcp_defaults(), Endpoint::new(Address::ANY_V4, 8080), 16).unwrap();
    let mut peer = connecting(&world, 0, 8080);
    lane.accept(&mut stack, id);
    peer.set_nonblocking(false).unwrap();
    peer.set_read_timeout(Some(TIMEOUT)).unwrap();
    let device = File::from(lane.tap.try_clone().unwrap());
    wait_for_room(&device);
    let writer = absent.write_to(&device);
    let number = lane.lane;
    absent.is_wanted();
    drop((stack, client, lane, listener));
    // Its peer is told, and others get their lanes: also those that have to be made.
    assert_eq!(peer.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
    let begun = Instant::now();
    let mut others = [(); 6].map(|()| world.client());
    let lanes = others.each_mut().map(|other| other.hello().unwrap());
    assert!(begun.elapsed() < TIMEOUT, "{:?}", begun.elapsed());
    assert_eq!(others[0].counters(CountersOf::Lane, lanes[0].lane)[0], 0);
    // The lane counts for its user for as long as it cannot be removed.
    let mut last = world.client();
    last.hello().unwrap();
    assert_eq!(world.client().hello().err(), Some(Reason::UserLaneLimit));
    assert!(!writer.is_finished());
    drop((absent.faults.take(), device));
    writer.join().unwrap();
    until("it is given back", || world.client().hello().is_ok());
    until("its device is gone", || !world.lane_devices().contains(&format!("tw{number}h")));
}

#[test]
fn a_lane_counts_for_its_user_while_its_rings_are_held() {
    if skipped() {
        return;
    }
    let world = World::with(Attach::Tc, "[limits]\nlanes_per_user = 1\n");
    let (client, lane) = world.laned();
    let ring = lane.port.as_fd().try_clone_to_owned().unwrap();
    drop((client, lane));
    until("the lane has ended", || world.lane_devices().is_empty());
    std::thread::sleep(std::time::Duration::from_millis(200));
    assert_eq!(world.client().hello().err(), Some(Reason::UserLaneLimit));
    drop(ring);
    until("it is given back", || world.client().hello().is_ok());
}

#[test]
fn users_have_their_turn_however_many_programs_of_others_wait() {
    if skipped() {
        return;
    }
    let config = "[lane]\nready = 0\n[limits]\nlanes_per_user = 24\nmemory_mib = 65536\nmemory_per_user_mib = 65536\n";
    let world = World::with(Attach::Tc, config);
    let mut many: Vec<Client> = (0..24).map(|_| Client::as_user(&world, 4001)).collect();
    let mut one = Client::as_user(&world, 4002);
    many.iter_mut().for_each(Client::say_hello);
    // Lanes are numbered as they are made, and given in that order.
    let number = one.hello().unwrap().lane;
    let later = many.iter().filter(|client| client.given_lane() > number).count();
    assert!(later >= 8, "{later} of 24 came after it");
}

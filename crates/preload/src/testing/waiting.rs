use super::*;
use crate::sys::errno::Errno;
use crate::table::desc::flag;
use crate::wait::{self, AGAIN, NO_FD, OWN, WaitPlan, poll};
use core::ffi::c_void;
use libc::pollfd;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};
use tickwire_stack::path::Query;
use tickwire_stack::time::Span;
use tickwire_stack::udp::{SendTo, UdpOptions};
use tickwire_stack::{Ready, StackError};

fn pollin(fd: c_int) -> pollfd {
    pollfd { fd, events: libc::POLLIN, revents: 0 }
}

#[test]
fn poll_waits_for_ours_and_the_kernels_together() {
    let fd = socket(libc::SOCK_DGRAM);
    let bell = sys::eventfd().unwrap();
    let mut fds = [pollin(fd), pollin(bell), pollin(-1)];
    let begin = Instant::now();
    assert_eq!(poll::poll(&mut fds, Some(Span::from_millis(20)), None), Ok(0));
    assert!(begin.elapsed() >= Duration::from_millis(20));
    let ringer = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(20));
        sys::ring(bell);
    });
    assert_eq!(poll::poll(&mut fds, Some(Span::from_secs(5)), None), Ok(1));
    assert_eq!([fds[0].revents, fds[1].revents], [0, libc::POLLIN]);
    ringer.join().unwrap();
    send(fd, b"x", 0, Some((THERE, 7))).unwrap();
    assert_eq!(poll::poll(&mut fds, Some(Span::from_secs(5)), None), Ok(2));
    [fd, bell].into_iter().for_each(close);
}

/// If the ring had no room for a packet, a thread about to sleep checks again soon, and so does the
/// helper. They do not if the packet was sent when the lane was left.
#[test]
fn only_what_finds_no_room_is_to_be_looked_after_soon() {
    let send = |lane: &crate::lane::Lane, port: u16| {
        lane.with(|access| {
            access.stack.path_set(service::path_to(Query::to(THERE).from(HERE), HERE), access.now);
            let udp = access.stack.udp_open(UdpOptions::default())?;
            access.stack.udp_bind(udp, Endpoint::new(HERE, port))?;
            let to = SendTo { destination: Some(Endpoint::new(THERE, 7)), ..SendTo::default() };
            access.stack.udp_send(udp, access.now, &to, &mut b"mute".as_slice())?;
            assert!(access.stack.has_egress(), "it goes when the lane is left");
            access.stack.udp_close(udp)?;
            Ok(())
        })
        .unwrap();
        lane.crowded()
    };
    assert!(!send(lane(), 9));
    ended(|full| {
        full.care_until_deadline();
        assert!(full.is_cared_for());
        assert!(send(full, 9));
        assert!(!full.is_cared_for(), "the helper is woken: the program may not come back soon");
    });
}

#[test]
fn a_thread_asleep_is_woken_by_what_another_thread_brings_in() {
    let fd = socket(libc::SOCK_DGRAM);
    send(fd, b"mute", 0, Some((THERE, 7))).unwrap();
    let sleeper = std::thread::spawn(move || receive(fd, 10, 0));
    std::thread::sleep(Duration::from_millis(30));
    send(fd, b"wake up", 0, Some((THERE, 7))).unwrap();
    assert_eq!(sleeper.join().unwrap(), Ok(b"wake up".to_vec()));
    close(fd);
}

/// A thread whose wakeup was spurious checks again.
#[test]
fn a_thread_asleep_is_not_woken_by_what_is_for_another() {
    let (lane, _service) = another();
    let [own, others] = [(); 2].map(|()| {
        let opened = lane.with(|access| {
            let id = access.stack.udp_open(UdpOptions::default())?;
            let index = access.descriptions().take(flag::UDP, 0).unwrap();
            access.descriptions().get(index).set_socket(id.into());
            Ok((id, index))
        });
        opened.unwrap()
    });
    let happens = |id| lane.with(|access| Ok(access.stack.udp_keep_error(id, StackError::Refused)?)).unwrap();
    let looks = AtomicU32::new(0);
    std::thread::scope(|scope| {
        let sleeper = scope.spawn(|| {
            let (on, mut fds) = ([own.1], [NO_FD; OWN]);
            let mut plan = WaitPlan::new(&on, &mut fds, None);
            wait::wait(lane, &mut plan, |access, _| {
                looks.fetch_add(1, Ordering::Relaxed);
                if access.stack.readiness(own.0.into())?.contains(Ready::ERR) { Ok(()) } else { Err(AGAIN) }
            })
        });
        while lane.asleep() == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        let before = looks.load(Ordering::Relaxed);
        (0..20).for_each(|_| happens(others.0));
        std::thread::sleep(Duration::from_millis(5));
        assert_eq!(looks.load(Ordering::Relaxed), before);
        happens(own.0);
        assert_eq!(sleeper.join().unwrap(), Ok(()));
    });
    assert!(looks.into_inner() > 0 && lane.asleep() == 0);
}

/// Handlers belong to the whole process: one test at a time has any.
static SIGNALS: Mutex<()> = Mutex::new(());
static HANDLED: AtomicU32 = AtomicU32::new(0);

extern "C" fn handler(_: c_int) {
    HANDLED.fetch_add(1, Ordering::Relaxed);
}

/// Installs the handler for a signal.
fn install(signal: c_int, flags: c_int) {
    // SAFETY: a valid action whose handler only counts.
    unsafe {
        let mut action: libc::sigaction = core::mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = flags;
        assert_eq!(libc::sigaction(signal, &raw const action, core::ptr::null_mut()), 0);
    }
}

#[test]
fn a_signal_interrupts_a_call_or_restarts_it_as_its_handler_says() {
    let _alone = SIGNALS.lock();
    // SAFETY: asks for the thread's own name.
    let this = unsafe { libc::pthread_self() } as usize;
    let poke = move || {
        std::thread::sleep(Duration::from_millis(30));
        // SAFETY: the thread lives: it waits for this one.
        unsafe { libc::pthread_kill(this as libc::pthread_t, libc::SIGUSR1) };
    };
    // Repeatedly: on a busy machine the first signal may come before the call does.
    let interrupted = |call: &dyn Fn() -> Result<()>| {
        let ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !ended.load(Ordering::SeqCst) {
                    poke();
                }
            });
            let said = call();
            ended.store(true, Ordering::SeqCst);
            said
        })
    };
    let fd = socket(libc::SOCK_DGRAM);
    send(fd, b"mute", 0, Some((THERE, 7))).unwrap();
    install(libc::SIGUSR1, 0);
    assert_eq!(interrupted(&|| receive(fd, 10, 0).map(drop)), Err(Errno(libc::EINTR)));
    let handled = HANDLED.load(Ordering::Relaxed);
    assert!(handled > 0);

    install(libc::SIGUSR1, libc::SA_RESTART);
    let poker = std::thread::spawn(move || {
        poke();
        std::thread::sleep(Duration::from_millis(30));
        send(fd, b"after", 0, Some((THERE, 7))).unwrap();
    });
    assert_eq!(receive(fd, 10, 0), Ok(b"after".to_vec()));
    poker.join().unwrap();

    // poll is never restarted.
    let polled = || poll::poll(&mut [pollin(fd)], Some(Span::from_secs(5)), None).map(drop);
    assert_eq!(interrupted(&polled), Err(Errno(libc::EINTR)));
    assert!(HANDLED.load(Ordering::Relaxed) > handled + 1);
    close(fd);
}

#[test]
fn a_call_from_a_handler_that_interrupted_the_lane_does_not_wait() {
    let fd = socket(libc::SOCK_DGRAM);
    let inside = crate::base::reentrancy::enter().unwrap();
    assert_eq!(receive(fd, 10, libc::MSG_DONTWAIT), Err(Errno(libc::EAGAIN)));
    assert_eq!(receive(fd, 10, 0), Err(Errno(libc::EINTR)));
    drop(inside);
    close(fd);
}

#[test]
fn only_signals_with_a_handler_interrupt_and_faults_are_never_held_back() {
    use sys::Signals;
    let _alone = SIGNALS.lock();
    let before = sys::block_signals();
    // SAFETY: the thread's own signals; none of these is used by another test, or has a handler.
    let waiting = |signal| unsafe {
        assert_eq!(libc::pthread_kill(libc::pthread_self(), signal), 0);
        sys::waiting_signals(&before)
    };
    assert_eq!(sys::waiting_signals(&before), Signals::None);
    assert_eq!(waiting(libc::SIGWINCH), Signals::Silent, "ignored by default, and waits all the same");
    install(libc::SIGUSR2, libc::SA_RESTART);
    assert_eq!(waiting(libc::SIGUSR2), Signals::Handled { restart: true });
    install(libc::SIGURG, 0);
    assert_eq!(waiting(libc::SIGURG), Signals::Handled { restart: false });
    // SAFETY: only asks.
    let blocked = unsafe {
        let mut now: libc::sigset_t = core::mem::zeroed();
        libc::pthread_sigmask(libc::SIG_BLOCK, core::ptr::null(), &raw mut now);
        [libc::SIGSEGV, libc::SIGABRT, libc::SIGINT].map(|signal| libc::sigismember(&raw const now, signal))
    };
    assert_eq!(blocked, [0, 0, 1]);
    // They are delivered to this thread, and ignored here, before another test counts its handler's
    // runs.
    for signal in [libc::SIGUSR2, libc::SIGURG] {
        // SAFETY: ignoring a signal is always allowed; waiting ones are dropped by it.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
    sys::restore_signals(&before);
}

/// A thread of the C library that receives until it is cancelled.
extern "C-unwind" fn receive_for_ever(fd: *mut c_void) -> *mut c_void {
    let mut byte = 0u8;
    loop {
        // SAFETY: one byte of our own.
        unsafe { crate::exports::data::recv(fd as c_int, (&raw mut byte).cast(), 1, 0) };
    }
}

/// As above, but may be cancelled at any instruction.
extern "C-unwind" fn receive_for_ever_at_any_time(fd: *mut c_void) -> *mut c_void {
    // SAFETY: no result is requested.
    unsafe { crate::exports::cancel::pthread_setcanceltype(1, core::ptr::null_mut()) };
    receive_for_ever(fd)
}

#[test]
fn a_thread_that_receives_can_be_cancelled() {
    type Start = extern "C-unwind" fn(*mut c_void) -> *mut c_void;
    let fd = socket(libc::SOCK_DGRAM);
    send(fd, b"mute", 0, Some((THERE, 7))).unwrap();
    for start in [receive_for_ever as Start, receive_for_ever_at_any_time] {
        // SAFETY: a thread whose only frame has nothing to drop; it is joined. The two kinds of
        // function differ in whether unwinding may pass, which it does here.
        unsafe {
            let start = core::mem::transmute::<Start, extern "C" fn(*mut c_void) -> *mut c_void>(start);
            let mut thread: libc::pthread_t = 0;
            assert_eq!(libc::pthread_create(&raw mut thread, core::ptr::null(), start, fd as *mut c_void), 0);
            std::thread::sleep(Duration::from_millis(30));
            assert_eq!(crate::exports::cancel::pthread_cancel(thread), 0);
            let mut end = core::ptr::null_mut();
            assert_eq!(libc::pthread_join(thread, &raw mut end), 0);
            assert_eq!(end as isize, -1, "PTHREAD_CANCELED");
        }
    }
    // The lane is as it was.
    send(fd, b"after", 0, Some((THERE, 7))).unwrap();
    assert_eq!(receive(fd, 10, 0), Ok(b"after".to_vec()));
    close(fd);
}

#[test]
fn vectors_with_flags_wait_or_not_as_they_say() {
    let fd = socket(libc::SOCK_DGRAM);
    send(fd, b"mute", 0, Some((THERE, 7))).unwrap();
    let mut byte = [0u8];
    let iov = one(byte.as_mut_ptr().cast(), 1);
    // SAFETY: one byte of our own.
    let read = |flags| unsafe { crate::exports::data::preadv2(fd, iov.as_ptr(), 1, -1, flags) };
    assert_eq!((read(libc::RWF_NOWAIT), crate::sys::errno::get()), (-1, libc::EAGAIN));
    assert_eq!((read(libc::RWF_APPEND), crate::sys::errno::get()), (-1, libc::EOPNOTSUPP));
    close(fd);
}

#[test]
fn a_socket_that_went_to_the_kernel_elsewhere_leaves_the_others_with_the_stack() {
    let (gone, fd) = (socket(libc::SOCK_DGRAM), connected(7));
    let crate::table::fd::Entry::Udp(index) = crate::table::fd::TABLE.get(gone) else { panic!("a socket of ours") };
    // As another process does.
    let done = lane().with(|access| {
        let id = access.descriptions().get(index).socket().try_into()?;
        access.stack.udp_close(id)?;
        let mut descriptions = access.descriptions();
        let mut description = descriptions.get(index);
        description.set(crate::table::desc::flag::KERNEL, true);
        description.set_socket(tickwire_stack::SocketId::default());
        Ok(())
    });
    done.unwrap();
    let mut fds = [pollin(gone), pollin(fd)];
    assert_eq!(poll::poll(&mut fds, Some(Span::from_millis(5)), None), Ok(0), "{fds:?}");
    assert!(!crate::table::fd::TABLE.get(gone).is_socket());
    send(fd, b"x", 0, None).unwrap();
    assert_eq!(poll::poll(&mut fds, Some(Span::from_secs(5)), None), Ok(1));
    assert_eq!([fds[0].revents, fds[1].revents], [0, libc::POLLIN]);
    [gone, fd].into_iter().for_each(close);
}

#[test]
fn a_dead_connection_does_not_hide_the_others_of_a_list() {
    let bell = sys::eventfd().unwrap();
    let quiet = sys::eventfd().unwrap();
    let dead = sys::socket(libc::AF_INET, libc::SOCK_STREAM, 0).unwrap();
    lane();
    crate::table::fd::TABLE.set(dead, crate::table::fd::Entry::Dead(libc::ECONNRESET as u32));
    sys::ring(bell);
    let mut fds = [pollin(dead), pollin(bell), pollin(quiet)];
    fds[2].revents = libc::POLLIN;
    assert_eq!(poll::poll(&mut fds, None, None), Ok(2));
    assert_eq!([fds[1].revents, fds[2].revents], [libc::POLLIN, 0]);
    [dead, bell, quiet].into_iter().for_each(close);
}

static INSIDE_SEEN: AtomicU32 = AtomicU32::new(0);

extern "C" fn looks_where_it_is(_: c_int) {
    INSIDE_SEEN.fetch_add(if crate::base::reentrancy::is_inside() { 1000 } else { 1 }, Ordering::Relaxed);
}

#[test]
fn handlers_run_when_the_thread_is_out_of_the_lane() {
    let _alone = SIGNALS.lock();
    let handler = looks_where_it_is as *const () as usize;
    // SAFETY: valid actions, and a signal to this very thread.
    unsafe {
        use crate::exports::signal::{sigaction, signal};
        assert_eq!(signal(libc::SIGVTALRM, handler), libc::SIG_DFL);
        let mut action: libc::sigaction = core::mem::zeroed();
        assert_eq!(sigaction(libc::SIGVTALRM, core::ptr::null(), &raw mut action), 0);
        assert_eq!(
            (action.sa_sigaction, action.sa_flags & libc::SA_SIGINFO),
            (handler, 0),
            "as the program installed it"
        );
        let here = libc::pthread_self();
        let before = crate::base::deferred_signals::ran();
        libc::pthread_kill(here, libc::SIGVTALRM);
        assert_eq!(INSIDE_SEEN.load(Ordering::Relaxed), 1, "at once");
        let done = lane().with(|_| {
            libc::pthread_kill(here, libc::SIGVTALRM);
            libc::pthread_kill(here, libc::SIGVTALRM);
            Ok(INSIDE_SEEN.load(Ordering::Relaxed))
        });
        assert_eq!(done, Ok(1), "not inside");
        assert_eq!(INSIDE_SEEN.load(Ordering::Relaxed), 2, "but right after, once, as signals that wait are one");
        assert_eq!(crate::base::deferred_signals::ran(), before + 2);
        libc::pthread_kill(here, libc::SIGVTALRM);
        assert_eq!(INSIDE_SEEN.load(Ordering::Relaxed), 3, "it is not blocked");
        // Also while the registry is held.
        let held = crate::wait::epoll::registry();
        lane().with(|_| Ok(libc::pthread_kill(here, libc::SIGVTALRM))).unwrap();
        assert_eq!(INSIDE_SEEN.load(Ordering::Relaxed), 3);
        drop(held);
        assert_eq!(INSIDE_SEEN.load(Ordering::Relaxed), 4);
        assert_eq!(signal(libc::SIGVTALRM, libc::SIG_DFL), handler);
    }
}

/// Packets for a thread that counts as asleep signal the doorbell, which would wake the thread
/// itself.
#[test]
fn a_thread_that_was_asleep_counts_as_awake_before_the_rings_are_polled() {
    static SEEN: Mutex<Vec<&str>> = Mutex::new(Vec::new());
    let see = |what| SEEN.lock().unwrap().push(what);
    let limits = Limits { frames: 64, ..Limits::DEFAULT };
    let wire = Wire::Test(Box::new(move |_, _| {
        see("rings");
        0
    }));
    let lane = Lane::new(
        Parts {
            shared: SharedStack::local(limits, wire),
            ring: -1,
            standby: None,
            doorbell: -1,
            handover: Handover { number: 2, token: Token([2; 16]), limits, region: -1, tap: -1, standby: -1 },
            settings: Settings {
                spin: Spin::Never,
                min_rto: None,
                helper: Scheduling::DEFAULT,
                realtime: true,
                require: false,
                verbose: false,
                noted: false,
            },
            session: None,
        },
        Some(0),
    );
    let lane = lane.ok().unwrap();
    SEEN.lock().unwrap().clear();
    let worked = lane.with_awake(
        |_| see("awake"),
        |_| {
            see("work");
            Ok(())
        },
    );
    assert_eq!(worked, Ok(()));
    assert_eq!(SEEN.lock().unwrap()[..3], ["awake", "rings", "work"]);
}

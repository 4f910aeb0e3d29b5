use super::*;
use crate::errno::Errno;
use crate::poll;
use libc::pollfd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use tickwire_stack::time::Span;

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

static HANDLED: AtomicU32 = AtomicU32::new(0);

extern "C" fn handler(_: c_int) {
    HANDLED.fetch_add(1, Ordering::Relaxed);
}

/// Installs the handler for a signal; the action is process-wide, so one test does all of it.
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
    // SAFETY: asks for the thread's own name.
    let this = unsafe { libc::pthread_self() } as usize;
    let poke = move || {
        std::thread::sleep(Duration::from_millis(30));
        // SAFETY: the thread lives: it waits for this one.
        unsafe { libc::pthread_kill(this as libc::pthread_t, libc::SIGUSR1) };
    };
    let fd = socket(libc::SOCK_DGRAM);
    send(fd, b"mute", 0, Some((THERE, 7))).unwrap();
    install(libc::SIGUSR1, 0);
    let poker = std::thread::spawn(poke);
    assert_eq!(receive(fd, 10, 0), Err(Errno(libc::EINTR)));
    poker.join().unwrap();

    install(libc::SIGUSR1, libc::SA_RESTART);
    let poker = std::thread::spawn(move || {
        poke();
        std::thread::sleep(Duration::from_millis(30));
        send(fd, b"after", 0, Some((THERE, 7))).unwrap();
    });
    assert_eq!(receive(fd, 10, 0), Ok(b"after".to_vec()));
    poker.join().unwrap();

    // poll is never restarted.
    let poker = std::thread::spawn(poke);
    assert_eq!(poll::poll(&mut [pollin(fd)], Some(Span::from_secs(5)), None), Err(Errno(libc::EINTR)));
    poker.join().unwrap();
    assert_eq!(HANDLED.load(Ordering::Relaxed), 3);
    close(fd);
}

#[test]
fn a_call_from_a_handler_that_interrupted_the_lane_does_not_wait() {
    let fd = socket(libc::SOCK_DGRAM);
    let inside = crate::wait::enter().unwrap();
    assert_eq!(receive(fd, 10, libc::MSG_DONTWAIT), Err(Errno(libc::EAGAIN)));
    assert_eq!(receive(fd, 10, 0), Err(Errno(libc::EINTR)));
    drop(inside);
    close(fd);
}

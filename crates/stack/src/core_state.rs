//! What a stack has one of: configuration, free lists, list ends, cursors.

use crate::Stack;
use crate::fill::Fill;
use crate::frame::{FrameId, flag};
use crate::ip::reassembly::Reassembly;
use crate::path::{Path, Query, Waiting};
use crate::periodic::Periodic;
use crate::pool::{FreeList, Link};
use crate::queue::Queues;
use crate::time::Instant;
use crate::wakeups::{Waiter, WakeState};
use crate::watch::{Item, Set};
use crate::{tcp, udp};
use zerocopy::FromZeros;

/// What a stack is told at its start.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Random words from the host: keys of the hash tables, of initial sequence numbers and of SYN
    /// cookies.
    pub secret: [u64; 4],
    /// How many frames the kernel's fill ring holds at most (never more than half of all frames).
    /// While packets are taken as they come it is a quarter of the default.
    pub fill: u32,
    /// Largest IP packet to assume for a path of which the host has not spoken, until
    /// [`Stack::assume_mtu`].
    pub default_mtu: u32,
    /// Defaults of TCP.
    pub tcp: tcp::Config,
}

impl Default for Config {
    fn default() -> Self {
        Self { secret: [0; 4], fill: 2048, default_mtu: 1500, tcp: tcp::Config::default() }
    }
}

/// How many destinations may wait to be asked for at one time.
pub(crate) const REQUESTS: usize = 64;

/// The single things of a stack.
#[derive(FromZeros)]
#[repr(C)]
pub(crate) struct Core {
    /// Random words, see [`Config::secret`].
    pub(crate) secret: [u64; 4],
    /// Frames that are set aside for receiving, and how many there should be.
    pub(crate) filled: u32,
    pub(crate) fill: Fill,
    /// The first of them; they are chained by their notes.
    pub(crate) fill_top: Link,
    pub(crate) default_mtu: u32,
    /// Identification of the next IPv4 datagram or IPv6 fragment.
    pub(crate) ip_id: u32,
    /// First and last frame of a received packet whose other frames are still to come.
    pub(crate) partial_head: Link,
    pub(crate) partial_tail: Link,
    /// Payload bytes of each packet of which the one that is being taken was merged; 0: it is one.
    pub(crate) merged_of: u32,
    /// Frames in it; and whether the rest of it is to be thrown away.
    pub(crate) partial_len: u32,
    pub(crate) partial_bad: u32,
    /// By which interface the packet came that is looked at; 0 if that is not known.
    pub(crate) came_by: u32,
    /// The transmit queues.
    pub(crate) queues: Queues,
    /// Whether packets are being sent by a call.
    pub(crate) writing: u32,
    /// Entries of the timer heap.
    pub(crate) heap_len: u32,
    /// Which threads are to be woken.
    pub(crate) wakeups: WakeState,
    /// When messages are due.
    pub(crate) periodic: Periodic,
    /// Path requests: a ring.
    pub(crate) requests_head: u32,
    pub(crate) requests_len: u32,
    pub(crate) requests: [Query; REQUESTS],
    /// Paths that are only guessed.
    pub(crate) guesses: u32,
    /// Hand of the path cache's clock (eviction).
    pub(crate) path_hand: u32,
    /// Reassemblies, oldest first.
    pub(crate) reassembly_head: Link,
    pub(crate) reassembly_tail: Link,
    /// Frames held by reassemblies.
    pub(crate) reassembly_frames: u32,
    /// When paths that are being resolved are looked at again.
    pub(crate) paths_at: Instant,
    /// There was no room for UDP to send; its sockets are to be told when there is.
    pub(crate) udp_full: u32,
    pub(crate) free_tcp: FreeList<tcp::Socket>,
    pub(crate) free_listeners: FreeList<tcp::Listener>,
    pub(crate) free_udp: FreeList<udp::Socket>,
    pub(crate) free_groups: FreeList<udp::Membership>,
    pub(crate) free_paths: FreeList<Path>,
    pub(crate) free_waiting: FreeList<Waiting>,
    pub(crate) free_reassemblies: FreeList<Reassembly>,
    pub(crate) free_items: FreeList<Item>,
    pub(crate) free_sets: FreeList<Set>,
    pub(crate) free_waiters: FreeList<Waiter>,
    /// What TCP has one of.
    pub(crate) tcp: tcp::Shared,
}

impl Stack<'_> {
    /// Prepares all-zero memory. Once, before anything else.
    pub fn init(&mut self, config: &Config, now: Instant) {
        let half = self.mem.frames.meta.len() as u32 / 2;
        let core = &mut *self.mem.core;
        core.secret = config.secret;
        core.fill = Fill::new(config.fill.min(half));
        core.default_mtu = config.default_mtu;
        core.ip_id = (config.secret[3] >> 32) as u32;
        core.tcp.init(&config.tcp, now);
    }

    /// Starts afresh after the memory may have been left half-changed (a process died inside):
    /// every socket, set, path and queued packet is gone, every handle stale. Counters and the
    /// caller's own words stay, and so does what is known about frames that were handed out to be
    /// sent, which come back through [`Stack::completed`] as before.
    ///
    /// For sockets whose transmit ring is new as well, or does not end within a packet: the rest of
    /// one of which the ring has the beginning is gone, and the kernel would take what is sent next
    /// for it.
    pub fn restart(&mut self, config: &Config, now: Instant) {
        let mtu = self.mem.core.default_mtu;
        self.mem.wipe();
        self.mem.frames.rebuild();
        self.init(config, now);
        let core = &mut *self.mem.core;
        core.default_mtu = mtu;
        // Threads that sleep find out that their sockets are gone.
        self.wake_all();
    }

    /// The largest IP packet to assume for paths of which the host has not spoken: what is answered
    /// to a peer's SYN depends on it, so it must not be more than any of the host's interfaces
    /// takes.
    pub fn assume_mtu(&mut self, mtu: u32) {
        self.mem.core.default_mtu = mtu;
    }

    /// The words that the caller keeps in the region for itself.
    pub fn user(&mut self) -> &mut [u64] {
        self.mem.user
    }

    /// A frame for a packet that is not kept: it frees itself when the kernel has sent it.
    pub(crate) fn control_frame(&mut self) -> Option<FrameId> {
        let id = self.mem.frames.take();
        match id {
            Some(id) => self.mem.frames.meta[id as usize].flags |= flag::FREE_ON_COMPLETE,
            None => self.mem.counters.frames_exhausted.inc(),
        }
        id
    }
}

//! The global state of a stack: configuration, free lists, list ends, cursors.

use crate::Stack;
use crate::epoll_sets::{Item, Set};
use crate::frame::{FrameId, flag};
use crate::ip::reassembly::Reassembly;
use crate::path::{Path, Query, Waiting};
use crate::periodic::Periodic;
use crate::pool::{FreeList, PoolLink};
use crate::queue::Queues;
use crate::receive_reserve::ReceiveReserve;
use crate::time::Instant;
use crate::wakeups::{Waiter, WakeState};
use crate::{tcp, udp};
use zerocopy::FromZeros;

/// The configuration of a stack at its start.
#[derive(Clone, Copy, Debug)]
pub struct StackConfig {
    /// Random words from the host: keys of the hash tables, of initial sequence numbers and of SYN
    /// cookies.
    pub secret: [u64; 4],
    /// Most frames of the receive reserve (never more than half of all frames). Without a backlog
    /// it holds 256, an eighth of the default, or more if the sockets or their receive buffers need
    /// more.
    pub fill: u32,
    /// Largest IP packet to assume for a path that the host has not reported, until
    /// [`Stack::assume_mtu`].
    pub default_mtu: u32,
    /// Defaults of TCP.
    pub tcp: tcp::TcpConfig,
}

impl Default for StackConfig {
    fn default() -> Self {
        Self { secret: [0; 4], fill: 2048, default_mtu: 1500, tcp: tcp::TcpConfig::default() }
    }
}

/// Most queued requests for paths.
pub(crate) const REQUESTS: usize = 64;

/// The global state of a stack.
#[derive(FromZeros)]
#[repr(C)]
pub(crate) struct Core {
    /// Random words, see [`StackConfig::secret`].
    pub(crate) secret: [u64; 4],
    /// Frames in the receive reserve, and how many there should be.
    pub(crate) filled: u32,
    pub(crate) fill: ReceiveReserve,
    /// The first of them; they are chained by their notes.
    pub(crate) fill_top: PoolLink,
    pub(crate) default_mtu: u32,
    /// Identification of the next IPv4 datagram or IPv6 fragment.
    pub(crate) ip_id: u32,
    /// First and last frame of a received packet that is not complete yet.
    pub(crate) partial_head: PoolLink,
    pub(crate) partial_tail: PoolLink,
    /// Payload bytes per packet from which the received one was merged; 0: it was not merged.
    pub(crate) merged_of: u32,
    /// Its number of frames, and whether its rest is to be dropped.
    pub(crate) partial_len: u32,
    pub(crate) partial_bad: u32,
    /// The incoming interface of the packet that is being processed; 0 if unknown.
    pub(crate) came_by: u32,
    /// The transmit queues.
    pub(crate) queues: Queues,
    /// Whether packets are being sent by a synchronous call.
    pub(crate) writing: u32,
    /// Entries of the timer heap.
    pub(crate) heap_len: u32,
    /// Threads to be woken.
    pub(crate) wakeups: WakeState,
    /// Prediction of periodic messages.
    pub(crate) periodic: Periodic,
    /// Path requests: a ring.
    pub(crate) requests_head: u32,
    pub(crate) requests_len: u32,
    pub(crate) requests: [Query; REQUESTS],
    /// Number of guessed paths.
    pub(crate) guesses: u32,
    /// Clock hand of the path cache (eviction).
    pub(crate) path_hand: u32,
    /// Reassemblies, oldest first.
    pub(crate) reassembly_head: PoolLink,
    pub(crate) reassembly_tail: PoolLink,
    /// Frames held by reassemblies.
    pub(crate) reassembly_frames: u32,
    /// When paths in resolution are checked again.
    pub(crate) paths_at: Instant,
    /// A UDP send found no room; UDP sockets are to be notified when there is some.
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
    /// The state that all connections share.
    pub(crate) tcp: tcp::Shared,
}

shared_layout! { Core {
    secret, filled, fill, fill_top, default_mtu, ip_id, partial_head, partial_tail, merged_of,
    partial_len, partial_bad, came_by, queues, writing, heap_len, wakeups, periodic, requests_head,
    requests_len, requests, guesses, path_hand, reassembly_head, reassembly_tail, reassembly_frames,
    paths_at, udp_full, free_tcp, free_listeners, free_udp, free_groups, free_paths, free_waiting,
    free_reassemblies, free_items, free_sets, free_waiters, tcp,
} }

impl Stack<'_> {
    /// Initialises all-zero memory. Once, before anything else.
    pub fn init(&mut self, config: &StackConfig) {
        let half = self.mem.frames.meta.len() as u32 / 2;
        let core = &mut *self.mem.core;
        core.secret = config.secret;
        core.fill = ReceiveReserve::new(config.fill.min(half));
        core.default_mtu = config.default_mtu;
        core.ip_id = (config.secret[3] >> 32) as u32;
        core.tcp.init(&config.tcp);
    }

    /// Restarts after the memory may be inconsistent because a process died inside. Every socket,
    /// set, path and queued packet is gone, every handle is stale. Counters and the caller's own
    /// words stay. So does the state of frames in an asynchronous transmit ring, which return
    /// through [`Stack::completed`] as before.
    ///
    /// Such a ring must be new as well, or must not end within a packet. Otherwise the rest of that
    /// packet is gone, and the next frames would be taken for it.
    pub fn restart(&mut self, config: &StackConfig) {
        let mtu = self.mem.core.default_mtu;
        self.mem.wipe();
        self.mem.frames.rebuild();
        self.init(config);
        let core = &mut *self.mem.core;
        core.default_mtu = mtu;
        // Sleeping threads must notice that their sockets are gone.
        self.wake_all();
    }

    /// The largest IP packet to assume for paths that the host has not reported. The answer to a
    /// peer's SYN depends on it, so it must not exceed the MTU of any of the host's interfaces.
    pub fn assume_mtu(&mut self, mtu: u32) {
        self.mem.core.default_mtu = mtu;
    }

    /// The words of the region that belong to the caller.
    pub fn user(&mut self) -> &mut [u64] {
        self.mem.user
    }

    /// A frame for a packet that is not kept: it is freed when it has been sent.
    pub(crate) fn control_frame(&mut self) -> Option<FrameId> {
        let id = self.mem.frames.take();
        match id {
            Some(id) => self.mem.frames.meta[id as usize].flags |= flag::FREE_ON_COMPLETE,
            None => self.mem.counters.frames_exhausted.inc(),
        }
        id
    }
}

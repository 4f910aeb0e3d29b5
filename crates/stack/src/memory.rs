//! All memory of a stack: one list of sections defines their sizes and their order.
//!
//! The stack itself sees slices, whose origin is up to the caller. A shared region places them one
//! after the other (by [`Place`]), tests and simulations allocate them on the heap (`OwnedMemory`,
//! feature `owned`). All-zero memory is a valid start everywhere, so a fresh region needs no
//! constructor. Indices instead of pointers mean the same in every process that maps it.
//!
//! This module only lays the memory out and clears it. What works with the content is a method of
//! [`crate::Stack`], in the module of its mechanism.

use crate::demux::Node;
use crate::epoll_sets::{Item, Set};
use crate::frame::{FRAME_SIZE, FrameMeta, Frames};
use crate::globals::Core;
use crate::ip::reassembly::Reassembly;
use crate::path::{Path, Waiting};
use crate::pool::{FreeList, PoolLink, Slots};
use crate::queue::Queued;
use crate::shared_layout::{Fnv, SharedLayout};
use crate::socket_alloc::Handle;
use crate::table::{Counters, SocketRow};
use crate::timers::{Entry, Timer};
use crate::wakeups::{WAITERS, Waiter};
use crate::{tcp, udp};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

/// How many objects of each kind a stack can hold. Fixed when the memory is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Limits {
    /// Packet frames of [`FRAME_SIZE`] bytes. The largest part of the memory by far.
    pub frames: u32,
    /// TCP connections, including those in TIME-WAIT.
    pub tcp: u32,
    /// Listening TCP sockets.
    pub listeners: u32,
    /// UDP sockets.
    pub udp: u32,
    /// Rows for sockets that stay on the kernel, shown by `tickwire stat` with their reason.
    pub kernel_rows: u32,
    /// Destinations in the path cache.
    pub paths: u32,
    /// Frames that wait for a neighbour, all paths together.
    pub waiting: u32,
    /// Datagrams under reassembly at one time.
    pub reassemblies: u32,
    /// Group memberships (and source entries) of all UDP sockets.
    pub groups: u32,
    /// Sockets in epoll sets, counted once per set.
    pub watch_items: u32,
    /// Epoll sets.
    pub watch_sets: u32,
    /// 64-bit words of the region for the caller's own use (descriptor tables, process references).
    pub user_words: u32,
}

shared_layout! { Limits {
    frames, tcp, listeners, udp, kernel_rows, paths, waiting, reassemblies, groups, watch_items,
    watch_sets, user_words,
} }

impl Limits {
    /// The default of a lane: below 32 MiB in total.
    pub const DEFAULT: Self = Self {
        frames: 8192,
        tcp: 8192,
        listeners: 256,
        udp: 4096,
        kernel_rows: 1024,
        paths: 1024,
        waiting: 512,
        reassemblies: 64,
        groups: 512,
        watch_items: 16384,
        watch_sets: 512,
        user_words: 138_240,
    };

    /// The maximum that [`Limits::valid`] accepts: keeps every index and every size far from
    /// overflow.
    pub const MAX: u32 = 1 << 20;

    /// Words that the caller may keep per socket, with a margin for its global ones.
    const WORDS_A_SOCKET: u32 = 12;

    /// These limits, with room in epoll sets and in the caller's words for all the sockets that
    /// they allow; never less of either than [`Limits::DEFAULT`].
    #[must_use]
    pub fn with_room_for_its_sockets(self) -> Self {
        let sockets = self.tcp.saturating_add(self.listeners).saturating_add(self.udp);
        let at_least = |least: u32, each: u32| least.max(sockets.saturating_mul(each)).min(Self::MAX);
        Self {
            watch_items: at_least(Self::DEFAULT.watch_items, 1),
            user_words: at_least(Self::DEFAULT.user_words, Self::WORDS_A_SOCKET),
            ..self
        }
    }

    /// The limits in the order of the fields, for passing them as numbers.
    #[must_use]
    pub fn to_list(self) -> [u32; 12] {
        zerocopy::transmute!(self)
    }

    /// The limits from [`Limits::to_list`]. Any numbers are accepted; [`Limits::valid`] checks
    /// whether they can be used.
    #[must_use]
    pub fn from_list(list: [u32; 12]) -> Self {
        zerocopy::transmute!(list)
    }

    /// Whether every limit is at least 1 and at most [`Limits::MAX`], and there are enough frames
    /// to work at all.
    #[must_use]
    pub fn valid(&self) -> bool {
        self.to_list().iter().all(|&n| (1..=Self::MAX).contains(&n)) && self.frames >= 64
    }

    /// Table rows: one per socket that the stack can hold, then those of kernel sockets.
    #[must_use]
    pub const fn rows(&self) -> usize {
        self.sockets() + self.kernel_rows as usize
    }

    const fn sockets(&self) -> usize {
        self.tcp as usize + self.listeners as usize + self.udp as usize
    }

    const fn handles(&self) -> usize {
        self.sockets() + self.watch_sets as usize
    }

    const fn buckets(entries: usize) -> usize {
        entries.next_power_of_two()
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// To be raised when something in the memory, a table row too, gets another meaning although all
/// fields keep their names and places: [`Memory::LAYOUT_HASH`] covers the rest by itself.
const LAYOUT_REVISION: u64 = 1;

/// One piece of the memory, in layout order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Section {
    /// Its name, for users.
    pub name: &'static str,
    /// Bytes of one entry.
    pub size: usize,
    /// Alignment of the section's start in bytes.
    pub align: usize,
    /// Entries.
    pub count: usize,
}

impl Section {
    /// Bytes of the section without padding.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.size * self.count
    }
}

/// Allocates the sections of a memory; called once per section, in the order of
/// [`Memory::sections`].
pub trait Place<'a> {
    /// `count` entries that are either all zero or the content of an earlier user of the same
    /// layout.
    fn slice<T: FromZeros>(&mut self, count: usize) -> &'a mut [T];
}

/// Alignment of frames, counters, rows and core, and thus of the whole memory.
pub const PAGE: usize = 4096;

const fn align_of_section<T>(wanted: usize) -> usize {
    let own = align_of::<T>();
    // At least a cache line, so that no two sections share one.
    let own = if own < 64 { 64 } else { own };
    if own > wanted { own } else { wanted }
}

/// A section that is accessed by plain numbers; the others are [`Slots`].
type Slice<'a, T> = &'a mut [T];

/// Generates [`Memory`], its section list, its placement and the hash of its layout from one list.
macro_rules! memory {
    ($( $(#[$doc:meta])* $name:ident : $list:ident<$ty:ty> = |$limits:ident| $count:expr ; )*) => {
        /// The memory of a stack as slices. Every field is a pool or a table; see the types of
        /// their entries.
        pub struct Memory<'a> {
            /// Packet frames, their notes and their free list.
            pub frames: Frames<'a>,
            /// Counters of the lane; another process may read them at any time.
            pub counters: &'a Counters,
            /// One row per socket, then rows of kernel sockets; another process may read them at
            /// any time.
            pub rows: &'a [SocketRow],
            /// The global state of the stack.
            pub(crate) core: &'a mut Core,
            $( $(#[$doc])* pub(crate) $name: $list<'a, $ty>, )*
        }

        impl<'a> Memory<'a> {
            /// The sections in layout order, for given limits. The frame bytes come first; the
            /// public part ([`Counters`] and [`SocketRow`]s) follows, so that a reader need not
            /// know the rest.
            #[must_use]
            pub fn sections(limits: &Limits) -> [Section; SECTIONS] {
                let fixed = |name, size, align, count| Section { name, size, align, count };
                [
                    fixed("frames", 1, PAGE, limits.frames as usize * FRAME_SIZE),
                    fixed("counters", size_of::<Counters>(), PAGE, 1),
                    fixed("rows", size_of::<SocketRow>(), align_of_section::<SocketRow>(PAGE), limits.rows()),
                    fixed("core", size_of::<Core>(), align_of_section::<Core>(PAGE), 1),
                    fixed("frame notes", size_of::<FrameMeta>(), align_of_section::<FrameMeta>(1), limits.frames as usize),
                    fixed("frame free list", size_of::<FreeList<FrameMeta>>(), align_of_section::<FreeList<FrameMeta>>(1), 1),
                    $( fixed(stringify!($name), size_of::<$ty>(), align_of_section::<$ty>(1), {
                        let $limits = limits;
                        $count
                    }), )*
                ]
            }

            /// Takes every section from `place`, in the order of [`Memory::sections`].
            ///
            /// # Panics
            /// If `place` returns a slice of the wrong length.
            pub fn place(limits: &Limits, place: &mut impl Place<'a>) -> Self {
                fn take<'a, T: FromZeros>(place: &mut impl Place<'a>, count: usize) -> &'a mut [T] {
                    let slice = place.slice(count);
                    assert_eq!(slice.len(), count, "the memory is of the promised length");
                    slice
                }
                let bytes = take(place, limits.frames as usize * FRAME_SIZE);
                let counters = &take(place, 1)[0];
                let rows = take(place, limits.rows());
                let core = &mut take(place, 1)[0];
                let meta = take(place, limits.frames as usize);
                let free = &mut take(place, 1)[0];
                Self {
                    frames: Frames { bytes, meta, free },
                    counters,
                    rows,
                    core,
                    $( $name: {
                        let $limits = limits;
                        take(place, $count).into()
                    }, )*
                }
            }

            /// Clears everything but the frames, the counters and the caller's words. Existing
            /// handles stay stale forever.
            pub(crate) fn wipe(&mut self) {
                let generations = |handle: &mut Handle| {
                    let generation = handle.generation.wrapping_add(1) & !1;
                    *handle = Handle { generation, ..Handle::default() };
                };
                self.handles.iter_mut().for_each(generations);
                self.rows.iter().for_each(SocketRow::clear);
                self.core.zero();
                $( if !matches!(stringify!($name), "handles" | "user") {
                    self.$name.zero();
                } )*
            }

            /// A hash over where every field of the memory lies, and `LAYOUT_REVISION`: builds
            /// with different hashes must not share a region.
            pub const LAYOUT_HASH: u64 = {
                let hash = Fnv::new().add(LAYOUT_REVISION).add(FRAME_SIZE as u64).add(Limits::HASH);
                let hash = hash.add(Counters::HASH).add(SocketRow::HASH).add(Core::HASH);
                let hash = hash.add(FrameMeta::HASH).add(FreeList::<FrameMeta>::HASH);
                $( let hash = hash.add_name(stringify!($name)).add(<$ty>::HASH); )*
                hash.0
            };
        }

        /// Memory on the heap, for simulation and tests.
        #[cfg(any(test, feature = "owned"))]
        pub struct OwnedMemory {
            bytes: Vec<u8>,
            counters: Box<Counters>,
            rows: Vec<SocketRow>,
            core: Box<Core>,
            meta: Vec<FrameMeta>,
            free: Box<FreeList<FrameMeta>>,
            $( $name: Vec<$ty>, )*
        }

        #[cfg(any(test, feature = "owned"))]
        impl OwnedMemory {
            /// All-zero memory for `limits`.
            ///
            /// # Panics
            /// If the limits are not [`Limits::valid`], or the heap has no room for them.
            #[must_use]
            pub fn new(limits: &Limits) -> Self {
                fn zeroed<T: FromZeros>(count: usize) -> Vec<T> {
                    T::new_vec_zeroed(count).expect("room on the heap")
                }
                fn one<T: FromZeros>() -> Box<T> {
                    T::new_box_zeroed().expect("room on the heap")
                }
                assert!(limits.valid(), "limits out of range: {limits:?}");
                Self {
                    bytes: zeroed(limits.frames as usize * FRAME_SIZE),
                    counters: one(),
                    rows: zeroed(limits.rows()),
                    core: one(),
                    meta: zeroed(limits.frames as usize),
                    free: one(),
                    $( $name: {
                        let $limits = limits;
                        zeroed($count)
                    }, )*
                }
            }

            /// The memory as a value for [`crate::Stack::new`].
            pub fn memory(&mut self) -> Memory<'_> {
                Memory {
                    frames: Frames { bytes: &mut self.bytes, meta: &mut self.meta, free: &mut self.free },
                    counters: &self.counters,
                    rows: &self.rows,
                    core: &mut self.core,
                    $( $name: self.$name.as_mut_slice().into(), )*
                }
            }

            /// A stack over this memory; its state stays in the memory when the value is dropped.
            pub fn stack(&mut self) -> crate::Stack<'_> {
                crate::Stack::new(self.memory())
            }
        }

        #[cfg(any(test, feature = "owned"))]
        impl core::fmt::Debug for OwnedMemory {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.debug_struct("OwnedMemory").field("frames", &self.meta.len()).finish_non_exhaustive()
            }
        }

        /// The number of sections of a memory.
        pub const SECTIONS: usize = 6 $( + { let _ = stringify!($name); 1 } )*;
    };
}

memory! {
    /// The transmit queue of prompt packets, a ring.
    queue: Slice<Queued> = |l| l.frames.next_power_of_two() as usize;
    /// The transmit queue of streams, a ring.
    streams: Slice<Queued> = |l| l.frames.next_power_of_two() as usize;
    /// Generation and watchers of every socket and set.
    handles: Slice<Handle> = |l| l.handles();
    /// Demultiplexer node of every socket.
    nodes: Slice<Node> = |l| l.sockets();
    /// Hash buckets of connected sockets.
    connected: Slice<PoolLink> = |l| Limits::buckets(l.tcp as usize + l.udp as usize);
    /// Hash buckets of sockets bound to a port.
    bound: Slice<PoolLink> = |l| Limits::buckets(l.listeners as usize + l.udp as usize);
    /// TCP connections.
    tcp: Slots<tcp::Socket> = |l| l.tcp as usize;
    /// Listening sockets.
    listeners: Slots<tcp::Listener> = |l| l.listeners as usize;
    /// Timers, one per TCP connection.
    timers: Slice<Timer> = |l| l.tcp as usize;
    /// The heap over the timers.
    heap: Slice<Entry> = |l| l.tcp as usize;
    /// UDP sockets.
    udp: Slots<udp::Socket> = |l| l.udp as usize;
    /// Group memberships of UDP sockets.
    groups: Slice<udp::Membership> = |l| l.groups as usize;
    /// Paths to destinations.
    paths: Slice<Path> = |l| l.paths as usize;
    /// Hash buckets of the paths.
    path_buckets: Slice<PoolLink> = |l| Limits::buckets(l.paths as usize);
    /// Packets that wait for a neighbour.
    waiting: Slice<Waiting> = |l| l.waiting as usize;
    /// Datagrams under reassembly.
    reassemblies: Slice<Reassembly> = |l| l.reassemblies as usize;
    /// Hash buckets of the reassemblies.
    reassembly_buckets: Slice<PoolLink> = |l| Limits::buckets(l.reassemblies as usize);
    /// Sockets in epoll sets.
    items: Slice<Item> = |l| l.watch_items as usize;
    /// Epoll sets.
    sets: Slots<Set> = |l| l.watch_sets as usize;
    /// Sleeping threads.
    waiters: Slice<Waiter> = |_l| WAITERS;
    /// Words for the caller's own use.
    user: Slice<u64> = |l| l.user_words as usize;
}

impl Memory<'_> {
    /// Bytes from the start of the first section to the end of the last, with all padding.
    #[must_use]
    pub fn size(limits: &Limits) -> usize {
        Self::sections(limits).iter().fold(0usize, |end, s| end.next_multiple_of(s.align) + s.bytes())
    }
}

impl core::fmt::Debug for Memory<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Memory").field("frames", &self.frames.meta.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_lane_stays_below_32_mebibytes() {
        let size = Memory::size(&Limits::DEFAULT);
        assert!(size < 63 << 19, "{size} bytes, and the region's header comes on top");
    }

    #[test]
    fn more_connections_bring_room_in_epoll_sets_and_for_the_callers_notes() {
        assert_eq!(Limits { tcp: 1, ..Limits::DEFAULT }.with_room_for_its_sockets().watch_items, 16_384);
        let limits = Limits { tcp: 32_768, ..Limits::DEFAULT }.with_room_for_its_sockets();
        assert_eq!((limits.watch_items, limits.user_words), (37_120, 445_440));
        let most = Limits { tcp: Limits::MAX, udp: u32::MAX, ..Limits::DEFAULT }.with_room_for_its_sockets();
        assert_eq!((most.watch_items, most.user_words), (Limits::MAX, Limits::MAX));
    }

    #[test]
    fn sections_are_placed_in_the_order_of_the_list() {
        struct Record(Vec<(usize, usize, usize)>);
        impl<'a> Place<'a> for Record {
            fn slice<T: FromZeros>(&mut self, count: usize) -> &'a mut [T] {
                self.0.push((size_of::<T>(), align_of::<T>(), count));
                Vec::leak(T::new_vec_zeroed(count).unwrap())
            }
        }
        let limits = Limits { frames: 64, tcp: 3, listeners: 2, udp: 5, ..Limits::DEFAULT };
        let mut record = Record(Vec::new());
        let _ = Memory::place(&limits, &mut record);
        let sections = Memory::sections(&limits);
        assert_eq!(record.0.len(), sections.len());
        for (section, (size, align, count)) in sections.iter().zip(record.0) {
            assert_eq!((section.size, section.count), (size, count), "{}", section.name);
            assert!(section.align >= align && section.align.is_power_of_two(), "{}", section.name);
        }
        assert_eq!((sections[0].name, sections[0].align), ("frames", PAGE));
    }

    #[test]
    fn limits_out_of_range_are_refused() {
        assert!(Limits::DEFAULT.valid());
        assert!(!Limits { frames: 63, ..Limits::DEFAULT }.valid());
        assert!(!Limits { udp: 0, ..Limits::DEFAULT }.valid());
        assert!(!Limits { tcp: Limits::MAX + 1, ..Limits::DEFAULT }.valid());
        assert!(!Limits { user_words: u32::MAX, ..Limits::DEFAULT }.valid());
    }
}

//! Descriptions: what all descriptors of one socket have in common, in every process of the lane
//! (as the kernel's "open file descriptions"). They are stored in the caller's words of the region,
//! so forked and executed programs see the same ones. They are accessed only under the lane's lock.

use crate::table::fd::LIMIT;
use crate::table::ports::{self, Ports};
use tickwire_lane::control::Reason;
use tickwire_stack::SocketId;
use tickwire_stack::time::Span;

/// Words before the first description: a few single ones, then one per process, then the ports.
const SINGLES: usize = 64;
/// Most processes of one lane.
pub(crate) const PROCESSES: usize = 64;
const PORTS: usize = SINGLES + PROCESSES;
const FIRST: usize = PORTS + ports::WORDS;
/// Words of one description.
const WORDS: usize = 10;

/// Meaning of the single words.
pub(crate) mod single {
    /// Head of the list of free descriptions, plus one.
    pub(super) const FREE: usize = 1;
    /// How many descriptions were ever used.
    pub(super) const USED: usize = 2;
    /// 1 once the stack was initialised.
    pub(crate) const STARTED: usize = 3;
    /// How many descriptions are of connections that no process has any more.
    pub(super) const LEFT: usize = 4;
}

/// The index of each word of a description.
mod word {
    pub(super) const SOCKET: usize = 0;
    pub(super) const FLAGS: usize = 1;
    pub(super) const HOLDERS: usize = 2;
    pub(super) const CLAIM: usize = 3;
    pub(super) const RECEIVE_TIMEOUT: usize = 4;
    pub(super) const SEND_TIMEOUT: usize = 5;
    pub(super) const INODE: usize = 6;
    pub(super) const KERNEL_CHECK: usize = 7;
    /// The interface named for single hosts and, in the upper half, the one for groups.
    pub(super) const VIA: usize = 8;
    pub(super) const VIA_SOURCE: usize = 9;
}

/// Bits of [`Description::flags`].
pub(crate) mod flag {
    use tickwire_lane::control::Reason;

    /// A UDP socket.
    pub(crate) const UDP: u64 = 1 << 0;
    /// A TCP socket.
    pub(crate) const TCP: u64 = 1 << 1;
    /// An epoll instance.
    pub(crate) const EPOLL: u64 = 1 << 2;
    /// The socket's family is IPv6.
    pub(crate) const V6: u64 = 1 << 3;
    /// `O_NONBLOCK`.
    pub(crate) const NONBLOCK: u64 = 1 << 4;
    /// The kernel socket is bound and the port claimed.
    pub(crate) const CLAIMED: u64 = 1 << 5;
    /// TCP: the stack has the connection (or listener).
    pub(crate) const STARTED: u64 = 1 << 6;
    /// TCP: it is a listener.
    pub(crate) const LISTENING: u64 = 1 << 7;
    /// TCP: a connect was begun, and its outcome has not been returned yet.
    pub(crate) const CONNECTING: u64 = 1 << 8;
    /// UDP: connected.
    pub(crate) const CONNECTED: u64 = 1 << 9;
    /// The last check of the kernel socket found nothing, and nothing was found since.
    pub(crate) const KERNEL_QUIET: u64 = 1 << 10;
    /// TCP: made by accept; its name is that of the stack's socket, because the kernel socket is
    /// only a placeholder.
    pub(crate) const ACCEPTED: u64 = 1 << 11;
    /// IP_PKTINFO.
    pub(crate) const PKTINFO: u64 = 1 << 12;
    /// IP_RECVTTL.
    pub(crate) const RECVTTL: u64 = 1 << 13;
    /// IP_RECVTOS.
    pub(crate) const RECVTOS: u64 = 1 << 14;
    /// IPV6_RECVPKTINFO.
    pub(crate) const PKTINFO6: u64 = 1 << 37;
    /// IPV6_RECVHOPLIMIT.
    pub(crate) const HOPLIMIT: u64 = 1 << 38;
    /// IPV6_RECVTCLASS.
    pub(crate) const TCLASS: u64 = 1 << 39;
    /// SO_TIMESTAMP.
    pub(crate) const TIMESTAMP: u64 = 1 << 15;
    /// SO_TIMESTAMPNS.
    pub(crate) const TIMESTAMPNS: u64 = 1 << 16;
    /// IP_MULTICAST_LOOP is off, so datagrams to groups are sent over the lane.
    pub(crate) const LOOP_OFF: u64 = 1 << 17;
    /// TCP: accepted by a listener that has closed since; its flow is released when the connection
    /// ends.
    pub(crate) const CONVERTED: u64 = 1 << 23;
    /// TCP: SO_SNDBUF was set by the program.
    pub(crate) const SEND_BUFFER: u64 = 1 << 24;
    /// TCP: SO_RCVBUF was set by the program.
    pub(crate) const RECEIVE_BUFFER: u64 = 1 << 25;
    /// It was given to the kernel for good; processes that find out later remove it from their
    /// tables.
    pub(crate) const KERNEL: u64 = 1 << 22;
    /// IPV6_V6ONLY.
    pub(crate) const V6ONLY: u64 = 1 << 21;
    /// The program has sent, received or accepted over the lane: the socket cannot become a kernel
    /// socket without loss.
    pub(crate) const TRAFFIC: u64 = 1 << 18;
    /// It names an interface for what it sends.
    pub(crate) const VIA: u64 = 1 << 19;
    /// UDP_CORK: sent data is held in the kernel until more follows.
    pub(crate) const CORK: u64 = 1 << 20;
    /// The kernel has the beginning of a datagram (MSG_MORE).
    pub(crate) const MORE: u64 = 1 << 26;
    /// TCP: TCP_MAXSEG was set by the program.
    pub(crate) const MAX_SEGMENT: u64 = 1 << 27;
    /// SO_RXQ_OVFL.
    pub(crate) const RXQ_OVFL: u64 = 1 << 28;
    /// TCP: TCP_LINGER2 was set by the program.
    pub(crate) const FIN_WAIT: u64 = 1 << 29;
    /// TCP: the program shut the socket while it was being connected.
    pub(crate) const GIVEN_UP: u64 = 1 << 31;
    /// TCP: the program revoked its last connection, or attempt, by connecting to AF_UNSPEC.
    pub(crate) const TAKEN_BACK: u64 = 1 << 32;
    /// TCP: IP_LOCAL_PORT_RANGE was set by the program.
    pub(crate) const PORT_RANGE: u64 = 1 << 33;
    /// TCP: the program has set an option of the kernel socket that the stack's socket has to take
    /// over.
    pub(crate) const OPTIONS: u64 = 1 << 34;
    /// TCP: connected from a port of the lane, which gets it back when the connection has ended.
    pub(crate) const EPHEMERAL: u64 = 1 << 35;
    /// An epoll instance: kernel descriptors have left no room for the ready items of its set,
    /// which go first next time.
    pub(crate) const SET_FIRST: u64 = 1 << 36;
    /// TCP: SO_REUSEADDR.
    pub(crate) const REUSE_ADDRESS: u64 = 1 << 40;
    /// TCP: SO_REUSEPORT.
    pub(crate) const REUSE_PORT: u64 = 1 << 41;
    /// TCP: an option was set that a connection inherits from its listener, and whose value the
    /// kernel socket has.
    pub(crate) const INHERITED: u64 = 1 << 42;
    /// TCP: the program has set TTL or hop limit, which takes precedence over that of the route.
    pub(crate) const HOPS: u64 = 1 << 50;
    /// No socket: what a process left when it ended, see [`super::UnfinishedClose`].
    pub(crate) const LEFT: u64 = 1 << 30;

    /// The highest byte: the reason's code, for a kernel socket.
    const REASON: u32 = 56;

    /// The bits of a socket that is a kernel socket for this reason.
    pub(super) fn kernels(reason: Reason) -> u64 {
        KERNEL | u64::from(reason.code()) << REASON
    }

    /// The reason for which it is a kernel socket.
    pub(crate) fn reason(flags: u64) -> Option<Reason> {
        Reason::from_code((flags >> REASON) as u32).filter(|&reason| flags & KERNEL != 0 && reason != Reason::None)
    }
}

/// The interfaces that a socket names for outgoing packets; 0 is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Via {
    /// Interface for datagrams to single hosts.
    pub(crate) unicast: u32,
    /// Interface for datagrams to groups.
    pub(crate) groups: u32,
    /// IPv4 source address for datagrams to groups, if the socket is bound to none.
    pub(crate) source: u32,
}

/// A connection closed by a process that has ended since, before the stack has finished it: another
/// process has to release its claim then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UnfinishedClose {
    /// Its row among those of TCP.
    pub(crate) row: u32,
    pub(crate) claim: u64,
    /// The claim is a listener's, and whether that has closed.
    pub(crate) shared: bool,
    pub(crate) converted: bool,
    /// The claim is that of a port that the lane held.
    pub(crate) ephemeral: bool,
}

const SHARED: u64 = 1 << 32;
const CONVERTED: u64 = 1 << 33;
const EPHEMERAL: u64 = 1 << 34;

/// The caller's words of the region, as descriptions.
pub(crate) struct Descriptions<'a> {
    words: &'a mut [u64],
}

/// One description.
pub(crate) struct Description<'a> {
    words: &'a mut [u64],
}

impl<'a> Descriptions<'a> {
    /// The descriptions in these words.
    pub(crate) fn new(words: &'a mut [u64]) -> Self {
        Self { words }
    }

    /// How many there can be; never more than a process can have descriptors of.
    pub(crate) fn capacity(&self) -> u32 {
        (self.words.len().saturating_sub(FIRST) / WORDS).min(LIMIT) as u32
    }

    /// How many were ever used: all indices are below this.
    pub(crate) fn used(&self) -> u32 {
        (self.words[single::USED] as u32).min(self.capacity())
    }

    /// The lane's unused ephemeral ports.
    pub(crate) fn ports(self) -> Ports<'a> {
        Ports::new(&mut self.words[PORTS..FIRST])
    }

    /// The process of a slot, 0 if it is free.
    pub(crate) fn process(&mut self, slot: usize) -> &mut u64 {
        &mut self.words[SINGLES + slot % PROCESSES]
    }

    /// Takes a free process slot.
    pub(crate) fn take_process(&mut self, process: u64) -> Option<usize> {
        let slot = (0..PROCESSES).find(|&slot| self.words[SINGLES + slot] == 0)?;
        self.words[SINGLES + slot] = process;
        Some(slot)
    }

    /// The description of an index that a descriptor table holds. An index out of range (a corrupt
    /// region) yields the first one.
    pub(crate) fn get(&mut self, index: u32) -> Description<'_> {
        let index = if index < self.capacity() { index as usize } else { 0 };
        Description { words: &mut self.words[FIRST + index * WORDS..][..WORDS] }
    }

    /// Takes a description, all zero but for the flags and its first holder.
    pub(crate) fn take(&mut self, flags: u64, holder: usize) -> Option<u32> {
        let index = match self.words[single::FREE] {
            0 => {
                let used = self.words[single::USED] as u32;
                if used >= self.capacity() {
                    return None;
                }
                self.words[single::USED] += 1;
                used
            }
            free => {
                let index = (free - 1) as u32;
                self.words[single::FREE] = self.get(index).words[word::SOCKET];
                index
            }
        };
        let description = self.get(index);
        description.words.fill(0);
        description.words[word::FLAGS] = flags;
        description.words[word::HOLDERS] = 1 << holder;
        Some(index)
    }

    /// Leaves a connection to the process that takes it over. Does nothing if there is no room.
    pub(crate) fn leave(&mut self, left: UnfinishedClose) {
        let Some(index) = self.take(flag::LEFT, 0) else { return };
        let marked = |on: bool, bit: u64| if on { bit } else { 0 };
        let description = self.get(index);
        description.words[word::HOLDERS] = 0;
        // Not in the word where claims are searched.
        description.words[word::INODE] = u64::from(left.row)
            | marked(left.shared, SHARED)
            | marked(left.converted, CONVERTED)
            | marked(left.ephemeral, EPHEMERAL);
        description.words[word::KERNEL_CHECK] = left.claim;
        self.words[single::LEFT] += 1;
    }

    /// Takes over everything that was left.
    pub(crate) fn take_over(&mut self, mut take: impl FnMut(UnfinishedClose)) {
        if self.words[single::LEFT] == 0 {
            return;
        }
        for index in 0..self.used() {
            let description = self.get(index);
            if description.has(flag::LEFT) {
                let (what, claim) = (description.words[word::INODE], description.words[word::KERNEL_CHECK]);
                let [shared, converted, ephemeral] = [SHARED, CONVERTED, EPHEMERAL].map(|bit| what & bit != 0);
                self.give(index);
                take(UnfinishedClose { row: what as u32, claim, shared, converted, ephemeral });
            }
        }
        self.words[single::LEFT] = 0;
    }

    /// Gives a description back.
    pub(crate) fn give(&mut self, index: u32) {
        let next = self.words[single::FREE];
        let description = self.get(index);
        description.words.fill(0);
        description.words[word::SOCKET] = next;
        self.words[single::FREE] = u64::from(index) + 1;
    }
}

impl Description<'_> {
    /// Bits of [`flag`]; 0 if the description is free.
    pub(crate) fn flags(&self) -> u64 {
        self.words[word::FLAGS]
    }

    /// Whether all of these bits are set.
    pub(crate) fn has(&self, bits: u64) -> bool {
        self.words[word::FLAGS] & bits == bits
    }

    /// Sets or clears bits.
    pub(crate) fn set(&mut self, bits: u64, on: bool) {
        if on {
            self.words[word::FLAGS] |= bits;
        } else {
            self.words[word::FLAGS] &= !bits;
        }
    }

    /// It is a kernel socket from now on, for this reason.
    pub(crate) fn becomes_the_kernels(&mut self, reason: Reason) {
        self.set(flag::CLAIMED | flag::STARTED, false);
        self.set(flag::kernels(reason), true);
        self.set_socket(SocketId::default());
    }

    /// The stack's socket or set.
    pub(crate) fn socket(&self) -> SocketId {
        SocketId::from_bits(self.words[word::SOCKET])
    }

    /// Replaces the stack's socket or set.
    pub(crate) fn set_socket(&mut self, id: SocketId) {
        self.words[word::SOCKET] = id.to_bits();
    }

    /// The processes that have descriptors of it: one bit per slot.
    pub(crate) fn holders(&mut self) -> &mut u64 {
        &mut self.words[word::HOLDERS]
    }

    /// The claim that keeps the port, by the service's identifier, 0 if there is none.
    pub(crate) fn claim(&mut self) -> &mut u64 {
        &mut self.words[word::CLAIM]
    }

    /// SO_RCVTIMEO; `None` waits without end.
    pub(crate) fn receive_timeout(&self) -> Option<Span> {
        Some(Span::from_nanos(self.words[word::RECEIVE_TIMEOUT])).filter(|t| !t.is_zero())
    }

    /// SO_SNDTIMEO.
    pub(crate) fn send_timeout(&self) -> Option<Span> {
        Some(Span::from_nanos(self.words[word::SEND_TIMEOUT])).filter(|t| !t.is_zero())
    }

    /// Sets one of the two timeouts; zero is none.
    pub(crate) fn set_timeout(&mut self, receive: bool, timeout: Span) {
        self.words[if receive { word::RECEIVE_TIMEOUT } else { word::SEND_TIMEOUT }] = timeout.as_nanos();
    }

    /// The inode of the kernel socket, by which a program after exec finds it again.
    pub(crate) fn inode(&mut self) -> &mut u64 {
        &mut self.words[word::INODE]
    }

    /// The interfaces that the socket names for outgoing packets.
    pub(crate) fn via(&self) -> Via {
        let both = self.words[word::VIA];
        Via { unicast: both as u32, groups: (both >> 32) as u32, source: self.words[word::VIA_SOURCE] as u32 }
    }

    /// Replaces these interfaces.
    pub(crate) fn set_via(&mut self, via: Via) {
        self.words[word::VIA] = u64::from(via.unicast) | u64::from(via.groups) << 32;
        self.words[word::VIA_SOURCE] = via.source.into();
        self.set(flag::VIA, via != Via::default());
    }

    /// When the kernel socket was last checked, in nanoseconds.
    pub(crate) fn kernel_check(&mut self) -> &mut u64 {
        &mut self.words[word::KERNEL_CHECK]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptions_are_taken_given_back_and_run_out() {
        let mut words = vec![0u64; FIRST + 3 * WORDS];
        let mut all = Descriptions::new(&mut words);
        assert_eq!(all.capacity(), 3);
        let taken: Vec<_> = (0..3).map(|i| all.take(flag::UDP, i).unwrap()).collect();
        assert_eq!(taken, [0, 1, 2]);
        assert_eq!(all.take(flag::UDP, 0), None);
        all.give(1);
        assert_eq!(all.get(1).flags(), 0);
        assert_eq!(all.take(flag::TCP, 5), Some(1));
        assert_eq!(*all.get(1).holders(), 1 << 5);
        assert!(all.get(1).has(flag::TCP) && !all.get(1).has(flag::UDP));
    }

    #[test]
    fn what_is_left_is_taken_over_once() {
        let mut words = vec![0u64; FIRST + 3 * WORDS];
        let mut all = Descriptions::new(&mut words);
        let own = all.take(flag::TCP, 0);
        let first = UnfinishedClose { row: u32::MAX, claim: u64::MAX, shared: true, converted: false, ephemeral: true };
        let second = UnfinishedClose { row: 0, claim: 7, shared: false, converted: true, ephemeral: false };
        // The third finds no room.
        [first, second, second].into_iter().for_each(|left| all.leave(left));
        let mut taken = Vec::new();
        all.take_over(|left| taken.push(left));
        all.take_over(|left| taken.push(left));
        assert_eq!(taken, [first, second]);
        assert!(all.take(flag::UDP, 0).is_some() && all.take(flag::UDP, 0).is_some() && own == Some(0));
    }

    #[test]
    fn an_index_out_of_range_harms_nothing() {
        let mut words = vec![0u64; FIRST + WORDS];
        let mut all = Descriptions::new(&mut words);
        all.get(u32::MAX).set(flag::V6, true);
        assert!(all.get(0).has(flag::V6));
    }
}

//! The memory of a lane's stack in its program. What is public of it lies in the program's section;
//! the rest is the process's own.

use crate::lane_memory::{COUNTERS, LIMITS, LaneMemory, ROWS};
use crate::section::SectionView;
use std::io;
use std::ptr::{NonNull, null};
use std::sync::Arc;
use tickwire_stack::Memory;
use tickwire_stack::memory::{Place, SECTIONS};
use windows_sys::Win32::System::Memory::{MEM_COMMIT, MEM_RESERVE, PAGE_READWRITE, VirtualAlloc};
use zerocopy::FromZeros;

/// The sections that are public, in the order of [`Memory::sections`].
const PUBLIC: [(usize, usize); 2] = [(1, COUNTERS), (2, ROWS)];

/// Makes the memory of a stack, all zero, for the program that has this lane. It exists until the
/// process ends.
///
/// # Errors
/// If this side is not the program, the lane has a stack already, or there is no memory left.
pub fn stack_memory(lane: &Arc<LaneMemory>) -> io::Result<Memory<'static>> {
    let public = lane.take_public().ok_or(io::ErrorKind::AlreadyExists)?;
    // SAFETY: the system chooses an address where nothing else is. Pages take memory when they are
    // first used.
    let own = unsafe { VirtualAlloc(null(), Memory::size(&LIMITS), MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE) };
    let own = NonNull::new(own.cast::<u8>()).ok_or_else(io::Error::last_os_error)?;
    // The section stays mapped for as long as the stack's memory, without end.
    std::mem::forget(Arc::clone(lane));
    Ok(Memory::place(&LIMITS, &mut StackPlace { public, own, end: 0, next: 0 }))
}

/// Hands out the sections one after the other.
struct StackPlace<'l> {
    /// The program's section.
    public: &'l SectionView,
    /// The process's own memory, of [`Memory::size`] bytes.
    own: NonNull<u8>,
    /// Where what was handed out of it ends.
    end: usize,
    next: usize,
}

impl Place<'static> for StackPlace<'_> {
    fn slice<T: FromZeros>(&mut self, count: usize) -> &'static mut [T] {
        let section = Memory::sections(&LIMITS)[self.next];
        assert!(self.next < SECTIONS && section.bytes() == count * size_of::<T>(), "the sections in their order");
        let public = PUBLIC.into_iter().find(|(number, _)| *number == self.next);
        self.next += 1;
        let start = match public {
            Some((_, offset)) => self.public.array::<T>(offset, count),
            None => {
                let at = self.end.next_multiple_of(section.align);
                self.end = at + section.bytes();
                // SAFETY: `Memory::size` is the end of the last section with the same padding.
                unsafe { self.own.byte_add(at) }.cast()
            }
        };
        // SAFETY: inside of memory that stays mapped, aligned (VirtualAlloc's is to 64 KiB, more
        // than any section's), and no part of it is handed out twice. The bytes are zero: the
        // public sections, too, because the section is new and only the program writes it.
        unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), count) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lane_memory::{LaneSide, SECTION_BYTES};
    use crate::section::SharedSection;
    use tickwire_stack::addr::{Address, Endpoint};
    use tickwire_stack::table::kind;
    use tickwire_stack::time::Instant;
    use tickwire_stack::udp::UdpOptions;
    use tickwire_stack::{Stack, StackConfig};

    #[test]
    fn the_service_sees_the_programs_sockets() {
        let sections = [SharedSection::create(SECTION_BYTES).unwrap(), SharedSection::create(SECTION_BYTES).unwrap()];
        let program = LaneMemory::map(LaneSide::Program, &sections[0], &sections[1]).unwrap();
        let service = LaneMemory::map(LaneSide::Service, &sections[1], &sections[0]).unwrap();
        assert!(stack_memory(&service).is_err());
        let mut stack = Stack::new(stack_memory(&program).unwrap());
        assert!(stack_memory(&program).is_err(), "a second stack");
        stack.init(&StackConfig { secret: [1, 2, 3, 4], ..StackConfig::default() });
        let here = Endpoint::new(Address::v4([10, 0, 0, 1]), 80);
        let udp = stack.udp_open(UdpOptions::default()).unwrap();
        stack.udp_bind(udp, here).unwrap();
        stack.on_time(Instant::from_nanos(1));
        let open: Vec<_> = service.rows().iter().filter(|row| row.kind.get() != 0).collect();
        assert_eq!(open.len(), 1);
        assert_eq!((open[0].kind.get(), open[0].local.get()), (kind::UDP, here));
    }
}

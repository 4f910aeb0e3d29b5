//! The lane's rows for sockets that stay on the kernel, from which `tickwire stat` shows them. As
//! for any socket, the row is freed with the last process that has it.

use tickwire_stack::Stack;
use tickwire_stack::table::{SocketRow, kind};

/// The rows, for as long as the lock is held.
pub(crate) struct KernelRows<'s>(&'s [SocketRow]);

impl<'s> KernelRows<'s> {
    /// Those of a lane.
    pub(crate) fn of(stack: &'s Stack<'_>) -> Self {
        Self(stack.kernel_rows())
    }

    /// A free row, empty, which the process of a slot is the first to hold. It is taken as soon as
    /// it has a kind.
    pub(crate) fn free(&self, slot: usize) -> Option<(u32, &'s SocketRow)> {
        let index = self.0.iter().position(|row| row.kind.get() == kind::FREE)?;
        let row = &self.0[index];
        row.clear();
        row.holders.set(1 << slot);
        Some((index as u32, row))
    }

    /// The row that a descriptor table names.
    pub(crate) fn get(&self, index: u32) -> Option<&'s SocketRow> {
        self.0.get(index as usize)
    }

    /// Those that the process of a slot holds.
    pub(crate) fn held(&self, slot: usize) -> impl Iterator<Item = (u32, &'s SocketRow)> {
        let taken = (0..).zip(self.0).filter(|(_, row)| row.kind.get() != kind::FREE);
        taken.filter(move |(_, row)| row.holders.get() & 1 << slot != 0)
    }

    /// Every row that the process of a slot holds is also held by the child that it is about to
    /// fork.
    pub(crate) fn share(&self, slot: usize, child: u64) {
        self.held(slot).for_each(|(_, row)| row.holders.set(row.holders.get() | child));
    }

    /// The process of a slot releases a row.
    pub(crate) fn drop(&self, index: u32, slot: usize) {
        if let Some(row) = self.get(index) {
            drop_row(row, slot);
        }
    }

    /// The process of a slot is gone.
    pub(crate) fn drop_process(&self, slot: usize) {
        self.held(slot).for_each(|(_, row)| drop_row(row, slot));
    }
}

fn drop_row(row: &SocketRow, slot: usize) {
    let left = row.holders.get() & !(1 << slot);
    row.holders.set(left);
    if left == 0 {
        row.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_there_until_its_last_holder_lets_go_of_it() {
        let rows: [SocketRow; 2] = Default::default();
        let rows = KernelRows(&rows);
        let (first, row) = rows.free(3).unwrap();
        row.kind.set(kind::KERNEL_TCP);
        rows.share(3, 1 << 5);
        assert_eq!(rows.held(5).map(|(index, _)| index).collect::<Vec<_>>(), [first]);
        rows.drop(first, 5);
        rows.drop(first, 5);
        assert_eq!((rows.held(5).count(), rows.held(3).count()), (0, 1), "a child's close is the child's");
        rows.share(3, 1 << 6);
        rows.drop(first, 3);
        assert_eq!(row.kind.get(), kind::KERNEL_TCP, "the child goes on with it");
        rows.drop_process(6);
        assert_eq!((row.kind.get(), row.holders.get()), (kind::FREE, 0));
        rows.drop(77, 3);
    }
}

//! Tables that the IP Helper API allocates (`MIB_*_TABLE2`).

use super::refused;
use crate::error::Result;
use std::marker::PhantomData;
use std::ptr::{NonNull, null_mut};
use windows_sys::Win32::Foundation::{ERROR_INVALID_FUNCTION, ERROR_NOT_FOUND, ERROR_NOT_SUPPORTED};
use windows_sys::Win32::NetworkManagement::IpHelper::{
    FreeMibTable, MIB_IF_ROW2, MIB_IF_TABLE2, MIB_IPFORWARD_ROW2, MIB_IPFORWARD_TABLE2, MIB_IPINTERFACE_ROW,
    MIB_IPINTERFACE_TABLE, MIB_IPNET_ROW2, MIB_IPNET_TABLE2, MIB_UNICASTIPADDRESS_ROW, MIB_UNICASTIPADDRESS_TABLE,
};

/// A number of rows, then the rows.
pub(super) trait MibLayout {
    /// A row.
    type Row;

    /// The number of rows, and the first one.
    ///
    /// # Safety
    /// The table is one of the system's.
    unsafe fn parts(table: *const Self) -> (u32, *const Self::Row);
}

macro_rules! tables {
    ($($table:ty: $row:ty;)*) => {
        $(impl MibLayout for $table {
            type Row = $row;

            unsafe fn parts(table: *const Self) -> (u32, *const $row) {
                // SAFETY: as the caller promises, both fields are there.
                unsafe { ((&raw const (*table).NumEntries).read(), (&raw const (*table).Table).cast()) }
            }
        })*
    };
}

tables! {
    MIB_IF_TABLE2: MIB_IF_ROW2;
    MIB_IPINTERFACE_TABLE: MIB_IPINTERFACE_ROW;
    MIB_UNICASTIPADDRESS_TABLE: MIB_UNICASTIPADDRESS_ROW;
    MIB_IPFORWARD_TABLE2: MIB_IPFORWARD_ROW2;
    MIB_IPNET_TABLE2: MIB_IPNET_ROW2;
}

/// A table, freed when it is dropped. `None`: there was nothing to list.
pub(super) struct MibTable<T: MibLayout> {
    start: Option<NonNull<T>>,
}

impl<T: MibLayout> MibTable<T> {
    /// Reads a table. One without rows is no error, nor one of a family that this system does not
    /// list.
    ///
    /// # Safety
    /// `call` stores a table of the system of this type, or null, if it returns 0.
    pub(super) unsafe fn read(what: &'static str, call: impl FnOnce(*mut *mut T) -> u32) -> Result<Self> {
        // SAFETY: as the caller promises.
        let table = unsafe { Self::read_supported(what, call) }?;
        Ok(table.unwrap_or(Self { start: None }))
    }

    /// The same; `None` if this system does not list it.
    ///
    /// # Safety
    /// As for [`MibTable::read`].
    pub(super) unsafe fn read_supported(
        what: &'static str,
        call: impl FnOnce(*mut *mut T) -> u32,
    ) -> Result<Option<Self>> {
        let mut start = null_mut();
        match call(&raw mut start) {
            0 => Ok(Some(Self { start: NonNull::new(start) })),
            ERROR_NOT_FOUND => Ok(Some(Self { start: None })),
            // The first one is Wine's answer for neighbours of IPv6.
            ERROR_INVALID_FUNCTION | ERROR_NOT_SUPPORTED => Ok(None),
            code => Err(refused(what, code)),
        }
    }

    /// The rows.
    pub(super) fn rows(&self) -> impl Iterator<Item = RowRef<'_, T::Row>> {
        // SAFETY: a table of the system, which lives as long as `self`.
        let (count, first) = self.start.map_or((0, std::ptr::null()), |start| unsafe { T::parts(start.as_ptr()) });
        // SAFETY: the table has so many rows behind one another.
        (0..count as usize).map(move |at| RowRef { row: unsafe { first.add(at) }, table: PhantomData })
    }
}

impl<T: MibLayout> Drop for MibTable<T> {
    fn drop(&mut self) {
        if let Some(start) = self.start {
            // SAFETY: allocated by the IP Helper API, and not used any more.
            unsafe { FreeMibTable(start.as_ptr().cast_const().cast()) };
        }
    }
}

/// A row of the system. Its fields are read one by one by [`field!`] and [`flag!`]: a `BOOLEAN` of
/// C may hold values that a `bool` of Rust may not, so there is no reference to the row.
#[derive(Clone, Copy)]
pub(super) struct RowRef<'t, R> {
    row: *const R,
    table: PhantomData<&'t R>,
}

impl<'t, R> RowRef<'t, R> {
    /// The row behind a pointer.
    ///
    /// # Safety
    /// It points to a row, of which every field has been written, for this lifetime.
    pub(super) unsafe fn new(row: *const R) -> Self {
        Self { row, table: PhantomData }
    }

    /// Where the row is: readable, but for fields of the type `bool`.
    pub(super) fn start(self) -> *const R {
        self.row
    }
}

/// A field of a [`RowRef`] that is neither a `bool` nor has one.
macro_rules! field {
    ($row:ident.$($field:ident).+) => {{
        let row: RowRef<'_, _> = $row;
        // SAFETY: a row of the system, which lives as long as the reference.
        unsafe { (&raw const (*row.start()).$($field).+).read() }
    }};
}

/// A `BOOLEAN` of a [`RowRef`].
macro_rules! flag {
    ($row:ident.$field:ident) => {{
        let row: RowRef<'_, _> = $row;
        // SAFETY: a row of the system, which lives as long as the reference; a BOOLEAN is a byte.
        let at: *const bool = unsafe { &raw const (*row.start()).$field };
        // SAFETY: as above.
        unsafe { at.cast::<u8>().read() != 0 }
    }};
}

pub(super) use {field, flag};

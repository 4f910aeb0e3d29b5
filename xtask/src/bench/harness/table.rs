//! Tables for the terminal.

use comfy_table::{CellAlignment, Row, Table, presets};

/// A table with these headers.
pub(crate) fn with(headers: impl Into<Row>) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_BORDERS_ONLY);
    table.set_header(headers);
    table
}

/// Aligns columns of numbers.
pub(crate) fn right(table: &mut Table, columns: impl IntoIterator<Item = usize>) {
    for column in columns {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
}

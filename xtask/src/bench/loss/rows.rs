//! The impairments of the cable, and the cells of the table.

use super::ends::Ends;
use std::fmt;

/// What is measured in each round: messages of one size, over a cable, between two stacks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cell {
    pub(super) row: &'static Row,
    /// Bytes of a message.
    pub(super) size: u32,
    pub(super) ends: Ends,
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { row, size, ends } = self;
        write!(f, "{}, {} KB, {ends}", row.name, size / 1000)
    }
}

/// Bytes of a message.
pub(super) const SIZES: [u32; 2] = [20_000, 640_000];

/// The cells of some rows. HostPairs are adjacent, so that the machine's drift affects them alike.
pub(super) fn cells(rows: &[&'static Row]) -> Vec<Cell> {
    let of_size = |row, size| Ends::ALL.map(|ends| Cell { row, size, ends });
    rows.iter().flat_map(|&row| SIZES.into_iter().flat_map(move |size| of_size(row, size))).collect()
}

/// One row of the table.
#[derive(Debug)]
pub(super) struct Row {
    /// Its name; `--only` looks for a part of it.
    pub(super) name: &'static str,
    /// The arguments of the relay.
    impairment: Impairment,
    /// The time that a measurement takes in addition to its seconds: programs start and end, and
    /// the last message may take long.
    pub(super) around_s: f64,
}

#[derive(Debug)]
enum Impairment {
    /// Random, and the same for all packets of both directions.
    PerPacket(&'static [&'static str]),
    /// By message: the relay also needs the bytes of a message as the last argument.
    PerMessage(&'static [&'static str]),
}

const fn per_packet(name: &'static str, arguments: &'static [&'static str]) -> Row {
    Row { name, impairment: Impairment::PerPacket(arguments), around_s: 0.6 }
}

const fn per_message(name: &'static str, around_s: f64, arguments: &'static [&'static str]) -> Row {
    Row { name, impairment: Impairment::PerMessage(arguments), around_s }
}

/// All rows.
pub(super) static ROWS: [Row; 12] = [
    per_packet("none", &[]),
    per_packet("random 0.1 %", &["--loss", "1000"]),
    per_packet("random 0.5 %", &["--loss", "5000"]),
    per_packet("random 1 %", &["--loss", "10000"]),
    per_packet("random 2 %", &["--loss", "20000"]),
    per_packet("random 5 %", &["--loss", "50000"]),
    // Bursts of four packets on average, 0.8 % of all packets.
    per_packet("burst", &["--burst", "2000", "--burst-end", "250000"]),
    // By two round trips at most.
    per_packet("reorder", &["--reorder", "20000", "--reorder-by", "200"]),
    per_packet("duplicate", &["--duplicate", "20000"]),
    per_message("tail", 1.0, &["--tail"]),
    per_message("blackout forth", 3.0, &["--dark", "forth", "--blackout"]),
    per_message("blackout back", 3.0, &["--dark", "back", "--blackout"]),
];

impl Row {
    /// The relay's arguments for messages of so many bytes.
    pub(super) fn arguments(&self, size: u32) -> Vec<String> {
        let (Impairment::PerPacket(arguments) | Impairment::PerMessage(arguments)) = self.impairment;
        let size = matches!(self.impairment, Impairment::PerMessage(_)).then(|| size.to_string());
        arguments.iter().map(|&argument| argument.to_owned()).chain(size).collect()
    }

    /// The number of messages before the measured ones, to open the windows; fewer where each
    /// message takes long.
    pub(super) fn warm_up(&self) -> u32 {
        if matches!(self.impairment, Impairment::PerMessage(_)) { 1 } else { 5 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_a_cell_for_each_size_and_each_kind_of_ends() {
        let cells = cells(&[&ROWS[0], &ROWS[9]]);
        assert_eq!(cells.len(), 2 * SIZES.len() * Ends::ALL.len());
        assert_eq!(cells[1].to_string(), "none, 20 KB, ours-kernel");
        assert_eq!(cells[15].to_string(), "tail, 640 KB, ours-ours");
    }

    #[test]
    fn the_size_follows_where_messages_are_told_apart() {
        let arguments = |name: &str| ROWS.iter().find(|row| row.name == name).unwrap().arguments(20_000).join(" ");
        assert_eq!(arguments("random 0.1 %"), "--loss 1000");
        assert_eq!(arguments("tail"), "--tail 20000");
        assert_eq!(arguments("blackout back"), "--dark back --blackout 20000");
    }
}

//! The line that the small programs of `xtask/programs` print.

use super::figure::Figure;

/// Reads `trips=N p50_us=X p99_us=Y`. The figure is the median.
pub(super) fn read(printed: &str) -> Option<Figure> {
    let line = printed.lines().rev().find(|line| line.starts_with("trips="))?;
    let field = |name: &str| {
        let word = line.split_whitespace().find_map(|word| word.strip_prefix(name)?.strip_prefix('='))?;
        word.parse::<f64>().ok()
    };
    let (trips, p50, p99) = (field("trips")?, field("p50_us")?, field("p99_us")?);
    (trips > 0.0).then_some(Figure { value: p50, p50_us: Some(p50), p99_us: Some(p99), packets: trips as u64 / 2 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_counts() {
        let printed = "connected\ntrips=12000 p50_us=41.50 p99_us=99.25\n";
        let expected = Figure { value: 41.5, p50_us: Some(41.5), p99_us: Some(99.25), packets: 6000 };
        assert_eq!(read(printed), Some(expected));
        assert_eq!(read("trips=0 p50_us=0 p99_us=0"), None);
        assert_eq!(read("trips=nan"), None);
        assert_eq!(read("Connection refused"), None);
    }
}

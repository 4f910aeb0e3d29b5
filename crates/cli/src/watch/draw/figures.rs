//! Figures that fit a narrow column.

/// A time of so many ns with three digits, in 7 characters.
pub(super) fn time(ns: u64) -> String {
    const UNITS: [(f64, &str); 3] = [(1e3, "us"), (1e6, "ms"), (1e9, "s")];
    if ns < 1000 {
        return format!("{ns} ns");
    }
    let ns = ns as f64;
    // A value that would round to 1000 is shown as 1 of the next unit.
    let (unit, name) = UNITS.into_iter().find(|(unit, _)| ns / unit < 999.5).unwrap_or(UNITS[2]);
    match ns / unit {
        many if many >= 9999.5 => ">9999 s".to_owned(),
        some => format!("{} {name}", digits(some)),
    }
}

/// Bytes, in 8 characters.
pub(super) fn size(bytes: u64) -> String {
    scaled(bytes, 7, &[" B", " kB", " MB", " GB", " TB", " PB", " EB"])
}

/// A count, in full if it has at most `most` digits, otherwise with three digits.
pub(super) fn count(number: u64, most: usize) -> String {
    scaled(number, most, &["", "k", "M", "G", "T", "P", "E"])
}

fn scaled(number: u64, most: usize, units: &[&str]) -> String {
    let whole = format!("{number}{}", units[0]);
    if whole.len() <= most {
        return whole;
    }
    let mut rest = number as f64;
    let mut power = 0;
    while rest >= 999.5 && power + 1 < units.len() {
        rest /= 1e3;
        power += 1;
    }
    format!("{}{}", digits(rest), units[power])
}

/// Three digits.
fn digits(value: f64) -> String {
    match value {
        v if v < 9.995 => format!("{v:.2}"),
        v if v < 99.95 => format!("{v:.1}"),
        v => format!("{v:.0}"),
    }
}

/// The deadline's position in a bar of this width, which ranges from a thousandth of the deadline
/// to ten times the deadline.
fn limit(width: usize) -> usize {
    width * 3 / 4
}

/// A bar of a time relative to its deadline, on a logarithmic scale. It passes the mark only if the
/// time exceeds the deadline, so no colour is needed to see that.
pub(super) fn bar(ns: u64, deadline_ns: u64, width: usize) -> String {
    let limit = limit(width);
    let place = match (ns, deadline_ns) {
        (0, _) => 0,
        (_, 0) => width,
        _ => {
            let decades = (ns as f64 / deadline_ns as f64).log10() + 3.0;
            let place = (decades / 4.0 * width as f64).round().clamp(1.0, width.max(1) as f64) as usize;
            if ns > deadline_ns { place.max(limit + 2) } else { place.min(limit) }
        }
    };
    let cell = |at: usize| match at {
        at if at == limit => '│',
        at if at < place => '█',
        _ => '·',
    };
    (0..width).map(cell).collect()
}

/// The scale above bars.
pub(super) fn scale(width: usize) -> String {
    let limit = limit(width);
    let before = format!("{:<limit$}", "0.1%");
    let after = width.saturating_sub(limit + 1);
    let far = if after >= 3 { format!("{:>after$}", "x10") } else { String::new() };
    before.chars().take(limit).collect::<String>() + "│" + &far
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_digits_in_seven_characters() {
        for (ns, text) in [
            (0, "0 ns"),
            (999, "999 ns"),
            (1000, "1.00 us"),
            (9_994, "9.99 us"),
            (9_996, "10.0 us"),
            (99_960, "100 us"),
            (999_499, "999 us"),
            (999_500, "1.00 ms"),
            (12_340_000, "12.3 ms"),
            (1_500_000_000, "1.50 s"),
            (9_999_000_000_000, "9999 s"),
            (u64::MAX, ">9999 s"),
        ] {
            assert_eq!(time(ns), text, "{ns}");
            assert!(text.len() <= 7);
        }
    }

    #[test]
    fn counts_are_whole_where_there_is_room() {
        assert_eq!(count(123_456, 6), "123456");
        assert_eq!(count(1_234_567, 6), "1.23M");
        assert_eq!(count(999_999, 5), "1.00M");
        assert_eq!(count(u64::MAX, 9), "18.4E");
        assert_eq!((size(10), size(65_507), size(1_000_000)), ("10 B".into(), "65507 B".into(), "1.00 MB".into()));
        assert!(size(u64::MAX).len() <= 8);
    }

    #[test]
    fn a_bar_passes_its_mark_only_beyond_the_deadline() {
        let ms = 1_000_000;
        assert_eq!(bar(0, ms, 12), "·········│··");
        assert_eq!(bar(1, ms, 12), "█········│··", "however little, it is seen");
        assert_eq!(bar(ms / 10, ms, 12), "██████···│··");
        assert_eq!(bar(ms, ms, 12), "█████████│··");
        assert_eq!(bar(ms + 1, ms, 12), "█████████│█·");
        assert_eq!(bar(u64::MAX, ms, 12), "█████████│██");
        assert_eq!(bar(5, 0, 12), "█████████│██");
        for width in 0..40 {
            assert_eq!(bar(ms, ms, width).chars().count(), width);
            assert!(scale(width).chars().count() <= width.max(1));
        }
        assert_eq!(scale(12), "0.1%     │");
        assert_eq!(scale(16), "0.1%        │x10");
    }
}

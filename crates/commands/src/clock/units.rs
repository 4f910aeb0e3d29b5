//! Figures as text for users.

use tickclock::Nanos;

/// A span of time in ns, with the unit that fits.
pub fn span(ns: f64) -> String {
    match ns.abs() {
        size if size < 1e3 => format!("{ns:.0} ns"),
        size if size < 1e6 => format!("{:.2} us", ns / 1e3),
        size if size < 1e9 => format!("{:.3} ms", ns / 1e6),
        _ => format!("{:.3} s", ns / 1e9),
    }
}

/// Unix time as date and time of day, to the nanosecond.
pub fn utc(time: Nanos) -> String {
    const SECOND: i64 = 1_000_000_000;
    let (seconds, ns) = (time.0.div_euclid(SECOND), time.0.rem_euclid(SECOND));
    let (days, of_day) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = tickwire_clock::ensemble::calendar::civil(days);
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}.{ns:09} UTC")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_the_unit_that_fits() {
        assert_eq!(span(999.4), "999 ns");
        assert_eq!(span(-1500.0), "-1.50 us");
        assert_eq!(span(2.5e9), "2.500 s");
        assert_eq!(utc(Nanos(1_483_228_799_000_000_007)), "2016-12-31 23:59:59.000000007 UTC");
        assert_eq!(utc(Nanos(-1)), "1969-12-31 23:59:59.999999999 UTC");
    }
}

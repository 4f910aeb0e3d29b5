//! The promises, and comparisons that are only stated, each beside the kernel's.

use super::instructions::Cost;
use super::rows::{self, Row};
use super::topology::Measured;
use crate::bench::harness::host_pairs::Ends;
use crate::bench::harness::{Bound, Outcome, Verdict};

struct Rows<'a>(&'a [Outcome<&'static Row, Measured>]);

impl Rows<'_> {
    fn of(&self, name: &str, ends: Ends) -> Option<Measured> {
        self.0.iter().find(|outcome| outcome.cell.name == name && outcome.cell.ends == ends)?.median()
    }

    /// The ratio of a figure in row `a` to that in row `b`, with the same ends.
    fn ratio(&self, ends: Ends, a: &str, b: &str, figure: fn(&Measured) -> Option<f64>) -> Option<f64> {
        Some(figure(&self.of(a, ends)?)? / figure(&self.of(b, ends)?)?)
    }
}

fn rate(measured: &Measured) -> Option<f64> {
    Some(measured.rate)
}

fn p99(measured: &Measured) -> Option<f64> {
    Some(measured.latency?.p99_ns as f64)
}

/// All comparisons whose rows were measured.
pub(super) fn check(outcomes: &[Outcome<&'static Row, Measured>], costs: &[Cost]) -> Vec<Verdict> {
    let rows = Rows(outcomes);
    let mut verdicts = Vec::new();
    instructions(&mut verdicts, costs);
    connections(&mut verdicts, &rows);
    programs(&mut verdicts, &rows);
    starting(&mut verdicts, &rows);
    queues(&mut verdicts, &rows);
    verdicts
}

/// Adds a comparison, if it was measured, beside the kernel's.
fn judge(verdicts: &mut Vec<Verdict>, promise: &str, measured: Option<f64>, kernel: Option<f64>, bound: Option<Bound>) {
    verdicts.extend(measured.map(|measured| Verdict { promise: promise.into(), measured, kernel, bound }));
}

fn instructions(verdicts: &mut Vec<Verdict>, costs: &[Cost]) {
    if let [few, .., many] = costs {
        let more = many.instructions / few.instructions;
        let promise = "instructions a packet, 11000 connections over 10";
        judge(verdicts, promise, Some(more), None, Some(Bound::AtMost(1.1)));
    }
}

/// Many connections, and how quickly they open.
fn connections(verdicts: &mut Vec<Verdict>, rows: &Rows<'_>) {
    // The time per message is the inverse of the rate.
    let slower = |ends| rows.ratio(ends, rows::FEW, rows::MANY, rate);
    let promise = "time a message, 1000 active of 11000 connections over 10";
    judge(verdicts, promise, slower(Ends::Both), slower(Ends::Kernel), None);
    // With more connections fewer acknowledgements are piggybacked, so a message may take more
    // packets.
    let a_packet = |ends| Some(slower(ends)? * rows.ratio(ends, rows::FEW, rows::MANY, |row| row.packets)?);
    let promise = "time a packet, 1000 active of 11000 connections over 10";
    judge(verdicts, promise, a_packet(Ends::Both), a_packet(Ends::Kernel), Some(Bound::AtMost(1.1)));
    let opened = |ends| Some(rows.of(rows::OPEN, ends)?.rate / rows.of(rows::OPEN, Ends::Kernel)?.rate);
    for (promise, ends) in [
        ("connections connected in a second, over kernel to kernel", Ends::Client),
        ("connections accepted in a second, over kernel to kernel", Ends::Server),
        ("connections in a second at both ends, over kernel to kernel", Ends::Both),
    ] {
        judge(verdicts, promise, opened(ends), None, None);
    }
}

/// What a program pays at its start, in milliseconds.
fn starting(verdicts: &mut Vec<Verdict>, rows: &Rows<'_>) {
    let took = |name, ends| Some(rows.of(name, ends)?.latency?.p50_ns as f64 / 1e6);
    let first = |ends| took(rows::FIRST_SOCKET, ends);
    let promise = "a program's first socket, ms";
    judge(verdicts, promise, first(Ends::Client), first(Ends::Kernel), Some(Bound::AtMost(5.0)));
    let promise = "first sockets of programs in a row, ms";
    judge(verdicts, promise, took(rows::IN_A_ROW, Ends::Client), took(rows::IN_A_ROW, Ends::Kernel), None);
    let short = |ends| took(rows::SHORT_PROGRAM, ends);
    let more = short(Ends::Client).zip(short(Ends::Kernel)).map(|(ours, kernel)| ours - kernel);
    judge(verdicts, "a short Python program, ms more than on the kernel", more, None, Some(Bound::AtMost(10.0)));
}

/// Programs and threads side by side.
fn programs(verdicts: &mut Vec<Verdict>, rows: &Rows<'_>) {
    let together = |ends| rows.ratio(ends, rows::TWO_STREAMS, rows::ONE_STREAM, rate);
    let promise = "two programs' streams together, over one alone";
    judge(verdicts, promise, together(Ends::Both), together(Ends::Kernel), Some(Bound::AtLeast(0.9)));
    let share = |ends| rows.of(rows::TWO_STREAMS, ends)?.share;
    let promise = "of two programs' streams the slower over the faster";
    judge(verdicts, promise, share(Ends::Both), share(Ends::Kernel), Some(Bound::AtLeast(0.8)));
    let disturbed = |ends| rows.ratio(ends, rows::BESIDE, rows::ALONE, p99);
    let promise = "ping-pong p99 beside another's stream, over alone";
    judge(verdicts, promise, disturbed(Ends::Both), disturbed(Ends::Kernel), None);
    let over_kernel = |name| Some(p99(&rows.of(name, Ends::Both)?)? / p99(&rows.of(name, Ends::Kernel)?)?);
    let promise = "ping-pong p99 beside another's stream, over the kernel's";
    judge(verdicts, promise, over_kernel(rows::BESIDE), None, Some(Bound::AtMost(1.0)));
    let promise = "ping-pong p99 beside the program's own stream, over the kernel's";
    judge(verdicts, promise, over_kernel(rows::OWN), None, None);
    let of_threads = |ends| Some(rows.of(rows::THREADS, ends)?.rate);
    let threads = of_threads(Ends::Both).zip(of_threads(Ends::Kernel)).map(|(ours, kernel)| ours / kernel);
    judge(verdicts, "messages of 16 threads, over the kernel's", threads, None, None);
}

fn queues(verdicts: &mut Vec<Verdict>, rows: &Rows<'_>) {
    let two = |ends| rows.ratio(ends, rows::TWO_QUEUES, rows::ONE_QUEUE, rate);
    let promise = "messages by two queues, over one";
    judge(verdicts, promise, two(Ends::Both), two(Ends::Kernel), Some(Bound::AtLeast(0.9)));
}

#[cfg(test)]
mod tests {
    use super::super::report::tests::outcome;
    use super::*;
    use std::time::Duration;
    use tickwire_bench::latency::Recorder;

    fn cost(connections: u32, instructions: f64) -> Cost {
        Cost { connections, active: connections, instructions, ns: 1.0, bytes: 1 }
    }

    #[test]
    fn each_promise_is_judged_by_rows_of_the_same_ends_and_left_out_without_them() {
        let mut outcomes = [
            outcome(rows::FEW, Ends::Kernel, 100.0),
            outcome(rows::FEW, Ends::Both, 200.0),
            outcome(rows::MANY, Ends::Kernel, 80.0),
            outcome(rows::MANY, Ends::Both, 160.0),
            outcome(rows::OPEN, Ends::Kernel, 10.0),
            outcome(rows::OPEN, Ends::Server, 5.0),
        ];
        let verdicts = check(&outcomes, &[cost(10, 1000.0), cost(1000, 0.0), cost(11_000, 1050.0)]);
        let told: Vec<_> = verdicts.iter().map(|v| (v.measured, v.kernel, v.kept())).collect();
        assert_eq!(told, [(1.05, None, Some(true)), (1.25, Some(1.25), None), (0.5, None, None)]);

        // 1.5 times as many packets per message.
        for (outcome, packets) in outcomes.iter_mut().zip([2.0, 2.0, 2.0, 3.0]) {
            outcome.rounds[0].packets = Some(packets);
        }
        let a_packet = &check(&outcomes, &[])[1];
        assert!((a_packet.measured - 1.25 / 1.5).abs() < 1e-9 && a_packet.kept() == Some(true), "{a_packet:?}");
        assert_eq!(a_packet.kernel, Some(1.25));
    }

    #[test]
    fn a_programs_start_is_judged_in_milliseconds() {
        let took = |name, ends, ms: u64| {
            let mut recorder = Recorder::new();
            recorder.record(Duration::from_millis(ms));
            let mut outcome = outcome(name, ends, 1.0);
            outcome.rounds[0].latency = Some(recorder.latency(0));
            outcome
        };
        let judged = |first, short| {
            let rows = [
                took(rows::FIRST_SOCKET, Ends::Client, first),
                took(rows::SHORT_PROGRAM, Ends::Kernel, 40),
                took(rows::SHORT_PROGRAM, Ends::Client, short),
            ];
            check(&rows, &[]).iter().map(|v| (v.measured.round(), v.kept())).collect::<Vec<_>>()
        };
        assert_eq!(judged(2, 48), [(2.0, Some(true)), (8.0, Some(true))]);
        assert_eq!(judged(14, 65), [(14.0, Some(false)), (25.0, Some(false))]);
    }
}

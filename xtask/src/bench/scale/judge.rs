//! The promises, and comparisons that are only stated, each beside the kernel's.

use super::instructions::Cost;
use super::report::Outcome;
use super::rows;
use super::topology::{Ends, Measured};

/// One promise, or one comparison without a promise.
#[derive(Debug)]
pub(super) struct Verdict {
    pub(super) promise: &'static str,
    /// A ratio.
    pub(super) measured: f64,
    /// The same ratio between two kernels, if it exists.
    pub(super) kernel: Option<f64>,
    pub(super) bound: Option<Bound>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Bound {
    AtMost(f64),
    AtLeast(f64),
}

impl Verdict {
    /// Whether it is kept; `None` if nothing was promised.
    pub(super) fn kept(&self) -> Option<bool> {
        Some(match self.bound? {
            Bound::AtMost(bound) => self.measured <= bound,
            Bound::AtLeast(bound) => self.measured >= bound,
        })
    }
}

struct Rows<'a>(&'a [Outcome]);

impl Rows<'_> {
    fn of(&self, name: &str, ends: Ends) -> Option<Measured> {
        self.0.iter().find(|outcome| outcome.row.name == name && outcome.row.ends == ends)?.median()
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
pub(super) fn check(outcomes: &[Outcome], costs: &[Cost]) -> Vec<Verdict> {
    let rows = Rows(outcomes);
    let mut verdicts = Vec::new();
    let mut judge = |promise, measured: Option<f64>, kernel: Option<f64>, bound| {
        verdicts.extend(measured.map(|measured| Verdict { promise, measured, kernel, bound }));
    };
    if let [few, .., many] = costs {
        let more = many.instructions / few.instructions;
        judge("instructions a packet, 11000 connections over 10", Some(more), None, Some(Bound::AtMost(1.1)));
    }
    // The time per message is the inverse of the rate.
    let slower = |ends| rows.ratio(ends, rows::FEW, rows::MANY, rate);
    judge("time a message, 1000 active of 11000 connections over 10", slower(Ends::Both), slower(Ends::Kernel), None);
    // With more connections fewer acknowledgements are piggybacked, so a message may take more
    // packets.
    let a_packet = |ends| Some(slower(ends)? * rows.ratio(ends, rows::FEW, rows::MANY, |row| row.packets)?);
    judge(
        "time a packet, 1000 active of 11000 connections over 10",
        a_packet(Ends::Both),
        a_packet(Ends::Kernel),
        Some(Bound::AtMost(1.1)),
    );
    let opened = |ends| Some(rows.of(rows::OPEN, ends)?.rate / rows.of(rows::OPEN, Ends::Kernel)?.rate);
    judge("connections connected in a second, over kernel to kernel", opened(Ends::Client), None, None);
    judge("connections accepted in a second, over kernel to kernel", opened(Ends::Server), None, None);
    judge("connections in a second at both ends, over kernel to kernel", opened(Ends::Both), None, None);
    let together = |ends| rows.ratio(ends, rows::TWO_STREAMS, rows::ONE_STREAM, rate);
    judge(
        "two programs' streams together, over one alone",
        together(Ends::Both),
        together(Ends::Kernel),
        Some(Bound::AtLeast(0.9)),
    );
    let share = |ends| rows.of(rows::TWO_STREAMS, ends)?.share;
    judge(
        "of two programs' streams the slower over the faster",
        share(Ends::Both),
        share(Ends::Kernel),
        Some(Bound::AtLeast(0.8)),
    );
    let disturbed = |ends| rows.ratio(ends, rows::BESIDE, rows::ALONE, p99);
    judge("ping-pong p99 beside another's stream, over alone", disturbed(Ends::Both), disturbed(Ends::Kernel), None);
    let over_kernel = |name| Some(p99(&rows.of(name, Ends::Both)?)? / p99(&rows.of(name, Ends::Kernel)?)?);
    let (others, own) = (over_kernel(rows::BESIDE), over_kernel(rows::OWN));
    judge("ping-pong p99 beside another's stream, over the kernel's", others, None, Some(Bound::AtMost(1.0)));
    judge("ping-pong p99 beside the program's own stream, over the kernel's", own, None, None);
    let of_threads = |ends| Some(rows.of(rows::THREADS, ends)?.rate);
    let threads = of_threads(Ends::Both).zip(of_threads(Ends::Kernel)).map(|(ours, kernel)| ours / kernel);
    judge("messages of 16 threads, over the kernel's", threads, None, None);
    let queues = |ends| rows.ratio(ends, rows::TWO_QUEUES, rows::ONE_QUEUE, rate);
    judge("messages by two queues, over one", queues(Ends::Both), queues(Ends::Kernel), Some(Bound::AtLeast(0.9)));
    verdicts
}

#[cfg(test)]
mod tests {
    use super::super::report::tests::outcome;
    use super::*;

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
}

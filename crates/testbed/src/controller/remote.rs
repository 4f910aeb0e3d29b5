//! A running node: orders to it, reports from it. The node may be on another machine, broken or
//! hostile: it must not block the controller or exhaust its memory, and its texts are sanitized for
//! the terminal.

use super::host::NodeHost;
use super::stderr_tail::{StderrTail, fit};
use super::timeouts::Timeouts;
use crate::node::lines;
use crate::node::protocol::{LONGEST_LINE, NodeReport, Order};
use anyhow::{Context, Result, bail};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::time::{Duration, Instant};

/// The longest line of a node, in bytes: a fixed part, and a part for each stream. All steps of a
/// histogram take 700,000.
const LINE: u64 = 64 << 10;
const LINE_PER_STREAM: u64 = 1 << 20;
/// The queue length of reports. While it is full, the node's output is not read.
const WAITING: usize = 2;

/// A running node, killed when dropped.
#[derive(Debug)]
pub(super) struct Remote {
    /// The host's name.
    pub(super) name: String,
    child: Child,
    /// Orders to a writer thread, because the node may not read. None: there are no more orders.
    orders: Option<Sender<Vec<u8>>>,
    reports: Receiver<Result<NodeReport>>,
    words: StderrTail,
    /// The timeout of its exit, and its deadline once it was let go.
    ends_within: Duration,
    ends_until: Option<Instant>,
}

impl Remote {
    /// Starts a node with `streams` streams.
    pub(super) fn start(place: &NodeHost, mut command: Command, streams: usize, timeouts: &Timeouts) -> Result<Self> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start `{}`", command.get_program().to_string_lossy()))?;
        let mut stdin = child.stdin.take().context("no input")?;
        let (stdout, stderr) = (child.stdout.take().context("no output")?, child.stderr.take().context("no errors")?);
        let (orders, told) = channel::<Vec<u8>>();
        std::thread::spawn(move || while told.recv().is_ok_and(|line| stdin.write_all(&line).is_ok()) {});
        let (sender, reports) = sync_channel(WAITING);
        let longest = LONGEST_LINE.min(LINE + LINE_PER_STREAM.saturating_mul(streams as u64));
        std::thread::spawn(move || read_reports(BufReader::new(stdout), longest, &sender));
        Ok(Self {
            name: place.name.clone(),
            child,
            orders: Some(orders),
            reports,
            words: StderrTail::of(stderr),
            ends_within: timeouts.ends,
            ends_until: None,
        })
    }

    /// Sends an order. A node that does not take it shows that by its reports, or by its exit.
    pub(super) fn order(&mut self, order: &Order) -> Result<()> {
        let mut line = Vec::new();
        lines::write(&mut line, order).with_context(|| format!("{}: it cannot be told what to do", self.name))?;
        if self.orders.as_ref().is_none_or(|orders| orders.send(line).is_err()) {
            // The node has reported why, or exits without a report.
            let until = Instant::now() + self.ends_within;
            while Instant::now() < until && self.next(until)?.is_some() {}
            bail!("{}: it takes no orders any more", self.name);
        }
        Ok(())
    }

    /// The next report, or `None` at `until`; a report that is already queued is returned after it,
    /// too. A node's failure or exit is an error with its text.
    pub(super) fn next(&mut self, until: Instant) -> Result<Option<NodeReport>> {
        match self.reports.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(Ok(NodeReport::Failed { why })) => bail!("{}: {}", self.name, fit(&why)),
            Ok(Ok(report)) => Ok(Some(in_words(report))),
            Ok(Err(error)) => bail!(
                "{}: it said what no node says ({}): does its shell print something when it starts?",
                self.name,
                fit(&error.to_string())
            ),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => {
                let end = self.end();
                bail!("{}: {end}", self.name)
            }
        }
    }

    /// Starts the node's shutdown. To shut several down, call this for all before the first is
    /// dropped, because drop waits.
    pub(super) fn let_go(&mut self) {
        // The end of its input ends a node, and an `ssh` in front of it.
        self.orders = None;
        self.ends_until.get_or_insert_with(|| Instant::now() + self.ends_within);
    }

    /// Waits for its exit, and kills it after the timeout; returns its status if it exited by
    /// itself.
    pub(super) fn ended(&mut self) -> Option<std::process::ExitStatus> {
        self.let_go();
        while let Ok(status) = self.child.try_wait() {
            if status.is_some() {
                return status;
            }
            if self.ends_until.is_none_or(|until| Instant::now() >= until) {
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        None
    }

    /// Waits for its end as [`Self::ended`] does, and says how it ended.
    pub(super) fn end(&mut self) -> String {
        let status = self.ended().map_or_else(|| "it does not answer".to_owned(), |status| status.to_string());
        match self.words.line() {
            last if last.is_empty() => format!("the node ended ({status})"),
            last => format!("the node ended ({status}): {last}"),
        }
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        self.ended();
    }
}

/// Sanitizes all texts of a report for display.
fn in_words(mut report: NodeReport) -> NodeReport {
    let tidy = |fault: &mut Option<String>| *fault = fault.as_deref().map(fit);
    match &mut report {
        NodeReport::Hello { program, host, .. } => (*program, *host) = (fit(program), fit(host)),
        NodeReport::Sent { streams, .. } => streams.iter_mut().for_each(|sent| tidy(&mut sent.fault)),
        NodeReport::Received { streams, .. } => streams.iter_mut().for_each(|received| tidy(&mut received.fault)),
        NodeReport::Failed { why } => *why = fit(why),
        NodeReport::Ready { .. } | NodeReport::Progress { .. } => {}
    }
    report
}

fn read_reports(mut from: impl BufRead, longest: u64, to: &SyncSender<Result<NodeReport>>) {
    while let Some(report) = lines::read(&mut from, longest).transpose() {
        let over = report.is_err();
        if to.send(report.map_err(anyhow::Error::from)).is_err() || over {
            return;
        }
    }
}

//! A node that runs: orders to it, news from it. It is another machine's, which may be broken or
//! lie: nothing that it does or leaves holds the controller up or fills its memory, and what it
//! says in words is fit for a terminal.

use super::last_words::{LastWords, fit};
use super::patience::Patience;
use super::place::Place;
use crate::node::lines;
use crate::node::protocol::{LONGEST_LINE, News, Order};
use anyhow::{Context, Result, bail};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::time::{Duration, Instant};

/// What a line of a node may have besides what it says of streams, and for each stream, in bytes:
/// all steps of a histogram take 700,000.
const LINE: u64 = 64 << 10;
const LINE_PER_STREAM: u64 = 1 << 20;
/// So many news wait at most: who says more is not read until they have been heard.
const WAITING: usize = 2;

/// A running node. It is ended when dropped.
#[derive(Debug)]
pub(super) struct Remote {
    /// The host's name.
    pub(super) name: String,
    child: Child,
    /// What it is told goes by a thread of its own, because a node need not read. None: there is
    /// nothing more to be told.
    orders: Option<Sender<Vec<u8>>>,
    news: Receiver<Result<News>>,
    words: LastWords,
    /// How long it may take to end by itself, and until when, once it was let go.
    ends_within: Duration,
    ends_until: Option<Instant>,
}

impl Remote {
    /// Starts a node of so many streams.
    pub(super) fn start(place: &Place, mut command: Command, streams: usize, patience: &Patience) -> Result<Self> {
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
        let (sender, news) = sync_channel(WAITING);
        let longest = LONGEST_LINE.min(LINE + LINE_PER_STREAM.saturating_mul(streams as u64));
        std::thread::spawn(move || read_news(BufReader::new(stdout), longest, &sender));
        Ok(Self {
            name: place.name.clone(),
            child,
            orders: Some(orders),
            news,
            words: LastWords::of(stderr),
            ends_within: patience.ends,
            ends_until: None,
        })
    }

    /// Tells it something. That it does not take it shows in what it says, or in its end.
    pub(super) fn order(&mut self, order: &Order) -> Result<()> {
        let mut line = Vec::new();
        lines::write(&mut line, order).with_context(|| format!("{}: it cannot be told what to do", self.name))?;
        if self.orders.as_ref().is_none_or(|orders| orders.send(line).is_err()) {
            // It has said why, or ends without.
            let until = Instant::now() + self.ends_within;
            while Instant::now() < until && self.next(until)?.is_some() {}
            bail!("{}: it takes no orders any more", self.name);
        }
        Ok(())
    }

    /// The next news, or `None` at that instant; what waits already is heard after it, too. That it
    /// has failed, or is gone, is an error which says so.
    pub(super) fn next(&mut self, until: Instant) -> Result<Option<News>> {
        match self.news.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(Ok(News::Failed { why })) => bail!("{}: {}", self.name, fit(&why)),
            Ok(Ok(news)) => Ok(Some(in_words(news))),
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

    /// Nothing more is wanted of it. Who lets several go does so before the first is dropped, which
    /// waits.
    pub(super) fn let_go(&mut self) {
        // The end of its input is the end of a node, and of an `ssh` before it.
        self.orders = None;
        self.ends_until.get_or_insert_with(|| Instant::now() + self.ends_within);
    }

    /// Waits until it has ended, and ends it if it does not; how it ended by itself.
    fn ended(&mut self) -> Option<std::process::ExitStatus> {
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

    /// How it ended, in words.
    fn end(&mut self) -> String {
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

/// News of which all that is words is fit to be shown.
fn in_words(mut news: News) -> News {
    let tidy = |fault: &mut Option<String>| *fault = fault.as_deref().map(fit);
    match &mut news {
        News::Hello { program, host, .. } => (*program, *host) = (fit(program), fit(host)),
        News::Sent { streams, .. } => streams.iter_mut().for_each(|sent| tidy(&mut sent.fault)),
        News::Received { streams, .. } => streams.iter_mut().for_each(|received| tidy(&mut received.fault)),
        News::Failed { why } => *why = fit(why),
        News::Ready { .. } | News::Progress { .. } => {}
    }
    news
}

fn read_news(mut from: impl BufRead, longest: u64, to: &SyncSender<Result<News>>) {
    while let Some(news) = lines::read(&mut from, longest).transpose() {
        let over = news.is_err();
        if to.send(news.map_err(anyhow::Error::from)).is_err() || over {
            return;
        }
    }
}

//! A node that runs: orders to it, news from it.

use super::place::Place;
use crate::node::lines;
use crate::node::protocol::{LONGEST_LINE, News, Order};
use anyhow::{Context, Result, bail};
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Of what a node says on standard error, so much of the end is kept, in bytes.
const LAST_WORDS: usize = 2000;
/// A node ends by itself when nobody talks with it any more, well within this.
const ENDS_WITHIN: Duration = Duration::from_secs(3);

/// A running node. It is ended when dropped.
#[derive(Debug)]
pub(super) struct Remote {
    /// The host's name.
    pub(super) name: String,
    child: Child,
    orders: Option<ChildStdin>,
    news: Receiver<Result<News>>,
    words: Arc<Mutex<Vec<u8>>>,
    /// Reads standard error to its end.
    listener: Option<JoinHandle<()>>,
}

impl Remote {
    pub(super) fn start(place: &Place, mut command: Command) -> Result<Self> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start `{}`", command.get_program().to_string_lossy()))?;
        let orders = child.stdin.take();
        let (stdout, stderr) = (child.stdout.take().context("no output")?, child.stderr.take().context("no errors")?);
        let (sender, news) = channel();
        std::thread::spawn(move || read_news(BufReader::new(stdout), &sender));
        let words = Arc::default();
        let heard = Arc::clone(&words);
        let listener = Some(std::thread::spawn(move || keep_last_words(stderr, &heard)));
        Ok(Self { name: place.name.clone(), child, orders, news, words, listener })
    }

    pub(super) fn order(&mut self, order: &Order) -> Result<()> {
        let orders = self.orders.as_mut().context("the node has been let go")?;
        if lines::write(orders, order).is_err() {
            // It has said why, or ends without.
            while let Some(news) = self.next(Instant::now() + ENDS_WITHIN)? {
                drop(news);
            }
            bail!("{}: it takes no orders any more", self.name);
        }
        Ok(())
    }

    /// The next news, or `None` at that instant. That it has failed, or is gone, is an error which says so.
    pub(super) fn next(&mut self, until: Instant) -> Result<Option<News>> {
        match self.news.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(Ok(News::Failed { why })) => bail!("{}: {why}", self.name),
            Ok(news) => news.map(Some).with_context(|| self.name.clone()),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => {
                let end = self.end();
                bail!("{}: {end}", self.name)
            }
        }
    }

    /// How it ended, in words.
    fn end(&mut self) -> String {
        drop(self.orders.take());
        let until = Instant::now() + ENDS_WITHIN;
        let status = loop {
            match self.child.try_wait() {
                Ok(Some(status)) => break status.to_string(),
                Ok(None) if Instant::now() < until => std::thread::sleep(Duration::from_millis(5)),
                _ => {
                    let _ = self.child.kill();
                    break "it does not answer".to_owned();
                }
            }
        };
        let _ = self.child.wait();
        if let Some(listener) = self.listener.take_if(|listener| listener.is_finished()) {
            let _ = listener.join();
        }
        let words = self.words.lock().unwrap_or_else(PoisonError::into_inner);
        let words = String::from_utf8_lossy(&words);
        let last = words.trim().lines().next_back().unwrap_or_default();
        if last.is_empty() {
            format!("the node ended ({status})")
        } else {
            format!("the node ended ({status}): {last}")
        }
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        // The end of its input is the end of a node, and of an `ssh` before it.
        drop(self.orders.take());
        let until = Instant::now() + ENDS_WITHIN;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read_news(mut from: impl BufRead, to: &Sender<Result<News>>) {
    while let Some(news) = lines::read(&mut from, LONGEST_LINE).transpose() {
        let over = news.is_err();
        if to.send(news.context("it said what no node says")).is_err() || over {
            return;
        }
    }
}

fn keep_last_words(mut from: impl Read, words: &Mutex<Vec<u8>>) {
    let mut buffer = [0; 1024];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        let mut words = words.lock().unwrap_or_else(PoisonError::into_inner);
        words.extend_from_slice(&buffer[..count]);
        let over = words.len().saturating_sub(LAST_WORDS);
        words.drain(..over);
    }
}

//! How a node hears and speaks while it measures: each in a thread of its own, so that no slow line
//! holds up a message.

use super::error::NodeError;
use super::lines::{self, LineError};
use super::protocol::{LONGEST_ORDER, News, Order};
use std::io::{BufRead, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

/// How many orders and how many news wait at most.
const WAITING: usize = 16;

/// What the controller said.
#[derive(Debug)]
pub(super) enum Heard {
    /// This.
    Order(Order),
    /// Nothing so far.
    Nothing,
    /// Nothing any more: it has gone.
    End,
}

/// The controller, from the node's side.
#[derive(Debug)]
pub(super) struct Talk {
    orders: Receiver<Result<Order, LineError>>,
    news: SyncSender<News>,
}

impl Talk {
    /// Begins to listen to the input, and to speak on the output in this scope, until the `Talk` is
    /// dropped.
    pub(super) fn begin<'scope>(
        scope: &'scope std::thread::Scope<'scope, '_>,
        mut input: impl BufRead + Send + 'static,
        mut output: impl Write + Send + 'scope,
    ) -> Result<Self, NodeError> {
        let failed = |source| NodeError::System { what: "start a thread", source };
        let (heard, orders) = sync_channel(WAITING);
        // Nobody can end a thread that waits for its input; it ends with the process, if not
        // before.
        std::thread::Builder::new()
            .name("orders".into())
            .spawn(move || {
                while let Some(order) = lines::read(&mut input, LONGEST_ORDER).transpose() {
                    let is_last = order.is_err();
                    if heard.send(order).is_err() || is_last {
                        break;
                    }
                }
            })
            .map_err(failed)?;
        let (news, said) = sync_channel::<News>(WAITING);
        std::thread::Builder::new()
            .name("news".into())
            .spawn_scoped(scope, move || {
                for news in said {
                    if lines::write(&mut output, &news).is_err() {
                        break;
                    }
                }
            })
            .map_err(failed)?;
        Ok(Self { orders, news })
    }

    /// Says something.
    pub(super) fn say(&self, news: News) -> Result<(), NodeError> {
        self.news.send(news).map_err(|_| NodeError::Unheard)
    }

    /// Says something if that does not have to wait; whether it did.
    pub(super) fn mention(&self, news: News) -> Result<bool, NodeError> {
        match self.news.try_send(news) {
            Ok(()) => Ok(true),
            Err(TrySendError::Full(_)) => Ok(false),
            Err(TrySendError::Disconnected(_)) => Err(NodeError::Unheard),
        }
    }

    /// What the controller has said, if it says something within this time.
    pub(super) fn hear(&self, within: Duration) -> Result<Heard, NodeError> {
        match self.orders.recv_timeout(within) {
            Ok(order) => Ok(Heard::Order(order?)),
            Err(RecvTimeoutError::Timeout) => Ok(Heard::Nothing),
            Err(RecvTimeoutError::Disconnected) => Ok(Heard::End),
        }
    }

    /// The next thing that the controller says; none if it goes.
    pub(super) fn wait(&self) -> Result<Option<Order>, NodeError> {
        self.orders.recv().ok().transpose().map_err(NodeError::from)
    }
}

/// That an order came when another one was expected.
pub(super) const fn unexpected(order: &Order, expected: &'static str) -> NodeError {
    let said = match order {
        Order::Prepare(_) => "`prepare`",
        Order::Start(_) => "`start`",
        Order::Finish { .. } => "`finish`",
        Order::Stop => "`stop`",
    };
    NodeError::Order { said, expected }
}

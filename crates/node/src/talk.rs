//! I/O with the controller during a measurement: input and output each have a thread of their own,
//! so that a slow line never delays a message.

use crate::error::NodeError;
use crate::lines::{self, LineError};
use crate::protocol::{LONGEST_ORDER, NodeReport, Order};
use std::io::{BufRead, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

/// Queue lengths of orders and of reports.
const WAITING: usize = 16;

/// Input from the controller.
#[derive(Debug)]
pub(crate) enum Heard {
    /// An order.
    Order(Order),
    /// Nothing so far.
    Nothing,
    /// The controller has gone.
    End,
}

/// The controller, from the node's side.
#[derive(Debug)]
pub(crate) struct Talk {
    orders: Receiver<Result<Order, LineError>>,
    reports: SyncSender<NodeReport>,
}

impl Talk {
    /// Starts to read the input, and to write to the output in this scope, until the `Talk` is
    /// dropped.
    pub(crate) fn begin<'scope>(
        scope: &'scope std::thread::Scope<'scope, '_>,
        mut input: impl BufRead + Send + 'static,
        mut output: impl Write + Send + 'scope,
    ) -> Result<Self, NodeError> {
        let failed = |source| NodeError::System { what: "start a thread", source };
        let (heard, orders) = sync_channel(WAITING);
        // A thread that blocks on its input cannot be stopped; it ends with the process, if not
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
        let (reports, said) = sync_channel::<NodeReport>(WAITING);
        std::thread::Builder::new()
            .name("reports".into())
            .spawn_scoped(scope, move || {
                for report in said {
                    if lines::write(&mut output, &report).is_err() {
                        break;
                    }
                }
            })
            .map_err(failed)?;
        Ok(Self { orders, reports })
    }

    /// Sends a report.
    pub(crate) fn say(&self, report: NodeReport) -> Result<(), NodeError> {
        self.reports.send(report).map_err(|_| NodeError::Unheard)
    }

    /// Sends a report unless that would block; returns whether it did.
    pub(crate) fn mention(&self, report: NodeReport) -> Result<bool, NodeError> {
        match self.reports.try_send(report) {
            Ok(()) => Ok(true),
            Err(TrySendError::Full(_)) => Ok(false),
            Err(TrySendError::Disconnected(_)) => Err(NodeError::Unheard),
        }
    }

    /// The next order, if it arrives within this time.
    pub(crate) fn hear(&self, within: Duration) -> Result<Heard, NodeError> {
        match self.orders.recv_timeout(within) {
            Ok(order) => Ok(Heard::Order(order?)),
            Err(RecvTimeoutError::Timeout) => Ok(Heard::Nothing),
            Err(RecvTimeoutError::Disconnected) => Ok(Heard::End),
        }
    }

    /// The next order; none if the controller goes.
    pub(crate) fn wait(&self) -> Result<Option<Order>, NodeError> {
        self.orders.recv().ok().transpose().map_err(NodeError::from)
    }
}

/// The error for an unexpected order.
pub(crate) const fn unexpected(order: &Order, expected: &'static str) -> NodeError {
    let said = match order {
        Order::Prepare(_) => "`prepare`",
        Order::Start(_) => "`start`",
        Order::Finish { .. } => "`finish`",
        Order::Stop => "`stop`",
    };
    NodeError::Order { said, expected }
}

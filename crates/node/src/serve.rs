//! The life of a node, from its start to its end.

use crate::check;
use crate::consumer::Consumer;
use crate::error::NodeError;
use crate::os;
use crate::producer::Producer;
use crate::protocol::{NodeReport, NodeRole, Order, Prepare, Start, VERSION};
use crate::talk::{Talk, unexpected};
use crate::time::Timepiece;
use std::io::{BufRead, Write};

/// Executes the controller's orders from `input`, and reports on `output`, until the input ends.
/// Nothing else is written to `output`.
///
/// It waits as long as the controller does, and then ends at once.
///
/// # Errors
/// A fatal error, which was also reported to the controller if possible.
pub fn serve(input: impl BufRead + Send + 'static, output: impl Write + Send) -> Result<(), NodeError> {
    std::thread::scope(|scope| {
        let talk = Talk::begin(scope, input, output)?;
        let end = obey(&talk);
        if let Err(why) = &end {
            // If the controller is gone, the caller still gets the error.
            let _ = talk.say(NodeReport::Failed { why: why.to_string() });
        }
        end
    })
}

fn obey(talk: &Talk) -> Result<(), NodeError> {
    os::take_descriptors();
    talk.say(NodeReport::Hello {
        version: VERSION,
        program: env!("CARGO_PKG_VERSION").into(),
        host: os::host_name(),
        pid: std::process::id(),
    })?;
    let Some(prepare) = expect(talk, "`prepare`", |order| match order {
        Order::Prepare(prepare) => Ok(prepare),
        other => Err(other),
    })?
    else {
        return Ok(());
    };
    check::prepare(&prepare)?;
    let node = Node::open(prepare)?;
    let (now_ns, bound_ns) = node.time().now_and_bound()?;
    talk.say(NodeReport::Ready { now_ns, bound_ns })?;
    let Some(start) = expect(talk, "`start`", |order| match order {
        Order::Start(start) => Ok(start),
        other => Err(other),
    })?
    else {
        return Ok(());
    };
    node.run(&start, talk)
}

/// The next order, which must be this one; none if the controller ends the run first.
fn expect<T>(
    talk: &Talk,
    name: &'static str,
    this: impl FnOnce(Order) -> Result<T, Order>,
) -> Result<Option<T>, NodeError> {
    match talk.wait()?.map(this) {
        Some(Ok(order)) => Ok(Some(order)),
        None | Some(Err(Order::Stop)) => Ok(None),
        Some(Err(other)) => Err(unexpected(&other, name)),
    }
}

enum Node {
    Producer(Producer),
    Consumer(Consumer),
}

impl Node {
    fn open(prepare: Prepare) -> Result<Self, NodeError> {
        Ok(match prepare.role {
            NodeRole::Producer => Self::Producer(Producer::open(prepare)?),
            NodeRole::Consumer => Self::Consumer(Consumer::open(prepare)?),
        })
    }

    fn time(&self) -> &Timepiece {
        match self {
            Self::Producer(producer) => producer.time(),
            Self::Consumer(consumer) => consumer.time(),
        }
    }

    fn run(self, start: &Start, talk: &Talk) -> Result<(), NodeError> {
        match self {
            Self::Producer(producer) => producer.run(start, talk),
            Self::Consumer(consumer) => consumer.run(start, talk),
        }
    }
}

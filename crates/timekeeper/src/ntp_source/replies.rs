//! What a reply becomes: a measurement, or a reason why it is not used.

use super::{NtpSource, reference};
use crate::source::Measurement;
use crate::stamp_choice::Stamps;
use tickclock::{Count, Nanos};
use tickwire_clock::ensemble::leap::Announcement;
use tickwire_clock::{Exchange, ServerState};
use tickwire_ntp::nts::Unproven;
use tickwire_ntp::socket::ReceivedReply;
use tickwire_ntp::{AcceptedReply, CompletedExchange, Kiss, LeapIndicator, Rejection, Reply, ServerVariables};
use tickwire_stamping::Quality;
use tickwire_stamping::hardware::Lack;
use tracing::warn;

/// Why a reply of a server that gets its time from this host is not used.
const LOOP: &str = "the server follows this host (loop)";

/// The kind of an exchange's timestamps; or why it is dropped, because other exchanges have the
/// card's.
type StampKind = Result<Quality, Lack>;

/// The previous exchange, which a reply in interleaved mode completes.
#[derive(Clone, Copy, Debug)]
pub(super) struct PreviousExchange {
    /// When its request left.
    sent: Count,
    stamps: StampKind,
}

impl NtpSource {
    /// Processes received packets: what was measured, and why the others are not used. `near` is
    /// the approximate time.
    pub(super) fn process_replies(&mut self, now: i64, near: Nanos) -> Vec<Result<Measurement, String>> {
        let Some(socket) = self.resolver.socket_mut() else { return Vec::new() };
        let client = &self.client;
        let (mut replies, mut outcomes) = (Vec::new(), Vec::new());
        socket.receive(
            |packet| client.answers_pending(packet),
            |reply| replies.push(reply),
            |malformed| {
                let why = malformed.map_or(Rejection::Unasked, Rejection::Malformed);
                outcomes.push(Err(why.to_string()));
            },
        );
        let own = socket.local().map(|local| reference(local.ip()));
        for reply in replies {
            let outcome = match reply {
                Ok(reply) => self.process_reply(&reply, own, now, near).transpose(),
                Err(lost) => Some(Err(lost.to_string())),
            };
            outcomes.extend(outcome);
        }
        outcomes
    }

    /// Processes one reply: authenticates it, chooses its timestamps, and passes it to the
    /// association. `own` is this host's reference ID toward the server.
    fn process_reply(
        &mut self,
        received: &ReceivedReply,
        own: Option<u32>,
        now: i64,
        near: Nanos,
    ) -> Result<Option<Measurement>, String> {
        if let Err(unproven) = self.resolver.prove(&received.bytes) {
            if unproven == Unproven::Nak && self.log_limit.take(now) {
                warn!(server = self.name, "{unproven}");
            }
            return Err(unproven.to_string());
        }
        self.unanswered = 0;
        let ([sent, arrived], stamps) = self.choose_stamps(received);
        let reply = Reply { bytes: &received.bytes, sent, received: arrived, now, near };
        match self.client.answer(reply) {
            Ok(accepted) => self.completed(&accepted, PreviousExchange { sent, stamps }, own),
            Err(rejection) => {
                if let Rejection::Kiss(kiss) = rejection {
                    self.denied = self.client.denied_until().map(|_| now);
                    self.log_kiss(kiss, now);
                }
                Err(rejection.to_string())
            }
        }
    }

    /// The timestamps of both ends by which an exchange is used, and their kind.
    fn choose_stamps(&mut self, received: &ReceivedReply) -> ([Count; 2], StampKind) {
        let card = received.hardware.map(|card| card.inspect_err(|&lack| self.tally.lacks(lack)));
        let other = [received.sent, received.received];
        match (self.stamp_choice.take(card.map(|card| card.is_ok())), card) {
            (Stamps::Card, Some(Ok(ends))) => (ends, Ok(Quality::Hardware)),
            (Stamps::Neither, Some(Err(lack))) => (other, Err(lack)),
            _ => (other, Ok(received.quality)),
        }
    }

    /// The measurement that an accepted reply completes, if it completes one. `this` is the
    /// exchange whose request it answers.
    fn completed(
        &mut self,
        accepted: &AcceptedReply,
        this: PreviousExchange,
        own: Option<u32>,
    ) -> Result<Option<Measurement>, String> {
        let previous = self.previous_exchange.replace(this);
        let Some(exchange) = accepted.exchange else { return Ok(None) };
        self.tally.interleaved = Some(accepted.interleaved);
        // In interleaved mode this reply completes the previous exchange.
        let previous = previous.filter(|previous| previous.sent == exchange.sent && exchange.sent != this.sent);
        let quality = previous.unwrap_or(this).stamps.map_err(|lack| lack.to_string())?;
        if follows(&exchange.server, own) {
            return Err(LOOP.into());
        }
        let announced = match accepted.leap {
            LeapIndicator::Insert => Announcement::Insert,
            LeapIndicator::Delete => Announcement::Delete,
            LeapIndicator::None | LeapIndicator::Unknown => Announcement::None,
        };
        Ok(Some(Measurement { exchange: measured(&exchange, quality), announced, quality }))
    }

    /// Logs a kiss, and for how long it is obeyed.
    fn log_kiss(&mut self, kiss: Kiss, now: i64) {
        if !self.log_limit.take(now) {
            return;
        }
        let hours = |until: i64| ((until - now) as f64 / 3.6e12 * 10.0).round() / 10.0;
        let poll_s = self.client.interval() as f64 * 1e-9;
        match (self.client.denied_until(), self.client.slowed_until()) {
            (Some(until), _) => {
                warn!(server = self.name, hours = hours(until), "{kiss}: it is left alone for so long");
            }
            (None, Some(until)) if kiss == Kiss::Rate => {
                let hours = hours(until);
                warn!(server = self.name, poll_s, hours, "{kiss}: less often for so long at least");
            }
            (None, _) => warn!(server = self.name, "{kiss}"),
        }
    }
}

/// Whether a server's reference ID is this host's address toward it: then it returns our own time
/// (RFC 5905 §7.3). At stratum 1 the reference ID is a name.
fn follows(server: &ServerVariables, own: Option<u32>) -> bool {
    server.stratum > 1 && own == Some(server.reference_id)
}

/// An exchange as the estimator's input.
const fn measured(exchange: &CompletedExchange, quality: Quality) -> Exchange {
    let ServerVariables { synchronised, stratum, reference_id, root_delay, root_dispersion } = exchange.server;
    Exchange {
        sent: exchange.sent,
        server_received: exchange.server_received,
        server_sent: exchange.server_sent,
        received: exchange.received,
        server: ServerState { synchronised, stratum, reference: reference_id, root_delay, root_dispersion },
        stamp_error: quality.stamp_error(),
    }
}

//! Windows' own firewall, asked on a thread of its own. Its rules about packets that leave are
//! read.
//!
//! | the firewall | answer |
//! |---|---|
//! | its service is switched off, or not installed | allowed: nothing filters packets then |
//! | it answers | that |
//! | its service is to run, and does not (yet) | an error: the caller refuses |
//! | it fails, or does not answer within [`TIMEOUT`] | the same |

use crate::firewall::{Firewall, FirewallError, InboundPort, InboundVerdict};
use crate::outbound_rules::OutboundRules;
use crate::port_owner::PortProtocol;
use crate::sys;
use std::io;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// For so long an answer is awaited: less than programs wait for the service.
const TIMEOUT: Duration = Duration::from_secs(3);

/// For so long the rules about packets that leave are not read again.
const READ_AGAIN: Duration = Duration::from_secs(3);

/// For so long it is not asked again whether the firewall is at work, which is a question for
/// Windows' service manager.
const AT_WORK_AGAIN: Duration = Duration::from_secs(1);

/// At most so many questions wait.
const MOST_QUESTIONS: usize = 32;

type Answer = Result<InboundVerdict, FirewallError>;

/// A question, and where its answer goes.
struct Question {
    port: InboundPort,
    answer: SyncSender<Answer>,
}

/// What was found out, and when it was asked for.
#[derive(Debug)]
struct Remembered<T> {
    lasts: Duration,
    known: Mutex<Option<(Instant, T)>>,
}

impl<T> Remembered<T> {
    const fn new(lasts: Duration) -> Self {
        Self { lasts, known: Mutex::new(None) }
    }

    /// Looks at it. It is found out (anew) if it was asked for too long ago.
    ///
    /// # Errors
    /// If it cannot be found out. That is not remembered.
    fn look<R>(
        &self,
        find_out: impl FnOnce() -> Result<T, FirewallError>,
        look: impl FnOnce(&T) -> R,
    ) -> Result<R, FirewallError> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let (asked, value) = match known.take() {
            Some((asked, value)) if asked.elapsed() < self.lasts => (asked, value),
            _ => (Instant::now(), find_out()?),
        };
        let seen = look(&value);
        *known = Some((asked, value));
        Ok(seen)
    }
}

/// Whether the firewall is at work.
type AtWork = Remembered<bool>;

impl AtWork {
    /// Whether it is, as of [`AT_WORK_AGAIN`] ago at most.
    ///
    /// # Errors
    /// As [`sys::runs_firewall`].
    fn get(&self) -> Result<bool, FirewallError> {
        self.look(sys::runs_firewall, |is_at_work| *is_at_work)
    }
}

/// The firewall of this Windows.
#[derive(Debug)]
pub struct WindowsFirewall {
    questions: SyncSender<Question>,
    at_work: Arc<AtWork>,
    /// When it has not answered in time.
    silent: Mutex<Option<Instant>>,
    /// The rules about packets that leave.
    outbound: Remembered<OutboundRules>,
}

impl WindowsFirewall {
    /// Starts the thread, which ends with the value.
    ///
    /// # Errors
    /// If there is no room for a thread.
    pub fn start() -> io::Result<Self> {
        let (questions, asked) = sync_channel(MOST_QUESTIONS);
        let firewall = Self::of(questions);
        let at_work = Arc::clone(&firewall.at_work);
        std::thread::Builder::new().name("firewall".into()).spawn(move || answer_all(&asked, &at_work))?;
        Ok(firewall)
    }
}

impl Firewall for WindowsFirewall {
    fn inbound(&self, port: &InboundPort) -> Answer {
        let mut silent = self.silent.lock().unwrap_or_else(PoisonError::into_inner);
        // Each of many questions need not wait as long as the first.
        if silent.is_some_and(|since| since.elapsed() < TIMEOUT) {
            return Err(FirewallError::Silent);
        }
        *silent = None;
        drop(silent);
        let answer = self.ask(port);
        if matches!(answer, Err(FirewallError::Silent)) {
            *self.silent.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        }
        answer
    }

    fn lets_out(
        &self,
        program: Option<&str>,
        protocol: PortProtocol,
        port: Option<u16>,
    ) -> Result<bool, FirewallError> {
        self.outbound.look(|| read_outbound(&self.at_work), |rules| rules.lets_out(program, protocol, port))
    }
}

impl WindowsFirewall {
    fn of(questions: SyncSender<Question>) -> Self {
        let (at_work, outbound) = (Remembered::new(AT_WORK_AGAIN), Remembered::new(READ_AGAIN));
        Self { questions, at_work: Arc::new(at_work), silent: Mutex::default(), outbound }
    }

    /// Asks, and waits for the answer.
    fn ask(&self, port: &InboundPort) -> Answer {
        let (answer, answered) = sync_channel(1);
        match self.questions.try_send(Question { port: port.clone(), answer }) {
            Ok(()) => answered.recv_timeout(TIMEOUT).unwrap_or(Err(FirewallError::Silent)),
            Err(TrySendError::Full(_)) => Err(FirewallError::Busy),
            Err(TrySendError::Disconnected(_)) => Err(FirewallError::Silent),
        }
    }
}

/// The rules about packets that leave; none if the firewall is switched off.
fn read_outbound(at_work: &AtWork) -> Result<OutboundRules, FirewallError> {
    if !at_work.get()? {
        return Ok(OutboundRules::default());
    }
    sys::outbound_rules().map_err(|error| FirewallError::Refused {
        what: "say the rules of its firewall",
        source: io::Error::other(error),
    })
}

fn answer_all(questions: &Receiver<Question>, at_work: &AtWork) {
    let mut manager = None;
    while let Ok(Question { port, answer }) = questions.recv() {
        // If nothing waits for it any more, so be it.
        let _ = answer.send(ask(&mut manager, at_work, &port));
    }
}

fn ask(manager: &mut Option<sys::FirewallManager>, at_work: &AtWork, port: &InboundPort) -> Answer {
    if !at_work.get()? {
        return Ok(InboundVerdict::Allowed);
    }
    let connected = match manager.take() {
        Some(connected) => connected,
        None => sys::FirewallManager::connect()?,
    };
    // After a failure the next question connects again.
    let answer = connected.inbound(port)?;
    *manager = Some(connected);
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tickwire_stack::addr::{Address, Endpoint};

    fn port(address: Address) -> InboundPort {
        let program = Some(r"C:\windows\system32\winver.exe".into());
        InboundPort { program, protocol: PortProtocol::Tcp, local: Endpoint::new(address, 7) }
    }

    #[test]
    fn without_the_firewalls_service_everything_comes_in() {
        assert!(!sys::runs_firewall().unwrap(), "Wine has no such service");
        let firewall = WindowsFirewall::start().unwrap();
        for address in [Address::ANY, Address::ANY_V4, Address::v4([10, 0, 0, 1])] {
            assert_eq!(firewall.inbound(&port(address)).unwrap(), InboundVerdict::Allowed);
        }
        for _ in 0..2 {
            assert!(firewall.lets_out(None, PortProtocol::Udp, None).unwrap());
        }
    }

    #[test]
    fn the_service_manager_is_not_asked_for_each_port() {
        let at_work = AtWork::new(AT_WORK_AGAIN);
        let ago = |ago| *at_work.known.lock().unwrap() = Some((Instant::now().checked_sub(ago).unwrap(), true));
        assert!(!at_work.get().unwrap(), "Wine has no such service");
        ago(Duration::ZERO);
        assert!(at_work.get().unwrap(), "as it was a moment ago");
        ago(AT_WORK_AGAIN);
        assert!(!at_work.get().unwrap(), "it is asked again");
    }

    #[test]
    fn a_firewall_that_does_not_answer_keeps_one_question_waiting() {
        let (questions, _never_answered) = sync_channel(MOST_QUESTIONS);
        let firewall = WindowsFirewall::of(questions);
        let begin = Instant::now();
        for _ in 0..10 {
            assert!(matches!(firewall.inbound(&port(Address::ANY)), Err(FirewallError::Silent)));
        }
        assert!((TIMEOUT..2 * TIMEOUT).contains(&begin.elapsed()), "{:?}", begin.elapsed());
    }

    /// Wine 8 has the method, and does nothing in it (`E_NOTIMPL`). Later it lets everything in.
    #[test]
    fn windows_manager_of_the_firewall_is_asked() {
        const NOT_IMPLEMENTED: i32 = 0x8000_4001_u32.cast_signed();
        let manager = sys::FirewallManager::connect().unwrap();
        for address in [Address::ANY, Address::ANY_V4, Address::v4([10, 0, 0, 1])] {
            match manager.inbound(&port(address)) {
                Ok(verdict) => assert_eq!(verdict, InboundVerdict::Allowed),
                Err(FirewallError::Refused { source, .. }) => assert_eq!(source.raw_os_error(), Some(NOT_IMPLEMENTED)),
                Err(other) => panic!("{other}"),
            }
        }
    }
}

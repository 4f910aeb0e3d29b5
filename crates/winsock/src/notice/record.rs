//! The rules by which network events are recorded (the documentation of `WSAEventSelect` and
//! `WSAAsyncSelect`). An event is recorded when it is the case, and then not again until a call of
//! the program enables it. So a program that asks for reading is told once, and again after it has
//! received, if something is left or comes.

use super::Condition;

/// `FD_READ`: a receiving call enables it.
pub(crate) const READ: u32 = 0x01;
/// `FD_WRITE`: a sending call that finds no room enables it.
pub(crate) const WRITE: u32 = 0x02;
/// `FD_OOB`: a call that receives urgent data enables it.
pub(crate) const URGENT: u32 = 0x04;
/// `FD_ACCEPT`: an accepting call enables it.
pub(crate) const ACCEPT: u32 = 0x08;
/// `FD_CONNECT`: an attempt to connect enables it.
pub(crate) const CONNECT: u32 = 0x10;
/// `FD_CLOSE`: is recorded once.
pub(crate) const CLOSE: u32 = 0x20;

/// How many there are with the others of Winsock (`FD_MAX_EVENTS`); an error for each.
pub(crate) const MOST: usize = 10;

/// The events in the order in which a window is told of them.
pub(crate) const ALL: [u32; 6] = [CONNECT, ACCEPT, WRITE, URGENT, READ, CLOSE];

/// The place of an event's error.
pub(crate) const fn place(event: u32) -> usize {
    event.trailing_zeros() as usize
}

/// The events that are the case.
pub(crate) fn present(condition: Condition, was_accepted: bool) -> u32 {
    let has_ended = condition.has(Condition::RESET)
        // The end waits until all has been read.
        || condition.has(Condition::END) && !condition.has(Condition::READ);
    let is_decided = condition.has(Condition::CONNECTED | Condition::REFUSED) && !was_accepted;
    let table = [
        (condition.has(Condition::READ), READ),
        (condition.has(Condition::WRITE), WRITE),
        (condition.has(Condition::URGENT), URGENT),
        (condition.has(Condition::ACCEPT), ACCEPT),
        (is_decided, CONNECT),
        (has_ended, CLOSE),
    ];
    table.iter().filter(|(is_so, _)| *is_so).fold(0, |events, (_, event)| events | event)
}

/// The record of a socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Record {
    /// What the program asks for.
    wanted: u32,
    /// What it has not been told yet.
    recorded: u32,
    /// What has been recorded, and is not recorded again until it is enabled.
    disabled: u32,
    errors: [i32; MOST],
    /// It was told that its attempt to connect has failed.
    has_told_failure: bool,
}

impl Record {
    /// The program asks for these events from now on; what was recorded is forgotten. What is the
    /// case is recorded again, but a failed attempt to connect once.
    pub(crate) fn ask(&mut self, wanted: u32) {
        let disabled = if self.has_told_failure { CONNECT } else { 0 };
        *self = Self { wanted, disabled, has_told_failure: self.has_told_failure, ..Self::default() };
    }

    /// What the program asks for.
    pub(crate) fn wanted(&self) -> u32 {
        self.wanted
    }

    /// A call of the program enables events.
    pub(crate) fn enable(&mut self, events: u32) {
        self.disabled &= !events;
    }

    /// The program connects: what was told of an earlier connection is told of this one, too.
    pub(crate) fn connects(&mut self) {
        self.enable(CONNECT | WRITE | CLOSE);
        self.has_told_failure = false;
    }

    /// These events are the case. Returns those that are recorded now. `error` is asked for the
    /// error of each.
    pub(crate) fn see(&mut self, present: u32, mut error: impl FnMut(u32) -> i32) -> u32 {
        let new = present & self.wanted & !self.disabled;
        for event in ALL.into_iter().filter(|event| new & event != 0) {
            let code = error(event);
            self.errors[place(event)] = code;
            self.has_told_failure |= event == CONNECT && code != 0;
        }
        self.disabled |= new;
        self.recorded |= new;
        new
    }

    /// The errors of what is recorded.
    pub(crate) fn errors(&self) -> &[i32; MOST] {
        &self.errors
    }

    /// What is recorded, with the errors; it is forgotten.
    pub(crate) fn take(&mut self) -> (u32, [i32; MOST]) {
        (std::mem::take(&mut self.recorded), std::mem::take(&mut self.errors))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What happens to a record.
    #[derive(Clone, Copy, Debug)]
    enum Step {
        Ask(u32),
        Enable(u32),
        Connects,
        /// What is the case, and what is recorded then.
        See(u32, u32),
        /// What the program is told.
        Take(u32),
    }
    use Step::{Ask, Connects, Enable, See, Take};

    #[test]
    fn events_are_recorded_by_the_documented_rules() {
        let up = CONNECT | WRITE;
        let every = READ | WRITE | URGENT | ACCEPT | CONNECT | CLOSE;
        let table: &[(&str, &[Step])] = &[
            ("what is the case when it is asked for", &[See(READ, 0), Ask(READ), See(READ, READ), Take(READ)]),
            ("only what is asked for", &[Ask(READ | CLOSE), See(up, 0), Take(0), Ask(every), See(up, up), Take(up)]),
            (
                "once, until it is enabled",
                &[
                    Ask(READ),
                    See(READ, READ),
                    See(READ, 0),
                    Take(READ),
                    See(READ, 0),
                    Take(0),
                    Enable(READ),
                    See(READ, READ),
                    Take(READ),
                ],
            ),
            (
                "a call that takes all enables for what comes",
                &[
                    Ask(READ),
                    See(READ, READ),
                    Take(READ),
                    Enable(READ),
                    See(0, 0),
                    Take(0),
                    See(READ, READ),
                    Take(READ),
                ],
            ),
            (
                "a call enables also while the program has not been told",
                &[Ask(READ), See(READ, READ), Enable(READ), See(READ, READ), Take(READ), See(READ, 0)],
            ),
            (
                "connecting, then sending until there is no room",
                &[
                    Ask(every),
                    See(0, 0),
                    Connects,
                    See(0, 0),
                    See(up, up),
                    Take(up),
                    See(up, 0),
                    // No room, and then room again.
                    Enable(WRITE),
                    See(CONNECT, 0),
                    See(up, WRITE),
                    Take(WRITE),
                    See(up, 0),
                ],
            ),
            (
                "the end once, after the data",
                &[
                    Ask(READ | CLOSE),
                    See(READ, READ),
                    Take(READ),
                    Enable(READ),
                    See(READ, READ),
                    Take(READ),
                    Enable(READ),
                    See(CLOSE, CLOSE),
                    Take(CLOSE),
                    Enable(READ),
                    See(CLOSE, 0),
                    Take(0),
                ],
            ),
            (
                "asking anew tells what is the case anew",
                &[Ask(every), See(up, up), Take(up), Ask(every), See(up | CLOSE, up | CLOSE), Take(up | CLOSE)],
            ),
            ("asking anew forgets", &[Ask(every), See(up, up), Ask(READ), Take(0), See(up, 0), Take(0)]),
            ("no event is wanted", &[Ask(every), See(READ, READ), Ask(0), See(every, 0), Take(0)]),
            (
                "another connection",
                &[
                    Ask(every),
                    Connects,
                    See(up, up),
                    Take(up),
                    See(up | CLOSE, CLOSE),
                    Take(CLOSE),
                    Connects,
                    See(0, 0),
                    See(up, up),
                    See(up | CLOSE, CLOSE),
                    Take(up | CLOSE),
                ],
            ),
            (
                "accepting",
                &[
                    Ask(ACCEPT),
                    See(ACCEPT, ACCEPT),
                    Take(ACCEPT),
                    See(ACCEPT, 0),
                    Enable(ACCEPT),
                    See(ACCEPT, ACCEPT),
                    Take(ACCEPT),
                    Enable(ACCEPT),
                    See(0, 0),
                ],
            ),
        ];
        for (name, steps) in table {
            let mut record = Record::default();
            for (number, step) in steps.iter().enumerate() {
                let at = format!("{name}: step {number}, {step:?}");
                match *step {
                    Ask(wanted) => record.ask(wanted),
                    Enable(events) => record.enable(events),
                    Connects => record.connects(),
                    See(present, recorded) => assert_eq!(record.see(present, |_| 0), recorded, "{at}"),
                    Take(told) => assert_eq!(record.take(), (told, [0; MOST]), "{at}"),
                }
            }
        }
    }

    #[test]
    fn errors_are_told_with_their_events_and_a_failure_once() {
        let mut record = Record::default();
        record.ask(CONNECT | CLOSE);
        let refused = |event: u32| if event == CONNECT { 10061 } else { 0 };
        assert_eq!(record.see(CONNECT, refused), CONNECT);
        let (events, errors) = record.take();
        assert_eq!((events, errors[4]), (CONNECT, 10061));
        assert_eq!(errors.iter().filter(|error| **error != 0).count(), 1);
        assert_eq!(record.take(), (0, [0; MOST]));
        record.ask(CONNECT);
        assert_eq!(record.see(CONNECT, refused), 0);
        record.connects();
        assert_eq!(record.see(CONNECT, |_| 0), CONNECT);
        assert_eq!(record.take(), (CONNECT, [0; MOST]));
    }

    #[test]
    fn the_end_waits_for_the_data_and_a_reset_does_not() {
        let up = Condition::CONNECTED | Condition::WRITE;
        for (condition, was_accepted, events) in [
            (Condition::NONE, false, 0),
            (up, false, CONNECT | WRITE),
            (up, true, WRITE),
            (up | Condition::READ, true, WRITE | READ),
            (up | Condition::READ | Condition::END, true, WRITE | READ),
            (up | Condition::END, true, WRITE | CLOSE),
            (up | Condition::RESET, true, WRITE | CLOSE),
            (up | Condition::URGENT, true, WRITE | URGENT),
            (Condition::REFUSED, false, CONNECT),
            (Condition::ACCEPT, false, ACCEPT),
        ] {
            assert_eq!(present(condition, was_accepted), events, "{condition:?}");
        }
    }
}

//! The offered window, from full to zero and back (RFC 9293 §3.8.6): never more than the buffer
//! holds, never less than was promised.

mod tcp_support;

use tcp_support::raw::*;
use tcp_support::*;
use tickwire_stack::tcp::TcpSetting;
use tickwire_stack::time::Span;
use tickwire_stack::{StackError, TcpId};

/// A peer that sends as much as the window allows.
struct Sender {
    wire: Wire,
    id: TcpId,
    ours: u32,
    first: u32,
    next: u32,
    window: u32,
}

impl Sender {
    fn new() -> Self {
        let mut wire = Wire::new();
        let (id, ours, theirs) = wire.accepted();
        Self { wire, id, ours, first: theirs, next: theirs, window: 60_000 }
    }

    /// Sends a segment of at most `len` bytes, and reads the window from the answer.
    fn put(&mut self, len: usize) {
        let len = len.min(self.window as usize);
        let data = pattern(len, self.next as u8);
        self.wire.put(Seg::new(ACK | PSH, self.next, self.ours).data(&data));
        self.next = self.next.wrapping_add(len as u32);
        self.wire.pass(Span::from_millis(10));
        let answer = self.wire.one();
        assert_eq!(answer.ack, self.next, "all of it was in the window");
        self.window = answer.window.into();
    }

    /// Sends until the window is closed, and returns the number of bytes.
    fn fill(&mut self, len: usize) -> u32 {
        for _ in 0..20_000 {
            if self.window == 0 {
                return self.next.wrapping_sub(self.first);
            }
            self.put(len);
        }
        panic!("the window is {} after {} bytes", self.window, self.next.wrapping_sub(self.first));
    }

    fn read(&mut self, most: usize) -> Vec<u8> {
        let (mut buffer, now) = (vec![0; most], self.wire.now);
        let flags = tickwire_stack::tcp::RecvFlags::default();
        let n = self.wire.stack().tcp_recv(self.id, now, flags, &mut &mut buffer[..]).unwrap();
        buffer.truncate(n);
        buffer
    }

    /// Sends a probe, and returns the window.
    fn probe(&mut self) -> u32 {
        self.wire.pass(Span::from_secs(1));
        self.wire.put(Seg::new(ACK, self.next.wrapping_sub(1), self.ours));
        let answer = self.wire.one();
        assert_eq!(answer.ack, self.next);
        answer.window.into()
    }
}

/// RFC 9293 §3.8.6.2.2: a window that is never read from closes, whatever the segment size. It
/// closes when the buffer is about full, or holds its limit of segments (each takes a frame, unless
/// it is short). Data beyond it is dropped. It does not open by less than a segment; then the peer
/// gets an unsolicited window update, never for more than there is room for.
#[test]
fn a_program_that_does_not_read_shuts_the_window_and_reading_opens_it() {
    for len in [50, 512, 1000] {
        let mut sender = Sender::new();
        sender.put(len);
        assert_eq!(sender.read(len).len(), len);
        let now = sender.wire.now;
        let buffer = sender.wire.stack().tcp_options(sender.id).unwrap().receive_buffer;
        let filled = sender.fill(len) - len as u32;
        let least = if len == 512 { buffer / 2 } else { buffer - 1000 };
        assert!((least..=buffer).contains(&filled), "{filled} of {buffer} with {len}");
        let info = sender.wire.stack().tcp_info(sender.id, now).unwrap();
        assert_eq!((info.unread, info.receive_window), (filled, 0));
        sender.wire.put(Seg::new(ACK, sender.next, sender.ours).data(b"!"));
        let answer = sender.wire.one();
        assert_eq!((answer.ack, answer.window), (sender.next, 0), "beyond the window");
        let free = (buffer - filled) as usize;
        if free < 999 {
            sender.read(999 - free);
        }
        sender.wire.nothing();
        assert_eq!(sender.probe(), 0, "less than a segment is not worth telling");
        let (told, unread) = loop {
            assert!(sender.read(200).len() == 200, "it is never told");
            if let [told] = &sender.wire.taken()[..] {
                let unread = sender.wire.stack().tcp_info(sender.id, now).unwrap().unread;
                break (told.clone(), unread);
            }
        };
        assert_eq!((told.bits, told.ack), (ACK, sender.next));
        assert!(told.window >= 1000 && u32::from(told.window) + unread <= buffer, "{} beside {unread}", told.window);
        assert!(len == 512 || unread > filled - filled / 20, "{unread} of {filled} are left");
        sender.window = told.window.into();
        sender.put(len);
    }
}

/// RFC 9293 §3.8.6: a program that reads at once never closes the window, and the bytes arrive as
/// they were sent.
#[test]
fn a_program_that_reads_keeps_the_window_open() {
    for len in [64, 512, 1000] {
        let mut sender = Sender::new();
        for _ in 0..3 * 65_536 / len {
            let salt = sender.next as u8;
            sender.put(len);
            assert!(sender.window > 30_000, "{}", sender.window);
            assert_eq!(sender.read(len), pattern(len, salt));
            sender.wire.taken();
        }
    }
}

/// RFC 9293 §3.8.6 (SHLD-14) and RFC 7323 §2.4: a smaller `SO_RCVBUF` does not shrink the window
/// already offered. Data within it is accepted, none beyond it, and from then on the smaller buffer
/// applies. (Linux drops promised data in such a case.)
#[test]
fn a_smaller_buffer_takes_what_was_promised_and_no_more() {
    let mut sender = Sender::new();
    sender.put(1000);
    sender.read(1000);
    sender.wire.taken();
    let now = sender.wire.now;
    let promised = sender.wire.stack().tcp_info(sender.id, now).unwrap().receive_window;
    assert!(promised > 50_000, "{promised}");
    sender.wire.stack().tcp_set(sender.id, now, TcpSetting::ReceiveBuffer(4096)).unwrap();
    sender.window = promised;
    let before = sender.next;
    assert_eq!(sender.fill(1000) - 1000, promised, "to the edge, and not beyond it");
    sender.wire.put(Seg::new(ACK, sender.next, sender.ours).data(b"!"));
    assert_eq!(sender.wire.one().ack, sender.next);
    let mut got = 0;
    while got < promised as usize {
        got += sender.read(1 << 20).len();
    }
    assert_eq!(sender.wire.recv(sender.id), Err(StackError::WouldBlock));
    assert_eq!(sender.next.wrapping_sub(before), promised);
    sender.wire.taken();
    let window = sender.probe();
    assert!((1000..=4096).contains(&window), "{window}");
}

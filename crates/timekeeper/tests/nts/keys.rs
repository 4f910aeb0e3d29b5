//! A server for keys (NTS-KE), which gives them to its clients or does something else.

use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tickwire_ntp::nts::records::{EXPORTER, TO_CLIENT, TO_SERVER};
use tickwire_ntp::nts::{COOKIES, KEY, Key};

pub(crate) type Tls = StreamOwned<ServerConnection, TcpStream>;

/// The keys that were given; a cookie identifies them by its first byte.
#[derive(Default)]
pub(crate) struct Given {
    keys: Mutex<Vec<Option<(Key, Key)>>>,
    cookies: AtomicUsize,
}

impl Given {
    /// The keys for the client's messages, and for those to the client.
    pub(crate) fn find(&self, cookie: &[u8]) -> Option<(Key, Key)> {
        self.keys.lock().unwrap().get(usize::from(cookie[0])).cloned().flatten()
    }

    /// Loses all keys.
    pub(crate) fn lose(&self) {
        self.keys.lock().unwrap().iter_mut().for_each(|keys| *keys = None);
    }

    pub(crate) fn count(&self) -> usize {
        self.keys.lock().unwrap().len()
    }

    /// Another cookie for the keys that this one stands for; no two are alike.
    pub(crate) fn cookie(&self, like: u8) -> Vec<u8> {
        let number = self.cookies.fetch_add(1, Ordering::Relaxed) as u64;
        let mut cookie = vec![like; 100];
        cookie[4..12].copy_from_slice(&number.to_be_bytes());
        cookie
    }
}

pub(crate) fn record(kind: u16, body: &[u8]) -> Vec<u8> {
    [&kind.to_be_bytes()[..], &(body.len() as u16).to_be_bytes(), body].concat()
}

/// Protocol and algorithm, as the client wants them.
pub(crate) fn agreed() -> Vec<u8> {
    [record(0x8001, &[0, 0]), record(4, &[0, 15])].concat()
}

pub(crate) fn end() -> Vec<u8> {
    record(0x8000, &[])
}

/// Waits for the request within TLS.
pub(crate) fn asked(tls: &mut Tls) -> bool {
    let mut request = [0; 16];
    tls.read_exact(&mut request).is_ok() && request[..4] == [0x80, 1, 0, 2]
}

/// Gives keys, with the time server's port and as many cookies as a client keeps.
pub(crate) fn give(tls: &mut Tls, given: &Given, port: u16) {
    if !asked(tls) {
        return;
    }
    let key = |context| Key::new(tls.conn.export_keying_material([0; KEY], EXPORTER, Some(context)).unwrap());
    let keys = (key(&TO_SERVER), key(&TO_CLIENT));
    let number = {
        let mut all = given.keys.lock().unwrap();
        all.push(Some(keys));
        (all.len() - 1) as u8
    };
    let mut answer = agreed();
    for _ in 0..COOKIES {
        answer.extend(record(5, &given.cookie(number)));
    }
    answer.extend(record(7, &port.to_be_bytes()));
    answer.extend(end());
    let _ = tls.write_all(&answer);
    tls.conn.send_close_notify();
    let _ = tls.flush();
}

/// Accepts all clients until `end` is set, each in a thread of its own.
pub(crate) fn serve(listener: &TcpListener, end: &AtomicBool, talk: impl Fn(TcpStream) + Send + Sync) {
    listener.set_nonblocking(true).unwrap();
    std::thread::scope(|scope| {
        while !end.load(Ordering::Relaxed) {
            match listener.accept() {
                Ok((stream, _)) => {
                    stream.set_nonblocking(false).unwrap();
                    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
                    let talk = &talk;
                    scope.spawn(move || talk(stream));
                }
                Err(_) => std::thread::sleep(Duration::from_millis(5)),
            }
        }
    });
}

pub(crate) fn tls(stream: TcpStream, config: &Arc<ServerConfig>) -> Tls {
    StreamOwned::new(ServerConnection::new(config.clone()).unwrap(), stream)
}

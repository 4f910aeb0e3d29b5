//! The ends on Linux of `lab_programs/stress.c`, whose comment describes the protocol.

use anyhow::{Context, Result, ensure};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

/// Within this there is progress.
const TIMEOUT: Duration = Duration::from_secs(60);

const CHUNK: usize = 1 << 16;

/// Bytes of a message, and of a connection among many at once.
const MESSAGE: usize = 100;
const EXCHANGE: usize = 16 * 16_384;

/// The bytes of a stream, and the hash of what has come of one.
#[derive(Clone, Debug)]
struct Stream {
    state: u64,
    hash: u64,
    length: u64,
}

impl Stream {
    const fn new() -> Self {
        Self { state: 0x9e37_79b9_7f4a_7c15, hash: 0xcbf2_9ce4_8422_2325, length: 0 }
    }

    fn hash(&mut self, bytes: &[u8]) {
        let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        self.hash = bytes.iter().fold(self.hash, step);
        self.length += bytes.len() as u64;
    }

    /// The next bytes, which are hashed: as many as there is room for. All words but the last are
    /// whole.
    fn generate(&mut self, bytes: &mut [u8]) {
        for word in bytes.chunks_mut(8) {
            self.state ^= self.state << 13;
            self.state ^= self.state >> 7;
            self.state ^= self.state << 17;
            word.copy_from_slice(&self.state.to_le_bytes()[..word.len()]);
        }
        self.hash(bytes);
    }

    fn send(&mut self, to: &mut TcpStream, length: u64) -> Result<()> {
        let mut bytes = vec![0; CHUNK];
        while self.length < length {
            let count = CHUNK.min((length - self.length) as usize);
            self.generate(&mut bytes[..count]);
            to.write_all(&bytes[..count]).with_context(|| format!("after {} bytes", self.length))?;
        }
        Ok(())
    }

    fn receive(&mut self, from: &mut TcpStream, length: u64) -> Result<()> {
        let mut bytes = vec![0; CHUNK];
        while self.length < length {
            let count = from.read(&mut bytes).with_context(|| format!("after {} bytes", self.length))?;
            ensure!(count > 0, "the stream ends after {} bytes", self.length);
            self.hash(&bytes[..count]);
        }
        Ok(())
    }
}

/// Connects to a program for something.
pub(super) fn connect(address: &str, port: u16, kind: u8, length: u64) -> Result<TcpStream> {
    let mut stream = TcpStream::connect((address, port)).context("cannot connect")?;
    prepare(&stream)?;
    stream.write_all(&[kind])?;
    stream.write_all(&length.to_le_bytes())?;
    Ok(stream)
}

fn prepare(stream: &TcpStream) -> Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    Ok(stream.set_write_timeout(Some(TIMEOUT))?)
}

/// Sends so many bytes to a program, which then says the same hash.
pub(super) fn upload(address: &str, port: u16, length: u64) -> Result<()> {
    let mut peer = connect(address, port, b's', length)?;
    let mut stream = Stream::new();
    stream.send(&mut peer, length)?;
    let mut hash = [0; 8];
    peer.read_exact(&mut hash).context("no hash")?;
    ensure!(u64::from_le_bytes(hash) == stream.hash, "the program has another stream");
    Ok(())
}

/// Receives so many bytes from a program, which are those of the generator.
pub(super) fn download(address: &str, port: u16, length: u64) -> Result<()> {
    let mut peer = connect(address, port, b'g', length)?;
    let mut received = Stream::new();
    received.receive(&mut peer, length)?;
    drop(peer);
    let mut expected = Stream::new();
    let mut bytes = vec![0; CHUNK];
    while expected.length < length {
        let count = CHUNK.min((length - expected.length) as usize);
        expected.generate(&mut bytes[..count]);
    }
    ensure!(received.hash == expected.hash && received.length == length, "another stream came");
    Ok(())
}

/// A connection with one message.
pub(super) fn message(address: &str, port: u16, byte: u8) -> Result<()> {
    exchange(&mut connect(address, port, b'e', MESSAGE as u64)?, &[byte; MESSAGE])
}

/// So many connections at once, with data on each.
pub(super) fn at_once(address: &str, port: u16, count: usize) -> Result<()> {
    let open = |_| connect(address, port, b'e', EXCHANGE as u64);
    let all = (0..count).map(open).collect::<Result<Vec<_>>>()?;
    let busy = |(number, mut stream): (usize, TcpStream)| {
        // (Closed when all of it is there.)
        thread::spawn(move || {
            let bytes = vec![number as u8; EXCHANGE / 16];
            (0..16).try_for_each(|_| exchange(&mut stream, &bytes))
        })
    };
    let threads: Vec<_> = all.into_iter().enumerate().map(busy).collect();
    threads.into_iter().try_for_each(|thread| thread.join().unwrap_or_else(|_| anyhow::bail!("a thread panicked")))
}

/// Some bytes, and their echo.
pub(super) fn exchange(stream: &mut TcpStream, bytes: &[u8]) -> Result<()> {
    stream.write_all(bytes)?;
    let mut answer = vec![0; bytes.len()];
    stream.read_exact(&mut answer)?;
    ensure!(answer == bytes, "another answer");
    Ok(())
}

/// Serves programs at an address, until this process ends.
pub(super) fn serve(address: &str, port: u16) -> Result<()> {
    let listener = TcpListener::bind((address, port)).context("cannot listen")?;
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // What is wrong is the program's to say.
            thread::spawn(move || serve_one(stream));
        }
    });
    Ok(())
}

fn serve_one(mut stream: TcpStream) -> Result<()> {
    prepare(&stream)?;
    let (mut kind, mut length) = ([0], [0; 8]);
    stream.read_exact(&mut kind)?;
    stream.read_exact(&mut length)?;
    let length = u64::from_le_bytes(length);
    match kind[0] {
        b'e' => std::io::copy(&mut (&stream).take(length), &mut &stream).map(drop)?,
        b's' => {
            let mut received = Stream::new();
            received.receive(&mut stream, length)?;
            stream.write_all(&received.hash.to_le_bytes())?;
        }
        b'g' => Stream::new().send(&mut stream, length)?,
        _ => (),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_have_the_same_streams() {
        // (A port that is free now, and that no other test takes by number.)
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        serve("127.0.0.1", port).unwrap();
        for length in [0, 1, 8, 100_003] {
            upload("127.0.0.1", port, length).unwrap();
            download("127.0.0.1", port, length).unwrap();
        }
        message("127.0.0.1", port, 7).unwrap();
        at_once("127.0.0.1", port, 3).unwrap();
        let mut short = connect("127.0.0.1", port, b'g', 5).unwrap();
        assert!(Stream::new().receive(&mut short, 6).unwrap_err().to_string().contains("ends after 5"));
    }
}

//! A small program with plain sockets, for the lab tests: it knows nothing of Tickwire.
//!
//! `sockets ROLE ADDRESS [COUNT]`: servers end after COUNT connections; the client prints `ok` when
//! every echo was right.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let role = arguments[1].as_str();
    if role == "serve-descriptor" {
        // SAFETY: the program that executed this one left a connection at this number.
        return echo(unsafe { TcpStream::from_raw_fd(arguments[2].parse().unwrap()) }, "exec");
    }
    let address: SocketAddr = arguments[2].parse().unwrap();
    let count: usize = arguments.get(3).map_or(1, |n| n.parse().unwrap());
    match role {
        "udp-server" => udp_server(address, count),
        "udp-client" => udp_client(address, count),
        "fork-server" => fork_server(address, count, false),
        "exec-server" => fork_server(address, count, true),
        "prefork-server" => prefork_server(address, count),
        "client" => client(address, count),
        other => panic!("no such role: {other}"),
    }
}

fn udp_server(address: SocketAddr, count: usize) {
    let socket = UdpSocket::bind(address).unwrap();
    println!("ready");
    let mut data = [0; 65_536];
    for _ in 0..count {
        let (n, from) = socket.recv_from(&mut data).unwrap();
        socket.send_to(&data[..n], from).unwrap();
    }
}

fn udp_client(address: SocketAddr, count: usize) {
    let any: SocketAddr = if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" }.parse().unwrap();
    let socket = UdpSocket::bind(any).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    socket.connect(address).unwrap();
    let mut data = [0; 65_536];
    for i in 0..count {
        // From empty to sizes that must be fragmented.
        let message = vec![i as u8; i * 20_000 / count.max(1)];
        socket.send(&message).unwrap();
        let n = socket.recv(&mut data).unwrap();
        assert_eq!(&data[..n], message);
    }
    println!("ok");
}

/// Echoes to the end of the stream, after a first word.
fn echo(mut stream: TcpStream, word: &str) {
    let mut data = [0; 65_536];
    stream.write_all(format!("{word}:").as_bytes()).unwrap();
    loop {
        match stream.read(&mut data).unwrap() {
            0 => break,
            n => stream.write_all(&data[..n]).unwrap(),
        }
    }
}

fn fork() -> i32 {
    // SAFETY: this program has one thread.
    unsafe { libc::fork() }
}

fn wait_for(child: i32) {
    let mut status = 0;
    // SAFETY: waits for a child of ours.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!(status, 0, "the child failed");
}

/// One process per connection; with `exec` another program per connection.
fn fork_server(address: SocketAddr, count: usize, exec: bool) {
    let listener = TcpListener::bind(address).unwrap();
    println!("ready");
    let mut children = Vec::new();
    for _ in 0..count {
        let (stream, _) = listener.accept().unwrap();
        let child = fork();
        if child == 0 {
            drop(listener);
            if exec {
                let fd = stream.as_raw_fd();
                // SAFETY: plain numbers; clears close-on-exec.
                unsafe { libc::fcntl(fd, libc::F_SETFD, 0) };
                let me = std::env::current_exe().unwrap();
                let error = Command::new(me).args(["serve-descriptor", &fd.to_string()]).exec();
                panic!("exec failed: {error}");
            }
            echo(stream, "fork");
            return;
        }
        children.push(child);
    }
    children.into_iter().for_each(wait_for);
    println!("done");
}

/// Two processes that accept from one listener, opened before either was forked.
fn prefork_server(address: SocketAddr, count: usize) {
    let listener = TcpListener::bind(address).unwrap();
    let children: Vec<i32> = (0..2)
        .map(|_| {
            let child = fork();
            if child == 0 {
                for _ in 0..count / 2 {
                    echo(listener.accept().unwrap().0, "worker");
                }
                std::process::exit(0);
            }
            child
        })
        .collect();
    println!("ready");
    children.into_iter().for_each(wait_for);
    println!("done");
}

fn client(address: SocketAddr, count: usize) {
    let words: Vec<String> = (0..count)
        .map(|i| {
            let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(5)).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
            let message: Vec<u8> = (0..100_000 * i + 10).map(|n| n as u8).collect();
            let mut reader = stream.try_clone().unwrap();
            let answer = std::thread::spawn(move || {
                let mut answer = Vec::new();
                reader.read_to_end(&mut answer).unwrap();
                answer
            });
            stream.write_all(&message).unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
            let answer = answer.join().unwrap();
            let colon = answer.iter().position(|&b| b == b':').unwrap();
            assert_eq!(answer[colon + 1..], message);
            String::from_utf8(answer[..colon].to_vec()).unwrap()
        })
        .collect();
    println!("ok {}", words.join(" "));
}
